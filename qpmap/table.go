package qpmap

import (
	"github.com/rocecn/rocecn/internal/flowtable"
	"github.com/rocecn/rocecn/internal/hash"
	"github.com/rocecn/rocecn/rocev2"
)

// key is a [Key] without pointers. Its QP has only flags, and in the key of an announcement also the first PSN.
type key struct {
	flowtable.Key
	id uint32 // queue pair, or for a pending CM exchange the requester's communication id
}

func keyOf(k Key) key { return key{flowtable.KeyOf(k.Src, k.Dst, 0, k.Domain), k.DestQP} }

// back returns the key of the opposite direction.
func (k *key) back(id uint32) key { return key{k.Reversed(0), id} }

// with returns the key with another queue pair at the same destination.
func (k *key) with(id uint32) key { return key{k.WithQP(0), id} }

func (k *key) public() Key {
	src, dst := k.Addrs()
	return Key{rocev2.FlowKey{Src: src, Dst: dst, DestQP: k.id}, k.Domain}
}

// hash returns a hash of the whole key; without the seed an attacker cannot choose keys that collide.
func (k *key) hash(seed uint64) uint64 {
	return hash.Mix(k.Key.Hash(seed)^uint64(k.id), seed^0xA0761D6478BD642F)
}

// A table is a [flowtable.Table] whose keys it hashes itself.
type table[V any] struct{ flowtable.Table[key, V] }

func newTable[V any](entries int, grow bool) table[V] {
	return table[V]{flowtable.New[key, V](entries, grow, (*key).hash)}
}

// get returns the id of the entry with this key, 0 when there is none.
func (t *table[V]) get(k *key) uint32 {
	_, id := t.Find(k, k.hash(t.Seed))
	return id
}

// add adds an entry as the newest of a list, and returns 0 if the table is full. The key must be new.
func (t *table[V]) add(k *key, list uint32) uint32 { return t.Add(k, k.hash(t.Seed), list) }

// put is add to list 0, which evicts the oldest entry of a full table.
func (t *table[V]) put(k *key) uint32 {
	if t.Full() {
		t.Remove(t.Oldest(0))
	}
	return t.add(k, 0)
}

// expire removes the entries that are past, and returns how many.
func (t *table[V]) expire(past func(*V) bool) (n int) {
	for id := range t.All() {
		if past(t.At(id)) {
			t.Remove(id)
			n++
		}
	}
	return n
}
