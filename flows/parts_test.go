package flows

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// newSeries returns a series that begins at 100 ns.
func newSeries() *series {
	return new(seriesPools{maxFine: 1}).beginSeries(new(uint32), 100)
}

// Consecutive retransmissions with the same cause share a mark.
func TestMarksOfRetransmissions(t *testing.T) {
	repeat := func(psn uint32, c RetransmissionCause) Mark {
		return Mark{Kind: MarkRetransmission, Cause: c, PSN: psn, Count: 1}
	}
	for _, c := range []struct {
		name   string
		marks  []Mark
		counts []uint32
	}{
		{"in order", []Mark{repeat(5, CauseRNR), repeat(6, CauseRNR), repeat(7, CauseRNR)}, []uint32{3}},
		{"after the wrap", []Mark{repeat(bth.MaxPSN, CauseRNR), repeat(0, CauseRNR)}, []uint32{2}},
		{"another cause", []Mark{repeat(5, CauseRNR), repeat(6, CauseTimeout)}, []uint32{1, 1}},
		{"the same PSN", []Mark{repeat(5, CauseRNR), repeat(5, CauseRNR)}, []uint32{1, 1}},
		{"one omitted", []Mark{repeat(5, CauseRNR), repeat(7, CauseRNR)}, []uint32{1, 1}},
		{"after a gap", []Mark{{Kind: MarkGap, PSN: 5, Count: 1}, repeat(6, CauseTimeout)}, []uint32{1, 1}},
		{"a gap after it", []Mark{repeat(5, CauseTimeout), {Kind: MarkGap, PSN: 6, Count: 2}}, []uint32{1, 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSeries()
			for _, m := range c.marks {
				s.addMark(m)
			}
			var counts []uint32
			for _, m := range s.marks {
				counts = append(counts, m.Count)
			}
			require.Equal(t, c.counts, counts)
		})
	}
	s := newSeries()
	for psn := range uint32(seriesMarks + 3) {
		s.addMark(repeat(2*psn, CauseRNR))
	}
	require.EqualValues(t, 3, s.droppedMarks)
	s.addMark(repeat(2*(seriesMarks-1)+1, CauseRNR))
	require.EqualValues(t, 2, s.marks[seriesMarks-1].Count)
	require.EqualValues(t, 3, s.droppedMarks)
}

// recordDepth records a queue depth in a bin of 1 µs.
func recordDepth(s *series, q QueueDepth, bin int) {
	s.recordDepths(&Packet{nHops: 1, hops: [maxNodes]QueueDepth{q}}, 100+1000*int64(bin))
}

