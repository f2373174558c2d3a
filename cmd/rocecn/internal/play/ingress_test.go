package play

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/encap"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

var (
	peAddr     = netip.MustParseAddr("2001:db8:fe::1")
	egressAddr = netip.MustParseAddr("2001:db8:fe::9")
	coreAddr   = netip.MustParseAddr("2001:db8:fe::5") // a node of the WAN
)

// ingressWith returns the configuration of an ingress PE with these keys, too.
func ingressWith(keys string) string { return ingressThrough(`"type": "ipip"`, keys) }

func ingressThrough(tunnel, keys string) string {
	return `{"enabled": true, "tunnel": {"src": "2001:db8:fe::1", "dst": "2001:db8:fe::9", ` + tunnel + `},
		"cnp": ["2001:db8:1::fe", "198.51.100.254"], "accept": ["2001:db8:fe::/48"], "seed": 7` + keys + `}`
}

// anFCN returns the FCN about a label.
func anFCN(t testing.TB, label uint32, from, to netip.Addr) []byte {
	t.Helper()
	b, err := fcn.Message{FlowLabel: label, Level: 2}.AppendPacket(nil, from, to, fcn.Config{})
	require.NoError(t, err)
	return b
}

// back returns a packet as it comes back out of the WAN.
func back(t testing.TB, inner []byte) []byte {
	t.Helper()
	b, err := (&encap.IPInIPv6{Src: egressAddr, Dst: peAddr}).Append(nil, inner, 0x77777)
	require.NoError(t, err)
	return b
}

// udOf returns a datagram (UD), which names its source queue pair.
func udOf(t testing.TB, source uint32, change ...func(*rocev2.Packet)) []byte {
	return packet(t, append([]func(*rocev2.Packet){func(p *rocev2.Packet) {
		p.BTH.Opcode, p.BTH.DETH.SrcQP, p.BTH.PKey = bth.UDSendOnly, source, 0x8001
	}}, change...)...)
}

func labelOf(l map[string]any) uint32 { return uint32(l["label"].(float64)) }

// All IP packets of a real capture are in OUT, octet for octet inside a tunnel:
// those of RoCEv2 have a line and a label of their flow, the others neither.
func TestIngressForwards(t *testing.T) {
	for _, name := range []string{"rxe-ucmatose4.pcap", "rxe-verbs6.pcap", "rxe-vlan4.pcap"} {
		for tunnel, overhead := range map[string]int{
			`"type": "ipip"`:                  40,
			`"type": "srv6"`:                  40 + 8 + 16,
			`"type": "srv6", "reduced": true`: 40,
			`"type": "vxlan", "vni": 7`:       40 + 8 + 8 + 14,
		} {
			t.Run(name+" "+tunnel, func(t *testing.T) {
				octets, err := os.ReadFile(wiretest.Path(t, name))
				require.NoError(t, err)
				lines, out, _ := rehearse(t, "ingress", ingressThrough(tunnel, ""), octets)
				labels, flows := map[uint32]rocev2.FlowKey{}, map[rocev2.FlowKey]uint32{}
				for _, c := range wiretest.Capture(t, name) {
					var frame rocev2.Frame
					_ = frame.Decode(c.Data, rocev2.DecodeOptions{})
					link, ip := frame.Link(), frame.Outermost()
					if ip == nil {
						continue // ARP
					}
					r := out[0]
					out = out[1:]
					require.Equal(t, c.Time, r.Time)
					require.True(t, bytes.HasSuffix(r.Data, ip), "frame %d", c.Number)
					if overhead < 70 {
						require.Len(t, r.Data, overhead+len(ip))
					} else {
						require.Len(t, r.Data, overhead+len(ip)+len(link)-14)
						require.True(t, bytes.HasSuffix(r.Data[:len(r.Data)-len(ip)], link),
							"the frame's own Ethernet header")
					}
					label := binary.BigEndian.Uint32(r.Data) & 0xFFFFF
					var f rocev2.Frame
					_ = f.Decode(r.Data, rocev2.DecodeOptions{Link: rocev2.LinkIP})
					require.Equal(t, peAddr, f.OuterSrc())
					require.Equal(t, egressAddr, f.OuterDst())
					var p rocev2.Packet
					if p.DecodeIP(ip) != nil {
						require.Zero(t, label)
						continue
					}
					require.Equal(t, p.ECN(), f.OuterECN())
					l := lines[0]
					lines = lines[1:]
					require.Equal(t, []any{float64(c.Number), "ingress", "forwarded", "", float64(label)},
						[]any{l["frame"], l["role"], l["action"], l["reason"], l["label"]})
					require.NotZero(t, label)
					k := p.FlowKey()
					if was, ok := labels[label]; ok {
						require.Equal(t, was, k)
					}
					if was, ok := flows[k]; ok {
						require.Equal(t, was, label)
					}
					labels[label], flows[k] = k, label
				}
				require.Empty(t, lines)
				require.Empty(t, out)
				require.Greater(t, len(flows), 1)
			})
		}
	}
}

