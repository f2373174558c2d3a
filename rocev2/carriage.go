package rocev2

// A Carriage contains the fields of IP and UDP that the formats of the congestion messages do not specify. The zero
// value gives DSCP 48, NotECT, hop limit 64, flow label 0, a UDP source port computed from the addresses, UDP checksum
// 0 (D6), and over IPv4 Don't Fragment with Identification 0. A value that does not fit its field is an error, even if
// the field is not used.
//
// An IPv4 packet with Don't Fragment is atomic: its Identification has no meaning (RFC 6864, section 4.1), and hosts do
// not change it. Without Don't Fragment a host may replace an Identification of 0, as Linux does for packets from a raw
// socket (IPPROTO_RAW, IP_HDRINCL). The ICRC, which covers the field, is then wrong. Therefore, with MayFragment, set
// ID to a different nonzero value for each packet.
type Carriage struct {
	DSCP      uint8  // DSCP, 1–63; 0 means 48 (CS6), BestEffort means DSCP 0
	ECN       ECN    // ECN field; the zero value is NotECT
	HopLimit  uint8  // Hop Limit of IPv6, TTL of IPv4; 0 means 64
	FlowLabel uint32 // flow label, 20 bits; not used over IPv4
	// SrcPort is the UDP source port. 0 means a port from 49152 to 65535 that is always the same between two addresses,
	// so that a message does not overtake an earlier one. In a Fast CNP about a packet, 0 means the port of that
	// packet.
	SrcPort  uint16
	Checksum bool // computes the UDP checksum on port 4791, where 0 is allowed instead

	ID          uint16 // Identification; not used over IPv6
	MayFragment bool   // clears Don't Fragment; not used over IPv6
}

// BestEffort, as the DSCP of a Carriage, means DSCP 0.
const BestEffort = 0xFF
