package triage_test

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/flows"
	"github.com/rocecn/rocecn/flows/triage"
	"github.com/rocecn/rocecn/rocev2"
)

// find returns the verdict with a cause.
func find(t *testing.T, all []triage.Verdict, c triage.Cause) triage.Verdict {
	t.Helper()
	for _, v := range all {
		if v.Cause == c {
			return v
		}
	}
	t.Fatalf("no %v in %v", c, causesOf(all))
	return triage.Verdict{}
}

// Gaps in the capture show that packets were lost before it, NAKs without a gap that they were lost after it.
func TestPlaceOfLosses(t *testing.T) {
	for _, row := range []struct {
		name       string
		lost, into uint64 // gaps that stayed, and gaps that a retransmission filled
		notECT     bool
		text, next string
	}{
		{"before", 2, 0, false, "lost before this capture point.", "between the senders and this capture point."},
		{"before and filled", 0, 2, false, "lost before this capture point.",
			"between the senders and this capture point."},
		{"after", 0, 0, false, "lost between it and 10.0.0.1.", "the last switch's port first."},
		{"without ECN", 2, 0, true, "None of the packets is ECN-capable", "should be ECN-capable"},
	} {
		t.Run(row.name, func(t *testing.T) {
			f := flowOf(2, 26, 100)
			f.PSN.Lost, f.PSN.Retransmitted, f.Causes.NAK = row.lost, 5, 5
			*f.Evidence.Sign(flows.SignRetransmitted), *f.Evidence.Sign(flows.SignNAK) = signOf(row.into), signOf(2)
			*f.Evidence.Sign(flows.SignAnswer), *f.Evidence.Sign(flows.SignAfterNAK) = signOf(50), signOf(5)
			if row.notECT {
				*f.Evidence.Sign(flows.SignNotECT) = signOf(100)
			}
			v := find(t, explainFlows(f), triage.CauseLost)
			require.Contains(t, v.Text, row.text)
			require.Contains(t, v.Next, row.next)
		})
	}
}

// A timeout is due to lost requests, lost answers, or a timer that is too short for the round trips.
func TestReasonsForTimeouts(t *testing.T) {
	for _, row := range []struct {
		name              string
		covered, spurious uint64
		rtt               time.Duration
		suspect, text     string
	}{
		{"no answer", 0, 0, time.Millisecond, "the path between this capture point and 10.0.0.1",
			"it waited 2ms to 16ms for an answer"},
		{"answers lost after the capture point", 3, 3, 500 * time.Microsecond, "the path from this capture point to " +
			"10.0.0.2",
			"lost between it and 10.0.0.2."},
		{"answers lost before the capture point", 0, 3, 500 * time.Microsecond, "the path of the answers from 10.0.0.1",
			"no request was lost"},
		{"short timer", 0, 3, 30 * time.Millisecond, "the Local ACK Timeout of 10.0.0.2",
			"the timer is too short for round trips of 30"},
	} {
		t.Run(row.name, func(t *testing.T) {
			f := timedOut(2, 17, 1000, 1000)
			f.Evidence.MinTimeout, f.Evidence.MaxTimeout = 2*time.Millisecond, 16*time.Millisecond
			f.Evidence.AlreadyAcknowledged, f.Causes.Spurious = row.covered, row.spurious
			f.RTT = new(flows.Histogram)
			f.RTT.Add(row.rtt)
			v := find(t, explainFlows(f), triage.CauseTimedOut)
			require.Equal(t, row.suspect, v.Suspects[0])
			require.Contains(t, v.Text, row.text)
		})
	}
}

