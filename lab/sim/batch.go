package sim

// A Reader is a Handler that can read the memory for an event before the event runs. In a large network that memory is
// not in the processor's cache, and each event would wait for it several times. Reads for several events wait at the
// same time.
type Reader interface {
	// ReadAhead reads the memory for an event, without any effect on the run, and returns a value that depends on all
	// reads, so that the compiler keeps them. It is called with each step from 0 to 2, for all events of a batch before
	// the next step, so that pointers that were read in one step lead to memory that is read in the next. Other events
	// may run before this one.
	ReadAhead(arg uint32, step int) uint64
}

const (
	readSteps  = 3
	manyEvents = 1024 // pending events from which on batches are used: the memory for fewer fits into the cache
	batchSize  = 32   // events of a new batch: the memory for them stays in the cache
	maxBatch   = 2 * batchSize
)

// A batch has the earliest events, at most maxBatch, in order: each comes before all events of the heap.
type batch struct {
	events []event
	first  int
	read   uint64
}

func (b *batch) len() int { return len(b.events) - b.first }

// isBeforeLast reports whether an event belongs in the batch.
func (b *batch) isBeforeLast(e *event) bool {
	return b.first < len(b.events) && e.isBefore(&b.events[len(b.events)-1])
}

// insert adds an event in its place. It reuses the memory for events that ran, also of a batch that is never empty
// because its last event is far in the future.
func (b *batch) insert(e event) {
	if b.first > len(b.events)/2 {
		n := copy(b.events, b.events[b.first:])
		b.events, b.first = b.events[:n], 0
	}
	b.events = append(b.events, e)
	i := len(b.events) - 1
	for ; i > b.first && e.isBefore(&b.events[i-1]); i-- {
		b.events[i] = b.events[i-1]
	}
	b.events[i] = e
}

// removeLast removes the last event of the batch and returns it.
func (b *batch) removeLast() event {
	last := len(b.events) - 1
	e := b.events[last]
	b.events = b.events[:last]
	return e
}

// fillBatch moves the earliest events from the heap to the empty batch, and reads ahead for them.
func (s *Sim) fillBatch() {
	b := &s.near
	b.events, b.first = b.events[:0], 0
	for range batchSize {
		b.events = append(b.events, s.heap.first())
		s.heap.removeFirst()
	}
	for step := range readSteps {
		for i := range b.events {
			if r := s.readers[b.events[i].to]; r != nil {
				b.read += r.ReadAhead(b.events[i].arg, step)
			}
		}
	}
}
