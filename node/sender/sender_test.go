package sender_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/ioam"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/sender"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

var (
	self4 = netip.MustParseAddr("198.51.100.1")
	self6 = netip.MustParseAddr("2001:db8:1::a")
	dst4  = netip.MustParseAddr("198.51.100.2")
	dst6  = netip.MustParseAddr("2001:db8:4::e")
	sw    = netip.MustParseAddr("2001:db8:ffff::5")
	sw4   = netip.MustParseAddr("192.0.2.9")
	now   = time.Unix(1795254649, 0)

	ip = rocev2.DecodeOptions{Link: rocev2.LinkIP}
)

// congested returns a data packet of the host's own, changed.
func congested(t testing.TB, change ...func(*rocev2.Packet)) *rocev2.Packet {
	t.Helper()
	p := rocev2.Packet{BTH: bth.Headers{Header: bth.Header{Opcode: bth.RCSendOnly, DestQP: 0x11, PKey: 0xFFFF}},
		Payload: make([]byte, 64)}
	p.Src, p.Dst, p.SrcPort, p.DstPort, p.HopLimit = self6, dst6, 49152, rocev2.Port, 64
	p.TrafficClass = uint8(rocev2.ECT0)
	for _, c := range change {
		c(&p)
	}
	b := wiretest.Must(p.AppendBinary(nil))(t)
	var d rocev2.Packet
	require.NoError(t, d.DecodeIP(b))
	return &d
}

func v4(p *rocev2.Packet) { p.Src, p.Dst = self4, dst4 }

func readResponse(p *rocev2.Packet) { p.BTH.Opcode = bth.RCRDMAReadResponseFirst }

// hops is a Hop-by-Hop header with a pre-allocated trace of one hop.
const hops = "1103 0100 311a 0000 007b 1002 82000000 00000000 00000000 40000007 00000009"

func traced(t testing.TB) func(*rocev2.Packet) {
	return func(p *rocev2.Packet) { p.Ext = wiretest.Hex(t, hops) }
}

func fastCNP(t testing.TB, from netip.Addr, about *rocev2.Packet) []byte {
	t.Helper()
	b, _, err := fastcnp.AppendFor(nil, about, from, nil, fastcnp.Config{})
	require.NoError(t, err)
	return b
}

// receiverCNP is the receiver's CNP, which names the host's queue pair.
func receiverCNP(t testing.TB, about *rocev2.Packet, qp uint32) []byte {
	t.Helper()
	return wiretest.Must(cnp.AppendFor(nil, about, about.FinalDst(), qp, cnp.Config{}))(t)
}

func pause(t testing.TB, about *rocev2.Packet, from netip.Addr, e ppfc.Extension, forHost bool) []byte {
	t.Helper()
	return wiretest.Must(ppfc.AppendFor(nil, about, from, e, ppfc.Config{NodeAddress: !forHost}))(t)
}

func config(t testing.TB) sender.Config {
	m := qpmap.New(qpmap.Config{MaxPairs: 16, MaxPending: 4, MaxOpen: 4})
	require.NoError(t, m.Add(qpmap.Key{FlowKey: rocev2.FlowKey{Src: self6, Dst: dst6, DestQP: 0x11}},
		qpmap.Pair{SrcQP: 0x22}))
	require.NoError(t, m.Add(qpmap.Key{FlowKey: rocev2.FlowKey{Src: self4, Dst: dst4, DestQP: 0x11}},
		qpmap.Pair{SrcQP: 0x23}))
	require.NoError(t, m.Add(qpmap.Key{FlowKey: rocev2.FlowKey{Src: dst6, Dst: self6, DestQP: 0x22}},
		qpmap.Pair{SrcQP: 0x11}))
	require.NoError(t, m.Add(qpmap.Key{FlowKey: rocev2.FlowKey{Src: dst4, Dst: self4, DestQP: 0x23}},
		qpmap.Pair{SrcQP: 0x11}))
	return sender.Config{
		Enabled: true, Self4: self4, Self6: self6, QPs: m,
		Accept: acl.New(netip.PrefixFrom(sw, 64), netip.PrefixFrom(sw4, 24)),
	}
}

func made(t testing.TB, cfg sender.Config) *sender.Role {
	t.Helper()
	return wiretest.Must(sender.New(cfg))(t)
}

// An event has the fields of a Decision that the tests compare, unless it rejects the packet.
type event struct {
	Kind     message.Kind
	From     netip.Addr
	Origin   fastcnp.Origin
	SrcQP    uint32
	KnownQP  bool
	Flow     rocev2.FlowKey
	SrcPort  uint16
	Repeated bool
	Trace    *ioam.Trace
	Pause    ppfc.Extension
}

var frame rocev2.Frame

// types are the types of PPFC that ask for a request.
var types = map[node.Request]ppfc.Type{
	node.RequestStop: ppfc.Stop, node.RequestResume: ppfc.Resume, node.RequestAlarm: ppfc.Alarm,
	node.RequestHold: ppfc.Hold,
}

// receive returns ReasonNotOurs also for packets that a sender ignores or only learns from.
func receive(s *sender.Role, packet []byte, o rocev2.DecodeOptions, now time.Time) (e event, reason node.Reason) {
	frame.Decode(packet, o)
	_, d := s.Receive(nil, &frame, node.Event{Now: now})
	switch {
	case d.Action == node.NoAction, d.Action == node.ActionLearned:
		return e, node.ReasonNotOurs
	case d.Reason != node.NoReason:
		if d.Action != node.ActionRefused || d.Message != message.KindOther || d.Trace != nil || d.Repeated {
			panic("a rejected packet with a request")
		}
		return e, d.Reason
	case d.Action != node.ActionAccepted || d.Message != d.Packet:
		panic("a Decision that contradicts itself")
	}
	var asked ppfc.Extension
	if d.Message == message.KindPPFC {
		asked = ppfc.Extension{Congested: d.Flow.Dst, Type: types[d.Request], Port: d.Port, Pause: d.Pause}
	} else if d.Request == node.RequestSlowDown == d.Repeated {
		panic("a repeated report asks to slow down, or a first one does not")
	}
	return event{
		d.Message, d.From, d.Origin, d.SrcQP, d.KnownQP, d.Flow.FlowKey, d.SrcPort, d.Repeated, d.Trace, asked,
	}, d.Reason
}

// observe shows a sender a packet that is no notification.
func observe(s *sender.Role, p *rocev2.Packet, now time.Time) {
	frame.Decode(append(bytes.Clone(p.Outer), p.IP...), ip)
	if _, d := s.Receive(nil, &frame, node.Event{Now: now}); d.Action != node.NoAction &&
		d.Action != node.ActionLearned {
		panic(d.Action)
	}
}

// connect makes the host's queue pair qp one end of a connection.
func connect(t testing.TB, cfg *sender.Config, dst netip.Addr, destQP, qp uint32) {
	t.Helper()
	m := cfg.QPs.(*qpmap.Map)
	require.NoError(t, m.Add(qpmap.Key{FlowKey: rocev2.FlowKey{Src: self6, Dst: dst, DestQP: destQP}},
		qpmap.Pair{SrcQP: qp}))
	require.NoError(t, m.Add(qpmap.Key{FlowKey: rocev2.FlowKey{Src: dst, Dst: self6, DestQP: qp}},
		qpmap.Pair{SrcQP: destQP}))
}