// A connection is set up across the WAN, one side here, the other behind the
// tunnel; an FCN about its label becomes the CNP with the queue pair of the REQ.
func TestIngressLearnsFromCM(t *testing.T) {
	const config = `{"enabled": true, "tunnel": {"type": "ipip", "src": "2001:db8:fe::1", "dst": "2001:db8:fe::9"},
		"cnp": ["10.77.0.254"], "accept": ["2001:db8:fe::/48"], "seed": "x"}`
	for _, here := range []string{"10.77.0.1", "10.77.0.2"} {
		var in []capture.Record
		for _, r := range replay(t, "rxe-ucmatose4.pcap") {
			var d rocev2.Datagram
			if d.DecodeIP(r.Data) != nil {
				continue
			}
			if d.Src.String() != here {
				r.Data = back(t, r.Data)
			}
			in = append(in, r)
		}
		lines, _, _ := rehearse(t, "ingress", config, captureOf(capture.Raw, time.Microsecond, in...))
		var label uint32
		var fcns []capture.Record
		for _, l := range lines {
			frame := int(l["frame"].(float64)) - 1
			var p rocev2.Packet
			if p.DecodeIP(in[frame].Data) == nil && p.BTH.Opcode == bth.RCSendOnly && p.BTH.DestQP == 0x12 &&
				l["action"] == "forwarded" {
				label = labelOf(l)
				fcns = append(slices.Clone(in[:frame+1]),
					capture.Record{Data: anFCN(t, label, coreAddr, peAddr), Time: in[frame].Time})
			}
		}
		require.NotZero(t, label)
		lines, out, _ := rehearse(t, "ingress", config, captureOf(capture.Raw, time.Microsecond, fcns...))
		if here == "10.77.0.2" { // the REPs come back here: both pairs are learned from a frame that is not forwarded
			learned := slices.DeleteFunc(slices.Clone(lines),
				func(l map[string]any) bool { return l["action"] != "learned" })
			require.Equal(t, []any{17., 18.}, []any{learned[0]["qp"], learned[1]["qp"]})
			require.Len(t, learned, 2)
		}
		last := lines[len(lines)-1]
		require.Equal(t, []any{"sent", "", "cnp", here},
			words(lines, "action", "reason", "kind", "to")[len(lines)-1][1:], last)
		var p rocev2.Packet
		require.NoError(t, p.DecodeIP(out[len(out)-1].Data))
		got, err := cnp.FromPacket(&p)
		require.NoError(t, err)
		require.Equal(t, cnp.New(0x12, 0xFFFF), got)
		require.Equal(t, "10.77.0.254", p.Src.String())
		require.Equal(t, here, p.Dst.String())
		_, err = icrc.Verify(p.IP)
		require.NoError(t, err)

		// The same about the end of the capture: DREQ has ended the pair.
		ended := append(in, capture.Record{Data: anFCN(t, label, coreAddr, peAddr), Time: in[len(in)-1].Time})
		_, _, summary := rehearse(t, "ingress", config, captureOf(capture.Raw, time.Microsecond, ended...))
		require.Contains(t, summary, "refused: 1 unknown_qp\n")
		require.NotContains(t, summary, "sent")
	}
}

