package receiver_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"
	"maps"
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
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/receiver"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

var (
	self4 = netip.MustParseAddr("198.51.100.2")
	self6 = netip.MustParseAddr("2001:db8:4::e")
	src4  = netip.MustParseAddr("198.51.100.1")
	src6  = netip.MustParseAddr("2001:db8:1::a")
	now   = time.Unix(1795254649, 0)

	ip = rocev2.DecodeOptions{Link: rocev2.LinkIP}
)

// isMarked returns a data packet with CE, changed.
func isMarked(t testing.TB, change ...func(*rocev2.Packet)) *rocev2.Packet {
	t.Helper()
	p := rocev2.Packet{BTH: bth.Headers{Header: bth.Header{Opcode: bth.RCSendOnly, DestQP: 0x11, PKey: 0x8001}},
		Payload: make([]byte, 64)}
	p.Src, p.Dst, p.SrcPort, p.DstPort, p.HopLimit = src6, self6, 49152, rocev2.Port, 64
	p.TrafficClass = uint8(rocev2.CE)
	for _, c := range change {
		c(&p)
	}
	b := wiretest.Must(p.AppendBinary(nil))(t)
	var d rocev2.Packet
	require.NoError(t, d.DecodeIP(b))
	return &d
}

func v4(p *rocev2.Packet) { p.Src, p.Dst = src4, self4 }

func opcode(op bth.Opcode) func(*rocev2.Packet) {
	return func(p *rocev2.Packet) { p.BTH.Opcode = op }
}

// pairs maps queue pair 0x11 to its sender, 0x22.
func pairs(t testing.TB) *qpmap.Map {
	m := qpmap.New(qpmap.Config{MaxPairs: 16, MaxPending: 4, MaxOpen: 4})
	require.NoError(t, m.Add(qpmap.Key{FlowKey: rocev2.FlowKey{Src: src6, Dst: self6, DestQP: 0x11}},
		qpmap.Pair{SrcQP: 0x22}))
	require.NoError(t, m.Add(qpmap.Key{FlowKey: rocev2.FlowKey{Src: src4, Dst: self4, DestQP: 0x11}},
		qpmap.Pair{SrcQP: 0x23}))
	return m
}

type ambiguous struct{}

func (ambiguous) SourceQP(qpmap.Key, time.Time) (qpmap.Pair, error) {
	return qpmap.Pair{}, qpmap.ErrAmbiguous
}

func config(t testing.TB) receiver.Config {
	return receiver.Config{Enabled: true, Self4: self4, Self6: self6, QPs: pairs(t)}
}

func made(t testing.TB, cfg receiver.Config) *receiver.Role {
	t.Helper()
	return wiretest.Must(receiver.New(cfg))(t)
}

// frameOf returns the frame that a packet was decoded from.
func frameOf(p *rocev2.Packet) *rocev2.Frame {
	f := new(rocev2.Frame)
	f.Decode(append(bytes.Clone(p.Outer), p.IP...),
		rocev2.DecodeOptions{Link: rocev2.LinkIP, AllowTruncated: p.Truncated})
	return f
}

func receive(r *receiver.Role, b []byte, p *rocev2.Packet, now time.Time) ([]byte, node.Decision) {
	return r.Receive(b, frameOf(p), node.Event{Now: now})
}

func sent(r *receiver.Role) uint64 { return r.Counters().Load(node.Count{Action: node.ActionSent}) }

// The CNP has the sender's queue pair, the flow's P_Key and a right ICRC.
func TestCNP(t *testing.T) {
	for _, c := range []struct {
		name string
		p    *rocev2.Packet
		qp   uint32
	}{
		{"RC", isMarked(t), 0x22},
		{"IPv4", isMarked(t, v4), 0x23},
		{"READ response", isMarked(t, opcode(bth.RCRDMAReadResponseOnly)), 0x22},
		{"UC", isMarked(t, opcode(bth.UCSendOnly)), 0x22},
		{"UD, from its DETH", isMarked(t, opcode(bth.UDSendOnly), func(p *rocev2.Packet) { p.BTH.DETH.SrcQP = 0x33 }),
			0x33},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := made(t, config(t))
			out, d := receive(r, []byte("head"), c.p, now)
			require.Equal(t, node.Decision{
				Action: node.ActionSent, Packet: message.KindData, Message: message.KindCNP, To: c.p.Src, SrcQP: c.qp,
				KnownQP: true,
				Flow:    qpmap.Key{FlowKey: rocev2.FlowKey{Src: c.p.Src, Dst: c.p.FinalDst(), DestQP: c.p.BTH.DestQP}},
			}, d)
			require.Equal(t, "head", string(out[:4]))
			var m message.Message
			require.NoError(t, m.Decode(out[4:], ip, message.Config{}))
			require.Equal(t, message.KindCNP, m.Kind)
			require.Equal(t, []any{c.p.Dst, c.p.Src, c.qp, uint16(0x8001)},
				[]any{m.Packet.Src, m.Packet.Dst, m.CNP.DestQP, m.CNP.PKey})
			_, err := icrc.Verify(m.Packet.IP)
			require.NoError(t, err)
			require.Equal(t, map[node.Count]uint64{{Action: node.ActionSent, Message: message.KindCNP}: 1},
				maps.Collect(r.Counters().All()))
		})
	}
}

