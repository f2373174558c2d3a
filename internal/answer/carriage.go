package answer

import (
	"math/bits"
	"net/netip"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/crc"
	"github.com/rocecn/rocecn/internal/ipudp"
	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/rocev2"
)

// errTrafficClassRange: a DSCP over 63 that is not BestEffort, or an ECN over 3.
var errTrafficClassRange = wireerr.New("rocev2", "traffic class",
	"DSCP over 63 or ECN over 3", wireerr.Range)

// Carry sets d's addresses and the fields that a Carriage has. It rejects
// addresses that [rocev2.CheckAnswerable] rejects, and two of different families.
// On error d is unchanged.
func Carry(d *rocev2.Datagram, src, dst netip.Addr, c *rocev2.Carriage) error {
	port, err := checkAddresses(&src, &dst, c.SrcPort)
	if err != nil {
		return err
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
	d.SrcPort, d.Checksum = port, 0
	if c.Checksum {
		d.Checksum = 0xFFFF
	}
	return nil
}

// checkAddresses rejects addresses that others cannot reach, and two of different
// families. It returns the UDP source port, which is port unless that is 0.
func checkAddresses(src, dst *netip.Addr, port uint16) (uint16, error) {
	switch {
	case src.Is6() && dst.Is6():
		src1, src2 := ipudp.Halves(src)
		dst1, dst2 := ipudp.Halves(dst)
		if !ipudp.Reachable6(src1, src2) || !ipudp.Reachable6(dst1, dst2) {
			return 0, rocev2.ErrNotReachable
		}
		if port == 0 {
			port = sourcePort6(src1, src2, dst1, dst2)
		}
	case src.Is4() && dst.Is4():
		s, d := src.As4(), dst.As4()
		from, to := be.Uint32(s[:]), be.Uint32(d[:])
		if !ipudp.Reachable4(from) || !ipudp.Reachable4(to) {
			return 0, rocev2.ErrNotReachable
		}
		if port == 0 {
			port = sourcePort4(from, to)
		}
	case rocev2.CheckAnswerable(*src) != nil || rocev2.CheckAnswerable(*dst) != nil:
		return 0, rocev2.ErrNotReachable
	default:
		return 0, wireerr.Addresses
	}
	return port, nil
}

// sourcePort4 and sourcePort6 return the UDP source port of the messages between
// two addresses if none is configured: 49152 to 65535, always the same for the
// same addresses, so that no message overtakes an earlier one.
func sourcePort4(src, dst uint32) uint16 { return portOf(mix(uint64(src), uint64(dst))) }

func sourcePort6(src1, src2, dst1, dst2 uint64) uint16 {
	return portOf(mix(src1, src2) ^ mix(dst2, dst1))
}

// portOf returns a port of the dynamic range (RFC 6335 section 6).
func portOf(hash uint64) uint16 { return 0xC000 | uint16(hash>>50) }

func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a^0x9E3779B97F4A7C15, b^0xD1B54A32D192ED03)
	return (hi ^ lo) * 0x9E3779B97F4A7C15
}

// PKey returns the P_Key that a builder sends for this one.
func PKey(pKey uint16) uint16 {
	if pKey == 0 {
		return bth.DefaultPKey
	}
	return pKey
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

// AppendRoCEv2 appends the IP packet of d. The Data of d is the BTH and everything after it, with
// four octets of any value in place of the ICRC: at least 16 octets. Messages that are already
// encoded use it, because a [rocev2.Packet] is large.
//
// d.Ext may already be at its place in the packet, in the free capacity of b.
// It sets d's DstPort, and Checksum to 0.
func AppendRoCEv2(b []byte, d *rocev2.Datagram, coverage icrc.Coverage) ([]byte, error) {
	checksum := d.Checksum != 0
	d.DstPort, d.Checksum = rocev2.Port, 0
	out, err := d.AppendBinary(b)
	if err != nil {
		return b, err
	}
	ip := out[len(b):]
	udp := len(ip) - 8 - len(d.Data)
	if coverage == icrc.AsSent {
		crc.Write(ip, udp)
	} else if err := icrc.Write(ip, coverage); err != nil {
		return b, err
	}
	if checksum {
		ipudp.PutChecksum(ip, udp) // after the ICRC, which it covers; the ICRC masks the checksum field
	}
	return out, nil
}
