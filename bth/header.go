package bth

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/rocecn/rocecn/internal/wireerr"
)

// Size is the length of the BTH in octets.
const Size = 12

// errTruncated is the error of Decode for fewer than 12 octets.
var errTruncated = wireerr.New("bth", "BTH", "truncated: shorter than 12 octets", wireerr.Truncated)

// Errors of [Header.AppendBinary] for values that do not fit their field.
var (
	errPadRange   = wireerr.New("bth", "Pad", "over 3, more than 2 bits", wireerr.Range)
	errTVerRange  = wireerr.New("bth", "TVer", "over 15, more than 4 bits", wireerr.Range)
	errResv6Range = wireerr.New("bth", "Resv6", "over 63, more than 6 bits", wireerr.Range)
	errResv7Range = wireerr.New("bth", "Resv7", "over 127, more than 7 bits", wireerr.Range)
	errPSNRange   = wireerr.New("bth", "PSN", "over 0xffffff, more than 24 bits", wireerr.Range)
)

// Deviations that [Header.Validate] reports.
var (
	errPKey  = wireerr.New("bth", "P_Key", "names no partition: the low 15 bits are 0", wireerr.Malformed)
	errTVer  = wireerr.New("bth", "TVer", "not 0", wireerr.Malformed)
	errResv6 = wireerr.New("bth", "Resv6", "reserved bits set", wireerr.Malformed)
	errResv7 = wireerr.New("bth", "Resv7", "reserved bits set", wireerr.Malformed)
)

// DefaultPKey is the P_Key of the default partition, with full membership. The functions that build messages send it
// in place of P_Key 0, which names no partition.
const DefaultPKey = 0xFFFF

// Header is the Base Transport Header, IBTA section 9.2.
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|    Opcode     |S|M|Pad| TVer  |             PKey              |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|F|B|   Resv6   |                    DestQP                     |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|A|    Resv7    |                      PSN                      |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
type Header struct {
	Opcode    Opcode
	Solicited bool   // S: the receiver may raise a solicited event
	MigReq    bool   // M: migration state
	Pad       uint8  // octets of pad after the payload, 0 to 3
	TVer      uint8  // transport header version, 0; 4 bits
	PKey      uint16 // partition key, usually DefaultPKey; AppendBinary encodes 0 as 0
	FECN      bool   // F: forward explicit congestion notification
	BECN      bool   // B: backward explicit congestion notification, set in CNPs
	Resv6     uint8  // reserved, 6 bits; the ICRC does not cover octet 4
	DestQP    uint32 // destination queue pair, 24 bits
	AckReq    bool   // A: the sender requests an acknowledgement
	Resv7     uint8  // reserved, 7 bits
	PSN       uint32 // packet sequence number, 24 bits
}

// Decode reads the BTH at the start of b and returns the octets after it, which
// alias b. It fails only if octets are missing, with an error that matches
// rocecn.ErrTruncated; h is then unchanged.
func (h *Header) Decode(b []byte) (rest []byte, err error) {
	if len(b) < Size {
		return nil, errTruncated
	}
	h.readRow0(binary.BigEndian.Uint32(b[0:]))
	h.readRow1(binary.BigEndian.Uint32(b[4:]))
	h.readRow2(binary.BigEndian.Uint32(b[8:]))
	return b[Size:], nil
}

// AppendBinary appends the 12 octets of the BTH to b. If a value does not fit its
// field, it returns b unchanged and an error that matches rocecn.ErrRange.
func (h *Header) AppendBinary(b []byte) ([]byte, error) {
	if !h.inRange() {
		return b, h.rangeError()
	}
	b, more := growBuffer(b, Size)
	h.writeFields((*[Size]byte)(more))
	return b, nil
}

func (h *Header) writeFields(b *[Size]byte) {
	binary.BigEndian.PutUint32(b[0:], h.encodeRow0())
	binary.BigEndian.PutUint32(b[4:], h.encodeRow1())
	binary.BigEndian.PutUint32(b[8:], h.encodeRow2())
}

// One function for each row of the picture: the compiler inlines a row, but not a
// whole header.