// A receiver's Fast CNP comes from the original destination and names the flow
// by its queue pair, so nothing has to be known.
func TestFastCNP(t *testing.T) {
	cfg := config(t)
	cfg.Fast, cfg.QPs = true, nil
	r := made(t, cfg)
	out, d := receive(r, nil, isMarked(t), now)
	require.Equal(t, []any{node.ActionSent, message.KindFastCNP, src6}, []any{d.Action, d.Message, d.To})
	var m message.Message
	require.NoError(t, m.Decode(out, ip, message.Config{}))
	require.Equal(t, []any{fastcnp.OriginReceiver, uint32(0x11), self6},
		[]any{m.FastCNP.Origin(), m.FastCNP.CNP.DestQP, m.FastCNP.Option.OriginalDst})
	_, d = receive(r, nil, isMarked(t, v4), now)
	require.Equal(t, node.ReasonUnknownQP, d.Reason) // there is none over IPv4
}

// The source is the address that the data went to.
func TestSource(t *testing.T) {
	for _, fast := range []bool{false, true} {
		cfg := config(t)
		cfg.Fast = fast
		out, d := receive(made(t, cfg), nil, isMarked(t), now)
		require.Equal(t, node.NoReason, d.Reason)
		var m message.Message
		require.NoError(t, m.Decode(out, ip, message.Config{}))
		require.Equal(t, self6, m.Packet.Src)
	}
}

// TestRefusals checks packets that lead to no CNP, and packets that are rejected.
func TestRefusals(t *testing.T) {
	tunnelled := func() *rocev2.Packet {
		inner := isMarked(t)
		b := append([]byte{0x60, 0, 0, 0, 0, 0, 41, 64}, append(src6.AsSlice(), self6.AsSlice()...)...)
		binary.BigEndian.PutUint16(b[4:], uint16(len(inner.IP)))
		var p rocev2.Packet
		require.NoError(t, p.DecodeIP(append(b, inner.IP...)))
		return &p
	}
	damaged := isMarked(t)
	damaged.IP[len(damaged.IP)-20] ^= 1
	for _, c := range []struct {
		name   string
		p      *rocev2.Packet
		change func(*receiver.Config)
		reason node.Reason // NoReason: nothing is to be said
	}{
		{"ECT(0)", isMarked(t, func(p *rocev2.Packet) { p.TrafficClass = uint8(rocev2.ECT0) }), nil, 0},
		{"ECT(1)", isMarked(t, func(p *rocev2.Packet) { p.TrafficClass = uint8(rocev2.ECT1) }), nil, 0},
		{"Not-ECT", isMarked(t, func(p *rocev2.Packet) { p.TrafficClass = 0 }), nil, 0},
		{"ack", isMarked(t, opcode(bth.RCAcknowledge)), nil, 0},
		{"atomic ack", isMarked(t, opcode(bth.RCAtomicAcknowledge)), nil, 0},
		{"CNP", isMarked(t, opcode(bth.CNP), func(p *rocev2.Packet) { p.Payload = make([]byte, 16) }), nil, 0},
		{"disabled", isMarked(t), func(c *receiver.Config) { c.Enabled = false }, node.ReasonDisabled},
		{"another host's", isMarked(t, func(p *rocev2.Packet) { p.Dst = src6.Next() }), nil, node.ReasonNotOurs},
		{"to multicast", isMarked(t, func(p *rocev2.Packet) { p.Dst = netip.MustParseAddr("ff0e::1") }), nil,
			node.ReasonNotOurs},
		{"tunnelled", tunnelled(), nil, node.ReasonTunnelled},
		{"from multicast", isMarked(t, func(p *rocev2.Packet) { p.Src = netip.MustParseAddr("ff0e::1") }), nil,
			node.ReasonAddress},
		{"from ::", isMarked(t, func(p *rocev2.Packet) { p.Src = netip.IPv6Unspecified() }), nil, node.ReasonAddress},
		{"ICRC", damaged, nil, node.ReasonICRC},
		{"unknown flow", isMarked(t, func(p *rocev2.Packet) { p.BTH.DestQP = 0x12 }), nil, node.ReasonUnknownQP},
		{"nothing known", isMarked(t), func(c *receiver.Config) { c.QPs = nil }, node.ReasonUnknownQP},
		{"ambiguous", isMarked(t), func(c *receiver.Config) { c.QPs = ambiguous{} }, node.ReasonAmbiguousQP},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := config(t)
			if c.change != nil {
				c.change(&cfg)
			}
			r := made(t, cfg)
			out, d := receive(r, nil, c.p, now)
			require.Equal(t, []any{c.reason, c.reason != 0}, []any{d.Reason, d.Action == node.ActionRefused})
			require.Equal(t, []any{message.KindOther, netip.Addr{}}, []any{d.Message, d.To})
			require.Empty(t, out)
			require.Zero(t, sent(r))
			require.Equal(t, c.reason != 0, r.Counters().Load(node.Count{Action: node.ActionRefused,
				Reason: c.reason}) == 1,
				c.name)
		})
	}
	_, d := receive(made(t, receiver.Config{}), nil, isMarked(t), now)
	require.Equal(t, node.ReasonDisabled, d.Reason)
}

