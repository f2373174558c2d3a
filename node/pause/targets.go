package pause

import (
	"math"
	"math/rand/v2"
	"net/netip"

	"github.com/rocecn/rocecn/rocev2"
)

// A key is a Target without pointers. An IPv4 address stands as an IPv4-mapped
// one.
type key struct {
	addr [16]byte
	id   uint32 // queue pair or port, and what they are
}

const (
	isIPv4 = 1 << 30
	isPort = 1 << 31
)

func keyOf(t *Target) key {
	k := key{addr: t.Addr.As16(), id: t.DestQP}
	if t.Node {
		k.id = uint32(t.Port) | isPort
	}
	if t.Addr.Is4() {
		k.id |= isIPv4
	}
	return k
}

func (k *key) hash(seed uint64) uint64 {
	return rocev2.FlowKey{Dst: netip.AddrFrom16(k.addr), DestQP: k.id}.Hash(seed)
}

// kinds are the states that end: Stopped, Held, Alarmed.
const kinds = 3

// An entry is a target that is not running: 56 octets without pointers, 64 with
// its places in heap and chains.
type entry struct {
	until [kinds]int64 // when each state ends, by the table's clock; 0: the target is not in it
	key
	next uint32 // of its chain, or of the free entries
	at   uint32 // its place in the heap
}

// soonest returns when the first of an entry's states ends.
func (e *entry) soonest() int64 {
	first := int64(math.MaxInt64)
	for _, until := range e.until {
		if until != 0 {
			first = min(first, until)
		}
	}
	return first
}

// targets are the entries by key, in chains, and by the time at which the first
// of their states ends, in a heap. Entry 0 is none.
type targets struct {
	seed    uint64 // keeps others from choosing targets that collide
	entries []entry
	chains  []uint32 // the first entry of each; their number is a power of two
	heap    []uint32 // entries, each no later than those at twice its place, counted from 1
	free    uint32   // the first free entry that was in use before
	unused  uint32   // the first that never was
}

func newTargets(size int) targets {
	chains := 1
	for chains < size {
		chains *= 2
	}
	return targets{seed: rand.Uint64(), entries: make([]entry, size+1), chains: make([]uint32, chains), heap: make([]uint32, 1, size+1), unused: 1}
}

// len returns how many targets there are.
func (t *targets) len() int { return max(len(t.heap)-1, 0) }

// first returns when a state ends next.
func (t *targets) first() (until int64, ok bool) {
	if t.len() == 0 {
		return 0, false
	}
	return t.entries[t.heap[1]].soonest(), true
}

func (t *targets) chain(k *key) *uint32 { return &t.chains[k.hash(t.seed)&uint64(len(t.chains)-1)] }

// find returns the entry of a target, 0 when it is running.
func (t *targets) find(k *key) uint32 {
	if t.len() == 0 {
		return 0
	}
	i := *t.chain(k)
	for i != 0 && t.entries[i].key != *k {
		i = t.entries[i].next
	}
	return i
}

// set puts a target into a state until a time. It says whether another target
// had to make room.
func (t *targets) set(k *key, state State, until int64) (forgotten bool) {
	i := t.find(k)
	if i == 0 {
		if t.free == 0 && int(t.unused) == len(t.entries) {
			t.remove(t.heap[1])
			forgotten = true
		}
		i = t.add(k)
	}
	t.entries[i].until[state-Stopped] = until
	t.sift(i)
	return forgotten
}

// clear takes a target out of a state.
func (t *targets) clear(k *key, state State) {
	if i := t.find(k); i != 0 {
		t.entries[i].until[state-Stopped] = 0
		t.settle(i)
	}
}

// run takes a target out of every state.
func (t *targets) run(k *key) {
	if i := t.find(k); i != 0 {
		t.remove(i)
	}
}

// expire ends the states whose time has come.
func (t *targets) expire(now int64) {
	for t.len() > 0 {
		i := t.heap[1]
		e := &t.entries[i]
		if e.soonest() > now {
			return
		}
		for n, until := range e.until {
			if until <= now {
				e.until[n] = 0
			}
		}
		t.settle(i)
	}
}

// settle removes an entry that is in no state, and puts any other where it
// belongs.
func (t *targets) settle(i uint32) {
	if t.entries[i].until == [kinds]int64{} {
		t.remove(i)
	} else {
		t.sift(i)
	}
}

// add adds a target in no state yet, for which there is room.
func (t *targets) add(k *key) uint32 {
	i := t.free
	if i != 0 {
		t.free = t.entries[i].next
	} else {
		i = t.unused
		t.unused++
	}
	chain := t.chain(k)
	t.entries[i] = entry{key: *k, next: *chain, at: uint32(len(t.heap))}
	*chain = i
	t.heap = append(t.heap, i)
	return i
}

// remove removes an entry.
func (t *targets) remove(i uint32) {
	e := &t.entries[i]
	link := t.chain(&e.key)
	for *link != i {
		link = &t.entries[*link].next
	}
	*link = e.next
	last := t.heap[len(t.heap)-1]
	t.heap = t.heap[:len(t.heap)-1]
	if last != i {
		t.place(last, e.at)
		t.sift(last)
	}
	*e = entry{next: t.free}
	t.free = i
}

func (t *targets) place(i, at uint32) { t.heap[at], t.entries[i].at = i, at }

// sift moves an entry to where it belongs in the heap.
func (t *targets) sift(i uint32) {
	e := &t.entries[i]
	due := e.soonest()
	for e.at > 1 {
		up := t.heap[e.at/2]
		if t.entries[up].soonest() <= due {
			break
		}
		at := e.at
		t.place(i, at/2)
		t.place(up, at)
	}
	for {
		down := 2 * e.at
		if down >= uint32(len(t.heap)) {
			return
		}
		if other := down + 1; other < uint32(len(t.heap)) && t.entries[t.heap[other]].soonest() < t.entries[t.heap[down]].soonest() {
			down = other
		}
		below := t.heap[down]
		if t.entries[below].soonest() >= due {
			return
		}
		at := e.at
		t.place(i, down)
		t.place(below, at)
	}
}
