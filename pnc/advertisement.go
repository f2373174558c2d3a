package pnc

import (
	"net/netip"

	"github.com/rocecn/rocecn/internal/enumtext"
	"github.com/rocecn/rocecn/internal/wireerr"
)

// An Advertisement says who is the proxy of the senders in a prefix.
type Advertisement struct {
	Prefix     netip.Prefix // of the senders, masked
	Proxy      netip.Addr   // where notifications go; the zero Addr when the octets do not say
	Metric     uint32       // of the prefix at its origin; 0 where the protocol has none there (OSPFv2, BGP)
	Originator Originator   // who originated it
}

// A Protocol is where an advertisement comes from.
type Protocol uint8

// The protocols.
const (
	ProtocolConfigured Protocol = iota // no protocol: an operator configured it
	ProtocolISIS
	ProtocolOSPFv2
	ProtocolOSPFv3
	ProtocolBGP
)

// String returns the name of the protocol.
func (p Protocol) String() string { return enumtext.Name(p, protocols[:], "Protocol") }

var protocols = [...]string{"configured", "IS-IS", "OSPFv2", "OSPFv3", "BGP"}

// MarshalText returns what String does.
func (p Protocol) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText sets p to the protocol that String returns the text for.
func (p *Protocol) UnmarshalText(text []byte) error {
	return enumtext.Unmarshal(p, text, "pnc", "protocol")
}

// An Originator is who advertises: what it says at one time takes the place of what
// it said before. Originators can be compared.
type Originator struct {
	Protocol Protocol

	// ID is in IS-IS the system id (6 octets), 0 and the level; in OSPF the
	// router id (4 octets) and four octets that are left 0: a router in several
	// areas puts the area's id there. BGP and Configured are the caller's, for
	// example the peer's BGP identifier.
	ID [8]byte
}

// What the writing functions refuse.
var (
	errPrefix = wireerr.New("pnc", "prefix", 0, "not one of host addresses, or not one that the protocol carries",
		wireerr.Range)
	errProxy = wireerr.New("pnc", "proxy", 0,
		"not a unicast address that others can reach, or not of the family that the field has", wireerr.Range)
	errMetric = wireerr.New("pnc", "metric", 0, "over 24 bits", wireerr.Range)
)

// errNotHosts is what the reading functions say of the flag on a prefix that
// holds no host addresses.
var errNotHosts = wireerr.New("pnc", "P-flag", 0, "on the default route, or on a prefix without host addresses",
	wireerr.Malformed)

// Validate says whether the advertisement can be made at all: Prefix is one that
// hosts can have addresses of, and Proxy a unicast address that others can reach.
//
// The capability is for "the local host prefix of the originating node" (PROXY
// section 5): we read that as any prefix of the hosts that the node serves, long or
// short. It is never the default route, nor another prefix in which there are
// unspecified, loopback, link-local, multicast, broadcast or IPv4-mapped addresses:
// whoever put the flag there would be the proxy of everybody. Whether a prefix is
// the node's own its routing daemon knows.
//
// The writing functions refuse what Validate refuses. AppendNHC does not see the
// prefixes, which are those of its UPDATE: call Validate for each.
func (a *Advertisement) Validate() error {
	_, _, err := a.normalize(0)
	return err
}

// normalize returns prefix and proxy in the form in which they are written, for a
// protocol that carries addresses of so many bits, 0 for any.
func (a *Advertisement) normalize(bits int) (netip.Prefix, netip.Addr, error) {
	proxy := wireAddr(a.Proxy)
	switch {
	case !isHostPrefix(a.Prefix):
		return netip.Prefix{}, netip.Addr{}, errPrefix
	case !isReachable(proxy):
		return netip.Prefix{}, netip.Addr{}, errProxy
	case bits != 0 && a.Prefix.Addr().BitLen() != bits:
		return netip.Prefix{}, netip.Addr{}, errPrefix
	case bits != 0 && proxy.BitLen() != bits:
		return netip.Prefix{}, netip.Addr{}, errProxy
	}
	return a.Prefix.Masked(), proxy, nil
}

// noHosts4 and noHosts6 are the prefixes of addresses that no host has, as others see it.
var (
	noHosts4 = []netip.Prefix{
		netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("127.0.0.0/8"),
		netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("224.0.0.0/4"),
		netip.MustParsePrefix("255.255.255.255/32"),
	}
	noHosts6 = []netip.Prefix{
		netip.MustParsePrefix("::/127"), netip.MustParsePrefix("::ffff:0:0/96"), netip.MustParsePrefix("fe80::/10"),
		netip.MustParsePrefix("ff00::/8"),
	}
)

// isHostPrefix says whether all addresses of a prefix can be those of hosts.
func isHostPrefix(p netip.Prefix) bool {
	noHosts := noHosts6
	if p.Addr().Is4() {
		noHosts = noHosts4
	}
	for i := range noHosts {
		if none := &noHosts[i]; none.Contains(p.Addr()) || p.Contains(none.Addr()) {
			return false
		}
	}
	return p.IsValid()
}

// isReachable says whether an address is a unicast one that others can reach.
func isReachable(a netip.Addr) bool {
	return a.IsValid() && isHostPrefix(netip.PrefixFrom(a, a.BitLen()))
}

// wireAddr returns the address as it goes on the wire.
func wireAddr(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// preferFamily returns the address of the prefix's family if it is there, else the
// one of the other family.
func preferFamily(p netip.Prefix, v4, v6 netip.Addr) netip.Addr {
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
