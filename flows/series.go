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
	Node  uint64   // as ioam.Node.ID says
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

// A series is a [Series] that grows. Bins begin narrow, and become twice as wide
// each time they no longer reach the present.
type series struct {
	Series            // what the arrays below have; of each node all bins
	start, width, end int64
	bins              [maxBins]Bin
	marks             [seriesMarks]Mark
	nodes             [maxNodes]NodeSeries
	depth             [maxNodes][maxBins]uint32
	known             [maxNodes][maxBins]bool

	seen bool   // a request whose PSN counts
	psn  uint32 // of the request before
	line int64  // where that is
}

// begin begins a series, at a time in nanoseconds since 1970.
func (s *series) begin(at int64) {
	s.start, s.width = at, minWidth
	s.Bins, s.Marks, s.Nodes = s.bins[:0], s.marks[:0], s.nodes[:0]
}

// bin returns the bin of a time, and its number. What jumps back before the start
// belongs to the first.
func (s *series) bin(at int64) (b *Bin, i int) {
	since := max(at-s.start, 0)
	for since/s.width >= maxBins {
		s.widen()
	}
	i = int(since / s.width)
	s.Bins = s.bins[:max(len(s.Bins), i+1)]
	s.end = max(s.end, at)
	return &s.bins[i], i
}

// widen makes one bin of two.
func (s *series) widen() {
	const half = maxBins / 2
	for i := range half {
		b := s.bins[2*i]
		b.add(&s.bins[2*i+1])
		s.bins[i] = b
	}
	clear(s.bins[half:])
	for _, n := range s.Nodes {
		for i := range half {
			n.Depth[i] = max(n.Depth[2*i], n.Depth[2*i+1])
			n.Known[i] = n.Known[2*i] || n.Known[2*i+1]
		}
		clear(n.Depth[half:])
		clear(n.Known[half:])
	}
	s.Bins = s.bins[:(len(s.Bins)+1)/2]
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
func (s *series) queue(q QueueDepth, i int) {
	n := slices.IndexFunc(s.Nodes, func(n NodeSeries) bool { return n.Node == q.Node })
	if n < 0 {
		if n = len(s.Nodes); n == maxNodes {
			return
		}
		s.Nodes = append(s.Nodes, NodeSeries{q.Node, s.depth[n][:], s.known[n][:]})
	}
	s.depth[n][i], s.known[n][i] = max(s.depth[n][i], q.Depth), true
}

// sequenced records what the PSN of a request showed: if there is a gap before it,
// of how many, whether it is the first of a new life, of a repeat the cause.
func (s *series) sequenced(p *Packet, frame uint64, at int64, v verdict, gap uint32, newLife bool, cause Cause) {
	again := newLife && s.seen
	if !s.seen || newLife {
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
	if again {
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
	if n := len(s.Marks); n > 0 && m.Kind == MarkRepeat {
		last := &s.Marks[n-1]
		if last.Kind == MarkRepeat && last.Cause == m.Cause && m.PSN == bth.AddPSN(last.PSN, last.Count) {
			last.Count++
			return
		}
	}
	if len(s.Marks) == seriesMarks {
		s.More++
		return
	}
	s.Marks = append(s.Marks, m)
}

// series returns the series of a flow, nil if none are kept or there was no
// request yet.
func (t *Table) series(f *flow) *series {
	if f.series == 0 {
		if !t.config.Series || f.Packets == 0 {
			return nil
		}
		t.serieses.of(&f.series).begin(f.first)
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
		Bins: slices.Clone(s.Bins), Marks: slices.Clone(s.Marks), More: s.More,
	}
	for _, n := range s.Nodes {
		n.Depth, n.Known = slices.Clone(n.Depth[:len(s.Bins)]), slices.Clone(n.Known[:len(s.Bins)])
		out.Nodes = append(out.Nodes, n)
	}
	if f := t.report(with); f.CNPs+f.Fast == 0 { // those of a pair that is in doubt again
		for i := range out.Bins {
			out.Bins[i].CNPs = 0
		}
	}
	return out
}
