package flows

import (
	"math"
	"slices"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/enumtext"
	"github.com/rocecn/rocecn/rocev2"
)

// A Series is how a flow went over time: bins, the narrower the shorter it was and
// narrow where its trouble began, and exact times of what happened. See
// Config.Series.
type Series struct {
	Start time.Time // of the first bin: the first request
	End   time.Time // when the last thing happened that is in a bin
	Bins  []Bin     // one after another, without a space between them
	Marks []Mark    // the first ones, those of answers as soon as it was known that they are about the flow
	More  uint64    // marks that there was no room for; the bins count what they say
	Nodes []NodeSeries
}

// A Mark is something that a request showed, or an answer said.
type Mark struct {
	Kind  MarkKind
	Cause RepeatCause // of a repeat
	NAK   bth.NAKCode // of a NAK
	Frame uint64
	Time  time.Time
	PSN   uint32 // of a gap the first that is missing, of a NAK the one refused, of a notification 0
	Count uint32 // PSNs that are missing; requests that repeat one after another; else 1
	Line  int64  // how far PSN is from that of the first request of the life
}

// MarkKind says what a mark is.
type MarkKind uint8

// The kinds of marks.
const (
	MarkGap     MarkKind = iota // PSNs were passed over
	MarkLate                    // a request filled a gap
	MarkRepeat                  // a request repeated one before it
	MarkLife                    // a new life began
	MarkNAK                     // a NAK came
	MarkRNR                     // an RNR NAK
	MarkCNP                     // a CNP of the receiver
	MarkFastCNP                 // a CNP with a Fast CNP option
	MarkPPFC                    // a PPFC notification
	MarkFCN                     // an FCN, for the ingress PE
	MarkProxy                   // a message for a proxy of the sender
)

var markNames = [...]string{"gap", "late", "repeat", "life", "nak", "rnr", "cnp", "fast", "ppfc", "fcn", "proxy"}

// String returns the kind in a word: gap, late, repeat, life, nak, rnr, cnp, fast,
// ppfc, fcn or proxy.
func (k MarkKind) String() string { return enumtext.Name(k, markNames[:], "MarkKind") }

// A NodeSeries is how deep the queue of a node was, in parts of the time that are
// equally wide.
type NodeSeries struct {
	Node  uint64 // as ioam.Node.ID says
	Width time.Duration
	Depth []uint32 // the deepest, in the unit of the node
	Known []bool   // a trace named the depth
}

// What is kept of each flow, as long as there is room.
const (
	seriesBins  = 256 // of all of the time, and as many from the trouble on
	coarseBins  = 32  // of all of the time, where there is no room for more
	seriesMarks = 128 // of these, at most half for what answers said
	maxNodes    = 6
	onsetWidth  = 8000 // nanoseconds: how wide bins from the trouble on may become
)

// For how many flows there is room, as Config.Series says.
const (
	maxFine   = 1 << 13
	maxMarked = 1 << 14
	maxQueued = 1 << 10
)

// serieses are the series of all flows.
type serieses struct {
	of      pool[series]
	fine    pool[[seriesBins]Tally]
	coarse  pool[[coarseBins]Tally]
	onsets  pool[[seriesBins]Tally]
	marks   pool[[seriesMarks]Mark]
	queues  pool[queues]
	maxFine uint32 // how many of fine, and of onsets
}

// begin begins a series, at a time in nanoseconds since 1970, and sets its id.
func (all *serieses) begin(id *uint32, at int64) *series {
	s := all.of.of(id)
	s.all = all
	if all.fine.used() < all.maxFine {
		s.bins = newBins(at, 0, all.fine.of(&s.fine)[:])
	} else {
		s.bins = newBins(at, 0, all.coarse.of(&s.coarse)[:])
	}
	return s
}

// give takes back the series with an id, if there is one.
func (all *serieses) give(id *uint32) {
	if s := all.of.at(*id); s != nil {
		all.fine.give(&s.fine)
		all.coarse.give(&s.coarse)
		all.onsets.give(&s.onsetID)
		all.marks.give(&s.marksID)
		all.queues.give(&s.queuesID)
	}
	all.of.give(id)
}

// A series is a [Series] that grows.
type series struct {
	all         *serieses
	bins, onset bins // onset: from the first trouble on, as far as it reaches
	end         int64
	marks       []Mark
	said        int // of these, what answers said
	more        uint64

	fine, coarse, onsetID, marksID, queuesID uint32 // in the pools

	seen bool   // a request whose PSN counts
	psn  uint32 // of the request before
	line int64  // where that is
	void Tally  // what is counted where no bin is
}

