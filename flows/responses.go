package flows

import (
	"slices"
	"time"

	"github.com/rocecn/rocecn/bth"
)

// Responses counts the READ responses and ATOMIC Acknowledges that a queue pair sends to another:
// data like its requests. Responses with a wrong ICRC are included.
type Responses struct {
	ECN           [4]uint64 // responses by ECN field of the innermost IP header
	DSCP          uint64    // bit n: DSCP n was seen
	Packets       uint64
	IPOctets      uint64 // from the length fields of IP
	PayloadOctets uint64 // without padding
	ICRCWrong     uint64 // responses with a wrong ICRC
	Truncated     uint64 // responses truncated by the snapshot length or a network device
	First, Last   time.Time
	PSN           ResponsePSN
}

// ResponsePSN counts the results of following the PSNs of responses: each READ and ATOMIC request
// takes a range of PSNs, which its responses use in order. If the request was not captured, the range
// begins with the first response seen.
type ResponsePSN struct {
	Gaps          uint64 `json:"gaps"`
	Missing       uint64 `json:"missing"` // skipped PSNs, including those of Late
	Late          uint64 `json:"late"`    // responses that filled a gap later
	Retransmitted uint64 `json:"repeats"` // retransmitted responses
	Copies        uint64 `json:"copies"`  // as PSN.Copies
}

func (p *ResponsePSN) addCounts(o *ResponsePSN) {
	counts, more := p.counters(), o.counters()
	for i, n := range counts {
		*n += *more[i]
	}
}

func (p *ResponsePSN) counters() [5]*uint64 {
	return [...]*uint64{&p.Gaps, &p.Missing, &p.Late, &p.Retransmitted, &p.Copies}
}

// NeverSeen returns the number of skipped PSNs that were not seen later.
func (p *ResponsePSN) NeverSeen() uint64 { return p.Missing - min(p.Missing, p.Late) }

// Data counts the requests and the responses of a flow together.
type Data struct {
	Packets       uint64
	IPOctets      uint64 // from the length fields of IP
	PayloadOctets uint64 // without padding
	// CE is the number of packets that came with CE in any IP header and are ECN-capable (RFC 6040).
	CE uint64
	// Mean and Peak are rates of IP packets in bits per second, as Flow.Mean and Flow.Peak are of
	// requests. They are multiplied by Flow.Sampled if the capture is a sample.
	Mean, Peak float64
}

// responses is the state of [Responses].
type responses struct {
	Responses
	first, last int64
	peak        peak  // of requests and responses
	start       int64 // begin of its windows

	seen bool   // next is valid
	open bool   // the response before next does not end its READ
	next uint32 // PSN expected next
	gaps []span // at most maxResponseGaps

	idents idents
}

// maxResponseGaps is the number of gaps remembered for each flow. If there are more, the oldest is
// dropped, and a response that fills it later counts as a retransmission.
const maxResponseGaps = 32

// isResponse reports whether packets with the role are READ responses or ATOMIC Acknowledges.
func (r *opcodeRole) isResponse() bool { return r.kind == answerKind && !r.acknowledge }

// hasData reports whether requests or responses of a flow were captured, trimmed or not, or a switch
// reported that it discarded some.
func (f *flow) hasData() bool {
	return f.Packets > 0 || f.responses != 0 || f.Trimmed > 0 || f.discards != 0
}

// beginData prepares a stream for the first request or response of its flow.
func (t *Table) beginData(s *stream) {
	t.releaseEvidence(s.flow) // CNPs about another flow
	if e := t.earlies.lookUp(s.early); e != nil {
		e.notified = false // earlier notifications now count for the flow
	}
	t.names.addFlow(t.keyOfStream(s))
}

