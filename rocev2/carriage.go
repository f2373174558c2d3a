package rocev2

// A Carriage has the fields of IP and UDP that the formats of the congestion
// messages leave open. The zero value gives DSCP 48, not ECN-capable, hop limit
// 64, flow label 0, a UDP source port made of the addresses, UDP checksum 0 (D6),
// and over IPv4 Don't Fragment with Identification 0. A value that does not fit its
// field is an error, also where the field is not used.
//
// An IPv4 packet with Don't Fragment is atomic: its Identification means
// nothing (RFC 6864, section 4.1), and hosts do not change it. Without Don't
// Fragment a host may replace an Identification of 0, as Linux does for packets
// from a raw socket (IPPROTO_RAW, IP_HDRINCL). That breaks the ICRC, which
// covers the field. So with MayFragment set ID to another value than 0, a new
// one for each packet.
type Carriage struct {
	DSCP      uint8  // 1–63; 0 stands for 48 (CS6), BestEffort for DSCP 0
	ECN       ECN    // the zero value is NotECT
	HopLimit  uint8  // IPv4: TTL; 0 stands for 64
	FlowLabel uint32 // 20 bits; not used over IPv4
	// SrcPort is the UDP source port. 0 stands for one of 49152 to 65535 that is always the same between two
	// addresses, so that a message does not overtake an earlier one; in a Fast CNP about a packet for that packet's.
	SrcPort  uint16
	Checksum bool // compute the UDP checksum where 0 may be sent instead, on port 4791

	ID          uint16 // Identification; not used over IPv6
	MayFragment bool   // clear Don't Fragment; not used over IPv6
}

// BestEffort as a Carriage's DSCP stands for DSCP 0.
const BestEffort = 0xFF
