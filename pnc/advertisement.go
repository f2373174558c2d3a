package pnc

import (
	"net/netip"
	"strconv"

	"github.com/rocecn/rocecn/internal/wireerr"
)

// An Advertisement says who is the proxy of the senders in a prefix.
type Advertisement struct {
	Prefix netip.Prefix // of the senders, masked
	Proxy  netip.Addr   // where notifications go; the zero Addr when the octets do not say
	Metric uint32       // of the prefix at its origin; 0 where the protocol has none there (OSPFv2, BGP)
	Origin Origin       // whose word it is
}

// A Protocol is where an advertisement comes from.
type Protocol uint8

// The protocols.
const (
	Configured Protocol = iota // none: an operator's word
	ISIS
	OSPFv2
	OSPFv3
	BGP
)

// String returns the name of the protocol.
func (p Protocol) String() string {
	switch p {
	case Configured:
		return "configured"
	case ISIS:
		return "IS-IS"
	case OSPFv2:
		return "OSPFv2"
	case OSPFv3:
		return "OSPFv3"
	case BGP:
		return "BGP"
	}
	return "Protocol(" + strconv.Itoa(int(p)) + ")"
}

// An Origin is who advertises: what it says at one time takes the place of what
// it said before. Origins can be compared.
type Origin struct {
	Protocol Protocol

	// ID is in IS-IS the system id (6 octets), 0 and the level; in OSPF the
	// router id (4 octets) and four octets that are left 0: a router in several
	// areas puts the area's id there. BGP and Configured are the caller's, for
	// example the peer's BGP identifier.
	ID [8]byte
}

// What the writing functions refuse.
var (
	errPrefix = wireerr.New("pnc", "prefix", 0, "not a prefix that the protocol carries", wireerr.Range)
	errProxy  = wireerr.New("pnc", "proxy", 0, "no address, or not of the family that the field has", wireerr.Range)
	errMetric = wireerr.New("pnc", "metric", 0, "over 24 bits", wireerr.Range)
)

// check returns prefix and proxy in the form in which they are written.
func (a *Advertisement) check() (netip.Prefix, netip.Addr, error) {
	switch {
	case !a.Prefix.IsValid() || a.Prefix.Addr().Is4In6():
		return netip.Prefix{}, netip.Addr{}, errPrefix
	case !a.Proxy.IsValid():
		return netip.Prefix{}, netip.Addr{}, errProxy
	}
	return a.Prefix.Masked(), plain(a.Proxy), nil
}

// plain returns the address as it goes on the wire.
func plain(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// sameFamily returns the address that has the family of the prefix, or the
// other one when there is none.
func sameFamily(p netip.Prefix, v4, v6 netip.Addr) netip.Addr {
	if p.Addr().Is4() && v4.IsValid() || !v6.IsValid() {
		return v4
	}
	return v6
}

// appendAddr appends the octets of an address, 4 or 16.
func appendAddr(b []byte, a netip.Addr) []byte {
	if a.Is4() {
		v4 := a.As4()
		return append(b, v4[:]...)
	}
	v6 := a.As16()
	return append(b, v6[:]...)
}
