package bench

import (
	"encoding/binary"
	"net/netip"
)

var (
	be = binary.BigEndian
	le = binary.LittleEndian
)

// byHand does the work of a program for one kind of frame, Ethernet, IPv6 without extension
// headers, UDP and a CNP: check, read every field of IP, UDP, BTH and ICRC, keep nothing else.
type byHand struct {
	src, dst               netip.Addr
	trafficClass, hopLimit uint8
	flowLabel              uint32
	srcPort, dstPort       uint16
	length, checksum       uint16
	opcode                 uint8
	solicited, migReq      bool
	pad, tver              uint8
	pKey                   uint16
	fecn, becn             bool
	resv6                  uint8
	destQP                 uint32
	ackReq                 bool
	resv7                  uint8
	psn                    uint32
	reserved               []byte
	icrc                   uint32
}

//go:noinline
func (h *byHand) read(b []byte) bool {
	if len(b) < 94 || be.Uint16(b[12:]) != 0x86DD || b[14]>>4 != 6 || b[20] != 17 || be.Uint16(b[56:]) != 4791 {
		return false
	}
	if be.Uint16(b[18:]) != 40 || be.Uint16(b[58:]) != 40 || b[62] != 0x81 {
		return false
	}
	first := be.Uint32(b[14:])
	h.trafficClass, h.flowLabel, h.hopLimit = uint8(first>>20), first&0xFFFFF, b[21]
	h.src, h.dst = netip.AddrFrom16([16]byte(b[22:38])), netip.AddrFrom16([16]byte(b[38:54]))
	h.srcPort, h.dstPort = be.Uint16(b[54:]), be.Uint16(b[56:])
	h.length, h.checksum = be.Uint16(b[58:]), be.Uint16(b[60:])
	h.opcode = b[62]
	h.solicited, h.migReq, h.pad, h.tver = b[63]&0x80 != 0, b[63]&0x40 != 0, b[63]>>4&3, b[63]&15
	h.pKey = be.Uint16(b[64:])
	h.fecn, h.becn, h.resv6 = b[66]&0x80 != 0, b[66]&0x40 != 0, b[66]&0x3F
	h.destQP = be.Uint32(b[66:]) & 0xFFFFFF
	h.ackReq, h.resv7 = b[70]&0x80 != 0, b[70]&0x7F
	h.psn = be.Uint32(b[70:]) & 0xFFFFFF
	h.reserved = b[74:90]
	h.icrc = le.Uint32(b[90:])
	return true
}
