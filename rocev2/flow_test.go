package rocev2

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// Packets for the tunnels: two RoCEv2 packets (60 and 64 octets), the start of
// a TCP segment (24) and an ICMPv6 echo request (48).
const (
	cnp4 = `45c2003c718c400040119161 0a001101 0a001201
		000012b700280000
		8100ffff 40000118 00000000 00000000000000000000000000000000 82fd002a`
	send = `6681234500181140 fd770000000000000000000000000002 fd770000000000000000000000000001` + rc
	rc   = `e34112b700180000 0400ffff 00000011 80fffff0 4b69f6c2`
	tcp  = `45000018000040004006055e 0a001101 0a001201 c0010c43`
	echo = `6005432100083a40 fd770000000000000000000000000002 fd770000000000000000000000000001
		80006e4b00010001`
)

var (
	cnp4Flow = Flow{FiveTuple: FiveTuple{addr("10.0.17.1"), addr("10.0.18.1"), 17, 0, 4791}}
	sendFlow = Flow{FiveTuple: FiveTuple{addr("fd77::2"), addr("fd77::1"), 17, 0xE341, 4791}, FlowLabel: 0x12345}
	tcpFlow  = Flow{FiveTuple: FiveTuple{addr("10.0.17.1"), addr("10.0.18.1"), 6, 0xC001, 3139}}
	echoFlow = Flow{FiveTuple: FiveTuple{addr("fd77::2"), addr("fd77::1"), 58, 0, 0}, FlowLabel: 0x54321}
)

// Pieces of tunnel headers.
const (
	macs   = `020000000001 020000000002 `
	nodes  = ` 20010db8000000000000000000000001 20010db8000000000000000000000002 `
	node2  = ` 20010db8000000000000000000000002 `
	node3  = ` 20010db8000000000000000000000003 `
	sites  = ` c0000201 c0000202 `
	vni42  = ` 0800000000002a00 `
	toVTEP = `450000720000000040110000` + sites + `c00112b5005e0000` + vni42 + macs + `86dd` // around send
)

