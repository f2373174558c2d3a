package limit

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
)

var start = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

func TestNoLimit(t *testing.T) {
	var none *Every
	for range 1000 {
		for _, r := range []Rate{{}, {Burst: 5}, {PerSecond: -1}, {PerSecond: math.NaN()}, {PerSecond: math.Inf(1)}} {
			b := NewBucket(r)
			require.True(t, b.Ready(start), r)
			b.Charge(start)
			keyed := newBuckets(r, 16)
			require.Nil(t, keyed)
			require.True(t, keyed.Ready(7, start))
			keyed.Charge(7, start)
		}
		require.True(t, none.Ready(7, time.Hour, start))
		none.Record(7, start)
	}
	e := NewEvery(16)
	e.Record(7, start)
	require.True(t, e.Ready(7, 0, start))
	require.False(t, e.Ready(7, 1, start))
}

func TestBucket(t *testing.T) {
	for _, c := range []struct {
		name string
		rate Rate
		at   []time.Duration // when a packet comes
		sent string          // result for each packet: 1 sent, 0 not sent
	}{
		{"starts full", Rate{PerSecond: 10, Burst: 3}, []time.Duration{0, 0, 0, 0}, "1110"},
		{"burst 1 where none is given", Rate{PerSecond: 10}, []time.Duration{0, 0, 100e6 - 1, 100e6, 100e6}, "10010"},
		{"a refusal takes nothing", Rate{PerSecond: 1}, []time.Duration{0, 5e8, 9e8, 1e9, 19e8, 2e9}, "100101"},
		{"never more than full", Rate{PerSecond: 1e6, Burst: 2}, []time.Duration{0, 1e15, 1e15, 1e15}, "1110"},
		{"thirds", Rate{PerSecond: 3, Burst: 3}, []time.Duration{0, 0, 0, 333_333_333, 333_333_334, 666_666_667, 1e9},
			"1110111"},
		{"one in ten seconds", Rate{PerSecond: 0.1}, []time.Duration{0, 10e9 - 1, 10e9, 20e9}, "1011"},
		{"half a packet is kept", Rate{PerSecond: 10, Burst: 2}, []time.Duration{0, 0, 150e6, 199e6, 200e6}, "11101"},
		{"a large step back", Rate{PerSecond: 10}, []time.Duration{1e12, 0, 99e6, 100e6}, "1001"},
		{"a large step back keeps the tokens", Rate{PerSecond: 10, Burst: 3},
			[]time.Duration{1e12, 0, 0, 0, 100e6}, "11101"},
		{"a step back of a second is waited out", Rate{PerSecond: 10},
			[]time.Duration{5e9, 4e9, 4.1e9, 5e9, 5e9 + 99e6, 5e9 + 100e6}, "100001"},
		{"one of more than a second is not", Rate{PerSecond: 10},
			[]time.Duration{5e9, 4e9 - 1, 4e9 + 99e6 - 1, 4e9 + 100e6 - 1}, "1001"},
		{"large steps back and forth", Rate{PerSecond: 1}, []time.Duration{5e9, 3e9, 3.5e9, 4e9}, "1001"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, keyed := NewBucket(c.rate), newBuckets(c.rate, 16)
			for i, at := range c.at {
				now := start.Add(at)
				require.Equal(t, c.sent[i] == '1', b.Ready(now), "packet %d", i)
				require.Equal(t, c.sent[i] == '1', keyed.Ready(7, now), "packet %d of a key", i)
				if c.sent[i] == '1' {
					b.Charge(now)
					keyed.Charge(7, now)
				}
			}
		})
	}
}

func TestBucketTakenWhenEmptyIsEmpty(t *testing.T) {
	b, keyed := NewBucket(Rate{PerSecond: 1}), newBuckets(Rate{PerSecond: 1}, 4)
	for range 5 {
		b.Charge(start)
		keyed.Charge(7, start)
	}
	require.False(t, b.Ready(start.Add(time.Second-1)))
	require.False(t, keyed.Ready(7, start.Add(time.Second-1)))
	require.True(t, b.Ready(start.Add(time.Second)))
	require.True(t, keyed.Ready(7, start.Add(time.Second)))
}

