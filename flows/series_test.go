package flows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/traffic"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
)

// The sum of a series' bins equals the counts of the flow, and the first mark of a gap or
// retransmission is at Requests.FirstTrouble.
func TestSeriesSums(t *testing.T) {
	marks := map[MarkKind]int{}
	for seed := range uint64(wiretest.Rounds(100)) {
		made := traffic.Generate(seed, traffic.Options{Connections: 1 + int(seed%4)})
		table := tableOf(made, Config{Series: true})
		for _, f := range table.Snapshot().Flows {
			s := table.Series(f.FlowKey)
			require.Equal(t, f.First, s.Start)
			require.LessOrEqual(t, len(s.Bins), 2*seriesBins+1)
			var sum Tally
			for i := range s.Bins {
				sum.addNext(&s.Bins[i].Tally)
			}
			late, repeats := uint32(f.PSN.Late), uint32(f.PSN.Retransmitted)
			if isManagement(f.DestQP) {
				require.Empty(t, s.Marks)
				late, repeats = 0, 0
			}
			require.Equal(t, f.Data.IPOctets, sum.IPOctets)
			require.EqualValues(t, f.Data.CE, sum.CE)
			require.EqualValues(t, f.CNPs+f.FastCNPs, sum.CNPs)
			require.Equal(t, late, sum.Late)
			require.Equal(t, repeats, sum.Retransmitted)
			require.EqualValues(t, f.PPFC, sum.PPFC)
			require.LessOrEqual(t, uint64(sum.RNRNAKs), f.RNRNAKs)
			if f.RTT != nil {
				require.EqualValues(t, f.RTT.max, sum.RTT)
			}
			var end time.Duration
			for _, b := range s.Bins {
				require.Equal(t, end, b.From)
				require.Greater(t, b.To, b.From)
				end = b.To
			}
			require.GreaterOrEqual(t, end, s.End.Sub(s.Start))
			require.LessOrEqual(t, uint64(sum.Missing), f.PSN.Missing) // except for the last ones

			first, n, naks := uint64(0), uint64(0), uint32(0)
			for _, m := range s.Marks {
				marks[m.Kind]++
				if m.Kind == MarkNAK {
					naks++
				}
				require.Equal(t, made.Frames[m.Frame-1].Time, m.Time)
				if first == 0 && (m.Kind == MarkGap || m.Kind == MarkRetransmission) {
					first = m.Frame
				}
				if m.Kind < MarkConnection {
					n += uint64(m.Count)
				}
			}
			require.Equal(t, f.FirstTrouble, first)
			require.True(t, s.DroppedMarks > 0 || naks == sum.NAKs, "%d marks, %d in bins", naks, sum.NAKs)
			if s.DroppedMarks == 0 {
				require.EqualValues(t, sum.Missing+sum.Late+sum.Retransmitted, n)
			}
		}
	}
	for kind := MarkGap; kind <= MarkProxy; kind++ {
		if kind == MarkFCN { // TestSeriesNotices
			continue
		}
		require.NotZero(t, marks[kind], kind)
	}
}

func TestSeriesMarks(t *testing.T) {
	s := newScript(t)
	s.Table = New(Config{Series: true})
	s.exchangeCM(7, 0xFFFFFE, 1024).sendOnly(0xFFFFFE, 0xFFFFFF, 2, 0).answerNAK(1).sendOnly(2).answerACK(2).
		sendOnly(900_000)
	key := rocev2.FlowKey{Src: s.a, Dst: s.b, DestQP: s.qpB}
	got := s.Series(key)
	for i := range got.Marks {
		got.Marks[i].Frame, got.Marks[i].Time = 0, time.Time{}
	}
	require.Equal(t, []Mark{
		{Kind: MarkGap, PSN: 0, Count: 2, Line: 2},
		{Kind: MarkLate, PSN: 0, Count: 1, Line: 2},
		{Kind: MarkNAK, PSN: 1, Count: 1, Line: 3},
		{Kind: MarkRetransmission, Cause: CauseSequenceNAK, PSN: 2, Count: 1, Line: 4},
		{Kind: MarkConnection, PSN: 900_000, Count: 1, Line: 0},
	}, got.Marks)
	key.DestQP++
	require.Nil(t, s.Series(key))
}

// Consecutive retransmissions share a mark, and the number of marks is limited.
func TestSeriesIsBounded(t *testing.T) {
	s := newScript(t)
	s.Table = New(Config{Series: true})
	s.exchangeCM(7, 1, 1024)
	for psn := uint32(1); psn <= 100; psn++ {
		s.sendOnly(psn)
	}
	for psn := uint32(11); psn <= 100; psn++ {
		s.sendOnly(psn)
	}
	for psn := uint32(103); psn <= 600; psn += 3 {
		s.sendOnly(psn)
	}
	got := s.Series(rocev2.FlowKey{Src: s.a, Dst: s.b, DestQP: s.qpB})
	require.Len(t, got.Marks, seriesMarks)
	require.EqualValues(t, 90, got.Marks[0].Count)
	require.EqualValues(t, 166+1-seriesMarks, got.DroppedMarks)
	require.LessOrEqual(t, len(got.Bins), 2*seriesBins+1)
}

