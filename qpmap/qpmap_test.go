package qpmap_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cm"
	"github.com/rocecn/rocecn/internal/flowtable"
	"github.com/rocecn/rocecn/internal/qplearn"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// TestMain collects garbage rarely, as the tests make tens of thousands of maps.
func TestMain(m *testing.M) {
	wiretest.CollectRarely(800)
	m.Run()
}

func TestCM(t *testing.T) {
	c := live()
	m := newMap(qpmap.Config{})
	observe(m, start, c.req())
	requireNone(t, m, c.forth(), qpmap.ErrUnknown)
	observe(m, start, c.req(), c.rep()) // the REQ retransmitted
	for _, want := range []struct {
		k rocev2.FlowKey
		p qpmap.Pair
	}{
		{c.forth(), qpmap.Pair{SrcQP: c.a, PKey: 0xFFFF, MTU: 1024, Transport: bth.TransportRC, From: qpmap.BasisCM,
			Seen: start}},
		{c.back(), qpmap.Pair{SrcQP: c.b, PKey: 0xFFFF, MTU: 1024, Transport: bth.TransportRC, From: qpmap.BasisCM,
			Seen: start}},
	} {
		got := wiretest.Must(m.SourceQP(qpmap.Key{FlowKey: want.k}, start))(t)
		require.Equal(t, want.p, got)
	}
	learned := map[qpmap.Key]qpmap.Pair{}
	for k, p := range m.Learned() {
		learned[k] = p
	}
	all := map[qpmap.Key]qpmap.Pair{}
	for k, p := range m.All() {
		all[k] = p
	}
	require.Equal(t, all, learned)
	require.Len(t, all, 2)

	observe(m, start, c.rep(), c.rtu()) // retransmitted: nothing new
	for range m.Learned() {
		t.Error("learned again")
	}
	observe(m, start, c.turned().dreq()) // either side may end it
	requireNone(t, m, c.forth(), qpmap.ErrUnknown)
	requireNone(t, m, c.back(), qpmap.ErrUnknown)
	observe(m, start, c.rep()) // too late
	require.Equal(t, qpmap.Stats{CM: 2, Ended: 2, Unmatched: 1}, m.Stats())
}

func TestCMEnds(t *testing.T) {
	c := live()
	for _, row := range []struct {
		name string
		end  rocev2.Packet
	}{
		{"DREQ", c.dreq()},
		{"DREQ of the peer", c.turned().dreq()},
		{"DREP", c.drep()},
		{"DREP of the peer", c.turned().drep()},
		{"REJ", c.rej()},
		{"REJ of the requester", c.turned().rej()},
		{"REJ without a local comm", cmPacket(c.A, c.B, cm.AttributeREJ,
			&cm.REJ{LocalCommID: c.commA, RemoteCommID: c.commB})},
	} {
		t.Run(row.name, func(t *testing.T) {
			m := established(c, true)
			observe(m, start, row.end)
			requireNone(t, m, c.forth(), qpmap.ErrUnknown)
			requireNone(t, m, c.back(), qpmap.ErrUnknown)
		})
	}
	m := newMap(qpmap.Config{}) // refused, before there was a pair
	observe(m, start, c.req(), cmPacket(c.B, c.A, cm.AttributeREJ, &cm.REJ{RemoteCommID: c.commA}))
	require.Zero(t, m.Stats().Pending)
	observe(m, start, c.rep())
	requireNone(t, m, c.forth(), qpmap.ErrUnknown)
}

// The responder's queue pair of XRC stands where the EE context number does.
func TestXRC(t *testing.T) {
	c := live()
	m := newMap(qpmap.Config{})
	observe(m, start,
		cmPacket(c.A, c.B, cm.AttributeREQ, &cm.REQ{LocalCommID: 1, LocalQPN: c.a,
			TransportType: cm.TransportTypeExtended, ExtendedTransport: cm.ExtendedTransportXRC}),
		cmPacket(c.B, c.A, cm.AttributeREP, &cm.REP{LocalCommID: 2, RemoteCommID: 1, LocalEECN: c.b}))
	got := wiretest.Must(m.SourceQP(qpmap.Key{FlowKey: c.forth()}, start))(t)
	require.Equal(t, c.a, got.SrcQP)
	require.Equal(t, bth.TransportXRC, got.Transport)
}