// Each key has a bucket of its own.
func TestBuckets(t *testing.T) {
	b := newBuckets(Rate{PerSecond: 10, Burst: 2}, 1024)
	for i, key := range []uint64{0, 2, 3, math.MaxUint64} {
		now := start.Add(time.Duration(i) * time.Second)
		for range 2 {
			require.True(t, b.Ready(key, now))
			require.True(t, b.Ready(key, now), "asking takes nothing")
			b.Charge(key, now)
		}
		require.False(t, b.Ready(key, now.Add(100e6-1)))
		require.True(t, b.Ready(key, now.Add(100e6)))
	}
	require.Len(t, b.sets.All, 256)
	require.EqualValues(t, 24, unsafe.Sizeof(bucketOf{}))

	// A time before that of Unix.
	b = newBuckets(Rate{PerSecond: 1}, 4)
	epoch := time.Unix(0, 0)
	b.Charge(1, epoch.Add(-time.Hour))
	require.False(t, b.Ready(1, epoch.Add(-time.Hour+time.Second-1)))
	require.True(t, b.Ready(1, epoch.Add(-time.Hour+time.Second)))
}

// A full set forgets the fullest bucket, so that keys that have spent much are remembered.
func TestBucketsForgetTheFullest(t *testing.T) {
	b := newBuckets(Rate{PerSecond: 1, Burst: 9}, 4)
	for key, taken := range []int{5, 2, 1, 7} {
		for range taken {
			b.Charge(uint64(key)+2, start)
		}
	}
	b.Charge(9, start) // instead of key 4, which had taken 1
	at := func(key uint64) float64 {
		for _, s := range b.sets.All[0] {
			if s.key == key {
				return s.level / packet
			}
		}
		return -1
	}
	require.Equal(t, []float64{4, 7, -1, 2, 8}, []float64{at(2), at(3), at(4), at(5), at(9)})
	// Ten seconds later all are full: the first one is forgotten.
	b.Charge(10, start.Add(10*time.Second))
	require.Equal(t, []float64{-1, 8}, []float64{at(2), at(10)})
	require.Len(t, b.sets.All, 1)
}

// Two capture queues with clocks that differ by 200 ms take turns: every limit lets exactly as many
// packets pass as it would by the clock that is ahead.
func TestTwoClocks(t *testing.T) {
	const (
		packets  = 10_000
		apart    = 200 * time.Millisecond
		interval = 50 * time.Microsecond
	)
	rate := Rate{PerSecond: 1000, Burst: 3}
	for _, step := range []time.Duration{0, time.Nanosecond, 7 * time.Microsecond, interval, time.Millisecond} {
		var every, bucket, buckets [2]int // packets sent by both clocks, and by the one ahead
		e, b, k := NewEvery(4), NewBucket(rate), newBuckets(rate, 4)
		e1, b1, k1 := NewEvery(4), NewBucket(rate), newBuckets(rate, 4)
		for i := range packets {
			ahead := start.Add(time.Duration(i/2) * step) // a packet of each queue at a time
			now := ahead
			if i%2 == 1 {
				now = ahead.Add(-apart)
			}
			if e.Ready(7, interval, now) {
				e.Record(7, now)
				every[0]++
			}
			if b.Ready(now) {
				b.Charge(now)
				bucket[0]++
			}
			if k.Ready(7, now) {
				k.Charge(7, now)
				buckets[0]++
			}
			if e1.Ready(7, interval, ahead) {
				e1.Record(7, ahead)
				every[1]++
			}
			if b1.Ready(ahead) {
				b1.Charge(ahead)
				bucket[1]++
			}
			if k1.Ready(7, ahead) {
				k1.Charge(7, ahead)
				buckets[1]++
			}
		}
		span := step * (packets/2 - 1)
		require.Equal(t, every[1], every[0], step)
		require.Equal(t, bucket[1], bucket[0], step)
		require.Equal(t, buckets[1], buckets[0], step)
		require.LessOrEqual(t, every[0], 1+int(span/interval), step)
		require.LessOrEqual(t, bucket[0], min(packets, 3+int(span/time.Millisecond)), step)
		if step == 0 {
			require.Equal(t, []int{1, 3, 3}, []int{every[0], bucket[0], buckets[0]})
		}
	}
}

// Asking costs nothing, however often, and adds nothing.
func TestReadyChangesNothing(t *testing.T) {
	b := NewBucket(Rate{PerSecond: 7})
	b.Charge(start)
	for at := time.Duration(0); at < 142_857_142; at += 1001 {
		require.False(t, b.Ready(start.Add(at)))
	}
	require.True(t, b.Ready(start.Add(142_857_143)))
}