// A merged bin has the sum of two bins, and the deeper queue.
func TestWiden(t *testing.T) {
	s := newSeries()
	at := func(n int64) *Tally { return &s.bins.tallies[s.binAt(100+1000*n)] }
	*at(0) = Tally{IPOctets: 1, CE: 2, CNPs: 3, Missing: 4, Late: 5, Retransmitted: 6, First: 7, Last: 8,
		Sequenced: true}
	*at(1) = Tally{IPOctets: 10, CE: 20, CNPs: 30, Missing: 40, Late: 50, Retransmitted: 60, First: 70, Last: 80,
		Sequenced: true}
	*at(2) = Tally{IPOctets: 1}
	*at(3) = Tally{First: 9, Last: 11, Sequenced: true}
	*at(4) = Tally{First: 12, Last: 13, Sequenced: true}
	*at(5) = Tally{IPOctets: 2}
	for _, q := range []struct {
		bin   int
		depth uint32
	}{{0, 5}, {3, 4}, {6, 0}, {8, 9}, {9, 7}} {
		recordDepth(s, QueueDepth{1, q.depth, true}, q.bin)
	}
	recordDepth(s, QueueDepth{2, 3, true}, 1)
	require.Equal(t, 10, s.bins.n)
	require.Zero(t, *at(seriesBins - 1))
	require.EqualValues(t, 1000, s.bins.width, "the last one within the limit")
	require.EqualValues(t, seriesBins/2, s.binAt(100+1000*seriesBins))
	require.EqualValues(t, 2000, s.bins.width)
	require.Equal(t, seriesBins/2+1, s.bins.n)
	bins := s.bins.tallies
	require.Equal(t, Tally{IPOctets: 11, CE: 22, CNPs: 33, Missing: 44, Late: 55, Retransmitted: 66, First: 7, Last: 80,
		Sequenced: true}, bins[0])
	require.Equal(t, Tally{IPOctets: 1, First: 9, Last: 11, Sequenced: true}, bins[1])
	require.Equal(t, Tally{IPOctets: 2, First: 12, Last: 13, Sequenced: true}, bins[2])
	for _, b := range bins[3:] {
		require.Zero(t, b)
	}
	require.Len(t, s.toSeries().Nodes, 2)
	one, two := &s.toSeries().Nodes[0], &s.toSeries().Nodes[1]
	require.Equal(t, []bool{true, true, false, true, true, false}, one.Known[:6])
	require.NotContains(t, one.Known[6:], true)
	require.Equal(t, []uint32{5, 4, 0, 0, 9, 0}, one.Depth[:6])
	require.Equal(t, []bool{true, false}, two.Known[:2])
	require.NotContains(t, two.Known[2:], true)
	require.EqualValues(t, 3, two.Depth[0])

	// A time before the start belongs to the first bin; the first PSN in a bin is kept.
	require.Zero(t, s.binAt(0))
	s = newSeries()
	for _, psn := range []uint32{50, 52, 51} {
		s.recordSequenced(&Packet{pkt: observation{PSN: psn}}, 1, 100, inOrder, 0, false, CauseTimeout)
	}
	require.Equal(t, Tally{First: 0, Last: 1, Sequenced: true}, s.bins.tallies[0])

	// The first nodes are kept, with their maximum depth.
	for node := range uint64(maxNodes + 2) {
		recordDepth(s, QueueDepth{node, 5, true}, 0)
		recordDepth(s, QueueDepth{node, 4, true}, 0)
	}
	nodes := s.toSeries().Nodes
	require.Len(t, nodes, maxNodes)
	require.EqualValues(t, maxNodes-1, nodes[maxNodes-1].Node)
	require.EqualValues(t, 5, nodes[maxNodes-1].Depth[0])
}

// Answers end a round trip or only remove the request.
func TestTimeAnswer(t *testing.T) {
	type step func(m *pendingTimes, h *Histogram)
	add := func(psn uint32, at int64) step {
		return func(m *pendingTimes, _ *Histogram) { m.addRequest(psn, false, at) }
	}
	read := func(psn uint32, at int64) step {
		return func(m *pendingTimes, _ *Histogram) { m.addRequest(psn, true, at) }
	}
	ack := func(psn uint32, at int64) step {
		return func(m *pendingTimes, h *Histogram) { m.timeAnswer(psn, false, false, at, h) }
	}
	response := func(psn uint32, at int64) step {
		return func(m *pendingTimes, h *Histogram) { m.timeAnswer(psn, true, false, at, h) }
	}
	nak := func(psn uint32, at int64) step {
		return func(m *pendingTimes, h *Histogram) { m.timeAnswer(psn, false, true, at, h) }
	}
	again := func(psn uint32) step { return func(m *pendingTimes, _ *Histogram) { m.removePSN(psn) } }
	for _, c := range []struct {
		name  string
		steps []step
		times []time.Duration
		waits uint32
	}{
		{"one", []step{add(5, 10), ack(5, 13)}, []time.Duration{3}, 0},
		{"not yet", []step{add(5, 10), ack(4, 13)}, nil, 1},
		{"two at the same time", []step{add(5, 10), add(6, 11), add(7, 12), ack(6, 13)}, []time.Duration{2, 3}, 1},
		{"after the wrap", []step{add(bth.MaxPSN, 10), add(0, 11), ack(0, 13)}, []time.Duration{2, 3}, 0},
		{"a NAK", []step{add(5, 10), add(6, 11), nak(5, 13), ack(6, 14)}, []time.Duration{3}, 0},
		{"reordered", []step{add(6, 10), add(5, 11), add(6, 12), ack(6, 13)}, []time.Duration{3}, 0},
		{"retransmitted", []step{add(5, 10), add(6, 11), add(7, 12), again(6), ack(7, 13)}, []time.Duration{1, 3}, 0},
		{"a READ", []step{read(5, 10), response(5, 14)}, []time.Duration{4}, 0},
		{"a retransmitted READ", []step{read(5, 10), again(5), response(5, 14)}, nil, 0},
		{"a READ, its first response lost", []step{read(5, 10), response(6, 14)}, nil, 0},
		{"a READ, an ACK", []step{read(5, 10), ack(5, 14), response(5, 15)}, nil, 0},
		{"a READ after a WRITE", []step{add(4, 9), read(5, 10), response(5, 14)}, []time.Duration{4, 5}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var m pendingTimes
			var h Histogram
			for _, s := range c.steps {
				s(&m, &h)
			}
			var want Histogram
			for _, d := range c.times {
				want.Add(d)
			}
			require.Equal(t, want, h)
			require.Equal(t, c.waits, m.tail-m.head)
		})
	}
	var m pendingTimes
	for psn := range uint32(maxMarks + 2) {
		m.addRequest(psn, false, int64(psn))
	}
	var h Histogram
	m.timeAnswer(maxMarks+1, false, false, 1000, &h)
	require.EqualValues(t, maxMarks, h.Count())
	require.EqualValues(t, 1000-(maxMarks-1), h.Min())
}

