package flows

import (
	"math/bits"
	"slices"
	"time"
)

// A Histogram counts durations in logarithmic buckets, 16 for each power of two nanoseconds, so
// that percentiles have an error of at most 1/32 (3 %). Values below 16 ns are exact, and values
// above 2^39 ns (nine minutes) count as 2^39 ns. A nil Histogram is empty.
type Histogram struct {
	counts   []uint64 // of the buckets from first on; all others are empty
	first    int
	n        uint64
	min, max time.Duration
}

const (
	histogramBits = 4 // number of bits after the highest one that select the bucket
	histogramTop  = 39
	histogramSize = (histogramTop - histogramBits + 1) << histogramBits
	minBuckets    = 8 // a power of two
)

// Add counts a duration. Negative ones, caused by clock steps, count as 0.
func (h *Histogram) Add(d time.Duration) {
	d = max(d, 0)
	if h.n == 0 || d < h.min {
		h.min = d
	}
	h.max = max(h.max, d)
	h.n++
	i := bucketOf(d) - h.first
	if uint(i) >= uint(len(h.counts)) {
		h.extendTo(i + h.first)
		i = bucketOf(d) - h.first
	}
	h.counts[i]++
}

// extendTo extends counts to a bucket, in the direction of the bucket by as many buckets as there are, so
// that few extensions are needed.
func (h *Histogram) extendTo(bucket int) {
	first, end := h.first, h.first+len(h.counts)
	switch {
	case len(h.counts) == 0:
		first = bucket &^ (minBuckets - 1)
		end = first + minBuckets
	case bucket < first:
		first = max(min(bucket, first-len(h.counts)), 0)
	default:
		end = min(max(bucket+1, end+len(h.counts)), histogramSize)
	}
	counts := make([]uint64, end-first)
	copy(counts[max(h.first-first, 0):], h.counts)
	h.counts, h.first = counts, first
}

// bucketOf returns the index of the bucket for d.
func bucketOf(d time.Duration) int {
	v := min(uint64(d), 1<<histogramTop-1)
	shift := max(bits.Len64(v)-1-histogramBits, 0)
	return shift<<histogramBits + int(v>>shift)
}

// Count returns the number of durations.
func (h *Histogram) Count() uint64 {
	if h == nil {
		return 0
	}
	return h.n
}

// Min returns the smallest duration, or 0 if there are none.
func (h *Histogram) Min() time.Duration {
	if h == nil {
		return 0
	}
	return h.min
}

// Percentile returns the smallest duration that is not exceeded by the share p of all durations, 0
// < p ≤ 1; 0 if there are none.
func (h *Histogram) Percentile(p float64) time.Duration {
	if h.Count() == 0 {
		return 0
	}
	return h.durationAt(rankOf(p, h.n))
}

// rankOf returns the rank, from 1, of the percentile p in n sorted values.
func rankOf(p float64, n uint64) uint64 { return min(max(uint64(p*float64(n)+0.999999), 1), n) }

// durationAt returns the duration with this rank in ascending order, from 1.
func (h *Histogram) durationAt(rank uint64) time.Duration {
	var seen uint64
	for i, n := range h.counts {
		if seen += n; seen >= rank {
			return min(max(bucketMiddle(h.first+i), h.min), h.max)
		}
	}
	return h.max
}

// bucketMiddle returns the middle of bucket i.
func bucketMiddle(i int) time.Duration {
	if i < 2<<histogramBits {
		return time.Duration(i)
	}
	shift := i>>histogramBits - 1
	low := uint64(i&(1<<histogramBits-1)|1<<histogramBits) << shift
	return time.Duration(low + 1<<shift/2)
}

// clone returns a copy, or nil for nil.
func (h *Histogram) clone() *Histogram {
	if h == nil {
		return nil
	}
	own := *h
	own.counts = slices.Clone(h.counts)
	return &own
}

// subtractOld subtracts the durations that an earlier copy contains. Min and max are then as exact
// as the buckets.
func (h *Histogram) subtractOld(old *Histogram) {
	if h == nil || old == nil {
		return
	}
	h.n = 0
	for i := range h.counts {
		if j := h.first + i - old.first; uint(j) < uint(len(old.counts)) {
			h.counts[i] -= old.counts[j]
		}
		if h.counts[i] > 0 {
			if h.n == 0 {
				h.min = bucketMiddle(h.first + i)
			}
			h.max = bucketMiddle(h.first + i)
			h.n += h.counts[i]
		}
	}
	if h.n == 0 {
		h.min, h.max = 0, 0
	}
}
