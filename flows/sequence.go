package flows

import "github.com/rocecn/rocecn/bth"

// A sequence follows the PSNs of one flow's requests, and uses the answers to judge skipped PSNs.
// It is small because every flow has one. State that only flows with several requests need is in
// their history.
type sequence struct {
	next  uint32 // expected PSN of the next request
	slack uint32 // further PSNs that the previous READ may have taken, while the path MTU is unknown
	read  uint32 // PSN of that READ, if slack is not 0
	low   uint32 // lowest PSN of a request in this connection

	begun          bool        // next is known from a request of this connection or from CM
	seen           bool        // a request of this connection was seen
	running        bool        // the previous request belongs to a run of retransmissions described by history.naks
	open           bool        // the highest request does not end a message
	headless       bool        // the lowest request is within a message and the end of it was not seen
	headIncomplete MessageKind // 1 + kind of the lowest request's message if it is counted in incomplete; else 0
	cover          coverage    // by the answers of this connection

	// PSNs of dropped gaps that no answer covers yet, and those of them after which no answer came.
	// An answer that covers the PSN before forgottenTo covers all of them.
	forgotten, unanswered uint64
	forgottenTo           uint32
	gapFrame              uint64 // number of the frame after the newest gap

	// PSNs at the end of earlier connections that were acknowledged but not captured, and the number of these
	// connections: see countTail.
	tailPSNs, tails uint32

	counts PSN
	causes Retransmissions
	// Messages by kind with a captured last packet that cannot become complete.
	incomplete [messageKinds]uint32
}

// lifeDistance is the maximum distance between a request's PSN and the expected one in either
// direction. A request beyond it begins a new connection of the flow.
const connectionDistance = 1 << 16

// A verdict is the classification of a request by its PSN.
type verdict uint8

const (
	inOrder verdict = iota
	beyondGap
	late // filled a gap
	retransmitted
	// as retransmitted, but lower than all requests of the connection: the capture began after its first
	// transmission
	precedes
)

// isRetransmission reports whether a request was retransmitted.
func (v verdict) isRetransmission() bool { return v >= retransmitted }

// beginConnection sets the first PSN of the next connection, as CM announces it. If the request with that PSN
// is not seen, there is a gap.
func (s *sequence) beginConnection(psn uint32, h *history) {
	s.endConnection(h)
	s.begun, s.next = true, psn
}

