package flows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
)

// A step of a script at a time in milliseconds after the start.
type timedStep struct {
	ms   int
	send []uint32 // requests that ask for an answer
	ask  uint32   // PSN of a READ
	acks []uint32
	nak  uint32 // PSN of a sequence NAK
	data uint32 // PSN of a READ response Only
}

// runSteps returns a paired flow with evidence after these steps.
func runSteps(t *testing.T, steps []timedStep) *script {
	s := newScript(t)
	s.Table = New(Config{Evidence: true})
	s.exchangeCM(7, 10, 1024).sendOnly(10).answerACK(10)
	start := s.now
	for _, step := range steps {
		s.now = start.Add(time.Duration(step.ms) * time.Millisecond)
		s.sendOnly(step.send...)
		if step.ask != 0 {
			s.sendRead(step.ask, 1024)
		}
		s.answerACK(step.acks...)
		if step.nak != 0 {
			s.answerNAK(step.nak)
		}
		if step.data != 0 {
			s.answerOp(bth.RCRDMAReadResponseOnly, 0x1F, step.data)
		}
	}
	return s
}

// A request that was answered as often as it was sent was not lost: the k-th answer belongs to the
// k-th copy. The first step of every script is a request with its answer at the same time.
func TestSpuriousTimeouts(t *testing.T) {
	for _, c := range []struct {
		name     string
		steps    []timedStep
		causes   Retransmissions
		rtt      []int  // in milliseconds
		from     uint64 // of rtt
		min, max int    // time before timeouts in milliseconds
	}{
		{"three copies, three answers", []timedStep{{ms: 0, send: []uint32{11}}, {ms: 10, send: []uint32{11}},
			{ms: 20, send: []uint32{11}}, {ms: 30, acks: []uint32{11}}, {ms: 40, acks: []uint32{11}},
			{ms: 51, acks: []uint32{11}}},
			Retransmissions{Timeout: 2, Spurious: 2}, []int{30, 30, 31}, 3, 10, 10},
		{"three copies, two answers", []timedStep{{ms: 0, send: []uint32{11}}, {ms: 10, send: []uint32{11}},
			{ms: 20, send: []uint32{11}}, {ms: 30, acks: []uint32{11}}, {ms: 40, acks: []uint32{11}}},
			Retransmissions{Timeout: 2}, nil, 0, 10, 10},
		{"the answer was lost after the capture point", []timedStep{{ms: 0, send: []uint32{11}},
			{ms: 5, acks: []uint32{11}}, {ms: 20, send: []uint32{11}}, {ms: 26, acks: []uint32{11}}},
			Retransmissions{Timeout: 1, Spurious: 1}, []int{5, 6}, 1, 20, 20},
		{"the sender goes back over three requests", []timedStep{{ms: 0, send: []uint32{11, 12, 13}},
			{ms: 10, send: []uint32{11, 12, 13}}, {ms: 30, acks: []uint32{11, 12, 13}},
			{ms: 42, acks: []uint32{13, 13, 13}}},
			Retransmissions{Timeout: 3, Spurious: 3}, []int{30, 30, 30, 32, 32, 32}, 6, 10, 10},
		{"one answer for two requests, twice", []timedStep{{ms: 0, send: []uint32{11, 12}},
			{ms: 10, send: []uint32{11, 12}}, {ms: 30, acks: []uint32{12}}, {ms: 42, acks: []uint32{12, 12}}},
			Retransmissions{Timeout: 2, Spurious: 2}, []int{30, 30, 32, 32}, 4, 10, 10},
		{"READs", []timedStep{{ms: 0, ask: 11}, {ms: 10, ask: 11}, {ms: 30, data: 11}, {ms: 43, data: 11}},
			Retransmissions{Timeout: 1, Spurious: 1}, []int{30, 33}, 2, 10, 10},
		{"a NAK after a timeout", []timedStep{{ms: 0, send: []uint32{11}}, {ms: 10, send: []uint32{11}},
			{ms: 11, nak: 11}, {ms: 12, send: []uint32{11}}, {ms: 15, acks: []uint32{11}}},
			Retransmissions{Timeout: 1, NAK: 1}, nil, 0, 10, 10},
		{"each timeout is twice the one before", []timedStep{{ms: 0, send: []uint32{11}}, {ms: 2, send: []uint32{11}},
			{ms: 6, send: []uint32{11}}, {ms: 14, send: []uint32{11}}, {ms: 30, send: []uint32{11}}},
			Retransmissions{Timeout: 4}, nil, 0, 2, 16},
		{"timeouts of a window", []timedStep{{ms: 0, send: []uint32{11, 12}}, {ms: 3, send: []uint32{11}},
			{ms: 4, send: []uint32{12}}, {ms: 10, send: []uint32{11}}, {ms: 11, send: []uint32{12}}},
			Retransmissions{Timeout: 4}, nil, 0, 3, 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := runSteps(t, c.steps).onlyFlow()
			require.Equal(t, c.causes, f.Causes)
			require.Zero(t, f.PSN.Lost)
			require.Equal(t, c.from, f.RTTFromRetransmitted)
			var want Histogram
			want.Add(0) // of the first request
			for _, ms := range c.rtt {
				want.Add(time.Duration(ms) * time.Millisecond)
			}
			require.Equal(t, want, *f.RTT)
			require.Equal(t, time.Duration(c.min)*time.Millisecond, f.Evidence.MinTimeout)
			require.Equal(t, time.Duration(c.max)*time.Millisecond, f.Evidence.MaxTimeout)
		})
	}
}

