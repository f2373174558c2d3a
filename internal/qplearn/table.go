package qplearn

import (
	"github.com/rocecn/rocecn/internal/flowtable"
	"github.com/rocecn/rocecn/internal/hash"
)

// A key names a flow of a domain.
type key = flowtable.Key

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

// find returns the value of a flow, nil when there is none.
func (t *table[V]) find(k *key) *V {
	v, _ := t.Find(k, k.Hash(t.Seed))
	return v
}

// remove removes the value of a flow, if there is one.
func (t *table[V]) remove(k *key) (removed bool) {
	_, id := t.Find(k, k.Hash(t.Seed))
	if id != 0 {
		t.Remove(id)
	}
	return id != 0
}

// An exchanges is a [flowtable.Table] of the contents of CM messages.
type exchanges[V any] struct{ flowtable.Table[numbered, V] }

func newExchanges[V any](entries int, grow bool) exchanges[V] {
	return exchanges[V]{flowtable.New[numbered, V](entries, grow, (*numbered).Hash)}
}

// get returns the value with this key, and its id; nil and 0 when there is none.
func (t *exchanges[V]) get(k *numbered) (*V, uint32) { return t.Find(k, k.Hash(t.Seed)) }

// addValue adds a value, and returns its id. In a full table the oldest one makes room.
func (t *exchanges[V]) addValue(k *numbered) uint32 { return t.AddOrEvict(k, k.Hash(t.Seed)) }
