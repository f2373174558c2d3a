package pnc

import (
	"encoding/binary"
	"net/netip"

	"github.com/rocecn/rocecn/internal/wireerr"
)

// What reading OSPF refuses.
var (
	errRouter = wireerr.New("pnc", "advertising router", 0, "LSAs of different routers", wireerr.Malformed)

	errLSAHeader = wireerr.New("pnc", "OSPF LSA header", lsaHeaderLen, "20 octets needed", wireerr.Truncated)
	errLSACut    = wireerr.New("pnc", "OSPF LSA", 0, "fewer octets than its length", wireerr.Truncated)
	errLSALength = wireerr.New("pnc", "OSPF LSA length", 0, "below the 20 octets of the header", wireerr.Malformed)
	errOSPFTLV   = wireerr.New("pnc", "OSPF TLV", 0, "runs beyond what holds it", wireerr.Malformed)
	errOSPFFixed = wireerr.New("pnc", "OSPF prefix TLV", 0, "shorter than its fixed fields and the prefix",
		wireerr.Malformed)
	errFlagsLength = wireerr.New("pnc", "OSPF prefix extended flags", 0, "length is no multiple of 4",
		wireerr.Malformed)
	errTLVRoom      = wireerr.New("pnc", "OSPF TLV", 0, "more than 65535 octets", wireerr.Range)
	errNotPrefixTLV = wireerr.New("pnc", "OSPF TLV", 0, "not one that describes a prefix", wireerr.Other)
)

// An lsa is the header of an LSA and what follows it. OSPFv2 (RFC 2328 section
// A.4.1); OSPFv3 has a type of 16 bits in the place of options and type
// (RFC 5340 section A.4.2):
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
	gone   bool   // MaxAge: being withdrawn
	typ    uint16 // OSPFv2: the lower octet
	id     uint32
	router [4]byte
	body   []byte
}

const (
	lsaHeaderLen = 20
	maxAge       = 3600   // seconds (RFC 2328 appendix B)
	doNotAge     = 0x8000 // RFC 1793 section 2.2
)

func (l *lsa) decode(b []byte) error {
	if len(b) < lsaHeaderLen {
		return errLSAHeader
	}
	length := int(binary.BigEndian.Uint16(b[18:]))
	if length < lsaHeaderLen {
		return errLSALength
	}
	if length > len(b) {
		return errLSACut
	}
	*l = lsa{
		gone:   binary.BigEndian.Uint16(b)&^doNotAge >= maxAge,
		typ:    binary.BigEndian.Uint16(b[2:]),
		id:     binary.BigEndian.Uint32(b[4:]),
		router: [4]byte(b[8:]),
		body:   b[lsaHeaderLen:length],
	}
	return nil
}

// nextOSPFTLV returns the first TLV or sub-TLV of b, and what follows it: 16
// bits of type, 16 of length, the value, zeros to a multiple of 4 octets
// (RFC 3630 section 2.3.2). The zeros may be missing at the end.
func nextOSPFTLV(b []byte) (typ uint16, value, rest []byte, ok bool) {
	if len(b) < 4 {
		return 0, nil, nil, false
	}
	end := 4 + int(binary.BigEndian.Uint16(b[2:]))
	if len(b) < end {
		return 0, nil, nil, false
	}
	return binary.BigEndian.Uint16(b), b[4:end], b[min((end+3)&^3, len(b)):], true
}

const maxOSPFTLV = 0x10000 // octets of a TLV with its type and length, in whole words

// beginTLV begins a TLV, endTLV sets the length of the one that began there.
// What is written between them is a multiple of 4 octets.
func beginTLV(b []byte, typ uint16) []byte { return append(b, uint8(typ>>8), uint8(typ), 0, 0) }

func endTLV(b []byte, start int) []byte {
	binary.BigEndian.PutUint16(b[start+2:], uint16(len(b)-start-4))
	return b
}

// routerAddress returns the IPv4 or IPv6 address in the first router address
// TLV of a traffic engineering LSA.
func routerAddress(body []byte, tlv uint16, size int) netip.Addr {
	for {
		typ, value, rest, ok := nextOSPFTLV(body)
		if !ok {
			return netip.Addr{}
		}
		if typ == tlv && len(value) == size {
			addr, _ := netip.AddrFromSlice(value)
			return addr
		}
		body = rest
	}
}

// subTLVCodes are the sub-TLVs that matter: OSPFv2 and OSPFv3 have registries
// of their own.
type subTLVCodes struct {
	flags         uint16 // prefix extended flags (RFC 9792 section 2)
	sourceRouter  uint16 // prefix source OSPF router id (RFC 9084 section 2.1)
	sourceAddress uint16 // prefix source router address (RFC 9084 section 2.2)
	addressLen    int    // of the prefix's family
}

