package flowtable

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
)

// A collider is a key that shares its hash with fifteen others, for every seed.
type collider uint32

func (c *collider) Hash(uint64) uint64 { return uint64(*c) / 16 }

// A model behaves as a Table, with a map and slices.
type model[K comparable] struct {
	most  int
	value map[K]int
	lists [lists][]K // the oldest first
}

func (m *model[K]) unlink(k K) {
	for i, l := range m.lists {
		m.lists[i] = slices.DeleteFunc(l, func(x K) bool { return x == k })
	}
}

func (t *Table[K, V]) find(k *K) (*V, uint32)       { return t.Find(k, t.hash(k, t.Seed)) }
func (t *Table[K, V]) add(k *K, list uint32) uint32 { return t.Add(k, t.hash(k, t.Seed), list) }

// A pair is a Table and its model.
type pair[K comparable] struct {
	t     testing.TB
	table Table[K, int]
	model model[K]
}

func newPair[K comparable](t testing.TB, most int, grow bool, hash func(*K, uint64) uint64) *pair[K] {
	return &pair[K]{t, New[K, int](most, grow, hash), model[K]{most: most, value: map[K]int{}}}
}

// do does one of the operations with a key and arguments derived from a number.
func (p *pair[K]) do(operation uint8, k K, n int) {
	list := uint32(n) % lists
	v, id := p.table.find(&k)
	value, there := p.model.value[k]
	require.Equal(p.t, []bool{there, there}, []bool{id != 0, v != nil})
	if there {
		require.Equal(p.t, k, *p.table.Key(id))
		require.Equal(p.t, value, *p.table.Value(id))
		require.Same(p.t, p.table.Value(id), v)
	}
	switch operation % 8 {
	case 0, 1, 2:
		switch {
		case there:
			*p.table.Value(id) = n
			p.model.value[k] = n
		case len(p.model.value) == p.model.most:
			require.Zero(p.t, p.table.add(&k, list))
		default:
			id := p.table.add(&k, list)
			require.NotZero(p.t, id)
			require.Zero(p.t, *p.table.Value(id), "earlier entries are gone")
			*p.table.Value(id) = n
			p.model.value[k] = n
			p.model.lists[list] = append(p.model.lists[list], k)
		}
	case 3, 4:
		if there {
			p.table.Renew(id, list)
			p.model.unlink(k)
			p.model.lists[list] = append(p.model.lists[list], k)
		}
	case 5:
		if there {
			p.table.Remove(id)
			delete(p.model.value, k)
			p.model.unlink(k)
		}
	case 6: // a victim other than the value of this key and even values
		spare := func(k2 K) bool { return k2 == k || p.model.value[k2]%2 == 0 }
		looks := n % 8
		got := p.table.Victim(list, looks, func(id uint32) bool { return spare(*p.table.Key(id)) })
		for l := &p.model.lists[list]; ; looks-- {
			if looks == 0 || len(*l) == 0 {
				require.Zero(p.t, got)
				return
			}
			oldest := (*l)[0]
			if !spare(oldest) {
				require.Equal(p.t, oldest, *p.table.Key(got))
				p.table.Remove(got)
				delete(p.model.value, oldest)
				p.model.unlink(oldest)
				return
			}
			*l = append((*l)[1:], oldest)
		}
	case 7: // all of a value are removed while the table is walked
		if n%7 != 0 {
			return
		}
		for id := range p.table.All() {
			if *p.table.Value(id)%5 == 0 {
				k := *p.table.Key(id)
				p.table.Remove(id)
				delete(p.model.value, k)
				p.model.unlink(k)
			}
		}
	}
}

// check compares all of a Table with its model.
func (p *pair[K]) check() {
	require.Equal(p.t, len(p.model.value), p.table.Len())
	require.Equal(p.t, len(p.model.value) == p.model.most, p.table.Full())
	for list := range uint32(lists) {
		var ages []K
		for id := p.table.Oldest(list); id != 0; id = p.table.Newer(id) {
			ages = append(ages, *p.table.Key(id))
		}
		require.Equal(p.t, len(p.model.lists[list]), len(ages))
		require.Equal(p.t, append([]K(nil), p.model.lists[list]...), ages)
	}
	n := 0
	for id := range p.table.All() {
		n++
		require.Equal(p.t, p.model.value[*p.table.Key(id)], *p.table.Value(id))
		_, found := p.table.find(p.table.Key(id))
		require.Equal(p.t, id, found)
	}
	require.Equal(p.t, len(p.model.value), n)
	for id := range uint32(p.model.most + 2*lists) {
		if p.table.Holds(id) {
			n--
		}
	}
	require.Zero(p.t, n)
	require.False(p.t, p.table.Holds(1<<32-1))
	n = p.table.Len()
	taken := 0
	for _, place := range p.table.places {
		if place.id != 0 {
			taken++
		}
	}
	require.Equal(p.t, n, taken)
	require.LessOrEqual(p.t, 4*taken, 3*len(p.table.places))
}

