package flows

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/wiretest"
)

// withEvidence returns a connection with a CM exchange (frames 1 and 2), in a table with
// Config.Evidence.
func withEvidence(t *testing.T, psn uint32) *script {
	s := newScript(t)
	s.Table = New(Config{Evidence: true})
	return s.exchangeCM(7, psn, 1024)
}

// sendClass sends requests with this traffic class.
func (s *script) sendClass(class uint8, psns ...uint32) *script {
	for _, psn := range psns {
		s.observe(Packet{kind: requestKind, pkt: observation{Opcode: bth.RCSendOnly, Flow: s.keyAB(), PSN: psn,
			AckReq: true},
			trafficClass: class, ipOctets: 1250})
	}
	return s
}

// notifyFastCNP sends a CNP from the receiver, with DSCP 48 and PCP 6.
func (s *script) notifyFastCNP() *script {
	s.observe(Packet{kind: cnpKind, pkt: observation{Opcode: bth.CNP, Flow: s.keyBA()}, trafficClass: 48 << 2,
		pcp: 1 << 6})
	return s
}

// Each sign has the frames with its event.
func TestSigns(t *testing.T) {
	s := withEvidence(t, 10)
	s.setTime(0).sendClass(0, 10)                         // 3: not ECT
	s.setTime(10).sendClass(26<<2|3, 11, 12)              // 4, 5: CE
	s.setTime(20).answerACK(12)                           // 6
	s.setTime(30).notifyFastCNP()                         // 7
	s.setTime(40).sendClass(26<<2|2, 15)                  // 8: 13 and 14 are missing
	s.setTime(50).sendClass(26<<2|2, 13)                  // 9: fills a gap
	s.setTime(60).answerNAK(14)                           // 10
	s.setTime(70).sendClass(26<<2|2, 14)                  // 11: fills a gap after a NAK
	s.setTime(80).sendClass(26<<2|2, 15)                  // 12: retransmitted after that NAK
	s.setTime(90).answerACK(15)                           // 13
	s.setTime(5090).sendClass(26<<2|2, 15)                // 14: retransmitted after 5010 µs, already acknowledged
	s.setTime(5100).sendClass(26<<2|2, 16)                // 15
	s.setTime(5110).answerRNR(16)                         // 16
	s.setTime(5120).sendClass(26<<2|2, 16)                // 17
	s.setTime(5130).answerOp(bth.RCAcknowledge, 0x61, 16) // 18: invalid request
	e := s.onlyFlow().Evidence
	sign := func(count, first, last uint64, since, until int) Sign {
		return Sign{count, first, last, timeOf(s.setTime(since).now.UnixNano()),
			timeOf(s.setTime(until).now.UnixNano())}
	}
	for _, c := range []struct {
		kind SignKind
		want Sign
	}{
		{SignRequest, sign(10, 3, 17, 0, 5120)}, {SignNotECT, sign(1, 3, 3, 0, 0)}, {SignCE, sign(2, 4, 5, 10, 10)},
		{SignAnswer, sign(5, 6, 18, 20, 5130)}, {SignAnswerAfterCE, sign(5, 6, 18, 20, 5130)},
		{SignNAK, sign(1, 10, 10, 60, 60)}, {SignRNR, sign(1, 16, 16, 5110, 5110)}, {SignCNP, sign(1, 7, 7, 30, 30)},
		{SignGap, sign(1, 8, 8, 40, 40)}, {SignReordered, sign(1, 9, 9, 50, 50)}, {SignRetransmitted,
			sign(1, 11, 11, 70, 70)},
		{SignAfterTimeout, sign(1, 14, 14, 5090, 5090)}, {SignAfterNAK, sign(1, 12, 12, 80, 80)},
		{SignAfterRNR, sign(1, 17, 17, 5120, 5120)}, {SignRefused, sign(1, 18, 18, 5130, 5130)},
		{SignNotification, Sign{}}, {SignReadRest, Sign{}}, {SignWrongICRC, Sign{}},
	} {
		t.Run(fmt.Sprint(c.kind), func(t *testing.T) { require.Equal(t, c.want, *e.Sign(c.kind), "%v", c.kind) })
	}
	require.Equal(t, 5010*time.Microsecond, e.MinTimeout)
	require.Equal(t, 5010*time.Microsecond, e.MaxTimeout)
	require.EqualValues(t, 1, e.AlreadyAcknowledged)
	require.Equal(t, uint64(1<<48), e.CNPDSCP)
	require.EqualValues(t, 1<<6, e.CNPPCP)
	require.Len(t, e.Notifiers, 1)
	require.Equal(t, s.b, e.Notifiers[0].From)
	require.Negative(t, e.Notifiers[0].MinSpacing)
}

