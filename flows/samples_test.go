package flows

import (
	"math"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/traffic"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
)

func samplePoint(i uint32) SamplePoint {
	return SamplePoint{Agent: netip.MustParseAddr("192.0.2.200"), Index: i}
}

// Samples are counted by point, never added up over points; the counts of a flow are those of
// its samples.
func TestSamples(t *testing.T) {
	s := NewSamples(0)
	var d Decoder
	var p Packet
	frames := wiretest.Capture(t, "rxe-perf4.pcap")
	want := map[uint32]uint64{} // IP octets of requests to 10.77.0.1 by queue pair; every third is sampled
	for i, f := range frames {
		d.Decode(&p, f.Data, rocev2.DecodeOptions{})
		if p.kind != requestKind && p.kind != answerKind || i%3 > 0 {
			continue
		}
		at := samplePoint(uint32(i % 2))
		s.Observe(&p, Sample{SamplePoint: at, Rate: 3}, time.Unix(100, int64(i)))
		if p.kind == requestKind && f.Data[33] == 1 {
			want[p.pkt.Flow.QP&maxQP] += uint64(p.ipOctets)
		}
	}
	require.NotEmpty(t, want)
	for _, f := range s.Snapshot() {
		require.True(t, f.WithQP)
		if f.Dst == netip.MustParseAddr("10.77.0.1") {
			require.Equal(t, want[f.DestQP], f.IPOctets)
		}
		n := f.Requests.Packets + f.Responses + f.Answers.Total()
		for _, at := range f.Points {
			require.Equal(t, 3*at.Samples, at.Packets)
			require.EqualValues(t, 3, at.Rate)
			n -= at.Samples
		}
		require.Zero(t, n, f.FlowKey)
		require.Equal(t, [messageKinds]Messages{}, f.messages)
	}
}

// Limits are kept, and every packet is counted somewhere.
func TestSamplesLimits(t *testing.T) {
	made := traffic.Generate(3, traffic.Options{Connections: 8})
	s := NewSamples(4)
	var d Decoder
	var p Packet
	for i, f := range made.Frames {
		d.Decode(&p, f.Data, rocev2.DecodeOptions{})
		s.Observe(&p, Sample{SamplePoint: samplePoint(uint32(i % 20)), Rate: 1<<32 - 1}, f.Time)
	}
	all := s.Snapshot()
	require.Len(t, all, 4)
	n := s.Refused() + s.Stats().Others + s.Stats().Broken + s.Stats().Truncated
	for _, f := range all {
		require.LessOrEqual(t, len(f.Points), maxPoints)
		n += f.OtherPoints
		for _, at := range f.Points {
			n += at.Samples
		}
	}
	require.Equal(t, s.Stats().Packets, n)
	require.EqualValues(t, uint64(math.MaxUint64), sumOrMost(1<<63, 1<<63))
	require.EqualValues(t, 7, sumOrMost(3, 4))
}

// A source of forged samples that has filled the table does not keep out the queue pairs of other sources, and
// takes no space from them. Queue pairs that are not sampled any more make room as well.
func TestForgedSamples(t *testing.T) {
	const most = 1000
	forger, real := netip.MustParseAddr("198.51.100.7"), netip.MustParseAddr("192.0.2.7")
	s, now := NewSamples(most), time.Unix(1000, 0)
	s.flows.Seed = 1 // with 1 of 2,700 seeds both sources have one counter
	observe := func(source netip.Addr, qp uint32) {
		p := Packet{kind: requestKind, pkt: observation{Opcode: bth.RCSendOnly,
			Flow: keyOf(rocev2.FlowKey{Src: source, Dst: real, DestQP: qp})}}
		s.Observe(&p, Sample{SamplePoint: samplePoint(1), Source: source}, now)
	}
	count := func() (n int) {
		for _, f := range s.Snapshot() {
			if f.Src == real {
				n++
			}
		}
		return n
	}
	for qp := range uint32(2 * most) {
		observe(forger, qp)
	}
	require.EqualValues(t, most, s.Refused())
	for qp := range uint32(most / 4) {
		observe(real, qp)
		observe(forger, 2*most+qp)
	}
	require.Equal(t, most/4, count())
	for qp := range uint32(10 * most) {
		observe(forger, 10*most+qp)
	}
	require.Equal(t, most/4, count())
	require.Len(t, s.Snapshot(), most)

	now = now.Add(11 * time.Minute)
	before := s.Evicted()
	observe(real, 1)
	observe(forger, 1<<20)
	require.Equal(t, before+1, s.Evicted())
	require.Equal(t, 1+most/4, count()+1, "the one sampled longest ago goes")
}

// A rate of 0 means 1.
func TestSamplesRate(t *testing.T) {
	var d Decoder
	var p Packet
	f := wiretest.Capture(t, "messages.pcap")[0]
	d.Decode(&p, f.Data, rocev2.DecodeOptions{})
	of := func(rate uint32) []Sampled {
		s := NewSamples(0)
		s.Observe(&p, Sample{SamplePoint: samplePoint(1), Rate: rate}, f.Time)
		return s.Snapshot()
	}
	require.Len(t, of(0), 1)
	require.Equal(t, of(1), of(0))
}

// A CNP counts for its destination, an FCN for its destination without a queue pair, and a PFC
// frame as other traffic.
func TestSamplesKinds(t *testing.T) {
	s := NewSamples(0)
	var d Decoder
	var p Packet
	kinds := map[kind]bool{}
	for _, name := range []string{"messages.pcap", "fastcnp.pcap", "tour.pcap"} {
		for _, f := range wiretest.Capture(t, name) {
			d.Decode(&p, f.Data, rocev2.DecodeOptions{})
			kinds[p.kind] = true
			s.Observe(&p, Sample{SamplePoint: samplePoint(1), Rate: 10}, f.Time)
		}
	}
	for k := otherTraffic; k <= pfcKind; k++ {
		require.True(t, kinds[k] || k == truncatedKind, k)
	}
	var sums Answers
	for _, f := range s.Snapshot() {
		sums.addCounts(&f.Answers)
		require.Equal(t, f.FCN+f.Proxy == 0, f.WithQP)
	}
	for _, n := range []uint64{sums.CNPs, sums.FastCNPs, sums.PPFC, sums.FCN, sums.Proxy} {
		require.Positive(t, n)
	}
	require.Positive(t, s.Stats().Others)
	require.Positive(t, s.Stats().Broken)
}

// The snapshot length is the largest one of the truncated packets.
func TestSamplesSnapLength(t *testing.T) {
	s := NewSamples(0)
	for _, length := range []uint16{60, 64, 58} {
		require.Empty(t, s.Snapshot())
		s.Observe(&Packet{kind: truncatedKind, snapLength: length}, Sample{}, time.Unix(1, 0))
	}
	require.Equal(t, 64, s.Stats().SnapLength)
	require.EqualValues(t, 3, s.Stats().Truncated)
}
