package flows

import (
	"bytes"
	"cmp"
	"math"
	"math/bits"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/rocecn/rocecn/rocev2"
)

// Samples keeps account of traffic of which only one packet in many is seen, as with
// sFlow. It cannot tell what takes all packets of a flow: gaps, repeats, round trip
// times, which queue pairs belong together. It is not safe for concurrent use.
type Samples struct {
	max    int
	flows  map[key]*sampled
	noRoom uint64
	stats  Stats
}

// A SamplePoint is where packets are sampled: a data source of sFlow.
type SamplePoint struct {
	Agent       netip.Addr
	Type, Index uint32 // sFlowDataSource: of type 0 the Index is the ifIndex of a port
}

func (p SamplePoint) compare(q SamplePoint) int {
	return cmp.Or(p.Agent.Compare(q.Agent), cmp.Compare(p.Type, q.Type), cmp.Compare(p.Index, q.Index))
}

// Sampled is what was sampled from one address to a queue pair at another: requests, and answers, which are about a
// flow of the other direction.
type Sampled struct {
	rocev2.FlowKey
	WithQP      bool   // the packets name a queue pair: not FCN, not messages to a proxy
	Requests           // but for Messages, MTU and FirstTrouble
	Answers            // what there was among the samples
	Responses   uint64 // packets with what READs and ATOMICs return; Acknowledges are in Answers
	First, Last time.Time
	SrcMAC      net.HardwareAddr // of the last request's frame; nil where that is not Ethernet
	DstMAC      net.HardwareAddr
	Points      []PointSamples // by Agent, Type and Index
	OtherPoints uint64         // samples of further points
}

// PointSamples is what one point has sampled of the packets of a [Sampled]. A packet that passes several points can
// be sampled at each: their estimates must not be added up.
type PointSamples struct {
	SamplePoint
	Rate    uint32 // one packet in so many, as of the last sample
	Samples uint64
	// What the samples stand for: each for as many packets as its Rate says. Nothing is certain: of n samples the
	// relative error is 196 %/√n at most, 19 times in 20, if they are taken at random.
	Packets, IPOctets uint64
}

// maxPoints is how many points are told apart of the packets to one queue pair.
const maxPoints = 8

type sampled struct {
	flow      flow
	answers   Answers
	responses uint64
	first     int64
	last      int64
	points    []PointSamples
	elsewhere uint64
}

// NewSamples returns an account of samples to maxFlows queue pairs at most, 131,072 if that is 0. Each takes 1 KB.
func NewSamples(maxFlows int) *Samples {
	if maxFlows <= 0 {
		maxFlows = defaultMaxFlows
	}
	return &Samples{max: maxFlows, flows: map[key]*sampled{}}
}

// Observe records a packet that was sampled at a point, one of rate packets; 0 stands for 1. PFC frames count as other
// traffic: samples say nothing of pauses.
func (s *Samples) Observe(p *Packet, at SamplePoint, rate uint32, now time.Time) {
	rate = max(rate, 1)
	s.stats.Packets++
	switch p.kind {
	case truncatedKind:
		s.stats.Truncated++
		s.stats.SnapLength = max(s.stats.SnapLength, int(p.snapLength))
		return
	case otherTraffic, pfcKind:
		s.stats.Others++
		return
	case invalidKind:
		s.stats.Broken++
		return
	}
	f := s.flows[p.pkt.Flow]
	if f == nil {
		if len(s.flows) == s.max {
			s.noRoom++
			return
		}
		f = new(sampled)
		s.flows[p.pkt.Flow] = f
	}
	t := unixNano(now)
	if f.first == 0 {
		f.first = t
	}
	f.last = max(f.last, t)
	switch {
	case p.kind == requestKind:
		if f.flow.Packets == 0 {
			f.flow.first = t
		}
		f.flow.countRequest(p, t)
	case p.kind == answerKind && !roles[p.pkt.Opcode].acknowledge:
		f.responses++
	default:
		f.answers.countPacket(p, t)
	}
	f.countPoint(at, rate, p.ipOctets)
}

// countPoint counts a sample at its point.
func (f *sampled) countPoint(at SamplePoint, rate uint32, octets uint32) {
	i := slices.IndexFunc(f.points, func(p PointSamples) bool { return p.SamplePoint == at })
	if i < 0 {
		if i = len(f.points); i == maxPoints {
			f.elsewhere++
			return
		}
		f.points = append(f.points, PointSamples{SamplePoint: at})
	}
	p := &f.points[i]
	p.Rate = rate
	p.Samples++
	p.Packets = sumOrMost(p.Packets, uint64(rate))
	p.IPOctets = sumOrMost(p.IPOctets, uint64(rate)*uint64(octets))
}

// sumOrMost returns a sum, or what there is room for.
func sumOrMost(a, b uint64) uint64 {
	sum, carry := bits.Add64(a, b, 0)
	if carry > 0 {
		return math.MaxUint64
	}
	return sum
}

// Stats says what was given to Observe; each packet is a sample.
func (s *Samples) Stats() Stats { return s.stats }

// Refused returns how many samples were to queue pairs that there was no room for.
func (s *Samples) Refused() uint64 { return s.noRoom }

// Snapshot returns what was sampled, ordered by addresses and queue pairs. It stays as it is.
func (s *Samples) Snapshot() []Sampled {
	all := make([]Sampled, 0, len(s.flows))
	for k, f := range s.flows {
		out := Sampled{FlowKey: k.FlowKey(), WithQP: k.QP&withoutQP == 0, Requests: f.flow.Requests, Answers: f.answers,
			Responses: f.responses, First: timeOf(f.first), Last: timeOf(f.last), Points: slices.Clone(f.points),
			OtherPoints: f.elsewhere}
		if macs := f.flow.macs; macs != [12]byte{} {
			out.DstMAC, out.SrcMAC = bytes.Clone(macs[:6]), bytes.Clone(macs[6:])
		}
		slices.SortFunc(out.Points, func(a, b PointSamples) int { return a.SamplePoint.compare(b.SamplePoint) })
		all = append(all, out)
	}
	slices.SortFunc(all, func(a, b Sampled) int {
		if c := a.FlowKey.Compare(b.FlowKey); c != 0 || a.WithQP == b.WithQP {
			return c
		} else if a.WithQP {
			return 1
		}
		return -1
	})
	return all
}
