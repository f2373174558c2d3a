package flows

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cm"
	"github.com/rocecn/rocecn/internal/qplearn"
	"github.com/rocecn/rocecn/rocev2"
)

// An answer covers all PSNs up to its own, unless it is farther from the expected PSN than
// lifeDistance.
func TestCovers(t *testing.T) {
	const next = 100_000
	for _, c := range []struct {
		name   string
		covers []uint32
		want   PSN
	}{
		{"nothing", nil, PSN{}},
		{"seen PSNs", []uint32{next - 1}, PSN{}},
		{"the next", []uint32{next}, PSN{Gaps: 1, Missing: 1, Unseen: 1}},
		{"the farthest", []uint32{next + 65536}, PSN{Gaps: 1, Missing: 65537, Unseen: 65537}},
		{"farther", []uint32{next + 65537}, PSN{}},
		{"less after more", []uint32{next + 4, next + 2}, PSN{Gaps: 1, Missing: 5, Unseen: 5}},
		{"more after less", []uint32{next + 2, next + 4}, PSN{Gaps: 1, Missing: 5, Unseen: 5}},
		{"far before", []uint32{next - 65537}, PSN{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := sequence{begun: true, next: next}
			for _, psn := range c.covers {
				s.recordCovered(psn)
			}
			require.Equal(t, c.want, s.countsNow(nil))
		})
	}
	s := sequence{begun: true, next: next}
	s.recordCovered(next - 65536)
	require.True(t, s.isCovered(next-65536))
	require.False(t, s.isCovered(next-65535))
	s = sequence{begun: true, next: next}
	s.recordCovered(next - 65537)
	require.False(t, s.isCovered(next-65537), "of another connection")
	s = sequence{next: next}
	s.recordCovered(next)
	require.False(t, s.isCovered(next), "nothing was expected yet")

	// Dropped gaps count as received once the last one is covered.
	s = sequence{begun: true, next: next, forgotten: 5, forgottenTo: next - 10}
	s.recordCovered(next - 12)
	require.Equal(t, PSN{Lost: 5}, s.countsNow(nil))
	s.unanswered = 2
	require.Equal(t, PSN{Lost: 3, Unjudged: 2}, s.countsNow(nil))
	s.recordCovered(next - 11)
	require.Equal(t, PSN{Unseen: 5}, s.countsNow(nil))
	s.recordCovered(next - 1)
	require.Equal(t, PSN{Unseen: 5}, s.countsNow(nil))
}

// A response takes PSNs that a READ of unknown path MTU may have taken.
func TestReadSlack(t *testing.T) {
	for _, c := range []struct {
		covers, next, slack uint32
	}{{10, 11, 4}, {11, 12, 3}, {14, 15, 0}, {15, 11, 4}, {9, 11, 4}} {
		s := sequence{begun: true, next: 11, slack: 4, read: 10}
		s.recordCovered(c.covers)
		require.Equal(t, []uint32{c.next, c.slack}, []uint32{s.next, s.slack}, c.covers)
	}
	for _, c := range []struct{ end, next uint32 }{{10, 11}, {11, 11}, {12, 12}, {15, 15}, {16, 15}} {
		t.Run(fmt.Sprint(c.end), func(t *testing.T) {
			s := sequence{begun: true, next: 11, slack: 4}
			s.resolveSlack(c.end)
			require.Equal(t, []uint32{c.next, 0}, []uint32{s.next, s.slack}, c.end)
		})
	}
	// PSNs that it may have taken are not missing at the end.
	for _, c := range []struct {
		cover uint32
		want  PSN
	}{{14, PSN{}}, {15, PSN{Gaps: 1, Missing: 1, Unseen: 1}}} {
		t.Run(fmt.Sprint(c.cover), func(t *testing.T) {
			s := sequence{begun: true, next: 11, slack: 4, cover: coverage{true, c.cover}}
			require.Equal(t, c.want, s.countsNow(nil), c.cover)
		})
	}
}

