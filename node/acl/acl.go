// Package acl has access lists and tables by prefix: a [List] reports whether an
// address is in one of its prefixes, a [Map] returns the value of the longest
// prefix that contains an address.
//
// Both are immutable, so any number of goroutines may use them. A look-up is one
// binary search, then as many steps as prefixes are nested, and does not allocate.
//
// IPv4 prefixes are for IPv4 addresses, IPv6 prefixes for IPv6 addresses. An
// IPv4-mapped IPv6 address is an IPv6 address here. A zone does not matter.
//
// Experimental: this package may change in a minor release.
package acl

import "net/netip"

// A List is an access list. A nil List and one without prefixes contain no
// address.
type List struct{ prefixes *Map[struct{}] }

// New returns the List of these prefixes. An invalid prefix contains no address.
func New(prefixes ...netip.Prefix) *List {
	entries := make([]Entry[struct{}], len(prefixes))
	for i, p := range prefixes {
		entries[i].Prefix = p
	}
	return &List{NewMap(entries...)}
}

// Contains reports whether an address is in one of the prefixes.
func (l *List) Contains(a netip.Addr) bool {
	if l == nil {
		return false
	}
	_, ok := l.prefixes.Lookup(a)
	return ok
}
