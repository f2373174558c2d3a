package pnc

import (
	"encoding/binary"
	"iter"
	"net/netip"

	"github.com/rocecn/rocecn/internal/wireerr"
)

// TLVs of an LSP.
const (
	tlvTERouterID     = 134 // RFC 5305 section 4.3
	tlvReach4         = 135 // RFC 5305 section 4
	tlvIPv6TERouterID = 140 // RFC 6119 section 4.1
	tlvMTReach4       = 235 // RFC 5120 section 7.3
	tlvReach6         = 236 // RFC 5308 section 2
	tlvMTReach6       = 237 // RFC 5120 section 7.4
)

// Sub-TLVs of the four reachability TLVs (RFC 7794 section 2).
const (
	subPrefixAttributeFlags = 4
	subIPv4SourceRouterID   = 11
	subIPv6SourceRouterID   = 12
)

const bitReAdvertised = 1 // R-flag of the prefix attribute flags: leaked from another level

// Errors of IS-IS.
var (
	errNotLSP = wireerr.New("pnc", "IS-IS PDU", "not a link state PDU of level 1 or 2 with system ids of 6 octets",
		wireerr.Other)
	errSystem = wireerr.New("pnc", "LSP id", "fragments of different systems or levels", wireerr.Malformed)

	errLSPHeader = wireerr.New("pnc", "IS-IS LSP header", "truncated: shorter than 27 octets",
		wireerr.Truncated)
	errLSPTruncated = wireerr.New("pnc", "IS-IS LSP", "shorter than its PDU length", wireerr.Truncated)
	errPDULength    = wireerr.New("pnc", "IS-IS PDU length", "less than the 27 octets of the header",
		wireerr.Malformed)
	errTLV          = wireerr.New("pnc", "IS-IS TLV", "length exceeds the LSP", wireerr.Malformed)
	errReach        = wireerr.New("pnc", "IS-IS reachability", "length exceeds its TLV", wireerr.Malformed)
	errPrefixLength = wireerr.New("pnc", "prefix length", "over 32 bits (IPv4) or 128 (IPv6)", wireerr.Malformed)
	errSubTLV       = wireerr.New("pnc", "sub-TLV", "length exceeds its TLV", wireerr.Malformed)
	errSubTLVsLen   = wireerr.New("pnc", "sub-TLVs", "over 255 octets", wireerr.Range)
	errTopology     = wireerr.New("pnc", "IS-IS topology", "over 4095, more than 12 bits", wireerr.Range)
)

// ReadISIS yields an advertisement for each prefix with the P-flag (PROXY section
// 5.1) in the LSP of one system at one level. fragments are those of the LSP, each
// from the octet 0x83 on, from a link state database: checksums and sequence numbers
// are not checked.
//
// The proxy of a prefix is, in this order (D16):
//   - its IPv4 or IPv6 source router id
//   - the TE router id of the system (TLV 134 or 140 in any fragment), unless the
//     prefix was leaked from another level (R-flag or down bit): then another system
//     originated it
//   - unknown: Proxy is the zero Addr
//
// Of two addresses the one in the prefix's family is used. Of duplicate sub-TLVs the
// first is used. Expired fragments (remaining lifetime 0) are ignored; if fragment 0
// has expired, all are.
//
// ReadISIS yields an error for a malformed fragment, TLV or reachability entry, and
// for the flag on a prefix without host addresses (see [Advertisement.Validate]), and
// continues with the others.
func (c Codes) ReadISIS(fragments ...[]byte) iter.Seq2[Advertisement, error] {
	return func(yield func(Advertisement, error) bool) {
		var s system
		for _, f := range fragments {
			s.addFragment(f)
		}
		for _, f := range fragments {
			if !s.readFragment(f, c.isisBit(), yield) {
				return
			}
		}
	}
}

// lsp is a link state PDU (ISO 10589 section 9.8):
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|     0x83      |  Header Len   |       1       |   ID Length   |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|R|R|R| PDU Type|       1       |    Reserved   | Max Area Addr |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|          PDU Length           |      Remaining Lifetime       |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                      System ID (6 octets)                     |
//	|                               +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                               |  Pseudonode   |   Fragment    |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                        Sequence Number                        |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|           Checksum            |P/ATT/OL/IS Typ|  TLVs …
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
type lsp struct {
	origin     Originator
	lifetime   uint16
	pseudonode uint8
	fragment   uint8
	tlvs       []byte
}