// Packets from before the first one seen complete its message, or show that it cannot be complete.
func TestRequestsBeforeFirstSeen(t *testing.T) {
	const first, middle, last, only = bth.RCSendFirst, bth.RCSendMiddle, bth.RCSendLast, bth.RCSendOnly
	type packet struct {
		op  bth.Opcode
		psn uint32
	}
	for _, c := range []struct {
		name            string
		packets         []packet
		begun, complete uint64
	}{
		{"without its beginning", []packet{{middle, 12}, {last, 13}}, 0, 0},
		{"its beginning after its end", []packet{{middle, 12}, {last, 13}, {first, 11}}, 1, 1},
		{"its beginning before its end", []packet{{middle, 12}, {first, 11}, {last, 13}}, 1, 1},
		{"with a gap between", []packet{{middle, 12}, {last, 13}, {first, 10}}, 1, 0},
		{"the same, before its end", []packet{{middle, 12}, {first, 10}, {last, 13}}, 1, 0},
		{"another flow before", []packet{{middle, 12}, {last, 13}, {only, 11}}, 1, 1},
		{"the end of a message, then a complete one",
			[]packet{{middle, 12}, {last, 13}, {last, 11}, {first, 14}, {last, 15}}, 1, 1},
		{"two complete ones after it", []packet{{last, 13}, {only, 14}, {only, 15}}, 2, 2},
		{"the last one first", []packet{{only, 13}, {last, 12}, {first, 11}}, 2, 2},
		{"backwards", []packet{{last, 13}, {middle, 12}, {first, 11}}, 1, 1},
		{"backwards, with a gap", []packet{{last, 13}, {middle, 11}, {first, 10}}, 1, 0},
		{"backwards, with another one between", []packet{{last, 13}, {only, 12}, {first, 11}}, 2, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScript(t)
			for _, p := range c.packets {
				s.sendOp(p.op, p.psn)
			}
			require.Equal(t, Messages{c.begun, c.complete}, s.onlyFlow().messages[MessageSend])
		})
	}
}

// A late request before the first one seen is one message, also if it is retransmitted.
func TestLateBeforeFirstSeen(t *testing.T) {
	s := newPaired(t, 10).sendOnly(14, 12, 12)
	require.Equal(t, PSN{First: 12, Last: 14, Connections: 1, Gaps: 1, Missing: 4, Late: 1, Retransmitted: 1,
		Unjudged: 3}, s.onlyFlow().PSN)
	require.Equal(t, Messages{Begun: 2, Complete: 2}, s.onlyFlow().messages[MessageSend])
}

// A READ for more than the one it retransmits takes more PSNs.
func TestLongerRetransmission(t *testing.T) {
	s := newPaired(t, 10).sendRead(10, 1024).sendRead(10, 4096).sendOnly(14)
	require.Equal(t, PSN{First: 10, Last: 14, Connections: 1, Retransmitted: 1}, s.onlyFlow().PSN)
	s = newPaired(t, 10).sendRead(10, 4096).sendRead(10, 1024).sendOnly(14)
	require.Equal(t, PSN{First: 10, Last: 14, Connections: 1, Retransmitted: 1}, s.onlyFlow().PSN)
	s = newPaired(t, 10).sendRead(10, 1024).sendRead(10, 4096).sendOnly(15)
	require.EqualValues(t, 1, s.onlyFlow().PSN.Missing)
}

// A gap that is out of reach stays dropped after the PSNs wrap around.
func TestGapAfterWrap(t *testing.T) {
	s := newPaired(t, 0).sendOnly(0, 2) // 1 is missing
	next := uint32(3)
	for next != 1 {
		n := min(uint32(0xF000), (1-next)&bth.MaxPSN)
		s.sendRead(next, n*1024)
		next = bth.AddPSN(next, n)
	}
	s.sendOnly(1, 1)
	f := s.onlyFlow()
	require.Equal(t, PSN{First: 0, Last: 1, Connections: 1, Gaps: 1, Missing: 1, Retransmitted: 1, Unjudged: 1}, f.PSN)
}

