package flowtable

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/rocev2"
)

// Every family comes back as it was, and no two keys are the same.
func TestKey(t *testing.T) {
	four, six := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")
	mapped := netip.MustParseAddr("::ffff:192.0.2.1")
	seen := map[Key]bool{}
	for _, src := range []netip.Addr{four, six, mapped} {
		for _, dst := range []netip.Addr{four, six, mapped} {
			for _, qp := range []uint32{0, 17, MaxQP} {
				for _, domain := range []uint32{0, 1, 1<<32 - 1} {
					of := rocev2.FlowKey{Src: src, Dst: dst, DestQP: qp}
					k := KeyOf(src, dst, qp, domain)
					require.False(t, seen[k])
					seen[k] = true
					require.Equal(t, of, k.FlowKey())
					require.Equal(t, qp, k.DestQP())
					require.NotEqual(t, k, KeyOf(src, dst, qp|1<<24|1<<31, domain), "a queue pair has 24 bits")
					require.Equal(t, KeyOf(dst, src, 99, domain), k.Reversed(99))
					require.Equal(t, k.Reversed(99), k.Reversed(99|1<<24|1<<31))
					require.Equal(t, KeyOf(src, dst, 99, domain), k.WithQP(99))
					require.Equal(t, k.WithQP(99), k.WithQP(99|1<<24|1<<31))
				}
			}
		}
	}
}

// No half of an address hides the rest, so that an attacker without the seed cannot choose keys
// that collide. The queue pair and the domain count as well.
func TestHash(t *testing.T) {
	seed := rand.Uint64()
	seen := map[uint64]Key{}
	add := func(k Key) {
		h := k.Hash(seed)
		require.True(t, seen[h] == Key{} || seen[h] == k, k)
		seen[h] = k
	}
	for _, half := range []uint64{0, 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93, 0xA0761D6478BD642F} {
		for i := range uint64(1000) {
			for n := range 4 { // the half that is the same
				halves := [4]uint64{i, i, i, i}
				halves[n] = half
				var k Key
				for j, h := range halves {
					if j < 2 {
						binary.LittleEndian.PutUint64(k.Src[8*j:], h)
					} else {
						binary.LittleEndian.PutUint64(k.Dst[8*j-16:], h)
					}
				}
				k.QP = 17
				add(k)
			}
			add(Key{QP: uint32(i) + 18})
			add(Key{QP: 17, Domain: uint32(i) + 1})
		}
	}
}

// All other octets count for any value of one half of an address, including values that make a
// factor 0 for another seed.
func TestAddresses(t *testing.T) {
	zeroes := []uint64{0, 1<<64 - 1, 0xA0761D6478BD642F, 0x78BD642FA0761D64} // of seed 0, in the last two
	r := rand.New(rand.NewPCG(1, 2))
	for _, seed := range []uint64{r.Uint64(), r.Uint64()} {
		seen := map[uint64][2][16]byte{}
		for fixed := range 4 {
			for _, zero := range zeroes {
				for range 100 {
					var words [4]uint64
					for i := range words {
						words[i] = r.Uint64()
					}
					words[fixed] = zero
					var addrs [2][16]byte
					for i, w := range words {
						binary.LittleEndian.PutUint64(addrs[i/2][i%2*8:], w)
					}
					h := addresses(&addrs[0], &addrs[1], seed)
					require.Zero(t, seen[h], addrs)
					seen[h] = addrs
					require.NotEqual(t, h, addresses(&addrs[1], &addrs[0], seed), "in the other order")
					require.NotEqual(t, h, addresses(&addrs[0], &addrs[1], seed+1), "for another seed")
				}
			}
		}
	}
}
