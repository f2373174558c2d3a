package answer

import (
	"net/netip"

	"github.com/rocecn/rocecn/internal/crc"
	"github.com/rocecn/rocecn/internal/ipudp"
	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/rocev2"
)

// errTrafficClassRange: a DSCP over 63 that is not BestEffort, or an ECN over 3.
var errTrafficClassRange = wireerr.New("rocev2", "traffic class", 0,
	"DSCP over 63 or ECN over 3", wireerr.Range)

// Carry sets d's addresses and the fields that a Carriage has. It refuses
// IPv4-mapped IPv6 addresses. On error d is unchanged.
func Carry(d *rocev2.Datagram, src, dst netip.Addr, c *rocev2.Carriage) error {
	if src.Is4In6() || dst.Is4In6() {
		return wireerr.Mapped
	}
	class, hopLimit, err := IPFields(c)
	if err != nil {
		return err
	}
	d.Src, d.Dst = src, dst
	d.TrafficClass, d.HopLimit, d.FlowLabel = class, hopLimit, c.FlowLabel
	d.ID, d.Flags = c.ID, wire.DontFragment>>13
	if c.MayFragment {
		d.Flags = 0
	}
	d.SrcPort, d.Checksum = c.SrcPort, 0
	if c.Checksum {
		d.Checksum = 0xFFFF
	}
	return nil
}

// IPFields returns Traffic Class and Hop Limit, over IPv4 TOS and TTL, as they
// are sent. A field of the Carriage that is out of its range is an error.
func IPFields(c *rocev2.Carriage) (class, hopLimit uint8, err error) {
	dscp, hopLimit := c.DSCP, c.HopLimit
	if dscp == 0 {
		dscp = 48
	} else if dscp == rocev2.BestEffort {
		dscp = 0
	}
	if hopLimit == 0 {
		hopLimit = 64
	}
	switch {
	case dscp > 63 || c.ECN > rocev2.CE:
		return 0, 0, errTrafficClassRange
	case c.FlowLabel > 0xFFFFF:
		return 0, 0, wireerr.FlowLabel
	}
	return dscp<<2 | uint8(c.ECN), hopLimit, nil
}

// AppendRoCEv2 appends the IP packet of d, whose Data is the BTH and all that
// follows it, with four octets of any value where the ICRC goes: at least 16. The
// ICRC covers extension headers as they are sent. It is for messages that are octets
// already: a [rocev2.Packet] is large.
//
// d.Ext may already be at its place in the packet, in the free capacity of b.
// It sets d's DstPort, and Checksum to 0.
func AppendRoCEv2(b []byte, d *rocev2.Datagram) ([]byte, error) {
	checksum := d.Checksum != 0
	d.DstPort, d.Checksum = rocev2.Port, 0
	out, err := d.AppendBinary(b)
	if err != nil {
		return b, err
	}
	ip := out[len(b):]
	udp := len(ip) - 8 - len(d.Data)
	crc.Put(ip, udp)
	if checksum {
		ipudp.PutChecksum(ip, udp) // after the ICRC, which it covers; the ICRC masks the checksum field
	}
	return out, nil
}
