// Package pnc reads and writes how a proxy makes itself known: the proxy node
// capability (PNC) in IS-IS, OSPFv2, OSPFv3 and BGP (PROXY section 5,
// draft-xiao-rtgwg-proxy-congestion-notification-03).
//
// A congested node that does not reach a sender itself notifies the sender's
// proxy. It learns from the routing protocols who that is: a proxy marks the
// prefixes of the senders behind it. [Codes] reads those marks out of LSPs,
// LSAs and BGP attributes, and writes them:
//
//	for a, err := range codes.ReadISIS(fragments...) {
//		…  // a.Proxy is the proxy of the senders in a.Prefix
//	}
//
// Package node/proxies keeps them in a table for the packet path. Nothing here
// speaks a routing protocol: flooding, checksums, sequence numbers and the
// choice of paths are the routing daemon's, which hands over the octets of its
// database. LeakISIS, LeakOSPFv2, LeakOSPFv3 and [Codes.PropagateNHC] are for
// routers between levels, areas and peers: they keep the capability where the
// draft says that it MUST be kept.
//
// In the two IGPs a flag says that there is a proxy, but not who it is. D16:
// the proxy is the router that originated the prefix, by the address that it
// gives for that purpose, see [Codes.ReadISIS] and [Codes.ReadOSPFv2]. In BGP the
// address is in the attribute.
//
// The codes come from RFC 7794 (IS-IS prefix attributes), RFC 5305 and
// RFC 6119 (IS-IS router ids), RFC 7684 (OSPFv2 extended prefixes), RFC 8362
// (OSPFv3 extended LSAs), RFC 9084 (OSPF prefix originators), RFC 9792 (OSPF
// prefix flags), RFC 3630 and RFC 5329 (OSPF router addresses) and
// draft-ietf-idr-nhc-07 (BGP next hop dependent characteristics). Those of PNC
// itself are not assigned yet and can be set, see [Codes].
//
// Experimental: this package may change in a minor release.
package pnc
