package fastcnp

import (
	"encoding/binary"
	"net/netip"

	"github.com/rocecn/rocecn/ipv6opt"
)

var (
	be = binary.BigEndian
	le = binary.LittleEndian
)

const (
	protoUDP = 17
	ipv6Size = 40
	// ioamHeaders is what stands before the nodes and free space of option 2:
	// Reserved, IOAM-Opt-Type, the trace's header.
	ioamHeaders = option2Min - addressSize
)

// header is what goes into a Destination Options header with a Fast CNP option,
// placed as D3 says. Option 1 stands at 4n+2, right behind the first two octets:
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	| Next Header=17| Hdr Ext Len=2 |  Option Type  |Opt Data Len=16|
//	~              Original destination address (16 octets)         ~
//	|    PadN = 1   |       2       |               0               |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//
// Option 2 stands at 4n, behind a PadN of 2 octets; one of 4 ends the header
// where that makes it a multiple of 8:
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
	ioam     []byte     // option 2: from Reserved to the end of the trace; empty in option 1
	trimmed  int        // option 2: octets of free space to leave out, which sets RemainingLen to 0
}

// len returns the length of the header in octets.
func (o *header) len() int {
	if len(o.ioam) == 0 {
		return 4 + addressSize + 4
	}
	return (6 + len(o.ioam) - o.trimmed + addressSize + 7) &^ 7
}

// put writes the header to b, which has its length.
func (o *header) put(b []byte) {
	const pad2, pad4 = uint32(ipv6opt.PadN) << 8, uint32(ipv6opt.PadN)<<24 | 2<<16
	first := protoUDP<<24 | uint32(len(b)/8-1)<<16
	if len(o.ioam) == 0 {
		be.PutUint32(b, first|uint32(o.typ)<<8|addressSize)
		b = b[4:]
	} else {
		be.PutUint32(b, first|pad2)
		b[4], b[5] = uint8(o.typ), uint8(len(o.ioam)-o.trimmed+addressSize)
		copy(b[6:], o.ioam[:ioamHeaders])
		if o.trimmed > 0 {
			b[11] &^= 0x7F // RemainingLen
		}
		b = b[6+ioamHeaders:]
		b = b[copy(b, o.ioam[ioamHeaders+o.trimmed:]):]
	}
	address := o.original.AsSlice()
	be.PutUint64(b, be.Uint64(address))
	be.PutUint64(b[8:], be.Uint64(address[8:]))
	if len(b) > addressSize {
		be.PutUint32(b[addressSize:], pad4)
	}
}
