package qplearn

import (
	"testing"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/stretchr/testify/require"
)

// Of the candidates the one with the fewest votes makes room, of those with as many one
// whose requests have no neighbours. What had more than one vote is remembered.
func TestWhoMakesRoom(t *testing.T) {
	type c = candidate
	for _, x := range []struct {
		of      [4]candidate
		follows bool
		gone    int // -1: the new one has no room
		lost    uint16
	}{
		{[4]c{{votes: 2, follows: true}, {votes: 1, follows: true}, {votes: 3}, {votes: 2}}, true, 1, 0},
		{[4]c{{votes: 1, follows: true}, {votes: 1}, {votes: 1, follows: true}, {votes: 1, follows: true}}, true, 1, 0},
		{
			[4]c{{votes: 1}, {votes: 1, follows: true}, {votes: 1, follows: true}, {votes: 1, follows: true}},
			false, 0, 0,
		},
		{[4]c{{votes: 1, follows: true}, {votes: 2}, {votes: 2}, {votes: 2}}, true, 0, 0},
		{[4]c{{votes: 1, follows: true}, {votes: 2}, {votes: 2}, {votes: 2}}, false, -1, 0},
		{[4]c{{votes: 3}, {votes: 2}, {votes: 4}, {votes: 5}}, false, 1, 2},
	} {
		for i := range x.of {
			x.of[i].qp = uint32(100 + i)
		}
		tally := tally{of: x.of}
		got := tally.vote(7, 1000, x.follows)
		if x.gone < 0 {
			require.Nil(t, got, x)
		} else {
			require.Same(t, &tally.of[x.gone], got, x)
			require.Equal(t, candidate{qp: 7, psn: 1000, votes: 1, follows: x.follows}, *got)
		}
		require.Equal(t, x.lost, tally.lost, x)
	}
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
