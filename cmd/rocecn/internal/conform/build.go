package conform

import (
	"cmp"
	"encoding/binary"
	"net/netip"
)

// A flow is the description of a RoCEv2 packet that the tester sends.
type flow struct {
	src, dst         netip.Addr
	srcPort, dstPort uint16 // 0: 49152 and 4791
	class            uint8
	label            uint32
	opcode           uint8
	pKey             uint16 // 0: 0xFFFF
	destQP, psn      uint32
	ackRequest       bool
	flags            uint8  // octet 4 of the BTH
	headers          []byte // extended transport headers
	payload          []byte
	hopByHop         []byte // options of a Hop-by-Hop header, without its first two octets
	options          []byte // the same of a Destination Options header
	badICRC          bool
}

// appendIP appends the IP packet of the flow, with its ICRC computed as sent.
func (f *flow) appendIP(b []byte) []byte {
	body := make([]byte, 0, 128+len(f.payload))
	flags := uint32(f.flags)
	body = append(body, f.opcode, uint8(-len(f.payload)&3)<<4)
	body = binary.BigEndian.AppendUint16(body, cmp.Or(f.pKey, 0xFFFF))
	body = binary.BigEndian.AppendUint32(body, flags<<24|f.destQP)
	psn := f.psn & 0xFFFFFF
	if f.ackRequest {
		psn |= 1 << 31
	}
	body = binary.BigEndian.AppendUint32(body, psn)
	body = append(append(body, f.headers...), f.payload...)
	body = append(body, make([]byte, -len(f.payload)&3+icrcSize)...)
	udp := appendUDP(nil, cmp.Or(f.srcPort, 49152), cmp.Or(f.dstPort, portRoCE), body)
	var packets []byte
	if f.src.Is4() {
		packets = appendIPv4(b, f.src, f.dst, f.class, protocolUDP, udp)
	} else {
		protocol := uint8(protocolUDP)
		upper := udp
		for _, e := range []struct {
			protocol uint8
			options  []byte
		}{{protocolOptions, f.options}, {protocolHopByHop, f.hopByHop}} {
			if len(e.options) > 0 {
				header := append([]byte{protocol, uint8((len(e.options)+2)/8 - 1)}, e.options...)
				upper, protocol = append(header, upper...), e.protocol
			}
		}
		packets = appendIPv6(b, f.src, f.dst, f.class, f.label, protocol, upper)
	}
	sign(packets[len(b):])
	if f.badICRC {
		packets[len(packets)-1] ^= 0x55
	}
	return packets
}

// sign writes the ICRC of a RoCEv2 packet, computed as sent.
func sign(ip []byte) {
	if p := readIP(ip, nil, 1); p != nil && p.bth != nil {
		binary.LittleEndian.PutUint32(p.data[len(p.data)-icrcSize:], p.computeICRC(asSent))
	}
}

// appendUDP appends a datagram without a checksum.
func appendUDP(b []byte, src, dst uint16, data []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, src)
	b = binary.BigEndian.AppendUint16(b, dst)
	b = binary.BigEndian.AppendUint16(b, uint16(udpSize+len(data)))
	return append(append(b, 0, 0), data...)
}

// appendIPv6 appends an IPv6 packet with hop limit 64.
func appendIPv6(b []byte, src, dst netip.Addr, class uint8, label uint32, protocol uint8, upper []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, 6<<28|uint32(class)<<20|label)
	b = binary.BigEndian.AppendUint16(b, uint16(len(upper)))
	b = append(append(append(b, protocol, 64), src.AsSlice()...), dst.AsSlice()...)
	return append(b, upper...)
}

// appendIPv4 appends an IPv4 packet with TTL 64 and Don't Fragment.
func appendIPv4(b []byte, src, dst netip.Addr, class, protocol uint8, upper []byte) []byte {
	at := len(b)
	b = append(b, 0x45, class)
	b = binary.BigEndian.AppendUint16(b, uint16(ipv4Size+len(upper)))
	b = append(b, 0, 0, 0x40, 0, 64, protocol, 0, 0)
	b = append(append(b, src.AsSlice()...), dst.AsSlice()...)
	binary.BigEndian.PutUint16(b[at+10:], headerSum(b[at:]))
	return append(b, upper...)
}

