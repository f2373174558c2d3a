package wire

import "net/netip"

// VersionField returns the version field of an IP header, which may have any of 16 values.
func VersionField(ip []byte) uint8 { return ip[0] >> 4 }

// IsIPv6 reports whether the version field of an IP header is 6.
func IsIPv6(ip []byte) bool { return VersionField(ip) == IPv6 }

// Version returns the version of an IP packet, 4 or 6. It is 0 if the version field has another value, or if fewer
// octets than the fixed header of that version are there.
func Version(ip []byte) uint8 {
	switch {
	case len(ip) >= IPv6Size && IsIPv6(ip):
		return IPv6
	case len(ip) >= IPv4Size && VersionField(ip) == IPv4:
		return IPv4
	}
	return 0
}

// FixedSize returns the length of the fixed IP header: 40 octets for IPv6, otherwise 20.
func FixedSize(ip []byte) int {
	if IsIPv6(ip) {
		return IPv6Size
	}
	return IPv4Size
}

// HeaderLen returns the length of an IPv4 header with its options, by the IHL field: 0 to 60.
func HeaderLen(ip []byte) int { return int(ip[0]&0x0F) * 4 }

// Length returns the length of an IP packet in octets by its length field: Total Length, or 40 and Payload Length.
func Length(ip []byte) int {
	if IsIPv6(ip) {
		return IPv6Size + int(be.Uint16(ip[4:]))
	}
	return int(be.Uint16(ip[2:]))
}

// Protocol returns the protocol of an IPv4 packet, or the Next Header field of the fixed IPv6 header.
func Protocol(ip []byte) uint8 {
	if IsIPv6(ip) {
		return ip[6]
	}
	return ip[9]
}

// TrafficClass returns DSCP and ECN: Traffic Class of IPv6, TOS of IPv4.
func TrafficClass(ip []byte) uint8 {
	if IsIPv6(ip) {
		return uint8(be.Uint16(ip) >> 4)
	}
	return ip[1]
}

// SetTrafficClass sets DSCP and ECN in place. It updates the header checksum of IPv4 incrementally, so that a correct
// checksum stays correct (RFC 1624, equation 3).
func SetTrafficClass(ip []byte, class uint8) {
	if IsIPv6(ip) {
		be.PutUint16(ip, be.Uint16(ip)&0xF00F|uint16(class)<<4)
		return
	}
	sum := uint32(^be.Uint16(ip[10:])) + uint32(^uint16(ip[1])) + uint32(class)
	sum = sum&0xFFFF + sum>>16
	be.PutUint16(ip[10:], ^uint16(sum+sum>>16))
	ip[1] = class
}

// FlowLabel returns the 20 bits of the flow label, and 0 for IPv4.
func FlowLabel(ip []byte) uint32 {
	if IsIPv6(ip) {
		return be.Uint32(ip) & 0xFFFFF
	}
	return 0
}

// Addresses returns source and destination of an IP packet, or two zero Addrs if [Version] returns 0.
func Addresses(ip []byte) (src, dst netip.Addr) {
	switch {
	case len(ip) >= IPv6Size && IsIPv6(ip):
		return netip.AddrFrom16([16]byte(ip[8:24])), netip.AddrFrom16([16]byte(ip[24:40]))
	case Version(ip) == IPv4:
		return netip.AddrFrom4([4]byte(ip[12:16])), netip.AddrFrom4([4]byte(ip[16:20]))
	}
	return src, dst
}

// AddressOctets returns the octets of source and destination: 16 each for IPv6, else 4 each. They alias ip.
func AddressOctets(ip []byte) (src, dst []byte) {
	if IsIPv6(ip) {
		return ip[8:24:24], ip[24:40:40]
	}
	return ip[12:16:16], ip[16:20:20]
}

// Identification returns the Identification field of an IPv4 header.
func Identification(ip []byte) uint16 { return be.Uint16(ip[4:]) }

// IsFragment reports whether an IPv4 packet is a fragment. Fragments of IPv6 have an extension header of their own.
func IsFragment(ip []byte) bool { return be.Uint16(ip[6:])&FragmentBits != 0 }

// A Fault is the reason why the headers of an IP packet cannot be read.
type Fault uint8

// The faults, in the order in which ReadIP finds them.
const (
	FaultNone      Fault = iota
	FaultIPv6Size        // fewer than 40 octets of IPv6
	FaultIPv4Size        // fewer than 20 octets of IPv4, or than the IHL field gives
	FaultVersion         // the version field is not the announced one
	FaultIHL             // the IHL field is below 5
	FaultTotal           // Total Length is shorter than the header
	FaultFragment        // a fragment of IPv4; all fields of Headers are set
	FaultExtension       // an extension header exceeds the packet or the octets given
)

// Headers locates the headers of an IP packet by offsets into the octets given.
type Headers struct {
	End      int   // end of options or extension headers, where the header of Protocol begins
	Limit    int   // end of the packet by its length field; more octets may be there, or fewer
	Protocol uint8 // protocol after options and skipped extension headers; 44 (Fragment) is not skipped
	Routed   bool  // one of the extension headers is a Segment Routing header
}

// ReadIP reads the headers of the IP packet of this version at b[at:]: IPv4 with options or IPv6 with the extension
// headers of types 0, 43 and 60. With FaultExtension, End and Protocol are those of the incomplete extension header.
// With the faults before FaultFragment, End is at, Limit is len(b), and Protocol and Routed are zero.
func ReadIP(b []byte, at int, version uint8) (h Headers, fault Fault) {
	there := len(b) - at
	if version == IPv6 {
		if there < IPv6Size {
			return Headers{End: at, Limit: len(b)}, FaultIPv6Size
		}
		ip := (*[IPv6Size]byte)(b[at:])
		if !IsIPv6(ip[:]) {
			return Headers{End: at, Limit: len(b)}, FaultVersion
		}
		h = Headers{at + IPv6Size, at + IPv6Size + int(be.Uint16(ip[4:])), ip[6], false}
		if h.Protocol != ProtoUDP {
			return h.skip(b)
		}
		return h, FaultNone
	}
	if there < IPv4Size {
		return Headers{End: at, Limit: len(b)}, FaultIPv4Size
	}
	ip := (*[IPv4Size]byte)(b[at:])
	n, total := int(ip[0]&0x0F)*4, int(be.Uint16(ip[2:]))
	switch {
	case ip[0]>>4 != IPv4:
		fault = FaultVersion
	case n < IPv4Size:
		fault = FaultIHL
	case there < n:
		fault = FaultIPv4Size
	case total < n:
		fault = FaultTotal
	default:
		if IsFragment(ip[:]) {
			fault = FaultFragment
		}
		return Headers{at + n, at + total, ip[9], false}, fault
	}
	return Headers{End: at, Limit: len(b)}, fault
}

// skip implements ReadIP after the fixed header of IPv6.
func (h Headers) skip(b []byte) (Headers, Fault) {
	var whole bool
	h.Protocol, h.End, h.Routed, whole = SkipExtensions(b[:min(h.Limit, len(b))], h.End, h.Protocol)
	if !whole {
		return h, FaultExtension
	}
	return h, FaultNone
}