// An ATOMIC Acknowledge completes no READ and a response no ATOMIC; the last 128 requests are
// remembered.
func TestCompleteMessage(t *testing.T) {
	s := newPaired(t, 10).sendRead(10, 1024).sendOp(bth.RCFetchAdd, 11).answerOp(bth.RCAtomicAcknowledge, 0x1F, 10)
	s.answerOp(bth.RCRDMAReadResponseOnly, 0x1F, 11)
	f := s.onlyFlow()
	require.Equal(t, Messages{1, 0}, *f.Message(MessageRead))
	require.Equal(t, Messages{1, 0}, *f.Message(MessageAtomic))
	s.answerOp(bth.RCRDMAReadResponseOnly, 0x1F, 10, 10).answerOp(bth.RCAtomicAcknowledge, 0x1F, 11, 11)
	f = s.onlyFlow()
	require.Equal(t, Messages{1, 1}, *f.Message(MessageRead))
	require.Equal(t, Messages{1, 1}, *f.Message(MessageAtomic))

	s = newPaired(t, 0)
	const n = maxAsked + 2
	for psn := range uint32(n) {
		s.sendRead(psn, 1024)
	}
	for psn := range uint32(n) {
		s.answerOp(bth.RCRDMAReadResponseOnly, 0x1F, psn)
	}
	require.Equal(t, Messages{n, maxAsked}, s.onlyFlow().messages[MessageRead])
	for psn := uint32(n); psn < 3*n; psn++ {
		s.sendRead(psn, 1024).answerOp(bth.RCRDMAReadResponseOnly, 0x1F, psn)
	}
	require.Equal(t, Messages{3 * n, maxAsked + 2*n}, s.onlyFlow().messages[MessageRead])
}

