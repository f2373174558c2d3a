package qplearn

import (
	"cmp"
	"math/rand/v2"

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
func (k *numbered) Hash(seed uint64) uint64 { return hashNumber(k.key.Hash(seed), k.number, seed) }

// hashNumber returns the hash of a numbered of which the key has this hash.
func hashNumber(keyHash uint64, number uint32, seed uint64) uint64 {
	return hash.Mix(keyHash^uint64(number), seed^0xA0761D6478BD642F)
}

// A table is a [flowtable.Table] of flows, with the shares of domains and prefixes.
type table[V any] struct {
	flowtable.Table[key, V]
	shares *flowtable.Shares
}

func newTable[V any](entries int, grow bool) table[V] {
	return table[V]{flowtable.New[key, V](entries, grow, (*key).Hash), newShares(grow)}
}

// newShares returns new shares, or with grow nil: those are allocated with the first value.
func newShares(grow bool) *flowtable.Shares {
	if grow {
		return nil
	}
	return new(flowtable.Shares)
}

// countShare counts a new value.
func countShare(shares **flowtable.Shares, k *key, seed uint64) {
	if *shares == nil {
		*shares = new(flowtable.Shares)
	}
	(*shares).Add(k, seed)
}

// Add is [flowtable.Table.Add].
func (t *table[V]) Add(k *key, hash uint64, list uint32) (id uint32) {
	if id = t.Table.Add(k, hash, list); id != 0 {
		countShare(&t.shares, k, t.Seed)
	}
	return id
}

// Remove is [flowtable.Table.Remove].
func (t *table[V]) Remove(id uint32) {
	t.shares.Remove(t.Key(id), t.Seed)
	t.Table.Remove(id)
}

// Expire is [flowtable.Table.Expire].
func (t *table[V]) Expire(past func(*V) bool) (n int) {
	for id := range t.All() {
		if past(t.Value(id)) {
			t.Remove(id)
			n++
		}
	}
	return n
}

// compare is [flowtable.Shares.Compare] for the value with an id and a new one.
func (t *table[V]) compare(id uint32, k *key) int {
	victim := t.Key(id)
	return t.shares.Compare(victim, k, victim.QP&datagramSlot != 0, k.QP&datagramSlot != 0, t.Seed)
}

// picks is the number of values of a full table of which one is evicted if its domain or prefixes have more than their
// share: as those have most of the values, the first ones that are picked are enough.
const picks = 16

// pick returns the id of a random value of a full table that has to make room for a new one, 0 if none is found.
func (t *table[V]) pick(k *key, random *rand.PCG, spare func(id uint32) bool) uint32 {
	for range picks {
		if id := t.Pick(random.Uint64()); t.compare(id, k) > 0 && !spare(id) {
			return id
		}
	}
	return 0
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

// An exchanges is a [flowtable.Table] of the contents of CM messages, with the shares of domains and prefixes.
type exchanges[V any] struct {
	flowtable.Table[numbered, V]
	shares *flowtable.Shares
	oneWay bool // one message makes an entry, and not one of each end
}

func newExchanges[V any](entries int, grow, oneWay bool) exchanges[V] {
	return exchanges[V]{flowtable.New[numbered, V](entries, grow, (*numbered).Hash), newShares(grow), oneWay}
}

// get returns the value with this key, and its id; nil and 0 when there is none.
func (t *exchanges[V]) get(k *numbered) (*V, uint32) { return t.Find(k, k.Hash(t.Seed)) }

// addValue adds a value, and returns its id. In a full table the oldest one makes room, except for those of domains
// and prefixes that have less than the new one.
func (t *exchanges[V]) addValue(k *numbered) uint32 {
	if t.Full() {
		t.Remove(cmp.Or(t.Victim(0, flowtable.Looks, func(id uint32) bool {
			return t.shares.Compare(&t.Key(id).key, &k.key, t.oneWay, t.oneWay, t.Seed) < 0
		}), t.Oldest(0)))
	}
	countShare(&t.shares, &k.key, t.Seed)
	return t.Table.Add(k, k.Hash(t.Seed), 0)
}

// Remove is [flowtable.Table.Remove].
func (t *exchanges[V]) Remove(id uint32) {
	t.shares.Remove(&t.Key(id).key, t.Seed)
	t.Table.Remove(id)
}

// Expire is [flowtable.Table.Expire].
func (t *exchanges[V]) Expire(past func(*V) bool) {
	for id := range t.All() {
		if past(t.Value(id)) {
			t.Remove(id)
		}
	}
}
