package flows

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rocecn/rocecn/flows"
)

// A chart is how one flow went over time: paths of SVG in a picture that is
// chartWidth wide and chartHeight high, whatever size it is shown in.
type chart struct {
	Number  int
	Name    string
	QPs     string
	Remarks string
	Start   string
	Span    string // what the width stands for
	Bin     string // and each of the bins

	Rate    string // an area
	RateTop string // what the height stands for

	CE, CNP   string // bars
	CEs, CNPs uint64
	NoticeTop uint32
	PSN       string // a line
	PSNLow    int64
	PSNHigh   int64
	Marks     []chartMark
	Listed    int    // of the marks, the first, which are of one frame each
	More      uint64 // that are not listed
	Nodes     []chartNode
	Depth     uint32 // the deepest
	Flow      *flows.Flow
}

const (
	chartWidth  = 640
	chartHeight = 100
	gapEnd      = 8 // what a gap's mark is longer at either end
)

// A chartMark is a mark on the line of PSNs.
type chartMark struct {
	Kind  string // gap, late, repeat or life: a class of the style sheet
	Frame uint64 // 0: of a bin
	Path  string
	Text  string
}

// A chartNode is the queue of a node.
type chartNode struct {
	Node    uint64
	Path    string
	Deepest uint32
}

// chartOf returns the charts of a flow.
func chartOf(number int, f *flows.Flow, s *flows.Series) chart {
	span := spanOf(s)
	c := chart{
		Number: number, Name: arrow(f), QPs: sourceQP(f) + " → " + queuePair(f.DestQP),
		Remarks: strings.Join(remarks(f), ", "),
		Start:   stamp(s.Start), Span: short(span), Bin: short(s.Width),
		CEs: f.ECN[3], CNPs: f.CNPs + f.Fast, More: s.More, Flow: f,
	}
	c.rate(s)
	c.notices(s)
	if f.Sequenced {
		c.psns(s, span)
	}
	c.queues(s)
	return c
}

// spanOf returns how long something happened: the last bin is not whole.
func spanOf(s *flows.Series) time.Duration {
	if span := s.End.Sub(s.Start); span > 0 {
		return span
	}
	return s.Width * time.Duration(len(s.Bins))
}

// x returns where the left end of bin i is, and the right one of the bin before.
func x(s *flows.Series, i int) float64 {
	return min(float64(i)*float64(s.Width)/float64(spanOf(s)), 1) * chartWidth
}

// y returns how high a part of the whole is.
func y(part, whole float64) float64 {
	if whole <= 0 {
		return chartHeight
	}
	return chartHeight * (1 - part/whole)
}

// A path is written as the d attribute of SVG has it.
type path struct{ strings.Builder }

func (p *path) to(command byte, coordinates ...float64) {
	p.WriteByte(command)
	for i, v := range coordinates {
		if i > 0 {
			p.WriteByte(' ')
		}
		text := fmt.Sprintf("%.1f", v)
		p.WriteString(strings.TrimSuffix(text, ".0"))
	}
}

// line goes on to a point; it begins with the first one.
func (p *path) line(x, y float64) {
	command := byte('L')
	if p.Len() == 0 {
		command = 'M'
	}
	p.to(command, x, y)
}

// stroke is a path straight up or down.
func stroke(x, from, to float64) string {
	var p path
	p.line(x, from)
	p.to('V', to)
	return p.String()
}

func (c *chart) rate(s *flows.Series) {
	all := rates(s)
	most := slices.Max(all)
	c.RateTop = scaled(most)
	var p path
	p.to('M', 0, chartHeight)
	for i, rate := range all {
		p.to('V', y(rate, most))
		p.to('H', x(s, i+1))
	}
	p.to('V', chartHeight)
	p.to('Z')
	c.Rate = p.String()
}

// rates returns the bits a second of each bin. The last one ends with the series;
// where that leaves little of it, it has the rate of the last two together.
func rates(s *flows.Series) (all []float64) {
	for i := range s.Bins {
		all = append(all, float64(s.Bins[i].IPOctets)*8/s.Width.Seconds())
	}
	last := len(s.Bins) - 1
	octets, took := s.Bins[last].IPOctets, spanOf(s)-s.Width*time.Duration(last)
	if last > 0 && took < s.Width/2 {
		octets, took = octets+s.Bins[last-1].IPOctets, took+s.Width
		all[last-1] = float64(octets) * 8 / took.Seconds()
	}
	all[last] = float64(octets) * 8 / took.Seconds()
	return all
}

