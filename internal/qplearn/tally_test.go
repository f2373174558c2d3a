package qplearn

import (
	"fmt"
	"testing"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/stretchr/testify/require"
)

// The candidate with the fewest votes is evicted; among equals, one without requests next to each
// other. Its votes are remembered, and so is a vote that found no free place.
func TestWhoMakesRoom(t *testing.T) {
	type c = candidate
	for _, x := range []struct {
		of      [4]candidate
		follows bool
		gone    int // -1: the new one has no room
		lost    uint16
	}{
		{[4]c{{votes: 2, last: neighbour}, {votes: 1, last: neighbour}, {votes: 3}, {votes: 2}}, true, 1, 1},
		{[4]c{{votes: 1, last: neighbour}, {votes: 1}, {votes: 1, last: neighbour}, {votes: 2}}, true, 1, 1},
		{[4]c{{votes: 1}, {votes: 1, last: neighbour}, {votes: 1, last: neighbour}, {votes: 2}}, false, 0, 1},
		{[4]c{{votes: 1, last: neighbour}, {votes: 2}, {votes: 2}, {votes: 2}}, true, 0, 1},
		{[4]c{{votes: 1, last: neighbour}, {votes: 2}, {votes: 2}, {votes: 2}}, false, -1, 1},
		{[4]c{{votes: 3}, {votes: 2}, {votes: 4}, {votes: 5}}, false, 1, 2},
		{[4]c{{votes: 1, maybe: 3}, {votes: 3}, {votes: 4}, {votes: 5}}, false, 1, 3},
	} {
		for i := range x.of {
			x.of[i].qp = uint32(100 + i)
		}
		tally := tally{of: x.of}
		got := tally.vote(7, 1000, x.follows, true)
		if x.gone < 0 {
			require.Nil(t, got, x)
		} else {
			require.Same(t, &tally.of[x.gone], got, x)
			require.EqualValues(t, 1, got.votes)
			require.Zero(t, got.maybe, "nobody was evicted before")
			require.Equal(t, x.follows, got.follows())
		}
		require.Equal(t, x.lost, tally.lost, x)
	}
}

// An evicted candidate returns with as many votes as it may have had: at most those of the other
// candidates. Votes that an attacker forges elsewhere count neither for nor against it.
func TestComesBack(t *testing.T) {
	var votes tally
	for n := range uint32(5) { // the last evicts the first, which comes back and evicts the last, and so on
		require.Zero(t, votes.vote(10+n, 1000, true, true).maybe)
	}
	require.EqualValues(t, 1, votes.lost)
	for _, n := range []uint32{0, 4, 1, 2} {
		c := votes.vote(10+n, 1001, true, true)
		require.Equal(t, []uint16{1, 1}, []uint16{c.votes, c.maybe})
	}
	require.EqualValues(t, 1, votes.lost)
	for n := range uint32(4) {
		for psn := range uint32(4) {
			c := votes.vote(100+n, (n+1)<<20+psn, true, true)
			require.Equal(t, []uint16{uint16(psn) + 1, 0}, []uint16{c.votes, c.maybe})
		}
	}
	require.EqualValues(t, 2, votes.lost)
}

// One of many that tie wins when it has twice as many votes as any other may have, and not before.
func TestWinsAmongMany(t *testing.T) {
	config := Config{MinVotes: 3, Ratio: 2}
	var votes, none tally
	own, counts := uint32(0), map[uint32]int{}
	vote := func(qp, psn uint32) bool {
		counts[qp]++
		own := votes.vote(qp, psn, true, true)
		return own != nil && votes.elects(own, &none, false, &config)
	}
	for psn := range uint32(1000) {
		for n := range uint32(4) {
			require.False(t, vote(10+(4*psn+n)%7, psn))
		}
	}
	for psn := uint32(1000); own == 0; psn++ {
		if vote(10, psn) {
			own = psn
		}
	}
	require.GreaterOrEqual(t, counts[10], 2*counts[11])
	require.Less(t, counts[10], 4*counts[11])
}

