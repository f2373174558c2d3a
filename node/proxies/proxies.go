// Package proxies is a table of the proxies of senders, in which a congested
// node finds the proxy to notify about a flow (PROXY section 5). [Table.Lookup]
// returns the proxy in the best advertisement for the longest prefix that
// contains the sender's address (D16). Advertisements come from the decoders of
// package pnc or from configuration:
//
//	table.Replace(origin, codes.ReadISIS(fragments...)) // an LSP has changed
//	table.Insert(pnc.Advertisement{Prefix: senders, Proxy: proxy})
//
//	proxy, ok := table.Lookup(sender) // for each congested packet
//
// Experimental: this package may change in a minor release.
package proxies

import (
	"iter"
	"net/netip"
	"slices"

	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/pnc"
	"github.com/rocecn/rocecn/rocev2"
)

// Config is the configuration of a Table.
type Config struct {
	MaxAdvertisements int // maximum number of advertisements; 0 stands for 65,536
}

// defaultMax is the default of Config.MaxAdvertisements.
const defaultMax = 1 << 16

// MaxPerPrefix is the maximum number of advertisements of one prefix. It limits
// the time of Insert and Withdraw, which is linear in them.
const MaxPerPrefix = 256

// The errors of Insert.
var (
	errPrefix = wireerr.New("proxies", "prefix", "not valid, or IPv4-mapped", wireerr.Range)
	errProxy  = wireerr.New("proxies", "proxy", "not a unicast address that others can reach", wireerr.Range)
	errFull   = wireerr.New("proxies", "table",
		"full: it has the maximum number of advertisements, or MaxPerPrefix for this prefix", wireerr.Range)
)

// A Table contains advertisements of proxies by prefix. A full table rejects
// new advertisements and evicts none. It is not safe for concurrent use: one
// goroutine does both look-ups and changes, or each has a table of its own. A
// nil Table has no proxies.
//
// Lookup uses the advertisement of a prefix with the lowest metric, and among
// equal metrics the one with the lowest address, IPv4 before IPv6 (D16). This
// also holds for advertisements that an operator configures; their metric is 0
// unless given.
type Table struct {
	max      int
	prefixes map[netip.Prefix]uint32   // the best advertisement of each
	origins  map[pnc.Originator]uint32 // the latest one of each
	entries  []entry                   // entry 0 is none
	free     uint32                    // entries not in use, linked by next
	used     int
	four     lengths
	six      lengths
	refused  Refused
}

// An entry is an advertisement. Its prefix is masked.
type entry struct {
	pnc.Advertisement
	next                       uint32 // the next best of the same prefix
	nextOfOrigin, prevOfOrigin uint32
}

// Stats are the counters of a table.
type Stats struct {
	Advertisements int // in the table
	Prefixes       int // in the table
	Originators    int // in the table
	Refused        Refused
}

// Refused counts the advertisements that Insert rejected, by reason.
type Refused struct {
	Prefix uint64 // advertisements with an invalid or IPv4-mapped prefix
	Proxy  uint64 // advertisements without a proxy address that is unicast and reachable
	Full   uint64 // advertisements above the maximum of the table, or above MaxPerPrefix
	Broken uint64 // errors of the iterators given to Replace
}

// New returns an empty table. It takes memory as it fills.
func New(cfg Config) *Table {
	if cfg.MaxAdvertisements <= 0 {
		cfg.MaxAdvertisements = defaultMax
	}
	return &Table{
		max:      cfg.MaxAdvertisements,
		prefixes: make(map[netip.Prefix]uint32),
		origins:  make(map[pnc.Originator]uint32),
		entries:  make([]entry, 1),
	}
}

// Lookup returns the proxy of a sender; ok is false if there is none.
func (t *Table) Lookup(sender netip.Addr) (proxy netip.Addr, ok bool) {
	if t == nil || !sender.IsValid() {
		return netip.Addr{}, false
	}
	sender = sender.Unmap()
	for _, n := range t.lengthsFor(sender).inUse {
		prefix, _ := sender.Prefix(n)
		if i := t.prefixes[prefix]; i != 0 {
			return t.entries[i].Proxy, true
		}
	}
	return netip.Addr{}, false
}

// Insert adds an advertisement. It replaces one with the same prefix,
// originator and proxy, and any metric. Other advertisements of the same
// originator stay, because a prefix may have several proxies. If the protocol
// replaces the old advertisement of a prefix, call Withdraw first. Insert
// rejects the advertisements that [Refused] counts, with an error that matches
// rocecn.ErrRange.
func (t *Table) Insert(a pnc.Advertisement) error {
	switch {
	case !a.Prefix.IsValid() || a.Prefix.Addr().Is4In6():
		t.refused.Prefix++
		return errPrefix
	case rocev2.CheckAnswerable(a.Proxy) != nil:
		t.refused.Proxy++
		return errProxy
	}
	a.Prefix = a.Prefix.Masked()
	first, n := t.prefixes[a.Prefix], 0
	for i := first; i != 0; i = t.entries[i].next {
		if o := &t.entries[i]; o.Originator == a.Originator && o.Proxy == a.Proxy {
			t.removeEntry(i)
			first, n = t.prefixes[a.Prefix], 0
			break
		}
		n++
	}
	if t.used >= t.max || n >= MaxPerPrefix {
		t.refused.Full++
		return errFull
	}
	t.addEntry(&a, first)
	return nil
}

