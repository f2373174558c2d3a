package limit

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

var start = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

func TestNoLimit(t *testing.T) {
	var none *Every
	for range 1000 {
		for _, r := range []Rate{{}, {Burst: 5}, {PerSecond: -1}, {PerSecond: math.NaN()}, {PerSecond: math.Inf(1)}} {
			b := NewBucket(r)
			require.True(t, b.Ready(start), r)
			b.Take(start)
		}
		require.True(t, none.Ready(7, time.Hour, start))
		none.Take(7, start)
	}
	e := NewEvery(16)
	e.Take(7, start)
	require.True(t, e.Ready(7, 0, start))
	require.False(t, e.Ready(7, 1, start))
}

func TestBucket(t *testing.T) {
	for _, c := range []struct {
		name string
		rate Rate
		at   []time.Duration // when a packet comes
		sent string          // what becomes of it: 1 sent, 0 not
	}{
		{"starts full", Rate{PerSecond: 10, Burst: 3}, []time.Duration{0, 0, 0, 0}, "1110"},
		{"burst 1 where none is given", Rate{PerSecond: 10}, []time.Duration{0, 0, 100e6 - 1, 100e6, 100e6}, "10010"},
		{"a refusal takes nothing", Rate{PerSecond: 1}, []time.Duration{0, 5e8, 9e8, 1e9, 19e8, 2e9}, "100101"},
		{"never more than full", Rate{PerSecond: 1e6, Burst: 2}, []time.Duration{0, 1e15, 1e15, 1e15}, "1110"},
		{"thirds", Rate{PerSecond: 3, Burst: 3}, []time.Duration{0, 0, 0, 333_333_333, 333_333_334, 666_666_667, 1e9}, "1110111"},
		{"one in ten seconds", Rate{PerSecond: 0.1}, []time.Duration{0, 10e9 - 1, 10e9, 20e9}, "1011"},
		{"half a packet is kept", Rate{PerSecond: 10, Burst: 2}, []time.Duration{0, 0, 150e6, 199e6, 200e6}, "11101"},
		{"time jumps back", Rate{PerSecond: 10}, []time.Duration{1e12, 0, 99e6, 100e6}, "1001"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := NewBucket(c.rate)
			for i, at := range c.at {
				now := start.Add(at)
				require.Equal(t, c.sent[i] == '1', b.Ready(now), "packet %d", i)
				if c.sent[i] == '1' {
					b.Take(now)
				}
			}
		})
	}
}

func TestBucketTakenWhenEmptyIsEmpty(t *testing.T) {
	b := NewBucket(Rate{PerSecond: 1})
	for range 5 {
		b.Take(start)
	}
	require.False(t, b.Ready(start.Add(time.Second-1)))
	require.True(t, b.Ready(start.Add(time.Second)))
}

// Asking costs nothing, however often, and adds nothing.
func TestAskingChangesNothing(t *testing.T) {
	b := NewBucket(Rate{PerSecond: 7})
	b.Take(start)
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
				b.Take(now)
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
		e.Take(key, start)
		require.False(t, ready(key, 0))
		require.False(t, ready(key, interval-1))
		require.True(t, ready(key, interval), "exactly one interval later")
		require.True(t, ready(key, 1000*time.Hour))
	}
	require.True(t, ready(3, 0), "another key")

	t.Run("time jumps back", func(t *testing.T) {
		e.Take(9, start.Add(time.Hour))
		require.False(t, ready(9, 0))
		require.False(t, ready(9, interval-1))
		require.True(t, ready(9, interval))
	})
	t.Run("times beyond those of Unix", func(t *testing.T) {
		var zero time.Time
		e.Take(10, zero)
		require.False(t, e.Ready(10, interval, zero.Add(interval-1)))
		require.True(t, e.Ready(10, interval, zero.Add(interval)))
		epoch := time.Unix(0, 0)
		e.Take(11, epoch)
		require.False(t, e.Ready(11, interval, epoch))
	})
}

// More keys than there is room for: the memory stays, at times a packet comes
// too early, and none waits too long.
func TestEveryForgets(t *testing.T) {
	e := NewEvery(1000)
	require.Len(t, e.sets, 256)
	require.EqualValues(t, 16, unsafe.Sizeof(sent{}))
	for key := range uint64(100_000) {
		now := start.Add(time.Duration(key))
		require.True(t, e.Ready(key+2, time.Hour, now))
		e.Take(key+2, now)
		require.False(t, e.Ready(key+2, time.Hour, now))
	}
	known := 0
	for key := range uint64(100_000) {
		if !e.Ready(key+2, time.Hour, start) {
			known++
		}
		require.True(t, e.Ready(key+2, time.Hour, start.Add(2*time.Hour)))
	}
	require.Equal(t, 1024, known)
	require.Len(t, e.sets, 256)
}

// A quarter of the keys that there is room for are all remembered, in all
// likelihood, whatever the keys.
func TestEveryRemembers(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for name, key := range map[string]func(i int) uint64{
		"numbers":    func(i int) uint64 { return uint64(i) + 2 },
		"high bits":  func(i int) uint64 { return uint64(i+1) << 40 },
		"everywhere": func(int) uint64 { return random.Uint64() },
	} {
		t.Run(name, func(t *testing.T) {
			e := NewEvery(1 << 16)
			for i := range 1 << 12 {
				k := key(i)
				e.Take(k, start)
				require.False(t, e.Ready(k, time.Second, start))
			}
			known := 0
			for _, set := range e.sets {
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
		require.Len(t, e.sets, 1)
		for key := range uint64(5) {
			e.Take(key+2, start.Add(time.Duration(key)))
		}
		require.True(t, e.Ready(2, time.Hour, start), "the oldest is forgotten")
		for key := range uint64(4) {
			require.False(t, e.Ready(key+3, time.Hour, start))
		}
	}
}

func TestNoAllocations(t *testing.T) {
	b, e := NewBucket(Rate{PerSecond: 1, Burst: 2}), NewEvery(64)
	now, key := start, uint64(0)
	wiretest.NoAllocs(t, "limits", func() {
		key++
		now = now.Add(time.Millisecond)
		if b.Ready(now) && e.Ready(key, time.Second, now) {
			b.Take(now)
		}
		e.Take(key, now)
	})
}
