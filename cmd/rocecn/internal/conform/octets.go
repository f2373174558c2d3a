package conform

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"net/netip"
	"slices"
)

// The suite reads packets by the figures of the drafts and of the IBTA specification, with this file and without the
// codecs of the module: a fault that the codecs have in common with a device must not hide itself.

// Octets of headers, and numbers of protocols.
const (
	ethernetSize = 14
	ipv4Size     = 20
	ipv6Size     = 40
	udpSize      = 8
	bthSize      = 12
	icrcSize     = 4

	protocolHopByHop = 0
	protocolICMP     = 1
	protocolIPv4     = 4
	protocolUDP      = 17
	protocolIPv6     = 41
	protocolRouting  = 43
	protocolFragment = 44
	protocolGRE      = 47
	protocolICMPv6   = 58
	protocolOptions  = 60

	typeIPv4 = 0x0800
	typeARP  = 0x0806
	typeVLAN = 0x8100
	typeIPv6 = 0x86DD

	portRoCE  = 4791
	portVXLAN = 4789

	opcodeCNP = 0x81
	ce        = 3
	ect0      = 2
)

// An extension is an IPv6 extension header.
type extension struct {
	protocol uint8
	at       int    // offset in the IP packet
	data     []byte // with its next header and length
}

// A packet is an IP packet in a frame. Slices alias the frame.
type packet struct {
	ip         []byte // from the IP header to the end by its length
	v6         bool
	src, dst   netip.Addr
	class, hop uint8
	label      uint32
	extensions []extension
	protocol   uint8
	fragment   bool
	upper      []byte // from the header of protocol on

	srcPort, dstPort uint16
	data             []byte // of a UDP datagram
	bth              []byte // at least BTH and ICRC, without the ICRC; nil if it is not RoCEv2
	icrc             uint32

	inner *packet // of a tunnel
}

// readFrame reads the packet of an Ethernet frame, or returns nil. vlans is the number of VLAN tags.
func readFrame(frame []byte, vxlan []uint16) (p *packet, vlans int) {
	if len(frame) < ethernetSize {
		return nil, 0
	}
	kind, at := binary.BigEndian.Uint16(frame[12:]), ethernetSize
	for kind == typeVLAN && len(frame) >= at+4 {
		kind = binary.BigEndian.Uint16(frame[at+2:])
		at += 4
		vlans++
	}
	if kind != typeIPv4 && kind != typeIPv6 {
		return nil, vlans
	}
	return readIP(frame[at:], vxlan, 4), vlans
}

// readIP reads an IP packet with at most depth packets inside it, or returns nil.
func readIP(b []byte, vxlan []uint16, depth int) *packet {
	p := &packet{}
	if len(b) == 0 || depth == 0 {
		return nil
	}
	at := 0
	switch b[0] >> 4 {
	case 4:
		if len(b) < ipv4Size || int(b[0]&15)*4 < ipv4Size {
			return nil
		}
		at = int(b[0]&15) * 4
		length := int(binary.BigEndian.Uint16(b[2:]))
		if length < at || length > len(b) {
			return nil
		}
		p.ip = b[:length]
		p.src, p.dst = netip.AddrFrom4([4]byte(b[12:])), netip.AddrFrom4([4]byte(b[16:]))
		p.class, p.hop, p.protocol = b[1], b[8], b[9]
		p.fragment = binary.BigEndian.Uint16(b[6:])&0x3FFF != 0
	case 6:
		if len(b) < ipv6Size {
			return nil
		}
		length := ipv6Size + int(binary.BigEndian.Uint16(b[4:]))
		if length > len(b) {
			return nil
		}
		at, p.v6, p.ip = ipv6Size, true, b[:length]
		p.src, p.dst = netip.AddrFrom16([16]byte(b[8:])), netip.AddrFrom16([16]byte(b[24:]))
		word := binary.BigEndian.Uint32(b)
		p.class, p.label, p.hop, p.protocol = uint8(word>>20), word&0xFFFFF, b[7], b[6]
		for p.protocol == protocolHopByHop || p.protocol == protocolRouting || p.protocol == protocolOptions {
			if len(p.ip) < at+8 || len(p.ip) < at+8*(int(p.ip[at+1])+1) {
				return p
			}
			size := 8 * (int(p.ip[at+1]) + 1)
			p.extensions = append(p.extensions, extension{p.protocol, at, p.ip[at : at+size]})
			p.protocol, at = p.ip[at], at+size
		}
		p.fragment = p.protocol == protocolFragment
	default:
		return nil
	}
	p.upper = p.ip[at:]
	p.readUpper(vxlan, depth)
	return p
}