// Withdraw removes the advertisements of one prefix by an originator, and
// reports whether there was one.
func (t *Table) Withdraw(o pnc.Originator, p netip.Prefix) bool {
	if !p.IsValid() || p.Addr().Is4In6() {
		return false
	}
	found := false
	for i := t.prefixes[p.Masked()]; i != 0; {
		next := t.entries[i].next
		if t.entries[i].Originator == o {
			t.removeEntry(i)
			found = true
		}
		i = next
	}
	return found
}

// Replace replaces all advertisements of an originator, and returns the number
// of inserted ones. A nil iterator, or one that yields nothing, withdraws all.
// Advertisements that Insert rejects, those of another originator and errors of
// the iterator are counted in Stats and otherwise ignored, so a malformed TLV
// does not invalidate the others.
func (t *Table) Replace(o pnc.Originator, advertisements iter.Seq2[pnc.Advertisement, error]) (taken int) {
	for i := t.origins[o]; i != 0; i = t.origins[o] {
		t.removeEntry(i)
	}
	if advertisements == nil {
		return 0
	}
	for a, err := range advertisements {
		switch {
		case err != nil || a.Originator != o:
			t.refused.Broken++
		case t.Insert(a) == nil:
			taken++
		}
	}
	return taken
}

// All yields the advertisements in the table, in no order.
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
	return Stats{Advertisements: t.used, Prefixes: len(t.prefixes), Originators: len(t.origins), Refused: t.refused}
}

// addEntry adds an advertisement to the lists of its prefix, in which first is the first entry, and of its origin.
func (t *Table) addEntry(a *pnc.Advertisement, first uint32) {
	i := t.free
	if i == 0 {
		i = uint32(len(t.entries))
		t.entries = append(t.entries, entry{})
	} else {
		t.free = t.entries[i].next
	}
	t.used++
	e := &t.entries[i]
	e.Advertisement = *a

	if first == 0 {
		t.lengthsFor(e.Prefix.Addr()).addCount(e.Prefix.Bits(), +1)
	}
	before := uint32(0)
	e.next = first
	for e.next != 0 && !e.isBetter(&t.entries[e.next]) {
		before, e.next = e.next, t.entries[e.next].next
	}
	if before == 0 {
		t.prefixes[e.Prefix] = i
	} else {
		t.entries[before].next = i
	}

	e.nextOfOrigin = t.origins[e.Originator]
	if e.nextOfOrigin != 0 {
		t.entries[e.nextOfOrigin].prevOfOrigin = i
	}
	t.origins[e.Originator] = i
}

// removeEntry removes an entry from both lists.
func (t *Table) removeEntry(i uint32) {
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
		t.lengthsFor(e.Prefix.Addr()).addCount(e.Prefix.Bits(), -1)
	}

	if e.nextOfOrigin != 0 {
		t.entries[e.nextOfOrigin].prevOfOrigin = e.prevOfOrigin
	}
	switch {
	case e.prevOfOrigin != 0:
		t.entries[e.prevOfOrigin].nextOfOrigin = e.nextOfOrigin
	case e.nextOfOrigin != 0:
		t.origins[e.Originator] = e.nextOfOrigin
	default:
		delete(t.origins, e.Originator)
	}

	*e = entry{next: t.free}
	t.free = i
	t.used--
}

// isBetter reports whether e is used rather than o.
func (e *entry) isBetter(o *entry) bool {
	return e.Metric < o.Metric || e.Metric == o.Metric && e.Proxy.Less(o.Proxy)
}

// lengthsFor returns the lengths of the prefixes of an address's family.
func (t *Table) lengthsFor(a netip.Addr) *lengths {
	if a.Is4() {
		return &t.four
	}
	return &t.six
}

// lengths are the prefix lengths that are in use: a look-up tries no others.
type lengths struct {
	prefixes [129]uint32 // number of prefixes of each length
	inUse    []int       // the longest first
}

func (l *lengths) addCount(n int, by int32) {
	was := l.prefixes[n]
	l.prefixes[n] += uint32(by)
	at := 0
	for at < len(l.inUse) && l.inUse[at] > n {
		at++
	}
	if was == 0 {
		l.inUse = slices.Insert(l.inUse, at, n)
	} else if l.prefixes[n] == 0 {
		l.inUse = slices.Delete(l.inUse, at, at+1)
	}
}
