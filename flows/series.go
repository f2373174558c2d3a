package flows

import (
	"slices"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/enumtext"
	"github.com/rocecn/rocecn/rocev2"
)

// A Series is how a flow went over time: bins of the same width, and what its
// PSNs showed. See Config.Series.
type Series struct {
	Start time.Time // of the first bin: the first request
	End   time.Time // when the last thing happened that is in a bin
	Width time.Duration
	Bins  []Bin        // up to the last in which something happened
	Marks []Mark       // the first ones, in the order of the capture
	More  uint64       // marks that there was no room for; the bins count what they say
	Nodes []NodeSeries // what IOAM traces say, of the nodes that were seen first
}

// A Bin is what happened to a flow in a part of the time.
type Bin struct {
	IPOctets uint64 // of requests, by the length fields of IP
	CE       uint32 // requests with CE
	CNPs     uint32 // of both kinds
	Missing  uint32 // PSNs that were passed over
	Late     uint32 // requests that filled a gap
	Repeats  uint32
	// The first request and the last, if Sequenced: how far its PSN is from that
	// of the first request of the life.
	First, Last int64
	Sequenced   bool
}

// A Mark is something that the PSN of a request showed.
type Mark struct {
	Kind  MarkKind
	Cause Cause // of a repeat
	Frame uint64
	Time  time.Time
	PSN   uint32 // the first one: of a gap the first that is missing
	Count uint32 // PSNs that are missing; requests that repeat one after another; else 1
	Line  int64  // how far PSN is from that of the first request of the life
}

// MarkKind says what a mark is.
type MarkKind uint8

// The kinds of marks.
const (
	MarkGap    MarkKind = iota // PSNs were passed over
	MarkLate                   // a request filled a gap
	MarkRepeat                 // a request repeated one before it
	MarkLife                   // a new life began
)

var markNames = [...]string{"gap", "late", "repeat", "life"}

// String returns gap, late, repeat or life.
func (k MarkKind) String() string { return enumtext.Name(k, markNames[:], "MarkKind") }

// A NodeSeries is how deep the queue of a node was.
type NodeSeries struct {
	Node  uint64
	Depth []uint32 // by bin: the deepest, in the unit of the node
	Known []bool   // by bin: a trace named the depth
}

// What is kept of each flow.
const (
	maxBins     = 64
	seriesMarks = 32
	maxNodes    = 6
	minWidth    = 1000 // nanoseconds
)

// A series is a [Series] without slices. Bins begin narrow, and become twice
// as wide each time they no longer reach the present.
type series struct {
	start, width int64 // nanoseconds
	end          int64
	used         uint32
	bins         [maxBins]Bin
	marks        [seriesMarks]Mark
	nMarks       uint32
	more         uint64
	nodes        [maxNodes]nodeSeries
	nNodes       uint32

	seen bool   // a request of this life
	psn  uint32 // of the request before
	line int64  // where that is
}

type nodeSeries struct {
	node  uint64
	depth [maxBins]uint32
	known uint64 // bit n for bin n
}

// bin returns the bin of a time. What jumps back before the start belongs to the
// first.
func (s *series) bin(at int64) (b *Bin, i uint32) {
	since := max(at-s.start, 0)
	for since/s.width >= maxBins {
		s.widen()
	}
	i = uint32(since / s.width)
	s.used = max(s.used, i+1)
	s.end = max(s.end, at)
	return &s.bins[i], i
}

// widen makes one bin of two.
func (s *series) widen() {
	for i := range maxBins / 2 {
		b := s.bins[2*i]
		b.add(&s.bins[2*i+1])
		s.bins[i] = b
	}
	clear(s.bins[maxBins/2:])
	for n := range s.nodes[:s.nNodes] {
		q := &s.nodes[n]
		known := uint64(0)
		for i := range maxBins / 2 {
			q.depth[i] = max(q.depth[2*i], q.depth[2*i+1])
			if q.known>>(2*i)&3 != 0 {
				known |= 1 << i
			}
		}
		clear(q.depth[maxBins/2:])
		q.known = known
	}
	s.used = (s.used + 1) / 2
	s.width *= 2
}