// Clocks uses the pair of addresses with the most samples in both directions.
func TestClocksOfSeveralPaths(t *testing.T) {
	s := newScript(t)
	other := s.keyAB()
	other.Dst[15] = 99
	type delayed struct {
		key
		delays []time.Duration
	}
	flow := func(k key, qp uint32, delays ...time.Duration) delayed { return delayed{k.WithQP(qp), delays} }
	ab, ba := s.keyAB(), s.keyBA()
	for _, c := range []struct {
		name  string
		flows []delayed
		want  Clocks
	}{
		{"nothing", nil, Clocks{}},
		{"no common packet", []delayed{flow(ab, 1)}, Clocks{}},
		{"one way", []delayed{flow(ab, 1, 100), flow(ab, 2, 50)}, Clocks{Basis: ClocksOneWay}},
		{"two pairs of addresses", []delayed{flow(ab, 1, 100), flow(other, 2, -50)}, Clocks{Basis: ClocksOneWay}},
		{"both ways", []delayed{flow(ab, 1, 120, 100, 110), flow(ab, 2, 90), flow(ba, 1, -60, -50, -70)},
			Clocks{Basis: ClocksBothWays, Offset: 20, Delay: 70}},
		{"in reverse", []delayed{flow(ba, 1, 120, 100, 110), flow(ba, 2, 90), flow(ab, 1, -60, -50, -70)},
			Clocks{Basis: ClocksBothWays, Offset: 20, Delay: 70}},
		{"a clock far ahead", []delayed{flow(ab, 1, 1010), flow(ba, 1, 990, 980)},
			Clocks{Basis: ClocksBothWays, Offset: 1000, Delay: 10}},
		{"extremes of an earlier flow",
			[]delayed{flow(ab, 1, 90), flow(ab, 2, 110, 100), flow(ba, 1, -50), flow(ba, 2, -70, -60)},
			Clocks{Basis: ClocksBothWays, Offset: 20, Delay: 70}},
		{"equal medians", []delayed{flow(ab, 1, 0, 10, 20), flow(ba, 1, 2, 10, 40)},
			Clocks{Basis: ClocksBothWays, Offset: 20, Delay: -20}},
		{"equal pairs of addresses",
			[]delayed{flow(ab, 1, 30), flow(ba, 1, -10), flow(other, 1, 50), flow(other.Reversed(1), 1, -10)},
			Clocks{Basis: ClocksBothWays, Offset: 10, Delay: 20}},
		// The direction is that of the flow with the most samples.
		{"a flow with the opposite result", []delayed{
			flow(ab, 1, 100, 101, 102), flow(ab, 2, -900, -901), flow(ba, 1, -100),
		},
			Clocks{Basis: ClocksBothWays, Offset: -500, Delay: -400}}, // -901 - 100 is -1001, halved towards 0
		{"a flow with the opposite result and as many samples", []delayed{
			flow(ab, 1, 100), flow(ab, 2, -900), flow(ba, 1, -100),
		},
			Clocks{Basis: ClocksBothWays, Offset: -500, Delay: -400}},
		{"the most samples", []delayed{flow(ab, 1, 1000), flow(ba, 1, -1000), flow(other, 1, 10, 20),
			flow(other.Reversed(1), 1, -10, -20)},
			Clocks{Basis: ClocksBothWays, Offset: 0, Delay: 10}},
	} {
		t.Run(c.name, func(t *testing.T) {
			comparison := NewComparison(ComparisonConfig{})
			for _, f := range c.flows {
				for _, d := range f.delays {
					comparison.lookUpFlow(&f.key).Delay.addDelay(d)
				}
				comparison.lookUpFlow(&f.key)
			}
			for range 20 { // in the order of addresses, not of a map
				require.Equal(t, c.want, comparison.Clocks())
			}
		})
	}
}

// A flow's typical delay follows its delays by one sixteenth, and predicts the time of A's packets
// at B.
func TestTypicalDelay(t *testing.T) {
	c := NewComparison(ComparisonConfig{})
	one, other := new(comparedFlow), new(comparedFlow)
	pair := func(f *comparedFlow, d int64, seen ...uint32) {
		c.countDelay(&group{flow: f, seen: [2]uint32{seen[0], seen[1]}}, &remembered{delay: d})
	}
	pair(one, 160, 1, 1)
	pair(one, 320, 1, 1)
	pair(one, 9999, 2, 1) // it is unknown which one was lost
	pair(other, 1600, 1, 1)
	require.EqualValues(t, 170, one.typical)
	require.EqualValues(t, 1600, other.typical)
	require.EqualValues(t, 170+(1600-170)/16, c.typical)
	require.EqualValues(t, 2, one.Delay.Count())

	c.sides[PointB] = side{end: 5, first: 1000, last: 2000}
	none := new(comparedFlow)
	for _, x := range []struct {
		f       *comparedFlow
		t       int64
		outside uint64
	}{{one, 829, 1}, {one, 830, 0}, {one, 1830, 0}, {one, 1831, 1}, {none, 740, 1}, {none, 741, 0}, {none, 1741, 0},
		{none, 1742, 1}} {
		was := x.f.Outside
		c.countMissing(PointA, &group{flow: x.f}, x.t)
		require.Equal(t, x.outside, x.f.Outside-was, x.t)
	}
	require.EqualValues(t, 4, none.Lost)
	c.sides[PointB].end = 0
	c.countMissing(PointA, &group{flow: none}, 1000)
	require.EqualValues(t, 3, none.Outside, "B has nothing")
	c.countMissing(PointB, &group{flow: none}, 0)
	require.EqualValues(t, 1, none.Added)
	require.EqualValues(t, 3, none.Outside)
}