// A capture with a short snap length has enough of a CM message: the frames of
// these have 138 and 158 octets of a REQ, over IPv4 and IPv6.
func TestCutCM(t *testing.T) {
	for _, x := range []struct {
		name  string
		snap  int
		pairs int
	}{{"rxe-ucmatose4.pcap", 138, 4}, {"rxe-ucmatose4.pcap", 137, 0}, {"rxe-rping6.pcap", 158, 2},
		{"rxe-rping6.pcap", 157, 0}} {
		t.Run(x.name, func(t *testing.T) {
			known := map[rocev2.FlowKey]bool{}
			m := newMap(qpmap.Config{})
			for _, c := range wiretest.Capture(t, x.name) {
				var p rocev2.Packet
				o := rocev2.DecodeOptions{AllowTruncated: len(c.Data) > x.snap}
				if p.Decode(c.Data[:min(len(c.Data), x.snap)], o) != nil {
					continue
				}
				m.Observe(&p, 0, c.Time)
				for k, pair := range m.Learned() {
					if pair.From == qpmap.BasisCM {
						require.Equal(t, k.DestQP, pair.SrcQP)
						known[k.FlowKey] = true
					}
				}
			}
			require.Len(t, known, x.pairs, "%s, %d octets", x.name, x.snap)
		})
	}
}

// A packet that is not a CM message, or names a queue pair that no connection has, is ignored.
func TestNoCM(t *testing.T) {
	c := live()
	m := newMap(qpmap.Config{})
	immediate, wrongKey, cut, low := c.req(), c.req(), c.req(), *c
	immediate.BTH.Opcode = bth.UDSendOnlyWithImmediate
	wrongKey.BTH.DETH.QKey = 1
	cut.Payload = cut.Payload[:200] // as long as that, and not cut by a capture
	low.a = 1
	observe(m, start, immediate, wrongKey, cut, low.req(),
		cmPacket(c.A, c.B, cm.AttributeREQ, &cm.REQ{LocalQPN: c.a, TransportType: cm.TransportTypeRD}),
		cmPacket(c.A, c.B, 0x19, &cm.RTU{}))
	require.Equal(t, qpmap.Stats{}, m.Stats())
	low = *c
	low.b = 0
	observe(m, start, low.req(), low.rep())
	require.Zero(t, m.Stats().Pairs)
}

// Two answers that differ: neither counts, before data confirms one.
func TestTwoREPs(t *testing.T) {
	c := live()
	other := *c
	other.b, other.commB = 0x32, 0xBBBB0002
	m := newMap(qpmap.Config{})
	observe(m, start, c.req(), c.rep(), other.rep())
	for _, k := range []rocev2.FlowKey{c.forth(), c.back(), other.forth()} {
		requireNone(t, m, k, qpmap.ErrUnknown)
	}
	observe(m, start, c.rep())
	requireNone(t, m, c.forth(), qpmap.ErrUnknown)
}

// A queue pair is used again: with another partner, and CM that shows the end of
// the lifetime before, or does not. Then the new one is believed once it has been
// answered and nothing of the old one has come for a while; the old one never.
func TestNewLifetimes(t *testing.T) {
	for _, ended := range []bool{true, false} {
		for _, psn := range []uint32{0x800000, live().psnA, live().psnA - 40000} {
			c, next := live(), live()
			next.a, next.psnA, next.psnB, next.commA, next.commB = 0x22, psn, psn+7, 0xAAAA0002, 0xBBBB0002
			m := established(c, true)
			if ended {
				observe(m, start, c.dreq(), c.drep())
			}
			observe(m, start, next.req(), next.rep(), next.rtu())
			at := start
			for n := range uint32(40) {
				at = at.Add(50 * time.Millisecond)
				observe(m, at, next.request(n))
				got, err := m.SourceQP(qpmap.Key{FlowKey: next.forth()}, at)
				if ended || n > 25 {
					require.NoError(t, err, "%v, %#x, request %d", ended, psn, n)
				}
				if err == nil {
					require.Equal(t, next.a, got.SrcQP)
				}
				observe(m, at, next.ack(n))
			}
			got := wiretest.Must(m.SourceQP(qpmap.Key{FlowKey: next.back()}, at))(t)
			require.Equal(t, next.b, got.SrcQP)
			requireNone(t, m, c.back(), qpmap.ErrUnknown)
			observe(m, at, next.dreq())
			left := 0
			if !ended && psn != c.psnA { // the lifetime before, of which the PSNs differ
				left = 2
			}
			require.Equal(t, left, m.Stats().Pairs)
			requireNone(t, m, c.forth(), qpmap.ErrUnknown)
		}
	}
}

