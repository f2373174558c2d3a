package flows

import (
	"math"
	"slices"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/enumtext"
	"github.com/rocecn/rocecn/rocev2"
)

// A Series describes a flow over time: counts in bins, which are narrower for short flows and where the
// trouble began, and single events (marks) with exact times. See Config.Series.
type Series struct {
	Start        time.Time    // start of the first bin: the first request or response
	End          time.Time    // time of the last event in a bin
	Bins         []Bin        // adjacent bins in order of time
	Marks        []Mark       // the first 128 marks, at most half of them answers, which need a known flow
	DroppedMarks uint64       // further marks; the bins count their events
	Nodes        []NodeSeries // queue depths of the first 6 nodes in IOAM traces
}

// A Mark is an event of a request or an answer.
type Mark struct {
	Kind  MarkKind
	Cause RetransmissionCause // for MarkRetransmission
	NAK   bth.NAKCode         // for MarkNAK
	Frame uint64
	Time  time.Time
	PSN   uint32 // PSN of the request, first skipped PSN of a gap, or PSN in a NAK; 0 for notifications
	Count uint32 // skipped PSNs of a gap, or consecutive retransmissions; otherwise 1
	Line  int64  // distance of PSN from that of the first request of the connection
}

// MarkKind is the kind of a mark.
type MarkKind uint8

// The kinds of marks.
const (
	MarkGap            MarkKind = iota // PSNs were skipped
	MarkLate                           // a request filled a gap
	MarkRetransmission                 // a request was retransmitted
	MarkConnection                     // a new connection began; see PSN.Connections
	MarkNAK                            // a NAK
	MarkRNR                            // an RNR NAK
	MarkCNP                            // a CNP without a Fast CNP option
	MarkFastCNP                        // a CNP with a Fast CNP option
	MarkPPFC                           // a PPFC notification
	MarkFCN                            // an FCN for the ingress PE
	MarkProxy                          // a message for a proxy of the sender
)

var markNames = [...]string{"gap", "late", "repeat", "life", "nak", "rnr", "cnp", "fast", "ppfc", "fcn", "proxy"}

// String returns the key of the kind: gap, late, repeat, life, nak, rnr, cnp, fast, ppfc, fcn or
// proxy.
func (k MarkKind) String() string { return enumtext.Name(k, markNames[:], "MarkKind") }

// A NodeSeries is the queue depth of a node over time, in intervals of equal width.
type NodeSeries struct {
	Node  uint64 // as returned by ioam.Node.ID
	Width time.Duration
	Depth []uint32 // maximum in each interval, in the unit of the node
	Known []bool   // a trace contained the depth
}

// Limits for each flow, within the limits below.
const (
	seriesBins  = 256 // for the whole time, and as many from the first trouble on
	coarseBins  = 32  // for the whole time, if there is no room for seriesBins
	seriesMarks = 128 // at most half of them of answers
	maxNodes    = 6
	onsetWidth  = 8000 // maximum width of bins from the first trouble on in nanoseconds
)

// Limits for all flows; Config.Series documents the memory.
const (
	maxFineSeries   = 1 << 10
	maxMarkedSeries = 1 << 14
	maxQueueSeries  = 1 << 10
)

// seriesPools are the series of all flows.
type seriesPools struct {
	all     pool[series]
	fine    pool[[seriesBins]Tally]
	coarse  pool[[coarseBins]Tally]
	onsets  pool[[seriesBins]Tally]
	marks   pool[[seriesMarks]Mark]
	queues  pool[queues]
	maxFine uint32 // limit of fine, of which flows without trouble get a quarter, and of onsets
}

// beginSeries allocates a series that begins at a time in nanoseconds since 1970, and sets its id.
func (all *seriesPools) beginSeries(id *uint32, at int64) *series {
	s := all.all.allocate(id)
	s.pools = all
	if all.fine.countUsed() < (all.maxFine+3)/4 {
		s.bins = newBins(at, 0, all.fine.allocate(&s.fine)[:])
	} else {
		s.bins = newBins(at, 0, all.coarse.allocate(&s.coarse)[:])
	}
	return s
}

// releaseSeries releases the series with an id, if any.
func (all *seriesPools) releaseSeries(id *uint32) {
	if s := all.all.lookUp(*id); s != nil {
		all.fine.release(&s.fine)
		all.coarse.release(&s.coarse)
		all.onsets.release(&s.onsetID)
		all.marks.release(&s.marksID)
		all.queues.release(&s.queuesID)
	}
	all.all.release(id)
}

// A series is the state of a [Series].
type series struct {
	pools        *seriesPools
	bins, onset  bins // onset: from the first trouble on, up to its limit
	end          int64
	marks        []Mark
	answerMarks  int // number of marks of answers
	droppedMarks uint64

	fine, coarse, onsetID, marksID, queuesID uint32 // ids in the pools

	seen   bool   // psn and line are valid
	psn    uint32 // PSN of the previous request
	line   int64  // distance of psn from the first request of the connection
	unused Tally  // target for counts without an onset bin
}

