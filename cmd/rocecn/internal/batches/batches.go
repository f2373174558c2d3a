// Package batches reads captures with several goroutines, and passes their packets on in order.
//
// The packets of a capture are divided into batches. Several goroutines prepare batches, for example by decoding their
// packets. One goroutine uses the prepared batches one after the other, so the result does not depend on the number
// of goroutines.
package batches

import (
	"context"
	"io"
	"runtime"
	"time"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/cli"
)

// A Reader reads captures. T is the result of preparing a batch.
type Reader[T any] struct {
	Inputs  *cli.Inputs
	Workers int // goroutines that prepare batches
	// NewPreparer returns a function that prepares batches. Each goroutine has its own. Batch.Result is the
	// zero value or that of an earlier batch; its memory can be used again.
	NewPreparer func() func(b *Batch[T])
	// Use uses a prepared batch. It is called in the order of the capture by the goroutine that called ReadCapture.
	// Its error ends the reading.
	Use func(b *Batch[T]) error
	// Idle is called by the same goroutine if no packets came for the time d, at most every 200 ms and only if the
	// capture is not a file. Its error ends the reading. Idle may be nil.
	Idle func(d time.Duration) error
	Asks chan func() // functions that the same goroutine calls between batches
}

// A Batch is a part of the packets of a capture, in their order.
type Batch[T any] struct {
	Input   *cli.Input
	Records []capture.Record // packets; their Data is valid until the batch has been used
	First   int              // number of packets of the capture before these
	Result  T
	Octets  int64  // octets of the capture read so far
	Dropped uint64 // packets dropped by the kernel so far, of a live capture

	block    *block[T]     // memory of the packets, or nil
	number   uint64        // in the capture, from 0
	owner    *store[T]     // where the batch returns to
	prepared chan struct{} // receives one value when the batch of a stream is prepared
	err      error         // error after the packets; io.EOF at the end of the capture
}

// DefaultWorkers returns the number of goroutines that prepare batches unless the user chose another number: one for
// each CPU, at most 8, because the goroutine that uses batches limits the speed.
func DefaultWorkers() int { return min(runtime.GOMAXPROCS(0), 8) }

// ReadCapture reads a file, or an interface until ctx ends. The packets of pipes and interfaces are passed on before a
// read that may wait.
func (r *Reader[T]) ReadCapture(ctx context.Context, name string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // a goroutine that waits for input wakes up
	f := finder[T]{copies: r.Inputs.Live, store: new(store[T])}
	in, err := r.Inputs.Open(ctx, name, f.beforeRead, f.nextBlock)
	if err != nil {
		return err
	}
	f.in = in
	if in.Size > 0 {
		err = r.readFile(&f)
	} else {
		err = r.readStream(&f)
	}
	if err == io.EOF {
		return nil
	}
	return err
}

// readStream reads a pipe or an interface: one goroutine finds packets, r.Workers goroutines prepare them.
func (r *Reader[T]) readStream(f *finder[T]) error {
	ordered, found := make(chan *Batch[T], maxPrepared+2*r.Workers), make(chan *Batch[T], r.Workers)
	stop := make(chan struct{})
	defer close(stop)
	f.pass = func(b *Batch[T]) bool {
		select {
		case ordered <- b:
			found <- b
			return true
		case <-stop:
			return false
		}
	}
	go func() {
		for !f.ended {
			f.findPacket()
		}
		f.in.Close()
		close(found)
	}()
	for range r.Workers {
		go func() {
			prepare := r.NewPreparer()
			for b := range found {
				prepare(b)
				b.prepared <- struct{}{}
			}
		}()
	}
	var idle <-chan time.Time
	if r.Idle != nil {
		ticker := time.NewTicker(200 * time.Millisecond)
		defer ticker.Stop()
		idle = ticker.C
	}
	last := time.Now()
	for {
		var b *Batch[T]
		select {
		case b = <-ordered:
		case now := <-idle:
			if len(ordered) > 0 {
				continue
			}
			if err := r.Idle(now.Sub(last)); err != nil {
				return err
			}
			continue
		case do := <-r.Asks:
			do()
			continue
		}
		<-b.prepared
		if err := r.Use(b); err != nil {
			return err
		}
		last = time.Now()
		if b.err != nil {
			return b.err
		}
		b.owner.putBatch(b)
	}
}
