package bth

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Headers is the BTH and the extended headers that its opcode calls for. It
// can be decoded into again and again.
type Headers struct {
	Header

	// Present says which of the following the packet carries. Decode clears
	// those that Present named before and the packet does not carry; where it
	// does, headers that were set by hand without their bit may be cleared, too.
	Present      HeaderSet
	RDETH        RDETH
	DETH         DETH
	XRCETH       XRCETH
	FETH         FETH
	RETH         RETH
	AtomicETH    AtomicETH
	AETH         AETH
	AtomicAckETH AtomicAckETH
	ImmDt        ImmDt
	IETH         IETH
}

// Decode reads the BTH and the extended headers at the start of b and returns
// what follows them, which aliases b. An unknown opcode is no error: no
// extended header is present, and the rest is all that follows the BTH.
//
// Decode fails only for want of octets, with the error of the header that does
// not fit, and leaves h unchanged then.
func (h *Headers) Decode(b []byte) (rest []byte, err error) {
	if len(b) < Size {
		return nil, errTruncated
	}
	l := &layouts[b[0]]
	if rest = b[Size:]; len(rest) < int(l.length) {
		return nil, l.headers.truncated(len(rest))
	}
	h.setRow0(binary.BigEndian.Uint32(b[0:]))
	h.setRow1(binary.BigEndian.Uint32(b[4:]))
	h.setRow2(binary.BigEndian.Uint32(b[8:]))
	if h.Present|l.headers == 0 {
		return rest, nil
	}
	h.set(l.headers, rest)
	return rest[l.length:], nil
}

// set reads these extended headers from b, which is long enough. It takes their
// lengths as constants, not from the table of put: that is a tenth faster.
func (h *Headers) set(headers HeaderSet, b []byte) {
	if h.Present&^headers != 0 {
		*h = Headers{Header: h.Header}
	}
	h.Present = headers
	for left := headers; left != 0; left &= left - 1 {
		switch left & -left {
		case HasRDETH:
			h.RDETH.set((*[rdethSize]byte)(b))
			b = b[rdethSize:]
		case HasDETH:
			h.DETH.set((*[dethSize]byte)(b))
			b = b[dethSize:]
		case HasXRCETH:
			h.XRCETH.set((*[xrcethSize]byte)(b))
			b = b[xrcethSize:]
		case HasFETH:
			h.FETH.set((*[fethSize]byte)(b))
			b = b[fethSize:]
		case HasRETH:
			h.RETH.set((*[rethSize]byte)(b))
			b = b[rethSize:]
		case HasAtomicETH:
			h.AtomicETH.set((*[atomicETHSize]byte)(b))
			b = b[atomicETHSize:]
		case HasAETH:
			h.AETH.set((*[aethSize]byte)(b))
			b = b[aethSize:]
		case HasAtomicAckETH:
			h.AtomicAckETH.set((*[atomicAckETHSize]byte)(b))
			b = b[atomicAckETHSize:]
		case HasImmDt:
			h.ImmDt.set((*[immDtSize]byte)(b))
			b = b[immDtSize:]
		case HasIETH:
			h.IETH.set((*[iethSize]byte)(b))
			b = b[iethSize:]
		}
	}
}

// AppendBinary appends the BTH and the extended headers that Opcode calls for
// to b; Present does not matter, and headers that Opcode does not call for are
// left out. A value that does not fit its field is an error, and b comes back
// as it was.
func (h *Headers) AppendBinary(b []byte) ([]byte, error) {
	l := &layouts[h.Opcode]
	if !h.Header.fits() {
		return b, h.Header.misfit()
	}
	if err := h.extendedMisfit(l.headers); err != nil {
		return b, err
	}
	b, more := grow(b, Size+int(l.length))
	h.Header.put((*[Size]byte)(more))
	h.put(l.headers, more[Size:])
	return b, nil
}

// put writes these extended headers to b, which is long enough.
func (h *Headers) put(headers HeaderSet, b []byte) {
	for left := headers; left != 0; left &= left - 1 {
		switch left & -left {
		case HasRDETH:
			h.RDETH.put((*[rdethSize]byte)(b))
		case HasDETH:
			h.DETH.put((*[dethSize]byte)(b))
		case HasXRCETH:
			h.XRCETH.put((*[xrcethSize]byte)(b))
		case HasFETH:
			h.FETH.put((*[fethSize]byte)(b))
		case HasRETH:
			h.RETH.put((*[rethSize]byte)(b))
		case HasAtomicETH:
			h.AtomicETH.put((*[atomicETHSize]byte)(b))
		case HasAETH:
			h.AETH.put((*[aethSize]byte)(b))
		case HasAtomicAckETH:
			h.AtomicAckETH.put((*[atomicAckETHSize]byte)(b))
		case HasImmDt:
			h.ImmDt.put((*[immDtSize]byte)(b))
		case HasIETH:
			h.IETH.put((*[iethSize]byte)(b))
		}
		b = b[extended[left.bit()].size:]
	}
}

// extendedMisfit returns the error of the first value in these extended
// headers that does not fit its field, nil if there is none.
func (h *Headers) extendedMisfit(headers HeaderSet) (err error) {
	const bounded = HasRDETH | HasDETH | HasXRCETH | HasFETH | HasAETH
	for left := headers & bounded; left != 0 && err == nil; left &= left - 1 {
		switch left & -left {
		case HasRDETH:
			err = h.RDETH.misfit()
		case HasDETH:
			err = h.DETH.misfit()
		case HasXRCETH:
			err = h.XRCETH.misfit()
		case HasFETH:
			err = h.FETH.misfit()
		case HasAETH:
			err = h.AETH.misfit()
		}
	}
	return err
}

// Len returns how many octets the BTH and the extended headers that Opcode
// calls for have: 12 to 52.
func (h *Headers) Len() int { return Size + h.Opcode.HeaderLen() }

// Validate joins what the Validate methods of the BTH and of the extended
// headers that Opcode calls for return.
func (h *Headers) Validate() error {
	err := h.Header.Validate()
	for x := range h.Opcode.Headers().All() {
		switch x {
		case HasRDETH:
			err = errors.Join(err, h.RDETH.Validate())
		case HasDETH:
			err = errors.Join(err, h.DETH.Validate())
		case HasXRCETH:
			err = errors.Join(err, h.XRCETH.Validate())
		case HasFETH:
			err = errors.Join(err, h.FETH.Validate())
		case HasAETH:
			err = errors.Join(err, h.AETH.Validate())
		}
	}
	return err
}

// String returns the BTH and the headers that are present.
func (h Headers) String() string {
	s := h.Header.String()
	for i, extended := range [...]fmt.Stringer{
		h.RDETH, h.DETH, h.XRCETH, h.FETH, h.RETH, h.AtomicETH, h.AETH, h.AtomicAckETH, h.ImmDt, h.IETH,
	} {
		if x := HeaderSet(1) << i; h.Present.Has(x) {
			s += fmt.Sprintf("; %v %v", x, extended)
		}
	}
	return s
}
