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
	Transport bth.Transport
	SrcQP     uint32
	SrcQPFrom qpmap.Source // 0: SrcQP is not known

	First, Last time.Time // the first request; the last packet, request or answer
	VLAN        uint16    // of the tag next to the IP header; 0 without
	DSCP        uint64    // bit n: DSCP n was seen
	ECN         [4]uint64 // packets by ECN field
	MTU         uint16    // path MTU in octets; 0 if not known

	// Requests, repeats and those with a wrong ICRC included.
	Packets       uint64
	IPOctets      uint64 // by the length fields of IP
	PayloadOctets uint64 // without pad
	ICRCWrong     uint64
	Truncated     uint64
	// Bits of IP packets a second: from the first request to the last, and in the
	// busiest 100 ms, or all of the time where that is shorter. 0 where there are
	// fewer than three, or no time between.
	Mean, Peak float64

	Messages [MessageKinds]Messages // by MessageKind

	Sequenced    bool // PSN and Causes mean something: not UD, not management
	PSN          PSN
	Causes       Repeats
	FirstTrouble uint64 // the first frame with a gap or a repeat; 0 without

	Answers
	Spacing time.Duration // the least between two CNPs; negative with fewer than two
	AfterCE *Histogram    // from the first CE since the CNP before to the CNP; nil without
	RTT     *Histogram    // as seen where the packets were captured; nil without

	Queue QueueDepth
}

// Messages counts the messages of one kind.
type Messages struct {
	Begun uint64 // the first packet was seen
	// Of these, the last one was seen, too, and nothing between is missing that no
	// answer covers; of READ and ATOMIC the last response was seen.
	Complete uint64
}

// PSN counts what the PSNs of a flow's requests show.
type PSN struct {
	First, Last uint32 // the lowest PSN of the first life, the last PSN that a request takes
	Lives       uint64 // how often the flow began: 1 and once more for each new one
	Gaps        uint64
	Missing     uint64 // PSNs that were passed over
	Late        uint64 // requests that filled a gap later
	Repeats     uint64
	Copies      uint64 // requests that a network copied, as far as Identifications of IPv4 tell; no repeats
	Unseen      uint64 // of the missing, those that the other side had received: the capture lost them
	Lost        uint64 // those that no answer covers
	Unjudged    uint64 // those of flows without an answer
}

// StayedMissing returns how many PSNs were passed over and never came: what came
// late is not among them.
func (p *PSN) StayedMissing() uint64 { return p.Unseen + p.Lost + p.Unjudged }

// Repeats counts repeats by their cause.
type Repeats struct{ NAK, RNR, Read, Timeout uint64 }

func (r *Repeats) add(c Cause) {
	switch c {
	case SequenceNAK:
		r.NAK++
	case RNR:
		r.RNR++
	case ReadRest:
		r.Read++
	default:
		r.Timeout++
	}
}

// QueueDepth is the deepest queue that an IOAM trace names.
type QueueDepth struct {
	Known bool
	Node  uint64
	Depth uint32 // in the unit of the node; Linux writes octets
}

// Unpaired counts packets that are about no flow that is known. The key is that
// of the packets themselves.
type Unpaired struct {
	rocev2.FlowKey
	WithQP bool // the packets name a queue pair
	Answers
}

// Link is what one source address said in PFC frames, and in PAUSE frames, which
// are about all priorities at once.
type Link struct {
	Src        net.HardwareAddr
	Priorities [8]Priority
	All        Priority
	Rate       uint64 // of the link, in bits a second
	Assumed    bool   // Rate is a guess: Config.LinkRate was not given
}

// Flows yields all flows of which a request was seen, in no order. Each Flow is a
// copy of its own, histograms and all. The table must not change meanwhile.
func (t *Table) Flows() iter.Seq[*Flow] {
	return func(yield func(*Flow) bool) {
		for id := range t.streams.All() {
			s := t.streams.At(id)
			if s.flow.packets == 0 {
				continue
			}
			var f Flow
			t.report(s, &f)
			own := f.clone()
			if !yield(&own) {
				return
			}
		}
	}
}