// One CNP stands for all packets of a flow that were marked within the interval; exactly one interval later there is
// another.
func TestInterval(t *testing.T) {
	cfg := config(t)
	cfg.PerFlow = 50 * time.Microsecond
	r := made(t, cfg)
	sent := 0
	for at := range 200 {
		_, d := receive(r, nil, isMarked(t), now.Add(time.Duration(at)*time.Microsecond))
		if d.Message == message.KindCNP {
			require.Zero(t, at%50)
			sent++
		} else {
			require.Equal(t, node.ReasonLimited, d.Reason)
		}
	}
	require.Equal(t, 4, sent)
	_, d := receive(r, nil, isMarked(t, v4), now.Add(199*time.Microsecond)) // another flow
	require.Equal(t, message.KindCNP, d.Message)

	// A rejected packet does not begin an interval.
	r = made(t, cfg)
	damaged := isMarked(t)
	damaged.IP[len(damaged.IP)-20] ^= 1
	_, d = receive(r, nil, damaged, now)
	require.Equal(t, node.ReasonICRC, d.Reason)
	_, d = receive(r, nil, isMarked(t), now)
	require.Equal(t, message.KindCNP, d.Message)
	// Time that jumps back stops a flow for one interval at most.
	_, d = receive(r, nil, isMarked(t), now.Add(-time.Hour))
	require.Equal(t, node.ReasonLimited, d.Reason)
	_, d = receive(r, nil, isMarked(t), now.Add(-time.Hour+50*time.Microsecond))
	require.Equal(t, message.KindCNP, d.Message)
}

// A packet that the capture cut is answered: its headers say enough.
func TestCut(t *testing.T) {
	whole := isMarked(t)
	var p rocev2.Packet
	require.NoError(t, p.Decode(whole.IP[:70], rocev2.DecodeOptions{Link: rocev2.LinkIP, AllowTruncated: true}))
	_, d := receive(made(t, config(t)), nil, &p, now)
	require.Equal(t, message.KindCNP, d.Message)
}

// Queue pairs 0 and 1 carry management only: no CNP names them, even if a DETH does.
func TestManagement(t *testing.T) {
	for _, row := range []struct {
		qp   uint32
		want node.Reason
	}{{0, node.ReasonUnknownQP}, {1, node.ReasonUnknownQP}, {2, node.NoReason}} {
		t.Run(fmt.Sprint(row.qp), func(t *testing.T) {
			out, d := receive(made(t, config(t)), nil, isMarked(t, ud(row.qp, 0x11)), now)
			require.Equal(t, row.want, d.Reason)
			require.Equal(t, row.want == node.NoReason, len(out) > 0)
		})
	}
}