// The last 16 answers from before the pair was known are kept; older ones cover PSNs, but give no
// times.
func TestEarlyReplies(t *testing.T) {
	give := func(s *script) Flow {
		s.pairWith(rocev2.FlowKey{Src: s.a, Dst: s.b, DestQP: s.qpB}, s.qpA)
		return s.onlyFlow()
	}
	acks := func(s *script, n int, psn uint32) *script {
		for range n {
			s.answerACK(psn)
		}
		return s
	}
	for _, c := range []struct {
		name         string
		others       int
		times        uint64
		unseen, lost uint64
	}{{"kept", maxEarly - 1, 2, 1, 0}, {"given up", maxEarly, 0, 1, 0}, {"long ago", 5 * maxEarly, 0, 1, 0}} {
		t.Run(c.name, func(t *testing.T) {
			s := newScript(t).setTime(0).sendOnly(10, 12).setTime(5).answerACK(12)
			f := give(acks(s.setTime(9), c.others, 9))
			require.EqualValues(t, c.others+1, f.ACKs)
			require.Equal(t, PSN{First: 10, Last: 12, Connections: 1,
				Gaps: 1, Missing: 1, Unseen: c.unseen, Lost: c.lost},
				f.PSN)
			if c.times == 0 {
				require.Nil(t, f.RTT)
				return
			}
			require.Equal(t, c.times, f.RTT.Count())
			require.Equal(t, 5*time.Microsecond, f.RTT.Min())
		})
	}
	// A CNP among them covers nothing.
	s := newScript(t).sendOnly(10, 12)
	s.observe(Packet{kind: cnpKind, pkt: observation{Opcode: bth.CNP, Flow: s.keyBA(), PSN: 12}})
	f := give(acks(s, maxEarly, 9))
	require.Equal(t, PSN{First: 10, Last: 12, Connections: 1, Gaps: 1, Missing: 1, Lost: 1}, f.PSN)
	// A later answer that covers less takes nothing back.
	s = newScript(t).sendOnly(10, 12).answerACK(12).answerACK(9)
	f = give(acks(s, maxEarly, 8))
	require.EqualValues(t, 1, f.PSN.Unseen)
}

// Answers that fit no request of the flow are doubted until one fits.
func TestDoubtedAnswers(t *testing.T) {
	unpaired := func(s *script) (n uint64) {
		for _, u := range s.Snapshot().Unpaired {
			n += u.Total()
		}
		return n
	}
	s := newPaired(t, 10).sendOnly(10).answerACK(10, 11+2048)
	require.EqualValues(t, 1, s.onlyFlow().ACKs)
	require.EqualValues(t, 1, unpaired(s))
	require.Zero(t, s.onlyFlow().PSN.Missing)
	s.answerACK(10)
	require.EqualValues(t, 3, s.onlyFlow().ACKs)
	require.Zero(t, unpaired(s))
	s.answerACK(9_000_000).answerACK(10)
	require.EqualValues(t, 5, s.onlyFlow().ACKs)

	for _, c := range []struct {
		psn  uint32
		want bool
	}{
		{100, true}, {99, true}, {100 + 2047, true}, {100 + 2048, false},
		{bth.MaxPSN & (100 - 65536), true}, {bth.MaxPSN & (100 - 65537), false},
	} {
		t.Run(fmt.Sprint(c.psn), func(t *testing.T) {
			require.Equal(t, c.want, (&stream{flow: &flow{sequence: sequence{next: 100}}}).expectsAnswer(c.psn), c.psn)
			require.True(t, c.psn != 100+2048 || (&stream{flow: &flow{sequence: sequence{next: 100,
				slack: 1}}}).expectsAnswer(c.psn))
		})
	}
}

// After a DREQ, the requests of another connection begin a new sequence: its answers are not matched to the
// flow.
func TestConnectionAfterDREQ(t *testing.T) {
	s := newPaired(t, 10).setTime(0).sendOnly(10).setTime(5).answerACK(10)
	mad := keyOf(rocev2.FlowKey{Src: s.a, Dst: s.b, DestQP: 1})
	s.observe(Packet{kind: requestKind, pkt: observation{Opcode: bth.UDSendOnly, Flow: mad, SrcQP: 1,
		CM: qplearn.Exchange{Attribute: cm.AttributeDREQ, Local: 7, Remote: 1007, QP: s.qpB}}})
	s.sendOnly(11).answerACK(11)
	require.EqualValues(t, 2, s.onlyFlow().ACKs, "under way")
	s.sendOnly(500_000).answerACK(500_000)
	f := s.onlyFlow()
	require.EqualValues(t, 2, f.PSN.Connections)
	require.EqualValues(t, 2, f.ACKs)
	n := uint64(0)
	for _, u := range s.Snapshot().Unpaired {
		n += u.ACKs
	}
	require.EqualValues(t, 1, n)
	require.NotNil(t, f.RTT, "earlier measurements stay")

	// The same holds if the responder ends the connection, or the DREQ was not captured.
	for _, c := range []struct {
		name string
		end  qplearn.Exchange
	}{
		{"DREQ", qplearn.Exchange{Attribute: cm.AttributeDREQ, Local: 1007, Remote: 7, QP: s.qpA}},
		{"DREP", qplearn.Exchange{Attribute: cm.AttributeDREP, Local: 1007, Remote: 7}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newPaired(t, 10).sendOnly(10).answerACK(10)
			back := mad.Reversed(1)
			s.observe(Packet{kind: requestKind, pkt: observation{Opcode: bth.UDSendOnly, Flow: back, SrcQP: 1,
				CM: c.end}})
			require.EqualValues(t, 1, s.sendOnly(500_000).answerACK(500_000).onlyFlow().ACKs)
		})
	}

	// A DREQ for another connection ends nothing.
	for _, id := range []uint32{8, 1007} {
		s = newPaired(t, 10).sendOnly(10).answerACK(10)
		s.observe(Packet{kind: requestKind, pkt: observation{Opcode: bth.UDSendOnly, Flow: mad, SrcQP: 1,
			CM: qplearn.Exchange{Attribute: cm.AttributeDREQ, Local: id, Remote: 1007, QP: s.qpB}}})
		require.EqualValues(t, 2, s.sendOnly(500_000).answerACK(500_000).onlyFlow().ACKs)
	}
}

