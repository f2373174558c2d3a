package rocev2

import "slices"

// Len returns how many octets AppendBinary appends.
func (d *Datagram) Len() int { return d.headerLen() + 8 + len(d.Data) }

// headerLen is the length of the IP header with its options or extension
// headers.
func (d *Datagram) headerLen() int {
	if d.Src.Is4() {
		return 20 + len(d.Ext)
	}
	return 40 + len(d.Ext)
}

// AppendBinary appends the IP packet: IP header, Ext, UDP header and Data. All
// lengths and the IPv4 header checksum are computed, the UDP checksum as well
// unless Checksum is 0. To send a frame append the Ethernet header first.
func (d *Datagram) AppendBinary(b []byte) ([]byte, error) {
	out, at, err := d.appendHeaders(b, len(d.Data))
	if err != nil {
		return b, err
	}
	out = append(out, d.Data...)
	if d.Checksum != 0 {
		putUDPChecksum(out[len(b):], at-len(b))
	}
	return out, nil
}

// appendHeaders appends the IP header, Ext and the UDP header, checksum 0, of
// a datagram with this many octets of data, and makes room for those. It
// returns where the UDP header stands.
func (d *Datagram) appendHeaders(b []byte, data int) (out []byte, udp int, err error) {
	n := d.headerLen()
	if err := d.check(n + 8 + data); err != nil {
		return b, 0, err
	}
	udp = len(b) + n
	out = slices.Grow(b, n+8+data)[:udp+8]
	ip := out[len(b):udp]
	if d.Src.Is4() {
		d.putIPv4(ip, uint16(n+8+data))
	} else {
		d.putIPv6(ip, uint16(n-40+8+data))
	}
	h := (*[8]byte)(out[udp:])
	be.PutUint16(h[0:], d.SrcPort)
	be.PutUint16(h[2:], d.DstPort)
	be.PutUint16(h[4:], uint16(8+data))
	be.PutUint16(h[6:], 0)
	return out, udp, nil
}

// check says what keeps d from being a packet of n octets.
func (d *Datagram) check(n int) error {
	switch {
	case d.Src.Is4() && d.Dst.Is4():
		switch {
		case len(d.Ext)%4 != 0 || len(d.Ext) > 40:
			return ErrOptions
		case d.Flags > 7 || d.Flags&1 != 0:
			return ErrFlags
		case n > 0xFFFF:
			return ErrTooLong
		}
	case d.Src.Is6() && d.Dst.Is6():
		switch {
		case d.FlowLabel > 0xFFFFF:
			return ErrFlowLabel
		case n-40 > 0xFFFF:
			return ErrTooLong
		}
		if len(d.Ext) > 0 {
			next, at := d.NextHeader, 0
			for at < len(d.Ext) && isExtension(next) {
				n := extensionLen(d.Ext, at)
				if n == 0 {
					return ErrExtensions
				}
				next, at = d.Ext[at], at+n
			}
			if next != protoUDP || at != len(d.Ext) {
				return ErrExtensions
			}
		}
	default:
		return ErrAddress
	}
	return nil
}

func (d *Datagram) putIPv4(ip []byte, total uint16) {
	ip[0], ip[1] = 4<<4|uint8(len(ip)/4), d.TrafficClass
	be.PutUint16(ip[2:], total)
	be.PutUint16(ip[4:], d.ID)
	be.PutUint16(ip[6:], uint16(d.Flags)<<13)
	ip[8], ip[9] = d.HopLimit, protoUDP
	be.PutUint16(ip[10:], 0)
	src, dst := d.Src.As4(), d.Dst.As4()
	copy(ip[12:], src[:])
	copy(ip[16:], dst[:])
	copy(ip[20:], d.Ext)
	be.PutUint16(ip[10:], ^fold(sum(0, ip)))
}

func (d *Datagram) putIPv6(ip []byte, payload uint16) {
	be.PutUint32(ip, 6<<28|uint32(d.TrafficClass)<<20|d.FlowLabel)
	be.PutUint16(ip[4:], payload)
	ip[6], ip[7] = protoUDP, d.HopLimit
	if len(d.Ext) > 0 {
		ip[6] = d.NextHeader
	}
	src, dst := d.Src.As16(), d.Dst.As16()
	copy(ip[8:], src[:])
	copy(ip[24:], dst[:])
	copy(ip[40:], d.Ext)
}
