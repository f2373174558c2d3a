package capture

import "io"

// blockSize is the number of octets of one read.
const blockSize = 256 << 10

// A window is a buffered reader that returns parts of its buffer without a copy, as
// Peek of bufio.Reader does, and that can continue in another block of memory.
type window struct {
	src   io.Reader
	block []byte // unread is block[r:w]
	r, w  int
	err   error         // of src, to be returned when everything is read
	next  func() []byte // returns the block to continue in, or nil to use the same one again
}

// Peek returns the next n octets without stepping over them, valid until the
// window is read on, or fewer with the error that ended the input.
func (w *window) Peek(n int) ([]byte, error) {
	for w.w-w.r < n && w.err == nil {
		if len(w.block)-w.r < n || w.r == w.w {
			w.move(n)
		}
		w.fill()
	}
	if got := w.w - w.r; got < n {
		return w.block[w.r:w.w], w.err
	}
	return w.block[w.r : w.r+n : w.r+n], nil
}

// buffered returns the octets that can be read without a read of src.
func (w *window) buffered() []byte { return w.block[w.r:w.w] }

// move makes room for n octets after the first unread one.
func (w *window) move(n int) {
	rest := w.block[w.r:w.w]
	switch {
	case w.next != nil && len(w.block)-w.w < n-len(rest):
		w.block = w.next()
	case w.next != nil: // the octets before the rest may still be in use
		return
	}
	if len(w.block) < n {
		w.block = make([]byte, max(n, blockSize))
	}
	copy(w.block, rest)
	w.r, w.w = 0, len(rest)
}

// fill calls Read of src until it returns octets or an error.
func (w *window) fill() {
	for range 100 { // as bufio does: not for ever without an octet
		n, err := w.src.Read(w.block[w.w:])
		w.w += n
		if w.err = err; n > 0 || err != nil {
			return
		}
	}
	w.err = io.ErrNoProgress
}

// Discard steps over n octets that were peeked at.
func (w *window) Discard(n int) { w.r += n }

// Read implements io.Reader, for gzip.
func (w *window) Read(b []byte) (int, error) {
	if _, err := w.Peek(1); err != nil {
		return 0, err
	}
	n := copy(b, w.block[w.r:w.w])
	w.r += n
	return n, nil
}

// ReadByte implements io.ByteReader, so that gzip does not read further than it
// must.
func (w *window) ReadByte() (byte, error) {
	b, err := w.Peek(1)
	if err != nil {
		return 0, err
	}
	w.r++
	return b[0], nil
}