// Every sentence about the ingress PE, one frame each, after a datagram (UD) that
// names its source queue pair, 34, and got a label.
func TestIngressLines(t *testing.T) {
	six, four := udOf(t, 34), udOf(t, 35, ipv4)
	config := ingressWith("")
	lines, _, _ := rehearse(t, "ingress", config,
		every(0, six, four, packet(t, destQP(18)), packet(t, opcode(bth.RCAcknowledge), destQP(19))))
	require.Len(t, lines, 4)
	label6, label4, unknown, acks := labelOf(lines[0]), labelOf(lines[1]), labelOf(lines[2]), labelOf(lines[3])
	notify := func(label uint32) []byte { return anFCN(t, label, coreAddr, peAddr) }
	broken := func() []byte { // UDP length 16
		b := append(notify(label6), 0, 0, 0, 0)
		b[5], b[45] = 16, 16
		b[46], b[47] = 0, 0
		var d rocev2.Datagram
		require.NoError(t, d.DecodeIP(b))
		d.Checksum = 1
		b, err := d.AppendBinary(nil)
		require.NoError(t, err)
		return b
	}
	fragment := slices.Concat(notify(label6)[:40], []byte{17, 0, 0, 1, 0, 0, 0, 1}, notify(label6)[40:])
	fragment[6], fragment[5] = 44, 20
	other := packet(t, func(p *rocev2.Packet) { p.DstPort = 53 })
	elsewhere, err := (&encap.IPInIPv6{Src: egressAddr, Dst: coreAddr}).Append(nil, packet(t), 1)
	require.NoError(t, err)
	endsElsewhere, err := (&encap.IPInIPv6{Src: egressAddr, Dst: peAddr.Next()}).Append(nil, udOf(t, 40,
		from(receiverAddr), to(senderAddr), destQP(34)), 1)
	require.NoError(t, err)
	// ERSPAN type I behind IPv6: GRE and the mirrored frame.
	mirror := func(dst netip.Addr) []byte {
		frame := slices.Concat([]byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0xDD},
			udOf(t, 41, from(receiverAddr), to(senderAddr), destQP(34)))
		b := binary.BigEndian.AppendUint16([]byte{0x60, 0, 0, 0}, uint16(4+len(frame)))
		return slices.Concat(b, []byte{47, 64}, egressAddr.AsSlice(), dst.AsSlice(), []byte{0, 0, 0x88, 0xBE}, frame)
	}
	brokenData := packet(t)
	brokenData[44], brokenData[45] = 0, 9
	for _, c := range []struct {
		name, config string
		packet       []byte
		want         []any // action, reason, kind, to; none: no line
		out          bool
	}{
		{"FCN", config, notify(label6), []any{"sent", "", "cnp", "2001:db8:1::a"}, true},
		{"FCN, IPv4 inside", config, notify(label4), []any{"sent", "", "cnp", "198.51.100.1"}, true},
		{"FCN on another port", ingressWith(`, "fcn_port": 1999`), notify(label6), nil, false},
		{"to another", config, anFCN(t, label6, coreAddr, egressAddr), []any{"refused", "not_ours", "-", "-"}, false},
		{"to the address towards senders", config, anFCN(t, label6, coreAddr, netip.MustParseAddr("2001:db8:1::fe")),
			[]any{"refused", "not_ours", "-", "-"}, false},
		{"tunnelled", config, back(t, notify(label6)), []any{"refused", "tunnelled", "-", "-"}, false},
		{"denied", config, anFCN(t, label6, senderAddr, peAddr), []any{"refused", "denied", "-", "-"}, false},
		{"no list",
			`{"enabled": true, "tunnel": {"type": "ipip", "src": "2001:db8:fe::1", "dst": "2001:db8:fe::9"}, ` +
				`"seed": 7}`,
			notify(label6), []any{"refused", "denied", "-", "-"}, false},
		{"no address towards senders",
			`{"enabled": true, "tunnel": {"type": "ipip", "src": "2001:db8:fe::1", "dst": "2001:db8:fe::9"}, ` +
				`"seed": 7, "accept": ["::/0"]}`,
			notify(label6), []any{"refused", "no_method", "-", "-"}, false},
		{"checksum", config, func() []byte { b := notify(label6); b[51]++; return b }(),
			[]any{"refused", "checksum", "-", "-"}, false},
		{"UDP length 16", config, broken(), []any{"refused", "broken", "-", "-"}, false},
		{"UDP length 7", config, func() []byte { b := notify(label6); b[45] = 7; return b }(),
			[]any{"refused", "broken", "-", "-"}, false},
		{"fragment", config, fragment, []any{"refused", "fragment", "-", "-"}, false},
		{"label 0", config, notify(0), []any{"refused", "unknown_label", "-", "-"}, false},
		{"label never given", config, notify(label6 ^ 1), []any{"refused", "unknown_label", "-", "-"}, false},
		{"pair not known", config, notify(unknown), []any{"refused", "unknown_qp", "-", "-"}, false},
		{"acknowledgements", config, notify(acks), []any{"refused", "acknowledgement", "-", "-"}, false},
		{"another seed", ingressWith(`, "quarantine": "0"`), notify(label6), []any{"sent", "", "cnp", "2001:db8:1::a"},
			true},
		{"disabled", `{}`, notify(label6), []any{"refused", "disabled", "-", "-"}, false},
		{"disabled, data", `{"tunnel": {"type": "nonsense"}, "max_flows": 0}`, packet(t),
			[]any{"refused", "disabled", "-", "-"}, false},
		{"disabled, fragment", `{}`, fragment, []any{"refused", "disabled", "-", "-"}, false},
		{"disabled, other", `{}`, other, nil, false},
		{"other", config, other, nil, true},
		{"data", config, packet(t), []any{"forwarded", "", "-", "-"}, true},
		{"CNP on its way", config, packet(t, aCNP), []any{"forwarded", "", "-", "-"}, true},
		{"broken data", config, brokenData, []any{"forwarded", "broken", "-", "-"}, true},
		{"data that breaks off", config, packet(t)[:90], []any{"refused", "broken", "-", "-"}, false},
		{"to the PE itself", config, packet(t, to(peAddr)), nil, false},
		{"to its address towards senders", config, packet(t, to(netip.MustParseAddr("2001:db8:1::fe"))), nil, false},
		{"to its IPv4 address towards senders", config, packet(t, ipv4, to(netip.MustParseAddr("198.51.100.254"))), nil,
			false},
		{"other traffic to the PE", config, packet(t, to(peAddr), func(p *rocev2.Packet) { p.DstPort = 53 }), nil,
			false},
		{"to the address behind it", config, packet(t, to(peAddr.Next())), []any{"forwarded", "", "-", "-"}, true},
		{"out of the tunnel", config, back(t, udOf(t, 40, from(receiverAddr), to(senderAddr), destQP(34))),
			[]any{"learned", "", "-", "-"}, false},
		{"out of the tunnel, nothing to learn", config, back(t, packet(t, from(receiverAddr), to(senderAddr))), nil,
			false},
		{"out of a tunnel that ends elsewhere", config, endsElsewhere, nil, false},
		{"mirrored to the PE", config, mirror(peAddr), nil, false},
		{"mirrored to another", config, mirror(coreAddr), nil, true},
		{"in another tunnel", config, elsewhere, nil, false},
		{"no IP", config, []byte{0x50, 1, 2, 3}, nil, false},
		{"nothing", config, nil, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := [][]byte{six, four, packet(t, destQP(18)), packet(t, opcode(bth.RCAcknowledge), destQP(19))}
			lines, out, _ := rehearse(t, "ingress", c.config, every(time.Millisecond, append(before, c.packet)...))
			_, outBefore, _ := rehearse(t, "ingress", c.config, every(time.Millisecond, before...))
			if c.out {
				require.Len(t, out, len(outBefore)+1)
			} else {
				require.Len(t, out, len(outBefore))
			}
			if lines = lines[4:]; c.want == nil {
				require.Empty(t, lines)
				return
			}
			require.Len(t, lines, 1)
			require.Equal(t, append([]any{5.}, c.want...), words(lines, "action", "reason", "kind", "to")[0])
			switch c.want[0] {
			case "forwarded":
				require.Equal(t, c.want[1] == "", labelOf(lines[0]) != 0)
				require.True(t, bytes.HasSuffix(out[len(out)-1].Data, c.packet))
			case "learned":
				require.Equal(t, 40., lines[0]["qp"])
			case "sent":
				var p rocev2.Packet
				require.NoError(t, p.DecodeIP(out[len(out)-1].Data))
				got, err := cnp.FromPacket(&p)
				require.NoError(t, err)
				require.Contains(t, []cnp.CNP{cnp.New(34, 0x8001), cnp.New(35, 0x8001)}, got)
				_, err = icrc.Verify(p.IP)
				require.NoError(t, err)
			}
		})
	}
}