const lspHeaderLen = 27

func (l *lsp) decodeHeader(b []byte) error {
	if len(b) < lspHeaderLen {
		return errLSPHeader
	}
	pduType := b[4] & 0x1F
	if b[0] != 0x83 || b[2] != 1 || b[3] != 0 && b[3] != 6 || pduType != 18 && pduType != 20 {
		return errNotLSP
	}
	length := int(binary.BigEndian.Uint16(b[8:]))
	if length < lspHeaderLen {
		return errPDULength
	}
	if length > len(b) {
		return errLSPTruncated
	}
	*l = lsp{
		origin:     Originator{Protocol: ProtocolISIS, ID: [8]byte{7: pduType/2 - 8}}, // 18 is level 1, 20 is level 2
		lifetime:   binary.BigEndian.Uint16(b[10:]),
		pseudonode: b[18],
		fragment:   b[19],
		tlvs:       b[lspHeaderLen:length],
	}
	copy(l.origin.ID[:6], b[12:])
	return nil
}

// system is the data of all fragments that is needed to read each of them.
type system struct {
	origin   Originator // originator of the first valid fragment
	expired  bool       // fragment 0 has expired
	id4, id6 netip.Addr // TE router ids
}

// addFragment adds the data of one fragment, and ignores invalid ones.
func (s *system) addFragment(fragment []byte) {
	var l lsp
	if l.decodeHeader(fragment) != nil {
		return
	}
	if s.origin == (Originator{}) {
		s.origin = l.origin
	}
	if l.origin != s.origin || l.pseudonode != 0 {
		return
	}
	if l.lifetime == 0 {
		s.expired = s.expired || l.fragment == 0
		return
	}
	for t := (tlvs{rest: l.tlvs}); t.next(); {
		switch {
		case t.typ == tlvTERouterID && len(t.value) == 4:
			s.id4 = netip.AddrFrom4([4]byte(t.value))
		case t.typ == tlvIPv6TERouterID && len(t.value) == 16:
			s.id6 = netip.AddrFrom16([16]byte(t.value))
		}
	}
}

// readFragment yields the advertisements of one fragment. It returns false if yield
// does.
func (s *system) readFragment(fragment []byte, bit uint, yield func(Advertisement, error) bool) bool {
	var l lsp
	if err := l.decodeHeader(fragment); err != nil {
		return yield(Advertisement{}, err)
	}
	if l.origin != s.origin {
		return yield(Advertisement{}, errSystem)
	}
	if l.lifetime == 0 || s.expired || l.pseudonode != 0 { // a pseudonode has no prefixes
		return true
	}
	t := tlvs{rest: l.tlvs}
	for t.next() {
		switch t.typ {
		case tlvReach4, tlvMTReach4, tlvReach6, tlvMTReach6:
			if !s.readReach(t.typ, t.value, bit, yield) {
				return false
			}
		}
	}
	return len(t.rest) == 0 || yield(Advertisement{}, errTLV)
}

// readReach yields the advertisements of one reachability TLV. It returns false if
// yield does.
func (s *system) readReach(tlv uint8, b []byte, bit uint, yield func(Advertisement, error) bool) bool {
	if isMultiTopology(tlv) && len(b) > 0 {
		if len(b) < 2 {
			return yield(Advertisement{}, errReach)
		}
		b = b[2:]
	}
	for len(b) > 0 {
		var r reach
		rest, err := r.decodeEntry(tlv, b)
		if err != nil {
			return yield(Advertisement{}, err) // the start of the next entry is unknown
		}
		b = rest
		var attributes prefixAttributes
		if err = attributes.decodeSubTLVs(r.subTLVs); err == nil {
			if !hasFlag(attributes.flags, bit) {
				continue
			}
			err = wireerr.If(!isHostPrefix(r.prefix), errNotHosts)
		}
		var a Advertisement
		if err == nil {
			a = Advertisement{Prefix: r.prefix.Masked(), Metric: r.metric, Originator: s.origin}
			a.Proxy = preferFamily(a.Prefix, attributes.source4, attributes.source6)
			leaked := r.control&controlDown != 0 || hasFlag(attributes.flags, bitReAdvertised)
			if !a.Proxy.IsValid() && !leaked {
				a.Proxy = preferFamily(a.Prefix, s.id4, s.id6)
			}
		}
		if !yield(a, err) {
			return false
		}
	}
	return true
}