// A retransmission that asks for no answer is judged with the next one that does.
func TestSpuriousWithoutAckReq(t *testing.T) {
	s := newPaired(t, 10).setTime(0)
	plain := func(psn uint32) {
		s.observe(Packet{kind: requestKind, pkt: observation{Opcode: bth.RCSendFirst, Flow: s.keyAB(), PSN: psn,
			Payload: 1024}})
	}
	plain(10)
	s.sendOp(bth.RCSendLast, 11)
	s.setTime(1000)
	plain(10)
	s.sendOp(bth.RCSendLast, 11)
	s.setTime(3000).answerACK(11)
	require.Equal(t, Retransmissions{Timeout: 2}, s.onlyFlow().Causes)
	s.setTime(4000).answerACK(11)
	require.Equal(t, Retransmissions{Timeout: 2, Spurious: 2}, s.onlyFlow().Causes)
}

// Spurious retransmissions stay counted when there are more than are remembered, when another connection
// begins, and when the flow is evicted. One with more copies than times are kept is not judged.
func TestManyRetries(t *testing.T) {
	s := newPaired(t, 10)
	for psn := uint32(10); psn < 10+2*maxRetried; psn++ {
		s.sendOnly(psn, psn).answerACK(psn, psn)
	}
	require.Equal(t, Retransmissions{Timeout: 2 * maxRetried, Spurious: 2 * maxRetried}, s.onlyFlow().Causes)
	s.sendOnly(900_000, 900_000).answerACK(900_000, 900_000)
	require.EqualValues(t, 2*maxRetried+1, s.onlyFlow().Causes.Spurious)
	require.EqualValues(t, 2, s.onlyFlow().PSN.Connections)
	for range maxCopies + 1 {
		s.sendOnly(900_001)
	}
	for range maxCopies + 1 {
		s.answerACK(900_001)
	}
	require.EqualValues(t, 2*maxRetried+1, s.onlyFlow().Causes.Spurious)
	for id := range s.streams.All() {
		s.dropStream(id)
	}
	require.EqualValues(t, 2*maxRetried+1, s.Evicted().Causes.Spurious)
	require.Zero(t, s.retries.countUsed())
}