// report sets out from a stream with requests.
func (t *Table) report(s *stream, out *Flow) {
	f := &s.flow
	*out = Flow{
		FlowKey:       flowKey(t.key(s)),
		Transport:     f.transport,
		First:         moment(f.first),
		VLAN:          f.vlan,
		DSCP:          f.dscp,
		ECN:           f.ecn,
		MTU:           f.mtu,
		Packets:       f.packets,
		IPOctets:      f.ipOctets,
		PayloadOctets: f.payload,
		ICRCWrong:     f.icrcWrong,
		Truncated:     f.truncated,
		Messages:      f.messages,
		FirstTrouble:  f.trouble,
		Answers:       s.settled,
		Spacing:       -1,
		AfterCE:       t.histograms.at(f.cnps.afterCE),
		Queue:         QueueDepth{f.queue.known, f.queue.node, f.queue.depth},
	}
	out.Mean, out.Peak = f.rates()
	if f.cnps.spaced {
		out.Spacing = f.cnps.spacing
	}
	if sequenced(f.transport, t.key(s).QP) {
		out.Sequenced = true
		q, h := f.sequence, t.histories.at(f.history)
		out.PSN = q.judged(h)
		for kind, n := range q.cutNow(h) {
			m := &out.Messages[kind]
			m.Complete = min(m.Complete-min(m.Complete, uint64(n)), m.Begun)
		}
		out.PSN.First, out.PSN.Last = q.first, q.last()
		out.Causes = q.causes
	}
	p, with := &s.pairing, t.known(s)
	if with != nil {
		out.Answers.add(&with.answers)
	}
	switch {
	case p.srcQPBy != 0:
		out.SrcQP, out.SrcQPFrom = p.srcQP, p.srcQPBy
	case p.sourced && !p.several:
		out.SrcQP, out.SrcQPFrom = p.source, qpmap.UD
		k := t.key(s).Reversed(p.source)
		if back := t.find(&k); back != nil && t.about(back) == s {
			out.Answers.add(&back.answers)
		}
	}
	if h := t.histograms.at(f.rtt); h != nil && h.n > 0 && (with != nil || s.settled.any) {
		out.RTT = h
	}
	last := f.last
	if out.Answers.any {
		last = max(last, out.Answers.last)
	}
	out.Last = moment(last)
}

func moment(at int64) time.Time { return time.Unix(0, at).UTC() }

// Unpaired yields what is about no flow, in no order, under the same terms as
// Flows. What has the same key may come in several parts; a [Snapshot] has it as
// one.
func (t *Table) Unpaired() iter.Seq[*Unpaired] {
	return func(yield func(*Unpaired) bool) {
		for id := range t.streams.All() {
			if !t.unpaired(t.streams.At(id), yield) {
				return
			}
		}
	}
}

// unpaired yields what a stream has that is about no flow.
func (t *Table) unpaired(s *stream, yield func(*Unpaired) bool) bool {
	u := Unpaired{Answers: s.stray}
	u.add(&s.doubted)
	if !t.paired(s) {
		u.add(&s.answers)
	}
	if !t.yield(*t.key(s), &u, yield) {
		return false
	}
	// What names this flow, of which no request was seen.
	if e := t.earlies.at(s.early); e != nil && e.heard && s.flow.packets == 0 {
		return t.yield(e.from, &Unpaired{Answers: s.settled}, yield)
	}
	return true
}

func (t *Table) yield(k key, u *Unpaired, yield func(*Unpaired) bool) bool {
	if u.Total() == 0 {
		return true
	}
	u.FlowKey, u.WithQP = flowKey(&k), k.QP&withoutQP == 0
	return yield(u)
}

// paired says whether the answers in s belong to a flow that has a request.
func (t *Table) paired(s *stream) bool {
	about := t.known(s)
	if about == nil && s.pairing.from == 0 {
		about = t.about(s)
	}
	return about != nil && about.flow.packets > 0
}

// Links yields what was said in PFC and PAUSE frames, by source address.
func (t *Table) Links() iter.Seq[*Link] {
	return func(yield func(*Link) bool) {
		var macs [][6]byte
		for mac := range t.links {
			macs = append(macs, mac)
		}
		slices.SortFunc(macs, func(a, b [6]byte) int { return bytes.Compare(a[:], b[:]) })
		for _, mac := range macs {
			l := Link{Src: net.HardwareAddr(mac[:]), Rate: t.config.LinkRate, Assumed: t.assumed}
			for i, p := range t.links[mac] {
				if p.until(t.latest); i == allPriorities {
					l.All = p.Priority
				} else {
					l.Priorities[i] = p.Priority
				}
			}
			if !yield(&l) {
				return
			}
		}
	}
}

// Trouble says how much trouble a flow had, to put the worst first: packets
// that stayed missing or were repeated, refusals, CE marks, notifications, wrong
// ICRCs. Packets that came out of order are none.
func (f *Flow) Trouble() uint64 {
	return f.PSN.StayedMissing() + f.PSN.Repeats + f.ICRCWrong + f.ECN[3] + f.Answers.Total() - f.ACKs
}
