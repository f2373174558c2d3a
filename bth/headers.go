package bth

import "strings"

// Headers is the BTH and the extended headers that its opcode calls for. It
// can be decoded into again and again.
type Headers struct {
	Header

	// Present says which of the following the packet carries. The others are
	// zero: Decode sees to that by what Present was before.
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
		return nil, ErrTruncated
	}
	l := layouts[b[0]]
	n := Size + int(l.length)
	if len(b) < n {
		return nil, l.headers.truncated(len(b) - Size)
	}
	h.Header.set((*[Size]byte)(b))
	if h.Present|l.headers != 0 {
		h.set(l.headers, b[Size:])
	}
	return b[n:], nil
}

// set reads these extended headers from b, which is long enough.
func (h *Headers) set(headers HeaderSet, b []byte) {
	if stale := h.Present &^ headers; stale != 0 {
		h.reset(stale)
	}
	h.Present = headers
	if headers.Has(HasRDETH) {
		h.RDETH.set((*[rdethSize]byte)(b))
		b = b[rdethSize:]
	}
	if headers.Has(HasDETH) {
		h.DETH.set((*[dethSize]byte)(b))
		b = b[dethSize:]
	}
	if headers.Has(HasXRCETH) {
		h.XRCETH.set((*[xrcethSize]byte)(b))
		b = b[xrcethSize:]
	}
	if headers.Has(HasFETH) {
		h.FETH.set((*[fethSize]byte)(b))
		b = b[fethSize:]
	}
	if headers.Has(HasRETH) {
		h.RETH.set((*[rethSize]byte)(b))
		b = b[rethSize:]
	}
	if headers.Has(HasAtomicETH) {
		h.AtomicETH.set((*[atomicETHSize]byte)(b))
		b = b[atomicETHSize:]
	}
	if headers.Has(HasAETH) {
		h.AETH.set((*[aethSize]byte)(b))
		b = b[aethSize:]
	}
	if headers.Has(HasAtomicAckETH) {
		h.AtomicAckETH.set((*[atomicAckETHSize]byte)(b))
		b = b[atomicAckETHSize:]
	}
	if headers.Has(HasImmDt) {
		h.ImmDt.set((*[immDtSize]byte)(b))
		b = b[immDtSize:]
	}
	if headers.Has(HasIETH) {
		h.IETH.set((*[iethSize]byte)(b))
	}
}

// reset zeroes these extended headers.
func (h *Headers) reset(headers HeaderSet) {
	for x := range headers.All() {
		switch x {
		case HasRDETH:
			h.RDETH = RDETH{}
		case HasDETH:
			h.DETH = DETH{}
		case HasXRCETH:
			h.XRCETH = XRCETH{}
		case HasFETH:
			h.FETH = FETH{}
		case HasRETH:
			h.RETH = RETH{}
		case HasAtomicETH:
			h.AtomicETH = AtomicETH{}
		case HasAETH:
			h.AETH = AETH{}
		case HasAtomicAckETH:
			h.AtomicAckETH = AtomicAckETH{}
		case HasImmDt:
			h.ImmDt = ImmDt{}
		case HasIETH:
			h.IETH = IETH{}
		}
	}
}

// AppendBinary appends the BTH and the extended headers that Opcode calls for
// to b; Present does not matter, and headers that Opcode does not call for are
// left out. A value that does not fit its field is an error, and b comes back
// as it was.
func (h *Headers) AppendBinary(b []byte) ([]byte, error) {
	l := layouts[h.Opcode]
	if err := h.fits(l.headers); err != nil {
		return b, err
	}
	b, more := grow(b, Size+int(l.length))
	h.Header.put((*[Size]byte)(more))
	if l.headers != 0 {
		h.put(l.headers, more[Size:])
	}
	return b, nil
}

