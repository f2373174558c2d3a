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

	"github.com/rocecn/rocecn/internal/flowtable"
	"github.com/rocecn/rocecn/rocev2"
)

// Samples counts sampled traffic, such as that of sFlow. Gaps, retransmissions, round trip times
// and associated queue pairs need all packets of a flow and are not available. It is not safe for
// concurrent use.
//
// In a full Samples a queue pair that was not sampled for 10 minutes is evicted for a new one, and so is one
// that came first from a prefix of sources, /64 or /24, with more than a quarter of all queue pairs, unless the new
// one comes from such a prefix as well. So forged samples of one source do not keep out those of others. A prefix with
// more than a quarter may lose the others to forged samples of several prefixes.
//
// A packet of a new queue pair is refused if the next 64 queue pairs to check may not be evicted, although an idle
// one may follow: later packets check those.
type Samples struct {
	flows   flowtable.Table[key, sampled] // list 0, in the order of the last sample or check
	shares  flowtable.Shares              // by source
	full    uint64
	evicted uint64
	stats   Stats
}

// longestIdle is the time in nanoseconds without a sample after which a queue pair may be evicted.
const longestIdle = int64(10 * time.Minute)

// A SamplePoint is a place where packets are sampled: an sFlow data source.
type SamplePoint struct {
	Agent       netip.Addr
	Type, Index uint32 // sFlowDataSource; with Type 0, Index is the ifIndex of a port
}

func (p SamplePoint) compare(q SamplePoint) int {
	return cmp.Or(p.Agent.Compare(q.Agent), cmp.Compare(p.Type, q.Type), cmp.Compare(p.Index, q.Index))
}

// Sampled contains the samples from one address to a queue pair at another: requests, and answers,
// which are about a flow of the other direction.
type Sampled struct {
	rocev2.FlowKey
	WithQP      bool   // the packets have a queue pair number, unlike FCNs and proxy messages
	Requests           // without Messages, MTU and FirstTrouble
	Answers            // answers among the samples
	Responses   uint64 // responses to READs and ATOMICs; Acknowledges are in Answers
	First, Last time.Time
	SrcMAC      net.HardwareAddr // of the last request; nil if it is not Ethernet
	DstMAC      net.HardwareAddr
	Points      []PointSamples // by Agent, Type and Index
	OtherPoints uint64         // samples of points after the first 8
	Discards    []Discards     // packets discarded by switches, most packets first
	Queue       QueueSample    // deepest queue that a switch reported for a sampled or discarded packet
}

// PointSamples counts the samples of one point for a [Sampled]. A packet that passes several points
// can be sampled at each, so the estimates of points must not be added up.
type PointSamples struct {
	SamplePoint
	Rate    uint32 // sampling rate of the last sample: one of Rate packets
	Samples uint64
	// Estimates: the sum of the Rates of the samples. With n random samples the relative error is
	// at most 196 %/√n in 19 of 20 cases.
	Packets, IPOctets uint64
}

// maxPoints is the number of points of a [Sampled].
const maxPoints = 8

// A Sample describes a packet that a switch sampled or discarded.
type Sample struct {
	SamplePoint
	Rate   uint32 // one of Rate packets is sampled; 0 means 1
	Queue  QueueSample
	Source netip.Addr // source of the datagram with the sample, or the zero Addr
}

type sampled struct {
	from      key // source of the first sample
	flow      flow
	answers   Answers
	responses uint64
	first     int64
	last      int64
	points    []PointSamples
	elsewhere uint64
	discards  discards
	queue     QueueSample
}

// NewSamples returns an empty Samples for at most maxFlows queue pairs, 131,072 if that is 0. Each
// takes 1 KB.
func NewSamples(maxFlows int) *Samples {
	if maxFlows <= 0 {
		maxFlows = defaultMaxFlows
	}
	return &Samples{flows: flowtable.New[key, sampled](maxFlows, true, (*key).Hash)}
}

// Observe records a packet that was sampled. PFC frames count as other traffic, because samples do
// not show pauses.
func (s *Samples) Observe(p *Packet, sample Sample, now time.Time) {
	t := unixNano(now)
	f := s.lookUp(p, sample.Source, t)
	if f == nil {
		return
	}
	f.recordTime(t)
	f.queue.update(&sample.Queue)
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
	f.countPoint(sample.SamplePoint, max(sample.Rate, 1), p.ipOctets)
}

