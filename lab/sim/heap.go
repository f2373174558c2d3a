package sim

import "math/bits"

// An event is a value of 24 octets without pointers, so that the garbage
// collector does not scan the heap.
type event struct {
	at    Time
	order Order
	to    ID
	arg   uint32
}

func (e *event) isBefore(o *event) bool {
	return e.at < o.at || e.at == o.at && e.order < o.order
}

// A heap of events: each comes before its four children. After take the root
// stays free until the next push fills it. Most handlers push one event, so
// this saves one of two walks.
type heap struct {
	events []event
	free   bool // the root
}

func (h *heap) len() int {
	if h.free {
		return len(h.events) - 1
	}
	return len(h.events)
}

// first returns the earliest event.
func (h *heap) first() event {
	if h.free {
		h.fill()
	}
	return h.events[0]
}

// removeFirst removes the earliest event, which first has returned.
func (h *heap) removeFirst() { h.free = true }

func (h *heap) push(e event) {
	if h.free {
		h.free = false
		h.siftDown(e)
		return
	}
	h.events = append(h.events, e)
	i := len(h.events) - 1
	for i > 0 {
		parent := (i - 1) / 4
		if !e.isBefore(&h.events[parent]) {
			break
		}
		h.events[i] = h.events[parent]
		i = parent
	}
	h.events[i] = e
}

// fill moves the last event to the free root.
func (h *heap) fill() {
	h.free = false
	last := len(h.events) - 1
	e := h.events[last]
	h.events = h.events[:last]
	if last > 0 {
		h.siftDown(e)
	}
}

// branchless is the largest heap in which leastOfFour is used. In a larger one the comparison with branches is faster,
// because the processor loads the next level while it predicts the child.
const branchless = 1 << 15

// leastOfFour returns the index of the earliest of four events, without branches: which it is cannot be predicted.
func leastOfFour(e *[4]event) int {
	first := isEarlier(&e[1], &e[0])
	second := 2 + isEarlier(&e[3], &e[2])
	return first + (second-first)*isEarlier(&e[second&3], &e[first&3])
}

// isEarlier returns 1 if an event is before another one, otherwise 0. Times are not negative.
func isEarlier(a, b *event) int {
	_, borrow := bits.Sub64(uint64(a.order), uint64(b.order), 0)
	_, borrow = bits.Sub64(uint64(a.at), uint64(b.at), borrow)
	return int(borrow)
}

// siftDown puts an event into the free root.
func (h *heap) siftDown(e event) {
	events := h.events
	i := 0
	for {
		child := 4*i + 1
		if child >= len(events) {
			break
		}
		var least int
		if child+4 <= len(events) && len(events) <= branchless {
			least = child + leastOfFour((*[4]event)(events[child:]))
		} else {
			least = child
			for c := child + 1; c < min(child+4, len(events)); c++ {
				if events[c].isBefore(&events[least]) {
					least = c
				}
			}
		}
		if !events[least].isBefore(&e) {
			break
		}
		events[i] = events[least]
		i = least
	}
	events[i] = e
}