// The ECN field of the outer header is the inner one, each of the four.
func TestIngressECN(t *testing.T) {
	var in [][]byte
	for e := range rocev2.ECN(4) {
		in = append(in, packet(t, ecn(e)), packet(t, ecn(e), ipv4))
	}
	_, out, _ := rehearse(t, "ingress", ingressThrough(`"type": "vxlan"`, ""), every(0, in...))
	for i, r := range out {
		require.EqualValues(t, i/2, r.Data[1]>>4&3)
		require.Equal(t, wiretest.Hex(t, "020000000002 020000000001"), r.Data[56:68], "the default Ethernet header")
	}
}

func TestIngressSegments(t *testing.T) {
	config := `{"enabled": true, "tunnel": {"type": "srv6", "src": "2001:db8:fe::1", "segments": ["fc00:1::", ` +
		`"fc00:2::d6"]}}`
	_, out, _ := rehearse(t, "ingress", config, every(0, packet(t)))
	require.Equal(t, netip.MustParseAddr("fc00:1::").AsSlice(), out[0].Data[24:40])
	require.Equal(t, wiretest.Hex(t, "29 04 04 01 01 00 0000"), out[0].Data[40:48])
	require.Equal(t, netip.MustParseAddr("fc00:2::d6").AsSlice(), out[0].Data[48:64])
}

