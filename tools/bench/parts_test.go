package bench

import (
	"fmt"
	"hash/crc32"
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