var (
	subTLVsV2 = subTLVCodes{flags: 11, sourceRouter: 4, sourceAddress: 5, addressLen: 4}
	subTLVsV3 = subTLVCodes{flags: 37, sourceRouter: 27, sourceAddress: 28, addressLen: 16}
)

// check walks sub-TLVs. Prefix extended flags whose length is no multiple of 4
// make the whole LSA malformed, and it MUST be ignored (RFC 9792 section 2).
func (c *subTLVCodes) check(subTLVs []byte) error {
	for len(subTLVs) > 0 {
		typ, value, rest, ok := nextOSPFTLV(subTLVs)
		switch {
		case !ok:
			return errSubTLV
		case typ == c.flags && len(value)%4 != 0:
			return errFlagsLength
		}
		subTLVs = rest
	}
	return nil
}

// flagField returns the prefix extended flags: of several the first.
func (c *subTLVCodes) flagField(subTLVs []byte) []byte {
	for {
		typ, value, rest, ok := nextOSPFTLV(subTLVs)
		if !ok {
			return nil
		}
		if typ == c.flags {
			return value
		}
		subTLVs = rest
	}
}

// nextSource returns the next prefix source router address and the sub-TLVs
// behind it. One of the other family is invalid and ignored (RFC 9084 section
// 2.2).
func (c *subTLVCodes) nextSource(subTLVs []byte) (addr netip.Addr, rest []byte, ok bool) {
	for {
		typ, value, rest, ok := nextOSPFTLV(subTLVs)
		if !ok {
			return netip.Addr{}, nil, false
		}
		if typ == c.sourceAddress && len(value) == c.addressLen {
			addr, _ := netip.AddrFromSlice(value)
			return addr, rest, true
		}
		subTLVs = rest
	}
}

// yieldSources yields an advertisement for each source address of the prefix;
// without any, one with the address given, which may be none. It returns false
// when yield does.
func (c *subTLVCodes) yieldSources(a Advertisement, subTLVs []byte, otherwise netip.Addr,
	yield func(Advertisement, error) bool) bool {
	addr, rest, ok := c.nextSource(subTLVs)
	if !ok {
		a.Proxy = otherwise
		return yield(a, nil)
	}
	for ok {
		a.Proxy = addr
		if !yield(a, nil) {
			return false
		}
		addr, rest, ok = c.nextSource(rest)
	}
	return true
}

// appendPNC appends the flags and the source address of an advertisement.
func (c *subTLVCodes) appendPNC(b []byte, bit uint, proxy netip.Addr) []byte {
	start := len(b)
	b = endTLV(appendFlag(beginTLV(b, c.flags), bit, 4), start)
	start = len(b)
	return endTLV(appendAddr(beginTLV(b, c.sourceAddress), proxy), start)
}

// A Source is the router that originated an OSPF prefix, as another router
// knows it; fields that are zero are not known.
type Source struct {
	Router  [4]byte    // its OSPF router id
	Address netip.Addr // an address by which it can be reached, of the prefix's family
}

// appendKept appends what of a prefix's sub-TLVs is kept from one area to the
// next: the flags as they are, and who originated the prefix. Without a word on
// that in the sub-TLVs it is the Source given. A router id of 0 is invalid and
// ignored, and so is that of another router where the prefix is one of the area
// (RFC 9084 section 2.1).
func (c *subTLVCodes) appendKept(b, subTLVs []byte, intraArea bool, from Source) []byte {
	if flags := c.flagField(subTLVs); flags != nil {
		b = appendTLV(b, c.flags, flags)
	}
	said := false
	for rest := subTLVs; ; {
		typ, value, next, ok := nextOSPFTLV(rest)
		if !ok {
			break
		}
		rest = next
		switch {
		case typ == c.sourceAddress && len(value) == c.addressLen:
		case typ == c.sourceRouter && len(value) == 4 && [4]byte(value) != [4]byte{} &&
			(!intraArea || from.Router == [4]byte{} || from.Router == [4]byte(value)):
		default:
			continue
		}
		b = appendTLV(b, typ, value)
		said = true
	}
	if said {
		return b
	}
	if from.Router != [4]byte{} {
		b = appendTLV(b, c.sourceRouter, from.Router[:])
	}
	if addr := plain(from.Address); addr.IsValid() && addr.BitLen() == 8*c.addressLen {
		start := len(b)
		b = endTLV(appendAddr(beginTLV(b, c.sourceAddress), addr), start)
	}
	return b
}

// appendTLV appends a TLV whose value is a multiple of 4 octets.
func appendTLV(b []byte, typ uint16, value []byte) []byte {
	start := len(b)
	return endTLV(append(beginTLV(b, typ), value...), start)
}
