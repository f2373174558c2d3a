package qpmap_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// A second REQ with the communication id of one that waits does not take its
// place: a REP makes no pair of either. A minute later it may.
func TestSecondREQ(t *testing.T) {
	c, second := live(), live()
	second.a = 0x22
	for _, later := range []time.Duration{0, time.Minute, time.Minute + 1} {
		m := qpmap.New(qpmap.Config{})
		observe(m, start, c.req())
		observe(m, start.Add(later), second.req(), c.rep())
		got, err := m.SourceQP(qpmap.Key{FlowKey: c.forth()}, start.Add(later))
		if later > time.Minute {
			require.NoError(t, err)
			require.Equal(t, second.a, got.SrcQP)
		} else {
			require.Error(t, err, "%v", later)
			require.EqualValues(t, 1, m.Stats().Conflicts)
		}
	}
}

// No message of connection management ends a pair that it did not make: one of
// votes or a given one, which have the communication ids 0.
func TestCMEndsOnlyItsOwn(t *testing.T) {
	c := live()
	c.commA, c.commB = 0, 0
	voted, given := qpmap.New(qpmap.Config{}), qpmap.New(qpmap.Config{})
	for n := range uint32(5) {
		observe(voted, start, c.request(n), c.ack(n))
	}
	require.NoError(t, given.Add(qpmap.Key{FlowKey: c.forth()}, qpmap.Pair{SrcQP: c.a}))
	require.NoError(t, given.Add(qpmap.Key{FlowKey: c.back()}, qpmap.Pair{SrcQP: c.b}))
	for _, row := range []struct {
		from qpmap.Basis
		m    *qpmap.Map
	}{{qpmap.BasisVotes, voted}, {qpmap.BasisGiven, given}} {
		t.Run(fmt.Sprint(row.from), func(t *testing.T) {
			observe(row.m, start, c.dreq(), c.turned().dreq(), c.drep(), c.rej(), c.turned().rej())
			requirePair(t, row.m, c.forth(), c.a, row.from)
			requirePair(t, row.m, c.back(), c.b, row.from)
			require.Zero(t, row.m.Stats().Ended)
		})
	}
}

// A DREQ, DREP or REJ with one right communication id of two ends nothing, from
// neither side.
func TestCMEndsWithBothIDs(t *testing.T) {
	c := live()
	for _, ids := range [][2]uint32{{c.commA, 1}, {1, c.commB}, {c.commA, 0}, {0, c.commB}} {
		half := *c
		half.commA, half.commB = ids[0], ids[1]
		for _, p := range []rocev2.Packet{
			half.dreq(), half.turned().dreq(), half.drep(), half.turned().drep(), half.rej(), half.turned().rej(),
		} {
			m := established(c, true)
			observe(m, start, p)
			requirePair(t, m, c.forth(), c.a, qpmap.BasisCM)
			requirePair(t, m, c.back(), c.b, qpmap.BasisCM)
		}
	}
}

// The first PSN of the requester is in the REP, that of the responder in the REQ: requests that
// begin with the other one belong to another connection.
func TestFirstPSNs(t *testing.T) {
	for _, turn := range []bool{false, true} {
		for _, right := range []bool{false, true} {
			c := live()
			m := qpmap.New(qpmap.Config{})
			observe(m, start, c.req(), c.rep())
			if turn {
				c = c.turned()
			}
			p := c.request(0)
			if !right {
				p.BTH.PSN = c.psnB
			}
			observe(m, start, p)
			if right {
				requirePair(t, m, c.forth(), c.a, qpmap.BasisCM)
			} else {
				requireNone(t, m, c.forth(), qpmap.ErrUnknown)
			}
		}
	}
}

// Where others hold the table, requests up to 64 beyond the PSN that CM announced
// belong to the exchange; further ones, and those before it, do not.
func TestBeginsNearby(t *testing.T) {
	for _, x := range []struct {
		from  int32
		known bool
	}{{0, true}, {64, true}, {65, false}, {-1, false}} {
		c := live()
		m := qpmap.New(qpmap.Config{})
		observe(m, start, c.req(), c.rep(), c.request(uint32(x.from)))
		_, err := m.SourceQP(qpmap.Key{FlowKey: c.forth()}, start)
		require.Equal(t, x.known, err == nil, "%d", x.from)
	}
}

// Votes decide from twice as many as those of any other on: not with one less.
func TestRatio(t *testing.T) {
	for _, x := range []struct {
		own   uint32
		known bool
	}{{5, false}, {6, true}} {
		c, second := live(), live()
		second.a = 0x22
		m := qpmap.New(qpmap.Config{MinVotes: 4})
		for n := range uint32(3) { // those of another queue pair
			observe(m, start, c.request(n), second.ack(n))
		}
		for n := range x.own {
			observe(m, start, c.request(3+n), c.ack(3+n))
		}
		got, err := m.SourceQP(qpmap.Key{FlowKey: c.forth()}, start)
		require.Equal(t, x.known, err == nil, "%d: %v", x.own, got)
		if err == nil {
			require.Equal(t, c.a, got.SrcQP)
		}
	}
}

