package cm

import "net/netip"

const pathSize = 44

var errPathBits = newRangeError("REQ: path",
	"FlowLabel over 20 bits, Reserved1 or PacketRate over 6, SL over 4, AckTimeout over 5, Reserved2 or Reserved3 "+
		"over 3")

// Path is one of the two paths of a [REQ] (IBTA section 12.6.5). In RoCEv2 a GID is
// an IP address, IPv4 in the form ::ffff:a.b.c.d, and the LIDs are unused.
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|           LocalLID            |           RemoteLID           |
//	|                        LocalGID (128)                         |
//	|                        RemoteGID (128)                        |
//	|               FlowLabel               | Reserved1 |PacketRate | 36
//	| TrafficClass  |   HopLimit    |  SL   |L|Resv2|AckTimeo.|Resv3| 40
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//
// L is SubnetLocal. In newer revisions of the specification the top bit of Reserved3
// of the alternate path announces support for service authentication.
type Path struct {
	LocalLID, RemoteLID uint16
	LocalGID, RemoteGID netip.Addr // decoded as IPv6; the zero Addr is encoded as ::, IPv4 as ::ffff:a.b.c.d
	FlowLabel           uint32     // 20 bits
	Reserved1           uint8      // 6 bits
	PacketRate          uint8      // 6 bits
	TrafficClass        uint8
	HopLimit            uint8
	SL                  uint8 // service level, 4 bits
	SubnetLocal         bool
	Reserved2           uint8 // 3 bits
	AckTimeout          uint8 // retransmission timeout, 4.096 µs · 2^AckTimeout; 5 bits
	Reserved3           uint8 // 3 bits
}

func (p *Path) readFields(b *[pathSize]byte) {
	p.LocalLID = be.Uint16(b[0:])
	p.RemoteLID = be.Uint16(b[2:])
	p.LocalGID = netip.AddrFrom16([16]byte(b[4:]))
	p.RemoteGID = netip.AddrFrom16([16]byte(b[20:]))
	row := be.Uint32(b[36:])
	p.FlowLabel, p.Reserved1, p.PacketRate = row>>12, uint8(row>>6&0x3f), uint8(row&0x3f)
	p.TrafficClass = b[40]
	p.HopLimit = b[41]
	p.SL, p.SubnetLocal, p.Reserved2 = b[42]>>4, b[42]>>3&1 != 0, b[42]&7
	p.AckTimeout, p.Reserved3 = b[43]>>3, b[43]&7
}

func (p *Path) writeFields(b *[pathSize]byte) {
	be.PutUint16(b[0:], p.LocalLID)
	be.PutUint16(b[2:], p.RemoteLID)
	*(*[16]byte)(b[4:]) = p.LocalGID.As16()
	*(*[16]byte)(b[20:]) = p.RemoteGID.As16()
	be.PutUint32(b[36:], p.FlowLabel<<12|uint32(p.Reserved1)<<6|uint32(p.PacketRate))
	b[40] = p.TrafficClass
	b[41] = p.HopLimit
	b[42] = p.SL<<4 | boolBit(p.SubnetLocal)<<3 | p.Reserved2
	b[43] = p.AckTimeout<<3 | p.Reserved3
}

func (p *Path) rangeError() error {
	if p.FlowLabel>>20 != 0 || (p.Reserved1|p.PacketRate)>>6|p.AckTimeout>>5|p.SL>>4|(p.Reserved2|p.Reserved3)>>3 != 0 {
		return errPathBits
	}
	return nil
}
