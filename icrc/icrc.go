// Package icrc computes and verifies the invariant CRC of RoCEv2 packets
// (IBTA annex A17, CA17-22): the last four octets of the UDP data.
//
// It is the CRC-32 of Ethernet, sent least significant octet first, over
// eight octets of 0xFF, which stand in for the absent LRH, then the IP packet
// up to the ICRC, with what may change on the way replaced by ones:
//
//	IPv4  TOS (DSCP, ECN), TTL, header checksum
//	IPv6  traffic class, flow label, hop limit
//	UDP   checksum
//	BTH   octet 4: FECN, BECN and six reserved bits
//
// The packet given is one IPv4 or IPv6 packet, of IP in IP the innermost. Its
// end comes from the UDP length; octets behind that are ignored. Ports, and
// IP and UDP checksums, are not looked at.
//
// Nothing here allocates, on errors neither, and everything may be called by
// any number of goroutines at once. A packet in a local array moves to the
// heap when it is handed over, though, as for hash/crc32. Start-up builds
// tables of 16 KB in some 10 µs.
package icrc

import (
	"github.com/rocecn/rocecn/internal/crc"
	"github.com/rocecn/rocecn/internal/enumtext"
	"github.com/rocecn/rocecn/internal/wire"
)

// A Coverage says what becomes of IPv4 options and IPv6 extension headers.
//
// D1: the annex covers "the entire IP datagram" and elsewhere expects neither
// options nor extension headers, so implementations differ. The three
// coverages are one for a packet that has none.
type Coverage uint8

const (
	// AsSent covers them octet for octet: the literal reading, and what
	// senders should use, but for a host that puts in an option whose data may
	// change on the way, as IOAM's does: the first node that changes it would
	// make the ICRC wrong. Such a host uses Without.
	AsSent Coverage = iota
	// Without gives the ICRC of the same packet without them: left out, and
	// IPv6 Payload Length and Next Header, IPv4 IHL and Total Length as they
	// would be; the IPv6 destination is Segment List[0] where a type 4 Routing
	// header with Segments Left above 0 is left out. A packet carries this one
	// when a node behind the NIC inserted the header, as IOAM and SRH
	// insertion do.
	Without
	// Skipped leaves them out and everything else as on the wire.
	Skipped
)

// String returns "as-sent", "without" or "skipped".
func (c Coverage) String() string { return enumtext.Name(c, coverages[:], "Coverage") }

var coverages = [...]string{"as-sent", "without", "skipped"}

// MarshalText returns what String does.
func (c Coverage) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText sets c to the coverage that String returns the text for.
func (c *Coverage) UnmarshalText(text []byte) error {
	return enumtext.Unmarshal(c, text, "icrc", "coverage")
}

// Sum returns the ICRC of an IPv4 or IPv6 packet in this coverage, as the
// value whose least significant octet is sent first. It does not read the
// four octets where the ICRC stands.
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

// Verify checks the ICRC of an IPv4 or IPv6 packet and returns the coverage
// that matches: it tries AsSent, Without and Skipped in this order. The error
// is of rocecn.ErrICRC when none does.
func Verify(ip []byte) (Coverage, error) {
	p, err := find(ip)
	if err != nil {
		return AsSent, err
	}
	want := le.Uint32(ip[p.end:])
	for c := AsSent; c <= Skipped; c++ {
		// Without may have no sum: then it does not match.
		if sum, err := p.sum(ip, c); err == nil && sum == want {
			return c, nil
		}
		if p.udp == p.ext { // the three are one
			break
		}
	}
	return AsSent, errMismatch
}

// Put computes the ICRC of an IPv4 or IPv6 packet in this coverage and writes
// it into the last four octets of the UDP data, the only ones that it
// changes. On error it changes nothing.
func Put(ip []byte, c Coverage) error {
	p, err := find(ip)
	switch {
	case err != nil:
		return err
	case c > Skipped:
		return errCoverage
	case c == AsSent, p.ext == p.udp:
		crc.Put(ip[:p.end+wire.ICRCSize], p.udp)
		return nil
	}
	sum, err := p.sum(ip, c)
	if err == nil {
		le.PutUint32(ip[p.end:], sum)
	}
	return err
}