// readUpper reads the header after the IP headers.
func (p *packet) readUpper(vxlan []uint16, depth int) {
	u := p.upper
	switch {
	case p.fragment:
	case p.protocol == protocolIPv4 || p.protocol == protocolIPv6:
		p.inner = readIP(u, vxlan, depth-1)
	case p.protocol == protocolGRE && len(u) >= 4 && binary.BigEndian.Uint16(u) == 0:
		p.inner = readIP(u[4:], vxlan, depth-1)
	case p.protocol == protocolUDP && len(u) >= udpSize:
		p.srcPort, p.dstPort = binary.BigEndian.Uint16(u), binary.BigEndian.Uint16(u[2:])
		length := int(binary.BigEndian.Uint16(u[4:]))
		if length < udpSize || length > len(u) {
			return
		}
		p.data = u[udpSize:length]
		switch {
		case p.dstPort == portRoCE && len(p.data) >= bthSize+icrcSize:
			end := len(p.data) - icrcSize
			p.bth, p.icrc = p.data[:end], binary.LittleEndian.Uint32(p.data[end:])
		case slices.Contains(vxlan, p.dstPort) && len(p.data) > 8:
			p.inner, _ = readFrame(p.data[8:], vxlan)
		}
	}
}

// innermost returns the packet inside all tunnels.
func (p *packet) innermost() *packet {
	for p.inner != nil {
		p = p.inner
	}
	return p
}

func (p *packet) opcode() uint8  { return p.bth[0] }
func (p *packet) pKey() uint16   { return binary.BigEndian.Uint16(p.bth[2:]) }
func (p *packet) destQP() uint32 { return binary.BigEndian.Uint32(p.bth[4:]) & 0xFFFFFF }
func (p *packet) psn() uint32    { return binary.BigEndian.Uint32(p.bth[8:]) & 0xFFFFFF }
func (p *packet) ecn() uint8     { return p.class & 3 }

// afterBTH returns the octets between BTH and ICRC.
func (p *packet) afterBTH() []byte { return p.bth[bthSize:] }

// An option is one of an IPv6 options header.
type option struct {
	kind uint8
	at   int // offset in the header
	data []byte
}

// options returns the options of the headers of this protocol, without padding. It ends at an option that overruns.
func (p *packet) options(protocol uint8) (all []option) {
	for _, e := range p.extensions {
		if e.protocol != protocol {
			continue
		}
		for at := 2; at < len(e.data); {
			if e.data[at] == 0 {
				at++
				continue
			}
			if at+2 > len(e.data) || at+2+int(e.data[at+1]) > len(e.data) {
				break
			}
			end := at + 2 + int(e.data[at+1])
			if e.data[at] != 1 {
				all = append(all, option{e.data[at], at, e.data[at+2 : end]})
			}
			at = end
		}
	}
	return all
}

// A kind is a kind of packet in the signalling of RoCEv2.
type kind string

// The kinds.
const (
	kindOther   kind = "other"
	kindData    kind = "data"
	kindAck     kind = "acknowledgement"
	kindCNP     kind = "CNP"
	kindFastCNP kind = "Fast CNP"
	kindPPFC    kind = "PPFC"
	kindFCN     kind = "FCN"
	kindProxy   kind = "proxy message"
)

// kind returns the kind of a packet outside tunnels.
func (p *packet) kind(c *codePoints) kind {
	switch {
	case p == nil || p.inner != nil || p.fragment:
		return kindOther
	case p.bth != nil:
		return p.roceKind(c)
	case p.protocol == protocolUDP && p.dstPort == c.FCNPort:
		return kindFCN
	case p.protocol == protocolUDP && p.dstPort == c.ProxyPort:
		return kindProxy
	}
	return kindOther
}

func (p *packet) roceKind(c *codePoints) kind {
	switch op := p.opcode(); {
	case op == opcodeCNP && len(p.options(protocolOptions)) > 0:
		return kindFastCNP
	case op == opcodeCNP && p.isPPFC():
		return kindPPFC
	case op == opcodeCNP:
		return kindCNP
	case op&0x1F == 0x11 || op&0x1F == 0x12:
		return kindAck
	}
	return kindData
}

// isPPFC reports whether the octets after the BTH of a CNP are a PPFC extension. One of the right length counts without
// the P bit, too, which a case checks.
func (p *packet) isPPFC() bool {
	n := len(p.afterBTH())
	return n == 12 || n == 24 || n != 16 && p.bth[4]&0x20 != 0
}

