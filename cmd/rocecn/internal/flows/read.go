package flows

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/cli"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/sflow"
	"github.com/rocecn/rocecn/flows"
	"github.com/rocecn/rocecn/rocev2"
)

// A reader reads captures with several goroutines, and passes their packets on in
// order.
//
// One goroutine finds the packets in the octets of a file, a batch at a time, and
// others decode the batches. The goroutine that counts the packets waits for each
// batch in turn: the result does not depend on the number of goroutines.
type reader struct {
	decoder flows.Decoder // a copy for each goroutine
	workers int           // goroutines that decode
	inputs  cli.Inputs
	frames  uint64 // handed on so far
	dropped uint64 // by the kernel, of live captures that have ended
	present uint64 // of the one that is read

	ended time.Time // the latest packet of the last file

	packet   func(p *flows.Packet, frame uint64, t time.Time) error // is given each packet
	datagram func(b []byte, from netip.Addr, t time.Time)           // is given each datagram of sFlow, or nil
	progress func(octets, size int64)                               // called with the octets read so far, or nil
	idle     func(d time.Duration) error                            // nil, or told that nothing came for so long
	asks     chan func()                                            // functions to call between packets
}

// droppedPackets returns the number of packets that the kernel dropped so far.
func (r *reader) droppedPackets() uint64 { return r.dropped + r.present }

// errUnknownLink says that some packets could not be looked at.
var errUnknownLink = errors.New("packets of a link type that is not supported are counted as others")

// waiting is the number of batches that may wait to be counted.
const waiting = 4

// readCapture hands on the packets of one file, or of an interface.
func (r *reader) readCapture(ctx context.Context, name string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // a goroutine that waits for input wakes up
	s := &source{
		ordered: make(chan *batch, waiting+2*r.workers),
		found:   make(chan *batch, r.workers),
		stop:    make(chan struct{}),
	}
	defer close(s.stop)
	in, err := r.inputs.Open(ctx, name, s.beforeRead, s.nextBlock)
	if err != nil {
		return err
	}
	s.in, s.copies, s.samples = in, r.inputs.Live, r.datagram != nil
	go s.findPackets()
	for range r.workers {
		go func(d flows.Decoder) {
			for b := range s.found {
				s.decodeBatches(b, &d)
			}
		}(r.decoder)
	}

	var idle <-chan time.Time
	if in.Size == 0 && r.idle != nil {
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
			if err := r.idle(now.Sub(last)); err != nil {
				return err
			}
			continue
		case do := <-r.asks:
			do()
			continue
		}
		<-b.decoded
		for i := range b.packets {
			r.frames++
			if t := b.records[i].time; t.After(r.ended) {
				r.ended = t
			}
			if err := r.packet(&b.packets[i], r.frames, b.records[i].time); err != nil {
				return err
			}
		}
		for _, d := range b.datagrams {
			r.datagram(d.data, d.from, d.time)
		}
		if r.progress != nil {
			r.progress(b.octets, in.Size)
		}
		r.present = b.dropped
		unknown, last = unknown || b.unknown, time.Now()
		if b.err != nil {
			r.dropped, r.present = r.droppedPackets(), 0
		}
		switch {
		case b.err == nil:
		case b.err != io.EOF:
			return b.err
		case unknown:
			return errUnknownLink
		default:
			return nil
		}
		s.batches.Put(b)
	}
}

// A batch is some packets of one file, in their order.
type batch struct {
	block     *block
	records   []record
	packets   []flows.Packet // decoded records
	datagrams []datagram     // of sFlow
	decoded   chan struct{}  // gets one when the packets are there
	unknown   bool           // there are packets of a link type that is not supported
	err       error          // error after the packets; io.EOF at the end of the file

	octets  int64  // read of the file so far
	dropped uint64 // likewise, by the kernel
}

// A record is a packet as it was captured.
type record struct {
	data    []byte
	time    time.Time
	options rocev2.DecodeOptions
}

// A datagram is the data of an sFlow datagram.
type datagram struct {
	data []byte
	from netip.Addr
	time time.Time
}

// A block is memory for packets. It is reused when all its packets are counted.
type block struct {
	octets [256 << 10]byte
	users  atomic.Int32
}

