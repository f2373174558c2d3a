package ipv6opt

import "slices"

// Builder writes one options header behind the octets of a slice. It pads
// with Pad1 for one octet and PadN with zeros for more, never more than 7 in
// a row, and allocates only when the slice must grow. It does not count
// options: hosts may refuse a header with more than 8 (see [Limits]). Start
// with [Begin]; the zero value begins a header with Next Header 0 in a slice of
// its own.
//
//	w := ipv6opt.Begin(packet, 17)
//	if err := w.Add(0x1E, 4, 2, data); err != nil { … }
//	packet = w.Finish()
type Builder struct {
	b     []byte
	start int // where the header begins in b
}

// Begin starts a header with this Next Header behind the octets of b.
func Begin(b []byte, nextHeader uint8) Builder {
	return Builder{b: append(b, nextHeader, 0), start: len(b)}
}

// Add adds an option with this data, at the alignment xn+y: its Type octet
// stands y octets behind a multiple of x from the start of the header
// (RFC 8200 section 4.2). x is 1, 2, 4 or 8. On error nothing is added.
func (w *Builder) Add(t Type, x, y int, data []byte) error {
	into, err := w.reserve(t, x, y, len(data))
	copy(into, data)
	return err
}

// Reserve adds an option with n octets of data, zero, and returns them to be
// filled in place before the next call. Alignment and errors are those of
// [Builder.Add].
func (w *Builder) Reserve(t Type, x, y, n int) ([]byte, error) {
	data, err := w.reserve(t, x, y, n)
	clear(data)
	return data, err
}

func (w *Builder) reserve(t Type, x, y, n int) ([]byte, error) {
	switch {
	case t.IsPadding():
		return nil, errPadding
	case x != 1 && x != 2 && x != 4 && x != 8 || y < 0 || y >= x:
		return nil, errAlignment
	case n < 0 || n > 255:
		return nil, errDataLen
	}
	w.begin()
	at := len(w.b) - w.start
	lead := (y - at) & (x - 1) // mod x, a power of two
	if at+lead+2+n > MaxLen {
		return nil, errNoRoom
	}
	w.pad(lead)
	w.b = append(slices.Grow(w.b, 2+n), uint8(t), uint8(n))
	end := len(w.b) + n
	data := w.b[len(w.b):end:end]
	w.b = w.b[:end]
	return data, nil
}

// Finish pads the header to a multiple of 8 octets, sets Hdr Ext Len and
// returns the slice given to [Begin] with the header behind it.
func (w *Builder) Finish() []byte {
	w.begin()
	w.pad((w.start - len(w.b)) & 7)
	w.b[w.start+1] = uint8((len(w.b)-w.start)/8 - 1)
	return w.b
}

// begin makes a header of the zero value.
func (w *Builder) begin() {
	if len(w.b) == 0 {
		w.b = make([]byte, 2)
	}
}

// pad adds n octets of padding, 0 to 7.
func (w *Builder) pad(n int) {
	switch n {
	case 0:
	case 1:
		w.b = append(w.b, uint8(Pad1))
	default:
		w.b = append(append(w.b, uint8(PadN), uint8(n-2)), make([]byte, n-2)...)
	}
}
