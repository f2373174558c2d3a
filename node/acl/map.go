package acl

import (
	"cmp"
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
//
// The prefixes divide the address space into ranges, each with the value of the
// longest prefix that contains it:
//
//	2001:db8::/32   ────────────────────────────── a
//	2001:db8:1::/48         ──────────── b
//	ranges          ────────┼───────────┼───────── a, b, a, and nothing behind
type Map[V any] struct {
	four, six ranges
	values    []V
}

// ranges are the ranges of one family, by address.
type ranges struct {
	starts []number // first address of each range; the first is 0
	values []int32  // index of each range's value, or none
}

const none = -1

// NewMap returns the Map of these entries. Of entries with the same prefix the
// first one counts. Entries whose prefix is invalid have no addresses.
func NewMap[V any](entries ...Entry[V]) *Map[V] {
	m := &Map[V]{values: make([]V, len(entries))}
	var four, six []span
	for i, e := range entries {
		m.values[i] = e.Value
		switch p := e.Prefix.Masked(); {
		case !p.IsValid():
		case p.Addr().Is4():
			four = append(four, newSpan(p, 32, int32(i)))
		default:
			six = append(six, newSpan(p, 128, int32(i)))
		}
	}
	m.four, m.six = cut(four), cut(six)
	return m
}

// Lookup returns the value of the longest prefix that contains an address, and
// whether there is one.
func (m *Map[V]) Lookup(a netip.Addr) (v V, ok bool) {
	if m == nil || !a.IsValid() {
		return v, false
	}
	r := &m.six
	if a.Is4() {
		r = &m.four
	}
	if i := r.find(numberOf(a)); i != none {
		return m.values[i], true
	}
	return v, false
}

// find returns the index of the value of an address.
func (r *ranges) find(a number) int32 {
	low, high := 0, len(r.starts) // the range begins at or behind low, and before high
	if high == 0 {
		return none
	}
	for high-low > 1 {
		if middle := int(uint(low+high) >> 1); a.less(r.starts[middle]) {
			high = middle
		} else {
			low = middle
		}
	}
	return r.values[low]
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

func (n number) less(o number) bool {
	return n.high < o.high || n.high == o.high && n.low < o.low
}

// A span is a prefix as numbers.
type span struct {
	first, last number
	value       int32
}

// newSpan returns the span of a masked prefix whose addresses have this many
// bits.
func newSpan(p netip.Prefix, bits int, value int32) span {
	s := span{first: numberOf(p.Addr()), value: value}
	host := uint(bits - p.Bits()) // bits that the prefix leaves open; a shift by 64 and more gives 0
	s.last.low = s.first.low | (1<<host - 1)
	s.last.high = s.first.high
	if host > 64 {
		s.last.high |= 1<<(host-64) - 1
	}
	return s
}

// cut divides the address space at spans, of which any two are nested or disjoint.
func cut(spans []span) ranges {
	slices.SortStableFunc(spans, func(a, b span) int { // the outer one before those in it
		return cmp.Or(compare(a.first, b.first), compare(b.last, a.last))
	})
	var r ranges
	if len(spans) == 0 {
		return r
	}
	r.put(number{}, none)
	var around []span // the spans that contain the current address, the innermost last
	end := func() {
		s := around[len(around)-1]
		around = around[:len(around)-1]
		next := number{s.last.high, s.last.low + 1}
		if next.low == 0 {
			next.high++
		}
		if next == (number{}) {
			return // it ends with the last address
		}
		value := int32(none)
		if len(around) > 0 {
			value = around[len(around)-1].value
		}
		r.put(next, value)
	}
	for i, s := range spans {
		if i > 0 && s.first == spans[i-1].first && s.last == spans[i-1].last {
			continue // the same prefix again
		}
		for len(around) > 0 && around[len(around)-1].last.less(s.first) {
			end()
		}
		r.put(s.first, s.value)
		around = append(around, s)
	}
	for len(around) > 0 {
		end()
	}
	return r
}

// put begins a range, which takes the place of one that begins there too.
func (r *ranges) put(start number, value int32) {
	if n := len(r.starts); n > 0 && r.starts[n-1] == start {
		r.values[n-1] = value
		return
	}
	r.starts = append(r.starts, start)
	r.values = append(r.values, value)
}

func compare(a, b number) int {
	return cmp.Or(cmp.Compare(a.high, b.high), cmp.Compare(a.low, b.low))
}
