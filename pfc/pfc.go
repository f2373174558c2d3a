package pfc

import (
	"encoding/binary"
	"errors"
	"iter"
	"strconv"

	"github.com/rocecn/rocecn/internal/wireerr"
)

// Priorities is the number of priorities of a link.
const Priorities = 8

// Size is the length of opcode and parameters of a PFC frame, in octets.
const Size = 2 + 2 + 2*Priorities

// PFC is a frame of Priority-based Flow Control (IEEE 802.1Qbb) without the octets up
// to the EtherType:
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|        Opcode = 0x0101        | Reserved (0)  |7 6 5 4 3 2 1 0|
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|      time of priority 0       |      time of priority 1       |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	~                       … to priority 7                         ~
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
type PFC struct {
	// Enabled is the class enable vector: bit n for priority n. The upper 8 bits
	// are reserved: zero on send, ignored on receipt.
	Enabled uint16
	// Quanta is the pause of each enabled priority in quanta; 0 resumes it. Values of
	// other priorities have no effect.
	Quanta [Priorities]uint16
}

var errPFCTruncated = wireerr.New("pfc", "PFC", "truncated: shorter than 20 octets from the opcode on",
	wireerr.Truncated)

// Decode reads a PFC frame from b, which begins after the EtherType, and returns the
// padding, which aliases b. For other MAC control frames the error matches
// rocecn.ErrOther. On error p is unchanged.
func (p *PFC) Decode(b []byte) (rest []byte, err error) {
	opcode, err := Opcode(b)
	switch {
	case err != nil:
		return nil, err
	case opcode != OpcodePFC:
		return nil, errOpcode
	case len(b) < Size:
		return nil, errPFCTruncated
	}
	p.readFields((*[Size]byte)(b))
	return b[Size:], nil
}

func (p *PFC) readFields(b *[Size]byte) {
	p.Enabled = binary.BigEndian.Uint16(b[2:])
	for i := range p.Quanta {
		p.Quanta[i] = binary.BigEndian.Uint16(b[4+2*i:])
	}
}

func (p *PFC) writeFields(b *[Size]byte) {
	binary.BigEndian.PutUint16(b[0:], OpcodePFC)
	binary.BigEndian.PutUint16(b[2:], p.Enabled)
	for i, t := range p.Quanta {
		binary.BigEndian.PutUint16(b[4+2*i:], t)
	}
}

// AppendBinary appends the 20 octets after the EtherType to b, without padding. The
// error is always nil.
func (p PFC) AppendBinary(b []byte) ([]byte, error) {
	var wire [Size]byte
	p.writeFields(&wire)
	return append(b, wire[:]...), nil
}

// AppendFrame appends the complete Ethernet frame from this source to b, padded to 60
// octets, without its frame check sequence.
func (p PFC) AppendFrame(b []byte, src [6]byte) []byte {
	var wire [Size]byte
	p.writeFields(&wire)
	return appendFrame(b, src, wire[:])
}

// All yields the enabled priorities in ascending order, each with its pause in quanta,
// where 0 resumes.
func (p PFC) All() iter.Seq2[int, uint16] {
	return func(yield func(int, uint16) bool) {
		for priority, quanta := range p.Quanta {
			if p.Enabled>>priority&1 != 0 && !yield(priority, quanta) {
				return
			}
		}
	}
}

// Validate returns an error that names every deviation from the standard: reserved
// bits that are set, and a time other than 0 for a priority that is not enabled.
func (p PFC) Validate() error {
	unused := false
	for priority, quanta := range p.Quanta {
		unused = unused || quanta != 0 && p.Enabled>>priority&1 == 0
	}
	return errors.Join(
		wireerr.If(p.Enabled>>8 != 0, errEnabledReserved),
		wireerr.If(unused, errTimeUnused),
	)
}

// String returns the enabled priorities with their quanta, as in
// "PFC 3=65535 4=0".
func (p PFC) String() string {
	s := "PFC"
	for priority, quanta := range p.All() {
		s += " " + strconv.Itoa(priority) + "=" + strconv.Itoa(int(quanta))
	}
	return s
}
