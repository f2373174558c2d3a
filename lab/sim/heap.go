package sim

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

// siftDown puts an event into the free root.
func (h *heap) siftDown(e event) {
	events := h.events
	i := 0
	for {
		child := 4*i + 1
		if child >= len(events) {
			break
		}
		least := child
		for c := child + 1; c < min(child+4, len(events)); c++ {
			if events[c].isBefore(&events[least]) {
				least = c
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
