package pnc

import (
	"net/netip"

	"github.com/rocecn/rocecn/internal/enumtext"
	"github.com/rocecn/rocecn/internal/wireerr"
)

// Advertisement names the proxy of the senders in a prefix.
type Advertisement struct {
	Prefix     netip.Prefix // prefix of the senders, masked
	Proxy      netip.Addr   // address for notifications, or the zero Addr if it is not in the advertisement
	Metric     uint32       // metric of the prefix at its origin, or 0 if the protocol has none there (OSPFv2, BGP)
	Originator Originator   // router or operator that originated the advertisement
}

// Protocol is the source of an advertisement.
type Protocol uint8

// The protocols.
const (
	ProtocolConfigured Protocol = iota // configured by an operator
	ProtocolISIS
	ProtocolOSPFv2
	ProtocolOSPFv3
	ProtocolBGP
)

// String returns the name of the protocol.
func (p Protocol) String() string { return enumtext.Name(p, protocols[:], "Protocol") }

var protocols = [...]string{"configured", "IS-IS", "OSPFv2", "OSPFv3", "BGP"}

// MarshalText returns the text of String.
func (p Protocol) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText sets p to the protocol with this String.
func (p *Protocol) UnmarshalText(text []byte) error {
	return enumtext.Unmarshal(p, text, "pnc", "protocol")
}

// Originator identifies the source of an advertisement. A new advertisement of an
// originator replaces its earlier ones. Originators can be compared.
type Originator struct {
	Protocol Protocol

	// ID depends on the protocol:
	//   - IS-IS: the system id (6 octets), 0 and the level.
	//   - OSPF: the router id (4 octets), then 4 octets that are 0. For a router in
	//     several areas the caller sets them to the area id.
	//   - BGP and ProtocolConfigured: chosen by the caller, for example the BGP
	//     identifier of the peer.
	ID [8]byte
}

// Errors of the Append functions.
var (
	errPrefix = wireerr.New("pnc", "prefix", "not a prefix of host addresses in a family of the protocol",
		wireerr.Range)
	errProxy = wireerr.New("pnc", "proxy", "not a reachable unicast address in a family of the protocol",
		wireerr.Range)
	errMetric = wireerr.New("pnc", "metric", "over 24 bits", wireerr.Range)
)

// errNotHosts is the error of the Read functions for the flag on a prefix that
// contains addresses no host can have.
var errNotHosts = wireerr.New("pnc", "P-flag", "set for the default route, or a prefix without host addresses",
	wireerr.Malformed)

// Validate returns an error that matches rocecn.ErrRange if Prefix is not a prefix of
// host addresses, or Proxy is not a unicast address that other nodes can reach. The
// Append functions reject the same advertisements. AppendNHC does not know the
// prefixes of its UPDATE: call Validate for each.
//
// The capability is for "the local host prefix of the originating node" (PROXY
// section 5). This package takes that as any prefix of hosts that the node serves, of
// any length, but never the default route, nor another prefix that contains
// unspecified, loopback, link-local, multicast, broadcast or IPv4-mapped addresses:
// a node that advertised such a prefix would be the proxy of all senders. It cannot
// check that the prefix is local to the node; the routing daemon can.
func (a *Advertisement) Validate() error {
	_, _, err := a.normalize(0)
	return err
}

// normalize checks prefix and proxy and returns them in the form for encoding. bits is
// the length of the protocol's addresses, or 0 for any.
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

// noHosts4 and noHosts6 are the prefixes of addresses that are never the address of
// another host.
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

// isHostPrefix reports whether all addresses of a prefix can be addresses of hosts.
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

// isReachable reports whether a is a unicast address that other nodes can reach.
func isReachable(a netip.Addr) bool {
	return a.IsValid() && isHostPrefix(netip.PrefixFrom(a, a.BitLen()))
}

// wireAddr returns the address as it is encoded: without a zone, IPv4 not mapped.
func wireAddr(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// preferFamily returns the address of the prefix's family if it is valid, otherwise
// the other one.
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
