package acl

import (
	"encoding/binary"
	"net/netip"
	"slices"
)

// An Entry is a prefix and the value of the addresses in it.
type Entry[V any] struct {
	Prefix netip.Prefix
	Value  V
}

// A Map has a value for each of its prefixes. A nil Map has none.
type Map[V any] struct{ four, six rules[V] }

// rules are the prefixes of one family by their first address, of those with the same one the longest last.
type rules[V any] []rule[V]

type rule[V any] struct {
	first, last number
	around      int // the index of the smallest prefix around this one, or none
	value       V
}

const none = -1

// NewMap returns the Map of these entries. The first of several entries
// with the same prefix counts. Entries with an invalid prefix have no addresses.
func NewMap[V any](entries ...Entry[V]) *Map[V] {
	m, sorted := &Map[V]{}, slices.Clone(entries)
	for i := range sorted {
		sorted[i].Prefix = sorted[i].Prefix.Masked()
	}
	slices.SortStableFunc(sorted, func(a, b Entry[V]) int { return a.Prefix.Compare(b.Prefix) })
	for i, e := range sorted {
		if e.Prefix.IsValid() && (i == 0 || e.Prefix != sorted[i-1].Prefix) {
			r := m.rulesFor(e.Prefix.Addr())
			*r = r.withEntry(e)
		}
	}
	return m
}

// Lookup returns the value of the longest prefix that contains an address, and
// whether there is one.
func (m *Map[V]) Lookup(a netip.Addr) (v V, ok bool) {
	if m == nil || !a.IsValid() {
		return v, false
	}
	r, n := *m.rulesFor(a), numberOf(a)
	low, high := 0, len(r) // those before low begin at n or before, those from high on after it
	for low < high {
		if middle := int(uint(low+high) >> 1); n.isLess(r[middle].first) {
			high = middle
		} else {
			low = middle + 1
		}
	}
	if i := r.findInnermost(low-1, n); i != none {
		return r[i].value, true
	}
	return v, false
}

// rulesFor returns the prefixes of an address's family.
func (m *Map[V]) rulesFor(a netip.Addr) *rules[V] {
	if a.Is4() {
		return &m.four
	}
	return &m.six
}

// withEntry adds an entry with a masked prefix, which is not before any other in their order.
func (r rules[V]) withEntry(e Entry[V]) rules[V] {
	n := rule[V]{first: numberOf(e.Prefix.Addr()), value: e.Value}
	host := uint(e.Prefix.Addr().BitLen() - e.Prefix.Bits())   // bits that the prefix leaves open
	n.last = number{n.first.high, n.first.low | (1<<host - 1)} // a shift by 64 and more gives 0
	if host > 64 {
		n.last.high |= 1<<(host-64) - 1
	}
	n.around = r.findInnermost(len(r)-1, n.first)
	return append(r, n)
}

// findInnermost returns the index, of a rule that begins at n or before and those around it, of the first that has n.
func (r rules[V]) findInnermost(i int, n number) int {
	for i != none && r[i].last.isLess(n) {
		i = r[i].around
	}
	return i
}

// A number is an address as a number, IPv4 in its lower 32 bits.
type number struct{ high, low uint64 }

func numberOf(a netip.Addr) number {
	b := a.As16()
	n := number{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
	if a.Is4() {
		n = number{0, n.low & 0xFFFFFFFF}
	}
	return n
}

func (n number) isLess(o number) bool {
	return n.high < o.high || n.high == o.high && n.low < o.low
}
