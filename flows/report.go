package flows

import (
	"bytes"
	"iter"
	"net"
	"slices"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// A Flow is the report of one flow: the requests and responses of one direction, and the answers and
// notifications about them. It may consist of responses alone: then Requests.Packets is 0.
type Flow struct {
	rocev2.FlowKey
	SrcQP     uint32
	SrcQPFrom qpmap.Basis // 0 if SrcQP is unknown

	Requests
	Responses Responses
	Outer     *Outer // nil if no packet came in a tunnel
	// TrimmedRecovered is the number of trimmed packets (Trimmed) that a NAK with their PSN or a
	// retransmission followed.
	TrimmedRecovered uint64
	// Discards are the packets that switches discarded, as their sFlow agents report; most packets first.
	Discards    []Discards
	Data        Data
	First, Last time.Time // first request or response, also a lost one; last request, response or answer
	// Mean and Peak are rates of the IP packets of requests in bits per second: the mean from the first
	// request, also a lost one, to the last, and the highest within 100 ms, at least Mean. Both are 0 if there
	// are fewer than three requests, or no time between them.
	Mean, Peak float64

	Sequenced bool // PSN, Causes and GaveUp are valid; false for UD and management
	PSN       PSN
	Causes    Retransmissions
	GaveUp    *GaveUp // nil unless the sender gave up
	Sampled   uint64  // Capture.Sampled: about 1 packet in Sampled was captured; 0 if all were

	Answers
	Spacing time.Duration // shortest time between two CNPs of any kind; negative with fewer than two
	AfterCE *Histogram    // time from the first CE mark since the previous CNP to a CNP; nil without values
	RTT     *Histogram    // round trip time at the capture point; nil without values
	// RTTFromRetransmitted is the number of values of RTT from retransmitted requests that were answered
	// as often as they were sent: each answer belongs to one copy.
	RTTFromRetransmitted uint64

	Queue QueueDepth // deepest queue in IOAM traces of the flow's packets and of Fast CNPs about it

	// SrcMAC and DstMAC are the MAC addresses of the last request as captured, or nil if it is not
	// Ethernet. In a flow of responses alone they are those of the last response.
	SrcMAC, DstMAC net.HardwareAddr
	// SharedPort is the number of other flows in the snapshot with the same source, destination and
	// SrcPort, which ECMP puts on the same path. Management flows and flows with varying ports are
	// not counted.
	SharedPort uint64

	Evidence *Evidence // nil without Config.Evidence
}

// Requests counts the requests of a flow, including retransmissions and requests with a wrong ICRC.
// [Requests.Message] and [Requests.Messages] return the messages. In a flow of responses alone,
// Transport, VLAN, PCP and SrcPort are those of the responses.
type Requests struct {
	Transport     bth.Transport
	VLAN          uint16 // ID in the innermost tag; 0 without a tag
	PCP           uint8  // bit n: PCP n was seen in that tag; 0 without tags
	SrcPort       uint16 // UDP source port of the last request, which ECMP uses to choose the path
	Varies        Varies
	MTU           uint16    // path MTU in octets; 0 if unknown
	DSCP          uint64    // bit n: DSCP n was seen
	ECN           [4]uint64 // requests by ECN field of the innermost IP header
	Packets       uint64
	IPOctets      uint64 // from the length fields of IP
	PayloadOctets uint64 // without padding
	ICRCWrong     uint64 // requests with a wrong ICRC
	Truncated     uint64 // requests truncated by the snapshot length or a network device
	Trimmed       uint64 // packets that a switch trimmed, requests and responses; not in Packets
	FirstTrouble  uint64 // number of the first frame after a gap or with a retransmission; 0 if there is none

	messages [messageKinds]Messages
}

// Varies reports which fields differ between the requests of a flow. Requests and Flow contain the
// values of the last request, and for VLAN those of the last one with a tag.
type Varies struct {
	VLAN, SrcPort, SrcMAC, DstMAC bool
}

// Message returns a pointer to the counts of a message kind, so that a program can also build a
// snapshot. For an unknown kind it points to counts that are not part of r.
func (r *Requests) Message(k MessageKind) *Messages {
	if int(k) >= len(r.messages) {
		return new(Messages)
	}
	return &r.messages[k]
}

// Messages yields every message kind with its counts, 0 included.
func (r *Requests) Messages() iter.Seq2[MessageKind, Messages] {
	return func(yield func(MessageKind, Messages) bool) {
		for k, m := range r.messages {
			if !yield(MessageKind(k), m) {
				return
			}
		}
	}
}

// Messages counts the messages of one kind.
type Messages struct {
	Begun uint64 `json:"begun"` // messages with a captured first packet
	// Complete counts those with a captured last packet and all packets in between captured or
	// acknowledged; for READ and ATOMIC the last response was captured.
	Complete uint64 `json:"complete"`
}

// PSN counts the results of following the PSNs of a flow's requests.
type PSN struct {
	First uint32 `json:"first"` // lowest PSN of the first connection
	Last  uint32 `json:"last"`  // last PSN taken by a request
	// Connections is the number of connections: 1, and one more for each time that connection management or
	// a PSN more than 65,536 from the expected one shows a new connection; 0 without requests.
	Connections   uint64 `json:"-"`
	Gaps          uint64 `json:"gaps"`
	Missing       uint64 `json:"missing"` // skipped PSNs, including those of Late
	Late          uint64 `json:"late"`    // requests that filled a gap later
	Retransmitted uint64 `json:"repeats"` // retransmitted requests
	// Copies are second packets that the sender did not send: copies by the network, recognized by the
	// IPv4 Identification, or with Capture.EachTwice copies by the capture, over IPv6 as well.
	Copies   uint64 `json:"copies"`
	Unseen   uint64 `json:"unseen"`   // skipped PSNs that the receiver acknowledged: not captured
	Lost     uint64 `json:"lost"`     // skipped PSNs not covered by an answer that came after later requests
	Unjudged uint64 `json:"unjudged"` // skipped PSNs after which no answer came, or all if the capture is a sample
}

// NeverSeen returns the number of skipped PSNs that were not seen later.
func (p *PSN) NeverSeen() uint64 { return p.Unseen + p.Lost + p.Unjudged }

// Retransmissions counts retransmissions by cause.
type Retransmissions struct {
	NAK     uint64 `json:"nak"`     // CauseSequenceNAK
	RNR     uint64 `json:"rnr"`     // CauseRNR
	Read    uint64 `json:"read"`    // CauseReadRest
	Timeout uint64 `json:"timeout"` // CauseTimeout
	// Spurious counts those of Timeout for requests that were answered as often as they were sent:
	// nothing was lost.
	Spurious uint64 `json:"spurious"`
}

func (r *Retransmissions) addCounts(o *Retransmissions) {
	r.NAK += o.NAK
	r.RNR += o.RNR
	r.Read += o.Read
	r.Timeout += o.Timeout
	r.Spurious += o.Spurious
}

func (r *Retransmissions) countCause(c RetransmissionCause) {
	switch c {
	case CauseSequenceNAK:
		r.NAK++
	case CauseRNR:
		r.RNR++
	case CauseReadRest:
		r.Read++
	default:
		r.Timeout++
	}
}

// QueueDepth is the depth of the deepest queue in IOAM traces. It is zero if Known is not set.
type QueueDepth struct {
	Node  uint64 `json:"node"`  // as returned by ioam.Node.ID
	Depth uint32 `json:"depth"` // in the unit of the node; Linux writes octets
	Known bool   `json:"-"`
}

// raise replaces q if by is deeper.
func (q *QueueDepth) raise(by QueueDepth) {
	if !q.Known || by.Depth > q.Depth {
		*q = by
	}
}

// Unpaired counts answers and notifications that could not be matched to a flow. Its FlowKey has their
// own source, destination and queue pair.
type Unpaired struct {
	rocev2.FlowKey
	WithQP bool // the packets have a queue pair number
	Answers
	// CNP has the CNPs without a Fast CNP option, Refused the NAKs with another code than PSN sequence
	// error, RNR the RNR NAKs, and WrongAnswer the answers with a wrong ICRC. All are zero without
	// Config.Evidence.
	CNP, Refused, RNR, WrongAnswer Sign
}

// Link counts the PFC frames and PAUSE frames from one source address. PAUSE frames affect all
// priorities.
type Link struct {
	Src        net.HardwareAddr             // of the frames
	Priorities [8]Priority                  // by PFC
	All        Priority                     // by PAUSE
	PauseSigns [AllPriorities + 1]PauseSign // by priority for PFC, and at AllPriorities for PAUSE
	Rate       uint64                       // link rate in bits per second
	// WithoutPriority is the number of PFC frames with a class enable vector of 0. They pause nothing.
	WithoutPriority uint64
	Assumed         bool // Config.LinkRate was 0, so Rate is assumed
}

// reportFlow returns the report of the flow of a stream that has data.
func (t *Table) reportFlow(s *stream) Flow {
	f := s.flow
	out := Flow{
		FlowKey: t.keyOfStream(s).FlowKey(), Requests: f.Requests, Responses: t.reportResponses(f),
		Data: t.reportData(f), Outer: t.reportOuter(f),
		First:   timeOf(f.first),
		Spacing: -1,
		AfterCE: t.histograms.lookUp(f.cnps.afterCE).clone(), Queue: f.queue,
	}
	out.MTU = s.mtu
	out.Answers.addCounts(s.settled)
	if e := t.evidences.lookUp(f.evidence); e != nil {
		out.Evidence = t.toEvidence(e)
		out.Evidence.Trimmings = t.trimmings.lookUp(f.trimmings).toTrimmings()
	}
	if r := t.trimmings.lookUp(f.trimmings); r != nil {
		out.TrimmedRecovered = r.recovered
	}
	out.Discards = t.discards.lookUp(f.discards).report()
	out.Sampled = t.capture.sampling.oneIn()
	out.Mean, out.Peak = f.meanAndPeak()
	if f.macs != [12]byte{} {
		out.DstMAC, out.SrcMAC = bytes.Clone(f.macs[:6]), bytes.Clone(f.macs[6:])
	}
	if f.cnps.spaced {
		out.Spacing = f.cnps.spacing
	}
	if hasSequence(f.Transport, t.keyOfStream(s).QP) {
		q, h := &f.sequence, t.histories.lookUp(f.history)
		out.Sequenced, out.PSN, out.Causes = true, q.countsNow(h), q.causes
		if q.seen {
			out.PSN.Last = bth.AddPSN(q.next, bth.MaxPSN)
		}
		if h != nil {
			r := t.retries.lookUp(h.retries)
			out.Causes.Spurious, out.RTTFromRetransmitted = r.spuriousNow(), r.timesNow()
		}
		out.GaveUp = t.gaveUp(f)
		t.judgeTrimmed(f, h, &out.PSN)
		if out.Sampled > 0 { // the missing packets are those that were not sampled, between others
			tail, tails := q.countTail()+uint64(q.tailPSNs), uint64(q.tails)
			if q.countTail() > 0 {
				tails++
			}
			out.PSN.Gaps -= tails
			out.PSN.Missing -= tail
			out.PSN.Unseen -= tail
			out.PSN.Unjudged += out.PSN.Unseen + out.PSN.Lost
			out.PSN.Unseen, out.PSN.Lost, out.GaveUp = 0, 0, nil
		}
		for kind, n := range q.countIncomplete(h) {
			m := &out.messages[kind]
			m.Complete = min(m.Complete-min(m.Complete, uint64(n)), m.Begun)
		}
	}
	p, partner := &s.pairing, t.partnerOf(s)
	if partner != nil {
		out.Answers.addCounts(partner.answers)
		if signs := t.answerSigns.lookUp(partner.answerSigns); signs != nil && out.Evidence != nil {
			if sign := signs[wrongAnswer].toSign(); sign.Count > 0 {
				*out.Evidence.Sign(SignWrongAnswer) = sign
			}
		}
	}
	switch {
	case p.srcQPBy != 0:
		out.SrcQP, out.SrcQPFrom = p.srcQP, qpmap.Basis(p.srcQPBy)
	case p.hasSource && !p.manySources:
		out.SrcQP, out.SrcQPFrom = p.source, qpmap.BasisUD
		k := t.keyOfStream(s).Reversed(p.source)
		if back := t.findStream(&k); back != nil && t.streamAbout(back) == s {
			out.Answers.addCounts(back.answers)
		}
	}
	if h := t.histograms.lookUp(f.rtt); h.Count() > 0 && (partner != nil || s.settled != nil && s.settled.any) {
		out.RTT = h.clone()
	} else {
		out.RTTFromRetransmitted = 0
	}
	last := f.last
	if f.responses != 0 {
		last = max(last, t.responses.lookUp(f.responses).last)
		if f.first == 0 || out.Responses.First.Before(out.First) {
			out.First = out.Responses.First
		}
	}
	if out.Answers.any {
		last = max(last, out.Answers.last)
	}
	out.Last = timeOf(last)
	return out
}

func timeOf(at int64) time.Time { return time.Unix(0, at).UTC() }

// appendUnpaired appends the answers of a stream that could not be matched to a flow.
func (t *Table) appendUnpaired(all []Unpaired, s *stream) []Unpaired {
	add := func(k *key, a *Answers) {
		if a != nil && a.Total() > 0 {
			all = append(all, Unpaired{FlowKey: k.FlowKey(), WithQP: k.QP&withoutQP == 0, Answers: *a})
		}
	}
	if s.answers == nil && s.others == nil && s.early == 0 {
		return all
	}
	before := len(all)
	own := s.unmatched()
	if !t.hasOwner(s) {
		own.addCounts(s.answers)
	}
	add(t.keyOfStream(s), &own)
	if e := t.evidences.lookUp(s.flow.evidence); e != nil && !s.flow.hasData() && len(all) > before {
		all[before].CNP = e.signs[SignCNP].toSign()
	}
	if signs := t.answerSigns.lookUp(s.answerSigns); signs != nil && len(all) > before {
		u := &all[before]
		u.Refused, u.RNR, u.WrongAnswer = signs[refusedAnswer].toSign(), signs[rnrAnswer].toSign(),
			signs[wrongAnswer].toSign()
	}
	// Notifications that name this flow, of which no data was captured.
	if e := t.earlies.lookUp(s.early); e != nil && e.notified && !s.flow.hasData() {
		add(&e.from, s.settled)
	}
	return all
}

// hasOwner reports whether the answers in s belong to a flow with data.
func (t *Table) hasOwner(s *stream) bool {
	about := t.ownerOf(s)
	return about != nil && about.flow.hasData()
}

// reportLinks returns the reports of all links by source address.
func (t *Table) reportLinks() (all []Link) {
	for mac, of := range t.links {
		l := Link{Src: mac[:], Rate: t.config.LinkRate, Assumed: t.assumed, WithoutPriority: of.none}
		for i, p := range of.priorities {
			p.countUntil(t.latest)
			l.PauseSigns[i] = PauseSign{p.sign.toSign(), time.Duration(max(p.longest, p.pausedFor(t.latest)))}
			if i == AllPriorities {
				l.All = p.Priority
			} else {
				l.Priorities[i] = p.Priority
			}
		}
		all = append(all, l)
	}
	slices.SortFunc(all, func(a, b Link) int { return bytes.Compare(a.Src, b.Src) })
	return all
}

// Trouble returns a score that orders flows from worst to best, 0 for a flow without trouble. It is the
// number of PSNs never seen, retransmissions, trimmed and discarded packets, packets with CE, NAKs,
// notifications, and packets with a wrong ICRC. Reordered packets do not count, nor PSNs never seen if the capture is a
// sample.
func (f *Flow) Trouble() uint64 {
	missing, r := f.PSN.NeverSeen()+f.Responses.PSN.NeverSeen(), &f.Responses
	if f.Sampled > 0 {
		missing = 0
	}
	for i := range f.Discards {
		missing += f.Discards[i].Packets
	}
	return missing + f.PSN.Retransmitted + f.Trimmed + f.ICRCWrong + r.PSN.Retransmitted + r.ICRCWrong + f.Data.CE +
		f.Answers.Total() - f.ACKs
}
