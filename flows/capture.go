package flows

import (
	"fmt"
	"maps"
	"time"

	"github.com/rocecn/rocecn/bth"
)

// A Capture describes the properties of a capture that affect the counts of flows. docs/flows.md lists
// the thresholds and their error rates.
type Capture struct {
	// Sampled is N if about 1 packet in N was captured, or 0 if all were. In a sample, PSN.Lost and
	// PSN.Unseen of all flows are 0, and PSN.Unjudged has their sum.
	Sampled uint64
	// EachTwice is set if at least 90 % of the packets came twice within 1 ms. The second copies count in
	// PSN.Copies and ResponsePSN.Copies only.
	EachTwice   bool
	TruncatedTo int // length of the longest truncated frame in octets; 0 if none was truncated
	// ClockSteps are the first 64 jumps of the clock by more than 1 s that the traffic contradicts.
	// Times before and after one are not compared.
	ClockSteps []ClockStep
	OutOfOrder uint64 // frames with a time before that of the previous frame, without clock steps
	OneWay     bool   // there are requests that need answers, and no answers between any two hosts
	Trimmed    uint64 // packets that a switch trimmed
	// Discarded counts the packets that switches discarded ([Table.ObserveDiscard]), by reason. After 64
	// reasons the others count as OtherReason.
	Discarded map[string]uint64
	RoCEv1    uint64 // packets of RoCEv1 (EtherType 0x8915), which are not analysed
	// Unread counts frames that could be RoCE and were not decoded, by the header at which decoding
	// stopped, such as "gre 0x1234". After 64 headers the others count as "other".
	Unread map[string]uint64
}

// A ClockStep is a jump of the clock before a frame.
type ClockStep struct {
	Frame uint64
	By    time.Duration // from the time of the previous frame to that of this one
}

// captureState is the state of a [Capture].
type captureState struct {
	fast      bool // packets are recorded as they come: see setPath
	clock     captureClock
	twins     twins
	sampling  sampling
	truncated uint32 // Capture.TruncatedTo
	trimmed   uint64
	discarded map[string]uint64
	roceV1    uint64
	unread    map[unreadHeader]uint64
	asked     bool // a request needs an answer
	answered  bool // an answer was matched
	// Addresses in each direction of requests of other shards, until an answer comes to one of them.
	foreign map[key]bool
}

// maxForeign is the number of addresses in foreign.
const maxForeign = 1 << 16

// observeForeign records a request or answer of another shard, for Capture.OneWay, which is about all
// hosts.
func (c *captureState) observeForeign(p *Packet) {
	if c.answered || !hasSequence(p.pkt.Opcode.Transport(), p.pkt.Flow.QP) {
		return
	}
	if p.kind != requestKind {
		if back := p.pkt.Flow.Reversed(0); c.foreign[back] {
			c.answered, c.foreign = true, nil
		}
		return
	}
	c.asked = c.asked || p.pkt.AckReq || roles[p.pkt.Opcode].asks
	if c.foreign == nil {
		c.foreign = map[key]bool{}
	}
	if k := p.pkt.Flow.WithQP(0); len(c.foreign) < maxForeign {
		c.foreign[k] = true
	}
}

// countFrame counts the properties of a frame that few frames have.
func (c *captureState) countFrame(p *Packet) {
	c.truncated = max(c.truncated, p.truncatedLen)
	switch {
	case p.unread == roceV1Header:
		c.roceV1++
	case p.unread != 0:
		if c.unread == nil {
			c.unread = map[unreadHeader]uint64{}
		}
		if _, known := c.unread[p.unread]; !known && len(c.unread) >= maxUnread {
			p.unread = otherHeaders
		}
		c.unread[p.unread]++
	}
}

// maxUnread is the number of headers in Capture.Unread, without "other".
const maxUnread = 64

// An unreadHeader is the header at which decoding of a frame stopped: a layer in the upper half and
// its type in the lower half. 0 means that the frame is no RoCE for certain.
type unreadHeader uint32

// The layers.
const (
	unreadEtherType unreadHeader = (1 + iota) << 16
	unreadIPProtocol
	unreadGRE
	unreadUDPPort
	otherHeaders
	roceV1Header = unreadEtherType | 0x8915
)

// String returns the text in Capture.Unread.
func (h unreadHeader) String() string {
	switch n := h & 0xFFFF; h &^ 0xFFFF {
	case unreadEtherType:
		return fmt.Sprintf("ethertype %#04x", int(n))
	case unreadIPProtocol:
		return fmt.Sprintf("ip protocol %d", n)
	case unreadGRE:
		return fmt.Sprintf("gre %#04x", int(n))
	case unreadUDPPort:
		return fmt.Sprintf("udp port %d", n)
	}
	return "other"
}

