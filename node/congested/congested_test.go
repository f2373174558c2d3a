package congested_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/encap"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/ioam"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/congested"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

var (
	self4 = netip.MustParseAddr("192.0.2.9")
	self6 = netip.MustParseAddr("2001:db8:ffff::5")
	src4  = netip.MustParseAddr("198.51.100.1")
	dst4  = netip.MustParseAddr("198.51.100.2")
	src6  = netip.MustParseAddr("2001:db8:1::a")
	dst6  = netip.MustParseAddr("2001:db8:4::e")
	proxy = netip.MustParseAddr("2001:db8:ffff::9")
	pe    = netip.MustParseAddr("2001:db8:e::1")
	pe2   = netip.MustParseAddr("2001:db8:e::2")
	now   = time.Unix(1795254649, 0)

	ip = rocev2.DecodeOptions{Link: rocev2.LinkIP}
)

// data returns a data packet, changed.
func data(t testing.TB, change ...func(*rocev2.Packet)) []byte {
	t.Helper()
	p := rocev2.Packet{BTH: bth.Headers{Header: bth.Header{Opcode: bth.RCSendOnly, DestQP: 17, PKey: 0xFFFF}},
		Payload: make([]byte, 64)}
	p.Src, p.Dst, p.SrcPort, p.DstPort, p.HopLimit = src6, dst6, 49152, rocev2.Port, 64
	p.TrafficClass = uint8(rocev2.ECT0)
	for _, c := range change {
		c(&p)
	}
	return wiretest.Must(p.AppendBinary(nil))(t)
}

func v4(p *rocev2.Packet) { p.Src, p.Dst = src4, dst4 }

func ecn(ecn rocev2.ECN) func(*rocev2.Packet) {
	return func(p *rocev2.Packet) { p.TrafficClass = uint8(ecn) }
}

func opcode(op bth.Opcode) func(*rocev2.Packet) {
	return func(p *rocev2.Packet) { p.BTH.Opcode = op }
}

// notification turns a packet into a CNP to dst.
func notification(dst netip.Addr) func(*rocev2.Packet) {
	return func(p *rocev2.Packet) { p.BTH.Opcode, p.Payload, p.Dst = bth.CNP, make([]byte, 16), dst }
}

// tunnelled returns a packet in a tunnel between the PEs, changed outside.
func tunnelled(t testing.TB, tunnel encap.Tunnel, inner []byte, label uint32) []byte {
	t.Helper()
	return wiretest.Must(tunnel.Append(nil, inner, label))(t)
}

// tunnelledFrom returns a packet in IPv6 from a PE of this address, which may be
// one that no PE would have.
func tunnelledFrom(t testing.TB, pe netip.Addr, inner []byte, label uint32) []byte {
	b := tunnelled(t, ipip, inner, label)
	copy(b[8:], pe.AsSlice())
	return b
}

var (
	ipip  = &encap.IPInIPv6{Src: pe, Dst: pe2}
	srv6  = &encap.SRv6{Src: pe, Segments: []netip.Addr{pe2, self6}}
	vxlan = &encap.VXLAN{Src: pe, Dst: pe2, VNI: 7, Ethernet: []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0}}
)

// hops is a Hop-by-Hop header with a pre-allocated trace: node ids and queue
// depths, one hop and room for another.
const hops = "1103 0100 311a 0000 007b 1002 82000000 00000000 00000000 40000007 00000009"

// fullHops is hops with a second hop instead of the free space.
const fullHops = "1103 0100 311a 0000 007b 1000 82000000 3f000006 00000003 40000007 00000009"

// agent returns the agent of a configuration that works.
func agent(t testing.TB, cfg congested.Config) *congested.Role {
	t.Helper()
	return wiretest.Must(congested.New(cfg))(t)
}

// method is a configuration that has one method for all senders.
func method(m congested.Method) congested.Config {
	return congested.Config{
		Enabled: true, Self4: self4, Self6: self6, PEs: acl.New(netip.PrefixFrom(pe, 64)),
		Methods: acl.NewMap(
			acl.Entry[congested.Method]{Prefix: netip.MustParsePrefix("::/0"), Value: m},
			acl.Entry[congested.Method]{Prefix: netip.MustParsePrefix("0.0.0.0/0"), Value: m}),
		Proxies: acl.NewMap(
			acl.Entry[netip.Addr]{Prefix: netip.MustParsePrefix("2001:db8:1::/48"), Value: proxy},
			acl.Entry[netip.Addr]{Prefix: netip.MustParsePrefix("198.51.100.0/24"), Value: proxy}),
	}
}

func capable(c congested.Capability) *acl.Map[congested.Capability] {
	return acl.NewMap(acl.Entry[congested.Capability]{Prefix: netip.MustParsePrefix("::/0"), Value: c})
}

