// Package flowtable has the parts of tables of flows: a [Key] without pointers, a [Table] that finds values by key
// and keeps them in order of use, and [Sets], a cache that evicts.
//
// The keys come from packets, so an attacker can choose them. Two measures defend against that: the random seed of
// each table makes collisions of hashes unpredictable, and a table has a maximum size.
package flowtable

import (
	"iter"
	"math/rand/v2"
)

// A Table finds values by key. Each value has an id, 2 or above, from Add to Remove; id 0 means no value. The zero
// Table has a maximum of 0: it is empty, and full.
//
// Every value is in one of two lists, 0 and 1, each in the order of age: from the value that was added or renewed
// longest ago to the latest.
type Table[K comparable, V any] struct {
	// Seed is the random seed of the hashes. It must not change while the table has values.
	Seed uint64

	hash   func(k *K, seed uint64) uint64
	blocks [][]entry[K, V] // of 2^shift entries each, which never move; entries 0 and 1 are the ends of the lists
	shift  uint8
	n      uint32 // entries used so far, with those that are free again
	places []place
	free   uint32 // the first free entry of those used before, 0 if there is none
	len    int
	most   int
}

// An entry has no pointers, if K and V have none.
type entry[K comparable, V any] struct {
	key K
	// The neighbours in the list. Entry 0 or 1 joins the two ends of its list to a ring. In a free entry, older is
	// the entry's own id, and newer the id of the next free entry.
	older, newer uint32
	value        V
}

// lists is the number of lists.
const lists = 2

// The places are an index with open addressing and linear probing: an entry is at the place that
// the lower bits of its hash give, or after it with no free place between. At most three quarters
// of the places are used.
type place struct {
	hash uint32 // its lower bits
	id   uint32 // 0: free
}

// New returns a table for at most most values. hash hashes the keys. New allocates all memory
// immediately, or with grow the table allocates as it fills.
func New[K comparable, V any](most int, grow bool, hash func(k *K, seed uint64) uint64) Table[K, V] {
	t := Table[K, V]{Seed: rand.Uint64(), hash: hash, shift: 6, most: most}
	if !grow {
		t.shift, t.blocks = 31, [][]entry[K, V]{make([]entry[K, V], lists+most)}
		places := 1
		for 3*places < 4*most {
			places *= 2
		}
		t.places = make([]place, places)
	}
	return t
}

func (t *Table[K, V]) entry(id uint32) *entry[K, V] {
	shift := t.shift & 31 // as it is; so the compiler knows, too
	return &t.blocks[id>>shift][id&(1<<shift-1)]
}

// extend returns the id of an entry that was never used.
func (t *Table[K, V]) extend() uint32 {
	for {
		if int(t.n>>t.shift) == len(t.blocks) {
			t.blocks = append(t.blocks, make([]entry[K, V], 1<<t.shift))
		}
		id := t.n
		if t.n++; id >= lists {
			return id
		}
		*t.entry(id) = entry[K, V]{older: id, newer: id}
	}
}

// Value returns the value with an id. The pointer is valid until the value is removed.
func (t *Table[K, V]) Value(id uint32) *V { return &t.entry(id).value }

// Holds reports whether there is a value with an id.
func (t *Table[K, V]) Holds(id uint32) bool {
	return lists <= id && id < t.n && t.entry(id).older != id
}

// Key returns the key of the value with an id.
func (t *Table[K, V]) Key(id uint32) *K { return &t.entry(id).key }

// Len returns the number of values.
func (t *Table[K, V]) Len() int { return t.len }

// Full reports whether the table has no space for another value.
func (t *Table[K, V]) Full() bool { return t.len >= t.most }

// Find returns the value with a key, and its id; nil and 0 if there is none. The caller passes the key's hash: a
// call of the function value t.hash here would make the key escape to the heap.
func (t *Table[K, V]) Find(k *K, hash uint64) (*V, uint32) {
	if len(t.places) == 0 {
		return nil, 0
	}
	mask := uint32(len(t.places) - 1)
	for i := uint32(hash) & mask; ; i = (i + 1) & mask {
		p := t.places[i]
		if p.id == 0 {
			return nil, 0
		}
		if p.hash == uint32(hash) {
			if e := t.entry(p.id); same(&e.key, k) {
				return &e.value, p.id
			}
		}
	}
}

// same is *a == *b. A Key is compared in place, as the compiler would call a function for all of it.
func same[K comparable](a, b *K) bool {
	if a, ok := any(a).(*Key); ok {
		b, _ := any(b).(*Key)
		return a.QP == b.QP && a.Domain == b.Domain && a.Src == b.Src && a.Dst == b.Dst
	}
	return *a == *b
}