// A full table keeps live flows, and others go with label 0; a flow that was
// silent for idle has a new label.
func TestIngressTable(t *testing.T) {
	in := every(time.Second, packet(t, destQP(2)), packet(t, destQP(3)), packet(t, destQP(4)), packet(t, destQP(2)),
		packet(t, destQP(3)), packet(t, destQP(4)), packet(t, destQP(2)))
	lines, out, summary := rehearse(t, "ingress", ingressWith(`, "max_flows": 2, "idle": "3s"`), in)
	require.Len(t, out, 7)
	var reasons []any
	labels := map[uint32]bool{}
	for _, l := range lines {
		require.Equal(t, "forwarded", l["action"])
		reasons = append(reasons, l["reason"])
		labels[labelOf(l)] = true
	}
	// 2 at 0 s, 3 at 1 s, 4 at 2 s does not fit; at 3 s the first is gone, and back
	// with a new label; so is the second at 4 s; 4 does not fit again; at 6 s it is
	// the first one's turn once more.
	require.Equal(t, []any{"", "", "table_full", "", "", "table_full", ""}, reasons)
	require.Len(t, labels, 6)
	require.Contains(t, labels, uint32(0))
	require.Contains(t, summary, "forwarded: 5, 2 table_full\n")
}

func TestIngressLimits(t *testing.T) {
	first := udOf(t, 34)
	second := udOf(t, 34, destQP(18))
	lines, _, _ := rehearse(t, "ingress", ingressWith(""), every(0, first, second))
	a, b := anFCN(t, labelOf(lines[0]), coreAddr, peAddr), anFCN(t, labelOf(lines[1]), coreAddr, peAddr)
	in := every(25*time.Microsecond, first, second, a, a, b, a, b, anFCN(t, 5, coreAddr, peAddr), a)
	for keys, want := range map[string][]any{
		``:                     {"", "", "", "", "", "unknown_label", ""},
		`, "per_flow": "0"`:    {"", "", "", "", "", "unknown_label", ""},
		`, "per_flow": "50us"`: {"", "limited", "", "", "", "unknown_label", ""},
		`, "rate": {"per_second": 1, "burst": 3}`: {"", "", "", "limited", "limited", "unknown_label", "limited"},
		`, "rate": {"per_second": 20000}`:         {"", "limited", "", "limited", "", "unknown_label", ""},
		// These count what comes in, and look at it before its label.
		`, "rate_in": {"per_second": 1, "burst": 3}`:        {"", "", "", "limited", "limited", "limited", "limited"},
		`, "rate_in_source": {"per_second": 1, "burst": 6}`: {"", "", "", "", "", "unknown_label", "limited"},
	} {
		lines, _, _ := rehearse(t, "ingress", ingressWith(keys), in)
		var got []any
		for _, l := range lines[2:] {
			got = append(got, l["reason"])
		}
		require.Equal(t, want, got, keys)
	}
}