// A finding about congestion states on which side of the capture point the queue is, and if CNPs have an effect.
func TestTextOfCongestion(t *testing.T) {
	for _, row := range []struct {
		name       string
		set        func(f *flows.Flow)
		text, next string
	}{
		{"marks", func(f *flows.Flow) { *f.Evidence.Sign(flows.SignCE) = signOf(20) }, "20 had CE (2 %)",
			"The queue is before this capture point"},
		{"few marks, and CNPs", func(f *flows.Flow) { *f.Evidence.Sign(flows.SignCE) = signOf(5) }, "5 had CE (0.5 %)",
			"So few marks with CNPs about them are ECN at work"},
		{"CNPs alone", func(*flows.Flow) {}, "so the queue is after this capture point",
			"between this capture point and the receiver"},
		{"one direction", func(f *flows.Flow) {
			*f.Evidence.Sign(flows.SignCE) = signOf(20)
			*f.Evidence.Sign(flows.SignCNP), *f.Evidence.Sign(flows.SignAnswer) = flows.Sign{}, flows.Sign{}
		}, "it does not show whether CNPs are sent", "Capture the other direction as well."},
		{"CNPs with a wrong ICRC", func(f *flows.Flow) {
			*f.Evidence.Sign(flows.SignCE) = signOf(20)
			*f.Evidence.Sign(flows.SignCNP), *f.Evidence.Sign(flows.SignWrongAnswer) = flows.Sign{}, signOf(9)
			f.Wrong.CNPs = 9
		}, "do not slow down for the 9 CNPs with a wrong ICRC", "Mend these CNPs first."},
		{"obeyed", func(f *flows.Flow) {
			*f.Evidence.Sign(flows.SignCE) = signOf(20)
			f.Evidence.Control.Judged, f.Evidence.Control.Slowed = 4, 3
		}, "Senders slowed down after 3 of 4 CNPs.", "The queue is before"},
	} {
		t.Run(row.name, func(t *testing.T) {
			f := flowOf(2, 26, 1000)
			*f.Evidence.Sign(flows.SignCNP), *f.Evidence.Sign(flows.SignAnswer) = signOf(4), signOf(100)
			row.set(&f)
			v := find(t, explainFlows(f), triage.CauseCongested)
			require.Contains(t, v.Text, row.text)
			require.Contains(t, v.Next, row.next)
		})
	}
}

// Paths of several senders are counted.
func TestCongestionOfSeveralSenders(t *testing.T) {
	a, b := flowOf(2, 26, 1000), flowOf(3, 26, 1000)
	*a.Evidence.Sign(flows.SignCE), *b.Evidence.Sign(flows.SignCE) = signOf(20), signOf(20)
	require.Contains(t, find(t, explainFlows(a, b), triage.CauseCongested).Text,
		"The paths of 2 senders to 10.0.0.1 were congested")
	require.Contains(t, find(t, explainFlows(a), triage.CauseCongested).Text, "The path to 10.0.0.1 was congested")
}

// Trimmed packets, ACKs with a wrong ICRC, and a receiver without CNPs explain the symptoms that they cause.
func TestSymptomsOfKnownCauses(t *testing.T) {
	trimmed := flowOf(2, 26, 100)
	trimmed.PSN.Lost, trimmed.Causes.NAK = 5, 5
	*trimmed.Evidence.Sign(flows.SignTrimmed), *trimmed.Evidence.Sign(flows.SignAnswer) = signOf(5), signOf(50)
	require.Equal(t, []string{"trimmed ?a full queue before the capture point"}, causesOf(explainFlows(trimmed)))
	*trimmed.Evidence.Sign(flows.SignTrimmed) = signOf(1)
	require.Len(t, explainFlows(trimmed), 2, "most were lost")

	f := flowOf(2, 26, 100)
	f.Wrong.ACKs, f.PSN.Retransmitted, f.Causes.Timeout = 40, 30, 30
	*f.Evidence.Sign(flows.SignWrongAnswer), *f.Evidence.Sign(flows.SignAfterTimeout) = signOf(40), signOf(30)
	all := explainFlows(f)
	require.Equal(t, []string{"wrong ICRC 10.0.0.1"}, causesOf(all))
	require.Contains(t, all[0].Text, "Their senders get no answer: 30 packets were retransmitted.")

	marked, other := withMarks(flowOf(2, 26, 100)), flowOf(2, 26, 16)
	other.DestQP++
	*other.Evidence.Sign(flows.SignCE) = signOf(1)
	require.Equal(t, []string{"no CNP ?10.0.0.1"}, causesOf(explainFlows(marked, other)))
}

// Packets that several receivers acknowledged and that were not captured have one cause: the capture.
func TestNotCapturedIsOneFinding(t *testing.T) {
	var all []flows.Flow
	for i := range byte(4) {
		f := flowOf(2, 26, 100)
		f.Dst, f.PSN.Unseen = netip.AddrFrom4([4]byte{10, 0, 1, i}), 1
		*f.Evidence.Sign(flows.SignGap), *f.Evidence.Sign(flows.SignAnswer) = signOf(1), signOf(50)
		all = append(all, f)
	}
	verdicts := explainFlows(all...)
	require.Equal(t, []string{"not captured"}, causesOf(verdicts))
	require.Equal(t, 4, verdicts[0].Joined)
	require.Contains(t, verdicts[0].Text, "4 packets to 10.0.1.0, 10.0.1.1, 10.0.1.2, and 1 more were acknowledged")
	require.Contains(t, explainFlows(all[0])[0].Text, "1 packet to 10.0.1.0 was acknowledged")
}

