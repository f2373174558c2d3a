package pfc

import (
	"encoding/binary"
	"strconv"

	"github.com/rocecn/rocecn/internal/wireerr"
)

const pauseSize = 4 // octets of opcode and parameter

// Pause is a PAUSE frame (IEEE 802.3x) without the octets up to the EtherType:
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|        Opcode = 0x0001        |             time              |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
type Pause struct {
	Quanta uint16 // pause of the link in quanta; 0 resumes it
}

var errPauseTruncated = wireerr.New("pfc", "PAUSE", "truncated: shorter than 4 octets from the opcode on",
	wireerr.Truncated)

// Decode reads a PAUSE frame from b, which begins after the EtherType, and returns
// the padding, which aliases b. For other MAC control frames the error matches
// rocecn.ErrOther. On error p is unchanged.
func (p *Pause) Decode(b []byte) (rest []byte, err error) {
	opcode, err := Opcode(b)
	switch {
	case err != nil:
		return nil, err
	case opcode != OpcodePause:
		return nil, errOpcode
	case len(b) < pauseSize:
		return nil, errPauseTruncated
	}
	p.Quanta = binary.BigEndian.Uint16(b[2:])
	return b[pauseSize:], nil
}

// AppendBinary appends the 4 octets after the EtherType to b, without padding. The
// error is always nil.
func (p Pause) AppendBinary(b []byte) ([]byte, error) {
	b = binary.BigEndian.AppendUint16(b, OpcodePause)
	return binary.BigEndian.AppendUint16(b, p.Quanta), nil
}

// AppendFrame appends the complete Ethernet frame from this source to b, padded to 60
// octets, without its frame check sequence.
func (p Pause) AppendFrame(b []byte, src [6]byte) []byte {
	var wire [pauseSize]byte
	control, _ := p.AppendBinary(wire[:0])
	return appendFrame(b, src, control)
}

// String returns the time, as in "PAUSE 65535".
func (p Pause) String() string { return "PAUSE " + strconv.Itoa(int(p.Quanta)) }