// exchangeAt sends a REQ of queue pair srcQP.
func (s *script) exchangeAt(id, srcQP uint32, at time.Duration) *script {
	mad := keyOf(rocev2.FlowKey{Src: s.a, Dst: s.b, DestQP: 1})
	s.now = time.Unix(1e9, int64(at))
	s.observe(Packet{kind: requestKind, pkt: observation{Opcode: bth.UDSendOnly, Flow: mad, SrcQP: 1,
		CM: qplearn.Exchange{Attribute: cm.AttributeREQ, Local: id, QP: srcQP, PSN: 5000, MTU: 1024}}})
	return s
}

// Two different REQs with the same addresses and communication ID are ignored until a minute has
// passed.
func TestDoubtfulREQ(t *testing.T) {
	const minute = time.Minute
	for _, c := range []struct {
		name   string
		script *script
		known  bool // the first PSN of the connection
	}{
		{"one", newScript(t).exchangeAt(7, 17, 0), true},
		{"the same again", newScript(t).exchangeAt(7, 17, 0).exchangeAt(7, 17, 1), true},
		{"another one", newScript(t).exchangeAt(7, 66, 0).exchangeAt(7, 17, minute), false},
		{"and the first again", newScript(t).exchangeAt(7, 17, 0).exchangeAt(7, 66, 1).exchangeAt(7, 17, 2), false},
		{"after a minute", newScript(t).exchangeAt(7, 66, 0).exchangeAt(7, 17, minute+1), true},
		{"a minute after the conflict",
			newScript(t).exchangeAt(7, 66, 0).exchangeAt(7, 67, 1).exchangeAt(7, 17, minute+2),
			true},
		{"of another ID", newScript(t).exchangeAt(7, 17, 0).exchangeAt(8, 66, 1), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := c.script.answerREP(7, 10).sendOnly(12)
			require.Equal(t, c.known, s.onlyFlow().PSN.Gaps == 1)
		})
	}
	// For XRC, the REP contains the end-to-end context.
	s := newScript(t)
	mad := keyOf(rocev2.FlowKey{Src: s.a, Dst: s.b, DestQP: 1})
	s.observe(Packet{kind: requestKind, pkt: observation{Opcode: bth.UDSendOnly, Flow: mad, SrcQP: 1,
		CM: qplearn.Exchange{
			Attribute: cm.AttributeREQ, Local: 7, QP: 17, PSN: 5000, MTU: 1024, Transport: bth.TransportXRC}}})
	mad = mad.Reversed(1)
	s.observe(Packet{kind: requestKind, pkt: observation{Opcode: bth.UDSendOnly, Flow: mad, SrcQP: 1,
		CM: qplearn.Exchange{Attribute: cm.AttributeREP, Local: 1007, Remote: 7, EECN: s.qpB, PSN: 10}}})
	require.EqualValues(t, 1, s.sendOnly(12).onlyFlow().PSN.Gaps)
}

