package qpmap_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// A taker is one of many connections that take turns.
type taker struct {
	a, b     netip.Addr
	qpA, qpB uint32
	psn      uint32
}

// takers returns n connections between 256 pairs of hosts, with random PSNs.
func takers(n int) (all []taker) {
	r := rand.New(rand.NewPCG(uint64(n), 5))
	for i := range n {
		all = append(all, taker{
			a: netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), b: netip.AddrFrom4([4]byte{10, 0, 1, byte(i)}),
			qpA: 0x100000 + uint32(i), qpB: 0x200000 + uint32(i), psn: r.Uint32N(1 << 24),
		})
	}
	return all
}

// send gives a map two requests, and the answer to the second.
func (c *taker) send(m *qpmap.Map, now time.Time) {
	for range 2 {
		observe(m, now, packet(c.a, c.b, bth.RCSendOnly, c.qpB, c.psn))
		c.psn = (c.psn + 1) & 0xFFFFFF
	}
	observe(m, now, packet(c.b, c.a, bth.RCAcknowledge, c.qpA, c.psn-1))
}

// All of many connections that take turns are learned, in a fixed and in a random order. The first
// configuration is that of a program that sets nothing, the second that of the roles of rocecn.
func TestManyConnections(t *testing.T) {
	wiretest.Alone(t)
	for _, c := range []struct {
		name   string
		n      int
		random bool
		config qpmap.Config
	}{
		{"3,000 in turns", 3000, false, qpmap.Config{}},
		{"20,000 in turns", 20_000, false, qpmap.Config{}},
		{"20,000 in random order", 20_000, true, qpmap.Config{}},
		{"20,000 in turns, growing", 20_000, false, qpmap.Config{MaxPairs: 1 << 18, Grow: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, all, r := qpmap.New(c.config), takers(c.n), rand.New(rand.NewPCG(1, 2))
			now := start
			for range 6 { // three answers are enough, if none of the requests before them was evicted
				if c.random {
					r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
				}
				for i := range all {
					now = now.Add(time.Microsecond)
					all[i].send(m, now)
				}
			}
			for _, one := range all {
				k := rocev2.FlowKey{Src: one.a, Dst: one.b, DestQP: one.qpB}
				requirePair(t, m, k, one.qpA, qpmap.BasisVotes)
			}
			require.Zero(t, m.Stats().Unlearned)
		})
	}
}

// More connections than MaxOpen has entries for do not evict one another in turn: all are learned,
// though later, and the counters show that the table was full.
func TestMoreConnectionsThanOpen(t *testing.T) {
	for _, size := range []int{2, 16, 100} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			m, all := qpmap.New(qpmap.Config{MaxOpen: size}), takers(4*size)
			now := start
			for range wiretest.Rounds(400) {
				for i := range all {
					now = now.Add(time.Microsecond)
					all[i].send(m, now)
				}
			}
			require.NotZero(t, m.Stats().Unlearned)
			require.EqualValues(t, 2*len(all), m.Stats().Votes)
		})
	}
}

// A packet for which the full table of open flows has no room counts once, although an answer needs room for both
// directions of its connection.
func TestPacketWithoutRoomCountsOnce(t *testing.T) {
	for _, ports := range []bool{false, true} {
		t.Run(fmt.Sprintf("ports=%t", ports), func(t *testing.T) {
			m, c := qpmap.New(qpmap.Config{MaxOpen: 2, Ports: ports}), live()
			observe(m, start, c.request(0), c.ack(0)) // one vote: both directions stay open
			require.Equal(t, qpmap.Stats{Open: 2}, m.Stats())
			second := *c
			second.a, second.b, second.psnA = 0x22, 0x32, 0x400000
			observe(m, start, second.request(0))
			require.Equal(t, qpmap.Stats{Open: 2, Unlearned: 1}, m.Stats())
			observe(m, start, second.ack(0))
			require.Equal(t, qpmap.Stats{Open: 2, Unlearned: 2}, m.Stats())
			observe(m, start, c.request(1), c.ack(1), c.request(2), c.ack(2))
			require.Equal(t, qpmap.Stats{Pairs: 2, Votes: 2, Unlearned: 2}, m.Stats())
		})
	}
}