// A sender gave up if it retransmitted a request until the flow ended, and the capture goes on long
// enough for another retransmission.
func TestGaveUp(t *testing.T) {
	retries := func(after ...timedStep) []timedStep {
		all := []timedStep{{ms: 0, send: []uint32{11, 12}}}
		for n := 1; n <= 7; n++ {
			all = append(all, timedStep{ms: 10 * n, send: []uint32{11, 12}})
		}
		return append(all, after...)
	}
	const lastFrame = 4 + 2 + 13 // REQ, REP, request, ACK; the first copies; 11 is the 13th packet after them
	for _, c := range []struct {
		name  string
		steps []timedStep
		want  *GaveUp
	}{
		{"the capture goes on", retries(timedStep{ms: 90, send: nil}), &GaveUp{lastFrame, 7}},
		{"the capture ends before", retries(timedStep{ms: 89}), nil},
		{"an answer", retries(timedStep{ms: 71, acks: []uint32{11}}, timedStep{ms: 200}), nil},
		{"an answer to an earlier request", retries(timedStep{ms: 71, acks: []uint32{10}}, timedStep{ms: 200}),
			&GaveUp{lastFrame, 7}},
		{"a NAK", retries(timedStep{ms: 71, nak: 11}, timedStep{ms: 200}), nil},
		{"the sender goes on", retries(timedStep{ms: 71, send: []uint32{13}}, timedStep{ms: 200}), nil},
		{"another connection", retries(timedStep{ms: 71, send: []uint32{900_000}}, timedStep{ms: 200}), nil},
		{"another request", []timedStep{{ms: 0, send: []uint32{11}}, {ms: 10, send: []uint32{11}},
			{ms: 11, acks: []uint32{11}}, {ms: 20, send: []uint32{12}}, {ms: 30, send: []uint32{12}}, {ms: 50}},
			&GaveUp{9, 1}},
		{"too early for a timeout", []timedStep{{ms: 0, send: []uint32{11, 11}}, {ms: 100}}, nil},
		{"no retransmission", []timedStep{{ms: 0, send: []uint32{11}}, {ms: 100}}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := runSteps(t, c.steps)
			s.observe(Packet{kind: otherTraffic})
			require.Equal(t, c.want, s.onlyFlow().GaveUp)
		})
	}
}

// A flow without any answer gave up after three retransmissions of a request, if other flows had
// answers.
func TestGaveUpUnanswered(t *testing.T) {
	for _, c := range []struct {
		name    string
		retries int
		others  bool // another flow has answers
		want    *GaveUp
	}{
		{"three retransmissions", 3, true, &GaveUp{Frame: 6, Retries: 3}},
		{"two retransmissions", 2, true, nil},
		{"a capture of one direction", 7, false, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScript(t)
			s.setTime(0)
			other := *s
			other.qpA, other.qpB = 27, 28
			if c.others {
				other.sendOnly(1).answerACK(1)
			}
			s.frame = 2
			for n := range c.retries + 1 {
				s.setTime(1000 + 10_000*n).sendOnly(500)
			}
			s.setTime(1_000_000).observe(Packet{kind: otherTraffic})
			if c.others {
				other.exchangeCM(1, 2, 1024).sendOnly(2).answerACK(2)
			}
			for _, f := range s.Snapshot().Flows {
				if keyOf(f.FlowKey) == s.keyAB() {
					require.Equal(t, c.want, f.GaveUp)
				}
			}
		})
	}
}

// The last PSN is one that a request took, also if another connection is announced afterwards.
func TestLastPSN(t *testing.T) {
	s := newPaired(t, 100).sendOnly(100, 101).answerACK(101)
	require.EqualValues(t, 101, s.onlyFlow().PSN.Last)
	s.exchangeCM(8, 9_000_000, 1024)
	s.observe(Packet{kind: requestKind, pkt: observation{Opcode: bth.RCSendOnly, Flow: s.keyBA(), PSN: 5000,
		AckReq: true, Payload: 100}})
	require.Equal(t, PSN{First: 100, Last: 101, Connections: 1}, s.onlyFlow().PSN)
	s.sendOnly(9_000_000)
	require.Equal(t, PSN{First: 100, Last: 9_000_000, Connections: 2}, s.onlyFlow().PSN)
}