// TestAccepted checks the notifications that are accepted, and their content.
func TestAccepted(t *testing.T) {
	key6 := rocev2.FlowKey{Src: self6, Dst: dst6, DestQP: 0x11}
	stop := ppfc.Extension{Type: ppfc.Stop, Port: 7, Pause: 100 * time.Microsecond}
	for _, c := range []struct {
		name   string
		packet []byte
		want   event
	}{
		{"Fast CNP of a switch", fastCNP(t, sw, congested(t)),
			event{Kind: message.KindFastCNP, From: sw, SrcQP: 0x22, KnownQP: true, Flow: key6, SrcPort: 49152}},
		{"Fast CNP of the receiver", fastCNP(t, dst6, congested(t)),
			event{Kind: message.KindFastCNP, From: dst6, Origin: fastcnp.OriginReceiver, SrcQP: 0x22, KnownQP: true,
				Flow:    key6,
				SrcPort: 49152}},
		{"CNP", receiverCNP(t, congested(t), 0x22),
			event{Kind: message.KindCNP, From: dst6, Origin: fastcnp.OriginReceiver, SrcQP: 0x22, KnownQP: true,
				Flow: rocev2.FlowKey{Src: self6}}},
		{"Fast CNP about a READ response", fastCNP(t, sw, congested(t, readResponse)),
			event{Kind: message.KindFastCNP, From: sw, SrcQP: 0x22, KnownQP: true, Flow: key6, SrcPort: 49152}},
		{"CNP about a READ response", receiverCNP(t, congested(t, readResponse), 0x22),
			event{Kind: message.KindCNP, From: dst6, Origin: fastcnp.OriginReceiver, SrcQP: 0x22, KnownQP: true,
				Flow: rocev2.FlowKey{Src: self6}}},
		{"PPFC about a READ response", pause(t, congested(t, readResponse), sw, stop, true),
			event{Kind: message.KindPPFC, From: sw, SrcQP: 0x22, KnownQP: true, Flow: key6,
				Pause: ppfc.Extension{Congested: dst6, Type: ppfc.Stop, Port: 7, Pause: 100 * time.Microsecond}}},
		{"CNP over IPv4", receiverCNP(t, congested(t, v4), 0x23),
			event{Kind: message.KindCNP, From: dst4, Origin: fastcnp.OriginReceiver, SrcQP: 0x23, KnownQP: true,
				Flow: rocev2.FlowKey{Src: self4}}},
		{"PPFC, as a host needs it", pause(t, congested(t), sw, stop, true),
			event{Kind: message.KindPPFC, From: sw, SrcQP: 0x22, KnownQP: true, Flow: key6,
				Pause: ppfc.Extension{Congested: dst6, Type: ppfc.Stop, Port: 7, Pause: 100 * time.Microsecond}}},
		{"PPFC over IPv4", pause(t, congested(t, v4), sw4, ppfc.Extension{Type: ppfc.Resume}, true),
			event{Kind: message.KindPPFC, From: sw4, SrcQP: 0x23, KnownQP: true,
				Flow:  rocev2.FlowKey{Src: self4, Dst: dst4, DestQP: 0x11},
				Pause: ppfc.Extension{Congested: dst4, Type: ppfc.Resume}}},
		{"PPFC that names the node", pause(t, congested(t), sw, stop, false),
			event{Kind: message.KindPPFC, From: sw, Flow: rocev2.FlowKey{Src: self6, Dst: sw, DestQP: 0x11},
				Pause: ppfc.Extension{Congested: sw, Type: ppfc.Stop, Port: 7, Pause: 100 * time.Microsecond}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := made(t, config(t))
			e, reason := receive(s, c.packet, ip, now)
			require.Equal(t, node.NoReason, reason)
			require.Equal(t, c.want, e)
			require.EqualValues(t, 1, s.Counters().Load(node.Count{Action: node.ActionAccepted, Message: c.want.Kind}))
		})
	}

	s := made(t, config(t))
	e, reason := receive(s, fastCNP(t, sw, congested(t, traced(t))), ip, now)
	require.Equal(t, node.NoReason, reason)
	for n := range e.Trace.Nodes() {
		depth, ok := n.QueueDepth()
		require.True(t, ok)
		require.EqualValues(t, 9, depth)
	}
}

// changed returns a packet with an octet changed and, unless the ICRC is to be
// wrong, a right ICRC.
func changed(t testing.TB, packet []byte, at int, to uint8, right bool) []byte {
	t.Helper()
	b := bytes.Clone(packet)
	b[at] = to
	if right {
		require.NoError(t, icrc.Write(b, icrc.AsSent))
	}
	return b
}

