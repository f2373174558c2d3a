package sim

import "math"

// A Stream is a sequence of random numbers for one purpose: SplitMix64 (Steele, Lea and Flood, 2014). Its n-th number
// can be computed without those before it. Each purpose has its own stream, so the numbers that one part of a run draws
// do not change those of another, and two variants of a scenario see the same numbers.
type Stream struct{ key, n uint64 }

const golden = 0x9E3779B97F4A7C15

// NewStream returns the stream of a run for one purpose and one of its users,
// such as a port.
func NewStream(seed uint64, purpose string, index int) Stream {
	key := mix(seed + golden)
	for i := range len(purpose) {
		key = mix(key ^ uint64(purpose[i]) + golden)
	}
	return Stream{key: mix(key ^ uint64(index) + golden)}
}

// Uint64 returns the next number.
func (s *Stream) Uint64() uint64 {
	s.n++
	return mix(s.key + s.n*golden)
}

// Number returns the number for a pair of keys, independent of the numbers drawn before.
func (s *Stream) Number(a, b uint64) uint64 { return mix(mix(s.key^a) + b*golden) }

// Below returns a number from 0 to n-1.
func (s *Stream) Below(n uint64) uint64 {
	for most := -n % n; ; { // 2^64 mod n
		if x := s.Uint64(); x >= most {
			return x % n
		}
	}
}

// Float64 returns a number from 0 up to but not including 1.
func (s *Stream) Float64() float64 { return float64(s.Uint64()>>11) / (1 << 53) }

// Exponential returns a time, exponentially distributed with this mean.
func (s *Stream) Exponential(mean Time) Time {
	return Time(-math.Log1p(-s.Float64()) * float64(mean))
}

func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}
