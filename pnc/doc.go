// Package pnc decodes and encodes the advertisements of proxies: the proxy node
// capability (PNC) in IS-IS, OSPFv2, OSPFv3 and BGP (PROXY section 5,
// draft-xiao-rtgwg-proxy-congestion-notification-03).
//
// A congested node that cannot reach a sender notifies the sender's proxy. It learns
// the proxy from the routing protocols: a proxy sets a flag for the prefixes of the
// senders that it serves. The methods of [Codes] read these flags in LSPs, LSAs and
// BGP attributes, and write them:
//
//	for a, err := range codes.ReadISIS(fragments...) {
//		…  // a.Proxy is the proxy of the senders in a.Prefix
//	}
//
// Package node/proxies keeps advertisements in a table. This package is not a
// routing protocol: a routing daemon does the flooding, checksums, sequence numbers
// and path selection, and provides the octets of its database. [LeakISIS],
// [LeakOSPFv2], [LeakOSPFv3] and [Codes.PropagateNHC] are for routers between
// levels, areas and peers: they keep the capability where the draft requires it.
//
// In IS-IS and OSPF the flag does not identify the proxy. The proxy is the router
// that originated the prefix, with the address from its own advertisements (D16):
// see [Codes.ReadISIS] and [Codes.ReadOSPFv2]. In BGP the attribute has the address.
//
// The codes come from RFC 7794 (IS-IS prefix attributes), RFC 5305 and
// RFC 6119 (IS-IS router ids), RFC 7684 (OSPFv2 extended prefixes), RFC 8362
// (OSPFv3 extended LSAs), RFC 9084 (OSPF prefix originators), RFC 9792 (OSPF
// prefix flags), RFC 3630 and RFC 5329 (OSPF router addresses) and
// draft-ietf-idr-nhc-07 (BGP next hop dependent characteristics). The codes of PNC
// are not assigned yet; [Codes] has the values to use.
//
// Experimental: this package may change in a minor release.
package pnc
