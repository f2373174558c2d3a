package pnc

import (
	"encoding/binary"
	"iter"
	"net/netip"

	"github.com/rocecn/rocecn/internal/wireerr"
)

// Errors of OSPF.
var (
	errRouter = wireerr.New("pnc", "advertising router", "LSAs of different routers", wireerr.Malformed)

	errLSAHeader = wireerr.New("pnc", "OSPF LSA header", "truncated: shorter than 20 octets",
		wireerr.Truncated)
	errLSATruncated = wireerr.New("pnc", "OSPF LSA", "shorter than its length", wireerr.Truncated)
	errLSALength    = wireerr.New("pnc", "OSPF LSA length", "less than the 20 octets of the header",
		wireerr.Malformed)
	errOSPFTLV   = wireerr.New("pnc", "OSPF TLV", "length exceeds the enclosing data", wireerr.Malformed)
	errOSPFFixed = wireerr.New("pnc", "OSPF prefix TLV", "shorter than its fixed fields and the prefix",
		wireerr.Malformed)
	errFlagsLength = wireerr.New("pnc", "OSPF prefix extended flags", "length is not a multiple of 4",
		wireerr.Malformed)
	errTLVLen       = wireerr.New("pnc", "OSPF TLV", "over 65535 octets", wireerr.Range)
	errNotPrefixTLV = wireerr.New("pnc", "OSPF TLV type", "not a prefix TLV", wireerr.Other)
)

// lsa is an LSA of OSPFv2 (RFC 2328 section A.4.1). In OSPFv3 a type of 16 bits
// replaces options and type (RFC 5340 section A.4.2):
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|            Age                |    Options    |     Type      |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                        Link State ID                          |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                      Advertising Router                       |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                        Sequence Number                        |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|           Checksum            |            Length             |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
type lsa struct {
	withdrawn bool   // the age is MaxAge
	typ       uint16 // in OSPFv2 the type is the lower octet
	id        uint32
	router    [4]byte
	body      []byte // octets after the header
}

const (
	lsaHeaderLen = 20
	maxAge       = 3600   // seconds (RFC 2328 appendix B)
	doNotAge     = 0x8000 // RFC 1793 section 2.2
)

func (l *lsa) decodeHeader(b []byte) error {
	if len(b) < lsaHeaderLen {
		return errLSAHeader
	}
	length := int(binary.BigEndian.Uint16(b[18:]))
	if length < lsaHeaderLen {
		return errLSALength
	}
	if length > len(b) {
		return errLSATruncated
	}
	*l = lsa{
		withdrawn: binary.BigEndian.Uint16(b)&^doNotAge >= maxAge,
		typ:       binary.BigEndian.Uint16(b[2:]),
		id:        binary.BigEndian.Uint32(b[4:]),
		router:    [4]byte(b[8:]),
		body:      b[lsaHeaderLen:length],
	}
	return nil
}

// maxOSPFTLV is the length in octets of the longest TLV that is a multiple of 4
// octets, including its type and length.
const maxOSPFTLV = 0x10000

// beginTLV appends the type of a TLV and a length of 0. The value that the caller
// appends next must be a multiple of 4 octets.
func beginTLV(b []byte, typ uint16) []byte { return append(b, uint8(typ>>8), uint8(typ), 0, 0) }

// endTLV sets the length of the TLV that begins at start and ends with b.
func endTLV(b []byte, start int) []byte {
	binary.BigEndian.PutUint16(b[start+2:], uint16(len(b)-start-4))
	return b
}

// ospfPrefix is the content of a prefix TLV.
type ospfPrefix struct {
	prefix    netip.Prefix // not masked; invalid if its family is unknown
	metric    uint32
	intraArea bool // the prefix is in the router's own area
	subTLVs   []byte
}

// readOSPF yields the advertisements with this bit in the LSAs of one router.
func readOSPF(version Protocol, lsas [][]byte, bit uint) iter.Seq2[Advertisement, error] {
	return func(yield func(Advertisement, error) bool) {
		r := ospfRouter{Originator{Protocol: version}, false, netip.Addr{}}
		for _, b := range lsas {
			r.addLSA(b)
		}
		for _, b := range lsas {
			if !r.readLSA(b, bit, yield) {
				return
			}
		}
	}
}

// ospfRouter is the data of all LSAs that is needed to read each of them.
type ospfRouter struct {
	origin  Originator // originator of the first valid LSA
	known   bool       // origin is set
	address netip.Addr // address in the traffic engineering LSA
}

// isFromRouter reports whether an LSA is from the originator, which the first LSA
// determines.
func (r *ospfRouter) isFromRouter(l *lsa) bool {
	if !r.known {
		r.known = true
		copy(r.origin.ID[:], l.router[:])
	}
	return [4]byte(r.origin.ID[:]) == l.router
}

