package qpmap

import (
	"math/bits"
	"net/netip"

	"github.com/rocecn/rocecn/internal/hash"
	"github.com/rocecn/rocecn/rocev2"
)

// key is a [rocev2.FlowKey] and a domain without pointers. IPv4 addresses are
// ::ffff:a.b.c.d. For a pending CM exchange id is the requester's communication
// id instead of a queue pair.
type key struct {
	src, dst [16]byte
	id       uint32
	domain   uint32
}

func keyOf(k rocev2.FlowKey, domain uint32) key {
	return key{k.Src.As16(), k.Dst.As16(), k.DestQP, domain}
}

// back returns the key of what comes back: the addresses exchanged.
func (k *key) back(id uint32) key { return key{k.dst, k.src, id, k.domain} }

// with returns the key with another queue pair at the same destination.
func (k *key) with(id uint32) key { return key{k.src, k.dst, id, k.domain} }

func (k *key) flowKey() rocev2.FlowKey {
	return rocev2.FlowKey{Src: netip.AddrFrom16(k.src).Unmap(), Dst: netip.AddrFrom16(k.dst).Unmap(), DestQP: k.id}
}

// hash mixes all of the key with a seed, which keeps others from choosing keys
// that collide.
func (k *key) hash(seed uint64) uint64 {
	return hash.Mix(k.hashAddrs(seed)^uint64(k.id), seed^0xA0761D6478BD642F)
}

// hashAddrs is hash without the queue pair.
func (k *key) hashAddrs(seed uint64) uint64 {
	return hash.Mix(hash.Addresses(&k.src, &k.dst, seed)^uint64(k.domain), seed^0xE7037ED1A0B428DB)
}

// A table holds at most as many entries as it was made for. All memory is taken
// when it is made, no entry has a pointer, and every entry stands in one of two
// lists by age, so that the oldest of a list is found at once. Entries are
// addressed by slot number; slot 0 is none.
type table[V any] struct {
	seed    uint64
	buckets []uint32 // first slot of each chain
	slots   []slot[V]
	unused  uint32 // first of the chain of slots that hold nothing
	lists   [2]list
	len     int
}

type slot[V any] struct {
	key          key
	next         uint32 // in the chain of its bucket, or of unused slots
	older, newer uint32
	list         uint8
	v            V
}

type list struct{ oldest, newest uint32 }

func newTable[V any](entries int, seed uint64) table[V] {
	t := table[V]{seed: seed, slots: make([]slot[V], entries+1), buckets: make([]uint32, 1<<bits.Len(uint(entries-1)))}
	for i := 1; i < entries; i++ {
		t.slots[i].next = uint32(i + 1)
	}
	t.unused = 1
	return t
}

func (t *table[V]) bucket(k *key) *uint32 {
	return &t.buckets[k.hash(t.seed)&uint64(len(t.buckets)-1)]
}

// get returns the slot of the entry with this key, 0 when there is none.
func (t *table[V]) get(k *key) uint32 {
	at := *t.bucket(k)
	for at != 0 && t.slots[at].key != *k {
		at = t.slots[at].next
	}
	return at
}

// add makes an entry, the newest of its list, which must not be there yet. It
// returns 0 when the table is full.
func (t *table[V]) add(k *key, list uint8) uint32 {
	at := t.unused
	if at == 0 {
		return 0
	}
	s := &t.slots[at]
	t.unused = s.next
	head := t.bucket(k)
	*s = slot[V]{key: *k, next: *head}
	*head = at
	t.link(at, list)
	t.len++
	return at
}

func (t *table[V]) remove(at uint32) {
	s := &t.slots[at]
	link := t.bucket(&s.key)
	for *link != at {
		link = &t.slots[*link].next
	}
	*link = s.next
	t.unlink(at)
	s.next, t.unused = t.unused, at
	t.len--
}

// expire removes the entries that are past, and returns how many.
func (t *table[V]) expire(past func(*V) bool) (n int) {
	for i := range t.lists {
		for at := t.lists[i].oldest; at != 0; {
			this := at
			at = t.slots[this].newer
			if past(&t.slots[this].v) {
				t.remove(this)
				n++
			}
		}
	}
	return n
}

// renew makes an entry the newest of a list.
func (t *table[V]) renew(at uint32, list uint8) {
	t.unlink(at)
	t.link(at, list)
}

func (t *table[V]) link(at uint32, list uint8) {
	l, s := &t.lists[list], &t.slots[at]
	s.list, s.older, s.newer = list, l.newest, 0
	if l.newest != 0 {
		t.slots[l.newest].newer = at
	} else {
		l.oldest = at
	}
	l.newest = at
}

func (t *table[V]) unlink(at uint32) {
	s := &t.slots[at]
	l := &t.lists[s.list]
	if s.older != 0 {
		t.slots[s.older].newer = s.newer
	} else {
		l.oldest = s.newer
	}
	if s.newer != 0 {
		t.slots[s.newer].older = s.older
	} else {
		l.newest = s.older
	}
}