// Nothing is allocated on any path, by new flows neither.
func TestNoAllocs(t *testing.T) {
	cfg := config(t)
	cfg.MaxFlows, cfg.PerFlow = 64, time.Second
	r := made(t, cfg)
	buf := make([]byte, 0, 512)
	var f rocev2.Frame
	octets := bytes.Clone(isMarked(t, ud(1, 0x11)).IP)
	short := octets[:len(octets)-5] // its ICRC cannot be verified
	wiretest.NoAllocs(t, "new flows", func() {
		octets[40+8+12+7]++ // the source queue pair
		f.Decode(short, rocev2.DecodeOptions{Link: rocev2.LinkIP, AllowTruncated: true})
		r.Receive(buf, &f, node.Event{Now: now})
	})
	require.Greater(t, sent(r), uint64(100))
	for _, c := range []struct {
		name string
		p    *rocev2.Packet
	}{
		{"CNP", isMarked(t, v4)},
		{"not marked", isMarked(t, func(p *rocev2.Packet) { p.TrafficClass = 0 })},
		{"unknown", isMarked(t, func(p *rocev2.Packet) { p.BTH.DestQP = 0x12 })},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := frameOf(c.p)
			wiretest.NoAllocs(t, c.name, func() { r.Receive(buf, f, node.Event{Now: now}) })
		})
	}
	cfg.PerFlow, cfg.Fast = 0, true
	r = made(t, cfg)
	fast := frameOf(isMarked(t))
	wiretest.NoAllocs(t, "Fast CNP", func() { r.Receive(buf, fast, node.Event{Now: now}) })
}

// ud is a datagram that a queue pair sends to another.
func ud(source, dest uint32) func(*rocev2.Packet) {
	return func(p *rocev2.Packet) {
		p.BTH.Opcode, p.BTH.DETH.SrcQP, p.BTH.DestQP = bth.UDSendOnly, source, dest
	}
}

// A flood of queue pairs does not grow the table, and each of them gets its CNP.
func TestFlood(t *testing.T) {
	cfg := config(t)
	cfg.MaxFlows, cfg.PerFlow = 64, time.Second
	r := made(t, cfg)
	buf := make([]byte, 0, 512)
	for i := range uint32(10_000) {
		_, d := receive(r, buf, isMarked(t, ud(2+i, 0x11)), now)
		require.Equal(t, message.KindCNP, d.Message)
	}
}

// The interval is kept by the fields that the notification names: a flood of forged datagrams to any queue pairs of
// this host brings one sender's queue pair no more CNPs than one flow does.
func TestIntervalPerNamedFlow(t *testing.T) {
	cfg := config(t)
	cfg.PerFlow = 100 * time.Millisecond
	r := made(t, cfg)
	buf := make([]byte, 0, 512)
	sent := 0
	for i := range uint32(10_000) {
		at := now.Add(time.Duration(i) * time.Microsecond)
		if _, d := receive(r, buf, isMarked(t, ud(0x22, i+2)), at); d.Message == message.KindCNP {
			sent++
		}
	}
	require.Equal(t, 1, sent)

	// The connection's CNP names the same queue pair of the same host.
	_, d := receive(r, buf, isMarked(t), now.Add(50*time.Millisecond))
	require.Equal(t, node.ReasonLimited, d.Reason)
	// Another queue pair of that host, and that number at another host, are others.
	for _, c := range []struct {
		name string
		p    *rocev2.Packet
	}{
		{"queue pair", isMarked(t, ud(0x23, 0x11))},
		{"host", isMarked(t, ud(0x22, 0x11), func(p *rocev2.Packet) { p.Src = src6.Next() })},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, d = receive(r, buf, c.p, now.Add(50*time.Millisecond))
			require.Equal(t, message.KindCNP, d.Message)
			_, d = receive(r, buf, c.p, now.Add(60*time.Millisecond))
			require.Equal(t, node.ReasonLimited, d.Reason)
		})
	}

	// A Fast CNP names the flow by this host's queue pair.
	cfg.Fast = true
	r = made(t, cfg)
	for _, c := range []struct {
		p      *rocev2.Packet
		reason node.Reason
	}{
		{isMarked(t), 0}, {isMarked(t), node.ReasonLimited},
		{isMarked(t, func(p *rocev2.Packet) { p.BTH.DestQP = 0x12 }), 0},
		{isMarked(t, func(p *rocev2.Packet) { p.Src = src6.Next() }), 0},
		{isMarked(t, v4), 0}, {isMarked(t, v4), node.ReasonLimited},
	} {
		_, d = receive(r, buf, c.p, now)
		require.Equal(t, c.reason, d.Reason)
	}
}