// addLSA takes the address from an LSA that has it, and ignores invalid LSAs.
func (r *ospfRouter) addLSA(b []byte) {
	var l lsa
	if l.decodeHeader(b) != nil || !r.isFromRouter(&l) || l.withdrawn || r.address.IsValid() {
		return
	}
	t := ospfTLVs(l.body)
	switch {
	case r.origin.Protocol == ProtocolOSPFv2 && l.isOpaque(opaqueTE):
		r.address, _ = netip.AddrFromSlice(t.find(tlvRouterAddress, 4))
	case r.origin.Protocol == ProtocolOSPFv3 && l.typ&functionCode == functionIntraAreaTE:
		r.address, _ = netip.AddrFromSlice(t.find(tlvRouterIPv6Address, 16))
	}
}

// readLSA yields the advertisements of one LSA. It returns false if yield does.
func (r *ospfRouter) readLSA(b []byte, bit uint, yield func(Advertisement, error) bool) bool {
	var l lsa
	if err := l.decodeHeader(b); err != nil {
		return yield(Advertisement{}, err)
	}
	if !r.isFromRouter(&l) {
		return yield(Advertisement{}, errRouter)
	}
	tlv, body, err := r.prefixTLVs(&l)
	if tlv == 0 && err == nil || l.withdrawn {
		return true
	}
	if err == nil {
		err = r.checkTLVs(body, tlv)
	}
	if err != nil {
		return yield(Advertisement{}, err)
	}
	codes := r.subTLVCodes()
	for t := ospfTLVs(body); t.find(int(tlv), -1) != nil; {
		var p ospfPrefix
		if r.decodePrefix(&p, tlv, t.value) != nil || !p.prefix.IsValid() || !hasFlag(codes.flagField(p.subTLVs), bit) {
			continue
		}
		if !isHostPrefix(p.prefix) {
			if !yield(Advertisement{}, errNotHosts) {
				return false
			}
			continue
		}
		var otherwise netip.Addr
		if p.intraArea {
			otherwise = r.address
		}
		a := Advertisement{Prefix: p.prefix.Masked(), Metric: p.metric, Originator: r.origin}
		if !codes.yieldSources(a, p.subTLVs, otherwise, yield) {
			return false
		}
	}
	return true
}

func (r *ospfRouter) subTLVCodes() *subTLVCodes {
	if r.origin.Protocol == ProtocolOSPFv2 {
		return &subTLVsV2
	}
	return &subTLVsV3
}

// prefixTLVs returns the TLVs in an LSA and the type of its prefix TLVs, or 0 if it
// has none.
func (r *ospfRouter) prefixTLVs(l *lsa) (tlv uint16, body []byte, err error) {
	switch {
	case r.origin.Protocol == ProtocolOSPFv3:
		tlv = prefixTLV(l.typ)
	case l.isOpaque(opaqueExtendedPrefix):
		return tlvExtendedPrefix, l.body, nil
	}
	switch {
	case tlv != tlvIntraAreaPrefix:
		return tlv, l.body, nil
	case len(l.body) < referenceLen:
		return tlv, nil, errOSPFFixed
	}
	return tlv, l.body[referenceLen:], nil
}

// decodePrefix reads the value of a prefix TLV.
func (r *ospfRouter) decodePrefix(p *ospfPrefix, tlv uint16, value []byte) error {
	if r.origin.Protocol == ProtocolOSPFv2 {
		var v2 extendedPrefix
		err := v2.decodeValue(value)
		p.prefix, p.intraArea, p.subTLVs = v2.prefix, v2.routeType == routeIntraArea, v2.subTLVs
		return err
	}
	var v3 prefixV3
	err := v3.decodeValue(value)
	p.prefix, p.metric, p.subTLVs = v3.prefix, v3.metric&maxOSPFMetric, v3.subTLVs
	p.intraArea = tlv == tlvIntraAreaPrefix
	return err
}

// checkTLVs returns an error if the TLVs of an LSA are malformed.
func (r *ospfRouter) checkTLVs(body []byte, tlv uint16) error {
	t := ospfTLVs(body)
	for t.find(int(tlv), -1) != nil {
		var p ospfPrefix
		if err := r.decodePrefix(&p, tlv, t.value); err != nil {
			return err
		}
		if err := r.subTLVCodes().checkSubTLVs(p.subTLVs); err != nil {
			return err
		}
	}
	return wireerr.If(len(t.rest) > 0, errOSPFTLV)
}

// subTLVCodes are the types of the sub-TLVs of a prefix that this package uses, which
// differ between OSPFv2 and OSPFv3.
type subTLVCodes struct {
	flags         uint16 // prefix extended flags (RFC 9792 section 2)
	sourceRouter  uint16 // prefix source OSPF router id (RFC 9084 section 2.1)
	sourceAddress uint16 // prefix source router address (RFC 9084 section 2.2)
	addressLen    int    // length of an address in octets
}

