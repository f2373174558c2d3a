package flows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/qplearn"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// pairWith configures the source queue pair of a flow, which takes precedence over learned ones.
func (t *Table) pairWith(k rocev2.FlowKey, srcQP uint32) {
	forth := keyOf(k)
	t.pairs.Add(&forth, qplearn.Pair{SrcQP: srcQP & maxQP, From: qplearn.BasisGiven})
	t.pairStreams(&forth, &qplearn.Entry{SrcQP: srcQP & maxQP, From: qplearn.BasisGiven})
}

func (s *script) pairFlow() *script {
	s.pairWith(rocev2.FlowKey{Src: s.a, Dst: s.b, DestQP: s.qpB}, s.qpA)
	return s
}

func (s *script) sendCNP(psn uint32) *script {
	s.observe(Packet{kind: cnpKind, pkt: observation{Opcode: bth.CNP, Flow: s.keyBA(), PSN: psn}})
	return s
}

// sumStrays returns the answers without a flow.
func (s *script) sumStrays() (sum Answers) {
	for _, u := range s.Snapshot().Unpaired {
		sum.addCounts(&u.Answers)
	}
	return sum
}

// A last response completes the READ that may have taken its PSN.
func TestLastResponses(t *testing.T) {
	const last = bth.RCRDMAReadResponseLast
	for _, c := range []struct {
		name   string
		script *script
		want   Messages
	}{
		{"of the READ", newPaired(t, 10).sendRead(10, 3000).answerOp(last, 0, 12), Messages{1, 1}},
		{"after the READ", newPaired(t, 10).sendRead(10, 3000).answerOp(last, 0, 14), Messages{1, 0}},
		{"of a previous connection", newPaired(t, 10).sendRead(10, 3000).exchangeCM(8, 10, 1024).sendOnly(10, 11, 12).
			answerOp(last, 0, 12),
			Messages{1, 0}},
		{"MTU unknown, the next READ shows it",
			newScript(t).exchangeCM(7, 10, 0).sendRead(10, 4096).sendRead(14, 4096).answerOp(last, 0, 15, 13),
			Messages{2, 2}},
		{"MTU unknown, the READ was late", newScript(t).exchangeCM(7, 10, 0).sendOnly(10, 20).sendRead(11, 4096).
			answerOp(last, 0,
				14),
			Messages{1, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, c.script.onlyFlow().messages[MessageRead])
		})
	}
}

// Messages that lost a packet stay incomplete when their gaps are dropped.
func TestForgottenMessages(t *testing.T) {
	s := newScript(t)
	for i := range uint32(maxGaps + 6) {
		s.sendOp(bth.RCSendFirst, 3*i).sendOp(bth.RCSendLast, 3*i+2)
	}
	for i := range uint32(10) {
		s.sendOnly(3*(maxGaps+6) + i)
	}
	require.Equal(t, Messages{maxGaps + 6 + 10, 10}, s.onlyFlow().messages[MessageSend])
	// The end of a message is late, and a packet before it is still missing.
	s = newScript(t).sendOp(bth.RCSendFirst, 10).sendOp(bth.RCSendFirst, 14).sendOp(bth.RCSendLast, 12)
	require.Equal(t, Messages{2, 0}, s.onlyFlow().messages[MessageSend])
	require.Equal(t, Messages{2, 1}, s.sendOp(bth.RCSendMiddle, 11).onlyFlow().messages[MessageSend])
	// A packet outside messages ends a message without a kind, if the beginning of that message was
	// not seen.
	s = newScript(t).sendOp(bth.TransportRD.Opcode(bth.OpSendMiddle), 10).
		sendOp(bth.TransportRD.Opcode(bth.OpResync), 11)
	require.Equal(t, [messageKinds]Messages{}, s.onlyFlow().messages)
}

