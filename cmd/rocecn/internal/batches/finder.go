package batches

import (
	"bytes"
	"io"
	"math"
	"sync"
	"sync/atomic"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/cli"
)

// blockSize is the number of octets in a block, and thus of one read: few enough for the block and its decoded packets
// to stay in the cache of a CPU.
const blockSize = 128 << 10

// A block is memory for packets. The packets of a file in one block are one batch, in a stream they may be several.
type block[T any] struct {
	octets [blockSize]byte
	users  atomic.Int32 // batches with packets in the block, and the finder that reads into it
	home   *store[T]    // store that the block was allocated for
}

// release ends one use of the block, which may be nil. Without users, the block returns to its own store: that of the
// goroutine that takes blocks, even if another one found the last batch in it.
func (b *block[T]) release() {
	if b != nil && b.users.Add(-1) == 0 {
		b.home.mu.Lock()
		b.home.blocks = append(b.home.blocks, b)
		b.home.mu.Unlock()
	}
}

// A store has the unused batches and blocks of one goroutine. They return to it, as the cache of its CPU may still have
// them.
type store[T any] struct {
	mu      sync.Mutex
	batches []*Batch[T]
	blocks  []*block[T]
}

// takeBatch returns an empty batch with packets in a block, which may be nil.
func (s *store[T]) takeBatch(in *block[T]) *Batch[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := takeLast(&s.batches)
	if b == nil {
		b = &Batch[T]{owner: s, prepared: make(chan struct{}, 1)}
	}
	if b.Records, b.block = b.Records[:0], in; in != nil {
		in.users.Add(1)
	}
	return b
}

// takeBlock returns a block with one user.
func (s *store[T]) takeBlock() *block[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := takeLast(&s.blocks)
	if b == nil {
		b = &block[T]{home: s}
	}
	b.users.Store(1)
	return b
}

// takeLast removes the last element and returns it, or nil.
func takeLast[E any](all *[]*E) *E {
	last := len(*all) - 1
	if last < 0 {
		return nil
	}
	e := (*all)[last]
	*all = (*all)[:last]
	return e
}

// putBatch returns a batch, and ends its use of the block.
func (s *store[T]) putBatch(b *Batch[T]) {
	b.block.release()
	s.mu.Lock()
	s.batches = append(s.batches, b)
	s.mu.Unlock()
}

// A finder finds the packets of one capture in its octets.
type finder[T any] struct {
	in     *cli.Input
	copies bool      // packets are not in blocks and are copied to one
	store  *store[T] // of the goroutine that finds batches

	pass    func(*Batch[T]) bool // function that takes a batch of a stream and reports whether more are wanted
	found   []*Batch[T]          // of a file: batches to be returned, at most two
	ended   bool                 // the last batch was found, or no more are wanted
	octets  int64                // octets read so far
	block   *block[T]            // block that the capture is read into, or nil
	used    int                  // octets of the block that are in use, with copies
	batch   *Batch[T]            // packets found in the block, or nil
	number  uint64               // of the next batch
	packets int                  // packets of all batches found
	record  capture.Record
}

// findBatch returns the next batch of a file, or nil after the last one, which has the error that ended the file.
//
// A batch ends before the next block is read. So a goroutine that prepares the batches that it finds has read their
// octets itself: they are in the cache of its CPU.
func (f *finder[T]) findBatch() *Batch[T] {
	for len(f.found) == 0 && !f.ended {
		if err := f.in.File().Guard(f.findPackets); err != nil {
			f.found = nil       // batches that were passed may have wrong packets
			b := f.beginBatch() // and so may this one
			b.Records, b.err, f.ended = b.Records[:0], err, true
			f.passBatch()
		}
	}
	if len(f.found) == 0 {
		return nil
	}
	b := f.found[0]
	f.found = append(f.found[:0], f.found[1:]...)
	return b
}

// findPackets finds the packets of the next block of a file.
func (f *finder[T]) findPackets() {
	file := f.in.File()
	if file == nil {
		f.findBuffered(math.MaxInt64)
	} else {
		end := f.in.Position() + blockSize
		file.Load(f.in.Position(), end)
		for !f.ended && f.in.Position() < end { // no read makes others wait
			f.findBuffered(end)
		}
	}
	f.passBatch()
}

// findBuffered adds the next packet and those after it that can be found without reading from the file and begin before
// position end.
func (f *finder[T]) findBuffered(end int64) {
	f.findPacket()
	if b := f.batch; b != nil {
		b.Records, b.err = f.in.AppendBuffered(b.Records, end)
		f.ended = f.ended || b.err != nil
	}
}

// findPacket adds the next packet to a batch, or the error that ended the capture.
func (f *finder[T]) findPacket() {
	r := &f.record
	err := f.in.Next(r)
	if err == nil && f.copies {
		r.Data = f.copyToBlock(r.Data)
	}
	b := f.beginBatch()
	if err != nil {
		b.err, f.ended = err, true
		f.passBatch()
		return
	}
	b.Records = append(b.Records, *r)
}

// beginBatch returns the batch that packets are put into.
func (f *finder[T]) beginBatch() *Batch[T] {
	if f.batch == nil {
		f.batch = f.store.takeBatch(f.block)
	}
	return f.batch
}

// passBatch passes on the batch, if there is one.
func (f *finder[T]) passBatch() {
	b := f.batch
	if b == nil {
		return
	}
	if f.in.File() != nil {
		f.octets = f.in.Position()
	}
	b.Input, b.Octets, b.Dropped, b.number = f.in, f.octets, f.in.Dropped(), f.number
	b.First = f.packets
	f.packets += len(b.Records)
	f.number++
	f.batch = nil
	if f.pass == nil {
		f.found = append(f.found, b)
	} else if !f.pass(b) {
		f.ended = true
	}
}

// nextBlock passes on the batch, and returns the memory for the next read. The capture still has to copy the end of the
// previous block, which keeps its octets: no other block is read into meanwhile.
func (f *finder[T]) nextBlock() []byte {
	f.passBatch()
	f.block.release()
	f.block = f.store.takeBlock()
	return f.block.octets[:]
}

// beforeRead passes on the packets of a stream found so far, as the next read may take long.
func (f *finder[T]) beforeRead(octets int64) error {
	f.octets = octets
	if f.in != nil && f.in.Size == 0 {
		f.passBatch()
	}
	if f.ended {
		return io.EOF
	}
	return nil
}

// copyToBlock returns a copy of a packet, in the block.
func (f *finder[T]) copyToBlock(data []byte) []byte {
	if len(data) > blockSize {
		return bytes.Clone(data)
	}
	if f.block == nil || blockSize-f.used < len(data) {
		f.nextBlock()
		f.used = 0
	}
	n := copy(f.block.octets[f.used:], data)
	f.used += n
	return f.block.octets[f.used-n : f.used : f.used]
}