// A sender that ignores CNPs comes before the incast that it is a part of.
func TestUnheededBeforeIncast(t *testing.T) {
	var all []flows.Flow
	for i := range byte(4) {
		f := flowOf(2+i, 26, 1000)
		f.Evidence.PortLoad = 0.95
		*f.Evidence.Sign(flows.SignCE), *f.Evidence.Sign(flows.SignCNP) = signOf(20), signOf(9)
		f.Evidence.Control = flows.Control{Judged: 9, Slowed: 8, Before: 3e9, After: 2e9}
		if i == 1 {
			f.Evidence.Control = flows.Control{Judged: 9, Before: 8e9, After: 8e9}
		}
		all = append(all, f)
	}
	verdicts := explainFlows(all...)
	require.Equal(t, []string{"CNP unheeded ?10.0.0.3", "incast 10.0.0.1"}, causesOf(verdicts))
	require.Contains(t, verdicts[1].Text, "One of them, 10.0.0.3, did not slow down after its CNPs.")
}

// A sample does not show which packets came in the same moments, so there is no incast.
func TestSampledIncast(t *testing.T) {
	var s flows.Snapshot
	for i := range byte(4) {
		f := flowOf(2+i, 26, 1000)
		f.Evidence.PortLoad = 0.95
		*f.Evidence.Sign(flows.SignCE), *f.Evidence.Sign(flows.SignCNP) = signOf(20), signOf(5)
		s.Flows = append(s.Flows, f)
	}
	require.Equal(t, []string{"incast 10.0.0.1"}, causesOf(triage.Explain(&s)))
	s.Capture.Sampled = 10
	require.Equal(t, []string{"congestion"}, causesOf(triage.Explain(&s)))
}

// The next steps name the host of a MAC address, and the length of data for ping by IP version.
func TestNextSteps(t *testing.T) {
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 1}
	l := flows.Link{Src: mac}
	l.PauseSigns[3] = flows.PauseSign{Sign: signOf(20), Longest: time.Millisecond}
	l.Priorities[3] = flows.Priority{XOFF: 20, XON: 20, Paused: 8 * time.Millisecond}
	host := flowOf(7, 26, 10)
	host.SrcMAC = mac
	v := triage.Explain(&flows.Snapshot{Links: []flows.Link{l}, Flows: []flows.Flow{host}})[0]
	require.Equal(t, mac.String(), v.Party)
	require.Contains(t, v.Next, "why 10.0.0.7 receives too slowly")

	for _, row := range []struct{ src, dst, want string }{
		{"10.0.0.2", "10.0.0.1", "ping -M do -s 4128 10.0.0.1"},
		{"fd00::2", "fd00::1", "ping -M do -s 4108 fd00::1"},
	} {
		t.Run(row.dst, func(t *testing.T) {
			long, short := timedOut(2, 17, 0, 4156), running(2, 18, 316)
			for _, f := range []*flows.Flow{&long, &short} {
				f.FlowKey = rocev2.FlowKey{Src: netip.MustParseAddr(row.src), Dst: netip.MustParseAddr(row.dst),
					DestQP: f.DestQP}
			}
			require.Contains(t, find(t, explainFlows(long, short), triage.CauseMTU).Next, row.want)
		})
	}
}

// Losses of other flows belong to the trimming of packets to the same receiver at the same time, if at least half
// of the lost packets were trimmed.
func TestLossesBesideTrimmedPackets(t *testing.T) {
	trimmed, lossy := flowOf(2, 26, 100), flowOf(3, 26, 100)
	*trimmed.Evidence.Sign(flows.SignTrimmed), *trimmed.Evidence.Sign(flows.SignAnswer) = signOf(5), signOf(50)
	trimmed.Evidence.Trimmings = []flows.Sign{signOf(5)}
	trimmed.PSN.Lost, trimmed.Causes.NAK = 5, 5
	lossy.PSN.Lost, lossy.Causes.NAK = 2, 2
	*lossy.Evidence.Sign(flows.SignNAK), *lossy.Evidence.Sign(flows.SignAnswer) = signOf(2), signOf(50)
	all := explainFlows(trimmed, lossy)
	require.Equal(t, []string{"trimmed ?a full queue before the capture point"}, causesOf(all))
	require.Len(t, all[0].Flows, 2)
	require.Contains(t, all[0].Text, "Packets of 1 other flow to it were lost at the same time.")

	later := signOf(2)
	later.Since, later.Until = later.Since.Add(time.Second), later.Until.Add(time.Second)
	*lossy.Evidence.Sign(flows.SignNAK) = later
	require.Equal(t, []string{"trimmed ?a full queue before the capture point", "loss"},
		causesOf(explainFlows(trimmed, lossy)))

	*lossy.Evidence.Sign(flows.SignNAK) = signOf(20)
	lossy.PSN.Lost, lossy.Causes.NAK = 20, 20
	require.Len(t, explainFlows(trimmed, lossy), 2, "most were lost")
}