// Requests that are no longer pending make room for others.
func TestPendingTimesAreReused(t *testing.T) {
	s := newPaired(t, 0)
	for psn := range uint32(3 * maxMarks) {
		s.sendOnly(psn).answerACK(psn)
	}
	require.EqualValues(t, 3*maxMarks, s.onlyFlow().RTT.Count())
	// Middle responses from before the pair is known take no room of timed ones.
	s = newScript(t).setTime(0).sendOnly(10).setTime(5).answerACK(10)
	for psn := range uint32(2 * maxEarly) {
		s.answerOp(bth.RCRDMAReadResponseMiddle, 0, 11+psn)
	}
	require.EqualValues(t, 1, s.pairFlow().onlyFlow().RTT.Count())
	// The windows of the peak begin with the flow.
	s = newScript(t)
	for _, us := range []int{30_000, 100_000, 230_000} {
		s.setTime(us).observe(Packet{kind: requestKind, pkt: observation{Opcode: bth.RCSendOnly, Flow: s.keyAB()},
			ipOctets: 1000})
	}
	require.EqualValues(t, 2000*8*10, s.onlyFlow().Peak)
}

// Flows with one request, or without requests, take no history.
func TestNoHistory(t *testing.T) {
	s := newScript(t)
	for qp := range uint32(3) {
		s.qpB = 100 + qp
		s.sendOnly(10)
	}
	require.Zero(t, s.histories.n)
	s = newScript(t).pairFlow().answerACK(10)
	require.Zero(t, s.histories.n)
}

// A dropped stream returns all its values to the pools once.
func TestPoolsAreReleased(t *testing.T) {
	s := newScript(t)
	s.Table = New(Config{Series: true})
	const n = poolBlock + 6
	for i := range uint32(n) {
		s.qpA, s.qpB = 1000+i, 2000+i
		s.observe(Packet{kind: fastKind, pkt: observation{Opcode: bth.CNP, Flow: s.keyBA()}, about: s.keyAB()})
		s.pairFlow().sendOnly(10).sendRead(11, 100).answerOp(bth.RCRDMAReadResponseOnly, 0, 11)
		s.observe(Packet{kind: requestKind, pkt: observation{Opcode: bth.RCSendOnly, Flow: s.keyAB(), PSN: 12},
			trafficClass: uint8(rocev2.CE)})
		s.sendCNP(0).answerNAK(12)
		f := s.onlyFlow()
		require.Equal(t, Messages{1, 1}, *f.Message(MessageRead))
		require.EqualValues(t, 1, f.AfterCE.Count())
		require.EqualValues(t, 2, f.RTT.Count())
		require.EqualValues(t, 1, f.FastCNPs)
	}
	var ids []uint32
	for id := range s.streams.All() {
		ids = append(ids, id)
	}
	for _, id := range ids {
		s.dropStream(id)
	}
	for _, row := range []struct {
		name string
		n    uint32
		free []uint32
	}{
		{"histories", s.histories.n, s.histories.free}, {"asks", s.Table.asks.n, s.Table.asks.free},
		{"histograms", s.histograms.n, s.histograms.free}, {"serieses", s.serieses.all.n, s.serieses.all.free},
		{"earlies", s.earlies.n, s.earlies.free}, {"responses", s.Table.responses.n, s.Table.responses.free},
	} {
		t.Run(row.name, func(t *testing.T) {
			var all []uint32
			for i := range row.n {
				all = append(all, i+1)
			}
			require.NotZero(t, row.n)
			require.ElementsMatch(t, all, row.free)
		})
	}
	require.EqualValues(t, 2*n, s.Evicted().Flows, "the requests, and the responses to READs")
	require.EqualValues(t, 3*n, s.Evicted().Packets)
	var one pool[int]
	var id uint32
	*one.allocate(&id) = 5
	one.release(&id)
	require.Zero(t, id)
	require.Zero(t, *one.allocate(&id))
	require.EqualValues(t, 1, one.n, "freed slots are used first")
}