// reach is one entry of a reachability TLV. IPv4 (RFC 5305 section 4):
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                            Metric                             |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|U|S|Prefix Len |  prefix, 0 to 4 octets, then if S: length, sub-TLVs
//	+-+-+-+-+-+-+-+-+
//
// IPv6 (RFC 5308 section 2), with 0 to 16 octets of prefix:
//
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                            Metric                             |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|U|X|S| Reserve |  Prefix Len   |  prefix, then if S: length, sub-TLVs
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
type reach struct {
	metric  uint32
	control uint8        // U, X, S and the reserved bits, if the TLV has them
	prefix  netip.Prefix // not masked
	subTLVs []byte       // present if S is set
}

const (
	controlDown     = 0x80 // U: leaked from level 2 to level 1
	controlSubTLVs4 = 0x40 // S in an IPv4 entry
	controlSubTLVs6 = 0x20 // S in an IPv6 entry
)

func isIPv6(tlv uint8) bool          { return tlv == tlvReach6 || tlv == tlvMTReach6 }
func isMultiTopology(tlv uint8) bool { return tlv == tlvMTReach4 || tlv == tlvMTReach6 }

func (r *reach) decodeEntry(tlv uint8, b []byte) (rest []byte, err error) {
	fixed, maxBits, subTLVs := 5, 32, uint8(controlSubTLVs4)
	if isIPv6(tlv) {
		fixed, maxBits, subTLVs = 6, 128, controlSubTLVs6
	}
	if len(b) < fixed {
		return nil, errReach
	}
	e := reach{metric: binary.BigEndian.Uint32(b), control: b[4]}
	bits := int(b[fixed-1])
	if !isIPv6(tlv) {
		bits &= 0x3F
		e.control &= 0xC0
	}
	if bits > maxBits {
		return nil, errPrefixLength
	}
	b = b[fixed:]
	n := (bits + 7) / 8
	if len(b) < n {
		return nil, errReach
	}
	var octets [16]byte
	copy(octets[:], b[:n])
	b = b[n:]
	addr := netip.AddrFrom16(octets)
	if !isIPv6(tlv) {
		addr = netip.AddrFrom4([4]byte(octets[:]))
	}
	e.prefix = netip.PrefixFrom(addr, bits)
	if e.control&subTLVs != 0 {
		if len(b) < 1 || len(b) < 1+int(b[0]) {
			return nil, errReach
		}
		end := 1 + int(b[0])
		e.subTLVs, b = b[1:end:end], b[end:]
	}
	*r = e
	return b, nil
}

func (r *reach) appendEntry(b []byte) []byte {
	bits := r.prefix.Bits()
	b = binary.BigEndian.AppendUint32(b, r.metric)
	if r.prefix.Addr().Is4() {
		b = append(b, r.control|uint8(bits))
	} else {
		b = append(b, r.control, uint8(bits))
	}
	var addr [16]byte
	b = append(b, appendAddr(addr[:0], r.prefix.Addr())[:(bits+7)/8]...)
	if r.subTLVs != nil {
		b = append(b, uint8(len(r.subTLVs)))
		b = append(b, r.subTLVs...)
	}
	return b
}

// prefixAttributes are the sub-TLVs of RFC 7794.
type prefixAttributes struct {
	flags            []byte
	source4, source6 netip.Addr
}