// at returns where something is counted that happened at a time.
func (s *series) at(at int64) (both [2]*Tally) {
	both = [...]*Tally{&s.bins.tallies[s.bin(at)], &s.void}
	if s.onsetID != 0 {
		if i := s.onset.index(at); i >= 0 {
			both[1] = &s.onset.tallies[i]
		}
	}
	return both
}

// bin returns the number of the bin of a time.
func (s *series) bin(at int64) int {
	width := s.bins.width
	i := s.bins.index(at)
	if q := s.all.queues.at(s.queuesID); q != nil {
		for ; width < s.bins.width; width *= 2 {
			q.widen(len(s.bins.tallies))
		}
	}
	s.end = max(s.end, at)
	return i
}

// trouble begins the bins from the trouble on, if it is the first. They begin with
// one of the widest of them, so that none reaches into two of the others.
func (s *series) trouble(at int64) {
	if s.onsetID != 0 || s.all.onsets.used() >= s.all.maxFine {
		return
	}
	start := at - max(at-s.bins.start, 0)%onsetWidth
	s.onset = newBins(max(start, s.bins.start), onsetWidth, s.all.onsets.of(&s.onsetID)[:])
}

// packet counts a request.
func (s *series) packet(p *Packet, at int64) {
	ce := rocev2.ECN(p.trafficClass&3) == rocev2.CE
	if ce {
		s.trouble(at)
	}
	for _, b := range s.at(at) {
		b.request(p)
	}
	s.depths(p, at)
}

// request counts a request.
func (a *Tally) request(p *Packet) {
	a.IPOctets += uint64(p.ipOctets)
	if rocev2.ECN(p.trafficClass&3) == rocev2.CE {
		a.CE++
	}
}

// sequenced records what the PSN of a request showed: if there is a gap before it,
// of how many, whether it is the first of a new life, of a repeat the cause.
func (s *series) sequenced(p *Packet, frame uint64, at int64, v verdict, gap uint32, newLife bool, cause RepeatCause) {
	again := newLife && s.seen
	if !s.seen || newLife {
		s.line = 0
	} else {
		s.line += int64(bth.ComparePSN(p.pkt.PSN, s.psn))
	}
	s.seen, s.psn = true, p.pkt.PSN
	if v == beyondGap || v.repeats() {
		s.trouble(at)
	}
	for _, b := range s.at(at) {
		b.at(s.line)
		b.judged(v, gap)
	}
	m := Mark{Frame: frame, Time: moment(at), PSN: p.pkt.PSN, Count: 1, Line: s.line}
	if again {
		m.Kind = MarkLife
		s.mark(m)
	}
	switch {
	case v == beyondGap:
		m.Kind, m.PSN, m.Count, m.Line = MarkGap, bth.AddPSN(p.pkt.PSN, -gap&bth.MaxPSN), gap, s.line-int64(gap)
	case v == fillsHole:
		m.Kind = MarkLate
	case v.repeats():
		m.Kind, m.Cause = MarkRepeat, cause
	default:
		return
	}
	s.mark(m)
}

// judged counts what the PSN of a request showed.
func (a *Tally) judged(v verdict, gap uint32) {
	switch {
	case v == beyondGap:
		a.Missing += gap
	case v == fillsHole:
		a.Late++
	case v.repeats():
		a.Repeats++
	}
}

// notified records a CNP, of either kind.
func (s *series) notified(fast bool, frame uint64, at int64) {
	s.trouble(at)
	for _, b := range s.at(at) {
		b.CNPs++
	}
	kind := MarkCNP
	if fast {
		kind = MarkFastCNP
	}
	s.says(Mark{Kind: kind, Frame: frame, Time: moment(at)})
}

// noticed records a message that names the flow.
func (s *series) noticed(p *Packet, frame uint64, at int64) {
	kind := MarkPPFC
	switch p.kind {
	case fastKind: // notified
		s.depths(p, at)
		return
	case fcnKind:
		kind = MarkFCN
	case proxyKind:
		kind = MarkProxy
	}
	s.trouble(at)
	for _, b := range s.at(at) {
		if kind == MarkPPFC {
			b.PPFC++
		}
	}
	s.depths(p, at)
	s.says(Mark{Kind: kind, Frame: frame, Time: moment(at)})
}

// refused records a NAK.
func (s *series) refused(r *reply) {
	code, _ := r.syndrome.Code()
	m := Mark{Kind: MarkNAK, NAK: code, Frame: r.frame, Time: moment(r.at), PSN: r.psn}
	rnr := r.syndrome.Type() == bth.SyndromeRNRNAK
	if rnr {
		m.Kind, m.NAK = MarkRNR, 0
	}
	if s.seen {
		m.Line = s.line + int64(bth.ComparePSN(r.psn, s.psn))
	}
	s.trouble(r.at)
	for _, b := range s.at(r.at) {
		b.refused(rnr)
	}
	s.says(m)
}