// Add adds a zero value as the newest of a list, and returns its id; 0 if the table is full. The table must not
// have the key yet, and hash must be the key's.
func (t *Table[K, V]) Add(k *K, hash uint64, list uint32) uint32 {
	if t.Full() {
		return 0
	}
	if 4*(t.len+1) > 3*len(t.places) {
		old := t.places
		t.places = make([]place, max(64, 2*len(old)))
		for _, p := range old {
			if p.id != 0 {
				t.indexPlace(p)
			}
		}
	}
	id := t.free
	if id != 0 {
		t.free = t.entry(id).newer
	} else {
		id = t.extend()
	}
	t.len++
	t.indexPlace(place{uint32(hash), id})
	t.entry(id).key = *k
	t.link(t.entry(id), id, list)
	return id
}

// AddOrEvict is Add to list 0, where the oldest value of that list makes room if the table is full.
func (t *Table[K, V]) AddOrEvict(k *K, hash uint64) uint32 {
	if t.Full() {
		t.Remove(t.Oldest(0))
	}
	return t.Add(k, hash, 0)
}

func (t *Table[K, V]) indexPlace(p place) {
	mask := uint32(len(t.places) - 1)
	i := p.hash & mask
	for t.places[i].id != 0 {
		i = (i + 1) & mask
	}
	t.places[i] = p
}

// Remove removes a value. Entries of the index after its place move up, as probing stops at a gap.
func (t *Table[K, V]) Remove(id uint32) {
	e := t.entry(id)
	mask := uint32(len(t.places) - 1)
	gap := uint32(t.hash(&e.key, t.Seed)) & mask
	for t.places[gap].id != id {
		gap = (gap + 1) & mask
	}
	for i := (gap + 1) & mask; t.places[i].id != 0; i = (i + 1) & mask {
		if home := t.places[i].hash & mask; (i-home)&mask >= (i-gap)&mask {
			t.places[gap], gap = t.places[i], i
		}
	}
	t.places[gap] = place{}
	t.unlink(e)
	*e = entry[K, V]{older: id, newer: t.free}
	t.free = id
	t.len--
}

// Renew makes a value the newest of a list.
func (t *Table[K, V]) Renew(id, list uint32) {
	if e := t.entry(id); e.newer != list { // not the newest yet
		t.unlink(e)
		t.link(e, id, list)
	}
}

// Oldest returns the id of the oldest value of a list, 0 if the list is empty.
func (t *Table[K, V]) Oldest(list uint32) uint32 {
	if t.len == 0 {
		return 0
	}
	return t.Newer(list)
}

// Pick returns the id of the value of a full table that r chooses.
func (t *Table[K, V]) Pick(r uint64) uint32 { return lists + uint32(r%uint64(t.len)) }

// Newer returns the id of the next newer value of the same list, 0 for the newest.
func (t *Table[K, V]) Newer(id uint32) uint32 {
	if id = t.entry(id).newer; id < lists {
		return 0
	}
	return id
}

// Victim returns the id of the value to evict: the oldest of a list for which spare returns false. It looks at no
// more than looks values, which bounds its cost, and returns 0 if all of them are spared. A spared value becomes the
// newest. With a spare that reports and clears a used mark this is second-chance (clock) eviction.
func (t *Table[K, V]) Victim(list uint32, looks int, spare func(id uint32) bool) uint32 {
	for range looks {
		id := t.Oldest(list)
		if id == 0 || !spare(id) {
			return id
		}
		t.Renew(id, list)
	}
	return 0
}

// All yields the ids of all values, in an order that does not depend on the seed. The loop may remove the value that
// it was just given.
func (t *Table[K, V]) All() iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for id := uint32(lists); id < t.n; id++ {
			if t.Holds(id) && !yield(id) {
				return
			}
		}
	}
}

// Expire removes the values for which past returns true, and returns their number.
func (t *Table[K, V]) Expire(past func(*V) bool) (n int) {
	for id := range t.All() {
		if past(t.Value(id)) {
			t.Remove(id)
			n++
		}
	}
	return n
}

func (t *Table[K, V]) link(e *entry[K, V], id, list uint32) {
	end := t.entry(list)
	e.older, e.newer = end.older, list
	t.entry(end.older).newer = id
	end.older = id
}

func (t *Table[K, V]) unlink(e *entry[K, V]) {
	t.entry(e.older).newer = e.newer
	t.entry(e.newer).older = e.older
}