// The same without CM: the sender of a packet out of the sequence is unknown, and the packet does
// not affect the previous lifetime. The next lifetime is believed once it has been answered and the
// previous one has been silent for a while.
func TestNewLifetimesWithoutCM(t *testing.T) {
	c, next := live(), live()
	next.a, next.psnA = 0x22, 0x800000
	m := newMap(qpmap.Config{})
	for n := range uint32(5) {
		observe(m, start, c.request(n), c.ack(n))
	}
	requirePair(t, m, c.forth(), c.a, qpmap.BasisVotes)
	observe(m, start, next.request(0))
	requireNone(t, m, c.forth(), qpmap.ErrUnknown)
	observe(m, start, c.request(5)) // that one was a stray
	requirePair(t, m, c.forth(), c.a, qpmap.BasisVotes)
	for n := range uint32(4) { // answered, and yet the old one may go on
		observe(m, start, next.request(n), next.ack(n))
		requireNone(t, m, c.forth(), qpmap.ErrUnknown)
	}
	of, err := m.SourceQPOf(qpmap.Key{FlowKey: c.forth()}, &bth.Header{Opcode: bth.RCSendOnly, PSN: c.psnA + 5}, start)
	require.NoError(t, err) // the question is the sender, not the time
	require.Equal(t, c.a, of.SrcQP)
	later := start.Add(1100 * time.Millisecond)
	for n := range uint32(5) {
		observe(m, later, next.request(4+n), next.ack(4+n))
	}
	got := wiretest.Must(m.SourceQP(qpmap.Key{FlowKey: c.forth()}, later))(t)
	require.Equal(t, next.a, got.SrcQP)
	_, err = m.SourceQP(qpmap.Key{FlowKey: c.back()}, later)
	require.Error(t, err)
	require.EqualValues(t, 1, m.Stats().NewLifetimes)

	uc := packet(c.A, c.B, bth.UCSendOnly, c.b, next.psnA+9) // or another transport
	observe(m, later, uc)
	_, err = m.SourceQP(qpmap.Key{FlowKey: c.forth()}, later)
	require.ErrorIs(t, err, qpmap.ErrUnknown)
}

// In a long network thousands of requests are under way when the first answer comes.
// The pair holds for those that pass then.
func TestManyUnderWay(t *testing.T) {
	for _, far := range []uint32{3, 2000, 2200, 10_000, 100_000} {
		t.Run(fmt.Sprint(far), func(t *testing.T) {
			c := live()
			c.psnA = 0xFFFFFF - far/2
			m := qpmap.New(qpmap.Config{MaxOpen: 1 << 14})
			at := start
			for n := range far {
				at = at.Add(100 * time.Nanosecond)
				observe(m, at, c.request(n))
			}
			for n := range uint32(100) {
				at = at.Add(100 * time.Nanosecond)
				observe(m, at, c.ack(n), c.request(far+n))
				if got, err := m.SourceQP(qpmap.Key{FlowKey: c.forth()}, at); n > 10 {
					require.NoError(t, err, n)
					require.Equal(t, c.a, got.SrcQP)
				}
			}
		})
	}
}

// PSNs continue from 0xffffff with 0, and are retransmitted any number of times after packet loss.
func TestPSNs(t *testing.T) {
	c := live()
	c.psnA = 0xFFFFFE
	m := established(c, true)
	for n := uint32(3); n < 10; n++ {
		observe(m, start, c.request(n))
	}
	for range 5 {
		for n := range uint32(10) { // all requests again, including acknowledged ones
			observe(m, start, c.request(n))
			requirePair(t, m, c.forth(), c.a, qpmap.BasisCM)
		}
	}
	observe(m, start, c.request(60000)) // much is missing in the capture, or it is a stranger's
	requireNone(t, m, c.forth(), qpmap.ErrUnknown)
	observe(m, start, c.ack(9))
	requireNone(t, m, c.forth(), qpmap.ErrUnknown)
	later := start.Add(1100 * time.Millisecond)
	for n := uint32(60001); n < 60004; n++ {
		observe(m, later, c.request(n), c.ack(n))
	}
	_, err := m.SourceQP(qpmap.Key{FlowKey: c.forth()}, later)
	require.NoError(t, err)
}

// If the capture lost fewer packets than 2,048, the lifetime continues immediately.
func TestCaptureLoses(t *testing.T) {
	c := live()
	m := established(c, true)
	for n := uint32(3); n < 100_000; n += 1500 {
		observe(m, start, c.request(n), c.ack(n))
		requirePair(t, m, c.forth(), c.a, qpmap.BasisCM)
	}
}

