package batches

import (
	"cmp"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// maxPrepared is the maximum number of prepared batches that are not used yet, except those of goroutines that wait.
const maxPrepared = 4

// A fileReader reads a file with several goroutines. The first one, the caller's, uses batches. As long as the next
// batch is not prepared, it prepares batches itself. All other goroutines prepare batches.
type fileReader[T any] struct {
	*Reader[T]
	finding sync.Mutex // held to find a batch
	finder  *finder[T]

	prepared [maxPrepared]atomic.Pointer[Batch[T]] // prepared batches, by number
	used     atomic.Uint64                         // number of batches used
	ended    atomic.Bool                           // no further batches are used
	changes
}

// newFileReader returns a fileReader of the file that f finds batches of.
func newFileReader[T any](r *Reader[T], f *finder[T]) *fileReader[T] {
	q := &fileReader[T]{Reader: r, finder: f}
	q.changed.L = &q.mu
	q.spins = runtime.GOMAXPROCS(0) > 1 && !f.in.Compressed()
	return q
}

// readFile reads a file with r.Workers goroutines.
func (r *Reader[T]) readFile(f *finder[T]) error {
	defer f.in.Close()
	q := newFileReader(r, f)
	var others sync.WaitGroup
	for range r.Workers - 1 {
		others.Go(q.prepareBatches)
	}
	err := q.useBatches()
	q.ended.Store(true)
	q.signal()
	others.Wait()
	return err
}

// prepareBatches prepares batches as long as there are further ones that are used.
func (q *fileReader[T]) prepareBatches() {
	prepare, own := q.NewPreparer(), new(store[T])
	for {
		if !q.spin(q.finding.TryLock) {
			q.finding.Lock()
		}
		b := q.findBatch(own)
		q.finding.Unlock()
		if b == nil {
			return
		}
		q.prepare(b, prepare)
		q.wait(func() bool { return b.number < q.used.Load()+maxPrepared || q.ended.Load() })
		if q.ended.Load() {
			return
		}
		q.prepared[b.number%maxPrepared].Store(b)
		q.signal()
	}
}

// useBatches uses all batches, and returns the error that ended the capture or its use.
func (q *fileReader[T]) useBatches() error {
	prepare, own := q.NewPreparer(), new(store[T])
	for {
		select {
		case do := <-q.Asks:
			do()
		default:
		}
		next := &q.prepared[q.used.Load()%maxPrepared]
		var b, found *Batch[T]
		q.wait(func() bool {
			if b = next.Load(); b == nil {
				found = q.tryFindBatch(own)
			}
			return b != nil || found != nil
		})
		if found != nil {
			q.prepare(found, prepare)
			q.prepared[found.number%maxPrepared].Store(found)
			continue
		}
		next.Store(nil)
		q.used.Add(1)
		q.signal()
		var err error
		fault := q.finder.in.File().Guard(func() { err = q.Use(b) })
		if err = cmp.Or(fault, err, b.err); err != nil {
			return err
		}
		q.finder.in.File().Discard(int(b.Octets)) // all batches before it were used as well
		b.owner.putBatch(b)
	}
}

// prepare prepares a batch. If its packets can no longer be read from a mapped file, the batch ends the capture without
// them.
func (q *fileReader[T]) prepare(b *Batch[T], prepare func(*Batch[T])) {
	if err := q.finder.in.File().Guard(func() { prepare(b) }); err != nil {
		b.Records, b.err = b.Records[:0], err
		prepare(b)
	}
}

// findBatch returns the next batch, in memory of this store, or nil after the last one. Only the holder of finding may
// call it.
func (q *fileReader[T]) findBatch(in *store[T]) *Batch[T] {
	q.finder.store = in
	return q.finder.findBatch()
}

// tryFindBatch is findBatch for the goroutine that uses batches, which must not wait for space. It also returns nil if
// another goroutine finds a batch, or if too many batches would wait.
func (q *fileReader[T]) tryFindBatch(in *store[T]) *Batch[T] {
	if !q.finding.TryLock() {
		return nil
	}
	defer q.finding.Unlock()
	if q.finder.number >= q.used.Load()+maxPrepared { // only this goroutine changes used
		return nil
	}
	return q.findBatch(in)
}

// changes lets goroutines wait for a condition on atomic variables. As others usually meet it within microseconds, and
// waking a goroutine on another CPU takes longer, a goroutine tries for some time before it sleeps.
type changes struct {
	mu       sync.Mutex
	changed  sync.Cond
	sleeping atomic.Int32
	spins    bool // another CPU exists, and the file is not compressed: decompressing takes longer than waking
}

// spinning is the time before a goroutine sleeps.
const spinning = 200 * time.Microsecond

// spin calls a function until it returns true, for a short time, and reports whether it did.
func (c *changes) spin(met func() bool) bool {
	if met() {
		return true
	}
	for begin := time.Now(); c.spins && time.Since(begin) < spinning; {
		if met() {
			return true
		}
	}
	return false
}

// wait waits until a condition is met.
func (c *changes) wait(met func() bool) {
	if c.spin(met) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sleeping.Add(1)
	for !met() {
		c.changed.Wait()
	}
	c.sleeping.Add(-1)
}

// signal wakes sleeping goroutines after a variable has changed.
func (c *changes) signal() {
	if c.sleeping.Load() > 0 {
		c.mu.Lock()
		c.changed.Broadcast()
		c.mu.Unlock()
	}
}
