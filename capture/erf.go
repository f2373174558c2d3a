package capture

import "encoding/binary"

// erf is LINKTYPE_ERF: each packet stands in a record of Endace's Extensible Record
// Format (ERF Types Reference Guide, EDM11-01). Its header has 16 octets:
//
//	 0  8  time stamp, little-endian; the capture's own is as good
//	 8  1  type; the top bit says that extension headers follow
//	 9  1  flags
//	10  2  rlen, octets of the record as it was captured, with padding
//	12  2  lctr, packets lost before it, or a color
//	14  2  wlen, octets of the packet on the wire, with the frame check sequence
//
// An extension header has 8 octets. The first is again a type, and its top bit means
// that another extension header follows. 2 octets of padding precede an Ethernet frame.
const erf uint32 = 197

const (
	erfSize          = 16
	erfExtensionSize = 8
	erfPad           = 2
	erfMore          = 0x80 // in a type: an extension header follows
)

// Types of records with packets that package rocev2 decodes, and the type of records
// about the capture itself.
const (
	erfEthernet          = 2
	erfColorEthernet     = 11
	erfDSMColorEthernet  = 16
	erfColorHashEthernet = 20
	erfIPv4              = 22
	erfIPv6              = 23
	erfMeta              = 27
)

// unwrap makes of an ERF record the packet that it holds, and of its link type
// that of the packet. A record that ends before that, or holds none, as those of
// metadata, becomes an Ethernet frame without octets, so that packets keep their
// numbers. Records of other types stay as they are.
func (r *Record) unwrap() {
	b := r.Data
	if len(b) < erfSize {
		r.Data, r.Link = nil, Ethernet
		return
	}
	end, more := erfSize, b[8]&erfMore != 0
	for more && end < len(b) {
		more = b[end]&erfMore != 0
		end += erfExtensionSize
	}
	wire := uint32(binary.BigEndian.Uint16(b[14:]))
	switch b[8] &^ erfMore {
	case erfEthernet, erfColorEthernet, erfDSMColorEthernet, erfColorHashEthernet:
		r.Link = Ethernet
		end += erfPad
	case erfIPv4, erfIPv6:
		r.Link = Raw
	case erfMeta:
		r.Link = Ethernet
		end, wire = len(b), 0
	default:
		return
	}
	if more || end > len(b) {
		end = len(b)
	}
	r.Data, r.OrigLen = b[end:], wire
	if uint64(len(r.Data)) > uint64(wire) { // records are padded
		r.Data = r.Data[:wire]
	}
}