// A READ takes as many PSNs as it has responses, which the path MTU tells.
func TestREAD(t *testing.T) {
	c := live()
	read := packet(c.A, c.B, bth.RCRDMAReadRequest, c.b, c.psnA)
	read.BTH.RETH.DMALength = 1 << 30 // 2^20 PSNs, with the 1,024 octets that CM names
	after := c.request(1 << 20)
	m := newMap(qpmap.Config{})
	observe(m, start, c.req(), c.rep(), read, after)
	requirePair(t, m, c.forth(), c.a, qpmap.BasisCM)

	m = newMap(qpmap.Config{}) // without: anything from 256 to 4,096 octets
	for n := range uint32(3) {
		r := c.request(n)
		observe(m, start, r, c.ack(n))
	}
	read.BTH.PSN = c.psnA + 3
	observe(m, start, read, c.request(3+1<<20))
	requirePair(t, m, c.forth(), c.a, qpmap.BasisVotes)
}

// A First or Middle packet tells the path MTU where CM does not.
func TestMTU(t *testing.T) {
	known := learn(t, newMap(qpmap.Config{}), captured(t, "rxe-vlan4.pcap", true))
	k := rocev2.FlowKey{Src: netip.MustParseAddr("10.78.0.2"), Dst: netip.MustParseAddr("10.78.0.1"), DestQP: 17}
	require.EqualValues(t, 1024, known[k].MTU)
}

func TestUD(t *testing.T) {
	c := live()
	m := newMap(qpmap.Config{Idle: time.Minute})
	send := func(at time.Time, srcQP uint32) {
		p := packet(c.A, c.B, bth.UDSendOnly, c.b, 7)
		p.BTH.DETH.SrcQP, p.BTH.PKey = srcQP, 0x8001
		observe(m, at, p)
	}
	send(start, 0x21)
	got := wiretest.Must(m.SourceQP(qpmap.Key{FlowKey: c.forth()}, start))(t)
	require.Equal(t, qpmap.Pair{SrcQP: 0x21, PKey: 0x8001, Transport: bth.TransportUD, From: qpmap.BasisUD,
		Seen: start}, got)
	send(start, 0x22) // two send to it
	requireNone(t, m, c.forth(), qpmap.ErrAmbiguous)
	for i := range 61 {
		send(start.Add(time.Duration(i)*time.Second), 0x22) // one no more
	}
	got = wiretest.Must(m.SourceQP(qpmap.Key{FlowKey: c.forth()}, start.Add(61*time.Second)))(t)
	require.EqualValues(t, 0x22, got.SrcQP)

	m = established(c, true) // of a flow that is RC, a datagram is a stray
	send(start, 0x55)
	requireNone(t, m, c.forth(), qpmap.ErrUnknown)
	observe(m, start, c.request(3))
	requirePair(t, m, c.forth(), c.a, qpmap.BasisCM)
	send(start, 0x55)
	send(start, 0x55)
	requireNone(t, m, c.forth(), qpmap.ErrUnknown)
	send(start.Add(1100*time.Millisecond), 0x55) // of one that says nothing any more it is another lifetime
	got = wiretest.Must(m.SourceQP(qpmap.Key{FlowKey: c.forth()}, start.Add(1100*time.Millisecond)))(t)
	require.Equal(t, qpmap.BasisUD, got.From)
}

func TestGiven(t *testing.T) {
	c := live()
	m := qpmap.New(qpmap.Config{MaxPairs: 2, Idle: time.Second})
	require.NoError(t, m.Add(qpmap.Key{FlowKey: c.forth()}, qpmap.Pair{SrcQP: 0x99, MTU: 4096}))
	forged := *c
	for n := range uint32(5) {
		observe(m, start, c.request(n), c.ack(n))
	}
	observe(m, start, c.req(), c.rep(), forged.dreq(), packet(c.A, c.B, bth.UCSendOnly, c.b, 1),
		packet(c.A, c.B, bth.UCSendOnly, c.b, 2))
	late := start.Add(time.Hour)
	require.Zero(t, m.Expire(late)-int(m.Stats().Expired))
	got := wiretest.Must(m.SourceQP(qpmap.Key{FlowKey: c.forth()}, late))(t)
	require.EqualValues(t, 0x99, got.SrcQP)
	require.EqualValues(t, 0xFFFF, got.PKey)
	require.Equal(t, qpmap.BasisGiven, got.From)

	require.NoError(t, m.Add(qpmap.Key{FlowKey: c.back()}, qpmap.Pair{SrcQP: 1}))
	require.ErrorIs(t, m.Add(qpmap.Key{FlowKey: c.back(), Domain: 1}, qpmap.Pair{SrcQP: 1}), qpmap.ErrFull)
	require.NoError(t, m.Add(qpmap.Key{FlowKey: c.back()}, qpmap.Pair{SrcQP: 2}))
	require.ErrorIs(t, m.Add(qpmap.Key{FlowKey: c.back()}, qpmap.Pair{SrcQP: 1 << 24}), wireerr.Range)
	require.True(t, m.Remove(qpmap.Key{FlowKey: c.back()}))
	require.False(t, m.Remove(qpmap.Key{FlowKey: c.back()}))
	requireNone(t, m, c.back(), qpmap.ErrUnknown)
	require.NoError(t, m.Add(qpmap.Key{FlowKey: c.back(), Domain: 1}, qpmap.Pair{SrcQP: 1}))
}