// talliesAt returns the tallies for an event at a time: one of the whole time and one of the onset.
func (s *series) talliesAt(at int64) (both [2]*Tally) {
	both = [...]*Tally{&s.bins.tallies[s.binAt(at)], &s.unused}
	if s.onsetID != 0 {
		if i := s.onset.binAt(at); i >= 0 {
			both[1] = &s.onset.tallies[i]
		}
	}
	return both
}

// binAt returns the index of the bin for a time.
func (s *series) binAt(at int64) int {
	width := s.bins.width
	i := s.bins.binAt(at)
	if q := s.pools.queues.lookUp(s.queuesID); q != nil {
		for ; width < s.bins.width; width *= 2 {
			q.mergeBins(len(s.bins.tallies))
		}
	}
	s.end = max(s.end, at)
	return i
}

// refine gives the series the larger number of bins, if there is room for them.
func (s *series) refine() {
	p := s.pools
	if s.fine != 0 || p.fine.countUsed() >= p.maxFine {
		return
	}
	tallies := p.fine.allocate(&s.fine)[:]
	copy(tallies, s.bins.tallies)
	s.bins.tallies = tallies
	p.coarse.release(&s.coarse)
}

// beginOnset begins the onset bins at the first trouble. Their start is aligned to onsetWidth, so
// that none overlaps two bins of the whole time.
func (s *series) beginOnset(at int64) {
	if s.onsetID != 0 {
		return
	}
	s.refine()
	if s.pools.onsets.countUsed() >= s.pools.maxFine {
		return
	}
	start := at - max(at-s.bins.start, 0)%onsetWidth
	s.onset = newBins(max(start, s.bins.start), onsetWidth, s.pools.onsets.allocate(&s.onsetID)[:])
}

func (s *series) countRequest(p *Packet, at int64) {
	ce := p.isMarked()
	if ce {
		s.beginOnset(at)
	}
	for _, b := range s.talliesAt(at) {
		b.countRequest(p)
	}
	s.recordDepths(p, at)
}

func (a *Tally) countRequest(p *Packet) {
	a.IPOctets += uint64(p.ipOctets)
	if p.isMarked() {
		a.CE++
	}
}

// recordSequenced records the verdict about a request's PSN: gap is the number of skipped PSNs,
// cause is the cause of a retransmission.
func (s *series) recordSequenced(p *Packet, frame uint64, at int64, v verdict, gap uint32, newConnection bool,
	cause RetransmissionCause,
) {
	again := newConnection && s.seen
	if !s.seen || newConnection {
		s.line = 0
	} else {
		s.line += int64(bth.ComparePSN(p.pkt.PSN, s.psn))
	}
	s.seen, s.psn = true, p.pkt.PSN
	if v == beyondGap || v.isRetransmission() {
		s.beginOnset(at)
	}
	for _, b := range s.talliesAt(at) {
		b.recordLine(s.line)
		b.countVerdict(v, gap)
	}
	m := Mark{Frame: frame, Time: timeOf(at), PSN: p.pkt.PSN, Count: 1, Line: s.line}
	if again {
		m.Kind = MarkConnection
		s.addMark(m)
	}
	switch {
	case v == beyondGap:
		m.Kind, m.PSN, m.Count, m.Line = MarkGap, bth.AddPSN(p.pkt.PSN, -gap&bth.MaxPSN), gap, s.line-int64(gap)
	case v == late:
		m.Kind = MarkLate
	case v.isRetransmission():
		m.Kind, m.Cause = MarkRetransmission, cause
	default:
		return
	}
	s.addMark(m)
}

// countVerdict counts the verdict about a request's PSN.
func (a *Tally) countVerdict(v verdict, gap uint32) {
	switch {
	case v == beyondGap:
		a.Missing += gap
	case v == late:
		a.Late++
	case v.isRetransmission():
		a.Retransmitted++
	}
}

func (s *series) recordCNP(fast bool, frame uint64, at int64) {
	s.beginOnset(at)
	for _, b := range s.talliesAt(at) {
		b.CNPs++
	}
	kind := MarkCNP
	if fast {
		kind = MarkFastCNP
	}
	s.addAnswerMark(Mark{Kind: kind, Frame: frame, Time: timeOf(at)})
}

// recordNotice records a message that names the flow.
func (s *series) recordNotice(p *Packet, frame uint64, at int64) {
	kind := MarkPPFC
	switch p.kind {
	case fastKind: // already recorded by recordCNP
		s.recordDepths(p, at)
		return
	case fcnKind:
		kind = MarkFCN
	case proxyKind:
		kind = MarkProxy
	}
	s.beginOnset(at)
	for _, b := range s.talliesAt(at) {
		if kind == MarkPPFC {
			b.PPFC++
		}
	}
	s.recordDepths(p, at)
	s.addAnswerMark(Mark{Kind: kind, Frame: frame, Time: timeOf(at)})
}