var (
	subTLVsV2 = subTLVCodes{flags: 11, sourceRouter: 4, sourceAddress: 5, addressLen: 4}
	subTLVsV3 = subTLVCodes{flags: 37, sourceRouter: 27, sourceAddress: 28, addressLen: 16}
)

// checkSubTLVs returns an error if the sub-TLVs are malformed. If the length of the
// prefix extended flags is not a multiple of 4, the whole LSA is malformed and MUST
// be ignored (RFC 9792 section 2).
func (c *subTLVCodes) checkSubTLVs(subTLVs []byte) error {
	t := ospfTLVs(subTLVs)
	for t.find(int(c.flags), -1) != nil {
		if len(t.value)%4 != 0 {
			return errFlagsLength
		}
	}
	return wireerr.If(len(t.rest) > 0, errSubTLV)
}

// flagField returns the first prefix extended flags, or nil.
func (c *subTLVCodes) flagField(subTLVs []byte) []byte {
	t := ospfTLVs(subTLVs)
	return t.find(int(c.flags), -1)
}

// nextSource returns the next prefix source router address. It ignores those of the
// other family, which are invalid (RFC 9084 section 2.2).
func (c *subTLVCodes) nextSource(t *wideTLVs) (addr netip.Addr, ok bool) {
	return netip.AddrFromSlice(t.find(int(c.sourceAddress), c.addressLen))
}

// yieldSources yields an advertisement for each source address of the prefix, or one
// with the address otherwise if there are none. It returns false if yield does.
func (c *subTLVCodes) yieldSources(a Advertisement, subTLVs []byte, otherwise netip.Addr,
	yield func(Advertisement, error) bool) bool {
	t := ospfTLVs(subTLVs)
	addr, ok := c.nextSource(&t)
	if a.Proxy = addr; !ok {
		a.Proxy = otherwise
	}
	for yield(a, nil) {
		if a.Proxy, ok = c.nextSource(&t); !ok {
			return true
		}
	}
	return false
}

// appendPNC appends the flags and the source address of an advertisement.
func (c *subTLVCodes) appendPNC(b []byte, bit uint, proxy netip.Addr) []byte {
	start := len(b)
	return c.appendSource(endTLV(appendFlag(beginTLV(b, c.flags), bit, 4), start), proxy)
}

// appendSource appends a prefix source router address.
func (c *subTLVCodes) appendSource(b []byte, addr netip.Addr) []byte {
	start := len(b)
	return endTLV(appendAddr(beginTLV(b, c.sourceAddress), addr), start)
}

// PrefixSource is the router that originated an OSPF prefix. The zero value of a
// field means that it is unknown.
type PrefixSource struct {
	Router  [4]byte    // OSPF router id
	Address netip.Addr // reachable address, in the family of the prefix
}

// appendKept appends the sub-TLVs of a prefix that are kept when it is advertised in
// another area: the flags, and the originator of the prefix, or from if no sub-TLV
// names one. It ignores router ids of 0, and with intraArea those of routers other
// than from, because both are invalid (RFC 9084 section 2.1). It then ends the TLV
// that began at start, or returns an error if the TLV is too long.
func (c *subTLVCodes) appendKept(
	b []byte, start int, subTLVs []byte, intraArea bool, from PrefixSource,
) ([]byte, error) {
	if flags := c.flagField(subTLVs); flags != nil {
		b = appendTLV(b, c.flags, flags)
	}
	named := false
	for t := ospfTLVs(subTLVs); t.next(); {
		switch {
		case t.typ == c.sourceAddress && len(t.value) == c.addressLen:
		case t.typ == c.sourceRouter && len(t.value) == 4 && [4]byte(t.value) != [4]byte{} &&
			(!intraArea || from.Router == [4]byte{} || from.Router == [4]byte(t.value)):
		default:
			continue
		}
		b = appendTLV(b, t.typ, t.value)
		named = true
	}
	if from.Router != [4]byte{} && !named {
		b = appendTLV(b, c.sourceRouter, from.Router[:])
	}
	if addr := wireAddr(from.Address); addr.BitLen() == 8*c.addressLen && !named {
		b = c.appendSource(b, addr)
	}
	if len(b)-start > maxOSPFTLV {
		return b[:start], errTLVLen
	}
	return endTLV(b, start), nil
}

// appendTLV appends a TLV with a value that is a multiple of 4 octets.
func appendTLV(b []byte, typ uint16, value []byte) []byte {
	start := len(b)
	return endTLV(append(beginTLV(b, typ), value...), start)
}