// The rate is that of all notifications together, and only they take from it.
func TestRate(t *testing.T) {
	cfg := config(t)
	cfg.Out = node.Rate{PerSecond: 10, Burst: 2}
	r := made(t, cfg)
	damaged := isMarked(t)
	damaged.IP[len(damaged.IP)-20] ^= 1
	unknown := isMarked(t, func(p *rocev2.Packet) { p.BTH.DestQP = 0x12 })
	for i, c := range []struct {
		at     time.Duration
		p      *rocev2.Packet
		reason node.Reason
	}{
		{0, unknown, node.ReasonUnknownQP}, {0, damaged, node.ReasonICRC}, {0, isMarked(t), 0}, {0, isMarked(t, v4), 0},
		{0, isMarked(t, ud(5, 5)), node.ReasonLimited},
		{99, isMarked(t), node.ReasonLimited}, {100, isMarked(t), 0}, {100, isMarked(t), node.ReasonLimited},
	} {
		_, d := receive(r, nil, c.p, now.Add(c.at*time.Millisecond))
		require.Equal(t, c.reason, d.Reason, "packet %d", i)
	}

	// A packet rejected by the rate does not begin an interval.
	cfg.PerFlow, cfg.Out = time.Hour, node.Rate{PerSecond: 1}
	r = made(t, cfg)
	for i, c := range []struct {
		at     time.Duration
		p      *rocev2.Packet
		reason node.Reason
	}{{0, isMarked(t), 0}, {0, isMarked(t, v4), node.ReasonLimited}, {1, isMarked(t, v4), 0}} {
		_, d := receive(r, nil, c.p, now.Add(c.at*time.Second))
		require.Equal(t, c.reason, d.Reason, "packet %d", i)
	}
}

// Two capture queues with clocks 200 ms apart take turns: there are no more CNPs than the limits allow.
func TestTwoClocks(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*receiver.Config)
	}{
		{"interval", func(c *receiver.Config) { c.PerFlow = 100 * time.Millisecond }},
		{"rate", func(c *receiver.Config) { c.Out = node.Rate{PerSecond: 10} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := config(t)
			c.change(&cfg)
			r := made(t, cfg)
			buf, p := make([]byte, 0, 512), isMarked(t)
			for i := range 10_000 { // 50 µs apart: half a second in all
				at := now.Add(time.Duration(i) * 50 * time.Microsecond)
				if i%2 == 1 {
					at = at.Add(-200 * time.Millisecond)
				}
				receive(r, buf, p, at)
			}
			require.EqualValues(t, 5, sent(r))
		})
	}
}

// Forged datagrams, each of another source, do not use up the limit of connections. They get the part of it that
// connections leave.
func TestForgedDatagrams(t *testing.T) {
	for _, c := range []struct {
		name        string
		connections int // marks a second
		want        int // answered datagrams a second, at a limit of 1,000
	}{{"half of the limit", 500, 500}, {"all of it", 1000, 0}, {"no connection", 0, 1000}} {
		t.Run(c.name, func(t *testing.T) {
			cfg := config(t)
			cfg.Out = node.Rate{PerSecond: 1000, Burst: 10}
			r := made(t, cfg)
			random := rand.New(rand.NewPCG(8, 49))
			counts := [2]int{}
			const seconds, forged = 4, 10_000
			for i := range seconds * forged {
				at := now.Add(time.Duration(i) * time.Second / forged)
				p := isMarked(t, ud(5, 5), func(p *rocev2.Packet) {
					b := p.Src.As16()
					binary.BigEndian.PutUint64(b[8:], random.Uint64())
					binary.BigEndian.PutUint32(b[4:], random.Uint32())
					p.Src = netip.AddrFrom16(b)
				})
				if _, d := receive(r, nil, p, at); d.Action == node.ActionSent {
					counts[1]++
				}
				if c.connections > 0 && i%(forged/c.connections) == 0 {
					if _, d := receive(r, nil, isMarked(t), at); d.Action == node.ActionSent {
						counts[0]++
					}
				}
			}
			require.Equal(t, seconds*c.connections, counts[0], "no mark of a connection is lost")
			require.InDelta(t, seconds*c.want, counts[1], 30)
		})
	}
}

