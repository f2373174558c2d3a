// Package proxies is the table out of which a congested node learns who the
// proxy of a sender is (PROXY section 5, D16): the longest of the prefixes that
// hold the sender's address, and of those who announce that prefix the best.
//
// What goes in comes from the decoders of package pnc or from configuration:
//
//	table.Replace(origin, codes.ReadISIS(fragments...)) // an LSP has changed
//	table.Insert(pnc.Advertisement{Prefix: senders, Proxy: proxy})
//
//	proxy, ok := table.Lookup(sender) // for each congested packet
package proxies

import (
	"iter"
	"math/bits"
	"net/netip"

	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/pnc"
	"github.com/rocecn/rocecn/rocev2"
)

// DefaultMax is how many advertisements a table holds unless told otherwise.
const DefaultMax = 65536

// MaxPerPrefix is how many advertisements of one prefix a table holds, so that
// one prefix from everybody does not make it slow.
const MaxPerPrefix = 256

// What Insert refuses.
var (
	ErrPrefix = wireerr.New("proxies", "prefix", 0, "not valid, or IPv4-mapped", wireerr.Range)
	ErrProxy  = wireerr.New("proxies", "proxy", 0, "not a unicast address that others can reach", wireerr.Range)
	ErrFull   = wireerr.New("proxies", "table", 0,
		"no room: it has the maximum of advertisements, or MaxPerPrefix of this prefix", wireerr.Range)
)

// A Table says who is whose proxy. It holds up to a maximum of advertisements;
// what does not fit is refused, and nothing is evicted. It is not safe for
// concurrent use: the goroutine that looks up also inserts, or each has a table
// of its own. A nil Table knows nobody.
//
// Of several advertisements of one prefix the one with the lowest metric counts,
// of those with the same metric the one with the lowest address (D16; IPv4
// before IPv6). An operator's word is one among them: its metric is what the
// operator says, 0 by default.
type Table struct {
	max      int
	prefixes map[netip.Prefix]uint32 // the best advertisement of each
	origins  map[pnc.Origin]uint32   // the latest one of each
	entries  []entry                 // entry 0 is none
	free     uint32                  // entries not in use, linked by next
	used     int
	four     lengths
	six      lengths
	refused  Refused
}

// An entry is an advertisement, whose prefix has no bits behind its length.
type entry struct {
	pnc.Advertisement
	next                       uint32 // the next best of the same prefix
	nextOfOrigin, prevOfOrigin uint32
}

// Stats are the counters of a table.
type Stats struct {
	Advertisements int // in the table
	Prefixes       int // in the table
	Origins        int // in the table
	Refused        Refused
}

// Refused are counters of what Insert refused, by reason.
type Refused struct {
	Prefix uint64 // ErrPrefix
	Proxy  uint64 // ErrProxy: also what did not say who the proxy is
	Full   uint64 // ErrFull
	Broken uint64 // errors out of the iterators given to Replace
}

// New returns a table for so many advertisements, DefaultMax where max is 0 or
// below. It takes memory as it fills.
func New(max int) *Table {
	if max <= 0 {
		max = DefaultMax
	}
	return &Table{
		max:      max,
		prefixes: make(map[netip.Prefix]uint32),
		origins:  make(map[pnc.Origin]uint32),
		entries:  make([]entry, 1),
	}
}

// Lookup returns the proxy of a sender, and whether there is one.
func (t *Table) Lookup(sender netip.Addr) (proxy netip.Addr, ok bool) {
	if t == nil || !sender.IsValid() {
		return netip.Addr{}, false
	}
	sender = sender.Unmap()
	l := t.lengths(sender)
	for n := l.longest(128); n >= 0; n = l.longest(n - 1) {
		prefix, _ := sender.Prefix(n)
		if i := t.prefixes[prefix]; i != 0 {
			return t.entries[i].Proxy, true
		}
	}
	return netip.Addr{}, false
}

// Insert puts an advertisement in. One of the same prefix, origin and proxy that
// is there already takes its metric. Others of the same origin stay, as a prefix
// may have several proxies: a protocol in which one takes the place of the other
// withdraws first.
func (t *Table) Insert(a pnc.Advertisement) error {
	switch {
	case !a.Prefix.IsValid() || a.Prefix.Addr().Is4In6():
		t.refused.Prefix++
		return ErrPrefix
	case rocev2.Answerable(a.Proxy) != nil:
		t.refused.Proxy++
		return ErrProxy
	}
	a.Prefix = a.Prefix.Masked()
	n := 0
	for i := t.prefixes[a.Prefix]; i != 0; i = t.entries[i].next {
		if o := &t.entries[i]; o.Origin == a.Origin && o.Proxy == a.Proxy {
			t.remove(i)
			n = 0
			break
		}
		n++
	}
	if t.used >= t.max || n >= MaxPerPrefix {
		t.refused.Full++
		return ErrFull
	}
	t.add(entry{Advertisement: a})
	return nil
}

