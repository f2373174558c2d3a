package ipv6opt

import "slices"

// Builder appends one options header to a slice. [Begin] returns a Builder; the
// zero value begins a header with Next Header 0 in a new slice.
//
// A Builder aligns options with Pad1 or PadN, at most 7 octets in a row, and
// allocates only to grow the slice. It does not count options: hosts may reject a
// header with more than 8 (see [Limits]).
//
//	w := ipv6opt.Begin(packet, 17)
//	if err := w.Add(0x1E, 4, 2, data); err != nil { … }
//	packet = w.Finish()
type Builder struct {
	b     []byte
	start int // index in b of the header
}

// Begin starts a header with this Next Header after the octets of b.
func Begin(b []byte, nextHeader uint8) Builder {
	return Builder{b: append(b, nextHeader, 0), start: len(b)}
}

// Add adds an option with this data, at the alignment xn+y of RFC 8200 section
// 4.2: its Type octet is y octets after a multiple of x octets from the start of
// the header. x is 1, 2, 4 or 8. Add returns an error that matches
// rocecn.ErrRange, and adds nothing, if t is Pad1 or PadN, if the alignment is
// invalid, if data has more than 255 octets, or if the header would be longer
// than [MaxLen].
func (w *Builder) Add(t Type, x, y int, data []byte) error {
	into, err := w.reserveOption(t, x, y, len(data))
	copy(into, data)
	return err
}

// Reserve adds an option with n zero octets of data and returns them. The caller
// fills them before the next call. Alignment and errors are those of
// [Builder.Add].
func (w *Builder) Reserve(t Type, x, y, n int) ([]byte, error) {
	data, err := w.reserveOption(t, x, y, n)
	clear(data)
	return data, err
}

func (w *Builder) reserveOption(t Type, x, y, n int) ([]byte, error) {
	switch {
	case t.IsPadding():
		return nil, errPadding
	case x != 1 && x != 2 && x != 4 && x != 8 || y < 0 || y >= x:
		return nil, errAlignment
	case n < 0 || n > 255:
		return nil, errDataLen
	}
	w.startHeader()
	at := len(w.b) - w.start
	lead := (y - at) & (x - 1) // mod x, a power of two
	if at+lead+2+n > MaxLen {
		return nil, errTooLong
	}
	w.addPadding(lead)
	w.b = append(slices.Grow(w.b, 2+n), uint8(t), uint8(n))
	end := len(w.b) + n
	data := w.b[len(w.b):end:end]
	w.b = w.b[:end]
	return data, nil
}

// Finish pads the header to a multiple of 8 octets, sets Hdr Ext Len and returns
// the slice of [Begin] with the header appended.
func (w *Builder) Finish() []byte {
	w.startHeader()
	w.addPadding((w.start - len(w.b)) & 7)
	w.b[w.start+1] = uint8((len(w.b)-w.start)/8 - 1)
	return w.b
}

// startHeader begins the header of a zero Builder.
func (w *Builder) startHeader() {
	if len(w.b) == 0 {
		w.b = make([]byte, 2)
	}
}

// addPadding adds n octets of padding, 0 to 7.
func (w *Builder) addPadding(n int) {
	switch n {
	case 0:
	case 1:
		w.b = append(w.b, uint8(Pad1))
	default:
		w.b = append(append(w.b, uint8(PadN), uint8(n-2)), make([]byte, n-2)...)
	}
}