// TestTruthTable has a row for each kind of packet and configuration, with the expected decision.
func TestTruthTable(t *testing.T) {
	const (
		fast = congested.MethodFastCNP
		mark = congested.MethodMark
		yes  = congested.Capable
		no   = congested.Incapable
	)
	inner := func(cfg *congested.Config) { cfg.FastCNP.InnerSource = true }
	innerPPFC := func(cfg *congested.Config) { cfg.PPFC.InnerSource = true }
	for _, c := range []struct {
		name    string
		method  congested.Method
		capable congested.Capability
		change  func(*congested.Config)
		packet  []byte

		reason node.Reason
		kind   message.Kind
		mark   bool
	}{
		// Fast CNP, by ECN field of the packet and known capability of the sender.
		{"unknown, ECT(0)", fast, 0, nil, data(t), 0, message.KindFastCNP, true},
		{"unknown, ECT(1)", fast, 0, nil, data(t, ecn(rocev2.ECT1)), 0, message.KindFastCNP, true},
		{"unknown, CE", fast, 0, nil, data(t, ecn(rocev2.CE)), 0, message.KindFastCNP, true},
		{"unknown, Not-ECT", fast, 0, nil, data(t, ecn(rocev2.NotECT)), 0, message.KindFastCNP, false},
		{"capable, ECT", fast, yes, nil, data(t), 0, message.KindFastCNP, false},
		{"capable, CE", fast, yes, nil, data(t, ecn(rocev2.CE)), 0, message.KindFastCNP, false},
		{"capable, Not-ECT", fast, yes, nil, data(t, ecn(rocev2.NotECT)), 0, message.KindFastCNP, false},
		{"not capable, ECT", fast, no, nil, data(t), 0, message.KindOther, true},
		{"not capable, CE", fast, no, nil, data(t, ecn(rocev2.CE)), 0, message.KindOther, true},
		{"not capable, Not-ECT", fast, no, nil, data(t, ecn(rocev2.NotECT)), node.ReasonNotCapable, 0, false},
		{"IPv4", fast, 0, nil, data(t, v4), node.ReasonNoMethod, 0, false},
		{"no IPv6 address", fast, 0, func(cfg *congested.Config) { cfg.Self6 = netip.Addr{} }, data(t),
			node.ReasonNoMethod,
			0, false},
		{"IP in IPv6", fast, yes, nil, tunnelled(t, ipip, data(t), 5), node.ReasonTunnelled, 0, false},
		{"SRv6", fast, yes, nil, tunnelled(t, srv6, data(t), 5), node.ReasonTunnelled, 0, false},
		{"VXLAN", fast, yes, nil, tunnelled(t, vxlan, data(t), 5), node.ReasonTunnelled, 0, false},
		{"inner source, IP in IPv6", fast, yes, inner, tunnelled(t, ipip, data(t), 5), 0, message.KindFastCNP, false},
		{"inner source, VXLAN, unknown", fast, 0, inner, tunnelled(t, vxlan, data(t), 5), 0, message.KindFastCNP, true},
		{"inner source, outside Not-ECT", fast, 0, inner, tunnelled(t, ipip, data(t, ecn(0)), 5), 0,
			message.KindFastCNP,
			false},
		{"inner source of PPFC", fast, yes, innerPPFC, tunnelled(t, ipip, data(t), 5), node.ReasonTunnelled, 0, false},
		{"inner source, IPv4", fast, 0, inner, tunnelled(t, ipip, data(t, v4), 5), node.ReasonNoMethod, 0, false},

		// Marking only.
		{"mark, ECT", mark, 0, nil, data(t), 0, message.KindOther, true},
		{"mark, capable", mark, yes, nil, data(t), 0, message.KindOther, true},
		{"mark, Not-ECT", mark, 0, nil, data(t, ecn(0)), node.ReasonNotCapable, 0, false},
		{"mark, IPv4", mark, 0, nil, data(t, v4), 0, message.KindOther, true},
		{"mark, tunnelled", mark, 0, nil, tunnelled(t, vxlan, data(t), 5), 0, message.KindOther, true},
		{"mark, tunnelled, Not-ECT", mark, 0, nil, tunnelled(t, vxlan, data(t, ecn(0)), 5), node.ReasonNotCapable, 0,
			false},

		// A message to the sender's proxy.
		{"proxy", congested.MethodProxy, 0, nil, data(t), 0, message.KindProxy, false},
		{"proxy, not capable", congested.MethodProxy, no, nil, data(t, ecn(0)), 0, message.KindProxy, false},
		{"proxy, IPv4", congested.MethodProxy, 0, nil, data(t, v4), 0, message.KindProxy, false},
		{"proxy, tunnelled", congested.MethodProxy, 0, nil, tunnelled(t, vxlan, data(t, v4), 5), 0, message.KindProxy,
			false},
		{"no proxy", congested.MethodProxy, 0, func(cfg *congested.Config) { cfg.Proxies = nil }, data(t),
			node.ReasonNoProxy, 0,
			false},
		{"proxy of others", congested.MethodProxy, 0, nil, data(t, func(p *rocev2.Packet) { p.Src = dst6 }),
			node.ReasonNoProxy, 0,
			false},
		{"proxy of the other family", congested.MethodProxy, 0,
			func(cfg *congested.Config) { cfg.Self6 = netip.Addr{} },
			data(t), node.ReasonNoMethod, 0, false},

		// FCN to the ingress PE.
		{"FCN, IP in IPv6", congested.MethodFCN, 0, nil, tunnelled(t, ipip, data(t), 5), 0, message.KindFCN, false},
		{"FCN, VXLAN, IPv4 inside", congested.MethodFCN, no, nil, tunnelled(t, vxlan, data(t, v4), 5), 0,
			message.KindFCN,
			false},
		{"FCN, SRv6", congested.MethodFCN, yes, nil, tunnelled(t, srv6, data(t), 5), 0, message.KindFCN, false},
		{"FCN, CE", congested.MethodFCN, yes, nil, tunnelled(t, srv6, data(t, ecn(3)), 5), 0, message.KindFCN, false},
		{"FCN, no tunnel", congested.MethodFCN, 0, nil, data(t), node.ReasonNotTunnelled, 0, false},
		{"FCN, outside IPv4", congested.MethodFCN, 0, nil, inIPv4(data(t)), node.ReasonNotTunnelled, 0, false},
		{"FCN, no such PE", congested.MethodFCN, 0,
			func(cfg *congested.Config) { cfg.PEs = acl.New(netip.PrefixFrom(pe2, 128)) },
			tunnelled(t, ipip, data(t), 5), node.ReasonDenied, 0, false},
		{"FCN, no PEs", congested.MethodFCN, 0, func(cfg *congested.Config) { cfg.PEs = nil }, tunnelled(t, ipip,
			data(t), 5),
			node.ReasonDenied, 0, false},
		{"FCN, own tunnel", congested.MethodFCN, 0, func(cfg *congested.Config) { cfg.Self6 = pe },
			tunnelled(t, ipip, data(t), 5), node.ReasonOwnAddress, 0, false},
		{"FCN, from link-local", congested.MethodFCN, 0,
			func(cfg *congested.Config) { cfg.PEs = acl.New(netip.MustParsePrefix("::/0")) },
			tunnelledFrom(t, netip.MustParseAddr("fe80::1"), data(t), 5), node.ReasonAddress, 0, false},
		{"FCN, label 0", congested.MethodFCN, 0, nil, tunnelled(t, ipip, data(t), 0), node.ReasonUnknownLabel, 0,
			false},
		{"FCN, Not-ECT", congested.MethodFCN, 0, nil, tunnelled(t, ipip, data(t, ecn(0)), 5), node.ReasonNotCapable, 0,
			false},
		{"FCN, no IPv6 address", congested.MethodFCN, 0, func(cfg *congested.Config) { cfg.Self6 = netip.Addr{} },
			tunnelled(t, ipip, data(t), 5), node.ReasonNoMethod, 0, false},

		// PPFC to the sender.
		{"PPFC", congested.MethodPPFC, 0, nil, data(t), 0, message.KindPPFC, false},
		{"PPFC, not capable of Fast CNP", congested.MethodPPFC, no, nil, data(t, ecn(0)), 0, message.KindPPFC, false},
		{"PPFC, IPv4", congested.MethodPPFC, 0, nil, data(t, v4), 0, message.KindPPFC, false},
		{"PPFC, no IPv4 address", congested.MethodPPFC, 0, func(cfg *congested.Config) { cfg.Self4 = netip.Addr{} },
			data(t, v4), node.ReasonNoMethod, 0, false},
		{"PPFC, tunnelled", congested.MethodPPFC, 0, nil, tunnelled(t, ipip, data(t), 5), node.ReasonTunnelled, 0,
			false},
		{"PPFC, tunnelled, inner source of Fast CNP", congested.MethodPPFC, 0, inner, tunnelled(t, ipip, data(t, v4),
			5),
			node.ReasonTunnelled, 0, false},
		{"PPFC, tunnelled, inner source", congested.MethodPPFC, 0, innerPPFC, tunnelled(t, ipip, data(t, v4), 5), 0,
			message.KindPPFC, false},

		{"method none", congested.NoMethod, 0, nil, data(t), node.ReasonNoMethod, 0, false},
		{"no method", congested.NoMethod, 0, func(cfg *congested.Config) { cfg.Methods = nil }, data(t),
			node.ReasonNoMethod,
			0, false},
		{"disabled", fast, 0, func(cfg *congested.Config) { cfg.Enabled = false }, data(t), node.ReasonDisabled, 0,
			false},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := method(c.method)
			cfg.Capable = capable(c.capable)
			if c.change != nil {
				c.change(&cfg)
			}
			a := agent(t, cfg)
			before := bytes.Clone(c.packet)
			buf := []byte("head")
			out, d := congest(a, buf, &event{Frame: c.packet, Options: ip}, now)
			require.Equal(t, []any{c.reason, c.kind, c.mark}, []any{d.Reason, d.Kind, d.MarkECN})
			require.Equal(t, before, c.packet)
			require.Equal(t, "head", string(out[:4]))
			require.Equal(t, c.kind == message.KindOther, len(out) == 4)
			require.Equal(t, c.kind == message.KindOther, !d.To.IsValid())

			var m message.Message
			if len(out) > 4 {
				require.NoError(t, m.Decode(out[4:], ip, message.Config{}))
				require.Equal(t, c.kind, m.Kind)
				require.Equal(t, d.To, m.Packet.Dst)
				require.Contains(t, []netip.Addr{cfg.Self4, cfg.Self6}, m.Packet.Src)
				require.NoError(t, m.Packet.VerifyChecksum())
				if m.Packet.DstPort == rocev2.Port {
					_, err := icrc.Verify(m.Packet.IP)
					require.NoError(t, err)
				}
			}
			want := map[node.Count]uint64{}
			switch {
			case c.reason != 0:
				want[refused(c.reason)] = 1
			case c.kind != 0:
				want[sentKind(c.kind)] = 1
			}
			if c.mark {
				want[marked] = 1
			}
			require.Equal(t, want, counted(a))
		})
	}
}