// judgeRequest records a request with PSN p and role r that takes n PSNs, and possibly more.
func (s *sequence) judgeRequest(p, n, more uint32, r *opcodeRole, h *history) verdict {
	d := bth.ComparePSN(p, s.next)
	if !s.begun || d > connectionDistance || d < -connectionDistance {
		s.endConnection(h)
		s.begun, s.next, d = true, p, 0
	}
	if !s.seen {
		s.seen = true
		s.counts.Connections++
		if s.counts.Connections == 1 {
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
			missing := gap{span: span{bth.AddPSN(s.next, s.slack), p}, headMissing: !r.begins, open: s.open,
				last: noMessage}
			s.counts.Gaps++
			s.counts.Missing += uint64(missing.length())
			s.forgetGap(h.gaps.add(missing))
			v = beyondGap
		}
		s.next, s.slack, s.read = bth.AddPSN(p, n), more, p
		s.running, s.open = false, !r.ends
		if r.ends {
			s.endMessage(r.message, h)
		}
		h.forgetGaps(s)
		return v
	}
	if s.counts.Connections == 1 && bth.ComparePSN(p, s.counts.First) < 0 {
		s.counts.First = p
	}
	if h.gaps.contains(p) {
		s.counts.Late++
		givenUp, joined := h.gaps.fillSpan(span{p, bth.AddPSN(p, n)}, r)
		s.forgetGap(givenUp)
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
	if h != nil && h.gaps.n > 0 {
		if top := h.gaps.top(); top.last == noMessage {
			top.last = of
		}
	} else if s.headless {
		s.headEnds(of)
	}
}

// headEnds records the end of a message that began before the lowest request seen.
func (s *sequence) headEnds(of MessageKind) {
	s.headless = false
	if int(of) < messageKinds {
		s.headIncomplete = of + 1
		s.incomplete[of]++
	}
}

// recordEarlier records a request with role r that is lower than all others and takes the PSNs
// before end. If it begins the message of the lowest request, that message is no longer incomplete.
func (s *sequence) recordEarlier(end uint32, r *opcodeRole) {
	switch {
	case r.completes && !r.begins:
		s.incomplete[r.message]++
		s.headIncomplete = r.message + 1
	case end == s.low && !r.begins: // the message continues
	default:
		if end == s.low && !r.ends {
			if s.headIncomplete != 0 {
				s.incomplete[s.headIncomplete-1]--
			}
			s.headless = false
		}
		s.headIncomplete = 0
	}
}

// forgetGap judges a gap that is dropped.
func (s *sequence) forgetGap(one gap) {
	if one.length() == 0 {
		return
	}
	if s.isMessageIncomplete(&one) {
		s.incomplete[one.last]++
	}
	covered, rest := s.splitCovered(one.span)
	s.counts.Unseen += covered
	s.forgotten += rest
	if !one.answered {
		s.unanswered += rest
	}
	s.forgottenTo = one.to
}

// isMessageIncomplete reports whether the message that ends after a gap is incomplete. If the skipped
// PSNs belong to that message only and were acknowledged, it is complete.
func (s *sequence) isMessageIncomplete(one *gap) bool {
	if !one.headMissing || int(one.last) >= messageKinds {
		return false
	}
	_, rest := s.splitCovered(one.span)
	return !one.open || rest > 0
}

// splitCovered returns the number of PSNs in a gap that answers cover, and of the others.
func (s *sequence) splitCovered(missing span) (covered, rest uint64) {
	n := missing.length()
	c := uint32(0)
	if s.cover.any {
		c = min(uint32(max(bth.ComparePSN(s.cover.psn, missing.from)+1, 0)), n)
	}
	return uint64(c), uint64(n - c)
}

// forgetGaps drops the gaps that are out of reach: a request that fills one would begin a new
// connection.
func (h *history) forgetGaps(s *sequence) {
	for h != nil && h.gaps.n > 0 && bth.ComparePSN(s.next, h.gaps.all[0].to) > connectionDistance {
		s.forgetGap(h.gaps.pop())
	}
}

// recordCovered records that all PSNs up to c were received. It reports whether the PSN belongs to
// this connection.
func (s *sequence) recordCovered(c uint32) bool {
	if d := bth.ComparePSN(c, s.next); !s.begun || d > connectionDistance || d < -connectionDistance {
		return false
	}
	s.cover.raise(c)
	if d := bth.ComparePSN(c, s.next); d >= 0 && uint32(d) < s.slack { // a response to the last READ
		s.next = bth.AddPSN(c, 1)
		s.slack -= uint32(d) + 1
	}
	if s.forgotten > 0 && bth.ComparePSN(c, s.forgottenTo) >= -1 {
		s.counts.Unseen += s.forgotten
		s.forgotten, s.unanswered = 0, 0
	}
	return true
}

// recordAnswered records that an answer of this connection came in a frame: it shows that skipped PSNs
// which it does not cover were lost.
func (s *sequence) recordAnswered(frame uint64, h *history) {
	if frame > s.gapFrame {
		h.gaps.markAnswered()
		s.unanswered = 0
	}
}

// isCovered reports whether an answer covers PSN p.
func (s *sequence) isCovered(p uint32) bool {
	return s.cover.any && bth.ComparePSN(p, s.cover.psn) <= 0
}

// resolveSlack assigns the PSNs before end to the previous READ, as far as it may have taken them.
func (s *sequence) resolveSlack(end uint32) {
	if d := bth.ComparePSN(end, s.next); d > 0 {
		s.next = bth.AddPSN(s.next, min(uint32(d), s.slack))
	}
	s.slack = 0
}

// countsNow returns the counts, with the remaining gaps judged by the answers seen so far. A gap
// is lost only if an answer after it shows that.
func (s *sequence) countsNow(h *history) PSN {
	c := s.counts
	c.Lost += s.forgotten - s.unanswered
	c.Unjudged += s.unanswered
	if h != nil {
		for _, one := range h.gaps.all[:h.gaps.n] {
			covered, open := s.splitCovered(one.span)
			c.Unseen += covered
			if one.answered {
				c.Lost += open
			} else {
				c.Unjudged += open
			}
		}
	}
	if n := s.countTail(); n > 0 {
		c.Gaps++
		c.Missing += n
		c.Unseen += n
	}
	return c
}

// countTail returns the number of the last PSNs that are acknowledged but not captured, without the slack of the
// last READ.
func (s *sequence) countTail() uint64 {
	if !s.cover.any {
		return 0
	}
	return uint64(max(bth.ComparePSN(s.cover.psn, bth.AddPSN(s.next, s.slack))+1, 0))
}

// countIncomplete returns the number of incomplete messages with a captured last packet.
func (s *sequence) countIncomplete(h *history) [messageKinds]uint32 {
	cut := s.incomplete
	if h != nil {
		for i := range h.gaps.all[:h.gaps.n] {
			if one := &h.gaps.all[i]; s.isMessageIncomplete(one) {
				cut[one.last]++
			}
		}
	}
	return cut
}

// endConnection makes the counts of the current connection final and resets its state.
func (s *sequence) endConnection(h *history) {
	if n := s.countTail(); s.begun && n > 0 {
		s.tailPSNs += uint32(n)
		s.tails++
	}
	if s.begun {
		s.counts, s.incomplete = s.countsNow(h), s.countIncomplete(h)
	}
	if s.seen {
		s.counts.Last = bth.AddPSN(s.next, bth.MaxPSN)
	}
	*s = sequence{counts: s.counts, causes: s.causes, incomplete: s.incomplete, tailPSNs: s.tailPSNs, tails: s.tails}
	if h != nil {
		h.resetConnection()
	}
}