func (h *Header) readRow0(row uint32) {
	h.Opcode = Opcode(row >> 24)
	h.Solicited = row>>23&1 != 0
	h.MigReq = row>>22&1 != 0
	h.Pad = uint8(row >> 20 & 0x3)
	h.TVer = uint8(row >> 16 & 0xf)
	h.PKey = uint16(row)
}

func (h *Header) encodeRow0() uint32 {
	return uint32(h.Opcode)<<24 | boolBit(h.Solicited)<<23 | boolBit(h.MigReq)<<22 |
		uint32(h.Pad)<<20 | uint32(h.TVer)<<16 | uint32(h.PKey)
}

func (h *Header) readRow1(row uint32) {
	h.FECN = row>>31 != 0
	h.BECN = row>>30&1 != 0
	h.Resv6 = uint8(row >> 24 & 0x3f)
	h.DestQP = row & 0xffffff
}

func (h *Header) encodeRow1() uint32 {
	return boolBit(h.FECN)<<31 | boolBit(h.BECN)<<30 | uint32(h.Resv6)<<24 | h.DestQP
}

func (h *Header) readRow2(row uint32) {
	h.AckReq = row>>31 != 0
	h.Resv7 = uint8(row >> 24 & 0x7f)
	h.PSN = row & 0xffffff
}

func (h *Header) encodeRow2() uint32 { return boolBit(h.AckReq)<<31 | uint32(h.Resv7)<<24 | h.PSN }

// inRange reports whether every value fits its field.
func (h *Header) inRange() bool {
	return h.Pad>>2|h.TVer>>4|h.Resv6>>6|h.Resv7>>7 == 0 && (h.DestQP|h.PSN)>>24 == 0
}

// rangeError returns the error of the first value that does not fit its field. Call
// it only if inRange is false.
func (h *Header) rangeError() error {
	switch {
	case h.Pad > 3:
		return errPadRange
	case h.TVer > 15:
		return errTVerRange
	case h.Resv6 > 63:
		return errResv6Range
	case h.DestQP > 0xffffff:
		return wireerr.DestQP
	case h.Resv7 > 127:
		return errResv7Range
	default:
		return errPSNRange
	}
}

// Validate returns an error that names every value out of range, a P_Key without a
// partition, a TVer other than 0 and reserved bits that are set. It accepts unknown
// opcodes. It does not accept PPFC messages, which use the top bit of Resv6.
func (h *Header) Validate() error {
	if h.inRange() && h.TVer|h.Resv6|h.Resv7 == 0 && h.PKey&0x7FFF != 0 {
		return nil
	}
	return errors.Join(
		wireerr.If(h.Pad > 3, errPadRange),
		wireerr.If(h.PKey&0x7FFF == 0, errPKey),
		wireerr.If(h.TVer > 15, errTVerRange),
		wireerr.If(h.TVer != 0, errTVer),
		wireerr.If(h.Resv6 > 63, errResv6Range),
		wireerr.If(h.Resv6 != 0, errResv6),
		wireerr.If(h.DestQP > 0xffffff, wireerr.DestQP),
		wireerr.If(h.Resv7 > 127, errResv7Range),
		wireerr.If(h.Resv7 != 0, errResv7),
		wireerr.If(h.PSN > 0xffffff, errPSNRange),
	)
}

// String returns opcode, queue pair, PSN and partition key, and the other fields
// that are not zero.
func (h Header) String() string {
	s := fmt.Sprintf("%v DestQP 0x%06x PSN %d PKey 0x%04x", h.Opcode, h.DestQP, h.PSN, h.PKey)
	for _, field := range [...]struct {
		name  string
		value uint32
	}{
		{"Solicited", boolBit(h.Solicited)},
		{"MigReq", boolBit(h.MigReq)},
		{"Pad", uint32(h.Pad)},
		{"TVer", uint32(h.TVer)},
		{"FECN", boolBit(h.FECN)},
		{"BECN", boolBit(h.BECN)},
		{"Resv6", uint32(h.Resv6)},
		{"AckReq", boolBit(h.AckReq)},
		{"Resv7", uint32(h.Resv7)},
	} {
		if field.value != 0 {
			s += fmt.Sprintf(" %s %d", field.name, field.value)
		}
	}
	return s
}