// inIPv4 puts a packet into an IPv4 tunnel.
func inIPv4(inner []byte) []byte {
	b := []byte{0x45, 2, 0, 0, 0, 0, 0, 0, 64, 41, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2}
	binary.BigEndian.PutUint16(b[2:], uint16(20+len(inner)))
	return append(b, inner...)
}

// mirrored puts a packet into ERSPAN over IPv4, with the GRE and ERSPAN headers of
// one of its types.
func mirrored(t testing.TB, erspan string, packet []byte) []byte {
	b := []byte{0x45, 2, 0, 0, 0, 0, 0, 0, 64, 47, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2}
	b = append(b, wiretest.Hex(t, erspan)...)
	b = append(b, 2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0xDD)
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)+len(packet)))
	return append(b, packet...)
}

// trimmed returns a packet as a switch trims it: without payload, with the UDP length of the whole packet.
func trimmed(t testing.TB, change ...func(*rocev2.Packet)) []byte {
	b := data(t, change...)[:60]
	binary.BigEndian.PutUint16(b[4:], 20)
	return b
}

// fragmentOf returns the first fragment of an IPv6 packet.
func fragmentOf(packet []byte) []byte {
	b := bytes.Clone(packet[:40])
	b[6] = 44
	binary.BigEndian.PutUint16(b[4:], uint16(8+32))
	return append(append(b, 17, 0, 0, 1, 0, 0, 0, 1), packet[40:72]...)
}