// A sender that goes back after a timeout while it sends waited since the last answer. A single packet that comes again
// may be a copy of a mirror.
func TestMaxWait(t *testing.T) {
	for _, row := range []struct {
		name  string
		again []uint32
		want  time.Duration
	}{
		{"go back", []uint32{12, 13, 14}, 2 * time.Millisecond},
		{"a single packet", []uint32{14, 15}, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := withEvidence(t, 10)
			s.setTime(0).sendClass(26<<2|2, 10, 11)
			s.setTime(990).sendClass(26<<2|2, 12)
			s.setTime(1000).answerACK(11)
			s.setTime(1500).sendClass(26<<2|2, 13)
			s.setTime(2998).sendClass(26<<2|2, 14)
			s.setTime(3000).sendClass(26<<2|2, row.again...)
			e := s.onlyFlow().Evidence
			require.Equal(t, 2*time.Microsecond, e.MaxTimeout)
			require.Equal(t, row.want, e.MaxWait)
		})
	}
}

// A second wait begins with the retransmissions after the first one.
func TestSecondWait(t *testing.T) {
	s := withEvidence(t, 10)
	s.setTime(0).sendClass(2, 10, 11, 12)
	s.setTime(2000).sendClass(2, 10, 11, 12)
	require.Equal(t, 2*time.Millisecond, s.onlyFlow().Evidence.MaxWait)
	s.setTime(5000).sendClass(2, 10, 11, 12)
	require.Equal(t, 3*time.Millisecond, s.onlyFlow().Evidence.MaxWait)
	s.setTime(7500).sendClass(2, 10, 11, 12)
	require.Equal(t, 3*time.Millisecond, s.onlyFlow().Evidence.MaxWait)
}

// Notifiers contains each node with the spacing of its notifications.
func TestNotifiers(t *testing.T) {
	s := withEvidence(t, 10).setTime(0).sendClass(2, 10)
	node := s.keyBA()
	node.Src[15] = 99
	for _, at := range []int{100, 109, 119, 128} { // 9, 10 and 9 µs
		s.setTime(at).observe(Packet{kind: fastKind, pkt: observation{Opcode: bth.CNP, Flow: node}, about: s.keyAB()})
	}
	for _, at := range []int{200, 203, 207} { // for CNPs of the receiver only less than 4 µs counts
		s.setTime(at).notifyFastCNP()
	}
	n := s.onlyFlow().Evidence.Notifiers
	require.Len(t, n, 2)
	require.Equal(t, []any{NoticeFastCNP, uint64(4), uint64(2), 9 * time.Microsecond},
		[]any{n[0].Kind, n[0].Count, n[0].TooClose, n[0].MinSpacing})
	require.Equal(t, "192.0.2.99", n[0].From.String())
	require.Equal(t, []any{NoticeCNP, uint64(3), uint64(1), 3 * time.Microsecond},
		[]any{n[1].Kind, n[1].Count, n[1].TooClose, n[1].MinSpacing})
	for octet := range byte(5) { // only four are kept
		node.Src[15] = 100 + octet
		s.observe(Packet{kind: ppfcKind, pkt: observation{Opcode: bth.CNP, Flow: node}, about: s.keyAB()})
	}
	require.Len(t, s.onlyFlow().Evidence.Notifiers, maxNotifiers)
	require.EqualValues(t, 9, s.onlyFlow().Evidence.Sign(SignNotification).Count)
}

// sendPaced sends requests of 1,250 octets at this interval: 10 µs are 1 Gbit/s.
func (s *script) sendPaced(psn *uint32, us int, n int, class uint8) *script {
	for range n {
		s.now = s.now.Add(time.Duration(us) * time.Microsecond)
		s.sendClass(class, *psn)
		*psn++
	}
	return s
}

// Control has the rates before and after a CNP, and the recovery time.
func TestControl(t *testing.T) {
	s, psn := withEvidence(t, 10), uint32(10)
	s.setTime(0).sendPaced(&psn, 10, 20, 2).notifyFastCNP().sendPaced(&psn, 20, 32, 2).sendPaced(&psn, 10, 40, 2)
	c := s.onlyFlow().Evidence.Control
	require.EqualValues(t, 1, c.Judged)
	require.EqualValues(t, 1, c.Slowed)
	require.InDelta(t, 1e9, c.Before, 1)
	require.InDelta(t, 0.5e9, c.After, 1)
	require.Zero(t, c.Unheeded)
	require.EqualValues(t, 1, c.Recovery.Count())
	// 640 µs at the low rate, then until 16 requests contain at most one slow interval, checked
	// every 8.
	require.GreaterOrEqual(t, c.Recovery.Min(), 780*time.Microsecond)
	require.LessOrEqual(t, c.Recovery.Min(), 870*time.Microsecond)

	// The request that completes the recovery shows it, also if it is the last one.
	s, psn = withEvidence(t, 10), 10
	s.setTime(0).sendPaced(&psn, 10, 20, 2).notifyFastCNP()
	notified := s.now
	s.sendPaced(&psn, 20, 32, 2)
	for s.onlyFlow().Evidence.Control.Recovery == nil {
		s.sendPaced(&psn, 10, 1, 2)
	}
	recovery := s.onlyFlow().Evidence.Control.Recovery.Min()
	require.InEpsilon(t, s.now.Sub(notified).Seconds(), recovery.Seconds(), 0.005)

	// Not judged: too few requests before the CNP or after it, or a pause before it.
	for _, c := range []struct {
		name string
		f    func(s *script)
	}{
		{"few requests before", func(s *script) {
			s.sendPaced(&psn, 10, 15, 2).notifyFastCNP().sendPaced(&psn, 10, 32, 2)
		}},
		{"a pause", func(s *script) {
			s.sendPaced(&psn, 10, 20, 2)
			s.now = s.now.Add(time.Millisecond)
			s.notifyFastCNP().sendPaced(&psn, 10, 32, 2)
		}},
		{"few requests after", func(s *script) {
			s.sendPaced(&psn, 10, 20, 2).notifyFastCNP().sendPaced(&psn, 10, 7, 2).notifyFastCNP()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			psn = 10
			s := withEvidence(t, 10)
			c.f(s.setTime(0))
			require.Zero(t, s.onlyFlow().Evidence.Control.Judged)
		})
	}
}

