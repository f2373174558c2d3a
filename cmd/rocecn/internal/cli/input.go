package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/rocecn/rocecn/capture"
)

// An Input is a capture that a command reads, from a file or from standard
// input. Its end is io.EOF, and so is an interrupt, wherever it comes.
type Input struct {
	Name string
	Size int64 // of a file, 0 when it is not known

	octets  io.Reader
	file    *os.File      // nil for standard input
	stop    chan struct{} // closed, it ends the goroutine that reads; nil without one
	packets capture.Reader
}

// Open opens the file of this name, or standard input for -, and finds out what
// kind of capture it is. Whenever it is about to read, it calls beforeRead with
// how many octets it has read so far: the time to hand out what a live capture
// has given. An error of beforeRead becomes that of the input.
//
// The end of ctx is the end of the input. What a pipe still holds, or gets
// within a moment, is read: tcpdump, interrupted by the same key, writes its
// last packets then.
func Open(ctx context.Context, name string, stdin io.Reader, beforeRead func(octets int64) error) (*Input, error) {
	return OpenBlocks(ctx, name, stdin, beforeRead, nil)
}

// OpenBlocks is Open for who keeps packets for a while: block returns the memory
// to read on in, as [capture.OpenBlocks] has it.
func OpenBlocks(ctx context.Context, name string, stdin io.Reader, beforeRead func(octets int64) error,
	block func() []byte) (*Input, error) {
	in := &Input{Name: name, octets: stdin}
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, withoutPath(err)
		}
		in.file, in.octets = f, f
	}
	if f, ok := in.octets.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			in.Size = info.Size()
		}
	}
	if in.Size > 0 {
		in.octets = &stopped{ctx, in.octets}
	} else {
		p := newPiped(ctx, in.octets)
		in.octets, in.stop = p, p.stop
	}
	var err error
	in.packets, err = capture.OpenBlocks(&watched{r: in.octets, before: beforeRead}, block)
	if errors.Is(err, errInterrupted) {
		in.packets, err = interrupted{}, nil
	}
	if err != nil {
		in.Close()
		return nil, withoutPath(err)
	}
	return in, nil
}

// Next is capture.Reader's.
func (in *Input) Next(r *capture.Record) error {
	err := in.packets.Next(r)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errInterrupted):
		return io.EOF
	}
	return err
}

// Close closes the file. Standard input stays open.
func (in *Input) Close() error {
	if in.stop != nil {
		close(in.stop)
	}
	if in.file == nil {
		return nil
	}
	return in.file.Close()
}

// errInterrupted is the end of reading that an interrupt brings.
var errInterrupted = errors.New("interrupted")

// interrupted is a capture of which the interrupt came before the first octet.
type interrupted struct{}

func (interrupted) Next(*capture.Record) error { return io.EOF }

// watched calls before ahead of every Read.
type watched struct {
	r      io.Reader
	before func(octets int64) error
	octets int64
}

func (w *watched) Read(b []byte) (int, error) {
	if err := w.before(w.octets); err != nil {
		return 0, err
	}
	n, err := w.r.Read(b)
	w.octets += int64(n)
	return n, err
}

// stopped ends with ctx. It is for files, where no Read takes long.
type stopped struct {
	ctx context.Context
	r   io.Reader
}

func (s *stopped) Read(b []byte) (int, error) {
	if s.ctx.Err() != nil {
		return 0, errInterrupted
	}
	return s.r.Read(b)
}

// grace is how long a pipe may go on after the interrupt; tests change it.
var grace = time.Second

// piped ends with ctx too when a Read waits: another goroutine reads.
type piped struct {
	ctx   context.Context
	read  chan chunk
	free  chan []byte
	stop  chan struct{}
	rest  chunk
	grace <-chan time.Time
}

// A chunk is what one Read gave.
type chunk struct {
	buf, octets []byte
	err         error
}

func newPiped(ctx context.Context, r io.Reader) *piped {
	p := &piped{ctx: ctx, read: make(chan chunk), free: make(chan []byte, 2), stop: make(chan struct{})}
	for range cap(p.free) {
		p.free <- make([]byte, 64<<10)
	}
	go p.readAll(r)
	return p
}

func (p *piped) readAll(r io.Reader) {
	for {
		select {
		case buf := <-p.free:
			n, err := r.Read(buf)
			select {
			case p.read <- chunk{buf, buf[:n], err}:
			case <-p.stop:
				return
			}
			if err != nil {
				return
			}
		case <-p.stop:
			return
		}
	}
}

func (p *piped) Read(b []byte) (int, error) {
	for len(p.rest.octets) == 0 {
		if p.rest.err != nil {
			return 0, p.rest.err
		}
		if p.rest.buf != nil {
			p.free <- p.rest.buf
			p.rest.buf = nil
		}
		if !p.next() {
			p.rest.err = errInterrupted
		}
	}
	n := copy(b, p.rest.octets)
	p.rest.octets = p.rest.octets[n:]
	return n, nil
}

// next waits for a chunk. It returns false when the input is over because ctx
// is.
func (p *piped) next() bool {
	if p.grace == nil {
		select {
		case p.rest = <-p.read:
			return true
		case <-p.ctx.Done():
			p.grace = time.After(grace)
		}
	}
	select {
	case <-p.grace:
		return false
	default:
	}
	select {
	case p.rest = <-p.read:
		return true
	case <-p.grace:
		return false
	}
}
