package pnc

import (
	"iter"
	"net/netip"
)

// Opaque LSAs of OSPFv2 (RFC 5250): LSA types 9, 10 and 11. Their link state id
// begins with the opaque type.
const (
	opaqueLink, opaqueArea, opaqueAS = 9, 10, 11

	opaqueTE             = 1 // RFC 3630
	opaqueExtendedPrefix = 7 // RFC 7684

	tlvRouterAddress  = 1 // TLV of opaqueTE, RFC 3630 section 2.4.1
	tlvExtendedPrefix = 1 // TLV of opaqueExtendedPrefix, RFC 7684 section 2.1
)

// ReadOSPFv2 yields an advertisement for each prefix with the P-flag in the Extended
// Prefix Opaque LSAs (PROXY section 5.2) of one router. lsas are LSAs with their
// headers from a link state database. Among other LSAs it reads only the traffic
// engineering LSA.
//
// The proxy of a prefix is, in this order (D16):
//   - its prefix source router address; if there are several, ReadOSPFv2 yields an
//     advertisement for each
//   - the router's address in its traffic engineering LSA, if the prefix is in the
//     router's own area (route type 1): another router may have originated others
//   - unknown: Proxy is the zero Addr
//
// Metric is 0, because these LSAs have no metric. If a prefix has the flags twice, the
// first are used. LSAs at MaxAge are ignored.
//
// ReadOSPFv2 yields an error for a malformed LSA, and ignores the rest of that LSA (RFC
// 9792 section 2). It yields an error for the flag on a prefix without host addresses
// (see [Advertisement.Validate]) and continues.
func (c Codes) ReadOSPFv2(lsas ...[]byte) iter.Seq2[Advertisement, error] {
	return readOSPF(ProtocolOSPFv2, lsas, c.ospfv2Bit())
}

// isOpaque reports whether l is an OSPFv2 Opaque LSA of this opaque type.
func (l *lsa) isOpaque(opaqueType uint32) bool {
	typ := l.typ & 0xFF
	return typ >= opaqueLink && typ <= opaqueAS && l.id>>24 == opaqueType
}

// extendedPrefix is the value of an OSPFv2 Extended Prefix TLV (RFC 7684
// section 2.1):
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|  Route Type   | Prefix Length |      AF       |     Flags     |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                        Address Prefix                         |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|  sub-TLVs …
type extendedPrefix struct {
	routeType uint8
	family    uint8        // 0: IPv4 unicast; prefix is invalid for other families
	flags     uint8        // A 0x80, N 0x40
	prefix    netip.Prefix // not masked
	subTLVs   []byte
}

const (
	routeIntraArea    = 1
	routeInterArea    = 3
	extendedPrefixLen = 8
)

func (p *extendedPrefix) decodeValue(b []byte) error {
	if len(b) < extendedPrefixLen {
		return errOSPFFixed
	}
	if b[1] > 32 && b[2] == 0 {
		return errPrefixLength
	}
	*p = extendedPrefix{
		routeType: b[0],
		family:    b[2],
		flags:     b[3],
		subTLVs:   b[extendedPrefixLen:],
	}
	if p.family == 0 {
		p.prefix = netip.PrefixFrom(netip.AddrFrom4([4]byte(b[4:])), int(b[1]))
	}
	return nil
}

// appendFixed appends the value up to the sub-TLVs.
func (p *extendedPrefix) appendFixed(b []byte) []byte {
	b = append(b, p.routeType, uint8(p.prefix.Bits()), p.family, p.flags)
	return appendAddr(b, p.prefix.Addr())
}

// AppendOSPFv2 appends an Extended Prefix TLV with this prefix to b. The body of the
// proxy's Extended Prefix Opaque LSA (opaque type 7) consists of such TLVs. It sets
// the P-flag, and the prefix source router address to the proxy's address; it does
// not encode Metric. It returns an error that matches rocecn.ErrRange, and b
// unchanged, if [Advertisement.Validate] rejects a or if prefix or proxy is not IPv4.
func (c Codes) AppendOSPFv2(b []byte, a Advertisement) ([]byte, error) {
	prefix, proxy, err := a.normalize(32)
	if err != nil {
		return b, err
	}
	start := len(b)
	p := extendedPrefix{routeType: routeIntraArea, prefix: prefix}
	b = p.appendFixed(beginTLV(b, tlvExtendedPrefix))
	b = subTLVsV2.appendPNC(b, c.ospfv2Bit(), proxy)
	return endTLV(b, start), nil
}

// LeakOSPFv2 appends to b the Extended Prefix TLV with which an area border router
// keeps the capability of a prefix in another area: the router MUST originate an
// Extended Prefix Opaque LSA with the received setting (PROXY section 5.2). tlv is the
// received TLV with its type and length.
//
// The result has route type 3 (inter-area), and the flags, the extended flags and the
// originator's router id and address of tlv. Other sub-TLVs have their own rules and
// are not copied. If tlv does not name the originator, from is added (RFC 9084 section
// 3): for route type 1 it is the router that originated the LSA; for other route types
// fields that are not certain must be zero. On error b is returned unchanged.
func LeakOSPFv2(b, tlv []byte, from PrefixSource) ([]byte, error) {
	var p extendedPrefix
	t := ospfTLVs(tlv)
	switch {
	case !t.next():
		return b, errOSPFTLV
	case t.typ != tlvExtendedPrefix:
		return b, errNotPrefixTLV
	}
	if err := p.decodeValue(t.value); err != nil {
		return b, err
	}
	if p.family != 0 {
		return b, errPrefix
	}
	if err := subTLVsV2.checkSubTLVs(p.subTLVs); err != nil {
		return b, err
	}
	start, intraArea := len(b), p.routeType == routeIntraArea
	p.routeType = routeInterArea
	b = p.appendFixed(beginTLV(b, tlvExtendedPrefix))
	return subTLVsV2.appendKept(b, start, p.subTLVs, intraArea, from)
}