// Answers stay with their flow when their stream is dropped, and count as evicted without a flow.
func TestDropAnswers(t *testing.T) {
	drop := func(s *script) *script {
		k := s.keyBA()
		s.dropStream(s.findStream(&k).id)
		return s
	}
	datagram := newScript(t)
	datagram.observe(Packet{kind: requestKind, pkt: observation{Opcode: bth.UDSendOnly, Flow: datagram.keyAB(),
		SrcQP: datagram.qpA}})
	require.EqualValues(t, 1, drop(datagram.sendCNP(0)).onlyFlow().CNPs)
	s := newScript(t).pairFlow().answerACK(10)
	require.EqualValues(t, 1, s.sumStrays().ACKs, "no request was seen")
	drop(s)
	require.EqualValues(t, 1, s.sumStrays().ACKs+s.Evicted().ACKs)
	require.Zero(t, s.Evicted().Flows)
	// In the opposite direction no source is known without requests, so that answers far away are
	// not doubted.
	s = newScript(t).pairFlow().answerACK(8_000_000, 8_000_001).sendOnly(8_000_000, 8_000_001)
	require.EqualValues(t, 2, s.onlyFlow().ACKs)
	// Notifications about a flow from before its first request are kept when its early answers are
	// dropped.
	s = newScript(t)
	s.observe(Packet{kind: fastKind, pkt: observation{Opcode: bth.CNP, Flow: s.keyBA()}, about: s.keyAB()})
	s.observe(Packet{kind: answerKind, pkt: observation{Opcode: bth.RCAcknowledge, Flow: s.keyAB(), PSN: 5}})
	require.EqualValues(t, 1, s.pairFlow().sumStrays().FastCNPs)
	// A PPFC that names a source without requests is counted.
	s = newScript(t).pairFlow()
	s.observe(Packet{kind: ppfcKind, pkt: observation{Opcode: bth.CNP, Flow: s.keyBA()},
		about: keyOf(rocev2.FlowKey{Src: s.a, Dst: s.b, DestQP: s.qpA})})
	require.EqualValues(t, 1, s.sumStrays().PPFC)
}

// A configured pair takes precedence over learned ones and over earlier configured ones.
func TestConfiguredPairs(t *testing.T) {
	s := newScript(t).sendOnly(10, 11, 12).answerACK(10, 11, 12)
	require.Equal(t, qpmap.BasisVotes, s.onlyFlow().SrcQPFrom)
	require.Equal(t, qpmap.BasisGiven, s.pairFlow().onlyFlow().SrcQPFrom)
	s = newScript(t).sendOnly(10).pairFlow()
	s.qpA = 30
	f := s.pairFlow().answerACK(10).onlyFlow()
	require.EqualValues(t, 30, f.SrcQP)
	require.EqualValues(t, 1, f.ACKs)
}

// An exchange shown to be forged is forgotten in both directions, except for a later announcement
// for the other one.
func TestForgedExchange(t *testing.T) {
	s := newPaired(t, 10).sendOnly(10).exchangeCM(9, 4000, 1024)
	k := s.keyBA()
	back := s.findStream(&k)
	require.NotEqual(t, announcedConnection{}, back.pairing.announced)
	s.sendOnly(11)
	require.Equal(t, announcedConnection{}, back.pairing.announced)
	s = newPaired(t, 10).sendOnly(10).exchangeCM(9, 4000, 1024)
	back = s.findStream(&k)
	back.pairing.announced.ids[0]++
	s.sendOnly(11)
	require.NotEqual(t, announcedConnection{}, back.pairing.announced)
}