// TestRefusals checks the packets that are not answered, and the order of the reasons: each packet has all faults
// from its row on.
func TestRefusals(t *testing.T) {
	loopback := func(p *rocev2.Packet) { p.Src = netip.MustParseAddr("::1") }
	full := data(t)
	binary.BigEndian.PutUint16(full[40+4:], 10)
	secondFragment := fragmentOf(data(t))
	secondFragment[43] |= 8
	other := fragmentOf(data(t))
	other[40+8+3] = 9
	for _, c := range []struct {
		name   string
		packet []byte
		reason node.Reason
		is     message.Kind
	}{
		{"UDP length without room", full, node.ReasonBroken, message.KindError},
		{"cut", data(t)[:59], node.ReasonBroken, message.KindError}, // within the BTH
		{"trimmed", trimmed(t, loopback), node.ReasonTrimmed, message.KindData},
		{"fragment", fragmentOf(data(t, loopback)), node.ReasonFragment, message.KindOther},
		{"fragment of an FCN", func() []byte {
			b := fragmentOf(data(t))
			binary.BigEndian.PutUint16(b[50:], fcn.Port)
			return b
		}(), node.ReasonFragment, message.KindOther},
		{"second fragment", secondFragment, node.ReasonNotOurs, message.KindOther},
		{"fragment of other UDP", other, node.ReasonNotOurs, message.KindOther},
		{"other traffic", data(t, func(p *rocev2.Packet) { p.DstPort = 53 }), node.ReasonNotOurs, message.KindOther},
		{"no packet", nil, node.ReasonNotOurs, message.KindOther},
		{"mirrored, type I", mirrored(t, "0000 88be", data(t)), node.ReasonNotOurs, message.KindOther},
		{"mirrored, type II", mirrored(t, "1000 88be 00000001 1001 0001 00000000", data(t)), node.ReasonNotOurs,
			message.KindOther},
		{"mirrored, type III", mirrored(t, "1000 22eb 00000001 2001 0001 00000000 0000 0000", data(t)),
			node.ReasonNotOurs,
			message.KindOther},
		{"CNP on its way", data(t, notification(dst6), loopback), node.ReasonNotOurs, message.KindCNP},
		{"CNP to the node", data(t, notification(self6), loopback), node.ReasonNotification, message.KindCNP},
		{"FCN on its way", wiretest.Hex(t, "6000000000 0c1140"+"20010db8000e00000000000000000001"+
			"20010db8000e00000000000000000002"+"0000"+fmt.Sprintf("%04x", fcn.Port)+
			"000c 0000 00005 200"), node.ReasonNotOurs, message.KindFCN},
		{"ack", data(t, opcode(bth.RCAcknowledge), loopback), node.ReasonAcknowledgement, message.KindAck},
		{"atomic ack", data(t, opcode(bth.RCAtomicAcknowledge), loopback), node.ReasonAcknowledgement, message.KindAck},
		{"own packet", data(t, func(p *rocev2.Packet) { p.Src = self6 }), node.ReasonOwnAddress, message.KindData},
		{"own IPv4 packet", data(t, v4, func(p *rocev2.Packet) { p.Src = self4 }), node.ReasonOwnAddress,
			message.KindData},
		{"from loopback", data(t, loopback), node.ReasonAddress, message.KindData},
		{"from ::", data(t, func(p *rocev2.Packet) { p.Src = netip.IPv6Unspecified() }), node.ReasonAddress,
			message.KindData},
		{"from multicast", data(t, func(p *rocev2.Packet) { p.Src = netip.MustParseAddr("ff02::1") }),
			node.ReasonAddress,
			message.KindData},
		{"from link-local", data(t, func(p *rocev2.Packet) { p.Src = netip.MustParseAddr("fe80::1") }),
			node.ReasonAddress,
			message.KindData},
		{"from IPv4-mapped", data(t, func(p *rocev2.Packet) { p.Src = netip.MustParseAddr("::ffff:192.0.2.1") }),
			node.ReasonAddress, message.KindData},
		{"from broadcast", data(t, v4, func(p *rocev2.Packet) { p.Src = netip.MustParseAddr("255.255.255.255") }),
			node.ReasonAddress, message.KindData},
		{"to multicast", data(t, func(p *rocev2.Packet) { p.Dst = netip.MustParseAddr("ff0e::1") }), node.ReasonAddress,
			message.KindData},
		{"no method", data(t), node.ReasonNoMethod, message.KindData},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, row := range []struct {
				name   string
				tunnel encap.Tunnel
			}{{"", nil}, {", IP in IPv6", ipip}, {", VXLAN", vxlan}} {
				t.Run(row.name, func(t *testing.T) {
					name, packet := c.name+row.name, c.packet
					if row.tunnel != nil { // the same below a tunnel, where there is something to put into it
						if c.is == message.KindFCN || c.packet == nil || strings.HasPrefix(c.name, "mirrored") {
							return
						}
						inner := bytes.Clone(c.packet)
						if c.name == "cut" { // no tunnel takes it
							binary.BigEndian.PutUint16(inner[4:], uint16(len(inner)-40))
						}
						packet = tunnelled(t, row.tunnel, inner, 5)
						copy(packet[len(packet)-len(inner):], c.packet)
					}
					cfg := method(congested.MethodFastCNP)
					if c.reason == node.ReasonNoMethod {
						cfg.Methods = nil
					}
					a := agent(t, cfg)
					out, d := congest(a, nil, &event{Frame: packet, Options: ip}, now)
					require.Empty(t, out, name)
					require.Equal(t, decision{Packet: c.is, Reason: c.reason}, d, name)
					counted := uint64(1)
					if c.is == message.KindOther && c.reason == node.ReasonNotOurs { // the role has no say
						counted = 0
					}
					require.Equal(t, counted, a.Counters().Load(refused(c.reason)), name)
				})
			}
		})
	}
	out, d := congest(agent(t, congested.Config{}), nil, &event{Frame: data(t), Options: ip}, now)
	require.Empty(t, out)
	require.Equal(t, decision{Reason: node.ReasonDisabled}, d)
}

// TestNotifications checks the fields of the notifications.
func TestNotifications(t *testing.T) {
	decide := func(cfg congested.Config, e event) (m message.Message, d decision) {
		e.Options = ip
		out, d := congest(agent(t, cfg), nil, &e, now)
		require.Equal(t, node.NoReason, d.Reason)
		require.NoError(t, m.Decode(out, ip, message.Config{FCNPort: cfg.FCN.Port, ProxyPort: cfg.Proxy.Port,
			CodePoints: cfg.FastCNP.CodePoints}))
		return m, d
	}
	m, d := decide(method(congested.MethodFastCNP), event{Frame: data(t)})
	require.Equal(t, []any{self6, src6, dst6, uint32(17), uint8(1), uint8(1)},
		[]any{m.FastCNP.Src, m.FastCNP.Dst, m.FastCNP.Option.OriginalDst, m.FastCNP.CNP.DestQP, m.FastCNP.Option.Number,
			d.Option})
	require.Equal(t, fastcnp.OriginNetwork, m.FastCNP.Origin())

	// Option 2, with the node's own record in front of the others (D14).
	cfg := method(congested.MethodFastCNP)
	cfg.FastCNP.CodePoints = fastcnp.CodePoints{Option1: 0x83, Option2: 0x84}
	own := new(ioam.Node)
	own.SetNode(63, 5)
	own.SetQueueDepth(1000)
	traced := data(t, func(p *rocev2.Packet) {
		p.Ext = wiretest.Hex(t, hops)
	})
	cfg.Own = own
	m, d = decide(cfg, event{Frame: traced})
	require.EqualValues(t, 2, d.Option)
	require.True(t, d.OwnRecord)
	var queues []uint32
	for n := range m.FastCNP.Option.Trace.Nodes() {
		depth, _ := n.QueueDepth()
		queues = append(queues, depth)
	}
	require.Equal(t, []uint32{1000, 9}, queues)
	cfg.Own = nil
	m, d = decide(cfg, event{Frame: traced})
	require.EqualValues(t, 2, m.FastCNP.Option.Trace.RemainingLen)
	require.False(t, d.OwnRecord)

	// The decision does not claim an own record that is not in the message: no trace, or a trace without space.
	cfg.Own = own
	_, d = decide(cfg, event{Frame: data(t)})
	require.Equal(t, []any{uint8(1), false}, []any{d.Option, d.OwnRecord})
	m, d = decide(cfg, event{Frame: data(t, func(p *rocev2.Packet) { p.Ext = wiretest.Hex(t, fullHops) })})
	require.Equal(t, []any{uint8(2), false}, []any{d.Option, d.OwnRecord})
	require.True(t, m.FastCNP.Option.Trace.Overflow)

	cfg = method(congested.MethodProxy)
	cfg.Proxy.Port = 2022
	inVXLAN := tunnelled(t, vxlan, data(t, v4), 5)
	m, d = decide(cfg, event{Frame: inVXLAN, Level: 6})
	require.Equal(t, proxy, d.To)
	require.Equal(t, rocev2.FiveTuple{Src: src4, Dst: dst4, Protocol: 17, SrcPort: 49152, DstPort: 4791},
		m.Proxy.FiveTuple)
	require.Equal(t, inVXLAN, m.Proxy.Invoking)
	require.EqualValues(t, 6, m.Proxy.Level)
	require.EqualValues(t, 2022, m.Packet.DstPort)
	m, _ = decide(cfg, event{Frame: inVXLAN, Level: 9}) // more than there are
	require.EqualValues(t, 7, m.Proxy.Level)

	for _, c := range []struct{ level, want uint8 }{{0, 1}, {1, 1}, {7, 7}, {9, 7}} {
		t.Run(fmt.Sprint(c.level), func(t *testing.T) {
			m, d = decide(method(congested.MethodFCN), event{Frame: inVXLAN, Level: c.level})
			require.Equal(t, pe, d.To)
			require.Equal(t, []any{uint32(5), c.want}, []any{m.FCN.FlowLabel, m.FCN.Level})
		})
	}

	for _, c := range []struct {
		name string
		key  rocev2.FlowKey
	}{
		{string(data(t)), rocev2.FlowKey{Src: src6, Dst: dst6, DestQP: 17}},
		{string(data(t, v4)), rocev2.FlowKey{Src: src4, Dst: dst4, DestQP: 17}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg = method(congested.MethodPPFC)
			cfg.Pause = 100*time.Microsecond + 1
			m, d = decide(cfg, event{Frame: []byte(c.name), Port: 7})
			require.Equal(t, c.key.Src, d.To)
			require.Equal(t, []any{ppfc.Stop, c.key.Dst, c.key.DestQP, 100 * time.Microsecond, uint16(7)},
				[]any{m.PPFC.Type, m.PPFC.Congested, m.PPFC.DestQP, m.PPFC.Pause, m.PPFC.Port})
			for _, row := range []struct{ pause, want time.Duration }{
				{time.Hour, ppfc.MaxPause}, {-time.Microsecond, 0}, {-1, 0}, {1999, time.Microsecond},
			} {
				t.Run(fmt.Sprint(row.pause), func(t *testing.T) {
					cfg.Pause = row.pause
					m, _ = decide(cfg, event{Frame: []byte(c.name)})
					require.Equal(t, row.want, m.PPFC.Pause)
				})
			}
		})
	}
}