func (s *series) recordNAK(r *reply) {
	code, _ := r.syndrome.Code()
	m := Mark{Kind: MarkNAK, NAK: code, Frame: r.frame, Time: timeOf(r.at), PSN: r.psn}
	rnr := r.syndrome.Type() == bth.SyndromeRNRNAK
	if rnr {
		m.Kind, m.NAK = MarkRNR, 0
	}
	if s.seen {
		m.Line = s.line + int64(bth.ComparePSN(r.psn, s.psn))
	}
	s.beginOnset(r.at)
	for _, b := range s.talliesAt(r.at) {
		b.countNAK(rnr)
	}
	s.addAnswerMark(m)
}

func (a *Tally) countNAK(rnr bool) {
	if rnr {
		a.RNRNAKs++
	} else {
		a.NAKs++
	}
}

// recordRTT records a round trip that ended at a time.
func (s *series) recordRTT(took time.Duration, at int64) {
	if took <= 0 {
		return
	}
	for _, b := range s.talliesAt(at) {
		b.raiseRTT(took)
	}
}

func (a *Tally) raiseRTT(took time.Duration) { a.RTT = max(a.RTT, uint32(min(took, math.MaxUint32))) }

// addAnswerMark adds the mark of an answer.
func (s *series) addAnswerMark(m Mark) {
	if s.answerMarks == seriesMarks/2 {
		s.droppedMarks++
		return
	}
	m.Count = 1
	if s.addMark(m) {
		s.answerMarks++
	}
}

// addMark adds a mark and reports whether there was room. Consecutive retransmissions share one
// mark.
func (s *series) addMark(m Mark) bool {
	if n := len(s.marks); n > 0 && m.Kind == MarkRetransmission {
		last := &s.marks[n-1]
		if last.Kind == MarkRetransmission && last.Cause == m.Cause && m.PSN == bth.AddPSN(last.PSN, last.Count) {
			last.Count++
			return true
		}
	}
	if s.marksID == 0 && s.pools.marks.countUsed() < maxMarkedSeries {
		s.marks = s.pools.marks.allocate(&s.marksID)[:0]
	}
	if len(s.marks) == cap(s.marks) {
		s.droppedMarks++
		return false
	}
	s.marks = append(s.marks, m)
	return true
}

// queues are the queue depths of the first nodes in IOAM traces, by bin.
type queues struct {
	n     int
	nodes [maxNodes]uint64
	depth [maxNodes][seriesBins]uint32
	known [maxNodes][seriesBins]bool
}

// recordDepths records the queue depths in a packet.
func (s *series) recordDepths(p *Packet, at int64) {
	if p.nHops == 0 || s.queuesID == 0 && s.pools.queues.countUsed() >= maxQueueSeries {
		return
	}
	i := s.binAt(at)
	q := s.pools.queues.allocate(&s.queuesID)
	for _, hop := range p.hops[:p.nHops] {
		q.addDepth(hop, i)
	}
}

// addDepth records the queue depth of a node in bin i.
func (q *queues) addDepth(d QueueDepth, i int) {
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

// mergeBins merges pairs of bins.
func (q *queues) mergeBins(bins int) {
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

// seriesOf returns the series of a flow, or nil if none is kept or no data was captured.
func (t *Table) seriesOf(f *flow) *series {
	if !t.config.Series { // short enough to be inlined
		return nil
	}
	return t.addSeries(f)
}

// addSeries returns the series of a flow, adding it if the flow has data.
func (t *Table) addSeries(f *flow) *series {
	if f.series == 0 {
		if !f.hasData() {
			return nil
		}
		first := f.first
		if r := t.responses.lookUp(f.responses); f.Packets == 0 && r != nil {
			first = r.first
		}
		return t.serieses.beginSeries(&f.series, first)
	}
	return t.serieses.all.lookUp(f.series)
}

// Series returns the series of a flow, or nil if the flow is unknown or Config.Series is not set.
func (t *Table) Series(k rocev2.FlowKey) *Series {
	t.processWaiting()
	id := keyOf(k)
	found := t.findStream(&id)
	if found == nil || found.flow.series == 0 {
		return nil
	}
	s := t.seriesOf(found.flow)
	out := s.toSeries()
	if f := t.reportFlow(found); f.CNPs+f.FastCNPs == 0 { // CNPs of a pair that is uncertain again
		for i := range out.Bins {
			out.Bins[i].CNPs = 0
		}
		out.Marks = slices.DeleteFunc(out.Marks, func(m Mark) bool { return m.Kind == MarkCNP })
	}
	return out
}

func (s *series) toSeries() *Series {
	end := max(s.bins.start, s.end)
	out := &Series{
		Start: timeOf(s.bins.start), End: timeOf(end), Bins: s.bins.insertFine(&s.onset, end),
		Marks: slices.Clone(s.marks), DroppedMarks: s.droppedMarks,
	}
	if q := s.pools.queues.lookUp(s.queuesID); q != nil {
		for i, node := range q.nodes[:q.n] {
			out.Nodes = append(out.Nodes, NodeSeries{node, time.Duration(s.bins.width),
				slices.Clone(q.depth[i][:s.bins.n]), slices.Clone(q.known[i][:s.bins.n])})
		}
	}
	return out
}