func (a *prefixAttributes) decodeSubTLVs(subTLVs []byte) error {
	t := tlvs{rest: subTLVs}
	for t.next() {
		switch {
		case t.typ == subPrefixAttributeFlags && a.flags == nil:
			a.flags = t.value
		case t.typ == subIPv4SourceRouterID && len(t.value) == 4 && !a.source4.IsValid():
			a.source4 = netip.AddrFrom4([4]byte(t.value))
		case t.typ == subIPv6SourceRouterID && len(t.value) == 16 && !a.source6.IsValid():
			a.source6 = netip.AddrFrom16([16]byte(t.value))
		}
	}
	return wireerr.If(len(t.rest) > 0, errSubTLV)
}

// appendSourceRouterID appends the sub-TLV with the source router id if id is valid.
func appendSourceRouterID(b []byte, id netip.Addr) []byte {
	switch {
	case id.Is4():
		return appendAddr(append(b, subIPv4SourceRouterID, 4), id)
	case id.Is6():
		return appendAddr(append(b, subIPv6SourceRouterID, 16), id)
	}
	return b
}

// AppendISIS appends a reachability TLV with this prefix to b, for the LSP of the
// proxy: TLV 135 or 236, or 235 or 237 with a topology other than 0 (12 bits, RFC
// 5120 section 7). It sets the P-flag, and the source router id to the proxy's
// address. It returns an error that matches rocecn.ErrRange, and b unchanged, for an
// advertisement that [Advertisement.Validate] rejects and for a topology over 4095.
func (c Codes) AppendISIS(b []byte, a Advertisement, topology uint16) ([]byte, error) {
	prefix, proxy, err := a.normalize(0)
	switch {
	case err != nil:
		return b, err
	case topology > 0xFFF:
		return b, errTopology
	}
	tlv, mt, control := uint8(tlvReach4), uint8(tlvMTReach4), uint8(controlSubTLVs4)
	if prefix.Addr().Is6() {
		tlv, mt, control = tlvReach6, tlvMTReach6, controlSubTLVs6
	}
	if topology != 0 {
		tlv = mt
	}
	var space [64]byte // 2 + 32 octets of flags and 2 + 16 of address
	subTLVs := append(space[:0], subPrefixAttributeFlags, uint8(flagsLen(c.isisBit(), 1)))
	subTLVs = appendFlag(subTLVs, c.isisBit(), 1)
	subTLVs = appendSourceRouterID(subTLVs, proxy)

	start := len(b)
	b = append(b, tlv, 0)
	if topology != 0 {
		b = binary.BigEndian.AppendUint16(b, topology)
	}
	r := reach{metric: a.Metric, control: control, prefix: prefix, subTLVs: subTLVs}
	b = r.appendEntry(b)
	b[start+1] = uint8(len(b) - start - 2)
	return b, nil
}

// LeakISIS appends the sub-TLVs for a router that leaks a prefix to another level and
// MUST keep its capability (PROXY section 5.1). subTLVs are those of the received
// prefix, id4 and id6 the TE router ids of the system that originated it; either may
// be invalid. It appends:
//   - the prefix attribute flags, with the R-flag set (RFC 7794 section 2.1)
//   - the source router ids, which identify the proxy; if there are none, id4 and
//     id6, unless the R-flag shows that the prefix came from another level before
//
// Other sub-TLVs have their own rules and are not copied. It returns b unchanged and
// an error if subTLVs is malformed or the result is longer than 255 octets.
func LeakISIS(b, subTLVs []byte, id4, id6 netip.Addr) ([]byte, error) {
	var a prefixAttributes
	if err := a.decodeSubTLVs(subTLVs); err != nil {
		return b, err
	}
	if !a.source4.IsValid() && !a.source6.IsValid() && !hasFlag(a.flags, bitReAdvertised) {
		if id4 = wireAddr(id4); id4.Is4() {
			a.source4 = id4
		}
		if id6 = wireAddr(id6); id6.Is6() {
			a.source6 = id6
		}
	}
	start, n := len(b), max(len(a.flags), 1)
	b = append(b, subPrefixAttributeFlags, uint8(n))
	b = append(append(b, a.flags...), make([]byte, n-len(a.flags))...)
	b[start+2] |= 0x80 >> bitReAdvertised
	b = appendSourceRouterID(b, a.source4)
	b = appendSourceRouterID(b, a.source6)
	if len(b)-start > 255 {
		return b[:start], errSubTLVsLen
	}
	return b, nil
}