// Of a capture whose frames are cut every RoCEv2 packet has its line and label;
// what is not all there is not sent on.
func TestIngressCutCapture(t *testing.T) {
	var in []capture.Record
	for _, r := range replay(t, "rxe-perf4.pcap") {
		r.OrigLen = uint32(len(r.Data))
		r.Data = r.Data[:min(len(r.Data), 60)]
		in = append(in, r)
	}
	whole, err := os.ReadFile(wiretest.Path(t, "rxe-perf4.pcap"))
	require.NoError(t, err)
	all, allOut, _ := rehearse(t, "ingress", ingressWith(""), whole)
	lines, out, _ := rehearse(t, "ingress", ingressWith(""), captureOf(capture.Raw, time.Microsecond, in...))
	require.Equal(t, len(all), len(lines))
	require.Less(t, len(out), len(allOut))
	for i, l := range lines {
		require.Equal(t, "forwarded", l["action"])
		require.Equal(t, all[i]["label"], l["label"])
	}

	// Nor is there room for more flows.
	in = nil
	for i, b := range [][]byte{packet(t, destQP(2)), packet(t, destQP(3))} {
		in = append(in, capture.Record{Data: b[:60], OrigLen: uint32(len(b)), Time: noon.Add(time.Duration(i))})
	}
	lines, _, _ = rehearse(t, "ingress", ingressWith(`, "max_flows": 1`),
		captureOf(capture.Raw, time.Microsecond, in...))
	require.Equal(t, [][]any{{1., "forwarded", ""}, {2., "forwarded", "table_full"}}, words(lines, "action", "reason"))
}

// Labels repeat with the same seed alone.
func TestIngressSeed(t *testing.T) {
	label := func(seed string) uint32 {
		lines, _, _ := rehearse(t, "ingress",
			`{"enabled": true, "tunnel": {"type": "ipip", "src": "2001:db8:fe::1", "dst": "2001:db8:fe::9"}`+seed+`}`,
			every(0, packet(t)))
		return labelOf(lines[0])
	}
	require.Equal(t, label(`, "seed": 7`), label(`, "seed": 7`))
	require.Equal(t, label(`, "seed": "any text"`), label(`, "seed": "any text"`))
	require.NotEqual(t, label(`, "seed": 7`), label(`, "seed": 8`))
	require.NotEqual(t, label(``), label(``)) // one in a million that it fails
}

// A node of the WAN that sends FCN without end takes nothing from another one's
// share.
func TestIngressLimitsOfSources(t *testing.T) {
	lines, _, _ := rehearse(t, "ingress", ingressWith(""), every(0, udOf(t, 34)))
	label := labelOf(lines[0])
	a, b := anFCN(t, label, coreAddr, peAddr), anFCN(t, label, coreAddr.Next(), peAddr)
	stranger := anFCN(t, label, senderAddr, peAddr)
	lines, _, _ = rehearse(t, "ingress",
		ingressWith(`, "rate_in_source": {"per_second": 1, "burst": 2}, "rate_in": {"per_second": 1, "burst": 3}`),
		every(0, udOf(t, 34), stranger, a, a, a, a, b, b, stranger))
	var reasons []any
	for _, l := range lines[1:] {
		reasons = append(reasons, l["reason"])
	}
	require.Equal(t, []any{"denied", "", "", "limited", "limited", "", "limited", "denied"}, reasons)
}

