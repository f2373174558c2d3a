package flows

import (
	"math"
	"slices"
	"time"
)

// Delays are differences of times at B and at A, negative ones too. The zero
// value has none.
type Delays struct {
	few           [4]time.Duration // while there are no more than these
	n             uint64
	min, max      time.Duration
	after, before *Histogram // of those from 0 on; of the negative ones, without the sign
}

// addDelay counts a difference.
func (d *Delays) addDelay(delay time.Duration) {
	if d.n == 0 {
		d.min, d.max = delay, delay
	}
	d.min, d.max = min(d.min, delay), max(d.max, delay)
	if d.n < uint64(len(d.few)) {
		d.few[d.n] = delay
		d.n++
		return
	}
	if d.n == uint64(len(d.few)) {
		for _, one := range d.few {
			d.addToHistogram(one)
		}
	}
	d.n++
	d.addToHistogram(delay)
}

func (d *Delays) addToHistogram(delay time.Duration) {
	h, size := &d.after, delay
	if delay < 0 {
		h, size = &d.before, -max(delay, -math.MaxInt64)
	}
	if *h == nil {
		*h = new(Histogram)
	}
	(*h).Add(size)
}

// Count returns how many differences were counted.
func (d *Delays) Count() uint64 { return d.n }

// Percentile returns the difference that a share p of all do not exceed, within
// 1/32 of the true one: 0 < p ≤ 1; 0 without any.
func (d *Delays) Percentile(p float64) time.Duration {
	if d.n == 0 {
		return 0
	}
	rank := rankOf(p, d.n)
	if d.n <= uint64(len(d.few)) {
		few := d.few
		slices.Sort(few[:d.n])
		return few[rank-1]
	}
	below := d.before.Count()
	if rank <= below {
		return -d.before.durationAt(below - rank + 1)
	}
	return d.after.durationAt(rank - below)
}

// Min returns the least difference, 0 without any.
func (d *Delays) Min() time.Duration { return d.min }

// Max returns the greatest difference, 0 without any.
func (d *Delays) Max() time.Duration { return d.max }
