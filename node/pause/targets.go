package pause

import (
	"math"

	"github.com/rocecn/rocecn/internal/flowtable"
)

// A key is a Target without pointers. An IPv4 address is stored IPv4-mapped.
type key struct {
	addr   [16]byte
	id     uint32 // queue pair or port, and the flags below
	domain uint32
}

const (
	isIPv4 = 1 << 30
	isPort = 1 << 31
)

func keyOf(t *Target) key {
	k := key{addr: t.Addr.As16(), id: t.DestQP, domain: t.Domain}
	if t.Node {
		k.id = uint32(t.Port) | isPort
	}
	if t.Addr.Is4() {
		k.id |= isIPv4
	}
	return k
}

func (k *key) hashWithSeed(seed uint64) uint64 {
	whole := flowtable.Key{Dst: k.addr, QP: k.id, Domain: k.domain}
	return whole.Hash(seed)
}

// kinds are the states that end: Stopped, Held, Alarmed.
const endingStates = 3

// An entry is a target that is not running: 64 octets in the table, and 4 in the heap.
type entry struct {
	until [endingStates]int64 // when each state ends, by the table's clock; 0: the target is not in it
	at    uint32              // its place in the heap
}

// firstEnd returns when the first of an entry's states ends.
func (e *entry) firstEnd() int64 {
	first := int64(math.MaxInt64)
	for _, until := range e.until {
		if until != 0 {
			first = min(first, until)
		}
	}
	return first
}

// targets are the entries by key, and by the time at which the first of their states ends, in a heap.
type targets struct {
	entries flowtable.Table[key, entry]
	heap    []uint32 // entries, each no later than those at twice its place, counted from 1
}

func newTargets(size int) targets {
	return targets{flowtable.New[key, entry](size, false, (*key).hashWithSeed), make([]uint32, 1, size+1)}
}

// nextEnd returns when a state ends next.
func (t *targets) nextEnd() (until int64, ok bool) {
	if t.entries.Len() == 0 {
		return 0, false
	}
	return t.endOf(1), true
}

// endOf returns when the first of the states ends of the entry at a place in the heap.
func (t *targets) endOf(at uint32) int64 { return t.entries.Value(t.heap[at]).firstEnd() }

// find returns the entry of a target and its id, nil and 0 when the target is running.
func (t *targets) find(k *key) (*entry, uint32) {
	if t.entries.Len() == 0 {
		return nil, 0
	}
	return t.entries.Find(k, k.hashWithSeed(t.entries.Seed))
}

// setState puts a target into a state until a time. It reports whether another target was evicted.
func (t *targets) setState(k *key, state State, until int64) (forgotten bool) {
	e, i := t.find(k)
	if e == nil {
		if forgotten = t.entries.Full(); forgotten {
			t.remove(t.heap[1])
		}
		i = t.entries.Add(k, k.hashWithSeed(t.entries.Seed), 0)
		e = t.entries.Value(i)
		e.at = uint32(len(t.heap))
		t.heap = append(t.heap, i)
	}
	e.until[state-StateStopped] = until
	t.siftEntry(i)
	return forgotten
}

// clearState takes a target out of a state.
func (t *targets) clearState(k *key, state State) {
	if e, i := t.find(k); e != nil {
		e.until[state-StateStopped] = 0
		t.reorder(i)
	}
}

// clearAll takes a target out of every state.
func (t *targets) clearAll(k *key) {
	if _, i := t.find(k); i != 0 {
		t.remove(i)
	}
}

// expire ends the states that last until now or shorter.
func (t *targets) expire(now int64) {
	for t.entries.Len() > 0 {
		i := t.heap[1]
		e := t.entries.Value(i)
		if e.firstEnd() > now {
			return
		}
		for n, until := range e.until {
			if until <= now {
				e.until[n] = 0
			}
		}
		t.reorder(i)
	}
}

// reorder removes an entry that is in no state any more, and moves any other to its place in the heap.
func (t *targets) reorder(i uint32) {
	if t.entries.Value(i).until == [endingStates]int64{} {
		t.remove(i)
	} else {
		t.siftEntry(i)
	}
}

// remove removes an entry.
func (t *targets) remove(i uint32) {
	at := t.entries.Value(i).at
	t.entries.Remove(i)
	last := t.heap[len(t.heap)-1]
	t.heap = t.heap[:len(t.heap)-1]
	if last != i {
		t.placeEntry(last, at)
		t.siftEntry(last)
	}
}

func (t *targets) placeEntry(i, at uint32) { t.heap[at], t.entries.Value(i).at = i, at }

// siftEntry moves an entry to its place in the heap.
func (t *targets) siftEntry(i uint32) {
	e := t.entries.Value(i)
	due := e.firstEnd()
	for e.at > 1 && t.endOf(e.at/2) > due {
		at := e.at
		t.placeEntry(t.heap[at/2], at)
		t.placeEntry(i, at/2)
	}
	for {
		down := 2 * e.at
		if down >= uint32(len(t.heap)) {
			return
		}
		if other := down + 1; other < uint32(len(t.heap)) && t.endOf(other) < t.endOf(down) {
			down = other
		}
		if t.endOf(down) >= due {
			return
		}
		at := e.at
		t.placeEntry(t.heap[down], at)
		t.placeEntry(i, down)
	}
}
