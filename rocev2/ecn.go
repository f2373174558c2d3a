package rocev2

import (
	"github.com/rocecn/rocecn/internal/enumtext"
	"github.com/rocecn/rocecn/internal/ipudp"
	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/internal/wireerr"
)

// ECN is a value of the field for Explicit Congestion Notification, the lower
// two bits of Traffic Class or TOS (RFC 3168 section 5).
type ECN uint8

// The values.
const (
	NotECT ECN = 0 // not ECN-capable
	ECT1   ECN = 1 // ECN-capable transport, ECT(1)
	ECT0   ECN = 2 // ECN-capable transport, ECT(0)
	CE     ECN = 3 // congestion experienced
)

var ecnNames = [...]string{"not_ect", "ect1", "ect0", "ce"}

// String returns "not_ect", "ect1", "ect0" or "ce".
func (e ECN) String() string { return enumtext.Name(e, ecnNames[:], "ECN") }

var (
	errECNRange  = wireerr.New("rocev2", "ECN", 0, "over 3", wireerr.Range)
	errDSCPRange = wireerr.New("rocev2", "DSCP", 0, "over 63", wireerr.Range)
	errNoHeader  = wireerr.New("rocev2", "IP header", 20,
		"truncated: 20 octets of IPv4, 40 of IPv6 needed", wireerr.Truncated)
)

// SetECN sets the ECN field of the IPv4 or IPv6 packet ip in place and returns
// its old value. It updates the IPv4 header checksum, so that a right one stays
// right (RFC 1624); the ICRC does not cover the field. On error ip is
// unchanged.
//
// A router marks only ECN-capable packets: it must not set CE in one that is
// NotECT (RFC 3168 section 5).
func SetECN(ip []byte, ecn ECN) (was ECN, err error) {
	if ecn > CE {
		return 0, errECNRange
	}
	tc, err := trafficClass(ip)
	if err != nil {
		return 0, err
	}
	setTrafficClass(ip, tc, tc&^3|uint8(ecn))
	return ECN(tc & 3), nil
}

// SetDSCP sets the DSCP of the IPv4 or IPv6 packet ip in place, in the same way
// as [SetECN], and returns its old value.
func SetDSCP(ip []byte, dscp uint8) (was uint8, err error) {
	if dscp > 63 {
		return 0, errDSCPRange
	}
	tc, err := trafficClass(ip)
	if err != nil {
		return 0, err
	}
	setTrafficClass(ip, tc, dscp<<2|tc&3)
	return tc >> 2, nil
}

// trafficClass returns Traffic Class or TOS.
func trafficClass(ip []byte) (uint8, error) {
	switch {
	case wire.Version(ip) != 0:
		return wire.TrafficClass(ip), nil
	case len(ip) >= wire.IPv4Size && !wire.IsIPv6(ip):
		return 0, errVersion
	}
	return 0, errNoHeader
}

func setTrafficClass(ip []byte, was, to uint8) {
	if wire.IsIPv6(ip) {
		be.PutUint16(ip, be.Uint16(ip)&0xF00F|uint16(to)<<4)
		return
	}
	ip[1] = to
	// RFC 1624, equation 3: HC' = ~(~HC + ~m + m')
	be.PutUint16(ip[10:], ^ipudp.Fold(uint64(^be.Uint16(ip[10:]))+uint64(^uint16(was))+uint64(to)))
}

// DecapsulateECN returns the ECN field of a packet that leaves a tunnel, from
// those of its outer and inner headers (RFC 6040 section 4.2, figure 4). If
// drop is true the packet must be dropped: it met congestion in the tunnel, and
// its sender would not understand the mark. A packet that enters a tunnel keeps
// its value in the outer header (section 4.1).
func DecapsulateECN(outer, inner ECN) (ecn ECN, drop bool) {
	outer, inner = outer&3, inner&3
	switch {
	case inner == NotECT:
		return NotECT, outer == CE
	case outer == CE:
		return CE, false
	case outer == ECT1 && inner == ECT0:
		return ECT1, false
	}
	return inner, false
}
