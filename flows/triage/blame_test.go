package triage_test

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/flows"
	"github.com/rocecn/rocecn/flows/triage"
	"github.com/rocecn/rocecn/rocev2"
)

var start = time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)

// signOf returns a sign with this count within ten milliseconds.
func signOf(count uint64) flows.Sign {
	return flows.Sign{Count: count, First: 1, Last: count, Since: start, Until: start.Add(10 * time.Millisecond)}
}

// flowOf returns a flow from 10.0.0.src to 10.0.0.1.
func flowOf(src byte, dscp int, packets uint64) flows.Flow {
	f := flows.Flow{FlowKey: rocev2.FlowKey{Src: netip.AddrFrom4([4]byte{10, 0, 0, src}),
		Dst: netip.AddrFrom4([4]byte{10, 0, 0, 1}), DestQP: 0x100 + uint32(src)}, Sequenced: true,
		Evidence: &flows.Evidence{}}
	f.Packets, f.Data.Packets, f.DSCP = packets, packets, 1<<dscp
	*f.Evidence.Sign(flows.SignRequest) = signOf(packets)
	return f
}

func withMarks(f flows.Flow) flows.Flow {
	f.ECN[rocev2.CE], f.Data.CE = 20, 20
	*f.Evidence.Sign(flows.SignCE), *f.Evidence.Sign(flows.SignAnswerAfterCE) = signOf(20), signOf(10)
	*f.Evidence.Sign(flows.SignAnswer) = signOf(10)
	return f
}

// A receiver that sends CNPs to another sender has ECN on, and is not named.
func TestReceiverThatNotifiesOthersIsNotNamed(t *testing.T) {
	a, b := withMarks(flowOf(2, 26, 100)), withMarks(flowOf(3, 26, 100))
	require.Equal(t, []string{"no CNP ?10.0.0.1"}, causesOf(triage.Explain(&flows.Snapshot{Flows: []flows.Flow{a, b}})))
	b.CNPs, *b.Evidence.Sign(flows.SignCNP) = 5, signOf(5)
	all := triage.Explain(&flows.Snapshot{Flows: []flows.Flow{a, b}})
	require.Equal(t, "no CNP ?the limit of CNPs in total at 10.0.0.1", causesOf(all)[0])
	require.NotContains(t, all[0].Text, "ECN is off")
}

// One loss in a hundred thousand packets is no evidence against a DSCP if the usual one has two
// hundred packets.
func TestFewLossesNameNoDSCP(t *testing.T) {
	of := func(packets, naks uint64) []string {
		f := flowOf(4, 0, packets)
		f.Causes.NAK, *f.Evidence.Sign(flows.SignNAK) = naks, signOf(naks)
		return causesOf(triage.Explain(&flows.Snapshot{
			Flows: []flows.Flow{flowOf(2, 26, 100), flowOf(3, 26, 100), f}}))
	}
	require.Equal(t, []string{"other DSCP ?10.0.0.4"}, of(100, 2))
	require.Equal(t, []string{"loss"}, of(100_000, 1))
}

// If two addresses pause each other, neither is named: the first pause may be from before the
// capture.
func TestSeveralPausersNameNoParty(t *testing.T) {
	link := func(last byte) flows.Link {
		l := flows.Link{Src: net.HardwareAddr{2, 0, 0, 0, 0, last}}
		l.PauseSigns[3] = flows.PauseSign{Sign: signOf(20), Longest: time.Millisecond}
		l.Priorities[3] = flows.Priority{XOFF: 20, Paused: 8 * time.Millisecond}
		return l
	}
	require.Equal(t, []string{"pause storm ?02:00:00:00:00:01"},
		causesOf(triage.Explain(&flows.Snapshot{Links: []flows.Link{link(1)}})))
	require.Equal(t, []string{"pause storm ?02:00:00:00:00:01"},
		causesOf(triage.Explain(&flows.Snapshot{Links: []flows.Link{link(1), link(2)}})))
}

// In a capture that contains each packet twice, half of the notifications are close.
func TestCopiedNotificationsNameNoParty(t *testing.T) {
	of := func(near uint64) []string {
		f := flowOf(2, 26, 100)
		*f.Evidence.Sign(flows.SignNotification) = signOf(10)
		f.Evidence.Notifiers = []flows.Notifier{{From: netip.MustParseAddr("10.0.0.9"), Kind: flows.NoticeFastCNP,
			Sign: signOf(10), TooClose: near}}
		return causesOf(triage.Explain(&flows.Snapshot{Flows: []flows.Flow{f}}))
	}
	require.Equal(t, []string{"congestion"}, of(5))
	require.Equal(t, []string{"too many notifications 10.0.0.9"}, of(6))
}

