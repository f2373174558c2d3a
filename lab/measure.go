package lab

import (
	"math"
	"math/bits"
	"slices"

	"github.com/rocecn/rocecn/lab/sim"
)

// A Histogram counts weighted values from 0 on, in buckets with a width of 1/64
// of their value. Its memory depends only on the largest value.
type Histogram struct {
	weights []uint64
	sum     float64 // of value times weight
	max     uint64
}

const bucketBits = 6

func bucketIndex(v uint64) int {
	shift := max(bits.Len64(v)-bucketBits-1, 0)
	return shift<<bucketBits + int(v>>shift)
}

// bucketMiddle returns the value that represents a bucket.
func bucketMiddle(b int) uint64 {
	shift := max(b>>bucketBits-1, 0)
	low := uint64(b-shift<<bucketBits) << shift
	return low + 1<<shift/2
}

// Add counts a value.
func (h *Histogram) Add(v, weight uint64) {
	b := bucketIndex(v)
	for b >= len(h.weights) {
		h.weights = append(h.weights, 0)
	}
	h.weights[b] += weight
	h.sum += float64(v) * float64(weight)
	h.max = max(h.max, v)
}

// Join returns a Histogram with the values of both.
func (h *Histogram) Join(o *Histogram) Histogram {
	j := Histogram{
		weights: slices.Clone(h.weights), sum: h.sum + o.sum, max: max(h.max, o.max),
	}
	for i, w := range o.weights {
		if i == len(j.weights) {
			j.weights = append(j.weights, 0)
		}
		j.weights[i] += w
	}
	return j
}

// Mean returns the mean; 0 if nothing was counted.
func (h *Histogram) Mean() float64 {
	total := h.Count()
	if total == 0 {
		return 0
	}
	return h.sum / float64(total)
}

// Max returns the largest value.
func (h *Histogram) Max() uint64 { return h.max }

// Count returns the sum of the weights.
func (h *Histogram) Count() (sum uint64) {
	for _, w := range h.weights {
		sum += w
	}
	return sum
}

// Quantile returns the value that a share q of the weight does not exceed, with
// an error of at most 1 in 64.
func (h *Histogram) Quantile(q float64) uint64 {
	if q >= 1 {
		return h.max
	}
	rest := q * float64(h.Count())
	for b, w := range h.weights {
		if rest -= float64(w); rest <= 0 && w > 0 {
			return min(bucketMiddle(b), h.max)
		}
	}
	return h.max
}

// Deviation returns the standard deviation of the values of the buckets.
func (h *Histogram) Deviation() float64 {
	total := h.Count()
	if total == 0 {
		return 0
	}
	mean, sum := h.Mean(), 0.
	for b, w := range h.weights {
		d := float64(bucketMiddle(b)) - mean
		sum += float64(d*d) * float64(w)
	}
	return math.Sqrt(sum / float64(total))
}

// A Meter measures the data queue of a port from [Port.Meter] to [Port.Stop].
type Meter struct {
	Queue Histogram // octets of the queue, by picoseconds; complete after Stop

	depth uint64
	since sim.Time
	empty uint64 // picoseconds at depth 0 that are not yet in Queue
}

// advanceTo counts the depth until now, and records the new one.
func (m *Meter) advanceTo(now sim.Time, depth int64) {
	switch {
	case now == m.since:
	case m.depth == 0: // most ports of a large network are empty at most times: their buckets stay out of the cache
		m.empty += uint64(now - m.since)
	default:
		m.Queue.Add(m.depth, uint64(now-m.since))
	}
	m.since, m.depth = now, uint64(depth)
}

// stop counts the depth until now.
func (m *Meter) stop(now sim.Time) {
	m.advanceTo(now, 0)
	if m.empty > 0 {
		m.Queue.Add(0, m.empty)
		m.empty = 0
	}
}

// Jain returns Jain's index of fairness: 1 if all shares are equal, 1/n if one
// has everything.
func Jain(shares []float64) float64 {
	sum, squares := 0., 0.
	for _, x := range shares {
		sum += x
		squares += float64(x * x)
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(shares)) * squares)
}

// Median returns the median of at least one value, and the bounds between which the median of all such values
// lies with a probability of 95 %, or the best that fewer than six values allow. The bounds are the k-th value
// from either end. They hold for any distribution, because fewer than k of n coin tosses are heads in at most
// 2.5 % of all cases.
func Median(values []float64) (m, from, to float64) {
	values = slices.Sorted(slices.Values(values))
	n := len(values)
	exactly := -float64(n) * math.Ln2 // the logarithm of the probability of k heads: 0.5ⁿ itself may be too small
	k, fewer := 0, math.Exp(exactly)  // the probability of k heads or fewer
	for {
		exactly += math.Log(float64(n-k) / float64(k+1))
		if k+1 > n/2 || fewer+math.Exp(exactly) > 0.025 {
			break
		}
		k++
		fewer += math.Exp(exactly)
	}
	return (values[(n-1)/2] + values[n/2]) / 2, values[k], values[n-1-k]
}