// Proxy messages and FCNs to one node come from one ephemeral UDP port, about any flow (D6): port 0 is often filtered,
// and no message overtakes an earlier one.
func TestSourcePort(t *testing.T) {
	for _, method := range []congested.Config{method(congested.MethodProxy), method(congested.MethodFCN)} {
		ports := map[uint16]bool{}
		for qp := range uint32(20) {
			frame := tunnelled(t, vxlan, data(t, func(p *rocev2.Packet) { p.BTH.DestQP = qp }), 5)
			var of [2]uint16
			for i := range of {
				out, d := congest(agent(t, method), nil, &event{Frame: frame, Options: ip}, now)
				require.Equal(t, node.NoReason, d.Reason)
				of[i] = binary.BigEndian.Uint16(out[40:])
			}
			require.Equal(t, of[0], of[1])
			require.GreaterOrEqual(t, of[0], uint16(49152))
			ports[of[0]] = true
		}
		require.Len(t, ports, 1)

		method.Proxy.Carriage.SrcPort, method.FCN.Carriage.SrcPort = 7, 7
		out, _ := congest(agent(t, method), nil, &event{Frame: tunnelled(t, vxlan, data(t), 5),
			Options: ip}, now)
		require.EqualValues(t, 7, binary.BigEndian.Uint16(out[40:]))
	}
}

// Ethernet flow control is other traffic, also after packets of any kind.
func TestFlowControl(t *testing.T) {
	a := agent(t, method(congested.MethodFastCNP))
	_, d := congest(a, nil, &event{Frame: data(t, notification(self6)), Options: ip}, now)
	require.Equal(t, node.ReasonNotification, d.Reason)
	for _, frame := range []string{
		"0180c2000001 001122334455 8808 0101 0018 0000 0000 0000 ffff 0000 0000 0000 0000",
		"0180c2000001 001122334455 8808 0001 ffff",
		"0180c2000001 001122334455 8808 0001",
	} {
		_, d = congest(a, nil, &event{Frame: wiretest.Hex(t, frame)}, now)
		require.Equal(t, decision{Packet: message.KindOther, Reason: node.ReasonNotOurs}, d)
	}
}

// A trace that is too long for option 2 is left out when the configuration says
// so; otherwise the packet is not answered.
func TestTraceTooLong(t *testing.T) {
	ext := append(wiretest.Hex(t, "111f 0100 31fa 0000 007b 083c 02000000"), make([]byte, 240)...)
	frame := data(t, func(p *rocev2.Packet) { p.Ext = ext })
	cfg := method(congested.MethodFastCNP)
	_, d := congest(agent(t, cfg), nil, &event{Frame: frame, Options: ip}, now)
	require.Equal(t, decision{Packet: message.KindData, Reason: node.ReasonBroken}, d)
	cfg.FastCNP.Long = fastcnp.LongTraceFallBack
	_, d = congest(agent(t, cfg), nil, &event{Frame: frame, Options: ip}, now)
	require.EqualValues(t, 1, d.Option)
	cfg.FastCNP.Long = fastcnp.LongTraceTrim
	_, d = congest(agent(t, cfg), nil, &event{Frame: frame, Options: ip}, now)
	require.EqualValues(t, 2, d.Option)
}

