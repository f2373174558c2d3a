// Package icrc computes and verifies the invariant CRC of RoCEv2 packets
// (IBTA annex A17, CA17-22): the last four octets of the UDP data.
//
// The ICRC is the CRC-32 of Ethernet, sent least significant octet first. It covers eight octets of 0xFF, which replace
// the absent LRH, and the IP packet up to the ICRC. Fields that routers may change are replaced by ones:
//
//	IPv4  TOS (DSCP, ECN), TTL, header checksum
//	IPv6  traffic class, flow label, hop limit
//	UDP   checksum
//	BTH   octet 4: FECN, BECN and six reserved bits
//
// The functions take one IPv4 or IPv6 packet, with IP in IP the innermost one. The packet ends where its UDP length
// says; octets after that are ignored. Ports and checksums of IP and UDP are not checked.
//
// No function allocates, on success or on error, and all functions are safe for concurrent use. However, the compiler
// moves a packet in a local array to the heap when it is passed to a function, as it does for hash/crc32. At start-up
// the package builds tables of 16 KB in about 10 µs.
package icrc

import (
	"github.com/rocecn/rocecn/internal/crc"
	"github.com/rocecn/rocecn/internal/enumtext"
	"github.com/rocecn/rocecn/internal/wire"
)

// A Coverage is the way in which the ICRC treats IPv4 options and IPv6 extension headers.
//
// The annex covers "the entire IP datagram" and elsewhere expects neither options nor extension headers, so
// implementations differ (D1). For a packet without options and extension headers the three coverages give the same
// ICRC.
type Coverage uint8

const (
	// AsSent covers options and extension headers octet for octet, as the annex literally says. Senders should use it,
	// except hosts that insert an option with data that may change on the way, as IOAM does: the first node that
	// changes it would make the ICRC wrong. Such a host uses Without.
	AsSent Coverage = iota
	// Without gives the ICRC that the packet would have without options and extension headers. The headers are left
	// out, and IPv6 Payload Length and Next Header, or IPv4 IHL and Total Length, are changed accordingly. If a type 4
	// Routing header with Segments Left above 0 is left out, the IPv6 destination is Segment List[0]. A packet carries
	// this ICRC if a node inserted the headers after the NIC had computed it, as with IOAM and SRH insertion.
	Without
	// Skipped leaves options and extension headers out, and covers all other fields as on the wire.
	Skipped
)

// String returns "as-sent", "without" or "skipped".
func (c Coverage) String() string { return enumtext.Name(c, coverages[:], "Coverage") }

var coverages = [...]string{"as-sent", "without", "skipped"}

// MarshalText returns the text of String.
func (c Coverage) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText sets c to the coverage with this String. Other texts are an error.
func (c *Coverage) UnmarshalText(text []byte) error {
	return enumtext.Unmarshal(c, text, "icrc", "coverage")
}

// Sum returns the ICRC of an IPv4 or IPv6 packet in this coverage. Its least significant octet is sent first. Sum does
// not read the four octets of the ICRC in the packet, but they must be there.
func Sum(ip []byte, c Coverage) (uint32, error) {
	p, err := find(ip)
	if err != nil {
		return 0, err
	}
	if c > Skipped {
		return 0, errCoverage
	}
	return p.sum(ip, c)
}

// Verify checks the ICRC of an IPv4 or IPv6 packet and returns the coverage that matches. It tries AsSent, Without and
// Skipped in this order. If none matches, the error matches rocecn.ErrICRC.
func Verify(ip []byte) (Coverage, error) {
	p, err := find(ip)
	if err != nil {
		return AsSent, err
	}
	want := le.Uint32(ip[p.end:])
	for c := AsSent; c <= Skipped; c++ {
		// Without may return an error. Then it does not match.
		if sum, err := p.sum(ip, c); err == nil && sum == want {
			return c, nil
		}
		if p.udp == p.ext { // all coverages give the same
			break
		}
	}
	return AsSent, errMismatch
}

// Write computes the ICRC of an IPv4 or IPv6 packet in this coverage and writes it into the last four octets of the UDP
// data. It changes no other octets, and on error none.
func Write(ip []byte, c Coverage) error {
	p, err := find(ip)
	switch {
	case err != nil:
		return err
	case c > Skipped:
		return errCoverage
	case c == AsSent, p.ext == p.udp:
		crc.Write(ip[:p.end+wire.ICRCSize], p.udp)
		return nil
	}
	sum, err := p.sum(ip, c)
	if err == nil {
		le.PutUint32(ip[p.end:], sum)
	}
	return err
}
