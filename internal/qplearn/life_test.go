package qplearn

import (
	"testing"

	"github.com/rocecn/rocecn/bth"
	"github.com/stretchr/testify/require"
)

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