// The longest prefix decides.
func TestLongestPrefix(t *testing.T) {
	cfg := method(congested.MethodMark)
	cfg.Methods = acl.NewMap(
		acl.Entry[congested.Method]{Prefix: netip.MustParsePrefix("2001:db8::/32"), Value: congested.MethodMark},
		acl.Entry[congested.Method]{Prefix: netip.MustParsePrefix("2001:db8:1::/48"), Value: congested.MethodFastCNP})
	cfg.Capable = acl.NewMap(
		acl.Entry[congested.Capability]{Prefix: netip.MustParsePrefix("2001:db8:1::/48"), Value: congested.Incapable},
		acl.Entry[congested.Capability]{Prefix: netip.PrefixFrom(src6, 128), Value: congested.Capable})
	a := agent(t, cfg)
	for _, c := range []struct {
		src  netip.Addr
		want decision
	}{
		{src6, decision{Packet: message.KindData, Kind: message.KindFastCNP, To: src6, Option: 1}},
		{src6.Next(), decision{Packet: message.KindData, MarkECN: true}},
		{dst6, decision{Packet: message.KindData, MarkECN: true}},
		{netip.MustParseAddr("2001:db9::1"), decision{Packet: message.KindData, Reason: node.ReasonNoMethod}},
	} {
		t.Run(fmt.Sprint(c.src), func(t *testing.T) {
			_, d := congest(a, nil, &event{Frame: data(t, func(p *rocev2.Packet) { p.Src = c.src }), Options: ip}, now)
			require.Equal(t, c.want, d, c.src)
		})
	}
}

// Limits apply to a flow by level, and to all flows together. Rejected and marked packets are not charged.
func TestLimits(t *testing.T) {
	cfg := method(congested.MethodFastCNP)
	cfg.PerFlow = [8]time.Duration{0: 100 * time.Microsecond, 7: 10 * time.Microsecond}
	cfg.Out = node.Rate{PerSecond: 1000, Burst: 3}
	flow := func(qp uint32) []byte { return data(t, func(p *rocev2.Packet) { p.BTH.DestQP = qp }) }
	a := agent(t, cfg)
	for _, c := range []struct {
		after  time.Duration // microseconds after the start
		qp     uint32
		level  uint8
		reason node.Reason
	}{
		{0, 1, 0, 0},
		{99, 1, 0, node.ReasonLimited},
		{99, 2, 0, 0},  // another flow
		{99, 1, 7, 0},  // the more congested, the more often
		{109, 1, 3, 0}, // no limit at this level, but the bucket is empty
		{109, 3, 7, node.ReasonLimited},
		{1098, 3, 7, 0}, // filled again
	} {
		if c.after == 109 {
			c.reason = node.ReasonLimited
		}
		_, d := congest(a, nil, &event{Frame: flow(c.qp), Options: ip, Level: c.level},
			now.Add(c.after*time.Microsecond))
		require.Equal(t, c.reason, d.Reason, "%+v", c)
		require.True(t, d.MarkECN,
			"support of Fast CNPs by the sender is unknown: a limit takes nothing from marking")
	}

	// Exactly one interval later passes.
	cfg.Out = node.Rate{}
	a = agent(t, cfg)
	for after, reason := range []node.Reason{0: 0, 1: node.ReasonLimited, 99: node.ReasonLimited, 100: 0,
		101: node.ReasonLimited,
		199: node.ReasonLimited, 200: 0} {
		if after%100 > 1 && after%100 < 99 {
			continue
		}
		_, d := congest(a, nil, &event{Frame: flow(1), Options: ip}, now.Add(time.Duration(after)*time.Microsecond))
		require.Equal(t, reason, d.Reason, after)
	}

	// Marking is not limited, and takes nothing.
	cfg.Capable, cfg.Out = capable(congested.Incapable), node.Rate{PerSecond: 1}
	a = agent(t, cfg)
	for range 10 {
		_, d := congest(a, nil, &event{Frame: flow(1), Options: ip}, now)
		require.True(t, d.MarkECN)
	}
}

// Time that jumps back stops nothing for longer than an interval.
func TestTimeJumpsBack(t *testing.T) {
	cfg := method(congested.MethodFastCNP)
	cfg.PerFlow[0] = time.Millisecond
	cfg.Out = node.Rate{PerSecond: 1000}
	a := agent(t, cfg)
	e := &event{Frame: data(t), Options: ip}
	reasons := ""
	for _, at := range []time.Duration{0, -time.Hour, -time.Hour + time.Millisecond, -2 * time.Hour,
		-2*time.Hour + 999*time.Microsecond, -2*time.Hour + time.Millisecond} {
		_, d := congest(a, nil, e, now.Add(at))
		reasons += d.Reason.String() + " "
	}
	require.Equal(t, " limited  limited limited  ", reasons)
}

// problem returns the ICMPv6 Parameter Problem with which a host that does not
// know the option answers a Fast CNP (RFC 4443 section 3.4).
func problem(fastCNP []byte) []byte {
	return append([]byte{4, 2, 0, 0, 0, 0, 0, 42}, fastCNP...)
}

// A rejection counts only in the sender's domain: in another domain a different host may have the same address.
func TestRejectionOfDomain(t *testing.T) {
	a := agent(t, method(congested.MethodFastCNP))
	congest := func(domain uint32) ([]byte, message.Kind) {
		var f rocev2.Frame
		f.Decode(data(t), ip)
		out, d := a.Receive(nil, &f, node.Event{Domain: domain, Now: now})
		return out, d.Message
	}
	reject := func(octets []byte, domain uint32) node.Reason {
		icmp(agent(t, congested.Config{}), src6, problem(octets), now) // makes frame
		_, d := a.Receive(nil, &frame, node.Event{Domain: domain, Observe: true, Now: now})
		return d.Reason
	}
	sent, _ := congest(1)
	require.Equal(t, node.ReasonDenied, reject(sent, 2), "sent in another domain")
	second, kind := congest(1)
	require.Equal(t, message.KindFastCNP, kind)
	require.Equal(t, node.ReasonUnconfirmed, reject(sent, 1))
	require.Equal(t, node.NoReason, reject(second, 1))
	for _, c := range []struct {
		domain uint32
		want   message.Kind
	}{{0, message.KindFastCNP}, {1, message.KindOther}, {2, message.KindFastCNP}} {
		t.Run(fmt.Sprint(c.domain), func(t *testing.T) {
			_, kind := congest(c.domain)
			require.Equal(t, c.want, kind, c.domain)
		})
	}
}

