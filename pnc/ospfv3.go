package pnc

import (
	"encoding/binary"
	"iter"
	"net/netip"
)

// Function codes of OSPFv3 LSAs: the lower 13 bits of the type.
const (
	functionCode = 0x1FFF

	functionIntraAreaTE      = 10 // RFC 5329
	functionEInterAreaPrefix = 35 // RFC 8362 section 4
	functionEASExternal      = 37
	functionENSSA            = 39
	functionEIntraAreaPrefix = 41

	tlvRouterIPv6Address = 3 // TLV of functionIntraAreaTE, RFC 5329 section 3

	tlvInterAreaPrefix = 3 // RFC 8362 section 3.4
	tlvExternalPrefix  = 5 // RFC 8362 section 3.6
	tlvIntraAreaPrefix = 6 // RFC 8362 section 3.7

	referenceLen = 12 // length in octets of the fields before the TLVs of an E-Intra-Area-Prefix-LSA
)

// ReadOSPFv3 yields an advertisement for each prefix with the P-flag in the extended
// LSAs (PROXY section 5.3, RFC 8362) of one router. lsas are LSAs with their headers
// from a link state database. Among other LSAs it reads only the traffic engineering
// LSA; LSAs of the older format (RFC 5340) cannot carry the flag. The address family
// must be IPv6 unicast: LSAs of the other families of RFC 5838 look the same.
//
// The proxy and the errors are those of [Codes.ReadOSPFv2]. The router's address is
// the IPv6 address in its traffic engineering LSA (RFC 5329).
func (c Codes) ReadOSPFv3(lsas ...[]byte) iter.Seq2[Advertisement, error] {
	return readOSPF(ProtocolOSPFv3, lsas, c.ospfv3Bit())
}

// prefixTLV returns the type of the prefix TLVs in an LSA of this type, or 0 if it has
// none.
func prefixTLV(typ uint16) uint16 {
	switch typ & functionCode {
	case functionEInterAreaPrefix:
		return tlvInterAreaPrefix
	case functionEASExternal, functionENSSA:
		return tlvExternalPrefix
	case functionEIntraAreaPrefix:
		return tlvIntraAreaPrefix
	}
	return 0
}

// prefixV3 is the value of an Inter-Area-Prefix, External-Prefix or
// Intra-Area-Prefix TLV (RFC 8362 sections 3.4, 3.6, 3.7). The octet before the
// metric is 0 except in an External-Prefix TLV:
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|0 0 0 0 0|E|0 0|                    Metric                     |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	| PrefixLength  | PrefixOptions |               0               |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|          Address Prefix, 0 to 4 words, then sub-TLVs …
type prefixV3 struct {
	metric   uint32       // metric and the octet before it
	options  uint8        // PrefixOptions
	reserved uint16       // zero on send, ignored on receipt
	prefix   netip.Prefix // not masked
	subTLVs  []byte
}

const (
	maxOSPFMetric = 1<<24 - 1
	prefixV3Len   = 8
	optionLA      = 0x02 // the prefix is an address of the advertising router
)

func (p *prefixV3) decodeValue(b []byte) error {
	if len(b) < prefixV3Len {
		return errOSPFFixed
	}
	bits := int(b[4])
	if bits > 128 {
		return errPrefixLength
	}
	end := prefixV3Len + prefixLen(bits)
	if len(b) < end {
		return errOSPFFixed
	}
	var octets [16]byte
	copy(octets[:], b[prefixV3Len:end])
	*p = prefixV3{
		metric:   binary.BigEndian.Uint32(b),
		options:  b[5],
		reserved: binary.BigEndian.Uint16(b[6:]),
		prefix:   netip.PrefixFrom(netip.AddrFrom16(octets), bits),
		subTLVs:  b[end:],
	}
	return nil
}

// prefixLen returns the length in octets of an encoded prefix, a multiple of 4.
func prefixLen(bits int) int { return (bits + 31) / 32 * 4 }

// appendFixed appends the value up to the sub-TLVs.
func (p *prefixV3) appendFixed(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, p.metric)
	b = append(b, uint8(p.prefix.Bits()), p.options)
	b = binary.BigEndian.AppendUint16(b, p.reserved)
	addr := p.prefix.Addr().As16()
	return append(b, addr[:prefixLen(p.prefix.Bits())]...)
}

// AppendOSPFv3 appends an Intra-Area-Prefix TLV with this prefix to b. In the proxy's
// E-Intra-Area-Prefix-LSA such TLVs follow the LSA header and the 12 octets that
// reference another LSA. It sets the P-flag, and the prefix source router address to
// the proxy's address. It returns an error that matches rocecn.ErrRange, and b
// unchanged, if [Advertisement.Validate] rejects a, if prefix or proxy is not IPv6, or
// if Metric has more than 24 bits.
func (c Codes) AppendOSPFv3(b []byte, a Advertisement) ([]byte, error) {
	prefix, proxy, err := a.normalize(128)
	switch {
	case err != nil:
		return b, err
	case a.Metric > maxOSPFMetric:
		return b, errMetric
	}
	start := len(b)
	p := prefixV3{metric: a.Metric, prefix: prefix}
	b = p.appendFixed(beginTLV(b, tlvIntraAreaPrefix))
	b = subTLVsV3.appendPNC(b, c.ospfv3Bit(), proxy)
	return endTLV(b, start), nil
}

// LeakOSPFv3 appends to b the Inter-Area-Prefix TLV with which an area border router
// keeps the capability of a prefix in another area: the P-flag MUST have the value
// that it has in the source area (PROXY section 5.3). tlv is the received
// Intra-Area-Prefix or Inter-Area-Prefix TLV with its type and length. An
// Inter-Area-Prefix-LSA of RFC 5340 cannot carry the flag.
//
// metric is the metric of the area border router to the prefix, 24 bits. The result has the
// PrefixOptions of tlv without the LA-bit, which is only valid in the area of the
// originating router, and the extended flags and the originator's router id and address of
// tlv. If tlv does not name the originator, from is added, as in [LeakOSPFv2]. Other
// sub-TLVs have their own rules and are not copied. On error b is returned unchanged.
func LeakOSPFv3(b, tlv []byte, metric uint32, from PrefixSource) ([]byte, error) {
	var p prefixV3
	t := ospfTLVs(tlv)
	switch {
	case !t.next():
		return b, errOSPFTLV
	case t.typ != tlvIntraAreaPrefix && t.typ != tlvInterAreaPrefix:
		return b, errNotPrefixTLV
	case metric > maxOSPFMetric:
		return b, errMetric
	}
	if err := p.decodeValue(t.value); err != nil {
		return b, err
	}
	if err := subTLVsV3.checkSubTLVs(p.subTLVs); err != nil {
		return b, err
	}
	start := len(b)
	p.metric, p.options, p.reserved = metric, p.options&^optionLA, 0
	b = p.appendFixed(beginTLV(b, tlvInterAreaPrefix))
	return subTLVsV3.appendKept(b, start, p.subTLVs, t.typ == tlvIntraAreaPrefix, from)
}
