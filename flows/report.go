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

// A Flow is what is known of a flow: the requests of one direction, and what
// came back about them.
type Flow struct {
	rocev2.FlowKey
	SrcQP     uint32
	SrcQPFrom qpmap.Basis // 0: SrcQP is not known

	Requests
	First, Last time.Time // the first request; the last packet, request or answer
	// Bits of IP packets a second: from the first request to the last, and in the
	// busiest 100 ms, or all of the time where that is shorter. 0 where there are
	// fewer than three, or no time between.
	Mean, Peak float64

	Sequenced bool // PSN and Causes mean something: not UD, not management
	PSN       PSN
	Causes    Retransmissions

	Answers
	Spacing time.Duration // the least between two CNPs; negative with fewer than two
	AfterCE *Histogram    // from the first CE since the CNP before to the CNP; nil without
	RTT     *Histogram    // as seen where the packets were captured; nil without

	Queue QueueDepth

	// Of the last request's frame, as captured; nil where that is not Ethernet.
	SrcMAC, DstMAC net.HardwareAddr
	// SharedPort is how many other flows of the snapshot have the same two addresses, in this direction, and the same
	// SrcPort, so that ECMP sends them all one way. Flows of management and those whose port varies share with none.
	SharedPort uint64

	Evidence *Evidence // nil without Config.Evidence
}

// Requests counts the requests of a flow, repeats and those with a wrong ICRC
// included. Message and Messages have the messages that they make up.
type Requests struct {
	Transport     bth.Transport
	VLAN          uint16 // of the tag next to the IP header; 0 without
	PCP           uint8  // bit n: PCP n was seen in that tag; 0 without tags
	SrcPort       uint16 // UDP, of the last request: what ECMP tells flows of two hosts apart by
	Varies        Varies
	MTU           uint16    // path MTU in octets; 0 if not known
	DSCP          uint64    // bit n: DSCP n was seen
	ECN           [4]uint64 // packets by ECN field
	Packets       uint64
	IPOctets      uint64 // by the length fields of IP
	PayloadOctets uint64 // without pad
	ICRCWrong     uint64
	Truncated     uint64
	FirstTrouble  uint64 // the first frame with a gap or a repeat; 0 without

	messages [messageKinds]Messages
}

// Varies says which of these were not the same in all requests of a flow. The values given are those of the last
// request; for VLAN, of the last one with a tag.
type Varies struct {
	VLAN, SrcPort, SrcMAC, DstMAC bool
}

// Message returns how many messages of a kind there were, by a pointer so that a program can make up a snapshot. For an
// unknown kind it points to counts of their own.
func (r *Requests) Message(k MessageKind) *Messages {
	if int(k) >= len(r.messages) {
		return new(Messages)
	}
	return &r.messages[k]
}

// Messages yields all kinds of messages, those that did not occur included.
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
	Begun uint64 `json:"begun"` // the first packet was seen
	// Of these, those whose last packet was seen too, and all between, unless an
	// answer covers what is missing; of READ and ATOMIC the last response was seen.
	Complete uint64 `json:"complete"`
}

// PSN counts what the PSNs of a flow's requests show.
type PSN struct {
	First         uint32 `json:"first"` // the lowest PSN of the first life
	Last          uint32 `json:"last"`  // the last PSN that a request takes
	Lives         uint64 `json:"-"`     // how often the flow began: 1 and once more for each new one
	Gaps          uint64 `json:"gaps"`
	Missing       uint64 `json:"missing"` // PSNs that were passed over
	Late          uint64 `json:"late"`    // requests that filled a gap later
	Retransmitted uint64 `json:"repeats"`
	Copies        uint64 `json:"copies"`   // requests that a network copied, as Identifications of IPv4 tell; no repeats
	Unseen        uint64 `json:"unseen"`   // of the missing, those that the other side received: the capture lost them
	Lost          uint64 `json:"lost"`     // those that no answer covers
	Unjudged      uint64 `json:"unjudged"` // those of flows without an answer
}

// NeverSeen returns how many PSNs were passed over and never came: what came
// late is not among them.
func (p *PSN) NeverSeen() uint64 { return p.Unseen + p.Lost + p.Unjudged }

// Retransmissions counts repeats by their cause.
type Retransmissions struct {
	NAK     uint64 `json:"nak"`     // SequenceNAK
	RNR     uint64 `json:"rnr"`     // RNR
	Read    uint64 `json:"read"`    // ReadRest
	Timeout uint64 `json:"timeout"` // Timeout
}