// In a random stream a bucket lets as much pass as its rate and burst say, and
// no less than a reference in whole nanoseconds.
func TestBucketAgainstReference(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, perSecond := range []int64{1, 2, 8, 10, 64, 100, 1000, 15625, 40000, 1e6} {
		interval := 1e9 / perSecond // of one packet, in whole nanoseconds
		burst := 1 + random.Int64N(20)
		b := NewBucket(Rate{PerSecond: float64(perSecond), Burst: int(burst)})
		now, credit := start, burst*interval
		for range 5000 {
			step := random.Int64N(interval * 3)
			now, credit = now.Add(time.Duration(step)), min(burst*interval, credit+step)
			require.Equal(t, credit >= interval, b.Ready(now))
			if credit >= interval {
				credit -= interval
				b.Charge(now)
			}
		}
	}
}

func TestEvery(t *testing.T) {
	const interval = 50 * time.Microsecond
	e := NewEvery(1024)
	ready := func(key uint64, at time.Duration) bool { return e.Ready(key, interval, start.Add(at)) }
	for _, key := range []uint64{0, 1, 2, math.MaxUint64} {
		if key == 1 {
			continue // 0 is kept as 1
		}
		require.True(t, ready(key, 0))
		require.True(t, ready(key, 0), "asking takes nothing")
		e.Record(key, start)
		require.False(t, ready(key, 0))
		require.False(t, ready(key, interval-1))
		require.True(t, ready(key, interval), "exactly one interval later")
		require.True(t, ready(key, 1000*time.Hour))
	}
	require.True(t, ready(3, 0), "another key")

	t.Run("small steps back are waited out", func(t *testing.T) {
		e := NewEvery(16)
		ready := func(at time.Duration) bool { return e.Ready(9, interval, start.Add(at)) }
		e.Record(9, start)
		require.False(t, ready(-time.Second))
		require.False(t, ready(interval-time.Second))
		require.False(t, ready(interval-1))
		require.True(t, ready(interval))
		e.Record(9, start.Add(interval-time.Second)) // taken at the time that stands still
		require.False(t, ready(2*interval-1))
		require.True(t, ready(2*interval))
	})
	t.Run("a step back of more than a second is not", func(t *testing.T) {
		e := NewEvery(16)
		e.Record(9, start)
		require.False(t, e.Ready(9, interval, start.Add(-time.Second-1)))
		require.True(t, e.Ready(9, interval, start.Add(-time.Second-1+interval)))
	})
	t.Run("large steps back", func(t *testing.T) {
		e.Record(9, start.Add(time.Hour))
		require.False(t, ready(9, 0))
		require.False(t, ready(9, interval-1))
		require.True(t, ready(9, interval))
	})
	t.Run("times beyond those of Unix", func(t *testing.T) {
		early := time.Time{}.Add(1)
		e.Record(10, early)
		require.False(t, e.Ready(10, interval, early.Add(interval-1)))
		require.True(t, e.Ready(10, interval, early.Add(interval)))
		epoch := time.Unix(0, 0)
		e.Record(11, epoch)
		require.False(t, e.Ready(11, interval, epoch))
	})
}

// More keys than there is room for: the memory stays, at times a packet comes
// too early, and none waits too long.
func TestEveryForgets(t *testing.T) {
	e := NewEvery(1000)
	require.Len(t, e.sets.All, 256)
	require.EqualValues(t, 16, unsafe.Sizeof(sent{}))
	for key := range uint64(100_000) {
		now := start.Add(time.Duration(key))
		require.True(t, e.Ready(key+2, time.Hour, now))
		e.Record(key+2, now)
		require.False(t, e.Ready(key+2, time.Hour, now))
	}
	known := 0
	for key := range uint64(100_000) {
		if !e.Ready(key+2, time.Hour, start) {
			known++
		}
	}
	require.Equal(t, 1024, known)
	for key := range uint64(100_000) {
		require.True(t, e.Ready(key+2, time.Hour, start.Add(2*time.Hour)))
	}
	require.Len(t, e.sets.All, 256)
}