// A flood of new flows, forged CM messages and forged FCN.
func TestIngressFlood(t *testing.T) {
	var in [][]byte
	for i := range uint32(3000) {
		in = append(in, packet(t, destQP(100+i)), anFCN(t, i, coreAddr, peAddr))
	}
	lines, out, _ := rehearse(t, "ingress", ingressWith(`, "max_flows": 16`), every(time.Microsecond, in...))
	require.Len(t, lines, 6000)
	require.Len(t, out, 3000)
	count := map[string]int{}
	for _, l := range lines {
		count[fmt.Sprint(l["action"], " ", l["reason"])]++
	}
	require.Equal(t, 16, count["forwarded "])
	require.Equal(t, 2984, count["forwarded table_full"])
	require.Zero(t, count["sent "])
}

func TestIngressConfig(t *testing.T) {
	tunnel := func(keys string) string { return `{"enabled": true, "tunnel": {` + keys + `}}` }
	const src, dst = `"src": "2001:db8:fe::1"`, `"dst": "2001:db8:fe::9"`
	for config, key := range map[string]string{
		`{"enabled": true}`: "tunnel.src",
		tunnel(src + `, ` +
			dst): "tunnel.type",
		tunnel(`"type": "gre", ` + src + `, ` +
			dst): "tunnel.type",
		tunnel(`"type": "ipip", ` +
			dst): "tunnel.src",
		tunnel(`"type": "ipip", ` +
			src): "tunnel.dst",
		tunnel(`"type": "vxlan", ` +
			src): "tunnel.dst",
		tunnel(`"type": "srv6", ` +
			src): "tunnel.dst",
		tunnel(`"type": "ipip", "src": "10.0.0.1", ` +
			dst): "tunnel.src",
		tunnel(`"type": "ipip", "src": "::1", ` +
			dst): "tunnel.src",
		tunnel(`"type": "ipip", "dst": "ff02::1", ` +
			src): "tunnel.dst",
		tunnel(`"type": "ipip", "segments": ["fc00::1"], ` +
			src): "tunnel.segments",
		tunnel(`"type": "srv6", "segments": ["fc00::1"], ` + src + `, ` +
			dst): "tunnel.dst",
		tunnel(`"type": "srv6", "segments": ["fc00::1", "10.0.0.1"], ` +
			src): "tunnel.segments[1]",
		tunnel(`"type": "srv6", "segments": ["fc00::1", "x"], ` +
			src): "tunnel.segments[1]",
		tunnel(`"type": "vxlan", "vni": 16777216, ` + src + `, ` +
			dst): "tunnel.vni",
		tunnel(`"type": "vxlan", "VNI": 7, ` + src + `, ` +
			dst): "tunnel.VNI",
		tunnel(`"type": "srv6", "reduced": 1, ` + src + `, ` + dst): "tunnel.reduced",
		ingressWith(`, "idle": "1 minute"`):                         "idle",
		ingressWith(`, "quarantine": -1`):                           "quarantine",
		ingressWith(`, "max_flows": 0`):                             "max_flows",
		ingressWith(`, "max_flows": 1048576`):                       "max_flows",
		ingressWith(`, "max_flows": "1"`):                           "max_flows",
		`{"accept": ["2001:db8::/48", 5]}`:                          "accept[1]",
		ingressWith(`, "rate": {"per_second": -1}`):                 "rate.per_second",
		ingressWith(`, "rate_in": 5`):                               "rate_in",
		ingressWith(`, "rate_in_source": {"burst": -1}`): "rate_in_sour" +
			"ce.burst",
		ingressWith(`, "per_flow": "5"`): "per_flow",
		ingressWith(`, "fcn_port": 0`):   "fcn_port",
		ingressWith(`, "pe": []`):        "pe",
		`{"enabled": true, "tunnel": {"type": "ipip", ` + src + `, ` + dst + `}, "seed": true}`:       "seed",
		`{"enabled": true, "tunnel": {"type": "ipip", ` + src + `, ` + dst + `}, "seed": -1}`:         "seed",
		`{"enabled": true, "tunnel": {"type": "ipip", ` + src + `, ` + dst + `}, "cnp": ["fe80::1"]}`: "cnp[0]",
		`{"enabled": true, "tunnel": {"type": "ipip", ` + src + `, ` + dst +
			`}, "cnp": ["10.0.0.1", "10.0.0.2"]}`: "cnp[1]",
		`{"enabled": true, "tunnel": {"type": "ipip", ` + src + `, ` + dst + `}, "cnp": "10.0.0.1"}`: "cnp",
	} {
		requireWrong(t, "ingress", config, key)
	}
}