// recordResponse records a response, which is data of the stream's own flow.
func (t *Table) recordResponse(s *stream, p *Packet, frame uint64, at int64) {
	f := t.addFlow(s)
	if !f.hasData() {
		t.beginData(s)
	}
	begun := f.responses != 0
	r := t.responses.allocate(&f.responses)
	if !begun {
		r.first, r.start = at, at
		if f.Packets > 0 {
			r.peak, r.start = f.peak, f.first
		}
	}
	r.countPacket(p, at)
	if p.outer.set {
		t.countOuter(f, p)
	}
	f.countMark(p, at)
	if p.nHops > 0 {
		f.queue.raise(p.queue)
	}
	if f.Packets == 0 {
		f.Transport = p.pkt.Opcode.Transport()
		f.PCP |= p.pcp
		if p.pkt.SrcPort != f.SrcPort || p.vlan != f.VLAN || p.macs != f.macs {
			f.recordHeaders(p)
		}
		t.learnSource(s)
	}
	series := t.seriesOf(f)
	if series != nil {
		series.countRequest(p, at)
		t.totalAt(at).countRequest(p)
	}
	if e := t.evidenceOf(f); e != nil {
		t.recordData(s, e, p, frame, at)
	}
	begun = r.seen
	v, gap := t.judgeResponse(s, r, p)
	if begun {
		t.capture.sampling.addResponse(v, gap)
	}
	if series != nil && v != inOrder {
		if v != late {
			series.beginOnset(at)
		}
		for _, b := range series.talliesAt(at) {
			b.countVerdict(v, gap)
		}
		t.totalAt(at).countVerdict(v, gap)
	}
}

// learnSource sets the source queue pair of a flow of responses alone from its partner.
func (t *Table) learnSource(s *stream) {
	if partner := t.partnerOf(s); partner != nil && s.pairing.srcQPBy == 0 {
		s.pairing.srcQP, s.pairing.srcQPBy = t.keyOfStream(partner).QP&maxQP, s.pairing.basis
	}
}

// recordAsker records that the receiver of its partner's responses, which are not acknowledged, sent a
// READ or an ATOMIC in s.
func (t *Table) recordAsker(s *stream, frame uint64, at int64) {
	if partner := t.partnerOf(s); t.config.Evidence && partner != nil && partner.flow.responses != 0 {
		t.evidenceOf(partner.flow).recordReceiver(frame, at)
	}
}

// countPacket counts the fields that every response has.
func (r *responses) countPacket(p *Packet, at int64) {
	r.Packets++
	r.last = max(r.last, at)
	r.IPOctets += uint64(p.ipOctets)
	r.PayloadOctets += uint64(p.pkt.Payload)
	r.ECN[p.trafficClass&3]++
	r.DSCP |= 1 << (p.trafficClass >> 2)
	if p.icrcWrong {
		r.ICRCWrong++
	}
	if p.truncated {
		r.Truncated++
	}
	r.peak.addOctets(at-r.start, p.ipOctets)
}

// judgeResponse follows the PSN of a response. It returns the verdict and, for beyondGap, the number
// of skipped PSNs.
func (t *Table) judgeResponse(s *stream, r *responses, p *Packet) (v verdict, gap uint32) {
	f, role, psn := s.flow, &roles[p.pkt.Opcode], p.pkt.PSN
	end := bth.AddPSN(psn, 1)
	d := bth.ComparePSN(psn, r.next)
	again := d < 0 && d >= -connectionDistance
	if p.pkt.Flow.QP&overIPv4 != 0 {
		if r.seen && again && !r.inGap(psn) && r.idents.isCopy(psn, p.ident) {
			r.PSN.Copies++
			return inOrder, 0
		}
		r.idents.add(psn, p.ident)
	}
	if f.trimmings != 0 {
		t.retransmitTrimmed(f, 0, psn, 1)
	}
	switch {
	case !r.seen:
		r.gaps = r.gaps[:0]
		gap = t.skipFirst(s, r, psn)
	case !again && (d < 0 || d > connectionDistance):
		r.gaps = r.gaps[:0]
	case again && r.fillGap(psn):
		r.PSN.Late++
		return late, 0
	case again:
		r.PSN.Retransmitted++
		return retransmitted, 0
	case d > 0:
		gap = t.skipResponses(s, r, psn)
	}
	r.seen, r.next = true, end
	r.open = role.message == MessageRead && !role.lastResponse
	if gap == 0 {
		return inOrder, 0
	}
	r.PSN.Gaps++
	r.PSN.Missing += uint64(gap)
	return beyondGap, gap
}

// skipFirst adds the responses before the first one seen of a connection to the gaps, and returns their
// number. Their READs and ATOMICs were captured.
func (t *Table) skipFirst(s *stream, r *responses, p uint32) (n uint32) {
	partner := t.partnerOf(s)
	if partner == nil || partner.flow.history == 0 {
		return 0
	}
	first := p
	for _, a := range t.asksOf(t.histories.lookUp(partner.flow.history)).remembered() {
		if d := bth.ComparePSN(a.from, first); d < 0 && d > -connectionDistance {
			first = a.from
		}
	}
	r.next, r.open = first, false
	return t.skipResponses(s, r, p)
}