func (a *Tally) refused(rnr bool) {
	if rnr {
		a.RNRNAKs++
	} else {
		a.NAKs++
	}
}

// timed records a round trip that ended at a time.
func (s *series) timed(took time.Duration, at int64) {
	if took <= 0 {
		return
	}
	for _, b := range s.at(at) {
		b.timed(took)
	}
}

func (a *Tally) timed(took time.Duration) { a.RTT = max(a.RTT, uint32(min(took, math.MaxUint32))) }

// says remembers what an answer said.
func (s *series) says(m Mark) {
	if s.said == seriesMarks/2 {
		s.more++
		return
	}
	m.Count = 1
	if s.mark(m) {
		s.said++
	}
}

// mark remembers a mark, if there is room. Repeats that follow one another are one.
func (s *series) mark(m Mark) bool {
	if n := len(s.marks); n > 0 && m.Kind == MarkRepeat {
		last := &s.marks[n-1]
		if last.Kind == MarkRepeat && last.Cause == m.Cause && m.PSN == bth.AddPSN(last.PSN, last.Count) {
			last.Count++
			return true
		}
	}
	if s.marksID == 0 && s.all.marks.used() < maxMarked {
		s.marks = s.all.marks.of(&s.marksID)[:0]
	}
	if len(s.marks) == cap(s.marks) {
		s.more++
		return false
	}
	s.marks = append(s.marks, m)
	return true
}

// queues are what IOAM traces say of the nodes that were seen first, by bin.
type queues struct {
	n     int
	nodes [maxNodes]uint64
	depth [maxNodes][seriesBins]uint32
	known [maxNodes][seriesBins]bool
}

// depths records how deep queues were.
func (s *series) depths(p *Packet, at int64) {
	if p.nHops == 0 || s.queuesID == 0 && s.all.queues.used() >= maxQueued {
		return
	}
	i := s.bin(at)
	q := s.all.queues.of(&s.queuesID)
	for _, hop := range p.hops[:p.nHops] {
		q.add(hop, i)
	}
}

// add records how deep the queue of a node was in bin i.
func (q *queues) add(d QueueDepth, i int) {
	n := slices.Index(q.nodes[:q.n], d.Node)
	if n < 0 {
		if n = q.n; n == maxNodes {
			return
		}
		q.nodes[n] = d.Node
		q.n++
	}
	q.depth[n][i], q.known[n][i] = max(q.depth[n][i], d.Depth), true
}

// widen makes one bin of two, of so many.
func (q *queues) widen(bins int) {
	half := bins / 2
	for n := range q.n {
		depth, known := q.depth[n][:bins], q.known[n][:bins]
		for i := range half {
			depth[i] = max(depth[2*i], depth[2*i+1])
			known[i] = known[2*i] || known[2*i+1]
		}
		clear(depth[half:])
		clear(known[half:])
	}
}

// series returns the series of a flow, nil if none are kept or there was no
// request yet.
func (t *Table) series(f *flow) *series {
	if f.series == 0 {
		if !t.config.Series || f.Packets == 0 {
			return nil
		}
		return t.serieses.begin(&f.series, f.first)
	}
	return t.serieses.of.at(f.series)
}

// Series returns how a flow went over time, nil for one that is not known or
// without Config.Series.
func (t *Table) Series(k rocev2.FlowKey) *Series {
	id := keyOf(k)
	with := t.find(&id)
	if with == nil || with.flow.series == 0 {
		return nil
	}
	s := t.series(&with.flow)
	out := s.report()
	if f := t.report(with); f.CNPs+f.FastCNPs == 0 { // those of a pair that is in doubt again
		for i := range out.Bins {
			out.Bins[i].CNPs = 0
		}
		out.Marks = slices.DeleteFunc(out.Marks, func(m Mark) bool { return m.Kind == MarkCNP })
	}
	return out
}

func (s *series) report() *Series {
	end := max(s.bins.start, s.end)
	out := &Series{
		Start: moment(s.bins.start), End: moment(end), Bins: s.bins.within(&s.onset, end),
		Marks: slices.Clone(s.marks), More: s.more,
	}
	if q := s.all.queues.at(s.queuesID); q != nil {
		for i, node := range q.nodes[:q.n] {
			out.Nodes = append(out.Nodes, NodeSeries{node, time.Duration(s.bins.width),
				slices.Clone(q.depth[i][:s.bins.n]), slices.Clone(q.known[i][:s.bins.n])})
		}
	}
	return out
}
