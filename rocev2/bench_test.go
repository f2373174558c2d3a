package rocev2

import (
	"hash/crc32"
	"net/netip"
	"testing"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wiretest"
)

// cnp6 is a CNP over IPv6 in Ethernet, 94 octets.
func cnp6(tb testing.TB) []byte {
	p := Packet{
		Datagram: Datagram{Src: addr("2001:db8::1"), Dst: addr("2001:db8::2"), TrafficClass: 0xC0, HopLimit: 64, DstPort: Port},
		BTH:      bth.Headers{Header: bth.Header{Opcode: bth.CNP, PKey: 0xFFFF, BECN: true, DestQP: 0x118}},
		Payload:  make([]byte, 16),
	}
	out, err := p.AppendBinary(wiretest.Hex(tb, "020000000001 020000000002 86dd"))
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

// byHand is what a program for this one kind of frame would do: check, read
// the same fields, keep nothing else.
type byHand struct {
	src, dst               netip.Addr
	trafficClass, hopLimit uint8
	flowLabel              uint32
	srcPort, dstPort       uint16
	length, checksum       uint16
	op                     uint8
	se, migReq             bool
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
	if int(be.Uint16(b[18:])) != 40 || be.Uint16(b[58:]) != 40 || b[62] != 0x81 {
		return false
	}
	first := be.Uint32(b[14:])
	h.trafficClass, h.flowLabel, h.hopLimit = uint8(first>>20), first&0xFFFFF, b[21]
	h.src, h.dst = netip.AddrFrom16([16]byte(b[22:38])), netip.AddrFrom16([16]byte(b[38:54]))
	h.srcPort, h.dstPort = be.Uint16(b[54:]), be.Uint16(b[56:])
	h.length, h.checksum = be.Uint16(b[58:]), be.Uint16(b[60:])
	h.op = b[62]
	h.se, h.migReq, h.pad, h.tver = b[63]&0x80 != 0, b[63]&0x40 != 0, b[63]>>4&3, b[63]&15
	h.pKey = be.Uint16(b[64:])
	h.fecn, h.becn, h.resv6 = b[66]&0x80 != 0, b[66]&0x40 != 0, b[66]&0x3F
	h.destQP = be.Uint32(b[66:]) & 0xFFFFFF
	h.ackReq, h.resv7 = b[70]&0x80 != 0, b[70]&0x7F
	h.psn = be.Uint32(b[70:]) & 0xFFFFFF
	h.reserved = b[74:90]
	h.icrc = le.Uint32(b[90:])
	return true
}

// BenchmarkWalk reads an IPv6 CNP, from the Ethernet header to the ICRC. The
// floors are a reader written by hand for this one kind of frame, and
// hash/crc32 over the octets of the ICRC.
func BenchmarkWalk(b *testing.B) {
	frame := cnp6(b)
	b.Run("byhand", func(b *testing.B) {
		var h byHand
		b.ReportAllocs()
		for b.Loop() {
			if !h.read(frame) {
				b.Fatal("not read")
			}
		}
	})
	b.Run("walk", func(b *testing.B) {
		var p Packet
		b.ReportAllocs()
		for b.Loop() {
			if err := p.DecodeFrame(frame); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("walk of any frame", func(b *testing.B) { // without decodePlain
		var p Packet
		o := Options{Ports: ports4791}
		b.ReportAllocs()
		for b.Loop() {
			if err := p.decode(frame, &o); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("walk+icrc", func(b *testing.B) {
		var p Packet
		b.ReportAllocs()
		for b.Loop() {
			if err := p.DecodeFrame(frame); err != nil {
				b.Fatal(err)
			}
			if _, err := icrc.Verify(p.IP); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("build", func(b *testing.B) {
		var p Packet
		if err := p.DecodeFrame(frame); err != nil {
			b.Fatal(err)
		}
		out := make([]byte, 0, 128)
		b.ReportAllocs()
		for b.Loop() {
			var err error
			if out, err = p.AppendBinary(out[:0]); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("crc32", func(b *testing.B) {
		for b.Loop() {
			crc32.ChecksumIEEE(frame[14:90])
		}
	})
}
