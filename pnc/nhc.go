package pnc

import (
	"bytes"
	"encoding/binary"
	"net/netip"

	"github.com/rocecn/rocecn/internal/wireerr"
)

// The BGP path attribute "next hop dependent characteristics" (NHC,
// draft-ietf-idr-nhc-07). A router that does not know it forwards it with the Partial
// bit (0x20) set, which has no effect here.
const (
	AttributeNHC      = 39   // path attribute type
	AttributeNHCFlags = 0xC0 // path attribute flags: optional, transitive
)

// NextHop is the header of the attribute: the family of the routes and their next
// hop.
type NextHop struct {
	AFI  uint16     // 1: IPv4 routes, 2: IPv6
	SAFI uint8      // 1: unicast, 128: VPN
	Addr netip.Addr // next hop
}

// Characteristic is a TLV of the attribute other than PNC.
type Characteristic struct {
	Code  uint16
	Value []byte
}

const safiVPN = 128 // next hops begin with a route distinguisher of 8 octets (RFC 4364 section 4.3.2)

// Errors of NHC.
var (
	errNHC = wireerr.New("pnc", "BGP NHC attribute", "header or TLV exceeds the attribute: discard the attribute",
		wireerr.Malformed)
	errOrder = wireerr.New("pnc", "characteristics", "codes not in ascending order, or a duplicate", wireerr.Range)

	errNextHop = wireerr.New("pnc", "next hop", "not an IPv4 or IPv6 address", wireerr.Range)
	errValue   = wireerr.New("pnc", "characteristic", "over 65535 octets", wireerr.Range)
)

// ReadNHC returns the proxy in the value of the attribute (PROXY section 5.4): the
// proxy of the senders in the prefixes of its UPDATE. nextHop is the next hop of the
// route.
//
// ok is false in these cases:
//   - The header of the attribute has another next hop. Then a router changed the
//     next hop without knowing the attribute, which MUST be ignored
//     (draft-ietf-idr-nhc section 2.3).
//   - The next hop has no global address. Such next hops are distinguished by a
//     characteristic that this package does not decode.
//   - There is no PNC characteristic with a reachable address of 4 or 16 octets (see
//     [Advertisement.Validate]). Of several the first is used.
//
// Characteristics with other codes are skipped; their order is not checked. On error
// discard the attribute and keep the route (section 2.4).
func (c Codes) ReadNHC(value []byte, nextHop netip.Addr) (proxy netip.Addr, ok bool, err error) {
	if c.NHC == 0 {
		return netip.Addr{}, false, errNoCode
	}
	h, tlvs, err := decodeNHC(value)
	if err != nil {
		return netip.Addr{}, false, err
	}
	t := wideTLVs{rest: tlvs}
	for t.next() {
		if addr, known := netip.AddrFromSlice(t.value); t.typ == c.NHC && known && !ok && isReachable(wireAddr(addr)) {
			proxy, ok = addr, true
		}
	}
	if len(t.rest) > 0 {
		return netip.Addr{}, false, errNHC
	}
	nextHop = wireAddr(nextHop)
	if !ok || !h.Addr.IsValid() || nextHop.IsLinkLocalUnicast() || wireAddr(h.Addr) != nextHop {
		return netip.Addr{}, false, nil
	}
	return proxy, true, nil
}

// decodeNHC reads the header of the attribute:
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|   Address Family Identifier   |     SAFI      | Next Hop Len  |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	~             Network Address of Next Hop (variable)            ~
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|      Characteristic Code      |      Characteristic Length    |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	~                Characteristic Value (variable)                ~
//
// If there are two addresses, it returns the first, which is global. If the length is
// not that of an IPv4 or IPv6 address, Addr is the zero Addr.
func decodeNHC(b []byte) (h NextHop, tlvs []byte, err error) {
	if len(b) < 4 || len(b) < 4+int(b[3]) {
		return NextHop{}, nil, errNHC
	}
	h = NextHop{AFI: binary.BigEndian.Uint16(b), SAFI: b[2]}
	addr := b[4 : 4+int(b[3])]
	switch len(addr) {
	case 12, 24, 48:
		addr = addr[8:]
	}
	switch len(addr) {
	case 4:
		h.Addr = netip.AddrFrom4([4]byte(addr))
	case 16, 32, 40: // 40: two addresses, each with a route distinguisher
		h.Addr = netip.AddrFrom16([16]byte(addr))
	}
	return h, b[4+int(b[3]):], nil
}

