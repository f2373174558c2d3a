package flows

import "github.com/rocecn/rocecn/bth"

// A span is a range of PSNs; to is exclusive.
type span struct{ from, to uint32 }

func (s span) length() uint32 { return uint32(bth.ComparePSN(s.to, s.from)) }

func (s span) contains(p uint32) bool {
	return bth.ComparePSN(p, s.from) >= 0 && bth.ComparePSN(p, s.to) < 0
}

// A gap is a range of skipped PSNs that were not seen since, with the message boundaries around
// it.
type gap struct {
	span
	answered    bool // an answer came after the packet after it
	headMissing bool // the packet after it does not begin a message
	open        bool // the packet before it does not end a message
	// kind of the first message that ends between this gap and the next; noMessage if none does
	last MessageKind
}

// maxGaps is the number of gaps remembered for each flow. If there are more, the oldest is
// dropped, and a packet that fills it later counts as a retransmission.
const maxGaps = 64

// A gapList has the gaps of a connection, the lowest first.
type gapList struct {
	all []gap // grows to maxGaps as needed
	n   int
}

// add appends a gap after all others, and returns the gap dropped for it.
func (h *gapList) add(one gap) (givenUp gap) {
	if h.n == maxGaps {
		givenUp = h.pop()
	}
	if h.n == len(h.all) {
		h.all = append(h.all, one)
	}
	h.all[h.n] = one
	h.n++
	return givenUp
}

// pop removes the lowest gap.
func (h *gapList) pop() gap {
	lowest := h.all[0]
	h.n--
	copy(h.all[:h.n], h.all[1:])
	return lowest
}

// top returns the highest gap, or nil.
func (h *gapList) top() *gap {
	if h.n == 0 {
		return nil
	}
	return &h.all[h.n-1]
}

// markAnswered records that an answer came after the packets after all gaps. Gaps below an answered
// one are answered.
func (h *gapList) markAnswered() {
	for i := h.n - 1; i >= 0 && !h.all[i].answered; i-- {
		h.all[i].answered = true
	}
}

// contains reports whether p is in a gap.
func (h *gapList) contains(p uint32) bool {
	for i := h.n - 1; i >= 0; i-- {
		if h.all[i].contains(p) {
			return true
		}
	}
	return false
}

// fillSpan removes the PSNs of a request with role r from all gaps. If a gap splits in two and
// there is no room for both, the lowest gap is dropped and returned. If no gap is left before the
// request, joined is the kind of the first message that ends after it, or noMessage.
func (h *gapList) fillSpan(s span, r *opcodeRole) (givenUp gap, joined MessageKind) {
	var before [maxGaps]gap
	n := copy(before[:], h.all[:h.n])
	h.n, joined = 0, noMessage
	keep := func(one gap) {
		if lowest := h.add(one); lowest.length() > 0 {
			givenUp = lowest
		}
	}
	for _, one := range before[:n] {
		if bth.ComparePSN(s.from, one.to) >= 0 || bth.ComparePSN(s.to, one.from) <= 0 { // disjoint
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