// With a quarter as many keys as an Every has space for, all are remembered, in all likelihood, for
// any keys.
func TestEveryRemembers(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for _, c := range []struct {
		name string
		key  func(i int) uint64
	}{
		{"numbers", func(i int) uint64 { return uint64(i) + 2 }},
		{"high bits", func(i int) uint64 { return uint64(i+1) << 40 }},
		{"everywhere", func(int) uint64 { return random.Uint64() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := NewEvery(1 << 16)
			for i := range 1 << 12 {
				k := c.key(i)
				e.Record(k, start)
				require.False(t, e.Ready(k, time.Second, start))
			}
			known := 0
			for _, set := range e.sets.All {
				for _, s := range set {
					if s.key != 0 {
						known++
					}
				}
			}
			require.Equal(t, 1<<12, known)
		})
	}
}

func TestSmallestEvery(t *testing.T) {
	for _, n := range []int{-1, 0, 1, 4} {
		e := NewEvery(n)
		require.Len(t, e.sets.All, 1)
		for key := range uint64(5) {
			e.Record(key+2, start.Add(time.Duration(key)))
		}
		require.True(t, e.Ready(2, time.Hour, start), "the oldest is forgotten")
		for key := range uint64(4) {
			require.False(t, e.Ready(key+3, time.Hour, start))
		}
	}
}

// A full set drops the key that was sent longest ago, at any position and with any times.
func TestEveryForgetsTheOldest(t *testing.T) {
	known := func(e *Every, now time.Time) (keys []uint64) {
		for key := range uint64(8) {
			if key > 0 && !e.Ready(key, time.Hour, now) {
				keys = append(keys, key)
			}
		}
		return keys
	}
	e := NewEvery(4)
	for i, key := range []uint64{1, 2, 3, 4, 1, 2, 4, 5} {
		e.Record(key, start.Add(time.Duration(i)))
	}
	require.Equal(t, []uint64{1, 2, 4, 5}, known(e, start.Add(8)))

	e = NewEvery(4)
	e.Record(1, start)
	e.Record(2, start.Add(2*time.Minute))
	for i, key := range []uint64{3, 4, 5} {
		e.Record(key, start.Add(time.Minute+time.Duration(i)))
	}
	require.Equal(t, []uint64{2, 3, 4, 5}, known(e, start.Add(time.Minute+3)))
}

func TestNoAllocations(t *testing.T) {
	b, e, k := NewBucket(Rate{PerSecond: 1, Burst: 2}), NewEvery(64), newBuckets(Rate{PerSecond: 1, Burst: 2}, 64)
	now, key := start, uint64(0)
	wiretest.NoAllocs(t, "limits", func() {
		key++
		now = now.Add(time.Millisecond)
		if b.Ready(now) && e.Ready(key, time.Second, now) {
			b.Charge(now)
		}
		e.Record(key, now)
		k.Ready(key, now)
		k.Charge(key, now)
	})
}

// A bucket with another rate keeps its content, up to its new capacity, and its clock.
func TestBucketWith(t *testing.T) {
	after := func(r Rate, taken int, other Rate, at time.Duration) (left int) {
		b := NewBucket(r)
		for range taken {
			b.Charge(start)
		}
		b = b.With(other)
		for now := start.Add(at); b.Ready(now) && left < 99; left++ {
			b.Charge(now)
		}
		return left
	}
	three, five, one := Rate{PerSecond: 1, Burst: 3}, Rate{PerSecond: 2, Burst: 5}, Rate{PerSecond: 1}
	for _, c := range []struct {
		rate  Rate
		taken int
		other Rate
		at    time.Duration
		left  int
	}{
		{three, 1, five, 0, 2}, {three, 3, five, 0, 0}, // no more than it held
		{three, 0, five, 0, 5},                           // never used: full
		{three, 1, five, time.Second, 4},                 // at the new rate, from the time that it had
		{three, 0, one, 0, 1},                            // no more than fits
		{Rate{}, 0, three, 0, 3},                         // none before: full
		{three, 3, Rate{}, 0, 99},                        // no limit
		{three, 3, three, -2 * time.Second, 0},           // continues from the earlier time with its content
		{three, 3, three, -500 * time.Millisecond, 0},    // waits out the step back, and so
		{three, 3, five, -500 * time.Millisecond, 0},     // does the other
		{three, 3, five, 500 * time.Millisecond, 1},      // half a second at two
		{three, 3, five, 500*time.Millisecond - 1, 0},    // and no less
		{three, 3, Rate{PerSecond: -1}, time.Second, 99}, // no limit
	} {
		require.Equal(t, c.left, after(c.rate, c.taken, c.other, c.at), "%+v", c)
	}
}