// Next returns the point with fewer unmatched packets, up to half a window.
func TestNext(t *testing.T) {
	for _, c := range []struct {
		window, a, b uint64
		turn, want   Point
	}{
		{100, 3, 1, PointA, PointB}, {100, 3, 1, PointB, PointB},
		{100, 1, 3, PointA, PointA}, {100, 1, 3, PointB, PointA}, {100, 2, 2, PointA, PointB},
		{100, 2, 2, PointB, PointA},
		{100, 50, 60, PointB, PointA}, {100, 50, 60, PointA, PointB},
		{100, 49, 60, PointA, PointA}, {100, 60, 49, PointB, PointB}, {1, 1, 5, PointA, PointB},
		{1, 0, 5, PointA, PointA}, {2, 5, 0, PointB, PointB},
	} {
		k := Comparison{window: c.window, turn: c.turn}
		k.sides[PointA].waiting, k.sides[PointB].waiting = c.a, c.b
		require.Equal(t, c.want, k.Next(), "%+v", c)
	}
}

// The PFC frames of an address belong to one shard, and the number of addresses is limited.
func TestLinksInShards(t *testing.T) {
	tables := []*Table{New(Config{Shards: 3}), New(Config{Shard: 1, Shards: 3}), New(Config{Shard: 2, Shards: 3})}
	whole := New(Config{})
	const n = maxLinks + 5
	for i := range n {
		p := Packet{kind: pfcKind, pause: pause{mac: [6]byte{2, 0, 0, 0, byte(i >> 8), byte(i)}, enabled: 1,
			quanta: [8]uint16{1}}}
		whole.Observe(&p, 1, time.Unix(1, 0))
		for _, table := range tables {
			table.Observe(&p, 1, time.Unix(1, 0))
		}
	}
	require.EqualValues(t, 5, whole.Stats().DroppedPFC)
	require.Len(t, whole.links, maxLinks)
	sum := 0
	for _, table := range tables {
		require.Greater(t, len(table.links), n/4)
		require.Zero(t, table.Stats().DroppedPFC)
		sum += len(table.links)
	}
	require.Equal(t, n, sum)
	var before []byte
	for _, l := range whole.Snapshot().Links {
		require.Less(t, string(before), string(l.Src), "in order")
		before = l.Src
	}
}

// A clock that steps back by less than a second belongs to another queue; a larger step means that
// it was set.
func TestPauseStepsBack(t *testing.T) {
	for _, c := range []struct{ back, since int64 }{{0, 5e9}, {1, 5e9}, {1e9 - 1, 5e9}, {1e9, 4e9}, {2e9, 3e9},
		{-1, 5e9 + 1}} {
		t.Run(fmt.Sprint(c.back), func(t *testing.T) {
			var p priorityState
			p.recordFrame(1000, 1, 5e9, nil)
			p.recordFrame(1000, 2, 5e9-c.back, nil)
			require.Equal(t, c.since, p.since, c.back)
		})
	}
}

// The end of a message seen before its beginning is distinguished from others, even if the packet
// between them is late.
func TestLateMiddle(t *testing.T) {
	const first, middle, last = bth.RCSendFirst, bth.RCSendMiddle, bth.RCSendLast
	s := newScript(t).sendOp(middle, 10).sendOp(last, 12).sendOp(first, 13).sendOp(middle, 11)
	require.Equal(t, Messages{1, 0}, s.onlyFlow().messages[MessageSend],
		"the beginning of the last message is missing")
	require.Equal(t, Messages{2, 1}, s.sendOp(first, 9).onlyFlow().messages[MessageSend])
	s = newScript(t).sendOp(middle, 10).sendOp(middle, 12).sendOp(middle, 11).sendOp(last, 13).sendOp(first, 14)
	require.Equal(t, Messages{1, 0}, s.onlyFlow().messages[MessageSend])
	require.Equal(t, Messages{2, 1}, s.sendOp(first, 9).onlyFlow().messages[MessageSend])
	// If CM announced the first PSN, missing packets before the first request are a gap.
	s = newPaired(t, 10).sendOp(middle, 12).sendOp(last, 13).sendOp(first, 11).sendOnly(10)
	require.Equal(t, Messages{2, 2}, s.onlyFlow().messages[MessageSend])
}

