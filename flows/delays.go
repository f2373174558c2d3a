package flows

import (
	"math"
	"slices"
	"time"
)

// Delays collects time differences between B and A, which may be negative. The zero value is empty.
type Delays struct {
	few           [4]time.Duration // the values, as long as there are at most four
	n             uint64
	min, max      time.Duration
	after, before *Histogram // values from 0 on; absolute values of negative ones
}

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

// Count returns the number of values.
func (d *Delays) Count() uint64 { return d.n }

// Percentile returns the smallest value that is not exceeded by the share p of all values, 0 < p ≤
// 1, with an error of at most 1/32; 0 if there are none.
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

// Min returns the smallest value, or 0 if there are none.
func (d *Delays) Min() time.Duration { return d.min }

// Max returns the largest value, or 0 if there are none.
func (d *Delays) Max() time.Duration { return d.max }