// Withdraw removes what an origin advertised of one prefix, and tells whether
// there was anything.
func (t *Table) Withdraw(o pnc.Origin, p netip.Prefix) bool {
	if !p.IsValid() || p.Addr().Is4In6() {
		return false
	}
	found := false
	for i := t.prefixes[p.Masked()]; i != 0; {
		next := t.entries[i].next
		if t.entries[i].Origin == o {
			t.remove(i)
			found = true
		}
		i = next
	}
	return found
}

// Replace puts what an origin advertises now in the place of all that it
// advertised before; a nil iterator, as one that has nothing, withdraws
// everything. It returns how many advertisements were taken. The others,
// advertisements of another origin and errors of the iterator are counted in
// Stats and otherwise ignored: a broken TLV does not make its neighbours
// invalid.
func (t *Table) Replace(o pnc.Origin, advertisements iter.Seq2[pnc.Advertisement, error]) (taken int) {
	for i := t.origins[o]; i != 0; i = t.origins[o] {
		t.remove(i)
	}
	if advertisements == nil {
		return 0
	}
	for a, err := range advertisements {
		switch {
		case err != nil || a.Origin != o:
			t.refused.Broken++
		case t.Insert(a) == nil:
			taken++
		}
	}
	return taken
}

// All returns an iterator over the table, in no order.
func (t *Table) All() iter.Seq[pnc.Advertisement] {
	return func(yield func(pnc.Advertisement) bool) {
		for _, first := range t.prefixes {
			for i := first; i != 0; i = t.entries[i].next {
				if !yield(t.entries[i].Advertisement) {
					return
				}
			}
		}
	}
}

// Stats returns the counters.
func (t *Table) Stats() Stats {
	return Stats{Advertisements: t.used, Prefixes: len(t.prefixes), Origins: len(t.origins), Refused: t.refused}
}

// add puts an entry into the lists of its prefix and of its origin.
func (t *Table) add(e entry) {
	i := t.free
	if i == 0 {
		i = uint32(len(t.entries))
		t.entries = append(t.entries, entry{})
	} else {
		t.free = t.entries[i].next
	}
	t.used++

	first, known := t.prefixes[e.Prefix]
	if !known {
		t.lengths(e.Prefix.Addr()).count(e.Prefix.Bits(), +1)
	}
	before := uint32(0)
	e.next = first
	for e.next != 0 && !e.better(&t.entries[e.next]) {
		before, e.next = e.next, t.entries[e.next].next
	}
	if before == 0 {
		t.prefixes[e.Prefix] = i
	} else {
		t.entries[before].next = i
	}

	e.nextOfOrigin = t.origins[e.Origin]
	if e.nextOfOrigin != 0 {
		t.entries[e.nextOfOrigin].prevOfOrigin = i
	}
	t.origins[e.Origin] = i
	t.entries[i] = e
}

// remove takes an entry out of both lists.
func (t *Table) remove(i uint32) {
	e := &t.entries[i]
	switch first := t.prefixes[e.Prefix]; {
	case first != i:
		before := first
		for t.entries[before].next != i {
			before = t.entries[before].next
		}
		t.entries[before].next = e.next
	case e.next != 0:
		t.prefixes[e.Prefix] = e.next
	default:
		delete(t.prefixes, e.Prefix)
		t.lengths(e.Prefix.Addr()).count(e.Prefix.Bits(), -1)
	}

	if e.nextOfOrigin != 0 {
		t.entries[e.nextOfOrigin].prevOfOrigin = e.prevOfOrigin
	}
	switch {
	case e.prevOfOrigin != 0:
		t.entries[e.prevOfOrigin].nextOfOrigin = e.nextOfOrigin
	case e.nextOfOrigin != 0:
		t.origins[e.Origin] = e.nextOfOrigin
	default:
		delete(t.origins, e.Origin)
	}

	*e = entry{next: t.free}
	t.free = i
	t.used--
}

// better tells whether e comes before o.
func (e *entry) better(o *entry) bool {
	return e.Metric < o.Metric || e.Metric == o.Metric && e.Proxy.Less(o.Proxy)
}

// lengths returns the lengths of the prefixes of an address's family.
func (t *Table) lengths(a netip.Addr) *lengths {
	if a.Is4() {
		return &t.four
	}
	return &t.six
}

// lengths are the prefix lengths that are in use, so that a look-up tries no
// others.
type lengths struct {
	prefixes [129]uint32 // how many of each length
	inUse    [3]uint64   // a bit for each length
}

func (l *lengths) count(n int, by int32) {
	l.prefixes[n] += uint32(by)
	if l.prefixes[n] != 0 {
		l.inUse[n/64] |= 1 << (n % 64)
	} else {
		l.inUse[n/64] &^= 1 << (n % 64)
	}
}

// longest returns the longest length in use that is not above n, -1 when there
// is none.
func (l *lengths) longest(n int) int {
	if n < 0 {
		return -1
	}
	for word := n / 64; word >= 0; word-- {
		set := l.inUse[word]
		if word == n/64 {
			set &= ^uint64(0) >> (63 - n%64)
		}
		if set != 0 {
			return word*64 + bits.Len64(set) - 1
		}
	}
	return -1
}