func TestIdle(t *testing.T) {
	c := live()
	m := established(c, true)
	require.Zero(t, m.Expire(start.Add(10*time.Minute)))
	_, err := m.SourceQP(qpmap.Key{FlowKey: c.forth()}, start.Add(10*time.Minute))
	require.NoError(t, err)
	_, err = m.SourceQP(qpmap.Key{FlowKey: c.forth()}, start.Add(10*time.Minute+1))
	require.ErrorIs(t, err, qpmap.ErrUnknown)
	require.Equal(t, 2, m.Expire(start.Add(10*time.Minute+1)))
	require.Equal(t, qpmap.Stats{CM: 2, Expired: 2}, m.Stats())

	m = newMap(qpmap.Config{}) // a pair needs three votes
	later := start.Add(10*time.Minute + 1)
	observe(m, start, c.request(0), c.ack(0), c.request(1), c.ack(1))
	observe(m, later, c.request(2), c.ack(2), c.request(3), c.ack(3))
	require.Zero(t, m.Stats().Votes, "two votes are too few, and the two before are forgotten")
	observe(m, later, c.request(4), c.ack(4))
	require.EqualValues(t, 2, m.Stats().Votes)
}

// Time that jumps back, however far, neither ends a pair nor keeps one for ever.
func TestTimeJumpsBack(t *testing.T) {
	for _, jump := range []time.Duration{time.Millisecond, time.Minute, 24 * time.Hour, 100 * 365 * 24 * time.Hour} {
		c := live()
		m := established(c, true)
		for n := range uint32(10) {
			at := start.Add(-jump).Add(time.Duration(n) * time.Second)
			observe(m, at, c.request(3+n), c.ack(3+n))
			got := wiretest.Must(m.SourceQP(qpmap.Key{FlowKey: c.forth()}, at))(t)
			require.Equal(t, c.a, got.SrcQP)
		}
		_, err := m.SourceQP(qpmap.Key{FlowKey: c.forth()}, start.Add(-jump).Add(20*time.Minute+10*time.Second))
		require.ErrorIs(t, err, qpmap.ErrUnknown, "%v", jump)
	}
}

// A full table gives up pairs that no data has confirmed first, the oldest first, except those from the time when it
// was less than half full, and never one in use.
func TestFullTable(t *testing.T) {
	at := func(n uint32) *connection {
		c := live()
		c.a, c.b, c.commA, c.commB, c.psnA = 0x100+n, 0x200+n, n, n, n<<16
		return c
	}
	m := qpmap.New(qpmap.Config{MaxPairs: 8})
	observe(m, start, at(0).req(), at(0).rep(), at(0).request(0), at(0).ack(0))
	for n := uint32(1); n < 6; n++ {
		observe(m, start, at(n).req(), at(n).rep())
	}
	requirePair(t, m, at(0).forth(), at(0).a, qpmap.BasisCM)
	requireNone(t, m, at(2).forth(), qpmap.ErrUnknown)
	requireNone(t, m, at(3).back(), qpmap.ErrUnknown)
	for _, n := range []uint32{1, 4, 5} {
		requirePair(t, m, at(n).forth(), at(n).a, qpmap.BasisCM)
		observe(m, start, at(n).request(0), at(n).ack(0))
	}
	observe(m, start, at(6).req(), at(6).rep()) // all are in use
	requireNone(t, m, at(6).forth(), qpmap.ErrUnknown)
	require.NotZero(t, m.Stats().Full)
	later := start.Add(3 * time.Second)
	observe(m, later, at(1).request(1), at(1).ack(1), at(4).request(1), at(4).ack(1), at(0).request(1), at(0).ack(1))
	for n := range uint32(4) { // a pair that data has confirmed may take the place of one that is not in use
		observe(m, later, at(7).request(n), at(7).ack(n))
	}
	for _, n := range []uint32{0, 1, 4} {
		requirePair(t, m, at(n).forth(), at(n).a, qpmap.BasisCM)
	}
	requirePair(t, m, at(7).forth(), at(7).a, qpmap.BasisVotes)
	requireNone(t, m, at(5).forth(), qpmap.ErrUnknown)
	require.Equal(t, 8, m.Stats().Pairs)
}