// Bins become wider with time, even if it steps back.
func TestSeriesTime(t *testing.T) {
	s := newSeries()
	for _, at := range []int64{0, 255_999, 256_000, -5, 1 << 62, -1 << 62, 1<<63 - 1, 5} {
		s.talliesAt(at)[0].CE++
		require.LessOrEqual(t, s.bins.n, seriesBins)
	}
	sum := Tally{}
	for i := range s.bins.tallies {
		sum.addNext(&s.bins.tallies[i])
	}
	require.EqualValues(t, 8, sum.CE)
}

// The queue depths of Linux transit nodes.
func TestSeriesQueues(t *testing.T) {
	table := New(Config{Series: true})
	var d Decoder
	var p Packet
	for _, r := range wiretest.Capture(t, "ioam-linux618-hpcc.pcap") {
		d.Decode(&p, r.Data, rocev2.DecodeOptions{})
		table.Observe(&p, uint64(r.Number), r.Time)
	}
	n := 0
	for _, f := range table.Snapshot().Flows {
		for _, q := range table.Series(f.FlowKey).Nodes {
			n++
			require.Contains(t, []uint64{0xB2, 0xC3, 0xD4}, q.Node)
			require.Contains(t, q.Known, true)
			require.Len(t, q.Depth, len(q.Known))
		}
	}
	require.Equal(t, 3, n)
}

// Memory grows with flows, not with packets; without Config.Series there are no series.
func TestSeriesAllocations(t *testing.T) {
	made := traffic.Generate(7, traffic.Options{Connections: 4})
	packets := make([]Packet, len(made.Frames))
	var d Decoder
	for i, f := range made.Frames {
		d.Decode(&packets[i], f.Data, rocev2.DecodeOptions{})
	}
	table := tableOf(made, Config{Series: true})
	require.Zero(t, testing.AllocsPerRun(20, func() {
		for i := range packets {
			table.Observe(&packets[i], uint64(i), made.Frames[i].Time)
		}
	}))
	table = tableOf(made, Config{})
	for _, f := range table.Snapshot().Flows {
		require.Nil(t, table.Series(f.FlowKey))
	}
	require.Empty(t, table.serieses.all.blocks)
}

// An evicted flow releases its series.
func TestSeriesEvicted(t *testing.T) {
	made := traffic.Generate(3, traffic.Options{Connections: 40})
	table := tableOf(made, Config{MaxFlows: 16, Series: true})
	require.NotZero(t, table.Evicted().Flows)
	require.LessOrEqual(t, table.serieses.all.n, uint32(17))
}

// Notifications of nodes and of the receiver are marked with time and frame.
func TestSeriesNotices(t *testing.T) {
	table := New(Config{Series: true})
	var d Decoder
	var p Packet
	for _, r := range wiretest.Capture(t, "tour.pcap") {
		d.Decode(&p, r.Data, rocev2.DecodeOptions{})
		table.Observe(&p, uint64(r.Number), r.Time)
	}
	f := &table.Snapshot().Flows[0]
	kinds := map[MarkKind]int{}
	for _, m := range table.Series(f.FlowKey).Marks {
		kinds[m.Kind]++
		require.NotZero(t, m.Frame)
		require.False(t, m.Time.IsZero())
	}
	require.Equal(t, map[MarkKind]int{MarkRetransmission: 1, MarkFastCNP: 2, MarkPPFC: 2, MarkFCN: 1, MarkProxy: 1},
		kinds)
}

// A series begins with the first request or response, and not with an earlier notification about the flow.
func TestSeriesBeginsWithData(t *testing.T) {
	s := newScript(t)
	s.Table = New(Config{Series: true})
	s.setTime(100).pairFlow().observe(Packet{kind: fastKind, pkt: observation{Opcode: bth.CNP, Flow: s.keyBA()},
		about: s.keyAB()})
	s.setTime(200).sendOnly(10)
	got := s.Series(s.onlyFlow().FlowKey)
	require.Equal(t, s.now, got.Start)
	require.Equal(t, s.now, got.End)
}

// Flows that are evicted give back the space for their queue depths, so that later flows have some.
func TestSeriesOfQueuesAreReleased(t *testing.T) {
	s := newScript(t)
	s.Table = New(Config{Series: true, MaxFlows: 16})
	for n := range uint32(maxQueueSeries + 100) {
		s.qpB = 1000 + n
		s.setTime(int(n)).observe(Packet{kind: requestKind, nHops: 1, hops: [maxNodes]QueueDepth{{7, 64, true}},
			pkt: observation{Opcode: bth.RCSendOnly, Flow: s.keyAB(), PSN: 10}})
		got := s.Series(rocev2.FlowKey{Src: s.a, Dst: s.b, DestQP: s.qpB})
		require.NotNil(t, got)
		require.Len(t, got.Nodes, 1, "flow %d", n)
	}
}