// Of two faults of a packet the one that is cheaper to see is named.
func TestOrder(t *testing.T) {
	type packet struct {
		change    []func(*rocev2.Packet)
		tunnelled bool
		damaged   bool
	}
	faults := []struct {
		reason node.Reason
		make   func(*receiver.Config, *packet)
	}{
		{node.ReasonDisabled, func(c *receiver.Config, _ *packet) { c.Enabled = false }},
		{node.ReasonNotOurs, func(_ *receiver.Config, p *packet) {
			p.change = append(p.change, func(p *rocev2.Packet) { p.Dst = self6.Next() })
		}},
		{node.ReasonTunnelled, func(_ *receiver.Config, p *packet) { p.tunnelled = true }},
		{node.ReasonAddress, func(_ *receiver.Config, p *packet) {
			p.change = append(p.change, func(p *rocev2.Packet) { p.Src = netip.MustParseAddr("ff0e::1") })
		}},
		{node.ReasonUnknownQP, func(c *receiver.Config, _ *packet) { c.QPs = nil }},
		{node.ReasonLimited, func(c *receiver.Config, _ *packet) { c.Out = node.Rate{PerSecond: 1e-3} }},
		{node.ReasonICRC, func(_ *receiver.Config, p *packet) { p.damaged = true }},
	}
	for i, first := range faults {
		for j, second := range faults[i:] {
			cfg, faulty := config(t), packet{}
			first.make(&cfg, &faulty)
			if j > 0 {
				second.make(&cfg, &faulty)
			}
			r := made(t, cfg)
			receive(r, nil, isMarked(t), now) // uses up the rate
			p := isMarked(t, faulty.change...)
			if faulty.damaged {
				p.IP[len(p.IP)-20] ^= 1
			}
			if faulty.tunnelled {
				b := append([]byte{0x60, 0, 0, 0, 0, 0, 41, 64}, append(src6.AsSlice(), self6.AsSlice()...)...)
				binary.BigEndian.PutUint16(b[4:], uint16(len(p.IP)))
				require.NoError(t, p.DecodeIP(append(b, p.IP...)))
			}
			_, d := receive(r, nil, p, now)
			require.Equal(t, []any{node.ActionRefused, first.reason, message.KindOther}, []any{d.Action, d.Reason,
				d.Message},
				"%v and %v", first.reason, second.reason)
		}
	}
}

// Without a configured seed each receiver has a random one: the flows that evict others from the table of one
// receiver do not do so in another.
func TestSeedIsRandom(t *testing.T) {
	forgotten := func() (which [200]bool) {
		cfg := config(t)
		cfg.MaxFlows, cfg.PerFlow = 64, time.Hour
		r := made(t, cfg)
		for range 2 {
			for i := range which {
				_, d := receive(r, nil, isMarked(t, ud(uint32(i), 0x11)), now)
				which[i] = d.Message == message.KindCNP
			}
		}
		return which
	}
	require.NotEqual(t, forgotten(), forgotten())
}

// A CNP decided and built, beside decoding, verifying and building alone. Each
// core has a receiver of its own: run with -cpu 1,2.
func BenchmarkReceive(b *testing.B) {
	frame := isMarked(b).IP
	b.Run("DecodeAndBuild", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			var p rocev2.Packet
			buf := make([]byte, 0, 512)
			for pb.Next() {
				if p.DecodeIP(frame) != nil {
					b.Fail()
				}
				if _, err := icrc.Verify(p.IP); err != nil {
					b.Fail()
				}
				if _, err := cnp.AppendFor(buf, &p, p.FinalDst(), 0x22, cnp.Config{}); err != nil {
					b.Fail()
				}
			}
		})
	})
	b.Run("Receive", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			cfg := config(b)
			cfg.PerFlow = time.Microsecond
			cfg.QPs = struct{ node.Pairs }{cfg.QPs} // which does not learn
			r := made(b, cfg)
			var f rocev2.Frame
			buf := make([]byte, 0, 512)
			now := now
			for pb.Next() {
				now = now.Add(time.Microsecond)
				f.Decode(frame, ip)
				if _, d := r.Receive(buf, &f, node.Event{Now: now}); d.Message != message.KindCNP {
					b.Fail()
				}
			}
		})
	})
}

// The memory of a receiver is the documented size.
func TestMemory(t *testing.T) {
	cfg := config(t)
	cfg.PerFlow = time.Second
	require.InDelta(t, 16*65536, wiretest.Allocated(func() { receiver.New(cfg) }), 64<<10)
	require.Less(t, wiretest.Allocated(func() { receiver.New(receiver.Config{}) }), uint64(16<<10),
		"nothing for a role that is off")
}