// Unheeded is the run of CNPs without a rate cut, unless there is counter-evidence.
func TestUnheeded(t *testing.T) {
	run := func(cnps, every, step int, class uint8) Control {
		s, psn := withEvidence(t, 10), uint32(10)
		s.setTime(0).sendPaced(&psn, 10, 32, class)
		for range cnps {
			s.notifyFastCNP().sendPaced(&psn, step, every, class)
		}
		return s.onlyFlow().Evidence.Control
	}
	c := run(40, 5, 10, 2) // one each 50 µs
	require.EqualValues(t, 40, c.Unheeded.Count)
	require.EqualValues(t, 35, c.Unheeded.First) // two frames of the exchange, 32 requests
	require.InDelta(t, 1e9, c.Rate, 1)
	require.Zero(t, run(minUnheeded-1, 5, 10, 2).Unheeded, "too few")
	require.Zero(t, run(60, 16, 10, 2).Unheeded, "160 µs apart")

	s, psn := withEvidence(t, 10), uint32(10) // gently: by 10 % after every six
	s.setTime(0).sendPaced(&psn, 10, 32, 2)
	for i := range 60 {
		s.notifyFastCNP().sendPaced(&psn, 10+i/6, 5, 2)
	}
	require.Zero(t, s.onlyFlow().Evidence.Control.Unheeded)

	require.Zero(t, run(40, 15, 10, 2).Unheeded, "32 in 6 ms slow the slowest adapter down by 13 % only")
	require.NotZero(t, run(95, 15, 10, 2).Unheeded, "and 95 of them by 32 %")
	require.Zero(t, run(100, 5, 10, 3).Unheeded, "after a queue, 5 ms are not enough")
	require.NotZero(t, run(210, 5, 10, 3).Unheeded, "10 ms do")
}

// A CNP from another address than the receiver's is unmatched, and its frame is kept.
func TestUnpairedCNP(t *testing.T) {
	s := withEvidence(t, 10).setTime(0).sendClass(2, 10)
	proxy := s.keyBA()
	proxy.Src[15] = 77
	s.setTime(5).observe(Packet{kind: cnpKind, pkt: observation{Opcode: bth.CNP, Flow: proxy}})
	u := s.Snapshot().Unpaired
	require.Len(t, u, 1)
	require.EqualValues(t, 1, u[0].CNPs)
	require.Equal(t, Sign{1, 4, 4, timeOf(s.now.UnixNano()), timeOf(s.now.UnixNano())}, u[0].CNP)
}

// PauseSigns has the frames of pauses, and the longest uninterrupted pause.
func TestPauseEvidence(t *testing.T) {
	s := newPauses(t, 100_000_000_000) // a quantum is 5.12 ns
	s.observeFrame(0, off3).observeFrame(100, off3).observeFrame(400, on3).observeFrame(10_000, off3).
		observeFrame(10_050, on3)
	p := s.onlyLink().PauseSigns[3]
	require.EqualValues(t, 3, p.Count)
	require.Equal(t, 10_000*time.Nanosecond, p.Until.Sub(p.Since))
	require.Equal(t, 400*time.Nanosecond, p.Longest)
	require.Zero(t, s.onlyLink().PauseSigns[AllPriorities])

	s.observeFrame(20_000, off3).observeOther(20_600)
	require.Equal(t, 600*time.Nanosecond, s.onlyLink().PauseSigns[3].Longest, "it still lasts")
}

func TestEvidenceAllocatesNothing(t *testing.T) {
	s := withEvidence(t, 10)
	forth, back := Packet{kind: requestKind, pkt: observation{Opcode: bth.RCSendOnly, Flow: s.keyAB(), AckReq: true},
		trafficClass: 3},
		Packet{kind: answerKind, pkt: observation{Opcode: bth.RCAcknowledge, Flow: s.keyBA()}}
	cnp := Packet{kind: cnpKind, pkt: observation{Opcode: bth.CNP, Flow: s.keyBA()}}
	psn := uint32(10)
	wiretest.NoAllocs(t, "a request, a CNP and an answer", func() {
		forth.pkt.PSN, back.pkt.PSN = psn, psn
		s.now = s.now.Add(10 * time.Microsecond)
		s.Observe(&forth, 1, s.now)
		s.Observe(&cnp, 2, s.now)
		s.Observe(&back, 3, s.now)
		psn = bth.AddPSN(psn, 1)
	})
}