// If a trace contains a queue, the next step names its node.
func TestCongestionNamesTheDeepestQueue(t *testing.T) {
	next := func(queues ...flows.QueueDepth) string {
		var s flows.Snapshot
		for i, q := range queues {
			f := flowOf(byte(2+i), 26, 100)
			*f.Evidence.Sign(flows.SignNotification), f.Queue = signOf(5), q
			s.Flows = append(s.Flows, f)
		}
		all := triage.Explain(&s)
		require.Len(t, all, 1)
		require.Equal(t, triage.CauseCongested, all[0].Cause)
		return all[0].Next
	}
	empty := flows.QueueDepth{Node: 7, Known: true}
	require.Contains(t, next(flows.QueueDepth{}, empty), "between this capture point and the receiver")
	require.Contains(t, next(flows.QueueDepth{Node: 212, Depth: 87040, Known: true}, empty), "node 212 ")
	require.Contains(t, next(flows.QueueDepth{Node: 8, Depth: 1, Known: true}, flows.QueueDepth{Node: 9, Depth: 2,
		Known: true}), "node 9 ")
}

// CNPs between the two hosts are counter-evidence against "no CNP", even if they could not be
// matched.
func TestUnpairedCNPsAreCounterEvidence(t *testing.T) {
	a, b := withMarks(flowOf(2, 26, 100)), withMarks(flowOf(2, 26, 100))
	b.DestQP++
	s := flows.Snapshot{Flows: []flows.Flow{a, b}}
	require.Equal(t, []string{"no CNP ?10.0.0.1"}, causesOf(triage.Explain(&s)))
	u := flows.Unpaired{FlowKey: rocev2.FlowKey{Src: a.Dst, Dst: a.Src, DestQP: 0x77}, WithQP: true, CNP: signOf(1)}
	u.CNPs = 1
	s.Unpaired = []flows.Unpaired{u}
	require.Equal(t, []string{"congestion"}, causesOf(triage.Explain(&s)))
}

// RNR NAKs without captured retransmissions give no number of retransmissions.
func TestRNRWithoutRetransmissions(t *testing.T) {
	f := flowOf(2, 26, 100)
	f.RNRNAKs, *f.Evidence.Sign(flows.SignRNR) = 1, signOf(1)
	all := triage.Explain(&flows.Snapshot{Flows: []flows.Flow{f}})
	require.Equal(t, []string{"receiver not ready 10.0.0.1"}, causesOf(all))
	require.NotContains(t, all[0].Text, "retransmitted")
}

// A gap without an answer after it is no loss if the flow has other answers. Without any, it is
// unknown.
func TestUnjudgedGap(t *testing.T) {
	f := flowOf(4, 26, 100)
	f.PSN.Gaps, f.PSN.Missing, f.PSN.Unjudged, *f.Evidence.Sign(flows.SignGap) = 1, 1, 1, signOf(1)
	explain := func() []string { return causesOf(triage.Explain(&flows.Snapshot{Flows: []flows.Flow{f}})) }
	require.Equal(t, []string{"loss"}, explain())
	*f.Evidence.Sign(flows.SignAnswer) = signOf(99)
	require.Empty(t, explain())
}

// A sample of the packets shows no losses and no missing answers.
func TestSampledCapture(t *testing.T) {
	lossy, marked := flowOf(4, 26, 100), withMarks(flowOf(2, 26, 100))
	lossy.PSN.Lost, *lossy.Evidence.Sign(flows.SignGap) = 50, signOf(50)
	s := flows.Snapshot{Flows: []flows.Flow{lossy, marked}}
	require.Equal(t, []string{"no CNP ?10.0.0.1", "loss"}, causesOf(triage.Explain(&s)))
	s.Capture.Sampled = 100
	require.Equal(t, []string{"congestion"}, causesOf(triage.Explain(&s)))
}

// Retransmissions without a NAK and without a timeout may be copies.
func TestUnexplainedRetransmissions(t *testing.T) {
	f := flowOf(4, 26, 100)
	f.PSN.Retransmitted, f.Causes.Timeout, f.Evidence.MaxTimeout = 60, 60, 3*time.Microsecond
	*f.Evidence.Sign(flows.SignAfterTimeout), *f.Evidence.Sign(flows.SignAnswer) = signOf(60), signOf(99)
	all := triage.Explain(&flows.Snapshot{Flows: []flows.Flow{f}})
	require.NotContains(t, causesOf(all), "retransmission storm")
	require.Contains(t, all[len(all)-1].Text, "the capture may contain packets twice")
}