// Answers from before a connection belong to the previous one, and both directions begin as
// announced by CM.
func TestAnswersBeforeConnection(t *testing.T) {
	s := newScript(t).answerACK(12).exchangeCM(7, 10, 1024).sendOnly(10)
	require.Equal(t, PSN{First: 10, Last: 10, Connections: 1}, s.onlyFlow().PSN)
	s.a, s.b, s.qpA, s.qpB = s.b, s.a, s.qpB, s.qpA
	s.sendOnly(5002).answerACK(5002)
	require.Equal(t, PSN{First: 5002, Last: 5002, Connections: 1, Gaps: 1, Missing: 2, Unseen: 2}, s.onlyFlow().PSN)

	// A retransmitted REP, or REQ and REP, begins no new connection.
	s = newPaired(t, 10).answerREP(7, 10).sendOnly(10).answerREP(7, 10).exchangeCM(7, 10, 1024).sendOnly(11)
	require.Equal(t, PSN{First: 10, Last: 11, Connections: 1}, s.onlyFlow().PSN)
}

// A retransmission after PSNs acknowledged meanwhile is caused by the NAK.
func TestRetransmissionAfterCovered(t *testing.T) {
	s := newPaired(t, 10).sendOnly(10, 11, 12, 13, 14, 15).answerNAK(11).answerACK(12).sendOnly(13, 14, 15)
	require.Equal(t, Retransmissions{NAK: 3}, s.onlyFlow().Causes)
	s = newPaired(t, 10).sendOnly(10, 11, 12, 13, 14, 15).answerNAK(11).answerACK(12).sendOnly(12, 13)
	require.Equal(t, Retransmissions{Timeout: 2}, s.onlyFlow().Causes, "12 was received")
}

// A CNP about datagrams belongs to the only flow from its queue pair.
func TestCNPOfDatagrams(t *testing.T) {
	datagram := func(s *script, qp uint32) *script {
		k := s.keyAB()
		k.QP = k.QP&^maxQP | qp
		s.observe(Packet{kind: requestKind, pkt: observation{Opcode: bth.UDSendOnly, Flow: k, SrcQP: s.qpA}})
		return s
	}
	cnp := func(s *script) *script {
		s.observe(Packet{kind: cnpKind, pkt: observation{Opcode: bth.CNP, Flow: s.keyBA()}})
		return s
	}
	unpaired := func(s *script) (n uint64) {
		for _, u := range s.Snapshot().Unpaired {
			n += u.Total()
		}
		return n
	}
	for _, c := range []struct {
		name string
		s    *script
	}{
		{"before", datagram(cnp(newScript(t)), 18)}, {"after", cnp(datagram(newScript(t), 18))},
		{"twice", cnp(datagram(datagram(newScript(t), 18), 18))},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := c.s.onlyFlow()
			require.EqualValues(t, 1, f.CNPs)
			require.Equal(t, qpmap.BasisUD, f.SrcQPFrom)
			require.EqualValues(t, 17, f.SrcQP)
			require.Zero(t, unpaired(c.s))
		})
	}
	s := cnp(datagram(datagram(newScript(t), 18), 19))
	require.Zero(t, s.onlyFlow().CNPs, "one of two flows")
	require.EqualValues(t, 1, unpaired(s))
	s = datagram(newScript(t), 18)
	s.qpA = 66 // the flow has another source as well
	datagram(s, 18)
	require.Zero(t, s.onlyFlow().SrcQPFrom)
}

// Notifications that name an unseen flow count for their senders.
func TestTwoNotifiers(t *testing.T) {
	s := newScript(t)
	from := s.keyBA()
	for n := range byte(2) {
		from.Src[15] = 50 + n
		s.observe(Packet{kind: fastKind, pkt: observation{Opcode: bth.CNP, Flow: from}, about: s.keyAB()})
	}
	all := s.Snapshot().Unpaired
	require.Len(t, all, 2)
	require.EqualValues(t, []uint64{1, 1}, []uint64{all[0].FastCNPs, all[1].FastCNPs})
	require.EqualValues(t, 2, s.sendOnly(10).onlyFlow().FastCNPs+all[1].FastCNPs, "the first one counts for the flow")

	// Two notifiers of a known flow are counted for it.
	s = newScript(t).sendOnly(10)
	for n := range byte(2) {
		from.Src[15] = 50 + n
		s.observe(Packet{kind: fastKind, pkt: observation{Opcode: bth.CNP, Flow: from}, about: s.keyAB()})
	}
	require.EqualValues(t, 2, s.onlyFlow().FastCNPs)
	require.Empty(t, s.Snapshot().Unpaired)
}