// Broken RoCEv2 is refused where it is marked and may be data, as far as can be read; other broken packets ask for
// nothing.
func TestBroken(t *testing.T) {
	const at4, at6 = 20, 40
	short := func(udp int, length uint8, opcode bth.Opcode, change ...func(*rocev2.Packet)) []byte {
		b := isMarked(t, change...).IP
		b[udp+4], b[udp+5], b[udp+8] = 0, length, byte(opcode)
		return b
	}
	unmarked := func(p *rocev2.Packet) { p.TrafficClass = uint8(rocev2.ECT0) }
	for _, row := range []struct {
		name   string
		octets []byte
		reason node.Reason
	}{
		{"data", short(at6, 9, bth.RCSendOnly), node.ReasonBroken},
		{"data of IPv4", short(at4, 9, bth.RCSendOnly, v4), node.ReasonBroken},
		{"acknowledgement", short(at6, 9, bth.RCAcknowledge), 0},
		{"CNP", short(at4, 9, bth.CNP, v4), 0},
		{"no opcode", short(at6, 8, bth.RCAcknowledge), node.ReasonBroken},
		{"not even a UDP header", short(at6, 7, bth.RCAcknowledge), node.ReasonBroken},
		{"not marked", short(at6, 9, bth.RCSendOnly, unmarked), 0},
		{"not marked, of IPv4", short(at4, 9, bth.RCSendOnly, v4, unmarked), 0},
		{"breaks off in its BTH", isMarked(t).IP[:59], node.ReasonBroken},
	} {
		t.Run(row.name, func(t *testing.T) {
			for _, on := range []bool{true, false} {
				cfg := config(t)
				cfg.Enabled = on
				r := made(t, cfg)
				var f rocev2.Frame
				f.Decode(row.octets, ip)
				want := node.Decision{Packet: message.KindError}
				if row.reason != 0 {
					want.Action, want.Reason = node.ActionRefused, row.reason
					if !on {
						want.Reason = node.ReasonDisabled
					}
				}
				out, d := r.Receive(nil, &f, node.Event{Now: now})
				require.Empty(t, out)
				require.Equal(t, want, d)
			}
		})
	}
}

// teaching learns one pair of every packet.
type teaching struct {
	seen *int
	key  qpmap.Key
}

func (l teaching) SourceQP(qpmap.Key, time.Time) (qpmap.Pair, error) {
	return qpmap.Pair{SrcQP: 0x22}, nil
}

func (l teaching) Observe(*rocev2.Packet, uint32, time.Time) int { *l.seen++; return 1 }

func (l teaching) Learned() iter.Seq2[qpmap.Key, qpmap.Pair] {
	return func(yield func(qpmap.Key, qpmap.Pair) bool) { yield(l.key, qpmap.Pair{SrcQP: 0x99}) }
}

// A receiver that is on learns from data and acknowledgements. The Action is node.ActionLearned if there is no other
// one.
func TestLearns(t *testing.T) {
	seen := 0
	key := qpmap.Key{FlowKey: rocev2.FlowKey{Src: src6, Dst: self6, DestQP: 7}}
	cfg := config(t)
	cfg.QPs = teaching{&seen, key}
	r := made(t, cfg)
	learned := func(k message.Kind) node.Decision {
		return node.Decision{Action: node.ActionLearned, Packet: k, Flow: key, SrcQP: 0x99, KnownQP: true}
	}
	_, d := receive(r, nil, isMarked(t, opcode(bth.RCAcknowledge)), now)
	require.Equal(t, learned(message.KindAck), d)
	_, d = receive(r, nil, isMarked(t, func(p *rocev2.Packet) { p.TrafficClass = uint8(rocev2.ECT0) }), now)
	require.Equal(t, learned(message.KindData), d)
	_, d = receive(r, nil, isMarked(t), now)
	require.Equal(t, []any{node.ActionSent, uint32(0x22), uint32(0x11)}, []any{d.Action, d.SrcQP, d.Flow.DestQP})
	require.Equal(t, 3, seen)

	cfg.Enabled = false
	require.NoError(t, r.Configure(cfg))
	_, d = receive(r, nil, isMarked(t, opcode(bth.RCAcknowledge)), now)
	require.Equal(t, node.Decision{Packet: message.KindAck}, d)
	require.Equal(t, 3, seen)
	_, err := receiver.New(cfg)
	require.NoError(t, err)
}

// A Carriage that nothing can be built with is refused, and not every packet afterwards.
func TestCarriage(t *testing.T) {
	on := receiver.Config{Enabled: true, Self4: netip.MustParseAddr("192.0.2.1")}
	cfg := on
	cfg.CNP.Carriage.DSCP = 200
	_, err := receiver.New(cfg)
	require.ErrorContains(t, err, "CNP.Carriage")
	cfg = on
	cfg.FastCNP.Carriage.ECN = 4
	_, err = receiver.New(cfg)
	require.ErrorContains(t, err, "FastCNP.Carriage")
}

