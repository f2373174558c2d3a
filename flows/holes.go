package flows

import "github.com/rocecn/rocecn/bth"

// A span is a run of PSNs: from the first up to the one before to.
type span struct{ from, to uint32 }

func (s span) length() uint32 { return uint32(bth.ComparePSN(s.to, s.from)) }

func (s span) contains(p uint32) bool {
	return bth.ComparePSN(p, s.from) >= 0 && bth.ComparePSN(p, s.to) < 0
}

// A hole is PSNs that were passed over and not seen since, and what the packets
// around them say of the messages that they belong to.
type hole struct {
	span
	headMissing bool        // the packet behind it does not begin a message
	open        bool        // the packet before it does not end one
	last        MessageKind // of the first packet behind it, and before the next hole, that ends a message; noKind without
}

// maxHoles is how many holes of a flow are remembered. When there are more, the
// oldest is given up: what fills it later counts as a repeat.
const maxHoles = 64

// holes are the holes of a life, the lowest first.
type holes struct {
	all [maxHoles]hole
	n   int
}

// add remembers a hole beyond all others, and returns what it had to give up.
func (h *holes) add(one hole) (givenUp hole) {
	if h.n == maxHoles {
		givenUp = h.pop()
	}
	h.all[h.n] = one
	h.n++
	return givenUp
}

// pop gives up the lowest hole.
func (h *holes) pop() hole {
	lowest := h.all[0]
	h.n--
	copy(h.all[:h.n], h.all[1:])
	return lowest
}

// top returns the highest hole, nil without one.
func (h *holes) top() *hole {
	if h.n == 0 {
		return nil
	}
	return &h.all[h.n-1]
}

// contains says whether p is in a hole.
func (h *holes) contains(p uint32) bool {
	for i := h.n - 1; i >= 0; i-- {
		if h.all[i].contains(p) {
			return true
		}
	}
	return false
}

// fillSpan takes the PSNs of a request with role r out of all holes. Where one splits
// in two and there is no room for both, the lowest hole is given up and returned.
// Where no hole is left before the request, the packets at the beginning of the
// life go on with it and what stands behind it: joined is the kind of the first
// packet there that ends a message, noKind without one.
func (h *holes) fillSpan(s span, r *opcodeRole) (givenUp hole, joined MessageKind) {
	before := *h
	h.n, joined = 0, noMessage
	keep := func(one hole) {
		if lowest := h.add(one); lowest.length() > 0 {
			givenUp = lowest
		}
	}
	for _, one := range before.all[:before.n] {
		if bth.ComparePSN(s.from, one.to) >= 0 || bth.ComparePSN(s.to, one.from) <= 0 { // apart
			keep(one)
			continue
		}
		left, right := one, one
		left.to, right.from = s.from, s.to
		right.open = !r.ends
		rest := bth.ComparePSN(right.to, right.from) > 0
		last := noMessage
		switch {
		case r.ends:
			last = r.message
		case !rest:
			last = one.last
		}
		switch {
		case bth.ComparePSN(left.to, left.from) > 0:
			left.headMissing, left.last = !r.begins, last
			keep(left)
		case h.n == 0:
			joined = last
		case h.top().last == noMessage:
			h.top().last = last
		}
		if rest {
			keep(right)
		}
	}
	return givenUp, joined
}