// A flow that is kept for no time at all has a new label when it comes again.
func TestIngressIdle0(t *testing.T) {
	lines, _, _ := rehearse(t, "ingress", ingressWith(`, "idle": "0"`), every(time.Microsecond, packet(t), packet(t)))
	require.Len(t, lines, 2)
	require.NotEqual(t, lines[0]["label"], lines[1]["label"])
}

// kernelPackets are the headers of packets that Linux 6.18 put into SRv6, under labels of its own: two flows, and
// another one with the ports of the first. Outer header, Segment Routing Header, IPv6, UDP, BTH, DETH.
var kernelPackets = []string{
	`602ce32e 01602b3f 20010db8 00020000 00000000 00000001 20010db8 00020000 00000000 0000000c
		29020400 00000000 20010db8 00020000 00000000 0000000c
		60212345 01201140 20010db8 00010000 00000000 0000000a 20010db8 00020000 00000000 0000000b
		c35112b7 01200000
		6400ffff 00000011 00000000
		00000000 00000022`,
	`6023ad6f 01602b3f 20010db8 00020000 00000000 00000001 20010db8 00020000 00000000 0000000c
		29020400 00000000 20010db8 00020000 00000000 0000000c
		60212346 01201140 20010db8 00010000 00000000 0000000a 20010db8 00020000 00000000 0000000b
		c35212b7 01200000
		6400ffff 00000013 00000000
		00000000 00000022`,
	`602ce32e 01602b3f 20010db8 00020000 00000000 00000001 20010db8 00020000 00000000 0000000c
		29020400 00000000 20010db8 00020000 00000000 0000000c
		60212345 01201140 20010db8 00010000 00000000 0000000a 20010db8 00020000 00000000 0000000b
		c35112b7 01200000
		6400ffff 00000012 00000000
		00000000 00000022`,
}

// What Linux encapsulates shows who has which label, also where the capture has no more than headers: an FCN becomes
// the CNP of its flow, unless two have the label.
func TestIngressLearnsLabels(t *testing.T) {
	const config = `{"enabled": true, "labels": "learn", "tunnel": {"src": "2001:db8:2::1"}, "cnp": ["2001:db8:1::1"],
		"accept": ["2001:db8:2::c/128"]}`
	at := time.Unix(1795254649, 0)
	cut := func(text string) capture.Record {
		b := wiretest.Hex(t, text)
		return capture.Record{Data: b, OrigLen: 404, Time: at}
	}
	notice := func(label uint32) capture.Record {
		b := anFCN(t, label, netip.MustParseAddr("2001:db8:2::c"), netip.MustParseAddr("2001:db8:2::1"))
		return capture.Record{Data: b, OrigLen: uint32(len(b)), Time: at}
	}
	in := []capture.Record{
		cut(kernelPackets[0]), cut(kernelPackets[1]), cut(kernelPackets[0]), notice(844590), notice(241007), notice(7),
		cut(kernelPackets[2]), notice(844590), notice(241007),
	}
	lines, out, _ := rehearse(t, "ingress", config, captureOf(capture.Raw, time.Microsecond, in...))
	require.Equal(t, [][]any{
		{1., "learned", "", "-", 34., 844590.}, {2., "learned", "", "-", 34., 241007.},
		{4., "sent", "", "2001:db8:1::a", "-", "-"}, {5., "sent", "", "2001:db8:1::a", "-", "-"},
		{6., "refused", "unknown_label", "-", "-", "-"}, {7., "learned", "", "-", 34., 844590.},
		{8., "refused", "ambiguous_label", "-", "-", "-"}, {9., "sent", "", "2001:db8:1::a", "-", "-"},
	}, words(lines, "action", "reason", "to", "qp", "label"))
	require.Len(t, out, 3)
	for _, r := range out {
		var p rocev2.Packet
		require.NoError(t, p.DecodeIP(r.Data))
		c, err := cnp.FromPacket(&p)
		require.NoError(t, err)
		require.Equal(t, uint32(34), c.DestQP)
	}
}