// skipResponses adds the responses that were skipped before PSN p to the gaps, and returns their
// number. PSNs of other requests in between have no responses. These are known from the READs and
// ATOMICs of the partner; a READ that was not captured reaches to the next one that was, or to p.
func (t *Table) skipResponses(s *stream, r *responses, p uint32) (n uint32) {
	var asked *asks
	partner := t.partnerOf(s)
	if partner != nil && partner.flow.history != 0 {
		asked = t.asksOf(t.histories.lookUp(partner.flow.history))
	}
	from := r.next
	if r.open {
		to := p
		for _, a := range asked.remembered() {
			if d := bth.ComparePSN(a.from, from); d <= 0 && bth.ComparePSN(a.to, from) > 0 {
				to = from // captured
				break
			} else if d > 0 && bth.ComparePSN(a.from, to) < 0 {
				to = a.from
			}
		}
		n += r.addGap(span{from, to})
		from = to
	}
	for a := range asked.inOrder() {
		to := a.to
		if partner.mtu == 0 && !a.atomic {
			to = bth.AddPSN(a.from, 1) // the length of its responses is not known
		}
		if bth.ComparePSN(a.from, from) > 0 {
			from = a.from
		}
		if bth.ComparePSN(to, p) > 0 {
			to = p
		}
		if bth.ComparePSN(to, from) > 0 {
			n += r.addGap(span{from, to})
			from = to
		}
	}
	return n
}

// addGap adds a span to the gaps, and returns its length.
func (r *responses) addGap(s span) uint32 {
	if s.length() == 0 {
		return 0
	}
	if len(r.gaps) == maxResponseGaps {
		r.gaps = slices.Delete(r.gaps, 0, 1)
	}
	r.gaps = append(r.gaps, s)
	return s.length()
}

func (r *responses) inGap(p uint32) bool {
	for _, h := range r.gaps {
		if h.contains(p) {
			return true
		}
	}
	return false
}

// fillGap removes PSN p from the gaps, and reports whether it was in one.
func (r *responses) fillGap(p uint32) bool {
	for i := len(r.gaps) - 1; i >= 0; i-- {
		h := r.gaps[i]
		if !h.contains(p) {
			continue
		}
		before, after := span{h.from, p}, span{bth.AddPSN(p, 1), h.to}
		switch {
		case before.length() > 0 && after.length() > 0:
			r.gaps[i] = before
			if len(r.gaps) < maxResponseGaps {
				r.gaps = slices.Insert(r.gaps, i+1, after)
			}
		case before.length() > 0:
			r.gaps[i] = before
		case after.length() > 0:
			r.gaps[i] = after
		default:
			r.gaps = slices.Delete(r.gaps, i, i+1)
		}
		return true
	}
	return false
}

// reportResponses returns the responses of a flow, with zero times if there are none.
func (t *Table) reportResponses(f *flow) Responses {
	r := t.responses.lookUp(f.responses)
	if r == nil {
		return Responses{}
	}
	out := r.Responses
	out.First, out.Last = timeOf(r.first), timeOf(r.last)
	return out
}

// reportData returns the requests and the responses of a flow together.
func (t *Table) reportData(f *flow) Data {
	d := Data{f.Packets, f.IPOctets, f.PayloadOctets, f.ECN[3], 0, 0}
	if o := t.outers.lookUp(f.outer); o != nil {
		d.CE += o.marked
	}
	first, last, peak := f.first, f.last, &f.peak
	if r := t.responses.lookUp(f.responses); r != nil {
		d.Packets += r.Packets
		d.IPOctets += r.IPOctets
		d.PayloadOctets += r.PayloadOctets
		d.CE += r.ECN[3]
		first, last, peak = min(r.start, r.first), max(last, r.last), &r.peak
	}
	d.Mean, d.Peak = rates(d.Packets, d.IPOctets, last-first, peak)
	if n := t.capture.sampling.oneIn(); n > 0 {
		d.Mean, d.Peak = d.Mean*float64(n), d.Peak*float64(n)
	}
	return d
}
