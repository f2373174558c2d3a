package filter

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/rocev2"
)

// A Fast CNP in each encapsulation: whether a border sees it, whether it drops the tunnel with DropTunnels, and whether
// the programs and rules of the kernel do. The headers are those of the documents that define the encapsulations.
func TestEncapsulatedFastCNPs(t *testing.T) {
	const (
		macs = `020000000002 020000000001`
		// Destination Options with option 1, UDP to 4791, a CNP
		payload = `11029e10 20010db8000400000000000000000014 01020000` +
			`c00012b700280000 8100ffff4000001100000000` + `00000000000000000000000000000000 00000000`
	)
	fastCNP := v6(`3c`, payload)
	ethernet := macs + `86dd` + fastCNP
	udp := func(port, payload string) string {
		return v4(`0000`, `c000`+port+length(payload+`0000000000000000`)+`0000`+payload)
	}
	protocol := func(p, payload string) string {
		b := v4(`0000`, payload)
		return b[:18] + p + b[20:]
	}
	v6in := func(depth int) string {
		p := fastCNP
		for range depth {
			p = v6(`29`, p)
		}
		return p
	}
	fragment := v6(`2c`, `32000001 0000002a`+`00000001 00000001`+payload) // the first, of ESP
	for _, c := range []struct {
		name, packet     string
		seen, drop, rule bool // seen: dropped as a Fast CNP; drop: with DropTunnels; rule: by the kernel by default
	}{
		{"plain", fastCNP, true, true, true},
		{"6in4", protocol(`29`, fastCNP), true, true, true},
		{"IP in IP twice", v6in(2), true, true, true},
		{"five IPv6 headers deep", v6in(5), false, true, true},
		{"GRE", protocol(`2f`, `000086dd`+fastCNP), true, true, true},
		{"GRE with key", protocol(`2f`, `200086dd00000007`+fastCNP), true, true, true},
		{"GRE TEB", protocol(`2f`, `00006558`+ethernet), true, true, true},
		{"VXLAN 4789", udp(`12b5`, `0800000000000700`+ethernet), true, true, true},
		{"VXLAN 4789, inner tag", udp(`12b5`, `0800000000000700`+macs+`81000065 86dd`+fastCNP), true, true, true},
		{"VXLAN 8472", udp(`2118`, `0800000000000700`+ethernet), true, true, true},
		{"VXLAN-GPE", udp(`12b6`, `0c00000200000700`+fastCNP), true, true, true},
		{"Geneve", udp(`17c1`, `0000655800000700`+ethernet), true, true, true},
		{"MPLS in UDP", udp(`19eb`, `00010140`+fastCNP), true, true, true},
		{"MPLS in IP", protocol(`89`, `00010140`+fastCNP), true, true, true},
		{"GUE", udp(`17c0`, `00290000`+fastCNP), true, true, true},
		{"GTP-U", udp(`0868`, `30ff`+length(fastCNP)+`00000007`+fastCNP), true, true, true},
		{"L2TPv3", protocol(`73`, `00000007`+ethernet), false, true, false},
		{"EtherIP", protocol(`61`, `3000`+ethernet), false, true, false},
		{"SRv6 with Ethernet", v6(`8f`, ethernet), true, true, true},
		{"Teredo", udp(`0dd8`, fastCNP), false, true, false},
		{"AMT", udp(`08dc`, `0600`+fastCNP), false, true, false},
		{"FOU on a port of its own", udp(`15b3`, fastCNP), false, true, true}, // TunnelPorts
		{"ESP with null encryption", protocol(`32`, `0000000100000001`+fastCNP+`01020229`), false, true, false},
		{"a fragment of ESP", fragment, false, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			ip := wiretest.Hex(t, c.packet)
			frame := append(wiretest.Hex(t, macs+`0800`), ip...)
			if ip[0]>>4 == 6 {
				frame[12], frame[13] = 0x86, 0xdd
			}
			for _, tunnels := range []bool{false, true} {
				b := pinned(Border{DropTunnels: tunnels, TunnelPorts: []uint16{5555}})
				kind, drop := b.Match(framed(frame, rocev2.DecodeOptions{}))
				require.Equal(t, c.seen, kind == message.KindFastCNP)
				require.Equal(t, c.seen || tunnels && c.drop, drop)
				program, err := b.Program(rocev2.LinkEthernet)
				verdict := wiretest.Must(machine(t, program, err).Run(frame))(t)
				require.Equal(t, c.seen || c.rule || tunnels, verdict != 0, "by the program")
			}
		})
	}
}

// A filter for flows selects tunnels to the ports, and frames with the CSIG tags, that a network uses.
func TestFlowsInOwnEncapsulations(t *testing.T) {
	const (
		macs = `020000000002 020000000001`
		udp  = `4500001c 00000000 40110000 c0000201 c0000202` // 8 octets of UDP
	)
	own := &rocev2.Encapsulations{VXLANPorts: []uint16{5000, 4789}, FOUPorts: []uint16{5555}, CSIGTPID: 0x9902}
	for _, c := range []struct {
		name, frame   string
		standard, own bool
	}{
		{"VXLAN on port 4789", macs + `0800` + udp + `c000 12b5 0008 0000`, true, true},
		{"VXLAN on port 5000", macs + `0800` + udp + `c000 1388 0008 0000`, false, true},
		{"FOU on port 5555", macs + `0800` + udp + `c000 15b3 0008 0000`, false, true},
		{"port 5001", macs + `0800` + udp + `c000 1389 0008 0000`, false, false},
		{"CSIG tag 0x9900", macs + `9900 0000 0800` + udp + `c000 1389 0008 0000`, true, true},
		{"CSIG tag 0x9902", macs + `9902 0000 0800` + udp + `c000 1389 0008 0000`, false, true},
		{"CSIG tag 0x9902 after a VLAN tag", macs + `8100 0003 9902 0000 0800` + udp + `c000 1389 0008 0000`, false,
			true},
	} {
		t.Run(c.name, func(t *testing.T) {
			frame := wiretest.Hex(t, c.frame)
			for _, row := range []struct {
				encapsulations *rocev2.Encapsulations
				want           bool
			}{{nil, c.standard}, {own, c.own}} {
				f := Capture{Selection: Flows, Encapsulations: row.encapsulations}
				program, err := f.Program(rocev2.LinkEthernet)
				verdict := wiretest.Must(machine(t, program, err).Run(frame))(t)
				require.Equal(t, row.want, verdict != 0)
			}
		})
	}
}

// Rules of the kernel have the protocols and ports of the tunnels that they drop.
func TestTunnelRules(t *testing.T) {
	b := Border{DropTunnels: true, TunnelProtocols: []uint8{94}, TunnelPorts: []uint16{5555}}
	for _, rules := range []string{b.NFT("rocecn"), b.IP6Tables("FORWARD")} {
		for _, want := range []string{"50", "51", "97", "115", "94", "1701", "2268", "3544", "4500", "5555"} {
			require.Contains(t, rules, want)
		}
	}
	b.DropTunnels = false
	require.NotContains(t, b.NFT("rocecn"), "3544")
	require.Contains(t, b.NFT("rocecn"), "5555")
}