// flows are frames in three parts: the link-layer header and MPLS labels before the outermost IP header, the headers of
// the tunnels, and the packet of the flow itself.
var flows = []struct {
	name, tunnels      string
	link, tunnel, flow string
	want               Flow
}{
	{"IPv4", "", macs + `0800`, ``, cnp4, cnp4Flow},
	{"IPv6", "", macs + `86dd`, ``, send, sendFlow},
	{"TCP", "", macs + `81002007 0800`, ``, tcp, tcpFlow},
	{"ICMPv6", "", macs + `86dd`, ``, echo, echoFlow},
	{"SRv6 without encapsulation, Segments Left 1", "", macs + `86dd`, ``,
		`6681234500402b40 fd770000000000000000000000000002` + node2 +
			`1104040101000000 fd770000000000000000000000000001` + node2 + rc, sendFlow},
	{"SRv6 without encapsulation, Segments Left 0", "", macs + `86dd`, ``,
		`6681234500402b40 fd770000000000000000000000000002 fd770000000000000000000000000001
			1104040001000000 fd770000000000000000000000000001` + node2 + rc, sendFlow},

	{"IPv4 in IPv6", "", macs + `86dd`, `602beef5003c0440` + nodes, cnp4, cnp4Flow},
	{"IPv6 in IPv4", "", macs + `0800`, `450000540000000040290000` + sites, send, sendFlow},
	{"TCP in IPv4 in IPv4", "", macs + `0800`, `4500002c0000000040040000` + sites, tcp, tcpFlow},
	{"ICMPv6 in IPv6", "", macs + `86dd`, `602beef500302940` + nodes, echo, echoFlow},
	{"IP in IP, 4 deep", "", macs + `86dd`, `6000000000902940` + nodes + `6000000000680440` + nodes +
		`450000680000000040040000` + sites + `450000540000000040290000` + sites, send, sendFlow},

	{"IPv6 in SRv6, Segments Left 1", "srv6", macs + `86dd`,
		`602beef500682b40` + nodes + `2904040101000000` + node3 + node2, send, sendFlow},
	{"IPv4 in SRv6", "srv6", macs + `86dd`, `602beef500542b40` + nodes + `0402040000000000` + node2, cnp4, cnp4Flow},
	{"Ethernet with 802.1Q in SRv6", "srv6", macs + `86dd`,
		`602beef500662b40` + nodes + `8f02040000000000` + node2 + macs + `81002007 0800`, cnp4, cnp4Flow},

	{"VXLAN over IPv4", "vxlan", macs + `0800`, toVTEP, send, sendFlow},
	{"802.1Q in VXLAN over IPv6", "vxlan", macs + `86dd`,
		`602beef5005e1140` + nodes + `c00112b5005e0000` + vni42 + macs + `81002007 0800`, cnp4, cnp4Flow},
	{"TCP, two tags in VXLAN over IPv6", "vxlan", macs + `86dd`,
		`602beef5003e1140` + nodes + `c00112b5003e0000` + vni42 + macs + `88a82009 81002007 0800`, tcp, tcpFlow},

	{"one MPLS label", "mpls", macs + `8847 3e801140`, ``, cnp4, cnp4Flow},
	{"three MPLS labels, IPv6", "mpls", macs + `8847 3e800040 3e801040 0000213f`, ``, send, sendFlow},
	{"MPLS after a tag, EtherType 8848", "mpls", macs + `81002007 8848 3e801140`, ``, send, sendFlow},
	{"VXLAN below MPLS", "mpls vxlan", macs + `8847 3e800040 0000013f`, toVTEP, send, sendFlow},
	{"MPLS in VXLAN", "vxlan mpls", macs + `0800`,
		`450000720000000040110000` + sites + `c00112b5005e0000` + vni42 + macs + `8847 3e801140`, cnp4, cnp4Flow},
	{"MPLS in UDP", "mpls", macs + `0800`, `450000600000000040110000` + sites + `c00119eb004c0000 3e801140`, send,
		sendFlow},
	{"MPLS in IPv6", "mpls", macs + `86dd`, `602beef500448940` + nodes + `3e801040 00000140`, cnp4, cnp4Flow},

	{"GRE", "gre", macs + `0800`, `4500005400000000402f0000` + sites + `00000800`, cnp4, cnp4Flow},
	{"GRE with checksum, key and sequence number", "gre", macs + `86dd`,
		`602beef500502f40` + nodes + `b00086dd 00000000 00000007 00000001`, send, sendFlow},
	{"Ethernet in GRE with key", "gre", macs + `0800`,
		`4500006600000000402f0000` + sites + `20006558 00002a00` + macs + `0800`, cnp4, cnp4Flow},
	{"MPLS in GRE", "gre mpls", macs + `0800`, `4500005800000000402f0000` + sites + `00008847 3e801140`, cnp4,
		cnp4Flow},

	{"GRE in VXLAN in SRv6 in IPv4 below MPLS", "mpls vxlan gre", macs + `8847 3e801140`,
		`450000c60000000040290000` + sites +
			`602beef5008a2b40` + nodes + `1102040000000000` + node2 + `c00112b500720000` + vni42 + macs + `0800` +
			`4500005400000000402f0000` + sites + `00000800`, cnp4, cnp4Flow},

	{"ERSPAN type I", "erspan1", macs + `0800`, `4500006200000000402f0000` + sites + `000088be` + macs + `0800`, cnp4,
		cnp4Flow},
	{"ERSPAN type II", "erspan2", macs + `0800`,
		`4500006e00000000402f0000` + sites + `100088be 00000001 12c86005 000000a2` + macs + `0800`, cnp4, cnp4Flow},
	{"ERSPAN type II with a tag, key, over IPv6", "erspan2", macs + `86dd`,
		`602beef500662f40` + nodes + `300088be 0000002a 00000001 12c86005 000000a2` + macs + `81002007 86dd`, send,
		sendFlow},
	{"ERSPAN type III", "erspan3", macs + `0800`,
		`4500007200000000402f0000` + sites + `100022eb 00000001 22c86005 01020304 0007 8008` + macs + `0800`, cnp4,
		cnp4Flow},
	{"ERSPAN type III with a subheader", "erspan3", macs + `0800`,
		`4500007a00000000402f0000` + sites + `100022eb 00000001 22c86005 01020304 0007 8009 0c00000011223344` + macs +
			`0800`, cnp4, cnp4Flow},
	{"ERSPAN type III, an IP packet", "erspan3", macs + `0800`,
		`4500006400000000402f0000` + sites + `100022eb 00000001 22c86005 01020304 0007 0808`, cnp4, cnp4Flow},
	{"VXLAN in ERSPAN", "erspan2 vxlan", macs + `0800`,
		`450000a400000000402f0000` + sites + `100088be 00000001 10000000 00000000` + macs + `0800` + toVTEP, send,
		sendFlow},
	{"ERSPAN of MPLS", "erspan2 mpls", macs + `0800`,
		`4500007200000000402f0000` + sites + `100088be 00000001 10000000 00000000` + macs + `8847 3e801140`, cnp4,
		cnp4Flow},

	{"Geneve", "geneve", macs + `0800`, `450000720000000040110000` + sites + `c00117c1005e0000 0000655800002a00` +
		macs + `86dd`, send, sendFlow},
	{"Geneve with options, over IPv6", "geneve", macs + `86dd`,
		`602beef5006a1140` + nodes + `c00117c1006a0000 0340655800002a00 010480020000000099aabbcc` + macs +
			`81002007 0800`, cnp4, cnp4Flow},
	{"IPv4 in Geneve", "geneve", macs + `0800`,
		`450000600000000040110000` + sites + `c00117c1004c0000 0000080000002a00`, cnp4, cnp4Flow},
	{"IPv6 in Geneve", "geneve", macs + `0800`,
		`450000640000000040110000` + sites + `c00117c100500000 000086dd00002a00`, send, sendFlow},

	{"mirror of NVIDIA Spectrum", "gre-8949", macs + `0800`, `4500007800000000402f0000` + sites + `00008949` +
		`000102030405060708090a0b0c0d0e0f101112131415` + macs + `0800`, cnp4, cnp4Flow},
	{"mirror of NVIDIA Spectrum over IPv6, of VXLAN", "gre-8949 vxlan", macs + `86dd`, `602beef5009a2f40` + nodes +
		`00008949 00000000000000000000000000000000000000000000` + macs + `0800` + toVTEP, send, sendFlow},
	{"VXLAN to 8472", "vxlan", macs + `0800`, `4500006e0000000040110000` + sites + `c0012118005a0000` + vni42 + macs +
		`0800`, cnp4, cnp4Flow},
	{"IPv6 in VXLAN-GPE", "vxlan-gpe", macs + `0800`,
		`450000640000000040110000` + sites + `c00112b600500000 0c000002 00002a00`, send, sendFlow},
	{"IPv4 in VXLAN-GPE", "vxlan-gpe", macs + `0800`,
		`450000600000000040110000` + sites + `c00112b6004c0000 0c000001 00002a00`, cnp4, cnp4Flow},
	{"Ethernet in VXLAN-GPE", "vxlan-gpe", macs + `0800`,
		`4500006e0000000040110000` + sites + `c00112b6005a0000 0c000003 00002a00` + macs + `0800`, cnp4, cnp4Flow},
	{"VXLAN-GPE without Next Protocol", "vxlan-gpe", macs + `0800`,
		`4500006e0000000040110000` + sites + `c00112b6005a0000 08000000 00002a00` + macs + `0800`, cnp4, cnp4Flow},
	{"GTP-U", "gtpu", macs + `0800`, `450000600000000040110000` + sites + `c0010868004c0000 30ff003c 00000001`, cnp4,
		cnp4Flow},
	{"GTP-U with a sequence number and an extension header", "gtpu", macs + `0800`, `4500006c0000000040110000` + sites +
		`c001086800580000 36ff0048 00000001 00010085 01100900`, send, sendFlow},
	{"Ethernet in GTP-U over IPv6", "gtpu", macs + `86dd`, `602beef5005a1140` + nodes +
		`c0010868005a0000 30ff004a 00000001` + macs + `0800`, cnp4, cnp4Flow},
	{"IPv4 in GUE", "gue", macs + `0800`, `4500005c0000000040110000` + sites + `c00117c000480000 00040000`, cnp4,
		cnp4Flow},
	{"Ethernet in GUE with options", "gue", macs + `0800`, `450000760000000040110000` + sites +
		`c00117c000620000 028f0000 0102030405060708` + macs + `86dd`, send, sendFlow},
	{"IPv6 in GUE of version 1", "gue", macs + `0800`, `4500005c0000000040110000` + sites + `c00117c000480000`, send,
		sendFlow},
	{"Arista timestamp of 64 bits", "", macs + `d28b 0001 0010 6924810000000000 0800`, ``, cnp4, cnp4Flow},
	{"Arista timestamp of 64 bits, version 0x11", "", macs + `d28b 0001 0011 6924810000002710 86dd`, ``, send,
		sendFlow},
	{"Arista timestamp of 48 bits before a tag", "", macs + `d28b 0001 0020 810000004e20 81002007 86dd`, ``, send,
		sendFlow},
	{"CSIG tag after a VLAN tag", "", macs + `81002007 9900b4a5 0800`, ``, cnp4, cnp4Flow},
	{"CSIG tag in VXLAN", "vxlan", macs + `0800`,
		`450000720000000040110000` + sites + `c00112b5005e0000` + vni42 + macs + `9900b4a5 0800`, cnp4, cnp4Flow},

	{"pseudowire with control word", "mpls", macs + `8847 3e801140 00000000` + macs + `0800`, ``, cnp4, cnp4Flow},
	{"pseudowire with a sequence number, a tag", "mpls",
		macs + `8847 3e800040 3e801140 00001234` + macs + `81002007 86dd`, ``, send, sendFlow},
	{"pseudowire without control word", "mpls", macs + `8847 3e801140` + macs + `0800`, ``, cnp4, cnp4Flow},
	{"pseudowire without control word to 44:…", "mpls", macs + `8847 3e801140 441122334455 020000000002 86dd`, ``, send,
		sendFlow},
	{"pseudowire without control word to 48:…, as a fragment of IPv4 begins", "mpls",
		macs + `8847 3e801140 48b02d111111 48b02d222222 86dd`, ``, send, sendFlow},
	{"pseudowire without control word to 66:…", "mpls", macs + `8847 3e801140 661122334455 020000000002 0800`, ``, cnp4,
		cnp4Flow},
	{"pseudowire without control word to 12:…", "mpls", macs + `8847 3e801140 121122334455 020000000002 0800`, ``, cnp4,
		cnp4Flow},
	{"labels in a pseudowire", "mpls mpls", macs + `8847 3e801140 00000000` + macs + `8847 3e801140`, ``, cnp4,
		cnp4Flow},
	{"pseudowire in GRE", "gre mpls", macs + `0800`,
		`4500006a00000000402f0000` + sites + `00008847 3e801140 00000000` + macs + `0800`, cnp4, cnp4Flow},
	{"SRv6 without encapsulation, inside IPv6, TCP", "", macs + `86dd`, `602beef500442940` + nodes,
		`60012345001c2b40 fd770000000000000000000000000002` + node2 +
			`0602040100000000 fd770000000000000000000000000001 c0010c43`,
		Flow{FiveTuple: FiveTuple{addr("fd77::2"), addr("fd77::1"), 6, 0xC001, 3139}, FlowLabel: 0x12345}},
	{"SRv6 in IPv6 in SRv6", "srv6 srv6", macs + `86dd`,
		`602beef500bc2b40` + nodes + `2902040000000000` + node2 + `602beef5007c2940` + nodes +
			`602beef500542b40` + nodes + `0402040000000000` + node2, cnp4, cnp4Flow},
	{"Geneve in IPv6, Segment Routing header without encapsulation", "geneve", macs + `86dd`,
		`602beef500762b40` + nodes + `1102040000000000` + node2 + `c00117c1005e0000 0000655800002a00` + macs + `86dd`,
		send, sendFlow},
}