func TestICMP(t *testing.T) {
	cfg := method(congested.MethodFastCNP)
	a := agent(t, cfg)
	e := &event{Frame: data(t), Options: ip}
	sent, d := congest(a, nil, e, now)
	require.Equal(t, message.KindFastCNP, d.Kind)

	changed := func(at int) []byte {
		b := bytes.Clone(sent)
		b[at] ^= 1
		return problem(b)
	}
	other := agent(t, cfg) // has not sent it
	forged := []struct {
		name    string
		a       *congested.Role
		from    netip.Addr
		message []byte
		at      time.Duration
		reason  node.Reason
	}{
		{"never sent", other, src6, problem(sent), 0, node.ReasonDenied},
		{"from another host", a, dst6, problem(sent), 0, node.ReasonDenied},
		{"from IPv4", a, src4, problem(sent), 0, node.ReasonDenied},
		{"another queue pair", a, src6, changed(40 + 24 + 8 + 7), 0, node.ReasonDenied},
		{"another original destination", a, src6, changed(40 + 4), 0, node.ReasonDenied},
		{"another sender", a, src6.Next(), changed(39), 0, node.ReasonDenied},
		{"another reserved octet", a, src6, changed(len(sent) - 5), 0, node.ReasonDenied},
		{"another source", a, src6, changed(23), 0, node.ReasonDenied},
		{"another payload length", a, src6, changed(5), 0, node.ReasonDenied},
		{"another next header", a, src6, changed(6), 0, node.ReasonDenied},
		{"cut", a, src6, problem(sent)[:len(sent)+7], 0, node.ReasonDenied},
		{"longer", a, src6, append(problem(sent), 0), 0, node.ReasonDenied},
		{"no quote", a, src6, problem(nil), 0, node.ReasonDenied},
		{"about another octet", a, src6, append([]byte{4, 2, 0, 0, 0, 0, 0, 43}, sent...), 0, node.ReasonDenied},
		{"another code", a, src6, append([]byte{4, 1, 0, 0, 0, 0, 0, 42}, sent...), 0, node.ReasonDenied},
		{"another type", a, src6, append([]byte{1, 2, 0, 0, 0, 0, 0, 42}, sent...), 0, node.ReasonNotOurs},
		{"no message", a, src6, nil, 0, node.ReasonNotOurs},
		{"another flow label", a, src6, changed(1), 0, node.ReasonDenied},
		{"another flow label, last bit", a, src6, changed(3), 0, node.ReasonDenied},
		{"without the flow label", a, src6, problem(unlabelled(sent)), 0, node.ReasonDenied},
		{"too late", a, src6, problem(sent), 5 * time.Second, node.ReasonDenied},
		{"disabled", agent(t, congested.Config{}), src6, problem(sent), 0, node.ReasonDisabled},
	}
	for _, c := range forged {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.reason, icmp(c.a, c.from, c.message, now.Add(c.at)))
			_, d := congest(a, nil, e, now)
			require.Equal(t, message.KindFastCNP, d.Kind)
		})
	}

	// A message recorded with RecordSent counts as one of the node's own while the role is on.
	idle := agent(t, cfg)
	idle.RecordSent(sent, 0, now)
	idle.RecordSent(sent[:39], 0, now)
	require.Equal(t, node.ReasonDenied, icmp(idle, src6, problem(sent), now.Add(5*time.Second)))
	idle.RecordSent(sent, 0, now)
	require.Equal(t, node.ReasonUnconfirmed, icmp(idle, src6, problem(sent), now))
	(&congested.Role{}).RecordSent(sent, 0, now)

	// Octets in the buffer before the message are not part of it.
	next := agent(t, cfg)
	out, _ := congest(next, []byte("frame"), e, now)
	require.Equal(t, node.ReasonUnconfirmed, icmp(next, src6, problem(out[len("frame"):]), now))

	wrong := problem(sent)
	wrong[8] ^= 0x20 // the version
	require.Equal(t, node.ReasonDenied, icmp(a, src6, wrong, now))
	sent, _ = congest(a, nil, e, now.Add(time.Second)) // the rows above have moved the time
	rejection := problem(sent)
	rejection[8]++   // traffic class
	rejection[8+7]-- // the hop limit falls on the way
	require.Equal(t, node.ReasonUnconfirmed, icmp(a, src6, rejection, now.Add(time.Second)))
	require.Equal(t, node.ReasonUnconfirmed, icmp(a, src6, rejection, now.Add(time.Second)), "the same Fast CNP")
	require.Zero(t, a.Counters().Load(taught))
	second, d := congest(a, nil, e, now.Add(time.Second))
	require.Equal(t, message.KindFastCNP, d.Kind, "not confirmed")
	require.Equal(t, node.NoReason, icmp(a, src6, problem(second), now.Add(time.Second)))
	require.EqualValues(t, 1, a.Counters().Load(taught))
	_, d = congest(a, nil, e, now.Add(time.Second))
	require.Equal(t, decision{Packet: message.KindData, MarkECN: true}, d)
	_, d = congest(a, nil, &event{Frame: data(t, func(p *rocev2.Packet) { p.Src = p.Src.Next() }), Options: ip}, now)
	require.Equal(t, message.KindFastCNP, d.Kind, "another sender")
}

// unlabelled returns an IPv6 packet with flow label 0.
func unlabelled(packet []byte) []byte {
	b := bytes.Clone(packet)
	b[1], b[2], b[3] = b[1]&0xF0, 0, 0
	return b
}

// The same out of frames.
func TestICMPFrame(t *testing.T) {
	a := agent(t, method(congested.MethodFastCNP))
	e := &event{Frame: data(t), Options: ip}
	sent, _ := congest(a, nil, e, now)
	second, _ := congest(a, nil, e, now)
	frame := func(from, to netip.Addr, message []byte, options string) []byte {
		ext := wiretest.Hex(t, options)
		b := []byte{0x60, 0, 0, 0, 0, uint8(len(ext) + len(message)), 58, 64}
		if len(ext) > 0 {
			b[6] = 0
		}
		return append(append(append(append(b, from.AsSlice()...), to.AsSlice()...), ext...), message...)
	}
	for _, c := range []struct {
		name   string
		frame  []byte
		reason node.Reason
	}{
		{"no packet", nil, node.ReasonNotOurs},
		{"data", data(t), node.ReasonNotOurs},
		{"echo request", frame(src6, self6, []byte{128, 0, 0, 0, 0, 0, 0, 0}, ""), node.ReasonNotOurs},
		{"to another", frame(src6, dst6, problem(data(t)), ""), node.ReasonNotOurs},
		{"to another, about a Fast CNP", frame(src6, dst6, problem(sent), ""), node.ReasonDenied},
		{"from another", frame(dst6, self6, problem(sent), ""), node.ReasonDenied},
		{"about data", frame(src6, self6, problem(data(t)), ""), node.ReasonDenied},
		{"tunnelled", tunnelled(t, ipip, frame(src6, self6, problem(sent), ""), 5), node.ReasonNotOurs},
		{"rejection", frame(src6, self6, problem(sent), ""), node.ReasonUnconfirmed},
		{"rejection of another", frame(src6, self6, problem(second), ""), 0},
		{"rejection after options", frame(src6, self6, problem(sent), "3a00 0104 00000000"), 0},
		{"rejection after more options", frame(src6, self6, problem(sent),
			"3c00 0104 00000000 3a01 010c 000000000000000000000000"), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := counted(a)
			require.Equal(t, c.reason, icmpFrame(a, c.frame, ip, now))
			switch c.reason {
			case node.NoReason:
				before[taught]++
			case node.ReasonDenied, node.ReasonUnconfirmed:
				before[refused(c.reason)]++
			}
			require.Equal(t, before, counted(a))
			wiretest.NoAllocs(t, c.name, func() { icmpFrame(a, c.frame, ip, now) })
		})
	}
	require.Equal(t, node.ReasonDisabled,
		icmpFrame(agent(t, congested.Config{}), frame(src6, self6, problem(sent), ""), ip, now))
}

