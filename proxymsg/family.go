package proxymsg

import (
	"bytes"
	"fmt"

	"github.com/rocecn/rocecn/internal/enumtext"
	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/internal/wireerr"
)

// Family is the address family of the five-tuple in a message. The message does
// not contain it, and the IP packet with the message may be of the other
// family.
//
// The zero value makes Decode infer the family (D8). The first of these rules
// that decides applies:
//
//  1. The invoking packet has the addresses of the five-tuple if decoded with
//     this family, and not with the other.
//  2. The invoking packet begins with a plausible IP header if decoded with
//     this family, and not with the other: the header is complete, and its
//     length field covers at least the octets there. This also finds a
//     tunnelled packet.
//  3. A message of exactly 16 octets is IPv4 without an invoking packet, and
//     one of exactly 40 octets IPv6.
//
// If no rule decides, or both families pass, the error matches
// rocecn.ErrMalformed.
type Family uint8

// The families.
const (
	IPv4 Family = 4
	IPv6 Family = 6
)

// String returns "inferred" for 0, "IPv4" or "IPv6".
func (f Family) String() string {
	switch f {
	case 0:
		return "inferred"
	case IPv4, IPv6:
		return fmt.Sprintf("IPv%d", uint8(f))
	}
	return fmt.Sprintf("Family(%d)", uint8(f))
}

// MarshalText returns the text of String.
func (f Family) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText sets f to the family that String returns the text for.
func (f *Family) UnmarshalText(text []byte) error {
	return enumtext.Unmarshal(f, text, "proxymsg", "family")
}

// errFamily means that neither family, or both, match a message (D8): see [Family].
var (
	errFamily = wireerr.New("proxymsg", "addresses",
		"ambiguous, the octets fit IPv4 and IPv6: set the family", wireerr.Malformed)
	errFamilyRange = wireerr.New("proxymsg", "Family", "neither IPv4 nor IPv6", wireerr.Range)
)

// inferFamily returns the family of a message of which sent octets were sent and b
// was captured (D8).
func inferFamily(b []byte, sent int) (Family, error) {
	if len(b) < SizeIPv4 {
		return 0, errTruncatedIPv4
	}
	if f := onlyFamily(hasSameAddresses(b, IPv4), hasSameAddresses(b, IPv6)); f != 0 {
		return f, nil
	}
	if f := onlyFamily(hasPlausibleHeader(b, sent, SizeIPv4), hasPlausibleHeader(b, sent, SizeIPv6)); f != 0 {
		return f, nil
	}
	switch sent {
	case SizeIPv4:
		return IPv4, nil
	case SizeIPv6:
		return IPv6, nil
	}
	return 0, errFamily
}

// onlyFamily returns the only family that passed a test, otherwise 0.
func onlyFamily(v4, v6 bool) Family {
	switch {
	case v4 && !v6:
		return IPv4
	case v6 && !v4:
		return IPv6
	}
	return 0
}

// hasSameAddresses reports whether an IP header of the same family with the same
// addresses follows a fixed part of this family.
func hasSameAddresses(b []byte, f Family) bool {
	l, at, n := &layout4, 12, 4 // the addresses in the IP header, n octets each
	if f == IPv6 {
		l, at, n = &layout6, 8, 16
	}
	at += l.size
	if len(b) < at+2*n || Family(b[l.size]>>4) != f {
		return false
	}
	return bytes.Equal(b[l.src:l.src+n], b[at:at+n]) && bytes.Equal(b[l.dst:l.dst+n], b[at+n:at+2*n])
}

// hasPlausibleHeader reports whether a complete IP header follows a fixed part of this
// size, with a length field that covers at least the octets sent after the
// fixed part.
func hasPlausibleHeader(b []byte, sent, size int) bool {
	if len(b) <= size {
		return false
	}
	ip, sent := b[size:], sent-size
	switch wire.Version(ip) {
	case wire.IPv4:
		if header := wire.HeaderLen(ip); header < wire.IPv4Size || len(ip) < header {
			return false
		}
	case wire.IPv6:
	default:
		return false
	}
	return wire.Length(ip) >= sent
}