// reportCapture returns the report of the capture.
func (t *Table) reportCapture() Capture {
	c := &t.capture
	out := Capture{
		Sampled: c.sampling.oneIn(), EachTwice: c.twins.isEachTwice(), TruncatedTo: int(c.truncated),
		ClockSteps: append([]ClockStep(nil), c.clock.steps...), OutOfOrder: c.clock.outOfOrder, OneWay: t.isOneWay(),
		Trimmed: c.trimmed, Discarded: maps.Clone(c.discarded), RoCEv1: c.roceV1,
	}
	for h, n := range c.unread {
		if out.Unread == nil {
			out.Unread = map[string]uint64{}
		}
		out.Unread[h.String()] += n
	}
	return out
}

// subtractOld returns the capture with the counts since an older report.
func (c Capture) subtractOld(o *Capture) Capture {
	c.OutOfOrder -= o.OutOfOrder
	c.Trimmed -= o.Trimmed
	c.RoCEv1 -= o.RoCEv1
	c.ClockSteps = c.ClockSteps[len(o.ClockSteps):]
	c.Discarded, c.Unread = subtractNamed(c.Discarded, o.Discarded), subtractNamed(c.Unread, o.Unread)
	return c
}

// subtractNamed returns the differences of the counts that have grown, or nil.
func subtractNamed(now, old map[string]uint64) (out map[string]uint64) {
	for name, n := range now {
		if n -= old[name]; n > 0 {
			if out == nil {
				out = map[string]uint64{}
			}
			out[name] = n
		}
	}
	return out
}

// isOneWay reports whether there are requests that need an answer, and no answer between any two
// hosts came back. Answers with a wrong ICRC came back as well.
func (t *Table) isOneWay() bool {
	c := &t.capture
	if !c.asked || c.answered {
		return false
	}
	asking := map[key]bool{} // addresses of flows
	for id := range t.streams.All() {
		if s := t.streams.Value(id); s.flow.Packets > 0 && hasSequence(s.flow.Transport, t.keyOfStream(s).QP) {
			asking[t.keyOfStream(s).WithQP(0)] = true
		}
	}
	for id := range t.streams.All() {
		s := t.streams.Value(id)
		unmatched := s.unmatched()
		if s.answers != nil && s.answers.Total() > 0 || unmatched.Total() > 0 {
			if asking[t.keyOfStream(s).Reversed(0)] {
				c.answered = true
				return false
			}
		}
	}
	return true
}

// sampling is the evidence for a capture that has only a sample of the packets: gaps in all flows,
// as many as random samples have, and hardly any of them followed by a NAK or a retransmission.
type sampling struct {
	taken, missing uint64 // PSNs of captured requests and responses in order, and those between them
	intervals      uint64 // requests and responses after another one in their connection
	gaps           uint64 // of these, those after a gap
	recovered      uint64 // NAKs with the code PSN sequence error, retransmissions, and packets that filled a gap
	judged         uint64 // flows with enough requests to be judged
	withGaps       uint64 // of these, flows with gaps
}

// Thresholds of sampling, measured by TestSamplingErrors.
const (
	minSampledGaps   = 20
	maxSampledShare  = 0.6  // of the PSNs that were captured
	minSampledGapped = 0.8  // gaps, of those that random samples have on average
	maxRecovered     = 0.1  // of the gaps
	minSampledFlows  = 0.85 // flows with gaps, of those judged
	judgedRequests   = 24   // requests after which a flow is judged
	judgedGaps       = 4    // gaps that a flow of a sampled capture has by then
)

// addRequest counts a request with this verdict that takes n PSNs, after a gap of this length.
func (s *sampling) addRequest(v verdict, f *flow, begins bool, n, gap uint32) {
	if v >= late {
		s.recovered++
		return
	}
	if !begins {
		s.addPSNs(v, n, gap)
	}
	if f.Packets == judgedRequests {
		s.judged++
		if f.sequence.counts.Gaps >= judgedGaps {
			s.withGaps++
		}
	}
}

// addResponse counts a response with this verdict, after a gap of this length.
func (s *sampling) addResponse(v verdict, gap uint32) {
	if v >= late {
		s.recovered++
		return
	}
	s.addPSNs(v, 1, gap)
}

// addPSNs counts n PSNs of a packet in order or after a gap.
func (s *sampling) addPSNs(v verdict, n, gap uint32) {
	s.intervals++
	s.taken += uint64(n)
	if v == beyondGap {
		s.gaps++
		s.missing += uint64(gap)
	}
}

// addNAK counts an answer that is a NAK.
func (s *sampling) addNAK(r *reply) {
	if code, ok := r.syndrome.Code(); ok && r.syndromeType() == bth.SyndromeNAK && code == bth.NAKPSNSequence {
		s.recovered++
	}
}

// oneIn returns N if about 1 packet in N was captured, or 0.
func (s *sampling) oneIn() uint64 {
	share := float64(s.taken) / float64(s.taken+s.missing)
	switch gaps := float64(s.gaps); {
	case s.gaps < minSampledGaps, share > maxSampledShare,
		gaps < minSampledGapped*(1-share)*float64(s.intervals),
		float64(s.recovered) > maxRecovered*gaps,
		float64(s.withGaps) < minSampledFlows*float64(s.judged):
		return 0
	}
	return uint64(1/share + 0.5)
}