// wrapIP puts a packet of either family into a packet of the family of src.
func wrapIP(src, dst netip.Addr, class uint8, label uint32, ip []byte) []byte {
	protocol := uint8(protocolIPv6)
	if ip[0]>>4 == 4 {
		protocol = protocolIPv4
	}
	if src.Is4() {
		return appendIPv4(nil, src, dst, class, protocol, ip)
	}
	return appendIPv6(nil, src, dst, class, label, protocol, ip)
}

// wrapVXLAN puts a packet into VXLAN.
func wrapVXLAN(src, dst netip.Addr, class uint8, label uint32, port uint16, ip []byte) []byte {
	inner := appendEthernet([]byte{8, 0, 0, 0, 0, 0, 7, 0}, mac{2, 0, 0, 0, 0, 2}, mac{2, 0, 0, 0, 0, 1}, 0, ip)
	return appendDatagram(nil, src, dst, class, label, 49153, port, inner)
}

// wrapGRE puts a packet into GRE without options.
func wrapGRE(src, dst netip.Addr, class uint8, label uint32, ip []byte) []byte {
	kind := uint16(typeIPv6)
	if ip[0]>>4 == 4 {
		kind = typeIPv4
	}
	gre := append(binary.BigEndian.AppendUint16([]byte{0, 0}, kind), ip...)
	if src.Is4() {
		return appendIPv4(nil, src, dst, class, protocolGRE, gre)
	}
	return appendIPv6(nil, src, dst, class, label, protocolGRE, gre)
}

// appendDatagram appends an IP packet with a UDP datagram and its checksum.
func appendDatagram(b []byte, src, dst netip.Addr, class uint8, label uint32, from, to uint16, data []byte) []byte {
	udp := appendUDP(nil, from, to, data)
	binary.BigEndian.PutUint16(udp[6:], udpChecksum(src, dst, udp))
	if src.Is4() {
		return appendIPv4(b, src, dst, class, protocolUDP, udp)
	}
	return appendIPv6(b, src, dst, class, label, protocolUDP, udp)
}

// A mac is a hardware address.
type mac [6]byte

// appendEthernet appends a frame with an IP packet, and a VLAN tag if vlan is not 0.
func appendEthernet(b []byte, dst, src mac, vlan uint16, ip []byte) []byte {
	kind := uint16(typeIPv6)
	if ip[0]>>4 == 4 {
		kind = typeIPv4
	}
	return append(appendEthernetHeader(b, dst, src, vlan, kind), ip...)
}

func appendEthernetHeader(b []byte, dst, src mac, vlan, kind uint16) []byte {
	b = append(append(b, dst[:]...), src[:]...)
	if vlan != 0 {
		b = binary.BigEndian.AppendUint16(b, typeVLAN)
		b = binary.BigEndian.AppendUint16(b, vlan)
	}
	return binary.BigEndian.AppendUint16(b, kind)
}

// fastCNPOption1 returns the options of a Destination Options header with option 1 at 4n+2, as figure 3 of Fast CNP.
func fastCNPOption1(kind uint8, original netip.Addr) []byte {
	return append(append([]byte{kind, 16}, original.AsSlice()...), 1, 2, 0, 0)
}

// traceOption returns the options of a Hop-by-Hop header with a pre-allocated trace of node data (RFC 9197, 9486):
// hop limit and node id, and queue depth, with room for free records.
func traceOption(namespace uint16, free int, nodes ...[8]byte) []byte {
	data := []byte{0, 0}
	data = binary.BigEndian.AppendUint16(data, namespace)
	data = append(data, 2<<3, uint8(2*free), 0x82, 0, 0, 0)
	data = append(data, make([]byte, 8*free)...)
	for _, n := range nodes {
		data = append(data, n[:]...)
	}
	options := append([]byte{1, 0, 0x31, uint8(len(data))}, data...)
	pad := -(len(options) + 2) & 7
	switch {
	case pad == 1:
		options = append(options, 0)
	case pad > 1:
		options = append(append(options, 1, uint8(pad-2)), make([]byte, pad-2)...)
	}
	return options
}

// ppfcAfterBTH returns the octets of a PPFC after the BTH (PPFC section 3).
func ppfcAfterBTH(address netip.Addr, pt uint8, port, pause uint16) []byte {
	b := append([]byte(nil), address.AsSlice()...)
	b = append(b, 0, pt&3)
	b = binary.BigEndian.AppendUint16(b, port)
	b = append(b, 0, 0)
	return binary.BigEndian.AppendUint16(b, pause)
}
