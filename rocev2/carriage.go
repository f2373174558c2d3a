package rocev2

import "github.com/rocecn/rocecn/internal/wireerr"

// A Carriage has the fields of IP and UDP that the formats of the congestion
// messages leave open. The zero value gives DSCP 48, not ECN-capable, hop limit
// 64, flow label 0, UDP source port and checksum 0 (D6), and over IPv4 Don't
// Fragment with Identification 0.
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
	SrcPort   uint16 // UDP source port
	Checksum  bool   // compute the UDP checksum where 0 may be sent instead, on port 4791

	ID          uint16 // Identification; not used over IPv6
	MayFragment bool   // clear Don't Fragment; not used over IPv6
}

// BestEffort as a Carriage's DSCP stands for DSCP 0.
const BestEffort = 0xFF

// errTrafficClassRange: a DSCP over 63 that is not BestEffort, or an ECN over 3.
var errTrafficClassRange = wireerr.New("rocev2", "traffic class", 0,
	"DSCP over 63 or ECN over 3", wireerr.Range)

// Apply sets the fields of d that the Carriage has. On error d is unchanged.
func (c *Carriage) Apply(d *Datagram) error {
	class, hopLimit, err := c.IP()
	if err != nil {
		return err
	}
	d.TrafficClass = class
	d.HopLimit = hopLimit
	d.FlowLabel = c.FlowLabel
	d.ID, d.Flags = c.ID, c.flags()
	d.SrcPort = c.SrcPort
	d.Checksum = 0
	if c.Checksum {
		d.Checksum = 0xFFFF
	}
	return nil
}

// flags returns the 3 flag bits of an IPv4 header.
func (c *Carriage) flags() uint8 {
	if c.MayFragment {
		return 0
	}
	return dontFragment
}

// dontFragment is a bit of [Datagram].Flags (RFC 791, section 3.1).
const dontFragment = 2

// IP returns Traffic Class and Hop Limit, over IPv4 TOS and TTL, as they are
// sent. A field of the Carriage that is out of its range is an error.
func (c *Carriage) IP() (class, hopLimit uint8, err error) {
	dscp, hopLimit := c.DSCP, c.HopLimit
	if dscp == 0 {
		dscp = 48
	} else if dscp == BestEffort {
		dscp = 0
	}
	if hopLimit == 0 {
		hopLimit = 64
	}
	switch {
	case dscp > 63 || c.ECN > CE:
		return 0, 0, errTrafficClassRange
	case c.FlowLabel > 0xFFFFF:
		return 0, 0, errFlowLabelRange
	}
	return dscp<<2 | uint8(c.ECN), hopLimit, nil
}
