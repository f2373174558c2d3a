package pnc

import (
	"iter"
	"net/netip"
)

// Opaque LSAs of OSPFv2 (RFC 5250): LSA types 9, 10 and 11, whose link state id
// begins with the opaque type.
const (
	opaqueLink, opaqueArea, opaqueAS = 9, 10, 11

	opaqueTE             = 1 // RFC 3630
	opaqueExtendedPrefix = 7 // RFC 7684

	tlvRouterAddress  = 1 // in opaqueTE, RFC 3630 section 2.4.1
	tlvExtendedPrefix = 1 // in opaqueExtendedPrefix, RFC 7684 section 2.1
)

// ReadOSPFv2 reads what one router advertises, out of LSAs (header first) from a
// link state database: an advertisement for each prefix with the P-flag in
// Extended Prefix Opaque LSAs (PROXY section 5.2). Other LSAs may be among them
// and say nothing, but for the one with the router's address.
//
// D16: the proxy is the prefix source router address, of several each. Without
// one it is the router's address, from its traffic engineering LSA, if the
// prefix is one of the router's own area (route type 1): any other may have been
// originated by another router. Without either, Proxy is the zero Addr. The
// metric is not in these LSAs: Metric is 0.
//
// An LSA at MaxAge says nothing. A malformed one is an error and says nothing
// else, as RFC 9792 section 2 demands. Of flags that stand twice for one prefix
// the first count. The flag on a prefix without host addresses is an error beside the
// rest (see [Advertisement.Validate]).
func (c Codes) ReadOSPFv2(lsas ...[]byte) iter.Seq2[Advertisement, error] {
	return readOSPF(ProtocolOSPFv2, lsas, c.ospfv2Bit())
}

func (l *lsa) isOpaque(opaqueType uint32) bool {
	typ := l.typ & 0xFF
	return typ >= opaqueLink && typ <= opaqueAS && l.id>>24 == opaqueType
}

// An extendedPrefix is the value of an OSPFv2 Extended Prefix TLV (RFC 7684
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
	family    uint8        // 0: IPv4 unicast; any other has no prefix that is known here
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

// AppendOSPFv2 appends an Extended Prefix TLV with this one prefix, for an
// Extended Prefix Opaque LSA (opaque type 7) of the proxy: the data behind its
// LSA header is one such TLV, or several. The P-flag is set and the prefix
// source router address is the proxy's; prefix and proxy are IPv4. Metric is
// not written.
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

// LeakOSPFv2 appends the Extended Prefix TLV with which an area border router
// keeps a prefix's capability in another area, out of the one that it received
// (with its type and length). PROXY section 5.2: the router MUST originate an
// Extended Prefix Opaque LSA that includes the received setting.
//
// Route type 3 (inter-area) takes the place of what was there; flags, extended
// flags and the originator's router id and address are kept. When the TLV does
// not name the originator it is from that is put in (RFC 9084 section 3): for a
// prefix of route type 1 the router whose LSA it is; for any other a PrefixSource that
// is not known for sure must be left zero. Other sub-TLVs have rules of their
// own and are not copied.
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