// A coverage is the set of octets that an ICRC is computed over.
type coverage int

// The coverages of the extension headers.
const (
	asSent  coverage = iota
	without          // as if the packet had no extension headers
	skipped          // left out, with lengths and next header as sent
)

// computeICRC returns the ICRC of a RoCEv2 packet, from the IP header to the end of its payload.
func (p *packet) computeICRC(c coverage) uint32 {
	end := len(p.ip) - len(p.upper) + udpSize + len(p.bth)
	b := append([]byte{255, 255, 255, 255, 255, 255, 255, 255}, p.ip[:end]...)
	ip, at := b[8:], len(p.ip)-len(p.upper)
	if p.v6 {
		ip[0], ip[1], ip[2], ip[3], ip[7] = ip[0]|0x0F, 255, 255, 255, 255
		if c != asSent {
			if c == without {
				binary.BigEndian.PutUint16(ip[4:], binary.BigEndian.Uint16(ip[4:])-uint16(at-ipv6Size))
				ip[6] = protocolUDP
			}
			b = append(b[:8+ipv6Size], b[8+at:]...)
			ip, at = b[8:], ipv6Size
		}
	} else {
		ip[1], ip[8], ip[10], ip[11] = 255, 255, 255, 255
	}
	ip[at+6], ip[at+7], ip[at+udpSize+4] = 255, 255, 255
	return crc32.ChecksumIEEE(b)
}

// udpChecksum returns the sum that the UDP header has to carry.
func udpChecksum(src, dst netip.Addr, datagram []byte) uint16 {
	var sum uint32
	add := func(b []byte) {
		for i := 0; i+1 < len(b); i += 2 {
			sum += uint32(binary.BigEndian.Uint16(b[i:]))
		}
		if len(b)%2 == 1 {
			sum += uint32(b[len(b)-1]) << 8
		}
	}
	add(src.AsSlice())
	add(dst.AsSlice())
	sum += protocolUDP + uint32(len(datagram))
	add(datagram[:6])
	add(datagram[8:])
	if s := fold(sum); s != 0 {
		return s
	}
	return 0xFFFF
}

// headerSum returns the complement of the sum of an IPv4 header: 0 if its checksum is right, or the checksum if that is
// still 0.
func headerSum(ip []byte) uint16 {
	var sum uint32
	for i := 0; i < int(ip[0]&15)*4; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(ip[i:]))
	}
	return fold(sum)
}

// fold returns the complement of a sum of 16-bit words.
func fold(sum uint32) uint16 {
	for sum > 0xFFFF {
		sum = sum>>16 + sum&0xFFFF
	}
	return ^uint16(sum)
}

// A field is a name and a value of a packet, for reports.
type field struct{ Name, Value string }

// fields describes a packet.
func (p *packet) fields(c *codePoints) (all []field) {
	add := func(name, format string, args ...any) { all = append(all, field{name, fmt.Sprintf(format, args...)}) }
	if p == nil {
		add("frame", "neither IPv4 nor IPv6")
		return all
	}
	add("source", "%v", p.src)
	add("destination", "%v", p.dst)
	add("DSCP, ECN", "%d, %d", p.class>>2, p.ecn())
	add("hop limit", "%d", p.hop)
	if p.v6 {
		add("flow label", "0x%05x", p.label)
	}
	for _, e := range p.extensions {
		add(fmt.Sprintf("extension header %d", e.protocol), "%x", e.data)
	}
	switch {
	case p.inner != nil:
		add("protocol", "%d, a tunnel", p.protocol)
		for _, f := range p.inner.fields(c) {
			all = append(all, field{"inner " + f.Name, f.Value})
		}
		return all
	case p.protocol != protocolUDP || p.data == nil:
		add("protocol", "%d", p.protocol)
		add("octets", "%x", p.upper[:min(len(p.upper), 64)])
		return all
	}
	add("UDP ports", "%d to %d", p.srcPort, p.dstPort)
	add("kind", "%s", p.kind(c))
	if p.bth == nil {
		add("octets", "%x", p.data[:min(len(p.data), 64)])
		return all
	}
	add("opcode", "0x%02x", p.opcode())
	add("P_Key", "0x%04x", p.pKey())
	add("destination queue pair", "0x%06x", p.destQP())
	add("PSN", "%d", p.psn())
	add("octets after BTH", "%x", p.afterBTH()[:min(len(p.afterBTH()), 64)])
	add("ICRC", "0x%08x (as sent: 0x%08x)", p.icrc, p.computeICRC(asSent))
	return all
}