// Losses belong to trimmed packets only if they begin and end at a time of trimming; the trimming of one flow may have
// several of them.
func TestLossesBetweenTrimmedPackets(t *testing.T) {
	at := func(count uint64, since time.Duration) flows.Sign {
		s := signOf(count)
		s.Since, s.Until = start.Add(since), start.Add(since+time.Millisecond)
		return s
	}
	for _, row := range []struct {
		name        string
		first, last time.Duration // NAKs
		lost        uint64
		timeout     time.Duration
		joined      bool
	}{
		{"at the first trimming", 0, 0, 1, 0, true},
		{"at the last trimming", time.Minute, time.Minute, 5, 0, true},
		{"at both", 0, time.Minute, 6, 0, true},
		{"more than were trimmed then", 0, 0, 5, 0, false},
		{"between them", 30 * time.Second, 30 * time.Second, 4, 0, false},
		{"between them, with a timeout", 30 * time.Second, 30 * time.Second, 4, 500 * time.Millisecond, false},
		{"from the first trimming on", 0, 30 * time.Second, 4, 0, false},
		{"timeout after the last trimming", time.Minute, time.Minute + 500*time.Millisecond, 4,
			500 * time.Millisecond, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			trimmed, lossy := flowOf(2, 26, 100), flowOf(3, 26, 100)
			*trimmed.Evidence.Sign(flows.SignAnswer), *lossy.Evidence.Sign(flows.SignAnswer) = signOf(50), signOf(50)
			trimmed.Evidence.Trimmings = []flows.Sign{at(1, 0), at(5, time.Minute)}
			s := at(6, 0)
			s.Until = start.Add(time.Minute + time.Millisecond)
			*trimmed.Evidence.Sign(flows.SignTrimmed) = s
			lossy.PSN.Lost, lossy.Causes.NAK = row.lost, row.lost
			s = at(row.lost, row.first)
			s.Until = start.Add(row.last + time.Millisecond)
			*lossy.Evidence.Sign(flows.SignNAK) = s
			if row.timeout > 0 {
				lossy.Causes.Timeout, lossy.Evidence.MaxTimeout = 1, row.timeout
				*lossy.Evidence.Sign(flows.SignAfterTimeout) = at(1, row.last)
			}
			all := explainFlows(trimmed, lossy)
			if !row.joined {
				cause := "loss"
				if row.timeout > 0 {
					cause = "timeout ?the path between this capture point and 10.0.0.1"
				}
				require.ElementsMatch(t, []string{"trimmed ?a full queue before the capture point", cause},
					causesOf(all))
				return
			}
			require.Equal(t, []string{"trimmed ?a full queue before the capture point"}, causesOf(all))
			require.Equal(t, row.timeout > 0, strings.Contains(all[0].Text,
				" The retransmission timers of 1 sender expired as well."))
		})
	}
}

// The first senders that ignore CNPs are named by a finding about their receiver, and the others are counted.
func TestManyUnheedingSendersAreCounted(t *testing.T) {
	var all []flows.Flow
	for i := range byte(8) {
		f := withMarks(flowOf(10+i, 26, 100))
		f.CNPs, *f.Evidence.Sign(flows.SignCNP) = 40, signOf(40)
		f.Evidence.PortLoad = 0.9
		if i < 5 {
			f.Evidence.Control.Unheeded = signOf(40)
		}
		all = append(all, f)
	}
	found := explainFlows(all...)
	require.Len(t, found, 6)
	for _, v := range found[:5] {
		require.Equal(t, triage.CauseCNPUnheeded, v.Cause)
	}
	require.Equal(t, triage.CauseIncast, found[5].Cause)
	require.Contains(t, found[5].Text, "One of them, 10.0.0.12, did not slow down after its CNPs. Nor did 2 other "+
		"senders.")
	require.NotContains(t, found[5].Text, "10.0.0.13")
}