// ObserveDiscard records a packet that a switch discarded for a reason such as "no_buffer_space".
// It counts in [Sampled.Discards] only, because switches report these packets without sampling. It
// reports whether the packet was counted: it may be other traffic, or the table may be full.
func (s *Samples) ObserveDiscard(p *Packet, sample Sample, reason string, now time.Time) bool {
	t := unixNano(now)
	f := s.lookUp(p, sample.Source, t)
	if f == nil {
		return false
	}
	f.recordTime(t)
	f.flow.DSCP |= 1 << (p.trafficClass >> 2)
	f.queue.update(&sample.Queue)
	f.discards.count(sample.Queue.EgressQueue, reason, now)
	return true
}

// lookUp returns the counts of the queue pair that a packet goes to, or nil if there are none, and
// counts the packet in the Stats. Its sample came from a source at a time.
func (s *Samples) lookUp(p *Packet, source netip.Addr, now int64) *sampled {
	s.stats.Packets++
	switch p.kind {
	case truncatedKind:
		s.stats.Truncated++
		s.stats.SnapLength = max(s.stats.SnapLength, int(p.snapLength))
		return nil
	case otherTraffic, pfcKind, trimmedKind:
		s.stats.Others++
		return nil
	case invalidKind:
		s.stats.Broken++
		return nil
	}
	k := &p.pkt.Flow
	hash := k.Hash(s.flows.Seed)
	f, id := s.flows.Find(k, hash)
	if f != nil {
		s.flows.Renew(id, 0)
		return f
	}
	var from key
	if source.IsValid() {
		from = flowtable.KeyOf(source, source, 0, 0)
	}
	if s.flows.Full() && !s.evictFor(&from, now) {
		s.full++
		return nil
	}
	f = s.flows.Value(s.flows.Add(k, hash, 0))
	f.from = from
	s.shares.Add(&from, s.flows.Seed)
	return f
}

// evictFor evicts a queue pair for one of a source, and reports whether it did.
func (s *Samples) evictFor(from *key, now int64) bool {
	id := s.flows.Victim(0, flowtable.Looks, func(id uint32) bool {
		f := s.flows.Value(id)
		return now-f.last < longestIdle && s.shares.Compare(&f.from, from, true, true, s.flows.Seed) <= 0
	})
	if id == 0 {
		return false
	}
	s.shares.Remove(&s.flows.Value(id).from, s.flows.Seed)
	s.flows.Remove(id)
	s.evicted++
	return true
}

func (f *sampled) recordTime(t int64) {
	if f.first == 0 {
		f.first = t
	}
	f.last = max(f.last, t)
}

// countPoint counts a sample for its point.
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

// sumOrMost returns the sum, or the maximum value on overflow.
func sumOrMost(a, b uint64) uint64 {
	sum, carry := bits.Add64(a, b, 0)
	if carry > 0 {
		return math.MaxUint64
	}
	return sum
}

// Stats returns the counts of the packets given to Observe and ObserveDiscard.
func (s *Samples) Stats() Stats { return s.stats }

// Refused returns the number of packets that were not counted because the maximum number of queue pairs,
// given to NewSamples, was reached.
func (s *Samples) Refused() uint64 { return s.full }

// Evicted returns the number of queue pairs that were removed to make room for others. Their counts are lost.
func (s *Samples) Evicted() uint64 { return s.evicted }

// Snapshot returns a copy of all counts, ordered by addresses and queue pairs.
func (s *Samples) Snapshot() []Sampled {
	all := make([]Sampled, 0, s.flows.Len())
	for id := range s.flows.All() {
		k, f := s.flows.Key(id), s.flows.Value(id)
		out := Sampled{FlowKey: k.FlowKey(), WithQP: k.QP&withoutQP == 0, Requests: f.flow.Requests, Answers: f.answers,
			Responses: f.responses, First: timeOf(f.first), Last: timeOf(f.last), Points: slices.Clone(f.points),
			OtherPoints: f.elsewhere, Discards: f.discards.sorted(), Queue: f.queue}
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