// TestRefused checks the packets that are rejected, and the order of the reasons: each packet has the faults of the
// rows below as well, if it can.
func TestRefused(t *testing.T) {
	stranger := netip.MustParseAddr("2001:db8:bad::1")
	unknown := congested(t, func(p *rocev2.Packet) { p.BTH.DestQP = 0x12 })
	elsewhere := congested(t, func(p *rocev2.Packet) { p.Src = self6.Next() })
	good := fastCNP(t, sw, congested(t))
	strangers := receiverCNP(t, congested(t, func(p *rocev2.Packet) { p.Dst = stranger }), 0x22)
	for _, c := range []struct {
		name   string
		packet []byte
		change func(*sender.Config)
		reason node.Reason
	}{
		{"disabled", good, func(c *sender.Config) { c.Enabled = false }, node.ReasonDisabled},
		{"no UDP at all", good[:60], nil, node.ReasonNotOurs},
		{"truncated in the BTH", good[:83], nil, node.ReasonBroken},
		{"data", congested(t, func(p *rocev2.Packet) { p.Dst = self6 }).IP, nil, node.ReasonNotOurs},
		{"another host's", fastCNP(t, sw, elsewhere), nil, node.ReasonNotOurs},
		{"another host's, tunnelled", tunnelled(fastCNP(t, sw, elsewhere)), nil, node.ReasonNotOurs},
		{"tunnelled", tunnelled(fastCNP(t, stranger, congested(t))), nil, node.ReasonTunnelled},
		{"of a stranger", changed(t, fastCNP(t, stranger, unknown), 100, 1, false), nil, node.ReasonDenied},
		{"of a stranger, broken", changed(t, fastCNP(t, stranger, unknown), 43, 17, false), nil, node.ReasonDenied},
		{"CNP of a stranger", strangers, nil, node.ReasonUnknownQP},
		{"CNP of an unknown host that sends to the queue pair", strangers,
			func(c *sender.Config) {
				k := rocev2.FlowKey{Src: stranger, Dst: self6, DestQP: 0x22}
				require.NoError(t, c.QPs.(*qpmap.Map).Add(qpmap.Key{FlowKey: k}, qpmap.Pair{SrcQP: 0x77}))
			}, node.ReasonUnknownQP},
		{"CNP of a stranger, by which another queue pair sends", strangers,
			func(c *sender.Config) {
				connect(t, c, stranger, 0x77, 0x24)
				k := rocev2.FlowKey{Src: stranger, Dst: self6, DestQP: 0x22}
				require.NoError(t, c.QPs.(*qpmap.Map).Add(qpmap.Key{FlowKey: k}, qpmap.Pair{SrcQP: 0x77}))
			}, node.ReasonUnknownQP},
		{"CNP of the receiver, of another queue pair", receiverCNP(t, congested(t), 0x23), nil, node.ReasonUnknownQP},
		{"CNP, nothing known", receiverCNP(t, congested(t), 0x22), func(c *sender.Config) { c.QPs = nil },
			node.ReasonUnknownQP},
		{"CNP, one direction ambiguous", receiverCNP(t, congested(t), 0x22),
			func(c *sender.Config) { c.QPs = sourceQPOnly{c.QPs} }, node.ReasonAmbiguousQP},
		{"CNP, ambiguous", receiverCNP(t, congested(t), 0x22),
			func(c *sender.Config) { c.QPs = ambiguous{} }, node.ReasonAmbiguousQP},
		{"Fast CNP of the receiver where receivers send none", fastCNP(t, dst6, congested(t)),
			func(c *sender.Config) { c.ReceiversSendNone = true }, node.ReasonDenied},
		{"Fast CNP of the receiver, ambiguous", fastCNP(t, dst6, congested(t)),
			func(c *sender.Config) { c.QPs = ambiguous{} }, node.ReasonAmbiguousQP},
		{"Fast CNP of the receiver about another flow",
			fastCNP(t, dst6, congested(t, func(p *rocev2.Packet) { p.Dst = dst6.Next() })), nil, node.ReasonDenied},
		{"Fast CNP of the receiver, on the list, unknown flow", fastCNP(t, dst6, unknown),
			func(c *sender.Config) { c.Accept = acl.New(netip.PrefixFrom(dst6, 128)) }, node.ReasonUnknownQP},
		{"PPFC of a stranger", pause(t, congested(t), stranger, ppfc.Extension{}, true), nil, node.ReasonDenied},
		{"PPFC of the receiver", pause(t, congested(t), dst6, ppfc.Extension{}, true), nil, node.ReasonDenied},
		{"no list", good, func(c *sender.Config) { c.Accept = nil }, node.ReasonDenied},
		{"too many options", congested(t, func(p *rocev2.Packet) {
			p.Src, p.Dst, p.BTH.Opcode, p.Payload, p.NextHeader = sw, self6, bth.CNP, make([]byte, 16), 60
			p.Ext = wiretest.Hex(t,
				"1104 9e10 20010db800040000000000000000000e 1e00 1e00 1e00 1e00 1e00 1e00 1e00 1e00 1e00 0100")
		}).IP, nil, node.ReasonBroken},
		{"too many Hop-by-Hop options", congested(t, func(p *rocev2.Packet) {
			p.Src, p.Dst, p.BTH.Opcode, p.Payload, p.NextHeader = sw, self6, bth.CNP, make([]byte, 16), 0
			p.Ext = wiretest.Hex(t, "1104 1e10 0000000000000000 0000000000000000"+
				"1e00 1e00 1e00 1e00 1e00 1e00 1e00 1e00 1e00 0100")
		}).IP, nil, node.ReasonBroken},
		{"too many options after a Hop-by-Hop header", congested(t, func(p *rocev2.Packet) {
			p.Src, p.Dst, p.BTH.Opcode, p.Payload, p.NextHeader = sw, self6, bth.CNP, make([]byte, 16), 0
			p.Ext = wiretest.Hex(t, "3c00 0104 00000000"+
				"1104 9e10 20010db800040000000000000000000e 1e00 1e00 1e00 1e00 1e00 1e00 1e00 1e00 1e00 0100")
		}).IP, nil, node.ReasonBroken},
		{"overrunning Hop-by-Hop option", congested(t, func(p *rocev2.Packet) {
			p.Src, p.Dst, p.BTH.Opcode, p.Payload, p.NextHeader = sw, self6, bth.CNP, make([]byte, 16), 0
			p.Ext = wiretest.Hex(t, "1100 1e05 00000000")
		}).IP, nil, node.ReasonBroken},
		{"option length", changed(t, good, 43, 17, true), nil, node.ReasonBroken},
		{"PPFC length", func() []byte {
			b := pause(t, congested(t), sw, ppfc.Extension{}, true)
			binary.BigEndian.PutUint16(b[4:], binary.BigEndian.Uint16(b[4:])-4)
			binary.BigEndian.PutUint16(b[44:], binary.BigEndian.Uint16(b[44:])-4)
			return b
		}(), nil, node.ReasonBroken},
		{"unknown option that must not be skipped", changed(t, good, 42, 0x9F, true), nil, node.ReasonUnknownOption},
		{"truncated after the BTH", fastCNP(t, sw, unknown)[:90], nil, node.ReasonICRC},
		{"ICRC", changed(t, fastCNP(t, sw, unknown), 100, 1, false), nil, node.ReasonICRC},
		{"unknown flow", fastCNP(t, sw, unknown), nil, node.ReasonUnknownQP},
		{"unknown flow, of the receiver", fastCNP(t, dst6.Next(),
			congested(t, func(p *rocev2.Packet) { p.Dst = dst6.Next() })), nil, node.ReasonUnknownQP},
		{"nothing known", good, func(c *sender.Config) { c.QPs = nil }, node.ReasonUnknownQP},
		{"ambiguous", good, func(c *sender.Config) { c.QPs = ambiguous{} }, node.ReasonAmbiguousQP},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := config(t)
			if c.change != nil {
				c.change(&cfg)
			}
			s := made(t, cfg)
			e, reason := receive(s, c.packet, ip, now)
			require.Equal(t, c.reason, reason)
			require.Equal(t, event{}, e)
			counted := uint64(1)
			if c.name == "data" || c.name == "no UDP at all" { // the role has no say
				counted = 0
			}
			require.Equal(t, counted, s.Counters().Load(node.Count{Action: node.ActionRefused, Reason: c.reason}))
		})
	}
	_, reason := receive(made(t, sender.Config{}), good, ip, now)
	require.Equal(t, node.ReasonDisabled, reason)

	cfg := config(t)
	cfg.AllowTunnel = true
	e, reason := receive(made(t, cfg), tunnelled(good), ip, now)
	require.Equal(t, node.NoReason, reason)
	require.EqualValues(t, 0x22, e.SrcQP)
}

// oneWay knows the queue pairs that send to the host.
type sourceQPOnly struct{ node.Pairs }

func (p sourceQPOnly) SourceQP(k qpmap.Key, now time.Time) (qpmap.Pair, error) {
	if k.Src == self6 {
		return qpmap.Pair{}, qpmap.ErrAmbiguous
	}
	return p.Pairs.SourceQP(k, now)
}

type ambiguous struct{}

func (ambiguous) SourceQP(qpmap.Key, time.Time) (qpmap.Pair, error) {
	return qpmap.Pair{}, qpmap.ErrAmbiguous
}

