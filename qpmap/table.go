package qpmap

import (
	"github.com/rocecn/rocecn/internal/flowtable"
	"github.com/rocecn/rocecn/internal/hash"
	"github.com/rocecn/rocecn/rocev2"
)

// key is a [Key] without pointers.
type key = flowtable.Key

func keyOf(k *Key) key { return flowtable.KeyOf(k.Src, k.Dst, k.DestQP, k.Domain) }

func public(k *key) Key {
	src, dst := k.Addrs()
	return Key{rocev2.FlowKey{Src: src, Dst: dst, DestQP: k.DestQP()}, k.Domain}
}

// numbered is a key and a number: of an announcement the flow and its first PSN; of a pending CM exchange the
// addresses, as the REQ has them, and the requester's communication id.
type numbered struct {
	key
	number uint32
}

// Hash returns a hash of the whole key; without the seed an attacker cannot choose keys that collide.
func (k *numbered) Hash(seed uint64) uint64 {
	return hash.Mix(k.key.Hash(seed)^uint64(k.number), seed^0xA0761D6478BD642F)
}

// A table is a [flowtable.Table] of flows.
type table[V any] struct{ flowtable.Table[key, V] }

func newTable[V any](entries int, grow bool) table[V] {
	return table[V]{flowtable.New[key, V](entries, grow, (*key).Hash)}
}

// get returns the id of the entry with this key, 0 when there is none.
func (t *table[V]) get(k *key) uint32 {
	_, id := t.Find(k, k.Hash(t.Seed))
	return id
}

// add adds an entry as the newest of a list, and returns 0 if the table is full. The key must be new.
func (t *table[V]) add(k *key, list uint32) uint32 { return t.Add(k, k.Hash(t.Seed), list) }

// put is add to list 0, which evicts the oldest entry of a full table.
func (t *table[V]) put(k *key) uint32 { return t.Put(k, k.Hash(t.Seed)) }

// An exchanges is a [flowtable.Table] of what CM messages said.
type exchanges[V any] struct{ flowtable.Table[numbered, V] }

func newExchanges[V any](entries int, grow bool) exchanges[V] {
	return exchanges[V]{flowtable.New[numbered, V](entries, grow, (*numbered).Hash)}
}

// get and put are those of a table.
func (t *exchanges[V]) get(k *numbered) uint32 {
	_, id := t.Find(k, k.Hash(t.Seed))
	return id
}

func (t *exchanges[V]) put(k *numbered) uint32 { return t.Put(k, k.Hash(t.Seed)) }