func (r *Retransmissions) addCounts(o *Retransmissions) {
	r.NAK += o.NAK
	r.RNR += o.RNR
	r.Read += o.Read
	r.Timeout += o.Timeout
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

// QueueDepth is the deepest queue that an IOAM trace names.
type QueueDepth struct {
	Node  uint64 `json:"node"`  // as ioam.Node.ID says
	Depth uint32 `json:"depth"` // in the unit of the node; Linux writes octets
	Known bool   `json:"-"`
}

// raise replaces q by another one that is deeper.
func (q *QueueDepth) raise(by QueueDepth) {
	if !q.Known || by.Depth > q.Depth {
		*q = by
	}
}

// Unpaired counts packets that are about no flow that is known. The key is that
// of the packets themselves.
type Unpaired struct {
	rocev2.FlowKey
	WithQP bool // the packets name a queue pair
	Answers
	CNP Sign // of the CNPs among them without a Fast CNP option; nothing without Config.Evidence
}

// Link is what one source address said in PFC frames, and in PAUSE frames, which
// are about all priorities at once.
type Link struct {
	Src        net.HardwareAddr             // of the frames
	Priorities [8]Priority                  // by PFC
	All        Priority                     // by PAUSE
	PauseSigns [AllPriorities + 1]PauseSign // the same by priority, and at AllPriorities those by PAUSE
	Rate       uint64                       // of the link, in bits a second
	Assumed    bool                         // Rate is a guess: Config.LinkRate was not given
}

// reportFlow returns what is known of the flow of a stream with requests.
func (t *Table) reportFlow(s *stream) Flow {
	f := &s.flow
	out := Flow{
		FlowKey: t.keyOfStream(s).FlowKey(), Requests: f.Requests, First: timeOf(f.first), Answers: s.settled, Spacing: -1,
		AfterCE: t.histograms.lookUp(f.cnps.afterCE).clone(), Queue: f.queue,
	}
	if e := t.evidences.lookUp(f.evidence); e != nil {
		out.Evidence = e.toEvidence(t.histograms.lookUp(e.pace.recovery).clone())
	}
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
		out.PSN.Last = bth.AddPSN(q.next, bth.MaxPSN)
		for kind, n := range q.cutNow(h) {
			m := &out.messages[kind]
			m.Complete = min(m.Complete-min(m.Complete, uint64(n)), m.Begun)
		}
	}
	p, with := &s.pairing, t.partnerOf(s)
	if with != nil {
		out.Answers.addCounts(&with.answers)
	}
	switch {
	case p.srcQPBy != 0:
		out.SrcQP, out.SrcQPFrom = p.srcQP, qpmap.Basis(p.srcQPBy)
	case p.hasSource && !p.manySources:
		out.SrcQP, out.SrcQPFrom = p.source, qpmap.BasisUD
		k := t.keyOfStream(s).Reversed(p.source)
		if back := t.findStream(&k); back != nil && t.streamAbout(back) == s {
			out.Answers.addCounts(&back.answers)
		}
	}
	if h := t.histograms.lookUp(f.rtt); h.Count() > 0 && (with != nil || s.settled.any) {
		out.RTT = h.clone()
	}
	last := f.last
	if out.Answers.any {
		last = max(last, out.Answers.last)
	}
	out.Last = timeOf(last)
	return out
}

func timeOf(at int64) time.Time { return time.Unix(0, at).UTC() }

// appendUnpaired appends what a stream has that is about no flow.
func (t *Table) appendUnpaired(all []Unpaired, s *stream) []Unpaired {
	add := func(k *key, a *Answers) {
		if a.Total() > 0 {
			all = append(all, Unpaired{FlowKey: k.FlowKey(), WithQP: k.QP&withoutQP == 0, Answers: *a})
		}
	}
	before := len(all)
	own := s.stray
	own.addCounts(&s.doubted)
	if !t.hasOwner(s) {
		own.addCounts(&s.answers)
	}
	add(t.keyOfStream(s), &own)
	if e := t.evidences.lookUp(s.flow.evidence); e != nil && s.flow.Packets == 0 && len(all) > before {
		all[before].CNP = e.signs[SignCNP].toSign()
	}
	// What names this flow, of which no request was seen.
	if e := t.earlies.lookUp(s.early); e != nil && e.notified && s.flow.Packets == 0 {
		add(&e.from, &s.settled)
	}
	return all
}

// hasOwner says whether the answers in s belong to a flow that has a request.
func (t *Table) hasOwner(s *stream) bool {
	about := t.ownerOf(s)
	return about != nil && about.flow.Packets > 0
}

// reportLinks returns what was said in PFC and PAUSE frames, by source address.
func (t *Table) reportLinks() (all []Link) {
	for mac, priorities := range t.links {
		l := Link{Src: mac[:], Rate: t.config.LinkRate, Assumed: t.assumed}
		for i, p := range priorities {
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

// Trouble says how much trouble a flow had, to put the worst first: packets
// that stayed missing or were repeated, refusals, CE marks, notifications, wrong
// ICRCs. Packets that came out of order are none.
func (f *Flow) Trouble() uint64 {
	return f.PSN.NeverSeen() + f.PSN.Retransmitted + f.ICRCWrong + f.ECN[3] + f.Answers.Total() - f.ACKs
}