// A source on the list needs no flow for a CNP, such as a proxy's, and its Fast CNPs
// count where receivers send none.
func TestOnTheList(t *testing.T) {
	cfg := config(t)
	cfg.Accept, cfg.ReceiversSendNone = acl.New(netip.PrefixFrom(sw, 64), netip.PrefixFrom(dst6, 128)), true
	s := made(t, cfg)
	proxys := receiverCNP(t, congested(t, func(p *rocev2.Packet) { p.Dst = sw }), 0x99)
	e, reason := receive(s, proxys, ip, now)
	require.Equal(t, node.NoReason, reason)
	require.Equal(t, []any{message.KindCNP, uint32(0x99), sw}, []any{e.Kind, e.SrcQP, e.From})
	for _, from := range []netip.Addr{sw, dst6} {
		_, reason = receive(s, fastCNP(t, from, congested(t)), ip, now)
		require.Equal(t, node.NoReason, reason)
	}
	// Receivers' CNPs are no Fast CNPs.
	cfg.Accept = nil
	_, reason = receive(made(t, cfg), receiverCNP(t, congested(t), 0x22), ip, now)
	require.Equal(t, node.NoReason, reason)
}

// table is a host's own table, which knows its queue pairs by number.
type table map[uint32]netip.Addr

func (q table) SourceQP(k qpmap.Key, _ time.Time) (qpmap.Pair, error) {
	for qp, dst := range q {
		if dst == k.Dst {
			return qpmap.Pair{SrcQP: qp}, nil
		}
	}
	return qpmap.Pair{}, qpmap.ErrUnknown
}

func (q table) Sends(qp uint32, dst netip.Addr, _ time.Time) (sends, known bool) {
	to, known := q[qp]
	return known && to == dst, known
}

// A single look-up in a QPTable finds whether a queue pair belongs to the host, and its destination.
func TestQPTable(t *testing.T) {
	cfg := config(t)
	cfg.QPs = table{0x22: dst6, 0x24: dst6.Next()}
	for _, c := range []struct {
		qp   uint32
		want node.Reason
	}{{0x22, node.NoReason}, {0x24, node.ReasonDenied}, {0x25, node.ReasonUnknownQP}} {
		t.Run(fmt.Sprint(c.qp), func(t *testing.T) {
			_, reason := receive(made(t, cfg), receiverCNP(t, congested(t), c.qp), ip, now)
			require.Equal(t, c.want, reason, c.qp)
		})
	}
}

// Datagrams are no connection: that a queue pair has sent one says where it sends.
func TestDatagrams(t *testing.T) {
	datagram := func(change ...func(*rocev2.Packet)) *rocev2.Packet {
		return congested(t, append(change, func(p *rocev2.Packet) {
			p.BTH.Opcode, p.BTH.DETH.SrcQP = bth.UDSendOnly, 0x55
		})...)
	}
	cfg := config(t)
	cfg.QPs = nil
	s := made(t, cfg)
	reason := func(packet []byte, at time.Duration) node.Reason {
		_, reason := receive(s, packet, ip, now.Add(at))
		return reason
	}
	about := receiverCNP(t, congested(t), 0x55)
	observe(s, datagram(func(p *rocev2.Packet) { p.Src = dst6.Next() }), now) // another host's
	observe(s, congested(t), now)                                             // no datagram
	var inside rocev2.Packet
	require.NoError(t, inside.DecodeIP(tunnelled(datagram().IP)))
	observe(s, &inside, now) // sender unknown because of the tunnel
	require.Equal(t, node.ReasonUnknownQP, reason(receiverCNP(t, congested(t), 0), 0))
	require.Equal(t, node.ReasonUnknownQP, reason(about, 0))
	observe(s, datagram(), now)
	observe(s, datagram(v4), now)
	require.Equal(t, node.NoReason, reason(about, 0))
	require.Equal(t, node.NoReason, reason(receiverCNP(t, congested(t, v4), 0x55), 0))
	require.Equal(t, node.NoReason, reason(about, 10*time.Minute-1))
	require.Equal(t, node.ReasonUnknownQP, reason(about, 10*time.Minute))
	require.Equal(t, node.ReasonUnknownQP, reason(receiverCNP(t, congested(t), 0x56), 0))
	elsewhere := congested(t, func(p *rocev2.Packet) { p.Dst = dst6.Next() })
	require.Equal(t, node.ReasonUnknownQP, reason(receiverCNP(t, elsewhere, 0x55), 0))
	observe(made(t, sender.Config{}), datagram(), now) // off: nothing is recorded, and nothing breaks
}

// A datagram of a queue pair that has a connection was forged on the host's link: it does not count as sent.
func TestForgedDatagramOfConnection(t *testing.T) {
	stranger := netip.MustParseAddr("2001:db8:bad::1")
	cfg := config(t)
	connect(t, &cfg, dst6, 0x11, 0x22)
	s := made(t, cfg)
	datagram := congested(t, func(p *rocev2.Packet) {
		p.Dst, p.BTH.Opcode, p.BTH.DETH.SrcQP = stranger, bth.UDSendOnly, 0x22
	})
	about := func(qp uint32) []byte {
		return receiverCNP(t, congested(t, func(p *rocev2.Packet) { p.Dst = stranger }), qp)
	}
	reason := func(qp uint32, at time.Duration) node.Reason {
		_, reason := receive(s, about(qp), ip, now.Add(at))
		return reason
	}
	for _, forgedFirst := range []bool{true, false} {
		if forgedFirst {
			observe(s, datagram, now)
		}
		observe(s, congested(t), now) // of the connection
		observe(s, datagram, now)
		require.Equal(t, node.ReasonUnknownQP, reason(0x22, 0))
		for at := time.Duration(0); at < 20*time.Minute; at += 30 * time.Second { // as long as it is used
			observe(s, congested(t), now.Add(at))
			observe(s, datagram, now.Add(at))
			require.Equal(t, node.ReasonUnknownQP, reason(0x22, at))
		}
	}
	require.Equal(t, node.NoReason, reason(0x22, 22*time.Minute), "a queue pair that is used again, for datagrams")
}

// The configured option types decide which packets have a Fast CNP option, and which option it is, for accepted and
// for rejected packets.
func TestConfiguredCodePoints(t *testing.T) {
	points := fastcnp.CodePoints{Option1: 0x83, Option2: 0x84}
	fast := func(from netip.Addr, about *rocev2.Packet) []byte {
		b, _, err := fastcnp.AppendFor(nil, about, from, nil, fastcnp.Config{CodePoints: points})
		require.NoError(t, err)
		return b
	}
	cfg := config(t)
	cfg.CodePoints = points
	connect(t, &cfg, dst6.Next(), 0x11, 0x11) // so that CNPs with this number count
	aboutNext := congested(t, func(p *rocev2.Packet) { p.Dst = dst6.Next() })
	for _, c := range []struct {
		name   string
		packet []byte
		kind   message.Kind
		reason node.Reason
	}{
		{"a switch's", fast(sw, congested(t)), message.KindFastCNP, 0},
		{"a switch's, option 2", fast(sw, congested(t, traced(t))), message.KindFastCNP, 0},
		{"the receiver's", fast(dst6, congested(t)), message.KindFastCNP, 0},
		{"of another receiver", fast(dst6.Next(), congested(t)), 0, node.ReasonDenied},
		{"without a known sender", fast(dst6.Next().Next(), congested(t)), 0, node.ReasonDenied},
		{"of another type", fastCNP(t, sw, congested(t)), 0, node.ReasonUnknownOption},
		{"of another type, of a receiver", fastCNP(t, dst6.Next(), aboutNext), 0, node.ReasonUnknownOption},
		{"of another type, of no sender", fastCNP(t, dst6.Next().Next(), congested(t)), 0, node.ReasonUnknownQP},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, reason := receive(made(t, cfg), c.packet, ip, now)
			require.Equal(t, c.reason, reason)
			require.Equal(t, c.kind, e.Kind)
		})
	}
}