// Floods of new flows, of forged ICMPv6 errors and of senders that reject: no
// memory beyond that of the start, and the others are served.
func TestFlood(t *testing.T) {
	cfg := method(congested.MethodFastCNP)
	cfg.MaxFlows, cfg.MaxSent, cfg.MaxRejected = 64, 64, 64
	cfg.PerFlow[0] = time.Second
	a := agent(t, cfg)
	e := &event{Frame: data(t), Options: ip}
	var buf []byte
	random := rand.New(rand.NewPCG(1, 2))
	flood := func() {
		for i := range 20_000 {
			binary.BigEndian.PutUint64(e.Frame[16:], random.Uint64()) // the sender
			var d decision
			buf, d = congest(a, buf[:0], e, now)
			require.Equal(t, message.KindFastCNP, d.Kind)
			if i%2 == 0 {
				buf = append(buf[:0], problem(buf)...)
				require.Equal(t, node.ReasonUnconfirmed, icmp(a, d.To, buf, now))
				e.Frame[40+8+7]++ // another queue pair
				buf, _ = congest(a, buf[:0], e, now)
				buf = append(buf[:0], problem(buf)...)
				require.Equal(t, node.NoReason, icmp(a, d.To, buf, now))
			} else {
				buf = append(buf[:0], problem(buf)...)
				buf[8+39]++
				require.Equal(t, node.ReasonDenied, icmp(a, d.To, buf, now))
			}
		}
	}
	flood()
	require.EqualValues(t, 10_000, a.Counters().Load(taught))
	require.EqualValues(t, 10_000, a.Counters().Load(refused(node.ReasonUnconfirmed)))
	require.EqualValues(t, 10_000, a.Counters().Load(refused(node.ReasonDenied)))
	wiretest.NoAllocs(t, "flood", func() {
		binary.BigEndian.PutUint64(e.Frame[16:], random.Uint64())
		buf, _ = congest(a, buf[:0], e, now)
		icmp(a, src6, buf, now)
	})
}

func TestNoAllocs(t *testing.T) {
	buf := make([]byte, 0, 1280)
	own := new(ioam.Node)
	own.SetNode(0, 5)
	traced := data(t, func(p *rocev2.Packet) {
		p.Ext = wiretest.Hex(t, hops)
	})
	for m := congested.NoMethod; m <= congested.MethodMark; m++ {
		for _, c := range []struct {
			name  string
			frame []byte
		}{
			{"data", data(t)}, {"trace", traced}, {"IPv4", data(t, v4)}, {"tunnelled", tunnelled(t, vxlan, data(t), 5)},
			{"ack", data(t, opcode(bth.RCAcknowledge))},
			{"CNP", data(t, notification(dst6))}, {"fragment", fragmentOf(data(t))}, {"broken", data(t)[:60]},
			{"other", []byte{0x60}},
		} {
			t.Run(c.name, func(t *testing.T) {
				cfg := method(m)
				cfg.FastCNP.Long, cfg.Own = fastcnp.LongTraceFallBack, own
				a := agent(t, cfg)
				e := &event{Frame: c.frame, Options: ip}
				wiretest.NoAllocs(t, fmt.Sprint(m, " ", c.name), func() { congest(a, buf, e, now) })
			})
		}
	}
}

// No packet causes a panic, or both a Fast CNP and a mark for a sender with known capability.
func FuzzCongested(f *testing.F) {
	for _, c := range wiretest.Captures(f, "*.pcap") {
		for _, p := range wiretest.Capture(f, c)[:1] {
			f.Add(p.Data, uint8(0), uint8(1))
		}
	}
	f.Add(data(f), uint8(1), uint8(congested.MethodPPFC))
	f.Add(tunnelled(f, vxlan, data(f), 5), uint8(1), uint8(congested.MethodFCN))
	f.Add(tunnelled(f, ipip, data(f, v4), 5), uint8(1), uint8(congested.MethodProxy))
	f.Add(fragmentOf(data(f)), uint8(1), uint8(congested.MethodFastCNP))
	f.Fuzz(func(t *testing.T, frame []byte, link, m uint8) {
		cfg := method(congested.Method(m % 6))
		cfg.Capable = capable(congested.Capable)
		cfg.FastCNP.Long = fastcnp.LongTraceFallBack
		cfg.MaxFlows, cfg.MaxSent, cfg.MaxRejected = 4, 4, 4
		a := agent(t, cfg)
		out, d := congest(a, nil, &event{Frame: frame, Options: rocev2.DecodeOptions{Link: rocev2.LinkType(link % 6)}},
			now)
		if d.Kind == message.KindOther {
			require.Empty(t, out)
		} else {
			var got message.Message
			family := proxymsg.Family(0)
			if d.Kind == message.KindProxy { // a fuzzed invoking packet need not show it
				if family = proxymsg.IPv6; len(out) > 48+16 && netip.AddrFrom4([4]byte(out[48:])) == src4 {
					family = proxymsg.IPv4
				}
			}
			require.NoError(t, got.Decode(out, ip, message.Config{ProxyFamily: family}))
		}
		require.False(t, d.Kind != message.KindOther && d.MarkECN)
		icmp(a, src6, frame, now)
		icmpFrame(a, frame, ip, now)
	})
}

// The memory of a role is the documented size, and is allocated at the start.
func TestMemory(t *testing.T) {
	const flows, sent, rejected, paused = 65536, 4096, 16384, 4096
	var a *congested.Role
	cfg := method(congested.MethodFastCNP)
	cfg.PerFlow[7] = time.Second
	got := wiretest.Allocated(func() { a = agent(t, cfg) })
	require.InDelta(t, 16*(flows+sent)+64*rejected+88*paused, got, 64<<10)
	require.NotNil(t, a)
	require.Less(t, wiretest.Allocated(func() { agent(t, congested.Config{}) }), uint64(16<<10),
		"nothing for a role that is off")
}
