package flows

import "github.com/rocecn/rocecn/bth"

// A sequence follows the PSNs of one flow's requests, and judges by the answers what
// became of those that were never seen. It is small, as every flow has one; what only
// flows of several requests need is in their history.
type sequence struct {
	next  uint32 // the PSN that the next request is to have
	slack uint32 // how many more the READ before it may have taken, as its path MTU is not known
	read  uint32 // the PSN of that READ, if slack is above 0
	low   uint32 // the lowest PSN of a request in this life

	begun    bool        // next is known: by a request of this life, or by a CM exchange
	seen     bool        // a request of this life was seen
	answered bool        // something came back in this life
	running  bool        // the request before belongs to a run of repeats, which the history's refusals describe
	open     bool        // the highest request does not end a message
	headless bool        // the lowest request does not begin a message, and no packet was seen that ends it
	headCut  MessageKind // 1 + the kind of the message that the lowest request belongs to, if cut counts that; else 0
	cover    coverage    // by the answers of this life

	// PSNs of holes that are not remembered any more: nothing can fill them, but
	// answers can still cover them, and do if they cover the one before forgottenTo.
	forgotten   uint64
	forgottenTo uint32

	counts PSN
	causes Retransmissions
	// Messages whose last packet was seen, but not all before it, by kind: those
	// that will not be complete any more.
	incomplete [messageKinds]uint32
}

// lifeDistance is how far from the PSN expected next, either way, a request
// may be: one beyond it begins a new life of the flow.
const lifeDistance = 1 << 16

// A verdict is what a request is to the sequence.
type verdict uint8

const (
	inOrder verdict = iota
	beyondGap
	late // late
	retransmitted
	precedes // repeated, as it seems, but before all that was seen of the life: the capture began behind it
)

// isRetransmission says whether a request was sent again.
func (v verdict) isRetransmission() bool { return v >= retransmitted }

// beginLife says which PSN the next life begins with, as connection management
// named it: when the request that takes it is not seen, that is a gap.
func (s *sequence) beginLife(psn uint32, h *history) {
	s.endLife(h)
	s.begun, s.next = true, psn
}

// judgeRequest records a request with PSN p and role r, which takes n PSNs, and
// perhaps as many more, as far as is known.
func (s *sequence) judgeRequest(p, n, more uint32, r *opcodeRole, h *history) verdict {
	d := bth.ComparePSN(p, s.next)
	if !s.begun || d > lifeDistance || d < -lifeDistance {
		s.endLife(h)
		s.begun, s.next, d = true, p, 0
	}
	if !s.seen {
		s.seen = true
		s.counts.Lives++
		if s.counts.Lives == 1 {
			s.counts.First = p
		}
		s.low = p
		if d == 0 {
			s.headless = !r.begins
		}
	}
	if d >= 0 {
		v := inOrder
		if uint32(d) > s.slack {
			missing := hole{span: span{bth.AddPSN(s.next, s.slack), p}, headMissing: !r.begins, open: s.open, last: noMessage}
			s.counts.Gaps++
			s.counts.Missing += uint64(missing.length())
			s.forgetHole(h.holes.add(missing))
			v = beyondGap
		}
		s.next, s.slack, s.read = bth.AddPSN(p, n), more, p
		s.running, s.open = false, !r.ends
		if r.ends {
			s.endMessage(r.message, h)
		}
		h.forgetHoles(s)
		return v
	}
	if s.counts.Lives == 1 && bth.ComparePSN(p, s.counts.First) < 0 {
		s.counts.First = p
	}
	if h.holes.contains(p) {
		s.counts.Late++
		givenUp, joined := h.holes.fillSpan(span{p, bth.AddPSN(p, n)}, r)
		s.forgetHole(givenUp)
		if joined != noMessage && s.headless {
			s.headEnds(joined)
		}
		if bth.ComparePSN(p, s.low) < 0 {
			s.low = p
		}
		return late
	}
	end := bth.AddPSN(p, n)
	if bth.ComparePSN(end, s.next) > 0 {
		s.next, s.slack = end, 0
	}
	if bth.ComparePSN(p, s.low) < 0 {
		s.recordEarlier(end, r)
		s.low = p
		return precedes
	}
	return retransmitted
}

// endMessage records that the highest request ends a message.
func (s *sequence) endMessage(of MessageKind, h *history) {
	if h != nil && h.holes.n > 0 {
		if top := h.holes.top(); top.last == noMessage {
			top.last = of
		}
	} else if s.headless {
		s.headEnds(of)
	}
}

// headEnds records the end of the message whose first packets were sent before the
// lowest request that was seen.
func (s *sequence) headEnds(of MessageKind) {
	s.headless = false
	if int(of) < messageKinds {
		s.headCut = of + 1
		s.incomplete[of]++
	}
}