func TestFlow(t *testing.T) {
	for _, c := range flows {
		t.Run(c.name, func(t *testing.T) {
			link, tunnel, flow := wiretest.Hex(t, c.link), wiretest.Hex(t, c.tunnel), wiretest.Hex(t, c.flow)
			frame := slices.Concat(link, tunnel, flow)
			c.want.Outermost, c.want.IP = frame[len(link):], flow
			var f Flow
			require.NoError(t, f.DecodeEthernet(append(frame, 0xEE, 0xEE))) // Ethernet padding
			require.Equal(t, c.tunnels, f.Tunnels.String())
			c.want.Tunnels = f.Tunnels
			require.Equal(t, c.want, f)
			var again Flow // without the labels before the outermost packet
			require.NoError(t, again.DecodeIP(f.Outermost))
			require.Equal(t, c.want.FiveTuple, again.FiveTuple)
			require.Equal(t, c.want.IP, again.IP)
			wiretest.NoAllocs(t, "Decode", func() { _ = f.DecodeEthernet(frame) })

			whole, bthEnd := f, len(frame)
			switch {
			case f.DstPort != Port:
			case flow[0] == 0x45: // of cnp4: 16 reserved octets and the ICRC follow
				bthEnd -= 20
			default:
				bthEnd -= 4
			}
			wiretest.Prefixes(t, frame[:bthEnd], func(b []byte) error {
				err := f.DecodeEthernet(b)
				require.Equal(t, whole, f)
				return err
			})
			for n := bthEnd; n < len(frame); n++ { // as a network device cuts frames
				var f Flow
				require.NoError(t, f.DecodeEthernet(frame[:n:n]), "%d octets", n)
				require.Equal(t, c.want.FiveTuple, f.FiveTuple)
			}
			// The flow is known if the ports are there (D13).
			ports := len(frame) - len(flow) + map[uint8]int{6: len(flow), 17: len(flow) - 16, 58: 40}[f.Protocol]
			if flow[0] == 0x45 && f.Protocol == 17 {
				ports = len(frame) - len(flow) + 28
			}
			for n := range frame {
				var f Flow
				err := f.Decode(frame[:n:n], DecodeOptions{AllowTruncated: true})
				if n < ports {
					require.ErrorIs(t, err, wireerr.Truncated, "%d octets", n)
					require.Equal(t, Flow{}, f)
					continue
				}
				require.NoError(t, err, "%d octets", n)
				require.Equal(t, whole.FiveTuple, f.FiveTuple)
				require.Equal(t, whole.FlowLabel, f.FlowLabel)
				require.Equal(t, frame[len(frame)-len(flow):n], f.IP)
			}
		})
	}
}

