package fastcnp

import (
	"encoding/binary"
	"net/netip"

	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/ipv6opt"
)

var (
	be = binary.BigEndian
	le = binary.LittleEndian
)

const (
	// ioamHeaders is the length of Reserved, IOAM-Opt-Type and the trace's
	// header, which precede the nodes and free space of option 2.
	ioamHeaders = option2Min - wire.AddressSize
	// traceOffset is the offset of the trace of option 2 from the start of the header.
	traceOffset = 8
)

// header is a Destination Options header with a Fast CNP option, aligned according to
// D3. Option 1 is at 4n+2, directly after the first two octets:
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	| Next Header=17| Hdr Ext Len=2 |  Option Type  |Opt Data Len=16|
//	~              Original destination address (16 octets)         ~
//	|    PadN = 1   |       2       |               0               |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//
// Option 2 is at 4n, after a PadN of 2 octets. Another PadN of 4 octets follows
// if that makes the length a multiple of 8:
//
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	| Next Header=17|  Hdr Ext Len  |    PadN = 1   |       0       |
//	|  Option Type  |  Opt Data Len |   Reserved    | IOAM Opt-Type |
//	~                       IOAM trace option data                  ~
//	~              Original destination address (16 octets)         ~
//	|    PadN = 1   |       2       |               0               |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
type header struct {
	typ      ipv6opt.Type
	original netip.Addr // IPv6
	ioam     []byte     // option 2: IOAM option data, from Reserved to the end of the trace; empty in option 1
	trimmed  int        // option 2: length of the free space to omit, in octets
	reserved uint8      // option 2: the Reserved octet, in place of that of ioam
}

// encodedLen returns the length of the encoded header in octets.
func (o *header) encodedLen() int {
	if len(o.ioam) == 0 {
		return 4 + wire.AddressSize + 4
	}
	return (6 + len(o.ioam) - o.trimmed + wire.AddressSize + 7) &^ 7
}

// writeHeader writes the header to b, which has its length. It writes 8 octets at a
// time for speed.
func (o *header) writeHeader(b []byte) {
	const pad2, pad4 = uint64(ipv6opt.PadN) << 8, uint64(ipv6opt.PadN)<<24 | 2<<16
	first := uint64(wire.ProtoUDP)<<56 | uint64(len(b)/8-1)<<48
	address := o.original.AsSlice()
	high, low := be.Uint64(address), be.Uint64(address[8:])
	if len(o.ioam) == 0 {
		h := (*[24]byte)(b)
		be.PutUint64(h[:], first|uint64(o.typ)<<40|wire.AddressSize<<32|high>>32)
		be.PutUint64(h[8:], high<<32|low>>32)
		be.PutUint64(h[16:], low<<32|pad4)
		return
	}
	h := (*[ioamHeaders]byte)(o.ioam)
	trace := be.Uint64(h[2:]) - uint64(o.trimmed/4)<<32 // subtracts from RemainingLen, which is large enough
	be.PutUint64(b, first|pad2<<32|uint64(o.typ)<<24|uint64(len(o.ioam)-o.trimmed+wire.AddressSize)<<16|
		uint64(o.reserved)<<8|uint64(h[1]))
	be.PutUint64(b[8:], trace)
	b = b[16:]
	nodes := o.ioam[ioamHeaders+o.trimmed:]
	for ; len(nodes) >= 8; nodes, b = nodes[8:], b[8:] {
		le.PutUint64(b, le.Uint64(nodes))
	}
	if len(nodes) < 4 {
		be.PutUint64(b, high)
		be.PutUint64(b[8:], low)
		return
	}
	be.PutUint64(b, uint64(be.Uint32(nodes))<<32|high>>32)
	be.PutUint64(b[8:], high<<32|low>>32)
	be.PutUint64(b[16:], low<<32|pad4)
}