// The time that passed before the rate was changed counts at the old rate.
func TestPastAtOldRate(t *testing.T) {
	slow, fast := Rate{PerSecond: 1, Burst: 100}, Rate{PerSecond: 50, Burst: 100}
	later := start.Add(2 * time.Second)
	for _, row := range []struct {
		name     string
		old, new Rate
		now, in  int // packets left immediately, and a second later
	}{
		{"faster", slow, fast, 2, 52},
		{"slower", fast, slow, 100, 100},
		{"less immediately", slow, Rate{PerSecond: 1}, 1, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			left := func(ready func() bool, take func()) (n int) {
				for ; ready(); n++ {
					take()
				}
				return n
			}
			for _, c := range []struct {
				in   time.Duration
				want int
			}{{0, row.now}, {time.Second, row.in}} {
				t.Run(fmt.Sprint(c.in), func(t *testing.T) {
					at := later.Add(c.in)
					one, all := NewBucket(row.old), newBuckets(row.old, 16)
					for range 100 {
						one.Charge(start)
						all.Charge(7, start)
					}
					one.Ready(later)    // the clock goes on
					all.Ready(8, later) // by another key
					one, all = one.With(row.new), all.With(row.new, 16)
					require.Equal(t, c.want, left(func() bool { return one.Ready(at) }, func() { one.Charge(at) }))
					got := left(func() bool { return all.Ready(7, at) }, func() { all.Charge(7, at) })
					require.Equal(t, c.want, got)
				})
			}
		})
	}
}

// Buckets with another rate are the same ones; where there was no limit, or is none any more, they are others.
func TestBucketsWith(t *testing.T) {
	b := newBuckets(Rate{PerSecond: 1, Burst: 2}, 16)
	b.Charge(7, start)
	b.Charge(7, start)
	b = b.With(Rate{PerSecond: 4, Burst: 2}, 1<<20)
	require.Len(t, b.sets.All, 4, "memory is taken once")
	require.False(t, b.Ready(7, start.Add(250*time.Millisecond-1)))
	require.True(t, b.Ready(7, start.Add(250*time.Millisecond)))
	require.True(t, b.Ready(8, start))
	b.Charge(8, start)
	b = b.With(Rate{PerSecond: 1, Burst: 1}, 16)
	b.Charge(8, start)
	require.False(t, b.Ready(8, start.Add(time.Second-1)))
	require.Nil(t, b.With(Rate{}, 16))
	require.Nil(t, (*Buckets)(nil).With(Rate{}, 16))
	require.Len(t, (*Buckets)(nil).With(Rate{PerSecond: 1}, 32).sets.All, 8)
}

// A packet with an unknown time has the latest time: it fills no bucket and ends no interval.
func TestWithoutTime(t *testing.T) {
	e, b := NewEvery(16), NewBucket(Rate{PerSecond: 1, Burst: 2})
	keyed := newBuckets(Rate{PerSecond: 1, Burst: 2}, 16)
	for range 2 {
		e.Record(9, start)
		b.Charge(start)
		keyed.Charge(9, start)
	}
	for _, at := range []time.Time{{}, start, {}, start.Add(time.Millisecond)} {
		require.False(t, e.Ready(9, time.Second, at))
		require.False(t, b.Ready(at))
		require.False(t, keyed.Ready(9, at))
	}
	require.True(t, e.Ready(9, time.Second, start.Add(time.Second)))
	require.True(t, b.Ready(start.Add(time.Second)))
	require.True(t, keyed.Ready(9, start.Add(time.Second)))
}

// A flow gets a notification every 50 µs at most, and all flows together 1,000 a second, with a
// burst of 2.
func Example() {
	perFlow := NewEvery(1 << 16)
	total := NewBucket(Rate{PerSecond: 1000, Burst: 2})

	now := time.Unix(0, 0)
	for _, flow := range []uint64{17, 17, 18, 19} {
		if !perFlow.Ready(flow, 50*time.Microsecond, now) || !total.Ready(now) {
			fmt.Println(flow, "limited")
			continue
		}
		perFlow.Record(flow, now)
		total.Charge(now)
		fmt.Println(flow, "sent")
	}
	// Output:
	// 17 sent
	// 17 limited
	// 18 sent
	// 19 limited
}