// A new configuration in the midst of a sequence keeps the state of the limits and the known pairs. An invalid one
// changes nothing.
func TestConfigure(t *testing.T) {
	cfg := config(t)
	cfg.PerFlow, cfg.Out, cfg.MaxFlows = time.Hour, node.Rate{PerSecond: 1e-3, Burst: 3}, 64
	r := made(t, cfg)
	is := func(at time.Duration, want node.Reason) {
		t.Helper()
		_, d := receive(r, nil, isMarked(t), now.Add(at))
		require.Equal(t, want, d.Reason)
	}
	is(0, 0)
	for _, c := range []struct {
		name   string
		change func(*receiver.Config)
	}{
		{"receiver: neither Self4", func(c *receiver.Config) { c.Self4, c.Self6 = netip.Addr{}, netip.Addr{} }},
		{"Self4", func(c *receiver.Config) { c.Self4 = self6 }},
		{"Self6", func(c *receiver.Config) { c.Self6 = self4 }},
		{"PerFlow -1ns", func(c *receiver.Config) { c.PerFlow = -1 }},
		{"Out has a Burst", func(c *receiver.Config) { c.Out = node.Rate{Burst: 5} }},
		{"FastCNP.CodePoints: option type 0xbe: its act bits must be 10, its chg bit 0", func(c *receiver.Config) {
			c.FastCNP.CodePoints.Option2 = 0xBE
		}},
		{"FastCNP.Long 3", func(c *receiver.Config) { c.FastCNP.Long = 3 }},
		{"FastCNP.Coverage 3", func(c *receiver.Config) { c.FastCNP.Coverage = 3 }},
		{"MaxFlows -1 is negative", func(c *receiver.Config) { c.MaxFlows = -1 }},
		{"MaxFlows cannot change", func(c *receiver.Config) { c.MaxFlows = 65 }},
		{"the Seed cannot change", func(c *receiver.Config) { c.Seed = 9 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			bad := cfg
			bad.QPs = nil
			c.change(&bad)
			require.ErrorContains(t, r.Configure(bad), c.name)
			if c.name != "MaxFlows cannot change" && c.name != "the Seed cannot change" {
				_, err := receiver.New(bad)
				require.ErrorContains(t, err, c.name)
			}
		})
	}
	is(time.Second/2, node.ReasonLimited) // the pair is known, and the interval goes on

	cfg.PerFlow = time.Second
	require.NoError(t, r.Configure(cfg))
	is(time.Second-1, node.ReasonLimited)
	is(time.Second, 0)
	cfg.Enabled = false
	require.NoError(t, r.Configure(cfg))
	is(2*time.Second, node.ReasonDisabled)
	cfg.Enabled, cfg.Fast = true, true
	require.NoError(t, r.Configure(cfg))
	out, d := receive(r, nil, isMarked(t), now.Add(2*time.Second))
	require.Equal(t, message.KindFastCNP, d.Message)
	require.NotEmpty(t, out)
	is(3*time.Second, node.ReasonLimited) // three were sent
	cfg.Out, cfg.PerFlow = node.Rate{}, 0
	require.NoError(t, r.Configure(cfg))
	is(3*time.Second, 0)
	is(3*time.Second, 0)
}

// A receiver that had no interval between CNPs has one from the configuration on that sets it.
func TestConfigureInterval(t *testing.T) {
	cfg := config(t)
	cfg.PerFlow = 0
	r := made(t, cfg)
	is := func(at time.Duration, want node.Reason) {
		t.Helper()
		_, d := receive(r, nil, isMarked(t), now.Add(at))
		require.Equal(t, want, d.Reason)
	}
	is(0, 0)
	is(0, 0)
	cfg.PerFlow = time.Second
	require.NoError(t, r.Configure(cfg))
	is(1, 0)
	is(time.Second, node.ReasonLimited)
	is(time.Second+1, 0)
}

// A packet that a switch has trimmed is not answered. One that a network device has cut in its data is answered, as one
// that the snapshot length has cut.
func TestTrimmedOrCut(t *testing.T) {
	trimmed := isMarked(t).IP[:60:60]
	trimmed[4], trimmed[5] = 0, 20 // Payload Length: UDP header and BTH
	for _, row := range []struct {
		name   string
		octets []byte
		action node.Action
		reason node.Reason
	}{
		{"trimmed", trimmed, node.ActionRefused, node.ReasonTrimmed},
		{"truncated by a network device", isMarked(t).IP[:70], node.ActionSent, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			var f rocev2.Frame
			f.Decode(row.octets, ip)
			_, d := made(t, config(t)).Receive(nil, &f, node.Event{Now: now})
			require.Equal(t, []any{row.action, row.reason}, []any{d.Action, d.Reason})
		})
	}
}