// unreadByTshark are encapsulations that tshark 4.0 does not read.
var unreadByTshark = []string{
	"mirror of NVIDIA Spectrum", "mirror of NVIDIA Spectrum over IPv6, of VXLAN", "VXLAN to 8472",
	"VXLAN-GPE without Next Protocol", "IPv4 in GUE", "Ethernet in GUE with options", "IPv6 in GUE of version 1",
	"Arista timestamp of 64 bits, version 0x11", "CSIG tag after a VLAN tag", "CSIG tag in VXLAN",
}

// tshark finds the same innermost packets.
func TestFlowTshark(t *testing.T) {
	t.Parallel()
	var frames [][]byte
	for _, c := range flows {
		frames = append(frames, wiretest.Hex(t, c.link+c.tunnel+c.flow))
	}
	for i, row := range wiretest.Tshark(t, frames...) {
		c := flows[i]
		if strings.HasPrefix(c.name, "SRv6 without") {
			continue // it shows the address of the IPv6 header
		}
		if c.name == "ERSPAN type III, an IP packet" || strings.Contains(c.name, "pseudowire") {
			continue // it does not look at the frame type; see TestPseudowireTshark
		}
		if slices.Contains(unreadByTshark, c.name) {
			continue
		}
		last := func(field string) string {
			all := row.All(field)
			return all[len(all)-1]
		}
		family := "ip"
		if c.want.Src.Is6() {
			family = "ipv6"
		}
		require.Equal(t, c.want.Src.String(), last(family+".src"), c.name)
		require.Equal(t, c.want.Dst.String(), last(family+".dst"), c.name)
		if c.want.Protocol == 17 {
			require.Equal(t, "4791", last("udp.dstport"), c.name)
			require.True(t, row.Has("infiniband.bth"), c.name)
		}
	}
}

