package netsim

import (
	"encoding/binary"
	"hash/crc32"
	"slices"
	"time"
)

// A Frame is a captured Ethernet frame.
type Frame struct {
	At     time.Duration // since the start of the capture
	Octets []byte
}

// Opcodes of the Base Transport Header (InfiniBand Architecture Specification, volume 1, section 9.2.1).
const (
	sendFirst, sendMiddle, sendLast, sendOnly     = 0x00, 0x01, 0x02, 0x04
	writeFirst, writeMiddle, writeLast, writeOnly = 0x06, 0x07, 0x08, 0x0A
	readRequest                                   = 0x0C
	readFirst, readMiddle, readLast, readOnly     = 0x0D, 0x0E, 0x0F, 0x10
	acknowledge                                   = 0x11
	cnp                                           = 0x81
)

// A packet is a RoCEv2 packet on its way.
type packet struct {
	src, dst  *Host
	port      uint16 // UDP source port
	dscp, ecn uint8
	ttl       uint8
	id        uint16 // IPv4 Identification
	opcode    uint8
	asks      bool // AckReq
	qp, psn   uint32
	extension []byte // headers after the BTH
	payload   int
	wrongICRC bool
	flipped   bool // a link changed an octet of the payload
	trimmed   bool // a switch removed the end
	hidden    bool // does not pass the capture
	isData    bool
	doomed    bool // lost before the last link
}

// size returns the length of the IP packet.
func (p *packet) size() int {
	n := 20 + 8 + 12 + len(p.extension) + p.payload + 4
	if p.src.v6 {
		n += 20
	}
	if p.trimmed {
		n = min(n, 128)
	}
	return n
}

// encode writes the frame as it is between two nodes with these MAC addresses:
//
//	MAC addresses, EtherType | IPv4 or IPv6 | UDP | BTH | further headers | payload | ICRC
func (p *packet) encode(from, to [6]byte) []byte {
	b := slices.Concat(to[:], from[:], []byte{0x08, 0x00})
	udp := 8 + 12 + len(p.extension) + p.payload + 4
	class := p.dscp<<2 | p.ecn
	if p.src.v6 {
		b[12], b[13] = 0x86, 0xDD
		b = append(b, 0x60|class>>4, class<<4, 0, 0, byte(udp>>8), byte(udp), 17, p.ttl)
	} else {
		n := 20 + udp
		b = append(b, 0x45, class, byte(n>>8), byte(n), byte(p.id>>8), byte(p.id), 0x40, 0, p.ttl, 17, 0, 0)
	}
	b = append(append(b, p.src.address...), p.dst.address...)
	b = binary.BigEndian.AppendUint16(b, p.port)
	b = append(b, 4791>>8, 4791&0xFF, byte(udp>>8), byte(udp), 0, 0)
	b = append(b, p.opcode, 0x40, 0xFF, 0xFF, 0, byte(p.qp>>16), byte(p.qp>>8), byte(p.qp))
	asks := byte(0)
	if p.asks {
		asks = 0x80
	}
	b = append(b, asks, byte(p.psn>>16), byte(p.psn>>8), byte(p.psn))
	b = append(append(b, p.extension...), make([]byte, p.payload)...)
	b = binary.LittleEndian.AppendUint32(b, icrc(b[14:]))
	switch {
	case p.wrongICRC:
		b[len(b)-1] ^= 0x5A
	case p.flipped:
		b[len(b)-9] ^= 0x10
	}
	if p.trimmed {
		n := p.size()
		if b = b[:14+n]; p.src.v6 {
			b[18], b[19] = byte((n-40)>>8), byte(n-40)
		} else {
			b[16], b[17] = byte(n>>8), byte(n)
		}
	}
	if !p.src.v6 {
		sum := uint32(0)
		for i := 14; i < 34; i += 2 {
			sum += uint32(b[i])<<8 | uint32(b[i+1])
		}
		sum = sum>>16 + sum&0xFFFF
		binary.BigEndian.PutUint16(b[24:], ^uint16(sum+sum>>16))
	}
	return b
}

// icrc returns the invariant CRC of an IP packet without its ICRC (InfiniBand Architecture Specification, annex A17):
// fields that change on the way count as ones.
func icrc(ip []byte) uint32 {
	const masked = 48 // octets up to the reserved octet of the BTH
	header := slices.Clone(ip[:min(len(ip), masked+20)])
	at := 20
	if ip[0]>>4 == 6 {
		at = 40
		header[0] |= 0x0F
		header[1], header[2], header[3], header[7] = 0xFF, 0xFF, 0xFF, 0xFF
	} else {
		header[1], header[8], header[10], header[11] = 0xFF, 0xFF, 0xFF, 0xFF
	}
	header[at+6], header[at+7], header[at+8+4] = 0xFF, 0xFF, 0xFF
	c := crc32.ChecksumIEEE([]byte{0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF})
	c = crc32.Update(c, crc32.IEEETable, header)
	return crc32.Update(c, crc32.IEEETable, ip[len(header):])
}

// pauseFrame writes a PFC frame for priority 3 (IEEE 802.1Q, annex 31B.3 and clause 36).
func pauseFrame(from [6]byte, quanta uint16) []byte {
	b := append([]byte{0x01, 0x80, 0xC2, 0, 0, 0x01}, from[:]...)
	b = append(b, 0x88, 0x08, 0x01, 0x01, 0, 1<<3)
	b = append(b, make([]byte, 60-len(b))...)
	binary.BigEndian.PutUint16(b[18+2*3:], quanta)
	return b
}