// maxBatch is the maximum number of packets in a batch.
const maxBatch = 1024

// A source finds the packets of one file.
type source struct {
	in      *cli.Input
	copies  bool          // packets are not in blocks: put them there
	samples bool          // find datagrams of sFlow
	ordered chan *batch   // in their order
	found   chan *batch   // the same ones, to be decoded
	stop    chan struct{} // closed when no more packets are wanted
	batches sync.Pool     // to be used again
	blocks  sync.Pool     // to be used again, by this source alone: see nextBlock

	stopped bool
	octets  int64 // read so far
	block   *block
	used    int    // octets of the block that are, with copies
	batch   *batch // packets found in the block, or nil
}

// findPackets passes on all packets, until the file ends or no more are wanted. The last batch has the error that ended
// the file.
func (s *source) findPackets() {
	var r capture.Record
	for !s.stopped {
		err := s.in.Next(&r)
		if err != nil {
			b := s.beginBatch()
			b.err = err
			break
		}
		if s.copies {
			r.Data = s.copyToBlock(r.Data)
		}
		b := s.beginBatch()
		if !r.Supported() {
			b.unknown = true // decoding its packets fails
		}
		b.records = append(b.records, record{r.Data, r.Time, s.in.Options(&r)})
		if len(b.records) == maxBatch {
			s.handOn()
		}
	}
	s.handOn()
	s.in.Close()
	close(s.found)
}

// beginBatch returns the batch that packets are put into.
func (s *source) beginBatch() *batch {
	if s.batch == nil {
		b, _ := s.batches.Get().(*batch)
		if b == nil {
			b = &batch{decoded: make(chan struct{}, 1)}
		}
		if b.block = s.block; b.block != nil {
			b.block.users.Add(1)
		}
		b.records, b.unknown, b.err = b.records[:0], false, nil
		s.batch = b
	}
	return s.batch
}

// handOn hands on the batch, if there is one.
func (s *source) handOn() {
	b := s.batch
	if b == nil {
		return
	}
	s.batch, b.octets, b.dropped = nil, s.octets, s.in.Dropped()
	select {
	case s.ordered <- b:
		s.found <- b
	case <-s.stop:
		s.stopped = true
	}
}

// nextBlock returns the memory for the next read. The capture still has to copy the end of the previous block: no other
// source may write to that block.
func (s *source) nextBlock() []byte {
	s.handOn()
	s.unuse(s.block)
	if s.block, _ = s.blocks.Get().(*block); s.block == nil {
		s.block = new(block)
	}
	s.block.users.Store(1)
	return s.block.octets[:]
}

// beforeRead passes on the packets found so far, as the next read may take long.
func (s *source) beforeRead(octets int64) error {
	s.octets = octets
	if s.in != nil && s.in.Size == 0 {
		s.handOn()
	}
	if s.stopped {
		return io.EOF
	}
	return nil
}

// copyToBlock returns a copy of a packet, in the block.
func (s *source) copyToBlock(data []byte) []byte {
	if s.block == nil || len(s.block.octets)-s.used < len(data) {
		s.nextBlock()
		s.used = 0
	}
	n := copy(s.block.octets[s.used:], data)
	s.used += n
	return s.block.octets[s.used-n : s.used : s.used]
}

// decodeBatches decodes the packets of a batch, and lets go of its block.
func (s *source) decodeBatches(b *batch, d *flows.Decoder) {
	b.packets = slices.Grow(b.packets[:0], len(b.records))[:len(b.records)]
	b.datagrams = b.datagrams[:0]
	var f rocev2.Frame
	for i := range b.records {
		r := &b.records[i]
		if d.Decode(&b.packets[i], r.data, r.options) || !s.samples {
			continue
		}
		var u rocev2.Datagram
		if f.Decode(r.data, r.options); f.Inner().Datagram(&u, sflow.Port) == nil {
			b.datagrams = append(b.datagrams, datagram{bytes.Clone(u.Data), u.Src, r.time})
		}
	}
	s.unuse(b.block)
	b.decoded <- struct{}{}
}

// unuse says that one of the users of a block, nil without one, needs it no more.
func (s *source) unuse(b *block) {
	if b != nil && b.users.Add(-1) == 0 {
		s.blocks.Put(b)
	}
}