// tshark finds the same flows in pseudowires if rules give the payload of each label.
func TestPseudowireTshark(t *testing.T) {
	t.Parallel()
	var frames [][]byte
	var wanted []Flow
	for _, c := range flows {
		if !strings.Contains(c.name, "pseudowire") {
			continue
		}
		frame := c.link + c.tunnel + c.flow
		if strings.Contains(c.name, "without") {
			frame = strings.Replace(frame, "3e801140", "3e802140", 1)
		}
		frames, wanted = append(frames, wiretest.Hex(t, frame)), append(wanted, c.want)
	}
	require.Len(t, frames, 9)
	rules := []string{fmt.Sprintf("mpls.label==%d,pwethcw", 0x3E801), fmt.Sprintf("mpls.label==%d,pwethnocw", 0x3E802)}
	for i, row := range wiretest.TsharkAs(t, rules, []string{"ip.src", "ipv6.src", "udp.dstport"}, frames...) {
		field := "ip.src"
		if wanted[i].Src.Is6() {
			field = "ipv6.src"
		}
		all := row.All(field)
		require.NotEmpty(t, all, "%x", frames[i])
		require.Equal(t, wanted[i].Src.String(), all[len(all)-1])
		require.Equal(t, "4791", row.Get("udp.dstport"))
	}
}

// If the octets after the labels can be read as a frame both with and without a control word, their first 16 bits
// decide: they are 0 in a control word.
func TestEitherPseudowire(t *testing.T) {
	for _, c := range []struct {
		name, below string
		src         string
	}{
		{"control word, source address like EtherType and version", `00000000 020000000002 020008004500 0800` + cnp4,
			"10.0.17.1"},
		{"none, Total Length and ID like EtherType and version",
			macs + `0800 45000800450040004011 0000 c0000201 c0000202 c00112b707ec0000`, "192.0.2.1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var f Flow
			require.NoError(t, f.Decode(wiretest.Hex(t, macs+`8847 3e801140`+c.below),
				DecodeOptions{AllowTruncated: true}))
			require.Equal(t, addr(c.src), f.Src)
		})
	}
}

// Every UDP packet of every capture has the flow that its Datagram has. No packet of these captures is in a tunnel that
// Datagram.Decode does not enter.
func TestFlowOfCaptures(t *testing.T) {
	for _, name := range wiretest.Captures(t, "*.pcap") {
		for _, c := range wiretest.Capture(t, name) {
			var f Flow
			var d Datagram
			o := DecodeOptions{AllowTruncated: len(c.Data) < c.OrigLen}
			if d.Decode(c.Data, o) != nil {
				continue
			}
			require.NoError(t, f.Decode(c.Data, o), "%s %d", name, c.Number)
			require.Equal(t, Flow{
				FiveTuple: FiveTuple{d.Src, d.Dst, 17, d.SrcPort, d.DstPort}, FlowLabel: d.FlowLabel,
				Outermost: c.Data[len(d.Link):][:len(d.Outer)+len(d.IP)], IP: d.IP,
			}, f, "%s %d", name, c.Number)
		}
	}
}