// AppendNHC appends to b the value of the attribute with which a proxy announces the
// prefixes of its senders: the header, and the PNC characteristic among the others.
// The codes MUST ascend without duplicates (draft-ietf-idr-nhc section 2.1), so
// others must be in that order. [Advertisement.Validate] must accept the prefixes of
// the routes. On error, which matches rocecn.ErrRange, b is returned unchanged.
func (c Codes) AppendNHC(b []byte, routes NextHop, proxy netip.Addr, others ...Characteristic) ([]byte, error) {
	if c.NHC == 0 {
		return b, errNoCode
	}
	if proxy = wireAddr(proxy); !isReachable(proxy) {
		return b, errProxy
	}
	if err := checkOrder(others, c.NHC); err != nil {
		return b, err
	}
	out, err := routes.appendHeader(b)
	if err != nil {
		return b, err
	}
	lower := 0
	for lower < len(others) && others[lower].Code < c.NHC {
		lower++
	}
	var addr [16]byte
	out = appendCharacteristics(out, others[:lower]...)
	out = appendCharacteristics(out, Characteristic{c.NHC, appendAddr(addr[:0], proxy)})
	return appendCharacteristics(out, others[lower:]...), nil
}

// checkOrder checks the length and order of the characteristics other than the one
// with this code.
func checkOrder(others []Characteristic, code uint16) error {
	for i, o := range others {
		switch {
		case len(o.Value) > 0xFFFF:
			return errValue
		case o.Code == code, i > 0 && o.Code < others[i-1].Code:
			return errOrder
		}
		for _, earlier := range others[:i] {
			if earlier.Code == o.Code && bytes.Equal(earlier.Value, o.Value) {
				return errOrder
			}
		}
	}
	return nil
}

// appendHeader appends the header of the attribute.
func (h NextHop) appendHeader(b []byte) ([]byte, error) {
	addr := wireAddr(h.Addr)
	if !addr.IsValid() {
		return b, errNextHop
	}
	n := addr.BitLen() / 8
	b = binary.BigEndian.AppendUint16(b, h.AFI)
	if h.SAFI != safiVPN {
		return appendAddr(append(b, h.SAFI, uint8(n)), addr), nil
	}
	b = append(b, h.SAFI, uint8(8+n), 0, 0, 0, 0, 0, 0, 0, 0)
	return appendAddr(b, addr), nil
}

// appendCharacteristics appends TLVs. The value of PNC is the address of the proxy:
// 4 or 16 octets (PROXY section 5.4).
func appendCharacteristics(b []byte, all ...Characteristic) []byte {
	for _, c := range all {
		b = binary.BigEndian.AppendUint16(b, c.Code)
		b = binary.BigEndian.AppendUint16(b, uint16(len(c.Value)))
		b = append(b, c.Value...)
	}
	return b
}

// PropagateNHC appends to b the value of the attribute for a router that changes the
// next hop of routes: a new header and the PNC characteristic, which depends only on
// the prefix. It omits other characteristics, which may not be true of the new next
// hop (draft-ietf-idr-nhc section 2.2). nextHop is the next hop of the received
// route. If [Codes.ReadNHC] finds no proxy, PropagateNHC appends nothing: send the
// routes without the attribute. A router that does not change the next hop forwards
// the attribute unchanged.
func (c Codes) PropagateNHC(b, value []byte, nextHop netip.Addr, routes NextHop) ([]byte, error) {
	proxy, ok, err := c.ReadNHC(value, nextHop)
	if err != nil || !ok {
		return b, err
	}
	return c.AppendNHC(b, routes, proxy)
}