// put writes these extended headers to b, which is long enough.
func (h *Headers) put(headers HeaderSet, b []byte) {
	if headers.Has(HasRDETH) {
		h.RDETH.put((*[rdethSize]byte)(b))
		b = b[rdethSize:]
	}
	if headers.Has(HasDETH) {
		h.DETH.put((*[dethSize]byte)(b))
		b = b[dethSize:]
	}
	if headers.Has(HasXRCETH) {
		h.XRCETH.put((*[xrcethSize]byte)(b))
		b = b[xrcethSize:]
	}
	if headers.Has(HasFETH) {
		h.FETH.put((*[fethSize]byte)(b))
		b = b[fethSize:]
	}
	if headers.Has(HasRETH) {
		h.RETH.put((*[rethSize]byte)(b))
		b = b[rethSize:]
	}
	if headers.Has(HasAtomicETH) {
		h.AtomicETH.put((*[atomicETHSize]byte)(b))
		b = b[atomicETHSize:]
	}
	if headers.Has(HasAETH) {
		h.AETH.put((*[aethSize]byte)(b))
		b = b[aethSize:]
	}
	if headers.Has(HasAtomicAckETH) {
		h.AtomicAckETH.put((*[atomicAckETHSize]byte)(b))
		b = b[atomicAckETHSize:]
	}
	if headers.Has(HasImmDt) {
		h.ImmDt.put((*[immDtSize]byte)(b))
		b = b[immDtSize:]
	}
	if headers.Has(HasIETH) {
		h.IETH.put((*[iethSize]byte)(b))
	}
}

// fits returns the error of the first field, of the BTH and of these extended
// headers, whose value is too large for it.
func (h *Headers) fits(headers HeaderSet) error {
	if err := h.Header.fits(); err != nil {
		return err
	}
	if headers.Has(HasRDETH) {
		if err := h.RDETH.fits(); err != nil {
			return err
		}
	}
	if headers.Has(HasDETH) {
		if err := h.DETH.fits(); err != nil {
			return err
		}
	}
	if headers.Has(HasXRCETH) {
		if err := h.XRCETH.fits(); err != nil {
			return err
		}
	}
	if headers.Has(HasFETH) {
		if err := h.FETH.fits(); err != nil {
			return err
		}
	}
	if headers.Has(HasAETH) {
		return h.AETH.fits()
	}
	return nil
}

// Len returns how many octets the BTH and the extended headers that Opcode
// calls for have: 12 to 52.
func (h *Headers) Len() int { return Size + h.Opcode.HeaderLen() }

// MarshalBinary returns the octets that [Headers.AppendBinary] appends.
func (h *Headers) MarshalBinary() ([]byte, error) {
	return h.AppendBinary(nil)
}

// UnmarshalBinary reads the headers from b, which must hold nothing else.
func (h *Headers) UnmarshalBinary(b []byte) error {
	if len(b) > Size && len(b) > Size+Opcode(b[0]).HeaderLen() {
		return ErrTrailing
	}
	_, err := h.Decode(b)
	return err
}

// Validate returns the first error that the Validate methods of the BTH and of
// the extended headers that Opcode calls for return.
func (h *Headers) Validate() error {
	if err := h.Header.Validate(); err != nil {
		return err
	}
	for x := range h.Opcode.Headers().All() {
		var err error
		switch x {
		case HasRDETH:
			err = h.RDETH.Validate()
		case HasDETH:
			err = h.DETH.Validate()
		case HasXRCETH:
			err = h.XRCETH.Validate()
		case HasFETH:
			err = h.FETH.Validate()
		case HasAETH:
			err = h.AETH.Validate()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// String returns the BTH and the headers that are present.
func (h Headers) String() string {
	var s strings.Builder
	s.WriteString(h.Header.String())
	for x := range h.Present.All() {
		s.WriteString("; " + x.String() + " ")
		switch x {
		case HasRDETH:
			s.WriteString(h.RDETH.String())
		case HasDETH:
			s.WriteString(h.DETH.String())
		case HasXRCETH:
			s.WriteString(h.XRCETH.String())
		case HasFETH:
			s.WriteString(h.FETH.String())
		case HasRETH:
			s.WriteString(h.RETH.String())
		case HasAtomicETH:
			s.WriteString(h.AtomicETH.String())
		case HasAETH:
			s.WriteString(h.AETH.String())
		case HasAtomicAckETH:
			s.WriteString(h.AtomicAckETH.String())
		case HasImmDt:
			s.WriteString(h.ImmDt.String())
		case HasIETH:
			s.WriteString(h.IETH.String())
		}
	}
	return s.String()
}