// A connection of which only one direction has room is none.
func TestRoomForOne(t *testing.T) {
	c := live()
	given := rocev2.FlowKey{Src: c.A, Dst: c.B}
	m := qpmap.New(qpmap.Config{MaxPairs: 3})
	for qp := range uint32(2) {
		given.DestQP = 0x99 + qp
		require.NoError(t, m.Add(qpmap.Key{FlowKey: given}, qpmap.Pair{SrcQP: 5}))
	}
	for range 3 {
		observe(m, start, c.req(), c.rep(), c.dreq())
		require.Equal(t, 2, m.Stats().Pairs)
	}
	for n := range uint32(9) {
		observe(m, start, c.request(n), c.ack(n))
	}
	require.Equal(t, 2, m.Stats().Pairs)
	requireNone(t, m, c.forth(), qpmap.ErrAmbiguous) // there are votes, but no room
	requirePair(t, m, given, 5, qpmap.BasisGiven)
}

// Open flows beyond the maximum take the places of the oldest.
func TestManyOpenFlows(t *testing.T) {
	m := qpmap.New(qpmap.Config{MaxOpen: 16})
	r := rand.New(rand.NewPCG(1, 1))
	for range 10000 {
		observe(m, start, packet(randomAddr(r), randomAddr(r), bth.RCSendOnly, 2+r.Uint32N(1<<20), r.Uint32()))
	}
	require.Equal(t, 16, m.Stats().Open)
	c := live()
	for n := range uint32(3) {
		observe(m, start, c.request(n), c.ack(n))
	}
	requirePair(t, m, c.forth(), c.a, qpmap.BasisVotes)
}

// The number of deciding votes is configurable.
func TestConfig(t *testing.T) {
	c := live()
	m := newMap(qpmap.Config{MinVotes: 1})
	observe(m, start, c.request(0), c.ack(0))
	requirePair(t, m, c.forth(), c.a, qpmap.BasisVotes)
	second := *c // with ratio 1 the first of those that tie is taken
	second.b = 0x32
	m = newMap(qpmap.Config{MinVotes: 1, Ratio: 1})
	observe(m, start, c.request(0), second.request(0), c.ack(0), c.ack(0))
	require.Equal(t, 2, m.Stats().Pairs)
	m = newMap(qpmap.Config{MinVotes: 10})
	for n := range uint32(9) {
		observe(m, start, c.request(n), c.ack(n))
	}
	requireNone(t, m, c.forth(), qpmap.ErrUnknown)
	observe(m, start, c.request(9), c.ack(9))
	requirePair(t, m, c.forth(), c.a, qpmap.BasisVotes)
}

func TestOtherPacketsChangeNothing(t *testing.T) {
	c := live()
	m := newMap(qpmap.Config{})
	observe(m, start, packet(c.A, c.B, bth.CNP, c.b, 0), packet(c.A, c.B, 0x1E, c.b, 0),
		packet(c.A, c.B, bth.UDSendOnly, 0, 0),
		packet(c.A, c.B, bth.RCSendOnly, 1, 0), rocev2.Packet{})
	require.Equal(t, qpmap.Stats{}, m.Stats())
}

func TestNoAllocations(t *testing.T) {
	c := live()
	m := established(c, true)
	other := *c
	other.a, other.b, other.commA = 0x77, 0x78, 9
	packets := []rocev2.Packet{c.request(3), c.ack(3), other.request(1), other.ack(1), other.req(), other.rep(),
		other.dreq(), c.rej()}
	wiretest.NoAllocs(t, "Observe", func() { observe(m, start, packets...) })
	unknown := live().forth()
	unknown.DestQP = 5
	require.NoError(t, m.Add(qpmap.Key{FlowKey: c.forth()}, qpmap.Pair{SrcQP: 1}))
	wiretest.NoAllocs(t, "SourceQP", func() { _, _ = m.SourceQP(qpmap.Key{FlowKey: c.forth()}, start) })
	wiretest.NoAllocs(t, "SourceQP, unknown", func() { _, _ = m.SourceQP(qpmap.Key{FlowKey: unknown}, start) })
	wiretest.NoAllocs(t, "Add and Remove", func() {
		m.Add(qpmap.Key{FlowKey: unknown},
			qpmap.Pair{})
		m.Remove(qpmap.Key{FlowKey: unknown})
	})
	wiretest.NoAllocs(t, "All, Learned, Expire, Stats", func() {
		for range m.All() {
		}
		for range m.Learned() {
		}
		m.Expire(start)
		m.Stats()
	})
}

