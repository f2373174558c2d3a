package qplearn

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
)

// The candidate with the fewest votes is evicted; among equals, one without requests next to each
// other. Its votes are remembered, and so is a vote that found no free place.
func TestEvictionOrder(t *testing.T) {
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
			require.Zero(t, got.maybe, "no entry was evicted before")
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
	add := func(qp, psn uint32, now int32) {
		r.add(r.hash(flow(qp), bth.TransportRC, 0), qp, psn, now, time.Second, 0)
	}
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

// The memory for requests follows their number, also if many flows use the same PSNs: then it is not known which of
// them a response answers, and no memory would show it. No request of another flow is lost.
func TestRecentGrows(t *testing.T) {
	for _, row := range []struct {
		name         string
		flows, alike uint32 // flows between other hosts, and between the same hosts with the same PSNs
	}{
		{"different hosts", 3000, 0},
		{"the same hosts", 0, 3000},
		{"both", 3000, 3000},
	} {
		t.Run(row.name, func(t *testing.T) {
			const blocks = 4
			r := newRecent(1<<24, 1, true)
			add := func(k key, qp, psn uint32) {
				r.add(r.hash(&k, bth.TransportRC, 0), qp, psn<<blockBits, 0, time.Second, 0)
			}
			for psn := range uint32(blocks) {
				for i := range max(row.flows, row.alike) {
					if i < row.flows {
						add(key{Domain: i + 1}, i, psn)
					}
					if i < row.alike {
						add(key{}, i, psn)
					}
				}
			}
			require.LessOrEqual(t, ways*len(r.sets.All), int(8*blocks*(row.flows+ways)))
			for i := range row.flows {
				for psn := range uint32(blocks) {
					users, n, all := r.users(&key{Domain: i + 1}, psn<<blockBits, bth.TransportRC, 0, 0, time.Second)
					require.Equal(t, []any{[ways]uint32{i}, 1, true}, []any{users, n, all})
				}
			}
			if row.alike > 0 {
				_, _, all := r.users(&key{}, 0, bth.TransportRC, 0, 0, time.Second)
				require.False(t, all)
			}
		})
	}
}

// While there is one set only, its entries count once: it grows for the third flow of a block, and loses no request.
func TestRecentGrowsFromOneSet(t *testing.T) {
	r := newRecent(1<<10, 1, true)
	require.Len(t, r.sets.All, 1)
	add := func(k key, qp uint32) { r.add(r.hash(&k, bth.TransportRC, 0), qp, 0, 0, time.Second, 0) }
	for i := range uint32(2) {
		add(key{Domain: 1}, 10+i)
		add(key{Domain: 2}, 20+i)
	}
	add(key{Domain: 1}, 12)
	_, n, all := r.users(&key{Domain: 1}, 0, bth.TransportRC, 0, 0, time.Second)
	require.Equal(t, []any{3, true}, []any{n, all})
	_, n, all = r.users(&key{Domain: 2}, 0, bth.TransportRC, 0, 0, time.Second)
	require.Equal(t, []any{2, true}, []any{n, all})
}

// With these seeds two sets fill although less than a quarter of all entries is used. No request is lost.
func TestRecentGrowsEarly(t *testing.T) {
	for _, seed := range []uint64{790, 918, 935, 1109} {
		const flows = 20_000
		r := newRecent(1<<24, seed, true)
		early := false
		for i := range uint32(flows) {
			before, used := len(r.sets.All), r.used
			r.add(r.hash(&key{Domain: i + 1}, bth.TransportRC, 0), i, 0, 0, time.Second, 0)
			after := len(r.sets.All)
			early = early || after > before && ways*after/2 > max(4*used, minEntries)
		}
		require.True(t, early, "seed %d: two sets fill early", seed)
		for i := range uint32(flows) {
			users, n, all := r.users(&key{Domain: i + 1}, 0, bth.TransportRC, 0, 0, time.Second)
			require.Equal(t, []any{[ways]uint32{i}, 1, true}, []any{users, n, all}, "seed %d", seed)
		}
		require.LessOrEqual(t, ways*len(r.sets.All), 16*flows)
	}
}

// It is never taken for known which flow used a PSN if more flows did than are remembered, also with many such PSNs.
func TestManyFlowsOfPSNs(t *testing.T) {
	const hosts, flows = 500, 12
	r := newRecent(1<<24, 1, true)
	for i := range uint32(flows) {
		for host := range uint32(hosts) {
			for psn := range uint32(4) {
				k := key{Domain: host}
				r.add(r.hash(&k, bth.TransportRC, 0), i, psn, int32(i), time.Second, time.Second)
			}
		}
	}
	for host := range uint32(hosts) {
		for psn := range uint32(4) {
			_, _, all := r.users(&key{Domain: host}, psn, bth.TransportRC, 0, flows, time.Second)
			require.False(t, all)
		}
	}
}

// A flow that retransmits requests for a long time is not taken for several flows.
func TestRetransmissionsAreOfOneFlow(t *testing.T) {
	for seed := range uint64(50) {
		r, k := newRecent(1<<24, seed+1, true), key{QP: 17}
		for host := range uint32(200) { // so that there are several sets
			other := key{Domain: host + 1}
			r.add(r.hash(&other, bth.TransportRC, 0), 5, 0, 0, time.Second, time.Second)
		}
		for now := range int32(6) {
			r.add(r.hash(&k, bth.TransportRC, 0), k.QP, 3, 100*now, time.Second, 10*time.Millisecond)
			users, n, all := r.users(&k, 3, bth.TransportRC, 0, 100*now, time.Second)
			require.Equal(t, []any{[ways]uint32{17}, 1, true}, []any{users, n, all}, "seed %d, time %d", seed, now)
		}
	}
}

// In a full set the request of longest ago makes room.
func TestOldestRequestGoes(t *testing.T) {
	r, k := newRecent(ways, 1, false), key{QP: 17}
	flows := r.hash(&k, bth.TransportRC, 0)
	for psn := range uint32(20) {
		r.add(flows, k.QP, psn, int32(psn), time.Second, 0)
		for old := range psn + 1 {
			has := r.has(flows, k.QP, old, int32(psn), time.Second)
			require.Equal(t, psn-old < ways, has, "%d, %d", psn, old)
		}
	}
}

// No half of an address hides the others, so that an attacker without the seed cannot choose keys
// that collide.
func TestHash(t *testing.T) {
	seed := rand.Uint64()
	seen := map[uint64]numbered{}
	for _, half := range []uint64{0, 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93} {
		for i := range uint64(1000) {
			for n := range 4 { // the half that is the same
				halves := [4]uint64{i, i, i, i}
				halves[n] = half
				k := numbered{key{QP: 17}, 18}
				for j, h := range halves {
					if j < 2 {
						binary.LittleEndian.PutUint64(k.Src[8*j:], h)
					} else {
						binary.LittleEndian.PutUint64(k.Dst[8*j-16:], h)
					}
				}
				h := k.Hash(seed)
				require.True(t, seen[h] == numbered{} || seen[h] == k, k)
				seen[h] = k
			}
		}
	}
}

// The pace of packets does not change if a caller asks at times between them, for any distance
// between packets.
func TestPace(t *testing.T) {
	start := time.Unix(1e9, 0)
	c := clock{ticks: 1 << 20}
	for _, s := range []time.Duration{0, 4, 8} {
		c.seen(start.Add(s * time.Second))
	}
	require.Equal(t, time.Minute, c.answerTime())
	c.set(start.Add(8*time.Second + 10*time.Millisecond))
	c.seen(start.Add(12 * time.Second))
	require.Equal(t, 4*time.Second, c.pace)
	c.seen(start.Add(12*time.Second + 100*time.Millisecond))
	require.Equal(t, 1600*time.Millisecond, c.answerTime())
}

// After a READ of 1 MiB with an unknown path MTU, the next request has the PSN after its 256, 512,
// 1,024, 2,048 or 4,096 responses, or a slightly higher one if some were lost. A READ that is
// retried may begin slightly earlier.
func TestInOrderAfterRead(t *testing.T) {
	const psn = 0xFFFF00 // of the READ
	l := announce(psn, bth.TransportRC)
	l.recordRequest(&Observation{Opcode: bth.RCRDMAReadRequest, PSN: psn, DMA: 1 << 20}, 0, 0)
	l.requests = 1
	for _, responses := range []uint32{256, 512, 1024, 2048, 4096} {
		for _, lost := range []uint32{0, late} {
			require.True(t, l.contains((psn+responses+lost)&psnMask, bth.TransportRC), "%d+%d", responses, lost)
		}
		require.True(t, l.contains((psn+responses-late)&psnMask, bth.TransportRC), responses)
		require.False(t, l.contains((psn+responses+late+1)&psnMask, bth.TransportRC), responses)
		if responses > 256 {
			require.False(t, l.contains((psn+responses-late-1)&psnMask, bth.TransportRC), responses)
		}
	}
	for _, between := range []uint32{256 + 2*late, 800, 1024 + 2*late, 1500, 3000, 4096 + 2*late} {
		require.False(t, l.contains((psn+between)&psnMask, bth.TransportRC), between)
	}
	require.True(t, l.spans((psn+3000)&psnMask, bth.TransportRC), "a response may be anywhere")
}

// For any length of a READ and any path MTU, the next request has an expected PSN.
func TestInOrderAfterAnyRead(t *testing.T) {
	const psn = 0xFFFF00
	for _, octets := range []uint32{0, 1, 256, 257, 4095, 4096, 4097, 1 << 20, 1<<31 - 1, 1 << 31} {
		for less := range uint32(17) {
			dma := octets - min(octets, less*255)
			l := announce(psn, bth.TransportRC)
			l.recordRequest(&Observation{Opcode: bth.RCRDMAReadRequest, PSN: psn, DMA: dma}, 0, 0)
			for mtu := uint16(256); mtu <= 4096; mtu *= 2 {
				d := distance(l.next, (psn+bth.ReadPSNs(dma, mtu))&psnMask)
				require.True(t, l.inOrder(d, late), "%d at %d", dma, mtu)
			}
		}
	}
}

// Retransmissions from among the responses of a READ do not move its possible ends.
func TestReadEndStays(t *testing.T) {
	const psn = 0xFFFF00
	l := announce(psn, bth.TransportRC)
	l.recordRequest(&Observation{Opcode: bth.RCRDMAReadRequest, PSN: psn, DMA: 1 << 20}, 0, 0)
	l.answer(&Observation{Opcode: bth.RCRDMAReadResponseMiddle, PSN: (psn + 600) & psnMask})
	again := Observation{Opcode: bth.RCRDMAReadRequest, PSN: (psn + 601) & psnMask, DMA: 1}
	require.True(t, l.contains(again.PSN, bth.TransportRC))
	next, slack := l.next, l.slack
	l.recordRequest(&again, 0, 0)
	require.Equal(t, []uint32{next, slack}, []uint32{l.next, l.slack})
}

// Among the PSNs that a READ spans, responses and retransmitted requests have one near the last
// answer.
func TestNearAnswered(t *testing.T) {
	const psn, responses = 0xFFFF00, 8192 // of the READ
	l := announce(psn, bth.TransportRC)
	l.recordRequest(&Observation{Opcode: bth.RCRDMAReadRequest, PSN: psn, DMA: responses * 4096}, 4096, 0)
	l.answer(&Observation{Opcode: bth.RCRDMAReadResponseFirst, PSN: psn})
	for _, x := range []struct {
		psn              uint32 // counted from the READ's
		answers, repeats bool
	}{
		{0, true, true}, {nearby, true, true}, {nearby + 1, false, false}, {responses - nearby - 1, false, false},
		{responses - nearby, false, true}, {responses - 1, false, true}, {responses, false, true},
	} {
		at := (psn + x.psn) & psnMask
		require.Equal(t, x.answers, l.answers(at, bth.TransportRC), x.psn)
		require.Equal(t, x.repeats, l.contains(at, bth.TransportRC), x.psn)
	}
	l.answer(&Observation{Opcode: bth.RCRDMAReadResponseMiddle, PSN: (psn + nearby) & psnMask})
	require.True(t, l.answers((psn+2*nearby)&psnMask, bth.TransportRC), "the responses go on")
	require.False(t, l.answers((psn+2*nearby+1)&psnMask, bth.TransportRC))
}

// Successive READs of 2 GiB with an unknown path MTU may span more than half of all PSNs from the
// last answer on. A PSN at their far end is not near the last answer, although it is modulo 2^24.
func TestNearAnsweredBeyondHalf(t *testing.T) {
	const psn, octets = 0xFFFF00, 1 << 31
	l := announce(psn, bth.TransportRC)
	l.recordRequest(&Observation{Opcode: bth.RCSendOnly, PSN: psn}, 0, 0)
	l.answer(&Observation{Opcode: bth.RCAcknowledge, PSN: psn})
	for reads := range uint32(9) {
		next := l.next
		l.recordRequest(&Observation{Opcode: bth.RCRDMAReadRequest, PSN: next, DMA: octets}, 0, 0)
		require.Equal(t, (next+octets/4096)&psnMask, l.next)
		for d := uint32(2 * nearby); d < maxSlack; d += 10_000 {
			at := (l.next + d) & psnMask
			require.False(t, l.answers(at, bth.TransportRC), "%d READs, %d", reads+1, d)
			if !l.inOrder(int32(d), nearby) {
				require.False(t, l.contains(at, bth.TransportRC), "%d READs, %d", reads+1, d)
			}
		}
	}
}

// Requests with consecutive PSNs were seen, except for gaps of up to 64 packets. PSNs that a READ
// spans were not, nor those before it.
func TestSeen(t *testing.T) {
	const psn = 0xFFFF00
	l := announce(psn, bth.TransportRC)
	take := func(op bth.Opcode, n, octets uint32) {
		l.recordRequest(&Observation{Opcode: op, PSN: (psn + n) & psnMask, DMA: octets}, 4096, 0)
	}
	seen := func(n uint32) bool { return l.seen(distance(l.next, (psn+n)&psnMask)) }
	take(bth.RCSendOnly, 0, 0)
	for n := uint32(65); n <= 65*9; n += 65 { // each 64 later than expected
		take(bth.RCSendOnly, n, 0)
	}
	require.True(t, seen(0))
	require.True(t, seen(65*9))
	require.False(t, seen(65*9+1), "next")
	require.False(t, seen(1<<24-1), "the one before the first")
	take(bth.RCRDMAReadRequest, 65*9+1, 2*late*4096)
	require.True(t, seen(0), "a short READ")
	take(bth.RCRDMAReadRequest, 65*9+1+2*late, (2*late+1)*4096)
	const behind = 65*9 + 1 + 2*late + 2*late + 1
	for _, n := range []uint32{0, behind - 1, behind} {
		require.False(t, seen(n), "a longer READ")
	}
	take(bth.RCSendOnly, behind, 0)
	require.True(t, seen(behind))
	require.False(t, seen(behind-1))
}

// After a READ with an unknown path MTU the next request is further than expected: the skipped PSNs
// were not seen.
func TestSeenAfterRead(t *testing.T) {
	const psn = 0xFFFF00
	l := announce(psn, bth.TransportRC)
	l.recordRequest(&Observation{Opcode: bth.RCRDMAReadRequest, PSN: psn, DMA: 1 << 20}, 0, 0)
	l.recordRequest(&Observation{Opcode: bth.RCSendOnly, PSN: (psn + 4096) & psnMask}, 0, 0)
	require.False(t, l.seen(-1))
	l.recordRequest(&Observation{Opcode: bth.RCSendOnly, PSN: l.next}, 0, 0)
	require.True(t, l.seen(-1))
	require.False(t, l.seen(-2))
}

// Of more than 2^22 requests in a row, each 64 later than expected, the last 2^22 are as many as can be told apart.
func TestSeenForLong(t *testing.T) {
	l := announce(0, bth.TransportRC)
	for range uint32(1<<24+1<<22) / (late + 1) {
		l.recordRequest(&Observation{Opcode: bth.RCSendOnly, PSN: (l.next + late) & psnMask}, 0, 0)
	}
	require.True(t, l.seen(-span))
	require.False(t, l.seen(-span-1))
}