// After any operations a table and its model return the same: with and without keys that collide,
// nearly full and full, with all memory allocated at the start and as the table fills.
func TestModel(t *testing.T) {
	for seed, c := range []struct {
		most, keys int
		grow       bool
	}{{1, 3, true}, {2, 5, false}, {7, 12, true}, {64, 80, false}, {200, 250, true}, {1000, 500, true},
		{62, 64, true}} {
		r := rand.New(rand.NewPCG(uint64(seed), 5))
		colliders, flows := newPair(t, c.most, c.grow, (*collider).Hash), newPair(t, c.most, c.grow, (*Key).Hash)
		for step := range wiretest.Rounds(20_000) {
			operation, key, n := uint8(r.Uint32()), uint32(r.IntN(c.keys)), r.IntN(1000)
			colliders.do(operation, collider(key), n)
			flows.do(operation, Key{QP: key}, n)
			if step%100 == 0 {
				colliders.check()
				flows.check()
			}
		}
		require.Equal(t, colliders.model.most, colliders.table.most)
	}
}

// Three octets are an operation, a key and a number.
func FuzzTable(f *testing.F) {
	f.Add([]byte("\x00\x01\x02\x00\x02\x03\x06\x01\x05"))
	f.Add([]byte("\x00\x00\x01\x00\x10\x01\x00\x20\x01\x05\x00\x00\x00\x30\x01\x06\x10\x08\x07\x00\x07"))
	f.Fuzz(func(t *testing.T, script []byte) {
		for _, grow := range []bool{false, true} {
			p := newPair(t, 40, grow, (*collider).Hash)
			for s := script; len(s) >= 3; s = s[3:] {
				p.do(s[0], collider(s[1]), int(s[2]))
			}
			p.check()
		}
	})
}

// The zero Table, of a feature that is off, is empty and has no space.
func TestZeroTable(t *testing.T) {
	var table Table[Key, int]
	_, id := table.Find(&Key{}, 0)
	require.Zero(t, id)
	require.Zero(t, table.Len())
	require.True(t, table.Full())
	require.Zero(t, table.Add(&Key{}, 0, 0))
	require.Zero(t, table.Oldest(0))
	require.Zero(t, table.Victim(0, 1, nil))
	for range table.All() {
		t.Fatal("there is nothing")
	}
}

// The order of eviction is that of the clock algorithm: a value that was used since the hand passed
// gets a second chance, and a spared value is as recent as a new one.
func TestVictim(t *testing.T) {
	table := New[Key, bool](4, true, (*Key).Hash) // the value says that it was used
	var ids []uint32
	for i := range uint32(4) {
		ids = append(ids, table.add(&Key{QP: i}, 0))
	}
	held := ids[2]
	evict := func() uint32 {
		id := table.Victim(0, 2*table.Len()+1, func(id uint32) bool {
			used := table.Value(id)
			spared := *used || id == held
			*used = false
			return spared
		})
		qp := table.Key(id).QP
		table.Remove(id)
		return qp
	}
	*table.Value(ids[0]) = true
	require.EqualValues(t, 1, evict(), "0 was used")
	require.EqualValues(t, 3, evict(), "2 is held")
	require.EqualValues(t, 0, evict(), "0 was not used since")
	held = 0
	require.EqualValues(t, 2, evict())
	require.Zero(t, table.Len())
	// If all values are spared, no victim is found and the search ends.
	table.add(&Key{QP: 9}, 0)
	require.Zero(t, table.Victim(0, 100, func(uint32) bool { return true }))
}

