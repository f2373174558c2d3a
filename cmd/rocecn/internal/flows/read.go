package flows

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/cli"
	"github.com/rocecn/rocecn/flows"
	"github.com/rocecn/rocecn/internal/capture"
	"github.com/rocecn/rocecn/rocev2"
)

// A reader reads captures, lets goroutines decode their packets, and hands these
// on in the order of the captures.
//
// A source reads blocks of octets and finds the packets in them: those of one
// block, or of one read, are a batch. Decoders take batches as they come, and
// whoever counts the packets waits for each batch in turn: what comes out does
// not depend on how many decoders there are.
type reader struct {
	decoder flows.Decoder // a copy for each goroutine
	workers int
	stdin   io.Reader
	frames  uint64 // handed on so far
	to      interface {
		packet(p *flows.Packet, frame uint64, t time.Time) error
		progress(octets, size int64)
		idle(d time.Duration) error // nothing came for so long
	}
}

// errUnknownLink says that some packets could not be looked at.
var errUnknownLink = errors.New("packets of a link type that is not supported are counted as others")

// waiting is how many batches may wait for whoever counts the packets.
const waiting = 8

// read hands on the packets of one file.
func (r *reader) read(ctx context.Context, name string) error {
	s := &source{
		ordered: make(chan *batch, waiting),
		work:    make(chan *batch, waiting),
		batches: make(chan *batch, waiting),
		blocks:  make(chan *block, waiting),
		stop:    make(chan struct{}),
	}
	defer close(s.stop)
	for range r.workers {
		go s.decode(r.decoder)
	}
	go s.read(ctx, name, r.stdin)

	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	unknown, last := false, time.Now()
	for {
		var b *batch
		select {
		case b = <-s.ordered:
		case now := <-tick.C:
			if err := r.to.idle(now.Sub(last)); err != nil {
				return err
			}
			continue
		}
		<-b.decoded
		for i := range b.packets {
			r.frames++
			if err := r.to.packet(&b.packets[i], r.frames, b.records[i].time); err != nil {
				return err
			}
		}
		r.to.progress(b.octets, b.size)
		unknown, last = unknown || b.unknown, time.Now()
		switch {
		case b.err == io.EOF && unknown:
			return errUnknownLink
		case b.err == io.EOF:
			return nil
		case b.err != nil:
			return b.err
		}
		s.release(b)
	}
}

// A batch is some packets of one file, in their order.
type batch struct {
	block   *block
	records []record
	packets []flows.Packet // what the records are
	decoded chan struct{}  // gets one when the packets are there
	unknown bool           // there are packets of a link type that is not supported
	err     error          // what ended the file behind the packets; io.EOF at its end

	octets, size int64 // read of the file, and its length, 0 if that is not known
}

// A record is a packet as it was captured.
type record struct {
	data    []byte
	time    time.Time
	options rocev2.DecodeOptions
}

// A block is memory that packets are read into. It is used again when nobody
// needs what is in it any more.
type block struct {
	octets [256 << 10]byte
	users  atomic.Int32
}

// maxBatch is how many packets are in a batch at most.
const maxBatch = 1024

// A source reads a file.
type source struct {
	ordered, work chan *batch
	batches       chan *batch // to be used again
	blocks        chan *block // to be used again
	stop          chan struct{}

	block        *block
	batch        *batch
	octets, size int64
}

// read puts the packets of a file into batches. The last one has the error.
func (s *source) read(ctx context.Context, name string, stdin io.Reader) {
	defer close(s.work)
	err := s.records(ctx, name, stdin)
	s.begin()
	s.batch.err = err
	s.flush()
}

func (s *source) records(ctx context.Context, name string, stdin io.Reader) error {
	in, err := cli.OpenBlocks(ctx, name, stdin, s.beforeRead, s.nextBlock)
	if err != nil {
		return err
	}
	defer in.Close()
	s.size = in.Size
	var r capture.Record
	for {
		if err := in.Next(&r); err != nil {
			return err
		}
		s.begin()
		b := s.batch
		if !r.Supported() {
			b.unknown = true
			r.Data = nil
		}
		b.records = append(b.records, record{r.Data, r.Time, r.Options()})
		if len(b.records) == maxBatch {
			s.flush()
		}
		select {
		case <-s.stop:
			return io.EOF
		default:
		}
	}
}

// nextBlock returns the memory to read on in. What was found until now is in
// other blocks.
func (s *source) nextBlock() []byte {
	s.flush()
	s.unuse(s.block)
	select {
	case s.block = <-s.blocks:
	default:
		s.block = new(block)
	}
	s.block.users.Store(1)
	return s.block.octets[:]
}

// beforeRead hands on what was found, as the next read may take long.
func (s *source) beforeRead(octets int64) error {
	s.octets = octets
	s.flush()
	return nil
}

// begin sees to it that there is a batch.
func (s *source) begin() {
	if s.batch != nil {
		return
	}
	select {
	case s.batch = <-s.batches:
	default:
		s.batch = &batch{decoded: make(chan struct{}, 1)}
	}
	b := s.batch
	if b.block = s.block; b.block != nil {
		b.block.users.Add(1)
	}
	b.records, b.unknown, b.octets, b.size = b.records[:0], false, s.octets, s.size
}

// flush hands on the batch, if there is one.
func (s *source) flush() {
	b := s.batch
	if b == nil {
		return
	}
	s.batch = nil
	for _, to := range [...]chan *batch{s.work, s.ordered} {
		select {
		case to <- b:
		case <-s.stop:
		}
	}
}

// decode decodes batches until there are no more.
func (s *source) decode(d flows.Decoder) {
	for b := range s.work {
		if n := len(b.records); cap(b.packets) < n {
			b.packets = make([]flows.Packet, n, max(n, min(2*n, maxBatch)))
		} else {
			b.packets = b.packets[:n]
		}
		for i := range b.records {
			r := &b.records[i]
			d.Decode(&b.packets[i], r.data, r.options)
		}
		b.decoded <- struct{}{}
	}
}

// release lets a batch and its block be used again.
func (s *source) release(b *batch) {
	s.unuse(b.block)
	select {
	case s.batches <- b:
	default:
	}
}

func (s *source) unuse(b *block) {
	if b == nil || b.users.Add(-1) > 0 {
		return
	}
	select {
	case s.blocks <- b:
	default:
	}
}