// Of equally deep queues the first counts.
func TestDeepestQueue(t *testing.T) {
	var q QueueDepth
	for _, by := range []QueueDepth{{1, 0, true}, {2, 5, true}, {3, 5, true}, {4, 4, true}} {
		q.raise(by)
	}
	require.Equal(t, QueueDepth{2, 5, true}, q)
	var p priorityState
	p.recordFrame(1500, 1, 100, nil)
	p.countUntil(101)
	require.Equal(t, []int64{1, 0}, []int64{int64(p.Paused), p.rest}, "one nanosecond passed")
	var h Histogram
	for _, d := range []time.Duration{10, 33, 100} {
		h.Add(d)
	}
	require.EqualValues(t, 33, h.Percentile(0.5), "of the bucket of 32 and 33")
	var nodes queues
	nodes.addDepth(QueueDepth{7, 3, true}, 0)
	require.True(t, nodes.known[0][0])
}

// The time range of a point does not depend on the packet order.
func TestCompareTimes(t *testing.T) {
	c := NewComparison(ComparisonConfig{})
	p := Packet{kind: requestKind, pkt: observation{Opcode: bth.RCSendOnly, Flow: newScript(t).keyAB()}}
	for _, at := range []int64{100, 300, 50, 200} {
		p.pkt.PSN++
		c.Observe(PointB, &p, time.Unix(0, at))
	}
	require.Equal(t, [2]int64{50, 300}, [2]int64{c.sides[PointB].first, c.sides[PointB].last})
}

// Flows with remembered packets are kept, others up to the limit.
func TestCompareKeepsRememberedFlows(t *testing.T) {
	observe := func(c *Comparison, points []Point, qps uint32) {
		for _, point := range points {
			for qp := range qps {
				k := newScript(t).keyAB()
				c.Observe(point, &Packet{kind: requestKind, pkt: observation{Opcode: bth.RCSendOnly,
					Flow: k.WithQP(qp)}},
					time.Unix(1, 0))
			}
		}
	}
	c := NewComparison(ComparisonConfig{MaxFlows: 2})
	observe(c, []Point{PointA, PointB}, 10)
	require.Zero(t, c.Evicted())
	require.Equal(t, 10, c.flows.Len())
	require.EqualValues(t, 10, c.Total().Same)
	c = NewComparison(ComparisonConfig{MaxFlows: 4, Window: 1})
	observe(c, []Point{PointA}, 5)
	require.Equal(t, 4, c.flows.Len())
	require.EqualValues(t, 1, c.Evicted())
	c = NewComparison(ComparisonConfig{MaxFlows: 2, Window: 5})
	observe(c, []Point{PointA}, 5)
	require.Equal(t, 5, c.flows.Len(), "all are remembered")
	c.Finish()
	k := newScript(t).keyBA()
	c.Observe(PointA, &Packet{kind: requestKind, pkt: observation{Opcode: bth.RCSendOnly, Flow: k}}, time.Unix(2, 0))
	require.Equal(t, 2, c.flows.Len())
}

// Other traffic and invalid packets are counted in Stats.
func TestStats(t *testing.T) {
	s := newScript(t).sendOnly(10)
	s.observe(Packet{})
	s.observe(Packet{kind: invalidKind})
	s.observe(Packet{kind: truncatedKind, snapLength: 99})
	require.Equal(t, Stats{Packets: 4, Others: 1, Broken: 1, Truncated: 1, SnapLength: 99}, s.Stats())
}

// A node's queue depth is known in the bins with a trace of it.
func TestSeriesKnown(t *testing.T) {
	s := newScript(t)
	s.Table = New(Config{Series: true})
	named := Packet{kind: requestKind, pkt: observation{Opcode: bth.RCSendOnly, Flow: s.keyAB(), PSN: 10}, nHops: 1,
		hops: [maxNodes]QueueDepth{{7, 3, true}}}
	s.setTime(0).observe(named)
	s.setTime(1).sendOnly(11)
	named.pkt.PSN = 12
	s.setTime(2).observe(named)
	series := s.Series(s.onlyFlow().FlowKey)
	require.Equal(t, []NodeSeries{{
		Node: 7, Width: time.Microsecond, Depth: []uint32{3, 0, 3}, Known: []bool{true, false, true},
	}}, series.Nodes)
}