// Votes that are not sure count only against others.
func TestVotesThatAreNotSure(t *testing.T) {
	config := Config{MinVotes: 3, Ratio: 2}
	var votes, none tally
	for psn := range uint32(5) {
		require.False(t, votes.elects(votes.vote(10, psn, true, false), &none, false, &config))
	}
	for psn := range uint32(10) {
		require.Equal(t, psn == 9, votes.elects(votes.vote(11, psn, true, true), &none, false, &config), psn)
	}
}

// Votes for another candidate in the other tally of a flow count against a candidate, and votes for
// it there count for it.
func TestBothTallies(t *testing.T) {
	config := Config{MinVotes: 3, Ratio: 2}
	for _, x := range []struct {
		own, others, more, rivals int
		alone                     bool
	}{
		{3, 1, 0, 1, true}, {5, 1, 0, 2, true}, {3, 1, 2, 2, true}, {3, 1, 3, 2, true}, {2, 0, 1, 0, true},
		{2, 0, 1, 0, false}, {1, 0, 1, 0, true}, {3, 2, 7, 0, true},
	} {
		var here, there tally
		var c *candidate
		for _, c := range []struct {
			qp *int
			n  *tally
		}{{&x.others, &here}, {&x.rivals, &there}} {
			t.Run(fmt.Sprint(c.qp), func(t *testing.T) {
				for psn := range uint32(*c.qp) {
					c.n.vote(11, psn, true, true)
				}
			})
		}
		for psn := range uint32(x.more) {
			there.vote(10, psn, true, true)
		}
		for psn := range uint32(x.own) {
			c = here.vote(10, psn, true, true)
		}
		wins := x.own+x.more >= 2*(x.others+x.rivals) && x.own >= 2*x.others &&
			(x.own >= 3 || x.alone && x.own+x.more >= 3)
		require.Equal(t, wins, here.elects(c, &there, x.alone, &config), x)
	}
}

// Of a PSN of which a request was replaced it is not said that all flows are known that used it, until no answer to
// that one can come any more. A flood of others makes that of hardly any PSN.
func TestReplaced(t *testing.T) {
	r, flow := newRecent(ways, 1, false), func(qp uint32) *key { return &key{QP: qp} }
	users := func(psn uint32, now int32) (int, bool) {
		_, n, all := r.users(flow(99), psn, bth.TransportRC, 0, now, time.Second)
		return n, all
	}
	add := func(qp, psn uint32, now int32) { r.add(flow(qp), psn, bth.TransportRC, 0, now, time.Second) }
	check := func(psn uint32, now int32, n int, all bool) {
		t.Helper()
		gotN, gotAll := users(psn, now)
		require.Equal(t, []any{n, all}, []any{gotN, gotAll}, psn)
	}
	for qp := range uint32(ways) {
		add(qp+2, 7, 0)
	}
	check(7, 0, ways, true)
	add(10, 8, 1)
	check(7, 1, ways-1, false)
	check(8, 1, 1, true)
	for qp := range uint32(ways) {
		add(qp+20, 9, 2)
	}
	check(7, 2, 0, false)
	add(11, 7, 3) // alone in its set, and still not for certain
	check(7, 3, 1, false)
	const later = 2000
	for qp := range uint32(ways) {
		add(qp+2, 7, later)
	}
	check(7, later, ways, true)

	wrong := 0
	for n := range uint32(10_000) {
		add(30, 100_000+n, later+1)
	}
	for n := range uint32(10_000) {
		if _, all := users(n, later+1); !all {
			wrong++
		}
	}
	require.Less(t, wrong, 20)
}

// In a full set the request of longest ago makes room.
func TestOldestRequestGoes(t *testing.T) {
	r, k := newRecent(ways, 1, false), key{QP: 17}
	for psn := range uint32(20) {
		r.add(&k, psn, bth.TransportRC, 0, int32(psn), time.Second)
		for old := range psn + 1 {
			has := r.has(&k, old, bth.TransportRC, int32(psn), time.Second)
			require.Equal(t, psn-old < ways, has, "%d, %d", psn, old)
		}
	}
}
