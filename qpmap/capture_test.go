package qpmap_test

import (
	"math/rand/v2"
	"testing"

	"github.com/rocecn/rocecn/cm"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// captured returns the RoCEv2 packets of a capture, all or those without CM.
func captured(t testing.TB, name string, withCM bool) []sent {
	var all []sent
	for _, c := range wiretest.Capture(t, name) {
		s := sent{at: c.Time.Sub(start)}
		if s.packet.DecodeEthernet(c.Data) != nil || !withCM && s.packet.BTH.DestQP == cm.QP {
			continue
		}
		// Both ends of all connections of these captures have the same number:
		// the REQs and REPs say so, and so do the tools that made the others.
		s.truth = s.packet.BTH.DestQP
		all = append(all, s)
	}
	return all
}

// learn shows packets to a Map and returns the last pair that it gave for each flow; a wrong pair
// ends the test.
func learn(t testing.TB, m *qpmap.Map, packets []sent) map[rocev2.FlowKey]qpmap.Pair {
	t.Helper()
	known := map[rocev2.FlowKey]qpmap.Pair{}
	for i, s := range packets {
		now := start.Add(s.at)
		m.Observe(&s.packet, 7, now)
		if s.packet.BTH.DestQP == cm.QP {
			continue
		}
		k := flowOf(&s.packet)
		if p, err := m.SourceQP(qpmap.Key{FlowKey: k, Domain: 7}, now); err == nil {
			require.Equal(t, s.truth, p.SrcQP, "packet %d: %v from %v", i, k, p.From)
			known[k] = p
		}
		_, err := m.SourceQP(qpmap.Key{FlowKey: k, Domain: 8}, now)
		require.ErrorIs(t, err, qpmap.ErrUnknown, "another domain")
	}
	return known
}

// CM and, without the CM packets, votes give the same pairs; the table has the numbers of pairs of
// every capture by their basis.
func TestCaptures(t *testing.T) {
	for _, c := range []struct {
		name          string
		cm, votes, ud int // flows known with CM
		votesWithout  int // flows known by votes without
	}{
		{name: "rxe-ucmatose4.pcap", cm: 4, votesWithout: 4},
		{name: "rxe-rping6.pcap", cm: 2, votesWithout: 2},
		{name: "rxe-udaddy6.pcap", ud: 2},
		{name: "rxe-perf4.pcap", votes: 6, ud: 2, votesWithout: 6},
		{name: "rxe-vlan4.pcap", votes: 2, ud: 1, votesWithout: 2},
		// Queue pair 0x12 is UC, 0x16 is answered once, 0x17 four times with the
		// same PSN; 0x14 and 0x15 are known with their last responses only.
		{name: "rxe-verbs6.pcap", votes: 4, ud: 1, votesWithout: 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			with := learn(t, qpmap.New(qpmap.Config{}), captured(t, c.name, true))
			without := learn(t, qpmap.New(qpmap.Config{}), captured(t, c.name, false))
			count := func(known map[rocev2.FlowKey]qpmap.Pair, from qpmap.Basis) (n int) {
				for _, p := range known {
					if p.From == from {
						n++
					}
				}
				return n
			}
			require.Equal(t, c.cm, count(with, qpmap.BasisCM))
			require.Equal(t, c.votes, count(with, qpmap.BasisVotes))
			require.Equal(t, c.ud, count(with, qpmap.BasisUD))
			require.Equal(t, c.votesWithout, count(without, qpmap.BasisVotes))
			for k, p := range with {
				require.Equal(t, p.SrcQP, without[k].SrcQP, "%v", k)
				require.EqualValues(t, 0xFFFF, p.PKey)
				if p.From == qpmap.BasisCM {
					require.EqualValues(t, 1024, p.MTU)
				}
			}
		})
	}
}

// CM ends its pairs with DREQ and DREP.
func TestCMEndsPairsInCaptures(t *testing.T) {
	for _, c := range []struct {
		name  string
		pairs int
	}{{"rxe-ucmatose4.pcap", 4}, {"rxe-rping6.pcap", 2}} {
		t.Run(c.name, func(t *testing.T) {
			m := qpmap.New(qpmap.Config{})
			learn(t, m, captured(t, c.name, true))
			require.Equal(t, qpmap.Stats{CM: uint64(c.pairs), Ended: uint64(c.pairs)}, m.Stats())
		})
	}
}

// With half of one direction, or of both, taken out, with packets exchanged,
// with CM and without it: never a wrong pair.
func TestImpairedCaptures(t *testing.T) {
	wiretest.Alone(t)
	for _, name := range wiretest.Captures(t, "rxe-*.pcap") {
		for seed := range uint64(100) {
			r := rand.New(rand.NewPCG(seed, 0))
			all := captured(t, name, seed%2 == 0)
			for _, c := range []struct{ forth, back, exchange float64 }{
				{0.5, 0, 0}, {0, 0.5, 0}, {0.5, 0.5, 0}, {0, 0, 0.3}, {0.3, 0.3, 0.3}, {1, 0, 0}, {0, 1, 0},
			} {
				var some []sent
				for _, s := range all {
					loss := c.forth
					if s.packet.Src.Compare(s.packet.Dst) > 0 {
						loss = c.back
					}
					if r.Float64() < loss {
						continue
					}
					some = append(some, s)
				}
				for range int(c.exchange * float64(len(some))) {
					i, j := r.IntN(len(some)), r.IntN(len(some))
					if seed%4 < 2 { // neighbours, or any two
						j = min(i+1, len(some)-1)
					}
					some[i], some[j] = some[j], some[i]
				}
				learn(t, qpmap.New(qpmap.Config{MaxPairs: 64, MaxOpen: 64, MaxPending: 64}), some)
			}
		}
	}
}