// add adds what is in the bin after b.
func (b *Bin) add(next *Bin) {
	b.IPOctets += next.IPOctets
	b.CE += next.CE
	b.CNPs += next.CNPs
	b.Missing += next.Missing
	b.Late += next.Late
	b.Repeats += next.Repeats
	if next.Sequenced {
		if !b.Sequenced {
			b.First, b.Sequenced = next.First, true
		}
		b.Last = next.Last
	}
}

// packet counts a request.
func (s *series) packet(p *Packet, at int64) {
	b, i := s.bin(at)
	b.IPOctets += uint64(p.ipOctets)
	if rocev2.ECN(p.trafficClass&3) == rocev2.CE {
		b.CE++
	}
	for _, q := range p.hops[:p.nHops] {
		s.queue(q, i)
	}
}

// queue records how deep the queue of a node was in bin i.
func (s *series) queue(q QueueDepth, i uint32) {
	n := uint32(0)
	for n < s.nNodes && s.nodes[n].node != q.Node {
		n++
	}
	if n == maxNodes {
		return
	}
	if n == s.nNodes {
		s.nodes[n].node = q.Node
		s.nNodes++
	}
	of := &s.nodes[n]
	of.depth[i] = max(of.depth[i], q.Depth)
	of.known |= 1 << i
}

// sequenced records what the PSN of a request showed: a gap of so many before
// it, the life that it is the first request of (0 if it is not), a repeat's cause.
func (s *series) sequenced(p *Packet, frame uint64, at int64, v verdict, gap uint32, life uint64, cause Cause) {
	if !s.seen || life > 0 {
		s.line = 0
	} else {
		s.line += int64(bth.ComparePSN(p.psn, s.psn))
	}
	s.seen, s.psn = true, p.psn
	b, _ := s.bin(at)
	if !b.Sequenced {
		b.First, b.Sequenced = s.line, true
	}
	b.Last = s.line
	m := Mark{Frame: frame, Time: moment(at), PSN: p.psn, Count: 1, Line: s.line}
	if life > 1 {
		m.Kind = MarkLife
		s.mark(m)
	}
	switch v {
	case beyondGap:
		b.Missing += gap
		m.Kind, m.PSN, m.Count, m.Line = MarkGap, bth.AddPSN(p.psn, -gap&bth.MaxPSN), gap, s.line-int64(gap)
	case fillsHole:
		b.Late++
		m.Kind = MarkLate
	case repeated, precedes:
		b.Repeats++
		m.Kind, m.Cause = MarkRepeat, cause
	default:
		return
	}
	s.mark(m)
}

// mark remembers a mark. Repeats that follow one another are one.
func (s *series) mark(m Mark) {
	if s.nMarks > 0 && m.Kind == MarkRepeat {
		last := &s.marks[s.nMarks-1]
		if last.Kind == MarkRepeat && last.Cause == m.Cause && m.PSN == bth.AddPSN(last.PSN, last.Count) {
			last.Count++
			return
		}
	}
	if s.nMarks == seriesMarks {
		s.more++
		return
	}
	s.marks[s.nMarks] = m
	s.nMarks++
}

// series returns the series of a flow, nil if none are kept or there was no
// request yet.
func (t *Table) series(f *flow) *series {
	if f.series == 0 {
		if !t.config.Series || f.Packets == 0 {
			return nil
		}
		s := t.serieses.of(&f.series)
		s.start, s.width = f.first, minWidth
	}
	return t.serieses.at(f.series)
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
	out := &Series{
		Start: moment(s.start), End: moment(max(s.start, s.end)), Width: time.Duration(s.width),
		Bins: slices.Clone(s.bins[:s.used]), Marks: slices.Clone(s.marks[:s.nMarks]), More: s.more,
	}
	for i := range s.nodes[:s.nNodes] {
		q := &s.nodes[i]
		n := NodeSeries{Node: q.node, Depth: slices.Clone(q.depth[:s.used])}
		for i := range s.used {
			n.Known = append(n.Known, q.known>>i&1 != 0)
		}
		out.Nodes = append(out.Nodes, n)
	}
	if f := t.report(with); f.CNPs+f.Fast == 0 { // those of a pair that is in doubt again
		for i := range out.Bins {
			out.Bins[i].CNPs = 0
		}
	}
	return out
}