// The votes of a candidate that had to make room count against the others still.
func TestLostCandidates(t *testing.T) {
	c, second := live(), live()
	second.a = 0x22
	m := qpmap.New(qpmap.Config{})
	votes := func(from uint32, of *connection, n uint32) {
		for i := range n {
			observe(m, start, c.request(from+i))
		}
		for i := range n {
			observe(m, start, of.ack(from+i))
		}
	}
	votes(0, second, 2)
	votes(2<<20, c, 3) // ties, as do those of other parts of the PSNs
	votes(3<<20, c, 3)
	votes(4<<20, c, 3)
	votes(5<<20, c, 3) // in the place of the other's
	requireNone(t, m, c.forth(), qpmap.ErrAmbiguous)
	votes(5<<20+3, c, 1)
	requirePair(t, m, c.forth(), c.a, qpmap.BasisVotes)
}

// A given pair of one direction excludes other senders in the other direction, and stays when CM
// and data contradict it.
func TestGivenOtherDirection(t *testing.T) {
	for _, withCM := range []bool{false, true} {
		c := live()
		m := qpmap.New(qpmap.Config{})
		require.NoError(t, m.Add(qpmap.Key{FlowKey: c.back()}, qpmap.Pair{SrcQP: 0x99}))
		if withCM {
			observe(m, start, c.req(), c.rep())
		}
		for n := range uint32(10) {
			observe(m, start, c.request(n), c.ack(n))
			requirePair(t, m, c.back(), 0x99, qpmap.BasisGiven)
			if !withCM {
				requireNone(t, m, c.forth(), qpmap.ErrUnknown)
			}
		}
	}
}

// A response to no request of the peer gives no information.
func TestAnswersToNothing(t *testing.T) {
	c := live()
	m := established(c, true)
	for n := range uint32(10) {
		observe(m, start, c.ack(0x400000+n))
		_, err := m.SourceQP(qpmap.Key{FlowKey: c.back()}, start)
		require.Error(t, err) // the sender of that flow's last packet is not known
	}
	requirePair(t, m, c.forth(), c.a, qpmap.BasisCM)
	observe(m, start, c.request(3), c.ack(3))
	requirePair(t, m, c.back(), c.b, qpmap.BasisCM)
}

// A crowded PSN stays crowded: if more flows used it than can be distinguished, none gets a vote,
// in any order of flows.
func TestCrowdedStaysCrowded(t *testing.T) {
	m := qpmap.New(qpmap.Config{MinVotes: 1})
	c := live()
	for range 3 {
		for qp := range uint32(5) {
			other := *c
			other.b = 0x100 + qp
			observe(m, start, other.request(0))
			observe(m, start, other.request(0)) // and again
		}
	}
	observe(m, start, c.ack(0))
	require.Zero(t, m.Stats().Pairs)
	require.Empty(t, slices.Collect(m.QPs().Asked()))
}

// Ages are modulo 2^32, about 50 days: neither the correctness nor the number of known pairs
// depends on the age of a Map.
func TestLongUptime(t *testing.T) {
	for _, days := range []int{24, 25, 26, 49, 50, 75} {
		c, old := live(), live()
		old.b = 0x32
		m := qpmap.New(qpmap.Config{Idle: 365 * 24 * time.Hour})
		observe(m, start, old.request(0))
		at := start.Add(time.Duration(days) * 24 * time.Hour)
		observe(m, at, c.req(), c.rep())
		for n := range uint32(20) {
			at = at.Add(10 * time.Millisecond)
			observe(m, at, c.request(n), c.ack(n))
			got := wiretest.Must(m.SourceQP(qpmap.Key{FlowKey: c.forth()}, at))(t)
			require.Equal(t, c.a, got.SrcQP)
		}
		// Another exchange announces the first PSN of the life: the sender of these requests is now
		// unknown. An answer to earlier requests gives no information.
		rival := *c
		rival.a, rival.commA, rival.commB, rival.psnB = 0x66, 6, 66, 0x777777
		sent := c.request(20)
		observe(m, at, sent)
		at = at.Add(20 * time.Millisecond)
		observe(m, at, rival.req(), rival.rep(), rival.request(0))
		at = at.Add(20 * time.Millisecond)
		_, before := m.SourceQPOf(qpmap.Key{FlowKey: c.forth()}, &bth.Header{Opcode: bth.RCSendOnly, PSN: c.psnA + 20},
			at)
		observe(m, at, c.ack(20))
		_, after := m.SourceQPOf(qpmap.Key{FlowKey: c.forth()}, &bth.Header{Opcode: bth.RCSendOnly, PSN: c.psnA + 20},
			at)
		require.ErrorIs(t, before, qpmap.ErrAmbiguous, "%d days", days)
		require.ErrorIs(t, after, qpmap.ErrAmbiguous, "%d days", days)
		at = at.Add(20 * time.Millisecond)
		observe(m, at, c.request(21), c.ack(21)) // one to a later request does
		_, err := m.SourceQP(qpmap.Key{FlowKey: c.forth()}, at)
		require.NoError(t, err, "%d days", days)
	}
}