// New allocates the documented amount of memory, and with Grow next to none.
func TestMemory(t *testing.T) {
	size := func(c qpmap.Config) uint64 {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		m := qpmap.New(c)
		runtime.ReadMemStats(&after)
		runtime.KeepAlive(m)
		return after.TotalAlloc - before.TotalAlloc
	}
	is := func(documented, measured float64) { // a little less on 32-bit machines, and the runtime's own few octets
		t.Helper()
		require.LessOrEqual(t, measured, documented*1.0001)
		require.Greater(t, measured, documented*0.9)
	}
	is(43e6, float64(size(qpmap.Config{})))
	few, many := size(qpmap.Config{MaxPairs: 1 << 12}), size(qpmap.Config{MaxPairs: 1 << 16})
	is(630, float64(many-few)/(1<<16-1<<12))
	require.Less(t, size(qpmap.Config{Grow: true, MaxOpen: 2}), uint64(16<<10))
}

// A pair is known immediately after the message that makes it: the first REP to an uncontradicted
// REQ accepts the connection, and any message with the communication ids of the pair ends it.
func TestAcceptedAndEnded(t *testing.T) {
	c := &connection{A: netip.MustParseAddr("10.0.0.1"), B: netip.MustParseAddr("10.0.0.2"), a: 17, b: 18,
		psnA: 100, psnB: 200, commA: 7, commB: 8, mtu: 3}
	forged, stranger := *c, *c
	forged.a, stranger.commB = 66, 9
	accepted := qplearn.Connection{Requester: qplearn.End{CommID: 7, QP: 17, PSN: 200},
		Responder: qplearn.End{CommID: 8, QP: 18, PSN: 100}, PKey: 0xFFFF, MTU: 1024, Transport: bth.TransportRC}
	forth, back := flowtable.KeyOf(c.A, c.B, c.b, 5), flowtable.KeyOf(c.B, c.A, c.a, 5)
	for _, x := range []struct {
		name            string
		packets         []rocev2.Packet
		accepted, ended bool // by the last one
	}{
		{"REQ", []rocev2.Packet{c.req()}, false, false},
		{"REP", []rocev2.Packet{c.req(), c.rep()}, true, false},
		{"REP without REQ", []rocev2.Packet{c.rep()}, false, false},
		{"REP again", []rocev2.Packet{c.req(), c.rep(), c.rep()}, false, false},
		{"REQ and REP again", []rocev2.Packet{c.req(), c.rep(), c.req(), c.rep()}, false, false},
		{"another REQ", []rocev2.Packet{c.req(), forged.req(), c.rep()}, false, false},
		{"RTU", []rocev2.Packet{c.req(), c.rep(), c.rtu()}, false, false},
		{"data", []rocev2.Packet{c.req(), c.rep(), c.request(0)}, false, false},
		{"DREQ", []rocev2.Packet{c.req(), c.rep(), c.dreq()}, false, true},
		{"DREP", []rocev2.Packet{c.req(), c.rep(), c.drep()}, false, true},
		{"REJ", []rocev2.Packet{c.req(), c.rep(), c.rej()}, false, true},
		{"DREQ, and then DREP", []rocev2.Packet{c.req(), c.rep(), c.dreq(), c.drep()}, false, false},
		{"DREQ of another connection", []rocev2.Packet{c.req(), c.rep(), stranger.dreq()}, false, false},
		{"REJ of a REQ", []rocev2.Packet{c.req(), c.rej()}, false, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			m := qpmap.New(qpmap.Config{Grow: true})
			for i := range x.packets {
				m.Observe(&x.packets[i], 5, start)
			}
			got, ok := m.QPs().Accepted()
			require.Equal(t, x.accepted, ok)
			if ok {
				require.Equal(t, accepted, got)
			}
			key, ok := m.QPs().Ended()
			require.Equal(t, x.ended, ok)
			if ok && key != forth {
				require.Equal(t, back, key)
			}
		})
	}
}

