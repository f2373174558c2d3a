package flows

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/cli"
	"github.com/rocecn/rocecn/flows"
	"github.com/rocecn/rocecn/rocev2"
)

// A reader reads captures with several goroutines, and hands their packets on in
// their order.
//
// One of the goroutines reads a block of octets after the other and finds the
// packets in it, a batch, which the others decode. Where they have enough to do
// it decodes a batch itself, and another one that has none reads on. The
// goroutine that counts the packets waits for each batch in turn: what comes out
// does not depend on how many goroutines there are.
type reader struct {
	decoder flows.Decoder // a copy for each goroutine
	workers int
	inputs  cli.Inputs
	frames  uint64 // handed on so far
	dropped uint64 // by the kernel, of live captures
	to      interface {
		packet(p *flows.Packet, frame uint64, t time.Time) error
		progress(octets, size int64)
		idle(d time.Duration) error // nothing came for so long; never of a file
	}
}

// errUnknownLink says that some packets could not be looked at.
var errUnknownLink = errors.New("packets of a link type that is not supported are counted as others")

// waiting is how many batches may wait to be counted.
const waiting = 4

// read hands on the packets of one file, or of an interface.
func (r *reader) read(ctx context.Context, name string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // a goroutine that waits for input wakes up
	// What was read, one batch that is counted, and the two of the source: with
	// room for all of them none is thrown away to be made anew.
	inOrder := waiting + 2*r.workers
	inUse := inOrder + 3
	s := &source{
		ordered: make(chan *batch, inOrder),
		read:    make(chan *batch, r.workers-1), // one for each goroutine but the one that reads: none waits in vain
		batches: make(chan *batch, inUse),
		blocks:  make(chan *block, inUse),
		stop:    make(chan struct{}),
	}
	defer close(s.stop)
	in, err := r.inputs.Open(ctx, name, s.beforeRead, s.nextBlock)
	if err != nil {
		return err
	}
	s.in, s.copies = in, r.inputs.Live
	for range r.workers {
		go s.work(r.decoder)
	}

	var idle <-chan time.Time
	if in.Size == 0 {
		ticker := time.NewTicker(200 * time.Millisecond)
		defer ticker.Stop()
		idle = ticker.C
	}
	unknown, last := false, time.Now()
	for {
		var b *batch
		select {
		case b = <-s.ordered:
		case now := <-idle:
			if len(s.ordered) > 0 {
				continue
			}
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
		r.dropped += b.dropped
		unknown, last = unknown || b.unknown, time.Now()
		switch {
		case b.err == nil:
		case b.err != io.EOF:
			return b.err
		case unknown:
			return errUnknownLink
		default:
			return nil
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
	dropped      uint64
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

// A source reads a file. What is below the lock belongs to the goroutine that has it.
type source struct {
	ordered chan *batch
	read    chan *batch // to be decoded
	batches chan *batch // to be used again
	blocks  chan *block // to be used again
	stop    chan struct{}

	sync.Mutex
	in      *cli.Input
	dropped uint64         // by the kernel, of a live capture
	copies  bool           // packets are not in blocks: put them there
	used    int            // octets of the block that are, then
	decoder *flows.Decoder // of the goroutine that has the lock
	block   *block
	batch   *batch // what was found in block
	done    *batch // what was found in the block before
	octets  int64
	err     error // what ended the file
	ended   bool  // and the batch that says so is handed on
}

func (s *source) close() {
	s.dropped = s.in.Dropped()
	s.in.Close()
}

// work reads and decodes batches until the file ends.
func (s *source) work(d flows.Decoder) {
	for {
		b := s.take(&d)
		if b == nil {
			return
		}
		s.decode(b, &d)
	}
}

// take returns the next batch to be decoded, nil behind the last one. If no
// other goroutine reads, this one does, until the others have enough to do: then
// it decodes the oldest that they left, which is the next to be counted.
func (s *source) take(d *flows.Decoder) *batch {
	if s.TryLock() {
		s.decoder = d
		b := s.next()
		for b != nil && s.offer(b) {
			b = s.next()
		}
		if b != nil {
			select {
			case oldest := <-s.read:
				s.read <- b // has room: only the goroutine that has the lock sends
				b = oldest
			default:
			}
			s.Unlock()
			return b
		}
		close(s.read) // and nobody gets the lock again
	}
	return <-s.read
}

// offer says whether others take a batch.
func (s *source) offer(b *batch) bool {
	select {
	case s.read <- b:
		return true
	default:
		return false
	}
}

// next returns the next batch, whose place in the order is reserved, and nil
// behind the last one, which has the error that ended the file.
func (s *source) next() *batch {
	var r capture.Record
	for s.done == nil && s.err == nil {
		if s.err = s.in.Next(&r); s.err != nil {
			s.close()
			break
		}
		if s.copies {
			r.Data = s.keep(r.Data)
		}
		b := s.begin()
		if !r.Supported() {
			b.unknown = true
			r.Data = nil
		}
		b.records = append(b.records, record{r.Data, r.Time, r.Options()})
		if len(b.records) == maxBatch {
			s.done, s.batch = b, nil
		}
	}
	b := s.done
	s.done = nil
	if b == nil {
		if s.ended {
			return nil
		}
		s.ended = true
		b = s.begin()
		s.batch, b.err = nil, s.err
	}
	if s.reserve(b) {
		return b
	}
	if s.err == nil {
		s.err = io.EOF
		s.close()
	}
	s.ended = true
	return nil
}

// reserve gives a batch its place in the order. It says whether anybody still
// waits for it.
func (s *source) reserve(b *batch) bool {
	b.octets, b.size, b.dropped = s.octets, s.in.Size, s.dropped
	select {
	case s.ordered <- b:
		return true
	case <-s.stop:
		return false
	}
}

// nextBlock returns the memory to read on in. What was found until now is in
// another block.
func (s *source) nextBlock() []byte {
	if s.batch != nil {
		s.done, s.batch = s.batch, nil
	}
	s.unuse(s.block)
	select {
	case s.block = <-s.blocks:
	default:
		s.block = new(block)
	}
	s.block.users.Store(1)
	return s.block.octets[:]
}

// beforeRead hands on what was found, where the next read may take long.
func (s *source) beforeRead(octets int64) error {
	s.octets = octets
	if s.in == nil || s.in.Size > 0 {
		return nil
	}
	for _, b := range [...]*batch{s.done, s.batch} {
		if b == nil {
			continue
		}
		if !s.reserve(b) {
			return io.EOF
		}
		s.decode(b, s.decoder)
	}
	s.done, s.batch = nil, nil
	return nil
}

// keep returns a copy of a packet, in the block.
func (s *source) keep(data []byte) []byte {
	if s.block == nil || len(s.block.octets)-s.used < len(data) {
		s.nextBlock()
		s.used = 0
	}
	n := copy(s.block.octets[s.used:], data)
	s.used += n
	return s.block.octets[s.used-n : s.used : s.used]
}

// begin returns the batch that packets are put into.
func (s *source) begin() *batch {
	if s.batch != nil {
		return s.batch
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
	b.records, b.unknown, b.err = b.records[:0], false, nil
	return b
}

// decode decodes the packets of a batch. Then its block is free for the next one,
// which finds it in the cache.
func (s *source) decode(b *batch, d *flows.Decoder) {
	if n := len(b.records); cap(b.packets) < n {
		b.packets = make([]flows.Packet, n, max(n, min(2*n, maxBatch)))
	} else {
		b.packets = b.packets[:n]
	}
	for i := range b.records {
		r := &b.records[i]
		d.Decode(&b.packets[i], r.data, r.options)
	}
	s.unuse(b.block)
	b.decoded <- struct{}{}
}

// release lets a batch be used again.
func (s *source) release(b *batch) {
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