// The rate limits the notifications of all sources together.
func TestRate(t *testing.T) {
	cfg := config(t)
	cfg.Accepted = node.Rate{PerSecond: 10, Burst: 2}
	s := made(t, cfg)
	wrong := changed(t, fastCNP(t, sw, congested(t)), 100, 1, false)
	for i, c := range []struct {
		at     time.Duration
		packet []byte
		reason node.Reason
	}{
		{0, wrong, node.ReasonICRC}, {0, fastCNP(t, sw, congested(t)), 0}, {0, receiverCNP(t, congested(t), 0x22), 0},
		{0, fastCNP(t, sw.Next(), congested(t)), node.ReasonLimited}, {99, wrong, node.ReasonLimited},
		{100, fastCNP(t, sw.Next(), congested(t)), 0}, {100, receiverCNP(t, congested(t, v4), 0x23),
			node.ReasonLimited},
	} {
		_, reason := receive(s, c.packet, ip, now.Add(c.at*time.Millisecond))
		require.Equal(t, c.reason, reason, "packet %d", i)
	}

	// A notification rejected by the rate is not charged to its source.
	cfg.AcceptedPerSource, cfg.Accepted = node.Rate{PerSecond: 1.0 / 3600}, node.Rate{PerSecond: 1}
	s = made(t, cfg)
	for i, c := range []struct {
		at     time.Duration
		packet []byte
		reason node.Reason
	}{
		{0, fastCNP(t, sw, congested(t)), 0}, {0, fastCNP(t, sw.Next(), congested(t)), node.ReasonLimited},
		{1, fastCNP(t, sw.Next(), congested(t)), 0},
	} {
		_, reason := receive(s, c.packet, ip, now.Add(c.at*time.Second))
		require.Equal(t, c.reason, reason, "packet %d", i)
	}
}

// Two capture queues with clocks 200 ms apart take turns: no more notifications are accepted than the limits allow,
// and no more are new than the window allows.
func TestTwoClocks(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*sender.Config)
	}{
		{"source", func(c *sender.Config) { c.AcceptedPerSource = node.Rate{PerSecond: 10} }},
		{"rate", func(c *sender.Config) { c.Accepted = node.Rate{PerSecond: 10} }},
		{"window", func(c *sender.Config) { c.Window = 100 * time.Millisecond }},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := config(t)
			c.change(&cfg)
			s := made(t, cfg)
			fast := fastCNP(t, sw, congested(t))
			for i := range 10_000 { // 50 µs apart: half a second in all
				at := now.Add(time.Duration(i) * 50 * time.Microsecond)
				if i%2 == 1 {
					at = at.Add(-200 * time.Millisecond)
				}
				receive(s, fast, ip, at)
			}
			require.EqualValues(t, 5, s.Counters().Load(node.Count{Action: node.ActionAccepted,
				Message: message.KindFastCNP})-s.Counters().Load(node.Count{Effect: node.EffectRepeated}))
		})
	}
}

// For a packet with two faults, the reason is the one that is cheaper to check: its source comes before its content.
func TestOrder(t *testing.T) {
	type packet struct {
		to, from  netip.Addr
		destQP    uint32
		tunnelled bool
		option    bool // has an option of wrong length
		damaged   bool
	}
	faults := []struct {
		reason node.Reason
		make   func(*sender.Config, *packet)
	}{
		{node.ReasonDisabled, func(c *sender.Config, _ *packet) { c.Enabled = false }},
		{node.ReasonNotOurs, func(_ *sender.Config, p *packet) { p.to = self6.Next() }},
		{node.ReasonTunnelled, func(_ *sender.Config, p *packet) { p.tunnelled = true }},
		{node.ReasonDenied, func(_ *sender.Config, p *packet) { p.from = netip.MustParseAddr("2001:db8:bad::1") }},
		{node.ReasonLimited, func(c *sender.Config, _ *packet) { c.Accepted = node.Rate{PerSecond: 1e-3} }},
		{node.ReasonBroken, func(_ *sender.Config, p *packet) { p.option = true }},
		{node.ReasonICRC, func(_ *sender.Config, p *packet) { p.damaged = true }},
		{node.ReasonUnknownQP, func(_ *sender.Config, p *packet) { p.destQP = 0x12 }},
	}
	for i, first := range faults {
		for j, second := range faults[i:] {
			cfg, faulty := config(t), packet{to: self6, from: sw, destQP: 0x11}
			first.make(&cfg, &faulty)
			if j > 0 {
				second.make(&cfg, &faulty)
			}
			s := made(t, cfg)
			receive(s, receiverCNP(t, congested(t, v4), 0x23), ip, now) // uses up the rate
			b := fastCNP(t, faulty.from, congested(t,
				func(p *rocev2.Packet) { p.Src, p.BTH.DestQP = faulty.to, faulty.destQP }))
			if faulty.option {
				b = changed(t, b, 43, 17, true)
			}
			if faulty.damaged {
				b = changed(t, b, 100, 1, false)
			}
			if faulty.tunnelled {
				b = tunnelled(b)
			}
			_, reason := receive(s, b, ip, now)
			require.Equal(t, first.reason, reason, "%v and %v", first.reason, second.reason)
		}
	}

	// A receiver's flow must be known before its options, and the rate, are looked at.
	unknown := fastCNP(t, dst6, congested(t, func(p *rocev2.Packet) { p.BTH.DestQP = 0x12 }))
	for _, c := range []struct {
		name   string
		packet []byte
		reason node.Reason
	}{
		{"broken option", changed(t, unknown, 43, 17, true), node.ReasonDenied},
		{"ICRC", changed(t, unknown, 100, 1, false), node.ReasonUnknownQP},
		{"CNP that names the receiver's queue pair, as a Fast CNP does", receiverCNP(t, congested(t), 0x11),
			node.ReasonUnknownQP},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := config(t)
			cfg.Accepted = node.Rate{PerSecond: 1e-3}
			s := made(t, cfg)
			receive(s, receiverCNP(t, congested(t, v4), 0x23), ip, now)
			_, reason := receive(s, c.packet, ip, now)
			require.Equal(t, c.reason, reason)
		})
	}
}

// tunnelled puts a packet for this host inside another IP header.
func tunnelled(inner []byte) []byte {
	b := append([]byte{0x60, 0, 0, 0, 0, 0, 41, 64}, append(sw.AsSlice(), self6.AsSlice()...)...)
	binary.BigEndian.PutUint16(b[4:], uint16(len(inner)))
	return append(b, inner...)
}