// notices draws CE on the left half of each bin, CNPs on the right one.
func (c *chart) notices(s *flows.Series) {
	for i := range s.Bins {
		c.NoticeTop = max(c.NoticeTop, s.Bins[i].CE, s.Bins[i].CNPs)
	}
	var ce, cnp path
	bar := func(p *path, left, half float64, n uint32) {
		if n > 0 {
			p.to('M', left, chartHeight)
			p.to('V', y(float64(n), float64(c.NoticeTop)))
			p.to('H', left+half*0.9)
			p.to('V', chartHeight)
			p.to('Z')
		}
	}
	for i := range s.Bins {
		left, half := x(s, i), (x(s, i+1)-x(s, i))/2
		bar(&ce, left, half, s.Bins[i].CE)
		bar(&cnp, left+half, half, s.Bins[i].CNPs)
	}
	c.CE, c.CNP = ce.String(), cnp.String()
}

// psns draws how far the PSNs came, which begin at 0 in each life, and what they
// showed on the way.
func (c *chart) psns(s *flows.Series, span time.Duration) {
	for i := range s.Bins {
		if b := &s.Bins[i]; b.Sequenced {
			c.PSNLow, c.PSNHigh = min(c.PSNLow, b.First, b.Last), max(c.PSNHigh, b.First, b.Last)
		}
	}
	for _, m := range s.Marks {
		c.PSNLow, c.PSNHigh = min(c.PSNLow, m.Line), max(c.PSNHigh, m.Line+int64(m.Count)-1)
	}
	at := func(line int64) float64 { return y(float64(line-c.PSNLow), float64(max(c.PSNHigh-c.PSNLow, 1))) }
	var p path
	for i := range s.Bins {
		if b := &s.Bins[i]; b.Sequenced {
			p.line(x(s, i), at(b.First))
			p.line(x(s, i+1), at(b.Last))
		}
	}
	c.PSN = p.String()

	c.Listed = len(s.Marks)
	since := func(t time.Time) time.Duration { return max(t.Sub(s.Start), 0) }
	for _, m := range s.Marks {
		from, to := at(m.Line), at(m.Line+int64(m.Count)-1)
		switch m.Kind {
		case flows.MarkLife:
			from, to = 0, chartHeight
		case flows.MarkGap: // tall enough to be seen
			from, to = from+gapEnd, to-gapEnd
		}
		after := since(m.Time)
		c.Marks = append(c.Marks, chartMark{m.Kind.String(), m.Frame,
			stroke(float64(after)/float64(span)*chartWidth, from, to),
			fmt.Sprintf("frame %d, +%s: %s", m.Frame, short(after), markText(&m))})
	}
	if s.More == 0 {
		return
	}
	// There were more marks than are kept: bins say what came from there on.
	from := min(int(since(s.Marks[len(s.Marks)-1].Time)/s.Width), len(s.Bins)-1)
	for i := from; i < len(s.Bins); i++ {
		b := &s.Bins[i]
		for _, n := range []struct {
			kind, format string
			n            uint32
			line         int64
			end          float64
		}{
			{"gap", "%d missing", b.Missing, b.Last, gapEnd},
			{"late", "%d out of order", b.Late, b.First, 0},
			{"repeat", "%d repeated", b.Repeats, (b.First + b.Last) / 2, 0},
		} {
			if n.n > 0 {
				c.Marks = append(c.Marks, chartMark{n.kind, 0,
					stroke((x(s, i)+x(s, i+1))/2, at(n.line)+n.end, at(n.line)-n.end),
					fmt.Sprintf(n.format+" from +%s on", n.n, short(s.Width*time.Duration(i)))})
			}
		}
	}
}

var causeNames = [...]string{
	flows.Timeout: "a timeout", flows.SequenceNAK: "a NAK", flows.RNR: "an RNR NAK",
	flows.ReadRest: "a READ of which a part is missing",
}

// markText says in words what a mark says.
func markText(m *flows.Mark) string {
	switch m.Kind {
	case flows.MarkGap:
		return fmt.Sprintf("gap, %d missing from PSN %d on", m.Count, m.PSN)
	case flows.MarkLate:
		return fmt.Sprintf("PSN %d comes out of order", m.PSN)
	case flows.MarkRepeat:
		return fmt.Sprintf("%d repeated from PSN %d on, after %s", m.Count, m.PSN, causeNames[m.Cause])
	}
	return fmt.Sprintf("a new life begins with PSN %d", m.PSN)
}

// queues draws the depth of each node's queue, where it is known.
func (c *chart) queues(s *flows.Series) {
	for _, n := range s.Nodes {
		c.Depth = max(c.Depth, slices.Max(n.Depth))
	}
	for _, n := range s.Nodes {
		var p path
		for i, depth := range n.Depth {
			if n.Known[i] {
				p.line(x(s, i), y(float64(depth), float64(c.Depth)))
				p.to('H', x(s, i+1))
			}
		}
		c.Nodes = append(c.Nodes, chartNode{n.Node, p.String(), slices.Max(n.Depth)})
	}
}
