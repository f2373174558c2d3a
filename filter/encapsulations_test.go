package filter

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/rocev2"
)

// A border and its program drop the Fast CNPs in each encapsulation that they are documented to drop.
func TestEncapsulatedFastCNPs(t *testing.T) {
	for _, c := range wiretest.EncapsulatedFastCNPs(t) {
		t.Run(c.Name, func(t *testing.T) {
			frame := append(wiretest.Hex(t, `020000000002 020000000001 0800`), c.IP...)
			if c.IP[0]>>4 == 6 {
				frame[12], frame[13] = 0x86, 0xdd
			}
			for _, tunnels := range []bool{false, true} {
				b := pinned(Border{DropTunnels: tunnels, TunnelPorts: []uint16{5555}})
				kind, drop := b.Match(framed(frame, rocev2.DecodeOptions{}))
				require.Equal(t, c.Border, kind == message.KindFastCNP)
				require.Equal(t, c.Border || tunnels && c.All, drop)
				program, err := b.Program(rocev2.LinkEthernet)
				verdict := wiretest.Must(machine(t, program, err).Run(frame))(t)
				require.Equal(t, c.Rules || tunnels && c.All, verdict != 0, "by the program")
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
