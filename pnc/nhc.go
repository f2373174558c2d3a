package pnc

import (
	"bytes"
	"encoding/binary"
	"net/netip"

	"github.com/rocecn/rocecn/internal/wireerr"
)

// The BGP path attribute "next hop dependent characteristics" (NHC,
// draft-ietf-idr-nhc-07). A router that does not know it passes it on with the
// Partial bit (0x20) set, which changes nothing.
const (
	AttributeNHC      = 39   // path attribute type
	AttributeNHCFlags = 0xC0 // optional, transitive
)

// A NextHop is what the header of the attribute says: the family of the routes
// and their next hop.
type NextHop struct {
	AFI  uint16 // 1: IPv4 routes, 2: IPv6
	SAFI uint8  // 1: unicast, 128: VPN
	Addr netip.Addr
}

// A Characteristic is another TLV of the attribute.
type Characteristic struct {
	Code  uint16
	Value []byte
}

const safiVPN = 128 // next hops begin with a route distinguisher of 8 octets (RFC 4364 section 4.3.2)

// What reading and writing NHC refuse.
var (
	errNHC = wireerr.New("pnc", "BGP NHC attribute", 0, "header or TLV runs beyond the attribute: to be discarded",
		wireerr.Malformed)
	errOrder = wireerr.New("pnc", "characteristics", 0, "not in ascending order of their codes, or one is there twice",
		wireerr.Range)

	errNextHop = wireerr.New("pnc", "next hop", 0, "no IPv4 or IPv6 address", wireerr.Range)
	errValue   = wireerr.New("pnc", "characteristic", 0, "more than 65535 octets", wireerr.Range)
)

// ReadNHC reads the value of the attribute (PROXY section 5.4): the proxy of the
// senders in the prefixes of the UPDATE that has it. nextHop is the route's next
// hop: an attribute whose header names another one was passed on by a router
// that changed the next hop without knowing the attribute, and MUST be ignored
// (draft-ietf-idr-nhc section 2.3). Next hops without a global address match
// nothing: they are told apart by a characteristic that is not read here.
//
// ok is false when the attribute says nothing: it is of another next hop, or has
// no PNC characteristic with an address, of 4 or 16 octets, that others can
// reach (see [Advertisement.Validate]); of several the first counts.
// Characteristics with other codes are skipped, in any order. On an error the
// attribute is to be discarded and the route kept (section 2.4).
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
// Of two addresses the first, global one counts. Where the length is not that of an
// IPv4 or IPv6 address, Address is the zero Addr.
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
	case 16, 32, 40: // 40: of two addresses with a route distinguisher each
		h.Addr = netip.AddrFrom16([16]byte(addr))
	}
	return h, b[4+int(b[3]):], nil
}

// AppendNHC appends the value of the attribute with which a proxy announces the
// prefixes of the senders behind it: for the routes and the next hop given, with
// the PNC characteristic among the others. Codes MUST ascend, and nothing may
// stand twice (draft-ietf-idr-nhc section 2.1): others have to be in that order
// already. The prefixes of the routes are to be such as [Advertisement.Validate]
// accepts.
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

// checkOrder checks the characteristics that stand beside the one with this code.
func checkOrder(others []Characteristic, code uint16) error {
	for i, o := range others {
		switch {
		case len(o.Value) > 0xFFFF:
			return errValue
		case o.Code == code, i > 0 && o.Code < others[i-1].Code:
			return errOrder
		}
		for _, before := range others[:i] {
			if before.Code == o.Code && bytes.Equal(before.Value, o.Value) {
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

// appendCharacteristics appends TLVs. The value of PNC is the address of the
// proxy, of 4 or 16 octets (PROXY section 5.4).
func appendCharacteristics(b []byte, all ...Characteristic) []byte {
	for _, c := range all {
		b = binary.BigEndian.AppendUint16(b, c.Code)
		b = binary.BigEndian.AppendUint16(b, uint16(len(c.Value)))
		b = append(b, c.Value...)
	}
	return b
}

// PropagateNHC appends the attribute's value for a router that passes routes on
// with another next hop: the PNC characteristic, which is about the prefix and
// stays true, below a new header. What other characteristics say is not known to
// hold of the new next hop, and they are left out (draft-ietf-idr-nhc section
// 2.2). nextHop is the one with which the route came. Where the attribute says
// nothing (see [Codes.ReadNHC]) nothing is appended: the routes go on without it. A
// router that leaves the next hop as it is passes the attribute on unchanged.
func (c Codes) PropagateNHC(b, value []byte, nextHop netip.Addr, routes NextHop) ([]byte, error) {
	proxy, ok, err := c.ReadNHC(value, nextHop)
	if err != nil || !ok {
		return b, err
	}
	return c.AppendNHC(b, routes, proxy)
}
