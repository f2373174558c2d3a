package bench

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/ioam"
	"github.com/rocecn/rocecn/rocev2"
)

// BenchmarkICRC computes the ICRC over each number of octets: 76 in a CNP over IPv6.
func BenchmarkICRC(b *testing.B) {
	for _, n := range []int{76, 256, 1024, 4096} {
		p := rocev2.Packet{
			Datagram: rocev2.Datagram{Src: sender, Dst: receiver, DstPort: rocev2.Port},
			BTH:      bth.Headers{Header: bth.Header{Opcode: bth.RCSendOnly}},
			Payload:  make([]byte, n-60),
		}
		ip := wiretest.Must(p.AppendBinary(nil))(b)
		covered, to := ip[:n], make([]byte, n)
		run(b, fmt.Sprintf("%d octets/hash/crc32", n), func(b *testing.B) {
			for b.Loop() {
				crc32.ChecksumIEEE(covered)
			}
		})
		run(b, fmt.Sprintf("%d octets/copy", n), func(b *testing.B) {
			for b.Loop() {
				copy(to, covered)
			}
		})
		run(b, fmt.Sprintf("%d octets/icrc.Sum", n), func(b *testing.B) {
			for b.Loop() {
				icrc.Sum(ip, icrc.AsSent)
			}
		})
	}
}

// BenchmarkHeaders: the BTH alone, and with the longest common extended header.
func BenchmarkHeaders(b *testing.B) {
	write := bth.Headers{Header: bth.Header{Opcode: bth.RCRDMAWriteOnly, PKey: 0xFFFF, DestQP: 0x118, PSN: 5},
		RETH: bth.RETH{VirtualAddress: 1 << 40, RKey: 7, DMALength: 1 << 20}}
	wire, err := write.AppendBinary(nil)
	require.NoError(b, err)
	to := make([]byte, 0, 64)
	run(b, "BTH/copy", func(b *testing.B) {
		for b.Loop() {
			copy(to[:bth.Size], wire)
		}
	})
	run(b, "BTH/Decode", func(b *testing.B) {
		var h bth.Header
		for b.Loop() {
			_, err := h.Decode(wire)
			check(b, err)
		}
	})
	run(b, "BTH/AppendBinary", func(b *testing.B) {
		for b.Loop() {
			to, err = write.Header.AppendBinary(to[:0])
			check(b, err)
		}
	})
	run(b, "BTH and RETH/copy", func(b *testing.B) {
		for b.Loop() {
			copy(to[:len(wire)], wire)
		}
	})
	run(b, "BTH and RETH/Decode", func(b *testing.B) {
		var h bth.Headers
		for b.Loop() {
			_, err := h.Decode(wire)
			check(b, err)
		}
	})
	run(b, "BTH and RETH/AppendBinary", func(b *testing.B) {
		for b.Loop() {
			to, err = write.AppendBinary(to[:0])
			check(b, err)
		}
	})
}

// BenchmarkIOAM decodes a trace and reads all fields of its nodes: five words a
// node, and one where the trace has 61.
func BenchmarkIOAM(b *testing.B) {
	for _, nodes := range []int{3, 11, 61} {
		typ := congestion
		if nodes == 61 {
			typ = ioam.BitNode
		}
		var o ioam.Option
		require.NoError(b, o.Decode(trace(b, typ, nodes)))
		run(b, fmt.Sprintf("%d nodes/hash/crc32", nodes), func(b *testing.B) {
			for b.Loop() {
				crc32.ChecksumIEEE(o.Data)
			}
		})
		run(b, fmt.Sprintf("%d nodes/Cursor", nodes), func(b *testing.B) {
			var t ioam.Trace
			var n ioam.Node
			var sum uint64
			for b.Loop() {
				check(b, t.Decode(o))
				for c := t.Cursor(); c.Next(&n); {
					sum += allFields(&n)
				}
			}
			require.NotZero(b, sum)
		})
		run(b, fmt.Sprintf("%d nodes/Nodes", nodes), func(b *testing.B) {
			var t ioam.Trace
			var sum uint64
			for b.Loop() {
				check(b, t.Decode(o))
				for n := range t.Nodes() {
					sum += allFields(&n)
				}
			}
			require.NotZero(b, sum)
		})
	}
}

func allFields(n *ioam.Node) uint64 {
	hopLimit, _ := n.HopLimit()
	id, _ := n.NodeID()
	ingress, _ := n.Ingress()
	egress, _ := n.Egress()
	seconds, _ := n.Seconds()
	fraction, _ := n.Fraction()
	depth, _ := n.QueueDepth()
	return uint64(hopLimit) + uint64(id) + uint64(ingress) + uint64(egress) + uint64(seconds) + uint64(fraction) +
		uint64(depth)
}

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