// A READ response from before its pair was known gives the path MTU.
func TestEarlyMTU(t *testing.T) {
	s := newScript(t).sendRead(10, 3000).answerOp(bth.RCRDMAReadResponseFirst, 0x1F, 10)
	require.Zero(t, s.onlyFlow().MTU)
	s.pairWith(rocev2.FlowKey{Src: s.a, Dst: s.b, DestQP: s.qpB}, s.qpA)
	s.sendOnly(13)
	f := s.onlyFlow()
	require.EqualValues(t, 1024, f.MTU)
	require.Zero(t, f.PSN.Gaps, "a READ of three packets")
}

// First and middle packets give the path MTU in both directions; other packets of that length do
// not.
func TestLearnMTU(t *testing.T) {
	for _, c := range []struct {
		op      bth.Opcode
		payload uint32
		want    uint16
	}{
		{bth.RCSendFirst, 1024, 1024}, {bth.RCSendMiddle, 512, 512}, {bth.RCSendLast, 512, 0}, {bth.RCSendOnly, 512, 0},
		{bth.RCSendFirst, 1000, 0}, {bth.RCSendFirst, 8192, 0},
	} {
		s := newScript(t)
		s.observe(Packet{kind: requestKind, pkt: observation{Opcode: c.op, Flow: s.keyAB(), PSN: 10,
			Payload: c.payload}})
		require.Equal(t, c.want, s.onlyFlow().MTU)
		s.pairWith(rocev2.FlowKey{Src: s.a, Dst: s.b, DestQP: s.qpB}, s.qpA)
		s.a, s.b, s.qpA, s.qpB = s.b, s.a, s.qpB, s.qpA
		require.Equal(t, c.want, s.sendOnly(5).onlyFlow().MTU, "the other direction")
	}
}

// Reserved syndromes and codes are not NAKs, and a NAK gives no round trip time.
func TestReservedSyndromes(t *testing.T) {
	for _, syndrome := range []bth.Syndrome{0x40, 0x5F, 0x65, 0x7F} {
		s := newPaired(t, 10).setTime(0).sendOnly(10, 11).setTime(5).answerOp(bth.RCAcknowledge, syndrome, 11)
		f := s.onlyFlow()
		require.Zero(t, f.naks, syndrome)
		require.Zero(t, f.RNRNAKs+f.ACKs)
		require.Nil(t, f.RTT)
	}
	require.Nil(t, newPaired(t, 10).setTime(0).sendOnly(10, 11).setTime(5).answerNAK(11).onlyFlow().RTT)
}

// A copy has the PSN and the Identification of its original.
func TestIsCopy(t *testing.T) {
	var i idents
	for psn := range uint32(10) {
		i.add(psn, uint16(100+psn))
	}
	require.True(t, i.isCopy(5, 105))
	require.False(t, i.isCopy(5, 106))
	require.False(t, i.isCopy(5+maxIdents, 105))
	i.add(10, 109) // one equal packet proves nothing
	i.add(5, 200)
	require.True(t, i.isCopy(5, 105))
	require.True(t, i.isCopy(5, 200))
	i.add(5, 201)
	require.False(t, i.isCopy(5, 105), "the last two")
	i.add(5+maxIdents, 300)
	require.False(t, i.isCopy(5, 200))
	require.False(t, i.isCopy(5+maxIdents, 201))
	i = idents{}
	for psn := range uint32(10) {
		i.add(psn, 7)
	}
	require.False(t, i.isCopy(5, 7), "a sender with a constant Identification")
}

