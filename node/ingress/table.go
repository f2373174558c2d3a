package ingress

import (
	"net/netip"

	"github.com/rocecn/rocecn/rocev2"
)

// A key names a flow: its addresses, as data packets have them, the receiver's
// queue pair, and the domain, for two VPNs may use the same addresses. An IPv4
// address stands as an IPv4-mapped one.
type key struct {
	src, dst [16]byte
	destQP   uint32 // and ipv4 where the addresses are
	domain   uint32
}

const ipv4 = 1 << 31

func keyOf(k *rocev2.FlowKey, domain uint32) key {
	t := key{src: k.Src.As16(), dst: k.Dst.As16(), destQP: k.DestQP, domain: domain}
	if k.Src.Is4() {
		t.destQP |= ipv4
	}
	return t
}

// flowKey returns the key as the rest of the library has it.
func (k *key) flowKey() rocev2.FlowKey {
	f := rocev2.FlowKey{Src: netip.AddrFrom16(k.src), Dst: netip.AddrFrom16(k.dst), DestQP: k.destQP &^ ipv4}
	if k.destQP&ipv4 != 0 {
		f.Src, f.Dst = f.Src.Unmap(), f.Dst.Unmap()
	}
	return f
}

// An entry is a flow of the table: 64 octets without pointers, a cache line.
type entry struct {
	key
	seen         int64  // when its last packet came
	label        uint32 // 20 bits; 0: the entry is free
	older, newer uint32 // in the order of seen; newer also chains the free entries
	pKey         uint16 // of its last packet
	data         bool   // it has had packets other than acknowledgements and notifications
}

// A table holds the flows, by key and in the order in which they were seen last.
// Entry 0 is none: it is the two ends of the order.
//
// The index finds the entry of a key by its hash: it stands at the place that the
// lower bits of the hash say, or behind it with no free place between.
type table struct {
	entries []entry
	index   []place // twice as many as entries at least, a power of two
	free    uint32  // the first free entry that was in use before
	unused  uint32  // the first that never was
	count   int
}

// A place of the index is free where entry is 0.
type place struct {
	hash  uint32 // of the key, the lower bits
	entry uint32
}

func newTable(size int) table {
	places := 1
	for places < 2*size {
		places *= 2
	}
	return table{entries: make([]entry, size+1), index: make([]place, places), unused: 1}
}

// find returns the entry of a key, 0 when it has none.
func (t *table) find(k *key, hash uint64) uint32 {
	for at := t.home(uint32(hash)); ; at = t.behind(at) {
		p := t.index[at]
		if p.entry == 0 || p.hash == uint32(hash) && t.entries[p.entry].key == *k {
			return p.entry
		}
	}
}

// home returns where in the index a hash stands if the place is free.
func (t *table) home(hash uint32) uint32 { return hash & uint32(len(t.index)-1) }

// behind returns the place behind another.
func (t *table) behind(at uint32) uint32 { return (at + 1) & uint32(len(t.index)-1) }

// room returns the entry that add will use, 0 when the table is full.
func (t *table) room() uint32 {
	switch {
	case t.free != 0:
		return t.free
	case int(t.unused) < len(t.entries):
		return t.unused
	}
	return 0
}

// add adds a flow with a label, seen now, in the entry that room returned.
func (t *table) add(k *key, hash uint64, label uint32, now int64) {
	i := t.free
	if i != 0 {
		t.free = t.entries[i].newer
	} else {
		i = t.unused
		t.unused++
	}
	t.entries[i] = entry{key: *k, label: label, seen: now}
	t.link(i)
	at := t.home(uint32(hash))
	for t.index[at].entry != 0 {
		at = t.behind(at)
	}
	t.index[at] = place{uint32(hash), i}
	t.count++
}

// touch says that a flow was seen now.
func (t *table) touch(i uint32, now int64) {
	t.entries[i].seen = now
	if t.entries[i].newer != 0 {
		t.unlink(i)
		t.link(i)
	}
}

// remove removes a flow. What stands behind it in the index moves up where that
// brings it closer to its home.
func (t *table) remove(i uint32, hash uint64) {
	t.unlink(i)
	t.entries[i] = entry{newer: t.free}
	t.free = i
	t.count--
	gap := t.home(uint32(hash))
	for t.index[gap].entry != i {
		gap = t.behind(gap)
	}
	for at := t.behind(gap); t.index[at].entry != 0; at = t.behind(at) {
		mask := uint32(len(t.index) - 1)
		if home := t.home(t.index[at].hash); (at-home)&mask >= (at-gap)&mask {
			t.index[gap], gap = t.index[at], at
		}
	}
	t.index[gap] = place{}
}

// oldest returns the flow that was not seen for the longest time, 0 when there
// is none.
func (t *table) oldest() uint32 { return t.entries[0].newer }

// link makes a flow the newest.
func (t *table) link(i uint32) {
	newest := t.entries[0].older
	t.entries[i].older, t.entries[i].newer = newest, 0
	t.entries[newest].newer = i
	t.entries[0].older = i
}

func (t *table) unlink(i uint32) {
	e := &t.entries[i]
	t.entries[e.older].newer = e.newer
	t.entries[e.newer].older = e.older
}
