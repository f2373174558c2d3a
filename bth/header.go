package bth

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/rocecn/rocecn/internal/wireerr"
)

// Size is the length of the BTH in octets.
const Size = 12

// errTruncated is what [Header.Decode] refuses.
var errTruncated = wireerr.New("bth", "BTH", 12, "truncated: shorter than 12 octets", wireerr.Truncated)

// Values that [Header.AppendBinary] refuses because they do not fit their
// field.
var (
	errPadRange   = wireerr.New("bth", "Pad", 0, "over 3, more than 2 bits", wireerr.Range)
	errTVerRange  = wireerr.New("bth", "TVer", 0, "over 15, more than 4 bits", wireerr.Range)
	errResv6Range = wireerr.New("bth", "Resv6", 0, "over 63, more than 6 bits", wireerr.Range)
	errResv7Range = wireerr.New("bth", "Resv7", 0, "over 127, more than 7 bits", wireerr.Range)
	errPSNRange   = wireerr.New("bth", "PSN", 0, "over 0xffffff, more than 24 bits", wireerr.Range)
)

// Deviations that [Header.Validate] reports.
var (
	errPKey  = wireerr.New("bth", "P_Key", 0, "without a partition: its low 15 bits are 0", wireerr.Malformed)
	errTVer  = wireerr.New("bth", "TVer", 0, "not 0", wireerr.Malformed)
	errResv6 = wireerr.New("bth", "Resv6", 0, "reserved bits set", wireerr.Malformed)
	errResv7 = wireerr.New("bth", "Resv7", 0, "reserved bits set", wireerr.Malformed)
)

// DefaultPKey is the P_Key of the default partition, with full membership. Builders take P_Key 0, which no partition
// has, for it.
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
	PKey      uint16 // partition key: DefaultPKey, or another one; AppendBinary sends 0 as 0
	FECN      bool   // F: forward congestion
	BECN      bool   // B: backward congestion, set in CNPs
	Resv6     uint8  // reserved, 6 bits; the ICRC does not cover octet 4
	DestQP    uint32 // destination queue pair, 24 bits
	AckReq    bool   // A: the sender asks for an acknowledgement
	Resv7     uint8  // reserved, 7 bits
	PSN       uint32 // packet sequence number, 24 bits
}

// Decode reads the BTH at the start of b and returns what follows it, which
// aliases b. It fails only
// where octets are missing, rocecn.ErrTruncated; h is then unchanged.
func (h *Header) Decode(b []byte) (rest []byte, err error) {
	if len(b) < Size {
		return nil, errTruncated
	}
	h.setRow0(binary.BigEndian.Uint32(b[0:]))
	h.setRow1(binary.BigEndian.Uint32(b[4:]))
	h.setRow2(binary.BigEndian.Uint32(b[8:]))
	return b[Size:], nil
}

// AppendBinary appends the 12 octets of the BTH to b. A value that does not
// fit its field is an error, and b comes back as it was.
func (h *Header) AppendBinary(b []byte) ([]byte, error) {
	if !h.fits() {
		return b, h.misfit()
	}
	b, more := grow(b, Size)
	h.put((*[Size]byte)(more))
	return b, nil
}

func (h *Header) put(b *[Size]byte) {
	binary.BigEndian.PutUint32(b[0:], h.row0())
	binary.BigEndian.PutUint32(b[4:], h.row1())
	binary.BigEndian.PutUint32(b[8:], h.row2())
}

// The three rows of the picture, each small enough to be inlined where a whole
// header would be a call.

func (h *Header) setRow0(row uint32) {
	h.Opcode = Opcode(row >> 24)
	h.Solicited = row>>23&1 != 0
	h.MigReq = row>>22&1 != 0
	h.Pad = uint8(row >> 20 & 0x3)
	h.TVer = uint8(row >> 16 & 0xf)
	h.PKey = uint16(row)
}

func (h *Header) row0() uint32 {
	return uint32(h.Opcode)<<24 | bit(h.Solicited)<<23 | bit(h.MigReq)<<22 |
		uint32(h.Pad)<<20 | uint32(h.TVer)<<16 | uint32(h.PKey)
}

func (h *Header) setRow1(row uint32) {
	h.FECN = row>>31 != 0
	h.BECN = row>>30&1 != 0
	h.Resv6 = uint8(row >> 24 & 0x3f)
	h.DestQP = row & 0xffffff
}

func (h *Header) row1() uint32 {
	return bit(h.FECN)<<31 | bit(h.BECN)<<30 | uint32(h.Resv6)<<24 | h.DestQP
}

func (h *Header) setRow2(row uint32) {
	h.AckReq = row>>31 != 0
	h.Resv7 = uint8(row >> 24 & 0x7f)
	h.PSN = row & 0xffffff
}

func (h *Header) row2() uint32 {
	return bit(h.AckReq)<<31 | uint32(h.Resv7)<<24 | h.PSN
}

// fits tells whether every value fits its field.
func (h *Header) fits() bool {
	return h.Pad>>2|h.TVer>>4|h.Resv6>>6|h.Resv7>>7 == 0 && (h.DestQP|h.PSN)>>24 == 0
}

// misfit returns the error of the first value that does not fit its field, if
// fits is false.
func (h *Header) misfit() error {
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

// Validate returns nil for a BTH whose values fit their fields, whose P_Key names
// a partition, whose TVer is 0 and whose reserved bits are 0, otherwise an error
// that names every deviation.
// An unknown opcode is no error of the BTH. PPFC takes the top bit of Resv6,
// so its messages are not valid by this measure.
func (h *Header) Validate() error {
	if h.fits() && h.TVer|h.Resv6|h.Resv7 == 0 && h.PKey&0x7FFF != 0 {
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

// String returns opcode, queue pair, PSN and partition key, and of the other
// fields those that are not zero.
func (h Header) String() string {
	s := fmt.Sprintf("%v DestQP 0x%06x PSN %d PKey 0x%04x", h.Opcode, h.DestQP, h.PSN, h.PKey)
	for _, field := range [...]struct {
		name  string
		value uint32
	}{
		{"Solicited", bit(h.Solicited)},
		{"MigReq", bit(h.MigReq)},
		{"Pad", uint32(h.Pad)},
		{"TVer", uint32(h.TVer)},
		{"FECN", bit(h.FECN)},
		{"BECN", bit(h.BECN)},
		{"Resv6", uint32(h.Resv6)},
		{"AckReq", bit(h.AckReq)},
		{"Resv7", uint32(h.Resv7)},
	} {
		if field.value != 0 {
			s += fmt.Sprintf(" %s %d", field.name, field.value)
		}
	}
	return s
}