// Packets that consist of an IP header only.
func TestFlowOfHeaders(t *testing.T) {
	var f Flow
	require.NoError(t, f.DecodeIP(wiretest.Hex(t, `4500001400000000403b0000`+sites)))
	require.Equal(t, FiveTuple{addr("192.0.2.1"), addr("192.0.2.2"), 59, 0, 0}, f.FiveTuple)
	require.NoError(t, f.DecodeIP(wiretest.Hex(t, `6000000000003b40`+nodes)))
	require.Equal(t, FiveTuple{addr("2001:db8::1"), addr("2001:db8::2"), 59, 0, 0}, f.FiveTuple)
}

func TestNoFlow(t *testing.T) {
	with := func(s string, at int, octets ...byte) []byte {
		b := wiretest.Hex(t, s)
		copy(b[at:], octets)
		return b
	}
	// nested puts an innermost packet into n tunnels with this header, which begins with an IPv4 header.
	nested := func(n int, header, innermost string) []byte {
		b := wiretest.Hex(t, innermost)
		for range n {
			h := wiretest.Hex(t, header)
			total := len(h) + len(b)
			be.PutUint16(h[2:], uint16(total))
			if len(h) > 24 { // UDP
				be.PutUint16(h[24:], uint16(total-20))
			}
			b = append(h, b...)
		}
		return b
	}
	const (
		inIP     = `450000000000000040040000` + sites
		inVXLAN  = `450000000000000040110000` + sites + `c00112b500000000` + vni42 + macs + `0800`
		inGRE    = `4500000000000000402f0000` + sites + `00000800`
		inGeneve = `450000600000000040110000` + sites + `c00117c1004c0000 0000080000002a00`
	)
	for _, c := range []struct {
		name  string
		frame []byte
		ip    []byte
		err   error
	}{
		{name: "nothing", ip: []byte{}, err: errIPv4Header},
		{name: "ARP", frame: with(macs+`0806`+cnp4, 0), err: errNotIP},
		{name: "More Fragments", ip: with(cnp4, 6, 0x20, 0), err: ErrFragment},
		{name: "later fragment", ip: with(cnp4, 6, 0, 1), err: ErrFragment},
		{name: "IPv6 fragment", ip: wrap(wire.ProtoFragment, append(extension(17), wiretest.Hex(t, send)[40:]...)),
			err: ErrFragment},
		{name: "fragment in IPv6", ip: wrap(wire.ProtoIPv4, with(cnp4, 6, 0, 1)), err: ErrFragment},
		{name: "UDP length 7", ip: with(cnp4, 24, 0, 7), err: errUDPLength},
		{name: "UDP length beyond IP", ip: with(cnp4, 24, 0, 41), err: errUDPBeyondIP},
		{name: "Total Length beyond the octets, 19 of UDP", ip: with(cnp4[:len(cnp4)-44], 2, 0, 60), err: errIPLength},
		{name: "TCP, Total Length beyond the octets", ip: with(tcp, 2, 0, 41), err: errIPLength},
		{
			name: "inner packet longer than the outer one", ip: wrap(wire.ProtoIPv4, with(cnp4, 2, 0, 61)),
			err: errIPLength,
		},
		{name: "inner packet longer than the UDP datagram around it", ip: with(toVTEP+send, 24, 0, 0x5D),
			err: errIPLength},
		{name: "3 octets of TCP", ip: with(tcp, 2, 0, 23), err: errTCPHeader},

		{name: "VXLAN, I flag 0", ip: with(toVTEP+send, 28, 0xF7), err: errVNI},
		{name: "VXLAN, UDP length 15", ip: with(toVTEP+send, 24, 0, 15), err: errVXLAN},
		{name: "VXLAN, no space for Ethernet", ip: with(toVTEP+send, 24, 0, 29), err: errFrame},
		{name: "ARP in VXLAN", ip: with(toVTEP+send, 48, 0x08, 0x06), err: errNotIP},
		{name: "ARP in Ethernet in IPv6", ip: wrap(wire.ProtoEthernet, with(macs+`0806`+cnp4, 0)), err: errNotIP},
		{name: "label stack without bottom", frame: append(with(macs+`8847`, 0),
			bytes.Repeat([]byte{0x3E, 0x80, 0x00, 0x40}, 2000)...), err: errLabels},
		{name: "nothing below the labels", frame: with(macs+`8847 3e801140`, 0), err: errLabels},
		{name: "OAM below the labels", frame: with(macs+`8847 3e801140 10000007`+cnp4, 0), err: errLabelled},
		{name: "ARP in a pseudowire", frame: with(macs+`8847 3e801140 00000000`+macs+`0806`+cnp4, 0), err: errLabelled},
		{name: "version that the frame in a pseudowire does not announce",
			frame: with(macs+`8847 3e801140 00000000`+macs+`86dd`+cnp4, 0), err: errLabelled},
		{name: "IP below the labels that lies", frame: with(macs+`8847 3e801140`+tcp, 20, 0, 61), err: errIPLength},
		{name: "pseudowires in each other", frame: append(bytes.Repeat(with(macs+`8847 3e801140 00000000`, 0), 100),
			with(macs+`0800`+cnp4, 0)...), err: errTunnels},
		{name: "labels in labels", frame: append(bytes.Repeat(with(macs+`8847 3e801140`, 0), 1000),
			with(macs+`0800`+cnp4, 0)...), err: errTunnels},
		{name: "SRv6 in labels in labels", frame: append(bytes.Repeat(with(macs+`8847 3e801140`, 0), maxTunnels),
			with(macs+`86dd 6000000000542b40`+nodes+`0402040000000000`+node2+cnp4, 0)...), err: errTunnels},

		{name: "ERSPAN II, version 2", ip: wrap(wire.ProtoGRE,
			with(`100088be 00000001 20000000 00000000`+macs+`0800`+cnp4, 0)), err: errERSPANVer},
		{name: "ERSPAN III, version 1", ip: wrap(wire.ProtoGRE,
			with(`100022eb 00000001 10000000 00000000 00000000`+macs+`0800`+cnp4, 0)), err: errERSPANVer},
		{
			name: "ERSPAN II, 7 octets", ip: wrap(wire.ProtoGRE, with(`100088be 00000001 10000000 000000`, 0)),
			err: errERSPAN,
		},
		{name: "ERSPAN III, 11 octets", ip: wrap(wire.ProtoGRE, with(`100022eb 00000001 20000000 00000000 000000`, 0)),
			err: errERSPAN},
		{name: "ERSPAN III, no space for the subheader",
			ip: wrap(wire.ProtoGRE, with(`100022eb 00000001 20000000 00000000 00000001 00000000`, 0)), err: errERSPAN},
		{name: "ERSPAN III, frame type 1", ip: wrap(wire.ProtoGRE,
			with(`100022eb 00000001 20000000 00000000 00000400`+macs+`0800`+cnp4, 0)), err: errERSPANType},
		{name: "ERSPAN III, no IP packet", ip: wrap(wire.ProtoGRE,
			with(`100022eb 00000001 20000000 00000000 00000800`+`00`+cnp4, 0)), err: errVersion},
		{name: "ERSPAN III, nothing", ip: wrap(wire.ProtoGRE, with(`100022eb 00000001 20000000 00000000 00000800`, 0)),
			err: errERSPAN},
		{name: "ERSPAN II, TCP truncated by the capture, T not set",
			ip:  wrap(wire.ProtoGRE, with(`100088be 00000001 10000000 00000000`+macs+`0800`+tcp[:len(tcp)-8], 0)),
			err: errIPLength},

		{name: "ERSPAN III, no frame", ip: wrap(wire.ProtoGRE, with(`100022eb 00000001 20000000 00000000 00000000`, 0)),
			err: errFrame},
		{name: "Geneve, no packet", ip: with(`450000240000000040110000`+sites+`c00117c100100000 0000080000002a00`, 0),
			err: errIPv4Header},
		{name: "Geneve, version 1", ip: with(inGeneve+cnp4, 28, 0x40), err: errGeneveVer},
		{name: "Geneve, options beyond the packet", ip: with(inGeneve+cnp4, 28, 0x3F), err: errGeneve},
		{name: "Geneve, UDP length 15", ip: with(inGeneve+cnp4, 24, 0, 15), err: errGeneve},
		{name: "something else in Geneve", ip: with(inGeneve+cnp4, 30, 0x08, 0x06), err: errNotIP},
		{name: "PPTP", ip: wrap(wire.ProtoGRE, with(`3001880b`+cnp4, 0)), err: errGREFlags},
		{name: "GRE with source routing", ip: wrap(wire.ProtoGRE, with(`40000800 00000000`+cnp4, 0)), err: errGREFlags},
		{name: "GRE, no packet", ip: wrap(wire.ProtoGRE, with(`00000800`, 0)), err: errIPv4Header},
		{name: "GRE options beyond the packet", ip: wrap(wire.ProtoGRE, with(`b0000800 00000000 0000`, 0)),
			err: errGRE},
		{name: "something else in GRE", ip: wrap(wire.ProtoGRE, with(`00000806`+cnp4, 0)), err: errNotIP},

		{name: "5 IP headers inside", ip: nested(5, inIP, cnp4), err: errDepth},
		{name: "IP in IP, 100 deep", ip: nested(100, inIP, cnp4), err: errDepth},
		{name: "VXLAN, 100 deep", ip: nested(100, inVXLAN, cnp4), err: errDepth},
		{name: "GRE, 100 deep", ip: nested(100, inGRE, cnp4), err: errDepth},
		{name: "Geneve, 100 deep", ip: nested(100, inGeneve, cnp4), err: errDepth},
	} {
		t.Run(c.name, func(t *testing.T) {
			var f Flow
			decode, octets := f.DecodeEthernet, c.frame
			if c.ip != nil {
				decode, octets = f.DecodeIP, c.ip
			}
			require.ErrorIs(t, decode(octets), c.err)
			require.Equal(t, Flow{}, f)
			wiretest.NoAllocs(t, "refusing", func() { _ = decode(octets) })
		})
	}
	for depth := range 5 {
		for _, header := range []string{inIP, inVXLAN, inGRE, inGeneve} {
			var f Flow
			require.NoError(t, f.DecodeIP(nested(depth, header, cnp4)), "%d deep", depth)
			require.Equal(t, cnp4Flow.FiveTuple, f.FiveTuple)
		}
	}
}

