package qpmap_test

import (
	"testing"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cm"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// These tests check the rules of docs/decisions.md and of the comments at their limits. The numbers
// are worked out by hand from the rules.

// requireSource requires that a flow is known to have this source, or with 0 that it is not.
func requireSource(t testing.TB, m *qpmap.Map, k rocev2.FlowKey, at time.Time, srcQP uint32, what ...any) {
	t.Helper()
	got, err := m.SourceQP(qpmap.Key{FlowKey: k}, at)
	require.Equal(t, srcQP != 0, err == nil, what...)
	require.Equal(t, srcQP, got.SrcQP, what...)
}

// unasking is a request that does not ask for an answer.
func (c *connection) unasking(op bth.Opcode, n uint32) rocev2.Packet {
	p := packet(c.A, c.B, op, c.b, c.psnA+n)
	p.BTH.AckReq = false
	return p
}

// read is a READ of so many octets.
func (c *connection) read(n, octets uint32) rocev2.Packet {
	p := packet(c.A, c.B, bth.RCRDMAReadRequest, c.b, c.psnA+n)
	p.BTH.RETH.DMALength = octets
	return p
}

// flooded is live, with so many exchanges that contradict it, none of them answered.
// They are about its sender's queue pair and some other receiver.
func flooded(c *connection, m *qpmap.Map, exchanges int, at time.Time) {
	for i := range uint32(exchanges) {
		forged := *c
		forged.b, forged.commA, forged.commB = 0x1000+i, 0x100+i, 0x200+i
		forged.psnA, forged.psnB = 0x600000+i<<12, 0x700000+i<<12
		observe(m, at, forged.req(), forged.rep())
	}
}

// next is a connection of the same sender's queue pair with another receiver.
func (c *connection) next() *connection {
	n := *c
	n.b, n.psnA, n.psnB, n.commA, n.commB = 0x99, 0x200000, 0x300000, 0xAAAA0009, 0xBBBB0009
	return &n
}

// With fifteen exchanges that contradict a pair in use an announced connection counts
// from its first request on; from the sixteenth on four in a row are needed against one
// that has had answers, of which every other one may be missing, and against one that
// has had none more than that has had.
func TestFloodOfExchanges(t *testing.T) {
	row := func(n, step uint32) (all []uint32) {
		for i := range n {
			all = append(all, i*step)
		}
		return all
	}
	for _, x := range []struct {
		what      string
		exchanges int // the last of them is the true one
		had       uint32
		answered  bool
		requests  []uint32
		from      int // the number of requests with which the connection is known; 0: it is not
	}{
		{"fifteen", 15, 3, true, row(3, 1), 1},
		{"sixteen", 16, 3, true, row(6, 1), 4},
		{"many", 40, 3, true, row(6, 1), 4},
		{"sixteen, every other one", 16, 3, true, row(6, 2), 4},
		{"sixteen, two missing", 16, 3, true, row(10, 3), 0},
		{"sixteen, one and then two missing", 16, 3, true, []uint32{0, 2, 5, 7, 8, 9, 10}, 0},
		{"sixteen, the first one missing", 16, 3, true, []uint32{1, 2, 3, 4, 5, 6}, 0},
		{"fifteen, the first one missing", 15, 3, true, []uint32{1, 2, 3}, 1},
		{"one, 64 missing", 1, 3, true, []uint32{64}, 1},
		{"one, 65 missing", 1, 3, true, []uint32{65}, 0},
		{"fifteen, no answers", 15, 3, false, row(3, 1), 1},
		{"sixteen, no answers to 3", 16, 3, false, row(6, 1), 4},
		{"sixteen, no answers to 2", 16, 2, false, row(6, 1), 3},
		{"sixteen, no answers to 6", 16, 6, false, row(9, 1), 7},
		{"sixteen, no answers to 9, every other one", 16, 6, false, row(9, 2), 7},
	} {
		t.Run(x.what, func(t *testing.T) {
			for _, turned := range []bool{false, true} {
				c := live()
				m := newMap(qpmap.Config{})
				observe(m, start, c.req(), c.rep())
				in := c
				if turned { // requests of the peer alone
					in = c.turned()
				}
				for n := range x.had {
					observe(m, start, in.request(n))
					if x.answered {
						observe(m, start, in.ack(n))
					}
				}
				flooded(c, m, x.exchanges-1, start)
				next := c.next()
				observe(m, start, next.req(), next.rep())
				require.EqualValues(t, x.exchanges, m.Stats().Conflicts)
				for i, n := range x.requests {
					observe(m, start, next.request(n))
					known := uint32(0)
					if x.from != 0 && i+1 >= x.from {
						known = next.a
					}
					requireSource(t, m, next.forth(), start, known, "%s, turned %v, request %d", x.what, turned, i)
				}
				requireSource(t, m, c.forth(), start, c.a, "until the new connection of its queue pair is answered")
				if n := len(x.requests); x.from != 0 {
					observe(m, start, next.ack(x.requests[n-1]))
					requireSource(t, m, c.forth(), start, 0, "%s, turned %v", x.what, turned)
				}
			}
		})
	}
}

// After an answer the count of exchanges begins again.
func TestFloodEnds(t *testing.T) {
	for _, answered := range []bool{false, true} {
		c := live()
		m := established(c, true)
		flooded(c, m, 15, start)
		next := c.next()
		observe(m, start, next.req(), next.rep())
		for n := range uint32(4) {
			observe(m, start, next.request(n))
		}
		requireSource(t, m, next.forth(), start, next.a)
		if answered {
			observe(m, start, next.ack(3))
		}
		third := *next
		third.b, third.psnA, third.commA, third.commB = 0x9A, 0x500000, 0xAAAA000A, 0xBBBB000A
		observe(m, start, third.req(), third.rep(), third.request(0))
		known := uint32(0)
		if answered {
			known = third.a
		}
		requireSource(t, m, third.forth(), start, known, "%v", answered)
	}
}

// In a flood a pair that is given is not replaced, however many requests there are.
func TestFloodAndGiven(t *testing.T) {
	for _, x := range []struct {
		exchanges int
		from      uint32 // the request with which the connection is known
	}{{15, 0}, {16, 100}} {
		c := live()
		m := newMap(qpmap.Config{})
		require.NoError(t, m.Add(qpmap.Key{FlowKey: c.back()}, qpmap.Pair{SrcQP: 0x77}))
		flooded(c, m, x.exchanges-1, start)
		next := c.next()
		observe(m, start, next.req(), next.rep())
		for n := range uint32(10) {
			observe(m, start, next.request(n))
			known := uint32(0)
			if n >= x.from {
				known = next.a
			}
			requireSource(t, m, next.forth(), start, known, "%d exchanges, request %d", x.exchanges, n)
			requirePair(t, m, c.back(), 0x77, qpmap.BasisGiven)
		}
	}
}

// An exchange that agrees with a given pair makes the pair of the other direction; one that
// contradicts it does not.
func TestExchangeAndGiven(t *testing.T) {
	for _, srcQP := range []uint32{live().a, 0x77} {
		c := live()
		m := newMap(qpmap.Config{})
		require.NoError(t, m.Add(qpmap.Key{FlowKey: c.forth()}, qpmap.Pair{SrcQP: srcQP}))
		observe(m, start, c.req(), c.rep())
		known, conflicts := c.b, 0
		if srcQP != c.a {
			known, conflicts = 0, 1
		}
		requireSource(t, m, c.back(), start, known)
		requirePair(t, m, c.forth(), srcQP, qpmap.BasisGiven)
		require.EqualValues(t, conflicts, m.Stats().Conflicts)
	}
}

// A given pair stays where it is when another connection takes the place of that of its other direction.
func TestReplacedBesideGiven(t *testing.T) {
	c := live()
	m := newMap(qpmap.Config{})
	require.NoError(t, m.Add(qpmap.Key{FlowKey: c.back()}, qpmap.Pair{SrcQP: c.b}))
	observe(m, start, c.req(), c.rep(), c.request(0), c.request(1))
	requireSource(t, m, c.forth(), start, c.a)

	next := *c
	next.a, next.psnA, next.psnB, next.commA, next.commB = 0x52, 0x600000, 0x700000, 1, 2
	at := start.Add(2 * time.Second) // the first connection is silent
	observe(m, at, next.req(), next.rep())
	for n := range uint32(20) {
		observe(m, at, next.request(n))
	}
	requireSource(t, m, next.forth(), at, next.a)
	requirePair(t, m, c.back(), c.b, qpmap.BasisGiven)
}

// An exchange that names another source for a flow, with a first PSN near that of its
// connection, makes those requests ambiguous that could be either's: up to 64 beyond
// that PSN. Requests that go past it in order are the connection's own.
func TestRivals(t *testing.T) {
	const known, ambiguous = true, false
	type step struct {
		n     int
		known bool
	}
	for _, x := range []struct {
		first int // of the rival's requests
		steps []step
	}{
		{0, []step{{3, ambiguous}}},
		{0, []step{{64, ambiguous}}},
		{0, []step{{65, known}}},
		{3, []step{{3, ambiguous}}}, // the connection's next
		{3, []step{{4, ambiguous}}},
		{3, []step{{2, known}, {3, ambiguous}}},
		{4, []step{{3, known}, {4, known}, {5, known}, {6, known}}},
		{4, []step{{3, known}, {4, known}, {4, ambiguous}}}, // again
		{4, []step{{4, ambiguous}}},                         // not in order
		{4, []step{{5, known}}},
		{-64, []step{{0, ambiguous}}},
		{-64, []step{{1, known}}},
		{-65, []step{{0, known}}},
		{64, []step{{64, ambiguous}}},
		{65, []step{{65, known}}},
	} {
		for _, side := range []bool{false, true} {
			c := live()
			m := established(c, true)
			rival := *c
			rival.psnA, rival.psnB, rival.commA, rival.commB = c.psnA+uint32(x.first), 0x700000, 6, 66
			rival.a = 0x66
			if side { // the peer began the exchange
				rival = *rival.turned()
			}
			observe(m, start, rival.req(), rival.rep())
			for _, s := range x.steps {
				observe(m, start, c.request(uint32(s.n)))
				_, err := m.SourceQP(qpmap.Key{FlowKey: c.forth()}, start)
				if s.known {
					require.NoError(t, err, "%v", x)
				} else {
					require.ErrorIs(t, err, qpmap.ErrAmbiguous, "%v", x)
				}
			}
		}
	}
}

// Where the connection has had no requests yet, all that follow could be the rival's.
func TestRivalOfNoRequests(t *testing.T) {
	c := live()
	m := established(c, true)
	rival := *c
	rival.b, rival.psnA, rival.psnB, rival.commA, rival.commB = 0x67, 0x700000, c.psnB+2, 7, 77
	observe(m, start, rival.req(), rival.rep(), c.turned().request(3))
	requireNone(t, m, c.back(), qpmap.ErrAmbiguous)
}

// An exchange names another sender for a flow, and for the other direction a first PSN of the
// connection: an answer gives no information if another flow has used its PSN, too.
func TestSharedFirstPSN(t *testing.T) {
	for _, x := range []struct {
		psn   uint32 // distance of the rival's first PSN from the connection's
		same  bool   // the exchange names the same sender
		known bool
	}{{0, false, false}, {64, false, false}, {65, false, true}, {0x100000, false, true}, {0, true, true}} {
		for _, turned := range []bool{false, true} {
			c := live()
			m := established(c, true)
			rival := *c
			rival.a, rival.commA, rival.commB, rival.psnA, rival.psnB = 0x66, 6, 66, 0x600000, c.psnB+x.psn
			if x.same {
				rival.a = c.a
			}
			if turned {
				rival = *rival.turned()
			}
			observe(m, start, rival.req(), rival.rep())
			ask := *c.turned()
			third := ask // a flow of the same hosts that uses the same PSN
			third.b = 0x67
			observe(m, start, ask.request(0), third.request(0), ask.ack(0))
			known := c.a
			if !x.known {
				known = 0
			}
			requireSource(t, m, c.forth(), start, known, "%v %v", x, turned)
		}
	}
}

// Two exchanges that announce the same first PSN of a flow for different sources, at
// most a minute apart: neither is believed. Later the second is.
func TestSamePSNAnnounced(t *testing.T) {
	for _, x := range []struct {
		later time.Duration
		a     uint32 // source that the second one names
		known uint32
	}{{time.Minute, 0x53, 0}, {time.Minute + 1, 0x53, 0x53}, {time.Second, 0x52, 0x52}} {
		c := live()
		m := established(c, false)
		first := *c
		first.a, first.psnA, first.psnB, first.commA, first.commB = 0x52, 0x600000, 0x700000, 1, 2
		second := first
		second.a, second.commA, second.commB = x.a, 3, 4
		at := start.Add(2 * time.Second)
		observe(m, at, first.req(), first.rep())
		at = at.Add(x.later)
		observe(m, at, second.req(), second.rep(), second.request(0))
		requireSource(t, m, c.forth(), at, x.known, "%v", x)
	}
}

// A host begins each connection with the same PSN, and no DREQ was captured. The requests of the first connection have
// used its announcement, so that the exchange of the next one does not contradict that: the first request of the next
// one shows its sender.
func TestSamePSNAnnouncedAfterUse(t *testing.T) {
	c := live()
	c.transport = cm.TransportTypeUC // without answers, which would show the sender as well
	m := newMap(qpmap.Config{})
	observe(m, start, c.req(), c.rep())
	for n := range uint32(5000) {
		observe(m, start, c.request(n))
	}
	next := *c
	next.a, next.psnB, next.commA, next.commB = 0x52, 0x700000, 1, 2
	at := start.Add(2 * time.Second)
	observe(m, at, next.req(), next.rep(), next.request(0))
	requireSource(t, m, c.forth(), at, next.a)
}

// An announcement holds for Idle.
func TestAnnouncementAges(t *testing.T) {
	for _, x := range []struct {
		after time.Duration
		known uint32
	}{{time.Minute, 0x52}, {time.Minute + 1, 0}} {
		c := live()
		m := newMap(qpmap.Config{Idle: time.Minute})
		observe(m, start, c.req(), c.rep(), c.request(0))
		next := *c
		next.a, next.psnA, next.psnB, next.commA, next.commB = 0x52, 0x600000, 0x700000, 1, 2
		at := start.Add(50 * time.Second)
		observe(m, at, next.req(), next.rep())
		at = at.Add(x.after)
		observe(m, at, next.request(0))
		requireSource(t, m, c.forth(), at, x.known, "%v", x)
	}
}

// A REP a minute after its REQ is its answer, not later.
func TestREPInTime(t *testing.T) {
	for _, x := range []struct {
		after     time.Duration
		known     uint32
		unmatched uint64
	}{{time.Minute, live().a, 0}, {time.Minute + 1, 0, 1}} {
		c := live()
		m := newMap(qpmap.Config{})
		observe(m, start, c.req())
		observe(m, start.Add(x.after), c.rep())
		requireSource(t, m, c.forth(), start.Add(x.after), x.known)
		require.Equal(t, x.unmatched, m.Stats().Unmatched)
	}
}

// Of two REPs that differ neither is believed, by its requests either.
func TestTwoREPsAndData(t *testing.T) {
	c := live()
	other := *c
	other.b, other.commB = 0x32, 0xBBBB0002
	m := newMap(qpmap.Config{})
	observe(m, start, c.req(), c.rep(), other.rep(), c.request(0), c.turned().request(0))
	requireNone(t, m, c.forth(), qpmap.ErrUnknown)
	requireNone(t, m, c.back(), qpmap.ErrUnknown)
	require.Equal(t, qpmap.Stats{Open: 2, Pending: 1, CM: 2, Ended: 2, Conflicts: 1}, m.Stats())
	low := *c
	low.b = 1
	m = newMap(qpmap.Config{})
	observe(m, start, low.req(), low.rep())
	require.Equal(t, qpmap.Stats{Pending: 1}, m.Stats())
}

// The counters count one each.
func TestStats(t *testing.T) {
	c := live()
	m := established(c, true)
	forged := *c
	forged.a, forged.commA, forged.commB, forged.psnA, forged.psnB = 0x66, 6, 66, 0x666666, 0x777777
	nobody := *c
	nobody.b = 0x55
	observe(m, start, forged.rej(), forged.dreq(), nobody.dreq(), forged.rep())
	require.Equal(t, qpmap.Stats{Pairs: 2, Pending: 1, CM: 2, Unmatched: 4}, m.Stats())
	observe(m, start, forged.req(), forged.rep())
	require.EqualValues(t, 1, m.Stats().Conflicts)
	p := packet(c.A, c.B, bth.UDSendOnly, c.b, 7)
	p.BTH.DETH.SrcQP = 0x55
	later := start.Add(2 * time.Second)
	observe(m, later, p)
	require.EqualValues(t, 1, m.Stats().UD)
	require.Zero(t, m.Stats().NewLifetimes)
	for n := range uint32(3) {
		observe(m, later, forged.request(n), forged.ack(n))
	}
	require.EqualValues(t, 1, m.Stats().NewLifetimes)
}