// skipLearning skips 48 packets in order, or 100 ms.
func TestSkipLearning(t *testing.T) {
	p := pairing{partner: ref{1, 1}, shown: 1000}
	for range 48 {
		require.True(t, p.skipLearning(1000))
	}
	require.False(t, p.skipLearning(1000))
	require.True(t, p.skipLearning(1000+1e8))
	require.False(t, p.skipLearning(1001+1e8))
	require.EqualValues(t, 1001+1e8, p.shown)
	require.True(t, p.skipLearning(1001+1e8))
	require.False(t, p.skipLearning(1000+1e8), "a clock that steps back")
	for _, c := range []struct {
		name string
		one  pairing
	}{
		{"no partner", pairing{shown: 1000}}, {"ended", pairing{partner: ref{1, 1}, shown: 1000, ended: true}},
		{"another connection announced",
			pairing{partner: ref{1, 1}, shown: 1000, announced: announcedConnection{stream: ref{2, 2}}}},
	} {
		t.Run(c.name, func(t *testing.T) { require.False(t, c.one.skipLearning(1000)) })
	}
}

// A name belongs to one flow; with several flows it belongs to none.
func TestNamesOfFlows(t *testing.T) {
	s := newScript(t)
	one, other, third := s.keyAB(), s.keyAB(), s.keyAB()
	other.Dst[15], third.Dst[15] = 77, 78
	var n names
	_, ok := n.lookUpFlow(&one)
	require.False(t, ok)
	n.addFlow(&one)
	n.addFlow(&one)
	found, ok := n.lookUpFlow(&third)
	require.True(t, ok, "with any destination")
	require.Equal(t, one, found)
	n.addFlow(&other)
	_, ok = n.lookUpFlow(&one)
	require.False(t, ok)
	n.addFlow(&third)
	n.addFlow(&one)
	_, ok = n.lookUpFlow(&one)
	require.False(t, ok)
	another := one
	another.QP++
	n.addFlow(&another)
	found, ok = n.lookUpFlow(&another)
	require.True(t, ok)
	require.Equal(t, another, found)
	require.Len(t, n.flows, 2)
	for qp := range uint32(maxNames) {
		another.QP = qp
		n.addFlow(&another)
	}
	require.True(t, n.full)
	_, ok = n.lookUpFlow(&another)
	require.False(t, ok)
	n.addFlow(&another)
	require.Empty(t, n.flows)
}

// A label belongs to the flow last seen with it, by ingress.
func TestLabelsOfFlows(t *testing.T) {
	s := newScript(t)
	packet := func(ingress byte, label uint32, k key) *Packet {
		p := &Packet{label: label, pkt: observation{Flow: k}}
		p.ingress[15] = ingress
		return p
	}
	ab, ba := s.keyAB(), s.keyBA()
	l := newLabels()
	_, ok := l.lookUpFlow(packet(1, 5, key{}))
	require.False(t, ok)
	l.addData(packet(1, 0, ab))
	require.Zero(t, l.Len(), "no label")
	l.addData(packet(1, 5, ab))
	l.addData(packet(2, 5, ba))
	for range 2 {
		found, ok := l.lookUpFlow(packet(1, 5, key{}))
		require.True(t, ok)
		require.Equal(t, ab, found)
		found, _ = l.lookUpFlow(packet(2, 5, key{}))
		require.Equal(t, ba, found)
		l.addData(packet(2, 5, ba))
	}
	_, ok = l.lookUpFlow(packet(1, 0, key{}))
	require.False(t, ok)
	_, ok = l.lookUpFlow(packet(1, 6, key{}))
	require.False(t, ok)
	l.addData(packet(1, 5, ba))
	found, _ := l.lookUpFlow(packet(1, 5, key{}))
	require.Equal(t, ba, found)

	// Over the limit, the least recently used label is evicted.
	l = newLabels()
	for label := range uint32(maxLabels) {
		l.addData(packet(3, 1+label, ab))
	}
	l.addData(packet(3, 1, ab)) // seen again: no additional entry
	for label := uint32(1); label <= 2; label++ {
		_, ok = l.lookUpFlow(packet(3, label, key{}))
		require.True(t, ok)
	}
	l.addData(packet(3, 1+maxLabels, ab))
	for _, c := range []struct {
		label uint32
		want  bool
	}{{1, true}, {2, false}, {3, true}, {maxLabels, true}, {1 + maxLabels, true}} {
		t.Run(fmt.Sprint(c.label), func(t *testing.T) {
			_, ok := l.lookUpFlow(packet(3, c.label, key{}))
			require.Equal(t, c.want, ok, c.label)
		})
	}
}