// offset returns the offset of part in whole, or -1 if part does not alias whole.
func offset(whole, part []byte) int {
	at := int(uintptr(unsafe.Pointer(unsafe.SliceData(part))) - uintptr(unsafe.Pointer(unsafe.SliceData(whole))))
	if at < 0 || at+len(part) > len(whole) {
		return -1
	}
	return at
}

// FuzzFlow decodes any octets. The outermost packet is part of the octets, and the innermost packet is part of the
// outermost one. Each of the two packets by itself has the same flow. If Datagram.Decode succeeds and the datagram is
// not a tunnel, it is the flow.
func FuzzFlow(f *testing.F) {
	for _, c := range flows {
		f.Add(wiretest.Hex(f, c.link+c.tunnel+c.flow), uint8(LinkEthernet), false)
	}
	f.Add(wiretest.Hex(f, toVTEP+send), uint8(LinkIP), true)
	f.Fuzz(func(t *testing.T, b []byte, link uint8, cut bool) {
		o := DecodeOptions{Link: LinkType(link % 7), AllowTruncated: cut}
		var d Datagram
		isDatagram := d.Decode(b, o) == nil && !wire.IsTunnelPort(d.DstPort)
		var flow Flow
		if err := flow.Decode(b, o); err != nil {
			require.Equal(t, Flow{}, flow)
			require.False(t, isDatagram)
			return
		}
		require.GreaterOrEqual(t, offset(b, flow.Outermost), 0)
		require.GreaterOrEqual(t, offset(flow.Outermost, flow.IP), 0)
		var again Flow
		require.NoError(t, again.Decode(flow.Outermost, DecodeOptions{Link: LinkIP, AllowTruncated: cut}))
		again.Tunnels = flow.Tunnels // labels are before the outermost packet
		require.Equal(t, flow, again)
		mirrored := flow.Tunnels.mirrored() // the switch may have truncated it
		require.NoError(t, again.Decode(flow.IP, DecodeOptions{Link: LinkIP, AllowTruncated: cut || mirrored}))
		flow.Outermost, flow.Tunnels = flow.IP, Tunnels{}
		require.Equal(t, flow, again)
		if isDatagram {
			require.Equal(t, FiveTuple{d.Src, flow.Dst, 17, d.SrcPort, d.DstPort}, flow.FiveTuple)
			require.Equal(t, d.FlowLabel, flow.FlowLabel)
			require.Equal(t, d.IP, flow.IP)
		}
	})
}

func BenchmarkFlow(b *testing.B) {
	for _, i := range []int{1, 11, 14, len(flows) - 1} {
		b.Run(flows[i].name, func(b *testing.B) {
			frame := wiretest.Hex(b, flows[i].link+flows[i].tunnel+flows[i].flow)
			var f Frame
			b.ReportAllocs()
			for b.Loop() {
				f.Decode(frame, DecodeOptions{})
				_, _ = f.FiveTuple()
				_, _, _, _ = f.Inner().FlowLabel(), f.Tunnels(), f.Outer().IP(), f.Inner().IP()
			}
		})
	}
}