// A new Map takes over the pairs of All with their basis and age.
func TestRestore(t *testing.T) {
	byCM, byVotes := live(), live()
	byVotes.a, byVotes.b, byVotes.psnA = 0x777, 0x888, byVotes.psnA+1<<20
	m := established(byCM, true)
	for n := range uint32(5) {
		observe(m, start.Add(time.Minute), byVotes.request(n), byVotes.ack(n))
	}
	given := qpmap.Key{FlowKey: byCM.forth(), Domain: 7}
	require.NoError(t, m.Add(given, qpmap.Pair{SrcQP: 5}))
	saved := maps.Collect(m.All())
	require.Len(t, saved, 5)
	require.Equal(t, qpmap.BasisCM, saved[qpmap.Key{FlowKey: byCM.back()}].From)
	require.Equal(t, qpmap.BasisVotes, saved[qpmap.Key{FlowKey: byVotes.forth()}].From)

	restored := func() *qpmap.Map {
		m := newMap(qpmap.Config{})
		for k, p := range saved {
			require.NoError(t, m.Add(k, p))
		}
		return m
	}
	without := maps.Clone(saved) // the time of a given pair does not matter
	delete(without, given)
	again := restored()
	all := maps.Collect(again.All())
	require.Equal(t, qpmap.BasisGiven, all[given].From)
	delete(all, given)
	require.Equal(t, without, all)

	// They age as before: ten minutes after they were seen last.
	late := start.Add(10*time.Minute + 1)
	_, err := again.SourceQP(qpmap.Key{FlowKey: byCM.forth()}, late)
	require.ErrorIs(t, err, qpmap.ErrUnknown)
	pair := wiretest.Must(again.SourceQP(qpmap.Key{FlowKey: byVotes.forth()}, late))(t)
	require.Equal(t, byVotes.a, pair.SrcQP)
	_, err = again.SourceQP(qpmap.Key{FlowKey: byVotes.forth()}, late.Add(time.Minute))
	require.ErrorIs(t, err, qpmap.ErrUnknown)
	_, err = again.SourceQP(given, late.Add(time.Hour))
	require.NoError(t, err)

	// The communication ids are no longer known: no message can name them, and 0 is no id.
	again = restored()
	observe(again, start, cmPacket(byCM.A, byCM.B, cm.AttributeDREQ, &cm.DREQ{RemoteQPN: byCM.b}))
	requirePair(t, again, byCM.forth(), byCM.a, qpmap.BasisCM)

	// It may be another connection that goes on: an answer tells.
	observe(again, start, byCM.request(3))
	requireNone(t, again, byCM.forth(), qpmap.ErrUnknown)
	observe(again, start, byCM.ack(3))
	requirePair(t, again, byCM.forth(), byCM.a, qpmap.BasisCM)
}

// twins are two Maps; one of them allocates memory as needed. They return the same for any packets.
type twins struct{ fixed, growing *qpmap.Map }

func newTwins(c qpmap.Config) twins {
	c.Seed = rand.Uint64()
	fixed := qpmap.New(c)
	c.Grow = true
	growing := qpmap.New(c)
	return twins{fixed, growing}
}

func (w twins) observe(t testing.TB, p *rocev2.Packet, now time.Time) {
	w.fixed.Observe(p, 0, now)
	w.growing.Observe(p, 0, now)
	want, wantErr := w.fixed.SourceQP(qpmap.Key{FlowKey: flowOf(p)}, now)
	got, err := w.growing.SourceQP(qpmap.Key{FlowKey: flowOf(p)}, now)
	if want != got || wantErr != err || w.fixed.Stats() != w.growing.Stats() {
		t.Fatalf("%v %v: %v, %v, but growing %v, %v", flowOf(p), p.BTH.Header, want, wantErr, got, err)
	}
}

func TestGrow(t *testing.T) {
	for seed := range uint64(wiretest.Rounds(40)) {
		r := rand.New(rand.NewPCG(seed, 13))
		w := newTwins(qpmap.Config{MaxPairs: 512, MaxPending: 256, MaxOpen: 1024, Ports: seed%2 == 0})
		for _, s := range impair(r, generate(r, 60, true, true)) {
			w.observe(t, &s.packet, start.Add(s.at))
		}
		m := map[qpmap.Key]qpmap.Pair{}
		for k, p := range w.fixed.All() {
			m[k] = p
		}
		for k, p := range w.growing.All() {
			require.Equal(t, m[k], p)
			delete(m, k)
		}
		require.Empty(t, m)
	}
}

// The same with tables that are soon full, of any packets.
func FuzzGrow(f *testing.F) {
	f.Fuzz(func(t *testing.T, script []byte) {
		w := newTwins(qpmap.Config{MaxPairs: 40, MaxPending: 12, MaxOpen: 24, Idle: time.Minute, Ports: true})
		play(script, func(p *rocev2.Packet, now time.Time) { w.observe(t, p, now) })
	})
}
