package bth

import (
	"encoding/binary"
	"fmt"

	"github.com/rocecn/rocecn/internal/wireerr"
)

// Size is the length of the BTH in octets.
const Size = 12

// What [Header.Decode], [Header.UnmarshalBinary] and [Headers.UnmarshalBinary]
// refuse.
var (
	ErrTruncated = wireerr.New("bth: BTH: 12 octets needed", wireerr.Truncated)
	ErrTrailing  = wireerr.New("bth: octets left over behind the headers", wireerr.Malformed)
)

// Values that [Header.AppendBinary] refuses because they do not fit.
var (
	ErrPadRange    = wireerr.New("bth: Pad: over 3, more than 2 bits", wireerr.Range)
	ErrTVerRange   = wireerr.New("bth: TVer: over 15, more than 4 bits", wireerr.Range)
	ErrResv6Range  = wireerr.New("bth: Resv6: over 63, more than 6 bits", wireerr.Range)
	ErrDestQPRange = wireerr.New("bth: DestQP: over 0xffffff, more than 24 bits", wireerr.Range)
	ErrResv7Range  = wireerr.New("bth: Resv7: over 127, more than 7 bits", wireerr.Range)
	ErrPSNRange    = wireerr.New("bth: PSN: over 0xffffff, more than 24 bits", wireerr.Range)
)

// Deviations that [Header.Validate] reports.
var (
	ErrTVer  = wireerr.New("bth: TVer: not 0", wireerr.Malformed)
	ErrResv6 = wireerr.New("bth: Resv6: reserved bits set", wireerr.Malformed)
	ErrResv7 = wireerr.New("bth: Resv7: reserved bits set", wireerr.Malformed)
)

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
	Pad       uint8  // octets of pad behind the payload, 0 to 3
	TVer      uint8  // transport header version, 0; 4 bits
	PKey      uint16 // partition key; 0xffff by default
	FECN      bool   // F: forward congestion
	BECN      bool   // B: backward congestion, set in CNPs
	Resv6     uint8  // reserved, 6 bits; the ICRC does not cover octet 4
	DestQP    uint32 // destination queue pair, 24 bits
	AckReq    bool   // A: the sender asks for an acknowledgement
	Resv7     uint8  // reserved, 7 bits
	PSN       uint32 // packet sequence number, 24 bits
}

// Decode reads the BTH at the start of b and returns what follows it, which
// aliases b. It fails only with [ErrTruncated], h is then unchanged.
func (h *Header) Decode(b []byte) (rest []byte, err error) {
	if len(b) < Size {
		return nil, ErrTruncated
	}
	h.set((*[Size]byte)(b))
	return b[Size:], nil
}

func (h *Header) set(b *[Size]byte) {
	h.Opcode = Opcode(b[0])
	h.Solicited = b[1]&0x80 != 0
	h.MigReq = b[1]&0x40 != 0
	h.Pad = b[1] >> 4 & 0x03
	h.TVer = b[1] & 0x0f
	h.PKey = binary.BigEndian.Uint16(b[2:])
	h.FECN = b[4]&0x80 != 0
	h.BECN = b[4]&0x40 != 0
	h.Resv6 = b[4] & 0x3f
	h.DestQP = binary.BigEndian.Uint32(b[4:]) & 0xffffff
	h.AckReq = b[8]&0x80 != 0
	h.Resv7 = b[8] & 0x7f
	h.PSN = binary.BigEndian.Uint32(b[8:]) & 0xffffff
}

// AppendBinary appends the BTH to b. A value that does not fit its field is
// an error, and b comes back as it was.
func (h *Header) AppendBinary(b []byte) ([]byte, error) {
	if err := h.fits(); err != nil {
		return b, err
	}
	b, more := grow(b, Size)
	h.put((*[Size]byte)(more))
	return b, nil
}

func (h *Header) put(b *[Size]byte) {
	b[0] = uint8(h.Opcode)
	b[1] = bit(h.Solicited)<<7 | bit(h.MigReq)<<6 | h.Pad<<4 | h.TVer
	binary.BigEndian.PutUint16(b[2:], h.PKey)
	flags := bit(h.FECN)<<7 | bit(h.BECN)<<6 | h.Resv6
	binary.BigEndian.PutUint32(b[4:], uint32(flags)<<24|h.DestQP)
	flags = bit(h.AckReq)<<7 | h.Resv7
	binary.BigEndian.PutUint32(b[8:], uint32(flags)<<24|h.PSN)
}

// fits returns the error of the first field whose value is too large for it.
func (h *Header) fits() error {
	if h.Pad>>2|h.TVer>>4|h.Resv6>>6|h.Resv7>>7 == 0 && !over24(h.DestQP|h.PSN) {
		return nil
	}
	return h.misfit()
}

func (h *Header) misfit() error {
	switch {
	case h.Pad > 3:
		return ErrPadRange
	case h.TVer > 15:
		return ErrTVerRange
	case h.Resv6 > 63:
		return ErrResv6Range
	case over24(h.DestQP):
		return ErrDestQPRange
	case h.Resv7 > 127:
		return ErrResv7Range
	default:
		return ErrPSNRange
	}
}

// MarshalBinary returns the 12 octets of the BTH; see [Header.AppendBinary].
func (h *Header) MarshalBinary() ([]byte, error) {
	return h.AppendBinary(nil)
}

// UnmarshalBinary reads a BTH from b, which must hold nothing else.
func (h *Header) UnmarshalBinary(b []byte) error {
	if len(b) > Size {
		return ErrTrailing
	}
	_, err := h.Decode(b)
	return err
}

// Validate returns an error if TVer is not 0, if reserved bits are set, or if
// a value does not fit its field: the first such thing, in wire order. An
// unknown opcode is not an error of the BTH. PPFC takes the top bit of Resv6,
// so its messages are not valid by this measure.
func (h *Header) Validate() error {
	if err := h.fits(); err != nil {
		return err
	}
	switch {
	case h.TVer != 0:
		return ErrTVer
	case h.Resv6 != 0:
		return ErrResv6
	case h.Resv7 != 0:
		return ErrResv7
	}
	return nil
}

// String returns the fields that are always of interest, and the others where
// they are not zero.
func (h Header) String() string {
	s := fmt.Sprintf("%v DestQP 0x%06x PSN %d PKey 0x%04x", h.Opcode, h.DestQP, h.PSN, h.PKey)
	for _, flag := range []struct {
		set  bool
		name string
	}{
		{h.Solicited, "Solicited"}, {h.MigReq, "MigReq"}, {h.FECN, "FECN"}, {h.BECN, "BECN"}, {h.AckReq, "AckReq"},
	} {
		if flag.set {
			s += " " + flag.name
		}
	}
	for _, field := range []struct {
		value uint8
		name  string
	}{
		{h.Pad, "Pad"}, {h.TVer, "TVer"}, {h.Resv6, "Resv6"}, {h.Resv7, "Resv7"},
	} {
		if field.value != 0 {
			s += fmt.Sprintf(" %s %d", field.name, field.value)
		}
	}
	return s
}
