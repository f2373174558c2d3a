// Package acl holds access lists and tables by prefix: a [List] says whether an
// address is in one of its prefixes, a [Map] has a value for each prefix and
// gives that of the longest one around an address.
//
// Both are made once, cannot be changed and may be used by any number of
// goroutines. A look-up takes a binary search, whatever the prefixes, and
// allocates nothing.
//
// IPv4 prefixes are for IPv4 addresses, IPv6 prefixes for IPv6 addresses. An
// IPv4-mapped IPv6 address is an IPv6 address here. A zone does not matter.
package acl

import "net/netip"

// A List is an access list. A nil List and one without prefixes have no
// addresses.
type List struct{ prefixes *Map[struct{}] }

// New returns the List of these prefixes. An invalid prefix has no addresses.
func New(prefixes ...netip.Prefix) *List {
	entries := make([]Entry[struct{}], len(prefixes))
	for i, p := range prefixes {
		entries[i].Prefix = p
	}
	return &List{NewMap(entries...)}
}

// Contains says whether an address is in one of the prefixes.
func (l *List) Contains(a netip.Addr) bool {
	if l == nil {
		return false
	}
	_, ok := l.prefixes.Lookup(a)
	return ok
}