// Keys that make one table slow are like any others to another table: an attacker without the seed
// cannot choose them.
func TestChosenKeys(t *testing.T) {
	const n = 1000
	pair := KeyOf(netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2"), 0, 0)
	known, table := New[Key, int](1<<17, true, (*Key).Hash), New[Key, int](1<<17, true, (*Key).Hash)
	require.NotEqual(t, known.Seed, table.Seed)
	for qp := uint32(2); table.Len() < n; qp++ {
		if k := pair.WithQP(qp); k.Hash(known.Seed)&0xFFF == 7 {
			known.add(&k, 0)
			table.add(&k, 0)
		}
	}
	require.Less(t, table.probes(), 8.0)
	require.Greater(t, known.probes(), n/4.0)
}

// probes returns the mean number of places that are read to find a key of the table.
func (t *Table[K, V]) probes() float64 {
	mask, sum := uint32(len(t.places)-1), 0
	for i, p := range t.places {
		if p.id != 0 {
			sum += 1 + int((uint32(i)-p.hash)&mask)
		}
	}
	return float64(sum) / float64(t.len)
}

// A table takes 8 octets for a value and its key, and 11 to 22 for the index. A table that
// allocates all memory at the start does not move them.
func TestMemory(t *testing.T) {
	require.EqualValues(t, 40, unsafe.Sizeof(Key{}))
	require.EqualValues(t, 40+8+16, unsafe.Sizeof(entry[Key, [2]uint64]{}))
	for _, most := range []uint32{1, 5, 63, 100, 1<<16 - 1, 1 << 16} {
		table := New[Key, [2]uint64](int(most), false, (*Key).Hash)
		places, entries := &table.places[0], &table.blocks[0][0]
		octets := 8 * len(table.places)
		require.True(t, octets >= 10*int(most) && octets <= 22*int(most), octets)
		require.Len(t, table.blocks[0], int(most)+lists)
		for i := range most {
			require.NotZero(t, table.add(&Key{QP: i}, 0))
		}
		require.Same(t, places, &table.places[0])
		require.Same(t, entries, &table.blocks[0][0])
		require.Zero(t, table.add(&Key{QP: most}, 0))
	}
}

// A table that has once been full allocates nothing, and neither does a table that allocated all
// memory at the start.
func TestNoAllocations(t *testing.T) {
	for _, grow := range []bool{false, true} {
		table := New[Key, [4]uint64](100, grow, (*Key).Hash)
		i := uint32(0)
		turn := func() {
			i++
			k := Key{QP: i}
			hash := k.Hash(table.Seed)
			if v, _ := table.Find(&k, hash); v == nil && table.Full() {
				victim := table.Victim(0, 200, func(id uint32) bool { return table.Key(id).QP%7 == i%7 })
				table.Remove(victim)
			}
			table.Renew(table.Add(&k, hash, i%lists), 0)
		}
		if grow {
			for range 1000 {
				turn()
			}
		}
		wiretest.NoAllocs(t, "turn", turn)
	}
}

// Put makes room for a new value, of the oldest of list 0; Expire removes all that are past.
func TestPutAndExpire(t *testing.T) {
	table := New[Key, int](3, true, (*Key).Hash)
	put := func(qp uint32) {
		k := Key{QP: qp}
		*table.Value(table.AddOrEvict(&k, k.Hash(table.Seed))) = int(qp)
	}
	qps := func() (all []uint32) {
		for id := table.Oldest(0); id != 0; id = table.Newer(id) {
			all = append(all, table.Key(id).QP)
		}
		return all
	}
	for qp := range uint32(5) {
		put(qp)
	}
	require.Equal(t, []uint32{2, 3, 4}, qps())
	require.Equal(t, 2, table.Expire(func(v *int) bool { return *v != 3 }))
	require.Equal(t, []uint32{3}, qps())
	put(9)
	require.Equal(t, []uint32{3, 9}, qps())
}

// Keys that differ in one octet are different, wherever that is.
func TestSimilarKeys(t *testing.T) {
	table := New[Key, int](100, true, (*Key).Hash)
	keys := []Key{{}, {QP: 1}, {Domain: 1}}
	for i := range 16 {
		var src, dst Key
		src.Src[i], dst.Dst[i] = 1, 1
		keys = append(keys, src, dst)
	}
	for i := range keys {
		table.Add(&keys[i], 7, 0) // as if all hashes were the same
	}
	for i := range keys {
		_, id := table.Find(&keys[i], 7)
		require.Equal(t, keys[i], *table.Key(id))
	}
	_, id := table.Find(&Key{QP: 2}, 7)
	require.Zero(t, id)
}

// All places of a set are found, also by key 0.
func TestSets(t *testing.T) {
	type entry struct{ _, _ uint64 }
	for _, c := range []struct{ keys, sets int }{{-1, 1}, {0, 1}, {4, 1}, {5, 2}, {1000, 256}} {
		s := NewSets[entry](c.keys)
		require.Len(t, s.All, c.sets)
		used := map[*[4]entry]bool{}
		for key := range uint64(10_000) {
			kept, set := s.Find(key)
			require.NotZero(t, kept)
			require.True(t, kept == key || key == 0)
			used[set] = true
		}
		require.Len(t, used, c.sets)
	}
}

// A value stays where it is while others come and go, as users keep pointers to values.
func TestValuesStay(t *testing.T) {
	for _, grow := range []bool{false, true} {
		table := New[Key, int](1000, grow, (*Key).Hash)
		at := map[uint32]*int{}
		for i := range uint32(1000) {
			id := table.add(&Key{QP: i}, 0)
			at[id] = table.Value(id)
			*at[id] = int(i)
		}
		for id, v := range at {
			require.Same(t, v, table.Value(id))
			require.EqualValues(t, *v, table.Key(id).QP)
		}
	}
}

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
