package flows

import (
	"math/bits"
	"time"
)

// A Histogram counts durations. Its percentiles are within 1/32, about 3 %, of
// the true ones: every power of two nanoseconds is divided in 16. What is below
// 16 ns counts as it is, what is over 2^39 ns, nine minutes, as that long. A nil
// Histogram has counted none.
type Histogram struct {
	counts   [histogramSize]uint64
	n        uint64
	min, max time.Duration
}

const (
	histogramBits = 4 // of the duration behind its highest one, which choose the bucket
	histogramTop  = 39
	histogramSize = (histogramTop - histogramBits + 1) << histogramBits
)

// Add counts a duration. One below 0 counts as 0: clocks jump back.
func (h *Histogram) Add(d time.Duration) {
	d = max(d, 0)
	if h.n == 0 || d < h.min {
		h.min = d
	}
	h.max = max(h.max, d)
	h.n++
	h.counts[bucketOf(d)]++
}

// bucketOf returns the number of the bucket that d is counted in.
func bucketOf(d time.Duration) int {
	v := min(uint64(d), 1<<histogramTop-1)
	shift := max(bits.Len64(v)-1-histogramBits, 0)
	return shift<<histogramBits + int(v>>shift)
}

// Count returns how many durations were counted.
func (h *Histogram) Count() uint64 {
	if h == nil {
		return 0
	}
	return h.n
}

// Min returns the least duration, 0 without any.
func (h *Histogram) Min() time.Duration {
	if h == nil {
		return 0
	}
	return h.min
}

// Percentile returns the duration that a share p of all do not exceed, 0 < p ≤ 1;
// 0 without any.
func (h *Histogram) Percentile(p float64) time.Duration {
	if h.Count() == 0 {
		return 0
	}
	return h.durationAt(rankOf(p, h.n))
}

// rankOf returns which of n values in ascending order, from 1, is the one that a
// share p of all do not exceed.
func rankOf(p float64, n uint64) uint64 {
	return min(max(uint64(p*float64(n)+0.999999), 1), n)
}

// durationAt returns the duration that is this one in ascending order, from 1.
func (h *Histogram) durationAt(rank uint64) time.Duration {
	var seen uint64
	for i, n := range h.counts {
		if seen += n; seen >= rank {
			return min(max(bucketMiddle(i), h.min), h.max)
		}
	}
	return h.max
}

// bucketMiddle returns the middle of a bucket.
func bucketMiddle(i int) time.Duration {
	if i < 2<<histogramBits {
		return time.Duration(i)
	}
	shift := i>>histogramBits - 1
	low := uint64(i&(1<<histogramBits-1)|1<<histogramBits) << shift
	return time.Duration(low + 1<<shift/2)
}

// clone returns a copy, nil of nil.
func (h *Histogram) clone() *Histogram {
	if h == nil {
		return nil
	}
	own := *h
	return &own
}

// subtractOld takes the durations out of h that old had counted already. Least and
// greatest are as exact then as the buckets.
func (h *Histogram) subtractOld(old *Histogram) {
	if h == nil || old == nil {
		return
	}
	h.n = 0
	for i := range h.counts {
		h.counts[i] -= old.counts[i]
		if h.counts[i] > 0 {
			if h.n == 0 {
				h.min = bucketMiddle(i)
			}
			h.max = bucketMiddle(i)
			h.n += h.counts[i]
		}
	}
	if h.n == 0 {
		h.min, h.max = 0, 0
	}
}
