package qpmap

import (
	"math/bits"
	"net/netip"

	"github.com/rocecn/rocecn/internal/hash"
	"github.com/rocecn/rocecn/rocev2"
)

// key is a [Key] without pointers. IPv4 addresses are ::ffff:a.b.c.d. For a
// pending CM exchange id is the requester's communication id instead of a queue
// pair.
type key struct {
	src, dst [16]byte
	id       uint32
	domain   uint32
	mark     uint32 // overIPv4 or 0; for an announcement, also a PSN from bit 8 on
}

// overIPv4 tells 10.0.0.1 from ::ffff:10.0.0.1.
const overIPv4 = 1

func keyOf(k Key) key {
	out := key{src: k.Src.As16(), dst: k.Dst.As16(), id: k.DestQP, domain: k.Domain}
	if k.Dst.Is4() {
		out.mark = overIPv4
	}
	return out
}

// back returns the key of what comes back: the addresses exchanged.
func (k *key) back(id uint32) key { return key{k.dst, k.src, id, k.domain, k.mark} }

// with returns the key with another queue pair at the same destination.
func (k *key) with(id uint32) key { return key{k.src, k.dst, id, k.domain, k.mark} }

func (k *key) public() Key {
	src, dst := netip.AddrFrom16(k.src), netip.AddrFrom16(k.dst)
	if k.mark == overIPv4 {
		src, dst = src.Unmap(), dst.Unmap()
	}
	return Key{rocev2.FlowKey{Src: src, Dst: dst, DestQP: k.id}, k.domain}
}

// hash mixes all of the key with a seed, which keeps others from choosing keys
// that collide.
func (k *key) hash(seed uint64) uint64 {
	return hash.Mix(k.hashAddrs(seed)^uint64(k.id), seed^0xA0761D6478BD642F)
}

// hashAddrs is hash without the queue pair.
func (k *key) hashAddrs(seed uint64) uint64 {
	return hash.Mix(hash.Addresses(&k.src, &k.dst, seed)^(uint64(k.mark)<<32|uint64(k.domain)), seed^0xE7037ED1A0B428DB)
}

// A table holds at most as many entries as it was made for. Its memory is taken
// when it is made, or as it is needed; no entry has a pointer, and every entry
// stands in one of two lists by age, so that the oldest of a list is found at
// once. Entries are addressed by slot number; slot 0 is none.
type table[V any] struct {
	seed    uint64
	buckets []uint32 // first slot of each chain
	slots   []slot[V]
	unused  uint32 // first of the chain of slots that hold nothing any more
	most    int    // slots in use at most, slot 0 included
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

func newTable[V any](entries int, seed uint64, grow bool) table[V] {
	room := entries
	if grow {
		room = min(entries, 8)
	}
	return table[V]{
		seed: seed, most: entries + 1,
		slots: make([]slot[V], 1, room+1), buckets: make([]uint32, 1<<bits.Len(uint(room-1))),
	}
}

// extend makes another slot, and twice as many buckets once there are as many
// slots as buckets. It returns 0 when the table is full.
func (t *table[V]) extend() uint32 {
	at := len(t.slots)
	if at == t.most {
		return 0
	}
	if at > len(t.buckets) {
		t.buckets = make([]uint32, 2*len(t.buckets))
		for i := 1; i < at; i++ {
			head := t.bucket(&t.slots[i].key)
			t.slots[i].next, *head = *head, uint32(i)
		}
	}
	t.slots = append(t.slots, slot[V]{})
	return uint32(at)
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
	if at != 0 {
		t.unused = t.slots[at].next
	} else if at = t.extend(); at == 0 {
		return 0
	}
	s := &t.slots[at]
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