// Flows are ordered by their trouble, each kind of which counts.
func TestComparedOrder(t *testing.T) {
	change := Rewrites{{0, 3}: 4, {1, 3}: 3}
	s := newScript(t)
	var want []uint32
	c := NewComparison(ComparisonConfig{})
	for i, set := range []func(f *Compared){
		func(*Compared) {}, func(f *Compared) { f.Same, f.Packets[0] = 99, 99 },
		func(f *Compared) { f.Lost, f.Outside = 1, 99 },
		func(f *Compared) { f.Added = 2 }, func(f *Compared) { f.Duplicated[PointA] = 3 },
		func(f *Compared) { f.Duplicated[PointB] = 4 },
		func(f *Compared) { f.DSCP = change }, func(f *Compared) { f.ECN = change; f.Lost = 1 },
		func(f *Compared) { f.Added = 9 },
	} {
		k := s.keyAB()
		k = k.WithQP(uint32(i))
		set(&c.lookUpFlow(&k).Compared)
	}
	for _, f := range c.Flows() {
		want = append(want, f.DestQP)
	}
	require.Equal(t, []uint32{8, 7, 6, 5, 4, 3, 2, 0, 1}, want)
	total := c.Total()
	require.Equal(t, []uint64{2, 99, 11, 99}, []uint64{total.Lost, total.Outside, total.Added, total.Same})
	require.Equal(t, [2]uint64{3, 4}, total.Duplicated)
	require.EqualValues(t, 7, total.DSCP.sumChanges())
	require.EqualValues(t, 7, total.ECN.sumChanges())
}

// Percentiles of few and small delays are exact, including negative ones.
func TestSmallDelays(t *testing.T) {
	var d Delays
	for _, n := range []time.Duration{-3, 5, -10, 1, -7, 9, -1, 3, -5, 7} {
		d.addDelay(n)
	}
	for _, c := range []struct {
		p    float64
		want time.Duration
	}{{0.1, -10}, {0.2, -7}, {0.3, -5}, {0.4, -3}, {0.5, -1}, {0.6, 1}, {0.7, 3}, {0.8, 5},
		{0.9, 7}, {1, 9}} {
		t.Run(fmt.Sprint(c.p), func(t *testing.T) { require.Equal(t, c.want, d.Percentile(c.p), c.p) })
	}
	require.Equal(t, [2]time.Duration{-10, 9}, [2]time.Duration{d.Min(), d.Max()})
}

// Without two CNPs there is no spacing.
func TestNoSpacing(t *testing.T) {
	s := newPaired(t, 10).sendOnly(10)
	require.Negative(t, s.onlyFlow().Spacing)
	s.observe(Packet{kind: cnpKind, pkt: observation{Opcode: bth.CNP, Flow: s.keyBA()}})
	require.Negative(t, s.onlyFlow().Spacing)
	s.observe(Packet{kind: cnpKind, pkt: observation{Opcode: bth.CNP, Flow: s.keyBA()}})
	require.Zero(t, s.onlyFlow().Spacing)
	require.EqualValues(t, 2, s.onlyFlow().CNPs)
}

// Evicted counts everything that was evicted.
func TestEvictedAddsUp(t *testing.T) {
	table := New(Config{MaxFlows: 4})
	s := newScript(t)
	k := s.keyAB()
	for n := range uint32(30) {
		p := Packet{kind: requestKind, pkt: observation{Opcode: bth.RCSendOnly, Flow: k.WithQP(100 + n/2), PSN: n},
			ipOctets: 60 + n}
		table.Observe(&p, uint64(n+1), time.Unix(1, int64(n)))
	}
	e := table.Evicted()
	flows, packets, octets := e.Flows, e.Packets, e.IPOctets
	require.Positive(t, flows)
	for _, f := range table.Snapshot().Flows {
		flows++
		packets += f.Packets
		octets += f.IPOctets
	}
	require.EqualValues(t, 15, flows)
	require.EqualValues(t, 30, packets)
	require.EqualValues(t, 30*60+29*30/2, octets)
}

// A middle response from before its pair was known covers the PSNs before it.
func TestEarlyMiddle(t *testing.T) {
	s := newScript(t).sendOnly(10).sendRead(12, 3072).answerOp(bth.RCRDMAReadResponseMiddle, 0, 13)
	require.Equal(t, PSN{First: 10, Last: 12, Connections: 1, Gaps: 1, Missing: 1, Unjudged: 1}, s.onlyFlow().PSN)
	s.pairWith(rocev2.FlowKey{Src: s.a, Dst: s.b, DestQP: s.qpB}, s.qpA)
	require.EqualValues(t, 1, s.onlyFlow().PSN.Unseen)
	require.Zero(t, s.onlyFlow().PSN.Unjudged)
}