// Without a configured seed each sender has a random one: the sources that evict others from the table of one sender
// do not do so in another.
func TestSeedIsRandom(t *testing.T) {
	forgotten := func() (which [100]bool) {
		cfg := config(t)
		cfg.MaxSources, cfg.AcceptedPerSource = 32, node.Rate{PerSecond: 1.0 / 3600}
		s := made(t, cfg)
		for range 2 {
			from := sw
			for i := range which {
				from = from.Next()
				_, reason := receive(s, fastCNP(t, from, congested(t)), ip, now)
				which[i] = reason == node.NoReason
			}
		}
		return which
	}
	require.NotEqual(t, forgotten(), forgotten())
}

// A switch's Fast CNP and the receiver's CNP about one congestion are one event
// and one again, in either order, counted from the first.
func TestAgain(t *testing.T) {
	cfg := config(t)
	cfg.Window = 100 * time.Microsecond
	connect(t, &cfg, dst6, 0x14, 0x24)
	fast, plain := fastCNP(t, sw, congested(t)), receiverCNP(t, congested(t), 0x22)
	s := made(t, cfg)
	for _, c := range []struct {
		at     time.Duration
		packet []byte
		again  bool
	}{
		{0, fast, false},
		{60, plain, true},
		{99, fast, true},    // counted from the first
		{100, plain, false}, // exactly one window later
		{110, fast, true},
		{110, receiverCNP(t, congested(t), 0x24), false},                 // another queue pair
		{120, pause(t, congested(t), sw, ppfc.Extension{}, true), false}, // an order, no news
		{50, fast, true}, // a small step back is waited out
		{199, fast, true},
		{200, fast, false},
		{-2_000_000, fast, true}, // a large step back restarts the window
		{-2_000_000 + 99, fast, true},
		{-2_000_000 + 100, fast, false},
	} {
		e, reason := receive(s, c.packet, ip, now.Add(c.at*time.Microsecond))
		require.Equal(t, node.NoReason, reason)
		require.Equal(t, c.again, e.Repeated, c.at)
	}
	require.EqualValues(t, 7, s.Counters().Load(node.Count{Effect: node.EffectRepeated}))

	cfg.Window = 0
	s = made(t, cfg)
	for range 3 {
		e, _ := receive(s, fast, ip, now)
		require.False(t, e.Repeated)
	}
}

func TestPerSource(t *testing.T) {
	cfg := config(t)
	cfg.AcceptedPerSource = node.Rate{PerSecond: 10_000}
	s := made(t, cfg)
	wrong := changed(t, fastCNP(t, sw, congested(t)), 100, 1, false)
	for _, c := range []struct {
		at     time.Duration
		packet []byte
		reason node.Reason
	}{
		{0, wrong, node.ReasonICRC}, // takes nothing
		{0, fastCNP(t, sw, congested(t)), 0},
		{99, fastCNP(t, sw, congested(t)), node.ReasonLimited},
		{99, wrong, node.ReasonLimited},
		{99, fastCNP(t, sw.Next(), congested(t)), 0},
		{99, receiverCNP(t, congested(t), 0x22), 0},
		{100, fastCNP(t, sw, congested(t)), 0},
	} {
		_, reason := receive(s, c.packet, ip, now.Add(c.at*time.Microsecond))
		require.Equal(t, c.reason, reason, c.at)
	}
}

// A flood of forged notifications, each from another source and about another flow, takes no memory beyond that of
// the start. None is accepted, while genuine notifications still are.
func TestFlood(t *testing.T) {
	cfg := config(t)
	cfg.MaxSources, cfg.MaxQPs, cfg.AcceptedPerSource, cfg.Window = 64, 64, node.Rate{PerSecond: 1}, time.Second
	cfg.Accept = acl.New(netip.PrefixFrom(sw, 64), netip.MustParsePrefix("2001::/32"))
	s := made(t, cfg)
	random := rand.New(rand.NewPCG(1, 2))
	forged := fastCNP(t, sw, congested(t))
	for range 10_000 {
		binary.BigEndian.PutUint64(forged[8+random.IntN(2)*4:], random.Uint64())
		_, reason := receive(s, forged, ip, now)
		require.Contains(t, []node.Reason{node.ReasonDenied, node.ReasonICRC}, reason)
	}
	_, reason := receive(s, fastCNP(t, sw, congested(t)), ip, now)
	require.Equal(t, node.NoReason, reason)
	wiretest.NoAllocs(t, "flood", func() {
		binary.BigEndian.PutUint64(forged[8:], random.Uint64())
		receive(s, forged, ip, now)
	})
	for qp := range uint32(10_000) { // from many nodes, about many queue pairs
		from := func(p *rocev2.Packet) {
			p.Dst = netip.AddrFrom16([16]byte{0x20, 1, 14: uint8(qp >> 8),
				15: uint8(qp)})
		}
		_, reason := receive(s, receiverCNP(t, congested(t, from), qp), ip, now)
		require.Equal(t, node.NoReason, reason)
	}
}

func TestNoAllocs(t *testing.T) {
	cfg := config(t)
	cfg.Window, cfg.AcceptedPerSource = time.Second, node.Rate{PerSecond: 1e9}
	s := made(t, cfg)
	at := now
	for _, c := range []struct {
		name   string
		packet []byte
	}{
		{"Fast CNP", fastCNP(t, sw, congested(t))}, {"option 2", fastCNP(t, sw, congested(t, traced(t)))},
		{"CNP", receiverCNP(t, congested(t), 0x22)},
		{"PPFC", pause(t, congested(t), sw, ppfc.Extension{}, true)}, {"stranger", fastCNP(t, self6, congested(t))},
		{"data", congested(t).IP}, {"broken", fastCNP(t, sw, congested(t))[:90]},
	} {
		t.Run(c.name, func(t *testing.T) {
			wiretest.NoAllocs(t, c.name, func() {
				at = at.Add(time.Microsecond)
				receive(s, c.packet, ip, at)
			})
		})
	}
	datagram := bytes.Clone(congested(t, func(p *rocev2.Packet) { p.BTH.Opcode = bth.UDSendOnly }).IP)
	cfg.QPs = nil
	s = made(t, cfg)
	wiretest.NoAllocs(t, "datagrams", func() {
		datagram[40+8+12+7]++ // the source queue pair
		receive(s, datagram, ip, at)
	})
}

// No packet causes a panic. An accepted notification comes from a node on the list or, if it comes from a receiver,
// is about one of the host's own flows.
func FuzzReceive(f *testing.F) {
	f.Add(fastCNP(f, sw, congested(f)))
	f.Add(fastCNP(f, dst6, congested(f, traced(f))))
	f.Add(receiverCNP(f, congested(f, v4), 0x22))
	f.Add(pause(f, congested(f), sw, ppfc.Extension{}, true))
	f.Fuzz(func(t *testing.T, packet []byte) {
		cfg := config(t)
		cfg.MaxSources, cfg.MaxQPs = 4, 4
		cfg.AllowTunnel = true
		e, reason := receive(made(t, cfg), packet, ip, now)
		if reason != node.NoReason {
			require.Equal(t, event{}, e)
			return
		}
		switch {
		case e.Kind == message.KindPPFC, e.Origin == fastcnp.OriginNetwork:
			require.True(t, cfg.Accept.Contains(e.From))
		case e.Kind == message.KindFastCNP:
			require.Equal(t, dst6, e.From)
		case !cfg.Accept.Contains(e.From):
			require.Equal(t, map[uint32]netip.Addr{0x22: dst6, 0x23: dst4}[e.SrcQP], e.From)
		}
	})
}

