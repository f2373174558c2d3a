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

// An entry is a flow of the table: 72 octets without pointers.
type entry struct {
	key
	seen  int64  // when its last packet came
	label uint32 // 0: the entry is free
	pKey  uint16 // of its last packet
	data  bool   // it has had packets other than acknowledgements and notifications

	next         uint32 // of its chain, or of the free entries
	older, newer uint32 // in the order of seen
}

// A table holds the flows: by key in chains, and in the order in which they were
// seen last. Entry 0 is none; it is the two ends of the order.
type table struct {
	entries []entry
	chains  []uint32 // the first entry of each; their number is a power of two
	free    uint32   // the first free entry that was in use before
	unused  uint32   // the first that never was
	count   int
}

func newTable(size int) table {
	chains := 1
	for chains < size {
		chains *= 2
	}
	return table{entries: make([]entry, size+1), chains: make([]uint32, chains), unused: 1}
}

// find returns the entry of a key, 0 when it has none.
func (t *table) find(k *key, hash uint64) uint32 {
	i := *t.chain(hash)
	for i != 0 && t.entries[i].key != *k {
		i = t.entries[i].next
	}
	return i
}

func (t *table) chain(hash uint64) *uint32 { return &t.chains[hash&uint64(len(t.chains)-1)] }

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
		t.free = t.entries[i].next
	} else {
		i = t.unused
		t.unused++
	}
	chain := t.chain(hash)
	t.entries[i] = entry{key: *k, label: label, seen: now, next: *chain}
	*chain = i
	t.link(i)
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

// remove removes a flow.
func (t *table) remove(i uint32, hash uint64) {
	at := t.chain(hash)
	for *at != i {
		at = &t.entries[*at].next
	}
	*at = t.entries[i].next
	t.unlink(i)
	t.entries[i] = entry{next: t.free}
	t.free = i
	t.count--
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
