package qpmap_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/qplearn"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// A second REQ with the communication id of one that waits does not take its
// place: a REP makes no pair of either. A minute later it may.
func TestSecondREQ(t *testing.T) {
	c, second := live(), live()
	second.a = 0x22
	for _, later := range []time.Duration{0, time.Minute, time.Minute + 1} {
		m := newMap(qpmap.Config{})
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
	voted, given := newMap(qpmap.Config{}), newMap(qpmap.Config{})
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
			m := newMap(qpmap.Config{})
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
		m := newMap(qpmap.Config{})
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
		m := newMap(qpmap.Config{MinVotes: 4})
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
	m := newMap(qpmap.Config{})
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
		m := newMap(qpmap.Config{})
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
	m := newMap(qpmap.Config{MinVotes: 1})
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
		m := newMap(qpmap.Config{Idle: 365 * 24 * time.Hour})
		observe(m, start, old.request(0))
		at := start.Add(time.Duration(days) * 24 * time.Hour)
		observe(m, at, c.req(), c.rep())
		for n := range uint32(20) {
			at = at.Add(10 * time.Millisecond)
			observe(m, at, c.request(n), c.ack(n))
			got := wiretest.Must(m.SourceQP(qpmap.Key{FlowKey: c.forth()}, at))(t)
			require.Equal(t, c.a, got.SrcQP)
		}
		// Another exchange announces the first PSN of the lifetime: the sender of these requests is now
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

// Time that goes back by a second stands still until it has caught up. Where it goes back
// further it goes on from there.
func TestTimeGoesBack(t *testing.T) {
	for _, x := range []struct {
		by      time.Duration
		expired bool // more than ten minutes after the time that it went back to
	}{{time.Second, false}, {time.Second + 1, true}} {
		c := live()
		m := established(c, true)
		back := start.Add(-x.by)
		observe(m, back, c.request(3))
		known := c.a
		if x.expired {
			known = 0
		}
		requireSource(t, m, c.forth(), back.Add(10*time.Minute+1), known, x)
	}
}

// The permitted delay of an answer follows the shortest time between packets, which grows by a
// quarter of itself, and a nanosecond, with each packet: after sixteen times 1 ms it is over 1.1 s
// with the 19th packet, after 1 ns with the 76th.
func TestSlowAnswers(t *testing.T) {
	for _, x := range []struct {
		apart time.Duration
		third int // answer that is in time
	}{{time.Millisecond, 20/2 + 2}, {1, 76/2 + 2}} {
		c := live()
		m := newMap(qpmap.Config{})
		observe(m, start, packet(c.B, c.A, bth.UDSendOnly, 9, 0))
		at := start.Add(x.apart)
		observe(m, at, packet(c.B, c.A, bth.UDSendOnly, 9, 0))
		for n := range x.third {
			requireSource(t, m, c.forth(), at, 0, "%v, %d", x, n)
			at = at.Add(1900 * time.Millisecond)
			observe(m, at, c.request(uint32(n)))
			at = at.Add(1100 * time.Millisecond)
			observe(m, at, c.ack(uint32(n)))
		}
		requireSource(t, m, c.forth(), at, c.a, "%v", x)
	}
}

// A pair of another Map is as old as it says. One that is younger than all that was seen
// here makes the others as old as they are then.
func TestAgeOfAddedPairs(t *testing.T) {
	c, other := live(), live()
	other.b = 0x44
	m := established(c, true)
	at := start.Add(10*time.Minute - 30*time.Second)
	require.NoError(t, m.Add(qpmap.Key{FlowKey: other.forth()},
		qpmap.Pair{SrcQP: other.a, From: qpmap.BasisCM, Seen: start.Add(-30 * time.Second)}))
	requireSource(t, m, other.forth(), at, other.a)
	requireSource(t, m, other.forth(), at.Add(1), 0)
	requireSource(t, m, c.forth(), at.Add(1), c.a)

	m = established(c, true)
	require.NoError(t, m.Add(qpmap.Key{FlowKey: other.forth()},
		qpmap.Pair{SrcQP: other.a, From: qpmap.BasisCM, Seen: start.Add(10*time.Minute + 1)}))
	requireSource(t, m, c.forth(), start.Add(10*time.Minute), 0)
	requireSource(t, m, other.forth(), start.Add(10*time.Minute), other.a)
}

// Adding an older pair does not turn the time back: if the clock of the packets jumps back afterwards, the age of the
// others still counts from the latest time.
func TestOlderPairKeepsTime(t *testing.T) {
	c, other := live(), live()
	other.b = 0x44
	m := established(c, true)
	require.NoError(t, m.Add(qpmap.Key{FlowKey: other.forth()},
		qpmap.Pair{SrcQP: other.a, From: qpmap.BasisCM, Seen: start.Add(-5 * time.Minute)}))
	jumped := start.Add(-4 * time.Minute)
	requireSource(t, m, c.forth(), jumped, c.a)
	requireSource(t, m, c.forth(), jumped.Add(10*time.Minute), c.a)
	requireSource(t, m, c.forth(), jumped.Add(10*time.Minute+1), 0)
}

// A pair without a known other direction shows no connection.
func TestConnectsNeedsBothDirections(t *testing.T) {
	m := newMap(qpmap.Config{})
	forth := rocev2.FlowKey{Src: live().A, Dst: live().B, DestQP: 0x22}
	back := rocev2.FlowKey{Src: live().B, Dst: live().A, DestQP: 0x11}
	given := func(k rocev2.FlowKey, srcQP uint32) {
		require.NoError(t, m.Add(qpmap.Key{FlowKey: k}, qpmap.Pair{SrcQP: srcQP}))
	}
	connects := func(want bool) {
		t.Helper()
		for _, k := range []rocev2.FlowKey{forth, back} {
			require.Equal(t, want, m.Connects(qpmap.Key{FlowKey: k}, start) == nil, "%v", k)
		}
	}
	connects(false)
	given(forth, 0x11)
	connects(false)
	given(back, 0x33)
	connects(false)
	given(back, 0x22)
	connects(true)
	require.True(t, m.Remove(qpmap.Key{FlowKey: forth}))
	connects(false)
}

// Several possible connections are ambiguous: two with the same votes, and one that another one contests.
func TestConnectsAmbiguously(t *testing.T) {
	c, other := live(), live()
	other.a, other.b = 0x55, 0x66
	m := newMap(qpmap.Config{})
	k := qpmap.Key{FlowKey: c.forth()}
	require.ErrorIs(t, m.Connects(k, start), qpmap.ErrUnknown)
	for n := range uint32(9) {
		observe(m, start, c.request(n), other.request(n), c.ack(n), other.ack(n)) // the same PSNs
	}
	requireNone(t, m, c.forth(), qpmap.ErrAmbiguous)
	require.ErrorIs(t, m.Connects(k, start), qpmap.ErrAmbiguous)

	m = established(c, true)
	require.NoError(t, m.Connects(k, start))
	rival := *c
	rival.a = 0x66
	for n := uint32(3); n < 5; n++ {
		observe(m, start, c.request(n), rival.ack(n))
	}
	requireNone(t, m, c.forth(), qpmap.ErrAmbiguous)
	require.ErrorIs(t, m.Connects(k, start), qpmap.ErrAmbiguous)
}

// Two sources of datagrams are ambiguous for Idle after the second one came. Moments are
// of 2^20 ns.
func TestTwoSourcesOfDatagrams(t *testing.T) {
	const moment = time.Duration(1 << 20)
	c := live()
	m := newMap(qpmap.Config{Idle: 100 * moment})
	send := func(at time.Time, srcQP uint32) {
		p := packet(c.A, c.B, bth.UDSendOnly, c.b, 7)
		p.BTH.DETH.SrcQP = srcQP
		observe(m, at, p)
	}
	send(start, 0x21)
	send(start, 0x22)
	send(start.Add(50*moment), 0x22)
	_, err := m.SourceQP(qpmap.Key{FlowKey: c.forth()}, start.Add(100*moment))
	require.ErrorIs(t, err, qpmap.ErrAmbiguous)
	requireSource(t, m, c.forth(), start.Add(101*moment), 0x22)

	// Nor are they in 52 days, when moments begin again.
	const days = 24 * time.Hour
	m = newMap(qpmap.Config{Idle: 20 * days})
	send(start, 0x21)
	for day := time.Duration(0); day <= 50; day += 10 {
		send(start.Add(day*days), 0x22)
	}
	requireSource(t, m, c.forth(), start.Add(1<<32*moment), 0x22)

	// Idle may be longer than that.
	m = newMap(qpmap.Config{Idle: 60 * days})
	send(start, 0x21)
	send(start, 0x22)
	send(start.Add(10*days), 0x22)
	_, err = m.SourceQP(qpmap.Key{FlowKey: c.forth()}, start.Add(10*days))
	require.ErrorIs(t, err, qpmap.ErrAmbiguous)
}

// The sender of an earlier packet: an answer is from a pair if it is to requests of the other
// direction. A given pair explains every packet, and a pair from a datagram every datagram.
func TestSourceQPOfAnswers(t *testing.T) {
	c := live()
	of := func(m *qpmap.Map, turned bool, op bth.Opcode, psn uint32) uint32 {
		k := c.forth()
		if turned {
			k = c.back()
		}
		got, _ := m.SourceQPOf(qpmap.Key{FlowKey: k}, &bth.Header{Opcode: op, PSN: psn}, start)
		return got.SrcQP
	}
	m := established(c, true)
	require.Equal(t, c.b, of(m, true, bth.RCAcknowledge, c.psnA+2))
	require.Zero(t, of(m, true, bth.RCAcknowledge, c.psnA+3))
	require.Zero(t, of(m, true, bth.RCAcknowledge, c.psnB))
	require.Equal(t, c.a, of(m, false, bth.RCSendOnly, c.psnA+2))
	require.Zero(t, of(m, false, bth.RCSendOnly, c.psnA+1<<20))
	require.True(t, m.Remove(qpmap.Key{FlowKey: c.forth()}))
	require.Zero(t, of(m, true, bth.RCAcknowledge, c.psnA+2)) // no requests are known any more

	m = newMap(qpmap.Config{})
	require.NoError(t, m.Add(qpmap.Key{FlowKey: c.forth()}, qpmap.Pair{SrcQP: c.a}))
	p := packet(c.B, c.A, bth.UDSendOnly, c.a, 7)
	p.BTH.DETH.SrcQP = c.b
	observe(m, start, p)
	for _, op := range []bth.Opcode{bth.RCSendOnly, bth.RCAcknowledge, bth.UDSendOnly} {
		require.Equal(t, c.a, of(m, false, op, 0x555555))
	}
	require.Equal(t, c.b, of(m, true, bth.UDSendOnly, 0x555555))
	require.Zero(t, of(m, true, bth.RCSendOnly, 0x555555))
	require.Zero(t, of(m, true, bth.RCAcknowledge, 0x555555))
}

// While a flow has requests that follow one another, an exchange is not believed if they have
// passed its first PSN by more than 2,048, or have not reached it.
func TestFlowUnderWay(t *testing.T) {
	for _, x := range []struct {
		requests []int
		first    int // PSN of the exchange
		believed bool
	}{
		{[]int{0}, 10000, true}, // one alone does not follow
		{[]int{0, 1}, 2, true},
		{[]int{0, 1}, 3, false},
		{[]int{0, 1}, 2 - 2048, true},
		{[]int{0, 1}, 2 - 2049, false},
		{[]int{0, 1 + 2048}, 10000, false}, // these follow
		{[]int{0, 1 + 2049}, 10000, true},  // these do not
		{[]int{0, 1 - 2048}, 10000, false},
		{[]int{0, 1 - 2049}, 10000, true},
		{[]int{0, 1, 1 << 20}, 10000, true},
		{[]int{0, 1, 2, 1 << 20}, 10000, false}, // a single one elsewhere ends nothing
	} {
		c := live()
		m := newMap(qpmap.Config{})
		for _, n := range x.requests {
			observe(m, start, c.request(uint32(n)))
		}
		c.psnA += uint32(x.first)
		observe(m, start, c.req(), c.rep())
		known := c.b
		if !x.believed {
			known = 0
		}
		requireSource(t, m, c.back(), start, known, "%v", x)
	}
}

// Answers make a pair if they are to adjacent requests. A READ is adjacent to the request with the
// PSN after its last one, and to the one with the PSN before it.
func TestNextToEachOther(t *testing.T) {
	for _, x := range []struct {
		first, octets, second uint32
		known                 bool
	}{
		{0, 16384, 4, true}, {0, 16384, 5, false}, {0, 16384, 3, false}, {0, 16384, 6, false}, {0, 16385, 5, true},
		{10, 16384, 9, true}, {10, 16384, 8, false}, {0, 1, 1, true}, {0, 1, 2, false},
	} {
		c := live()
		m := newMap(qpmap.Config{MinVotes: 2})
		observe(m, start, c.read(x.first, x.octets), c.request(1<<20), c.request(x.second))
		observe(m, start, c.ack(x.first), c.ack(x.second))
		known := uint32(0)
		if x.known {
			known = c.a
		}
		requireSource(t, m, c.forth(), start, known, "%v", x)
	}
}

// Pairs from votes have the path MTU that requests showed before.
func TestMTUBeforeThePair(t *testing.T) {
	c := live()
	m := newMap(qpmap.Config{})
	for n := range uint32(3) {
		p, a := c.request(n), c.ack(n)
		var o qplearn.Observation
		o.Set(&p, 0)
		if n == 0 {
			o.Opcode, o.Payload = bth.RCSendFirst, 2048
		}
		m.QPs().Learn(&o, start)
		observe(m, start, a)
	}
	got := wiretest.Must(m.SourceQP(qpmap.Key{FlowKey: c.forth()}, start))(t)
	require.EqualValues(t, 2048, got.MTU)
}

// A request alone confirms a pair as well: of a full table those go that none has confirmed.
func TestRequestKeepsPair(t *testing.T) {
	at := func(n uint32) *connection {
		c := live()
		c.a, c.b, c.commA, c.commB = 0x100+n, 0x200+n, n, n
		return c
	}
	m := qpmap.New(qpmap.Config{MaxPairs: 4})
	observe(m, start, at(0).req(), at(0).rep(), at(0).request(0))
	for n := uint32(1); n < 3; n++ {
		observe(m, start, at(n).req(), at(n).rep())
	}
	requirePair(t, m, at(0).forth(), at(0).a, qpmap.BasisCM)
	requirePair(t, m, at(0).back(), at(0).b, qpmap.BasisCM)
	requireNone(t, m, at(1).forth(), qpmap.ErrUnknown)
	requirePair(t, m, at(2).forth(), at(2).a, qpmap.BasisCM)
	require.EqualValues(t, 2, m.Stats().Evicted)
}

// A connection that has said nothing for more than a second makes room in a full table.
func TestSilentFlowsAreEvicted(t *testing.T) {
	for _, after := range []time.Duration{time.Second, time.Second + 1} {
		c, other := live(), live()
		other.a, other.b, other.psnA = 0x44, 0x45, 0x600000
		m := qpmap.New(qpmap.Config{MaxPairs: 2})
		at := start
		for range 100 { // long after the Map began
			at = at.Add(time.Second)
			observe(m, at, packet(c.B, c.A, bth.CNP, c.a, 0))
		}
		for n := range uint32(3) {
			observe(m, at, c.request(n), c.ack(n))
		}
		at = at.Add(after)
		for n := range uint32(3) {
			observe(m, at, other.request(n), other.ack(n))
		}
		_, err := m.SourceQP(qpmap.Key{FlowKey: other.forth()}, at)
		s := m.Stats()
		if after > time.Second {
			require.NoError(t, err)
			require.EqualValues(t, 2, s.Evicted)
			require.Zero(t, s.Full)
		} else {
			require.ErrorIs(t, err, qpmap.ErrAmbiguous)
			require.Zero(t, s.Evicted)
			require.EqualValues(t, 1, s.Full, "the last answer would have given both pairs")
		}
	}
}

// An answer to the pair's own queue pair discards the votes for another one.
func TestAnswerRefutesVotes(t *testing.T) {
	for _, refuted := range []bool{false, true} {
		c := live()
		m := established(c, true)
		rival := *c
		rival.a, rival.psnA = 0x66, c.psnA+1<<20
		for n := range uint32(2) {
			observe(m, start, rival.request(n), rival.ack(n))
		}
		if refuted {
			observe(m, start, c.request(3), c.ack(3))
		}
		later := start.Add(1100 * time.Millisecond)
		observe(m, later, rival.request(2), rival.ack(2))
		known := rival.a
		if refuted {
			known = 0
		}
		requireSource(t, m, c.forth(), later, known, refuted)
	}
}

// The same queue pairs, connected again, are the same pairs and not learned again.
func TestSamePairsAgain(t *testing.T) {
	for _, x := range []struct {
		after        time.Duration
		bothAnswered bool // then only after a silence
		from         qpmap.Basis
	}{
		{0, false, qpmap.BasisCM}, {2 * time.Second, false, qpmap.BasisCM},
		{0, true, qpmap.BasisVotes}, {2 * time.Second, true, qpmap.BasisCM},
	} {
		c := live()
		m := newMap(qpmap.Config{})
		for n := range uint32(3) {
			observe(m, start, c.request(n), c.ack(n))
		}
		require.EqualValues(t, 2, m.Stats().Votes)
		if x.bothAnswered {
			observe(m, start, c.turned().request(0), c.turned().ack(0))
		}
		next := *c
		next.psnA, next.psnB = 0x600000, 0x700000
		at := start.Add(x.after)
		observe(m, at, next.req(), next.rep())
		for n := range uint32(5) {
			observe(m, at, next.request(n), next.ack(n))
		}
		got := wiretest.Must(m.SourceQP(qpmap.Key{FlowKey: c.forth()}, at))(t)
		require.Equal(t, x.from, got.From, x)
		require.Equal(t, c.a, got.SrcQP)
		s := m.Stats()
		require.EqualValues(t, 2, s.Votes)
		require.Zero(t, s.CM)
		require.Zero(t, s.NewLifetimes)
	}
}

// A pair that CM made stays CM's where votes find the one of the other direction again.
func TestVotesAfterCM(t *testing.T) {
	c := live()
	m := established(c, true)
	require.True(t, m.Remove(qpmap.Key{FlowKey: c.back()}))
	for n := uint32(3); n < 7; n++ {
		observe(m, start, c.request(n), c.ack(n))
	}
	requirePair(t, m, c.forth(), c.a, qpmap.BasisCM)
	requirePair(t, m, c.back(), c.b, qpmap.BasisVotes)
}

// If the pair of the other direction was forgotten, votes for a pair from votes do not change its
// lifetime.
func TestVotesAgain(t *testing.T) {
	c := live()
	m := newMap(qpmap.Config{})
	for n := range uint32(3) {
		observe(m, start, c.request(n), c.ack(n))
	}
	requirePair(t, m, c.forth(), c.a, qpmap.BasisVotes)
	const far = 600 // too far for an answer alone to explain
	for n := uint32(3); n < far; n++ {
		observe(m, start, c.request(n))
	}
	require.True(t, m.Remove(qpmap.Key{FlowKey: c.back()}))
	for n := uint32(far - 3); n < far; n++ { // as many as it takes: a further one would confirm the pair
		observe(m, start, c.ack(n))
	}
	requirePair(t, m, c.back(), c.b, qpmap.BasisVotes)
	early := bth.Header{Opcode: bth.RCSendOnly, PSN: (c.psnA + 10) & bth.MaxPSN}
	got := wiretest.Must(m.SourceQPOf(qpmap.Key{FlowKey: c.forth()}, &early, start))(t)
	require.Equal(t, c.a, got.SrcQP)
}

// If CM names the sender of the requests to a queue pair, and these have the PSN that CM announced,
// no votes make the queue pair the source of another receiver's flow.
func TestCMOfTheOtherDirection(t *testing.T) {
	for _, cm := range []bool{false, true} {
		c := live()
		other := *c // the sender to c.a, by CM
		other.b = 0x77
		m := newMap(qpmap.Config{})
		if cm { // it contradicts the given pair of the other direction, and so has no pair
			require.NoError(t, m.Add(qpmap.Key{FlowKey: other.forth()}, qpmap.Pair{SrcQP: 0x99}))
			observe(m, start, other.req(), other.rep())
		}
		back := other.turned()
		observe(m, start, back.request(0xFFFFFF), back.request(0)) // one before it, so that data decides
		for n := range uint32(4) {
			observe(m, start, c.request(n), c.ack(n))
		}
		if cm {
			requireNone(t, m, c.forth(), qpmap.ErrAmbiguous)
		} else {
			requirePair(t, m, c.forth(), c.a, qpmap.BasisVotes)
		}
	}
}

// A connection lives as long as packets of one direction pass. So another one that CM announces for its queue pair
// must be answered before it replaces both directions.
func TestOneDirectionKeepsBoth(t *testing.T) {
	c, next := live(), live()
	next.b, next.psnA, next.psnB, next.commA, next.commB = c.b+1, c.psnA+0x300000, c.psnB+0x300000, c.commA+1, c.commB+1
	m := newMap(qpmap.Config{Idle: time.Minute})
	at := start
	observe(m, at, c.req(), c.rep())
	for n := range uint32(9) {
		at = at.Add(50 * time.Second)
		observe(m, at, c.request(n))
	}
	both := func(c *connection, believed bool) {
		t.Helper()
		for _, c := range []struct {
			k     rocev2.FlowKey
			srcQP uint32
		}{{c.forth(), c.a}, {c.back(), c.b}} {
			got, err := m.SourceQP(qpmap.Key{FlowKey: c.k}, at)
			require.Equal(t, believed, err == nil && got.SrcQP == c.srcQP, "%v: %v, %v", c.k, got, err)
		}
	}
	both(c, true)
	observe(m, at, next.req(), next.rep())
	both(c, true)
	for n := range uint32(3) {
		observe(m, at, next.request(n), next.ack(n))
	}
	at = at.Add(2 * time.Second)
	observe(m, at, next.request(3), next.ack(3))
	both(next, true)
	requireNone(t, m, c.forth(), qpmap.ErrUnknown)

	at = at.Add(time.Minute + 1)
	require.Equal(t, 4, m.Expire(at), "and both are idle at the same time, as is the connection before")
}

// A connection that is idle is forgotten in both directions when a packet of one passes: nothing that is learned of
// that one brings the other back.
func TestIdleInBothDirections(t *testing.T) {
	c := live()
	m := established(c, true)
	at := start.Add(time.Hour)
	datagram := func(c *connection) rocev2.Packet {
		p := packet(c.A, c.B, bth.UDSendOnly, c.b, 5)
		p.BTH.DETH = bth.DETH{QKey: 1, SrcQP: c.a}
		return p
	}
	observe(m, at, datagram(c))
	requireSource(t, m, c.forth(), at, c.a)
	requireSource(t, m, c.back(), at, 0)
	require.EqualValues(t, 2, m.Stats().Expired)
	require.Equal(t, 1, m.Stats().Pairs)

	observe(m, at, datagram(c.turned()))
	requireSource(t, m, c.forth(), at, c.a)
	requireSource(t, m, c.back(), at, c.b)
}

// As long as one direction is not idle the other is not either, to the nanosecond. The other
// direction of a given pair may be idle, and is then forgotten alone.
func TestIdleTogether(t *testing.T) {
	c := live()
	for _, given := range []bool{false, true} {
		m := newMap(qpmap.Config{Idle: time.Minute})
		if given {
			require.NoError(t, m.Add(qpmap.Key{FlowKey: c.back()}, qpmap.Pair{SrcQP: c.b}))
		}
		observe(m, start, c.req(), c.rep(), c.request(0))
		at := start.Add(time.Second)
		observe(m, at, c.request(1))
		at = at.Add(time.Minute)
		require.Zero(t, m.Expire(at))
		at = at.Add(1)
		srcQP, expired := uint32(0), uint64(2)
		if given {
			srcQP, expired = c.b, 1
		}
		observe(m, at, c.request(2))
		requireSource(t, m, c.back(), at, srcQP)
		requireSource(t, m, c.forth(), at, 0)
		require.Equal(t, expired, m.Stats().Expired)
	}
}

// A queue pair that is connected to itself has one pair, which is evicted, or forgotten when it is idle, once.
func TestToItself(t *testing.T) {
	self := live()
	self.B, self.b = self.A, self.a
	for _, evicted := range []uint64{0, 1} {
		m := qpmap.New(qpmap.Config{MaxPairs: 2})
		observe(m, start, self.req(), self.rep(), self.request(0))
		requireSource(t, m, self.forth(), start, self.a)
		at := start.Add(5 * time.Second)
		if evicted == 0 {
			at = start.Add(time.Hour)
			observe(m, at, self.request(1))
			requireSource(t, m, self.forth(), at, 0)
		}
		c := live()
		for n := range uint32(3) {
			observe(m, at, c.request(n), c.ack(n))
		}
		requireSource(t, m, c.forth(), at, c.a)
		requireSource(t, m, c.back(), at, c.b)
		s := m.Stats()
		require.Equal(t, []uint64{evicted, 1 - evicted}, []uint64{s.Evicted, s.Expired})
	}
}

// A full table evicts both directions of a connection, of which one has passed more lately.
func TestEvictsBothDirections(t *testing.T) {
	m := qpmap.New(qpmap.Config{MaxPairs: 4})
	c := [3]*connection{live(), live(), live()}
	for i, c := range c {
		c.a, c.b, c.psnA, c.psnB = c.a+uint32(i), c.b+uint32(i), c.psnA+uint32(i)<<20, c.psnB+uint32(i)<<20
		c.commA, c.commB = c.commA+uint32(i), c.commB+uint32(i)
	}
	at := start
	observe(m, at, c[0].req(), c[0].rep(), c[0].request(0), c[0].ack(0))
	observe(m, at, c[1].req(), c[1].rep(), c[1].request(0), c[1].ack(0))
	for n := range uint32(9) {
		at = at.Add(time.Second)
		observe(m, at, c[0].request(n+1))
	}
	for n := range uint32(3) {
		observe(m, at, c[2].request(n), c[2].ack(n))
	}
	requirePair(t, m, c[0].back(), c[0].b, qpmap.BasisCM)
	requirePair(t, m, c[0].forth(), c[0].a, qpmap.BasisCM)
	requirePair(t, m, c[2].forth(), c[2].a, qpmap.BasisVotes)
	requirePair(t, m, c[2].back(), c[2].b, qpmap.BasisVotes)
	require.EqualValues(t, 2, m.Stats().Evicted)
}

// A datagram that names the queue pairs of a connection does not take the connection along when it is evicted, or
// forgotten.
func TestEvictsWithoutPartner(t *testing.T) {
	c := live()
	m := qpmap.New(qpmap.Config{MaxPairs: 2})
	observe(m, start, c.req(), c.rep(), c.request(0), c.ack(0))
	datagram := func(destQP uint32) rocev2.Packet {
		p := packet(c.A, c.B, bth.UDSendOnly, destQP, 5)
		p.BTH.DETH = bth.DETH{QKey: 1, SrcQP: c.a}
		return p
	}
	forget := func() { require.True(t, m.Remove(qpmap.Key{FlowKey: c.forth()})) }
	forget()
	observe(m, start, datagram(c.b), datagram(0x99))
	requireSource(t, m, c.forth(), start, 0)
	requirePair(t, m, c.back(), c.b, qpmap.BasisCM)
	require.EqualValues(t, 1, m.Stats().Evicted)

	observe(m, start, datagram(c.b))
	at := start.Add(time.Hour)
	observe(m, at, datagram(c.b))
	requireSource(t, m, c.back(), at, 0)
	require.EqualValues(t, 1, m.Stats().Expired)
	m.Expire(at)
	require.EqualValues(t, 2, m.Stats().Expired)
}

// A full table keeps a connection of which one direction alone is in use; for announced ones also a silent one.
func TestFullOfOneDirection(t *testing.T) {
	c, next := live(), live()
	next.a, next.b, next.psnA, next.commA, next.commB = c.a+1, c.b+1, c.psnA+1<<20, c.commA+1, c.commB+1
	m := qpmap.New(qpmap.Config{MaxPairs: 2})
	at := start
	observe(m, at, c.req(), c.rep(), c.request(0))
	stays := func() {
		t.Helper()
		requireSource(t, m, c.forth(), at, c.a)
		requireSource(t, m, c.back(), at, c.b)
		require.NotZero(t, m.Stats().Full)
		require.Zero(t, m.Stats().Evicted)
	}
	for n := range uint32(30) {
		at = at.Add(100 * time.Millisecond)
		observe(m, at, c.request(n+1))
	}
	for n := range uint32(3) {
		observe(m, at, next.request(n), next.ack(n))
	}
	stays()
	at = at.Add(5 * time.Second)
	observe(m, at, next.req(), next.rep())
	stays()
}

// Another connection of a queue pair begins with the same PSNs. The sender of a response is not
// known, neither of the last packet nor of an earlier one, until a response answers a request that
// only the first connection has sent since.
func TestSourceQPOfTheSamePSNs(t *testing.T) {
	c := live()
	m := established(c, true)
	next := *c
	next.b, next.commA, next.commB = c.b+1, c.commA+1, c.commB+1
	at := start.Add(100 * time.Millisecond)
	observe(m, at, next.req(), next.rep()) // its requests are lost
	at = at.Add(100 * time.Millisecond)
	of := func(p rocev2.Packet, srcQP uint32) {
		t.Helper()
		observe(m, at, p)
		requireSource(t, m, flowOf(&p), at, srcQP)
		got, err := m.SourceQPOf(qpmap.Key{FlowKey: flowOf(&p)}, &p.BTH.Header, at)
		require.Equal(t, srcQP != 0, err == nil)
		require.Equal(t, srcQP, got.SrcQP)
	}
	of(next.ack(0), 0)
	observe(m, at, c.request(3))
	of(c.ack(3), c.b)
}

// After two REPs that differ, repetitions of one of them do not keep their exchange: a minute after it, another one
// with the same communication ids is learned.
func TestREPRepeatedAfterConflict(t *testing.T) {
	c, other, second := live(), live(), live()
	other.b, other.commB = 0x32, 0xBBBB0002
	second.a = 0x22
	m := newMap(qpmap.Config{})
	observe(m, start, c.req(), c.rep(), other.rep())
	observe(m, start.Add(50*time.Second), c.rep())
	later := start.Add(time.Minute + 1)
	observe(m, later, second.req(), second.rep())
	requireSource(t, m, second.forth(), later, second.a)
}