// recordEarlier records a request with role r before all that was seen, which takes
// the PSNs before end. If it begins the message that the lowest request belongs
// to, that is no longer cut.
func (s *sequence) recordEarlier(end uint32, r *opcodeRole) {
	switch {
	case r.completes && !r.begins:
		s.incomplete[r.message]++
		s.headCut = r.message + 1
	case end == s.low && !r.begins: // the message goes on
	default:
		if end == s.low && !r.ends {
			if s.headCut != 0 {
				s.incomplete[s.headCut-1]--
			}
			s.headless = false
		}
		s.headCut = 0
	}
}

// forgetHole gives up a hole.
func (s *sequence) forgetHole(one hole) {
	if one.length() == 0 {
		return
	}
	if s.isMessageCut(&one) {
		s.incomplete[one.last]++
	}
	covered, rest := s.splitCovered(one.span)
	s.counts.Unseen += covered
	s.forgotten += rest
	s.forgottenTo = one.to
}

// isMessageCut says whether the message that ends behind a hole is not complete. If what
// is missing belongs to that message alone and was received, as far as can be
// seen, it is complete.
func (s *sequence) isMessageCut(one *hole) bool {
	if !one.headMissing || int(one.last) >= messageKinds {
		return false
	}
	_, rest := s.splitCovered(one.span)
	return !one.open || rest > 0
}

// splitCovered returns how many PSNs of a hole an answer covers, and how many none.
func (s *sequence) splitCovered(hole span) (covered, rest uint64) {
	n := hole.length()
	c := uint32(0)
	if s.cover.any {
		c = min(uint32(max(bth.ComparePSN(s.cover.psn, hole.from)+1, 0)), n)
	}
	return uint64(c), uint64(n - c)
}

// forgetHoles gives up the holes that are out of reach: a request that filled one
// would be the first of a new life.
func (h *history) forgetHoles(s *sequence) {
	for h != nil && h.holes.n > 0 && bth.ComparePSN(s.next, h.holes.all[0].to) > lifeDistance {
		s.forgetHole(h.holes.pop())
	}
}

// recordCovered records that everything up to PSN c was received.
func (s *sequence) recordCovered(c uint32) {
	s.answered = true
	if d := bth.ComparePSN(c, s.next); !s.begun || d > lifeDistance || d < -lifeDistance {
		return // of another life
	}
	s.cover.raise(c)
	if d := bth.ComparePSN(c, s.next); d >= 0 && uint32(d) < s.slack { // a response of the last READ
		s.next = bth.AddPSN(c, 1)
		s.slack -= uint32(d) + 1
	}
	if s.forgotten > 0 && bth.ComparePSN(c, s.forgottenTo) >= -1 {
		s.counts.Unseen += s.forgotten
		s.forgotten = 0
	}
}

// isCovered says whether an answer covers PSN p.
func (s *sequence) isCovered(p uint32) bool {
	return s.cover.any && bth.ComparePSN(p, s.cover.psn) <= 0
}

// resolveSlack says which of the PSNs that the READ before may have taken are its
// own: those before end, if that is possible.
func (s *sequence) resolveSlack(end uint32) {
	if d := bth.ComparePSN(end, s.next); d > 0 {
		s.next = bth.AddPSN(s.next, min(uint32(d), s.slack))
	}
	s.slack = 0
}

// countsNow returns the counts with what became of the holes that nothing filled,
// as far as this life has come.
func (s *sequence) countsNow(h *history) PSN {
	c := s.counts
	rest := s.forgotten
	if h != nil {
		for _, one := range h.holes.all[:h.holes.n] {
			covered, open := s.splitCovered(one.span)
			c.Unseen += covered
			rest += open
		}
	}
	if s.answered {
		c.Lost += rest
	} else {
		c.Unjudged += rest
	}
	if s.cover.any {
		// The last packets: covered, but never seen. What the last READ may have
		// taken is none of them.
		if d := bth.ComparePSN(s.cover.psn, bth.AddPSN(s.next, s.slack)); d >= 0 {
			n := uint64(d) + 1
			c.Gaps++
			c.Missing += n
			c.Unseen += n
		}
	}
	return c
}

// cutNow returns how many messages whose last packet was seen are not complete.
func (s *sequence) cutNow(h *history) [messageKinds]uint32 {
	cut := s.incomplete
	if h != nil {
		for i := range h.holes.all[:h.holes.n] {
			if one := &h.holes.all[i]; s.isMessageCut(one) {
				cut[one.last]++
			}
		}
	}
	return cut
}

// endLife judges the present life for good and forgets what is known of it.
func (s *sequence) endLife(h *history) {
	if s.begun {
		s.counts, s.incomplete = s.countsNow(h), s.cutNow(h)
	}
	*s = sequence{counts: s.counts, causes: s.causes, incomplete: s.incomplete}
	if h != nil {
		h.resetLife()
	}
}