// Acceptance beside decoding alone: the packet, the ICRC and the message. Each
// core has a sender of its own: run with -cpu 1,2.
func BenchmarkReceive(b *testing.B) {
	for _, c := range []struct {
		name   string
		packet []byte
	}{
		{"FastCNP", fastCNP(b, sw, congested(b))}, {"Option2", fastCNP(b, sw, congested(b, traced(b)))},
		{"CNP", receiverCNP(b, congested(b), 0x22)},
	} {
		b.Run(c.name+"/DecodeAndVerify", func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				var m message.Message
				for pb.Next() {
					if m.Decode(c.packet, ip, message.Config{}) != nil {
						b.Fail()
					}
					if _, err := icrc.Verify(c.packet); err != nil {
						b.Fail()
					}
				}
			})
		})
		b.Run(c.name+"/Receive", func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				cfg := config(b)
				cfg.Window, cfg.AcceptedPerSource = time.Microsecond, node.Rate{PerSecond: 1e6}
				s := made(b, cfg)
				now, f := now, new(rocev2.Frame)
				for pb.Next() {
					now = now.Add(time.Microsecond)
					f.Decode(c.packet, ip)
					if _, d := s.Receive(nil, f, node.Event{Now: now}); d.Reason != 0 {
						b.Fail()
					}
				}
			})
		})
	}
}

func ExampleDetour() {
	d := sender.NewDetour(sender.DetourConfig{MaxFlows: 1024, Hold: time.Second, Seed: 1})
	flow := rocev2.FlowKey{Src: self6, Dst: dst6, DestQP: 0x11}
	fmt.Println(d.SrcPort(flow, 50000, now) == 50000)
	d.Report(flow, 50000, sw, now) // as the Decision about a Fast CNP says: Flow, SrcPort, From
	fmt.Println(d.SrcPort(flow, 50000, now) == 50000)
	fmt.Println(d.SrcPort(flow, 50000, now.Add(time.Second)) == 50000)
	// Output:
	// true
	// false
	// true
}

// The memory of a sender and of a detour table is the documented size.
func TestMemory(t *testing.T) {
	cfg := config(t)
	cfg.AcceptedPerSource = node.Rate{PerSecond: 1}
	require.InDelta(t, (24+3*16)*65536, wiretest.Allocated(func() { sender.New(cfg) }), 64<<10)
	byDefault := func() { sender.NewDetour(sender.DetourConfig{Hold: time.Second}) }
	require.InDelta(t, 272*4096, wiretest.Allocated(byDefault), 64<<10)
	require.Less(t, wiretest.Allocated(func() { sender.New(sender.Config{}) }), uint64(16<<10),
		"nothing for a role that is off")
}

// A packet to port 4791 that does not parse is refused where it may be a notification: its opcode is that of a CNP,
// or cannot be read. Data and acknowledgements that do not parse are no business of a sender's.
func TestBrokenMayNotify(t *testing.T) {
	const header = "60000000 0000 11 40 20010db8000300000000000000000001 20010db8000100000000000000000001 c000 12b7"
	for _, row := range []struct {
		name, udp string
		want      node.Reason
	}{
		{"a CNP without an ICRC", "0014 0000 81 40 ffff 00000022 00000000", node.ReasonBroken},
		{"no opcode", "0008 0000", node.ReasonBroken},
		{"a UDP length of 4", "0004 0000 81 40 ffff 00000022 00000000", node.ReasonBroken},
		{"a SEND that breaks off", "0010 0000 04 40 ffff 00000022", node.ReasonNotOurs},
		{"an Acknowledge without AETH", "0018 0000 11 40 ffff 00000022 00000000 00000000", node.ReasonNotOurs},
	} {
		t.Run(row.name, func(t *testing.T) {
			b := wiretest.Hex(t, header+row.udp)
			b[5] = byte(len(b) - 40)
			_, reason := receive(made(t, config(t)), b, ip, now)
			require.Equal(t, row.want, reason)
		})
	}
}

// A new configuration in the midst of a sequence keeps the reports, the destinations of datagrams and the state of
// the limits. An invalid one changes nothing.
func TestConfigure(t *testing.T) {
	cfg := config(t)
	cfg.QPs, cfg.Window, cfg.AcceptedPerSource, cfg.MaxQPs = nil, time.Hour, node.Rate{PerSecond: 1}, 64
	s := made(t, cfg)
	observe(s, congested(t, func(p *rocev2.Packet) { p.BTH.Opcode, p.BTH.DETH.SrcQP = bth.UDSendOnly, 0x55 }), now)
	about := receiverCNP(t, congested(t), 0x55)
	e, reason := receive(s, about, ip, now)
	require.Equal(t, []any{false, node.NoReason}, []any{e.Repeated, reason})
	for _, c := range []struct {
		name   string
		change func(*sender.Config)
	}{
		{"sender: neither Self4", func(c *sender.Config) { c.Self4, c.Self6 = netip.Addr{}, netip.Addr{} }},
		{"Self6", func(c *sender.Config) { c.Self6 = self4 }},
		{"AcceptedPerSource {PerSecond:-1", func(c *sender.Config) { c.AcceptedPerSource.PerSecond = -1 }},
		{"Window -1ns", func(c *sender.Config) { c.Window = -1 }},
		{"Accepted has a Burst", func(c *sender.Config) { c.Accepted = node.Rate{Burst: 1} }},
		{"MaxQPs cannot change", func(c *sender.Config) { c.MaxQPs = 65 }},
		{"MaxSources cannot change", func(c *sender.Config) { c.MaxSources = 65 }},
		{"the Seed cannot change", func(c *sender.Config) { c.Seed = 9 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			bad := cfg
			bad.Accept = nil
			c.change(&bad)
			require.ErrorContains(t, s.Configure(bad), c.name)
		})
	}
	_, reason = receive(s, fastCNP(t, sw, congested(t)), ip, now)
	require.Equal(t, node.ReasonUnknownQP, reason, "the list is as it was")
	_, reason = receive(s, about, ip, now)
	require.Equal(t, node.ReasonLimited, reason)

	cfg.AcceptedPerSource, cfg.Accept = node.Rate{PerSecond: 10}, acl.New()
	require.NoError(t, s.Configure(cfg))
	_, reason = receive(s, about, ip, now.Add(100*time.Millisecond-1))
	require.Equal(t, node.ReasonLimited, reason)
	e, reason = receive(s, about, ip, now.Add(100*time.Millisecond))
	require.Equal(t, []any{true, node.NoReason}, []any{e.Repeated, reason}, "nothing is forgotten")
	_, reason = receive(s, fastCNP(t, sw, congested(t)), ip, now)
	require.Equal(t, node.ReasonDenied, reason)
	cfg.Enabled = false
	require.NoError(t, s.Configure(cfg))
	_, reason = receive(s, about, ip, now.Add(time.Second))
	require.Equal(t, node.ReasonDisabled, reason)
	cfg.Enabled = true
	require.NoError(t, s.Configure(cfg))
	e, reason = receive(s, about, ip, now.Add(time.Second))
	require.Equal(t, []any{true, node.NoReason}, []any{e.Repeated, reason})
}

