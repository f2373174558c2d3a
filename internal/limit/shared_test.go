package limit

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// sharedBy returns a Shared for a rate.
func sharedBy(r Rate) *Shared { return (*Shared)(nil).With(r) }

// A key alone has the limit of a Bucket.
func TestSharedAlone(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, rate := range []Rate{{PerSecond: 1}, {PerSecond: 100, Burst: 7}, {PerSecond: 1e6, Burst: 1000}} {
		one, other, now := NewBucket(rate), sharedBy(rate), start
		for range 10_000 {
			now = now.Add(time.Duration(r.Float64() * 2e9 / rate.PerSecond))
			require.Equal(t, one.Ready(now), other.Ready(7, now))
			if one.Ready(now) {
				one.Charge(now)
				other.Charge(7, now)
			}
		}
	}
	require.Nil(t, sharedBy(Rate{}))
	require.True(t, (*Shared)(nil).Ready(1, start))
	(*Shared)(nil).Charge(1, start)
	(*Shared)(nil).ChargeDebt(start)
}

// While one key floods, the others lose nothing within their part, and all together get no more than the rate and the
// Burst.
func TestSharedFlood(t *testing.T) {
	for _, burst := range []int{10, 100, 1000} {
		t.Run(fmt.Sprint(burst), func(t *testing.T) {
			const perSecond, seconds = 10_000, 20
			s, r := sharedBy(Rate{PerSecond: perSecond, Burst: burst}), rand.New(rand.NewPCG(3, 4))
			honest, sent, flood := 0, 0, 0
			pass := func(key uint64, now time.Time) bool {
				ready := s.Ready(key, now)
				if ready {
					s.Charge(key, now)
				}
				return ready
			}
			const step = 10 * time.Microsecond // ten times the rate in all
			steps := int(seconds * time.Second / step)
			for n := range steps {
				now := start.Add(time.Duration(n) * step)
				if pass(0, now) {
					flood++
				}
				if n%20 == 0 { // 5,000 a second of four keys in turn
					sent++
					if pass(1+uint64(r.IntN(4)), now) {
						honest++
					}
				}
			}
			require.GreaterOrEqual(t, honest, sent*99/100)
			require.LessOrEqual(t, honest+flood, perSecond*seconds+burst)
			require.Greater(t, honest+flood, perSecond*seconds*98/100, "nothing of the rate is left over")
		})
	}
}

// A Shared with another rate keeps its content.
func TestSharedWith(t *testing.T) {
	s := sharedBy(Rate{PerSecond: 1, Burst: 4})
	for range 3 {
		require.True(t, s.Ready(5, start))
		s.Charge(5, start)
	}
	s = s.With(Rate{PerSecond: 1, Burst: 8})
	require.True(t, s.Ready(5, start))
	s.Charge(5, start)
	require.False(t, s.Ready(5, start))
	s.ChargeDebt(start)
	require.False(t, s.Ready(5, start.Add(time.Second)))
	require.Nil(t, s.With(Rate{}))
}

func TestSharedAllocatesNothing(t *testing.T) {
	s, now, key := sharedBy(Rate{PerSecond: 1000}), start, uint64(0)
	wiretest.NoAllocs(t, "limit", func() {
		now, key = now.Add(time.Microsecond), key*3+1
		if s.Ready(key, now) {
			s.Charge(key, now)
		}
	})
}

// With a rival, a key gets its part and the half of the Burst that is not kept for parts. A Burst of less than 8 has no
// parts.
func TestSharedReserve(t *testing.T) {
	for _, row := range []struct{ burst, greedy, rival int }{
		{1, 1, 0}, {4, 4, 0}, {7, 7, 0}, {8, 4, 4}, {16, 8, 8}, {1000, 500, 500},
	} {
		t.Run(fmt.Sprint(row.burst), func(t *testing.T) {
			s := sharedBy(Rate{PerSecond: 1, Burst: row.burst})
			take := func(key uint64) (n int) {
				for s.Ready(key, start) {
					s.Charge(key, start)
					n++
				}
				return n
			}
			s.Ready(2, start)
			require.Equal(t, row.greedy, take(1))
			rivals := 0
			for key := range uint64(4) {
				rivals += take(3 + key)
			}
			require.Equal(t, row.rival, rivals)
		})
	}
}