// A network of eight paths by the source port, of which some are congested: the
// flow finds one that is not, and stays there.
func TestDetour(t *testing.T) {
	flow := rocev2.FlowKey{Src: self6, Dst: dst6, DestQP: 0x11}
	path := func(port uint16) int { return int(port*31>>3) % 8 }
	for congested := range 1 << 8 {
		if congested == 1<<8-1 {
			continue
		}
		d := sender.NewDetour(sender.DetourConfig{MaxFlows: 64, Hold: time.Second, Seed: uint64(congested)})
		port := uint16(50000)
		moves := 0
		for congested>>path(port)&1 == 1 {
			by := netip.AddrFrom16([16]byte{0x20, 1, 15: uint8(path(port))}) // each path has its own switch
			d.Report(flow, port, by, now)
			next := d.SrcPort(flow, port, now)
			if next == port { // a switch was in the way four times: its path was tried four times
				break
			}
			require.GreaterOrEqual(t, next, uint16(49152))
			port = next
			moves++
		}
		require.Less(t, moves, 32)
		require.Equal(t, port, d.SrcPort(flow, port, now), "it stays")
	}
}

// A switch that reports port after port stands on every path: the flow stays
// where it is.
func TestSwitchOnEveryPath(t *testing.T) {
	flow := rocev2.FlowKey{Src: self6, Dst: dst6, DestQP: 0x11}
	d := sender.NewDetour(sender.DetourConfig{MaxFlows: 64, Hold: time.Second, Seed: 1})
	port := uint16(50000)
	moves := 0
	for range 20 {
		d.Report(flow, port, sw, now)
		if next := d.SrcPort(flow, port, now); next != port {
			port, moves = next, moves+1
		}
	}
	require.Equal(t, 3, moves)
	// Afterwards it may be tried again.
	d.Report(flow, port, sw, now.Add(time.Second))
	require.NotEqual(t, port, d.SrcPort(flow, port, now.Add(time.Second)))
}

// A port that is reported repeatedly is one port: the flow avoids it, and the reports of other ports are kept.
func TestReportedAgain(t *testing.T) {
	flow := rocev2.FlowKey{Src: self6, Dst: dst6, DestQP: 0x11}
	d := sender.NewDetour(sender.DetourConfig{MaxFlows: 64, Hold: time.Second, Seed: 1})
	for range 40 {
		d.Report(flow, 50000, sw, now)
	}
	require.NotEqual(t, uint16(50000), d.SrcPort(flow, 50000, now))

	// Sixteen ports, each on a path of its own: as many as are kept.
	by := func(port uint16) netip.Addr { return netip.AddrFrom16([16]byte{0x20, 1, 15: uint8(port)}) }
	for port := range uint16(16) {
		d.Report(flow, port, by(port), now.Add(time.Duration(port)))
	}
	for range 20 {
		d.Report(flow, 3, by(3), now.Add(16))
	}
	for port := range uint16(16) {
		require.NotEqual(t, port, d.SrcPort(flow, port, now.Add(16)), "port %d", port)
	}
	// A seventeenth takes the place of the one reported longest ago.
	d.Report(flow, 16, by(16), now.Add(17))
	require.Equal(t, uint16(0), d.SrcPort(flow, 0, now.Add(17)))
	for port := uint16(1); port <= 16; port++ {
		require.NotEqual(t, port, d.SrcPort(flow, port, now.Add(17)), "port %d", port)
	}
}

// Of a full set the flow that was reported longest ago is forgotten, wherever it
// stands; the others are not taken for each other.
func TestDetourForgetsTheOldest(t *testing.T) {
	d := sender.NewDetour(sender.DetourConfig{MaxFlows: 4, Hold: time.Hour, Seed: 1})
	flow := func(qp uint32) rocev2.FlowKey { return rocev2.FlowKey{Src: self6, Dst: dst6, DestQP: qp} }
	for i, qp := range []uint32{1, 2, 3, 4, 1, 2, 4, 5} {
		d.Report(flow(qp), 50000+uint16(qp), sw, now.Add(time.Duration(i)))
	}
	for qp := range uint32(6) {
		for other := range uint16(6) {
			moved := d.SrcPort(flow(qp), 50000+other, now.Add(8)) != 50000+other
			require.Equal(t, uint32(other) == qp && qp != 0 && qp != 3, moved, "flow %d, port %d", qp, other)
		}
	}
}

// A quarter of the flows that there is room for are all remembered.
func TestDetourRemembers(t *testing.T) {
	d := sender.NewDetour(sender.DetourConfig{MaxFlows: 1 << 12, Hold: time.Hour, Seed: 1})
	flow := rocev2.FlowKey{Src: self6, Dst: dst6}
	for flow.DestQP = range uint32(1 << 8) {
		d.Report(flow, 50000, sw, now)
	}
	for flow.DestQP = range uint32(1 << 8) {
		require.NotEqual(t, uint16(50000), d.SrcPort(flow, 50000, now), flow.DestQP)
	}
}

func TestDetourAges(t *testing.T) {
	flow := rocev2.FlowKey{Src: self6, Dst: dst6, DestQP: 0x11}
	d := sender.NewDetour(sender.DetourConfig{MaxFlows: 64, Hold: time.Second, Seed: 1})
	d.Report(flow, 50000, sw, now)
	require.NotEqual(t, uint16(50000), d.SrcPort(flow, 50000, now.Add(time.Second-1)))
	require.EqualValues(t, 50000, d.SrcPort(flow, 50000, now.Add(time.Second)))
	require.EqualValues(t, 50001, d.SrcPort(flow, 50001, now), "another port")
	flow.DestQP++
	require.EqualValues(t, 50000, d.SrcPort(flow, 50000, now), "another flow")

	// Time that jumps back holds no longer than it should.
	d.Report(flow, 50000, sw, now)
	require.NotEqual(t, uint16(50000), d.SrcPort(flow, 50000, now.Add(-time.Hour)))
	require.EqualValues(t, 50000, d.SrcPort(flow, 50000, now.Add(-time.Hour+time.Second)))
}

// A flood of flows and of ports: no memory beyond that of the start.
func TestDetourFlood(t *testing.T) {
	d := sender.NewDetour(sender.DetourConfig{MaxFlows: 64, Hold: time.Second, Seed: 1})
	flow := rocev2.FlowKey{Src: self6, Dst: dst6}
	at := now
	wiretest.NoAllocs(t, "flood", func() {
		for range 1000 {
			flow.DestQP++
			at = at.Add(time.Microsecond)
			for port := range uint16(40) {
				d.Report(flow, port, sw, at)
			}
			d.SrcPort(flow, 39, at)
		}
	})
	d.Report(flow, 50000, dst6, at)
	require.NotEqual(t, uint16(50000), d.SrcPort(flow, 50000, at))
}
