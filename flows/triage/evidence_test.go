package triage_test

import (
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/flows"
	"github.com/rocecn/rocecn/flows/triage"
	"github.com/rocecn/rocecn/rocev2"
)

// spanSign returns a sign between two times after start.
func spanSign(count uint64, since, until time.Duration) flows.Sign {
	return flows.Sign{Count: count, First: 1, Last: count, Since: start.Add(since), Until: start.Add(until)}
}

func explainFlows(all ...flows.Flow) []triage.Verdict {
	return triage.Explain(&flows.Snapshot{Flows: all})
}

// Senders that slow down after marks, and not at other times, receive CNPs that the mirror left out.
func TestRatesThatFallExcludeMissingCNPs(t *testing.T) {
	of := func(judged, slowed, quiet, quietSlowed uint64) []triage.Verdict {
		f := withMarks(flowOf(2, 26, 100))
		c := &f.Evidence.Control
		c.MarksJudged, c.MarksSlowed, c.QuietJudged, c.QuietSlowed = judged, slowed, quiet, quietSlowed
		return explainFlows(f)
	}
	all := of(6, 6, 20, 1)
	require.Equal(t, []string{"congestion"}, causesOf(all))
	require.Equal(t, []string{"a receiver that sends no CNPs"}, all[0].Excluded)
	for _, row := range []struct {
		name                               string
		judged, slowed, quiet, quietSlowed uint64
	}{
		{"too few", 2, 2, 20, 0},
		{"most marks without effect", 20, 3, 20, 0},
		{"rates vary anyway", 6, 6, 20, 15},
		{"nothing to compare with", 6, 6, 0, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			require.Equal(t, []string{"no CNP ?10.0.0.1"},
				causesOf(of(row.judged, row.slowed, row.quiet, row.quietSlowed)))
		})
	}
}

// A sender that does not slow down while its neighbours do is a suspect, and the party if it slows down
// after CNPs about other flows.
func TestUnheededByComparison(t *testing.T) {
	of := func(src byte, judged, slowed uint64, after float64) flows.Flow {
		f := flowOf(src, 26, 1000)
		*f.Evidence.Sign(flows.SignCNP) = signOf(judged)
		f.Evidence.Control = flows.Control{Judged: judged, Slowed: slowed, Before: after, After: after}
		return f
	}
	neighbours := []flows.Flow{of(3, 6, 6, 3e9), of(4, 7, 6, 3e9)}
	explain := func(more ...flows.Flow) string {
		for _, v := range explainFlows(append(more, neighbours...)...) {
			if v.Cause == triage.CauseCNPUnheeded {
				return causesOf([]triage.Verdict{v})[0]
			}
		}
		return ""
	}
	require.Equal(t, "CNP unheeded ?10.0.0.2", explain(of(2, 9, 0, 8e9)))
	require.Empty(t, explain(of(2, 9, 0, 1e9)), "it is slower: it may have had nothing to send")
	require.Empty(t, explain(of(2, 4, 0, 8e9)), "too few CNPs")
	require.Empty(t, explain(of(2, 9, 4, 8e9)), "it slows down")
	other := of(2, 5, 5, 2e9)
	other.Dst = netip.MustParseAddr("10.0.0.7")
	require.Equal(t, "CNP unheeded 10.0.0.2", explain(of(2, 9, 0, 8e9), other))
}

// A sender that keeps twice the rate of its neighbours under the same CNPs is a suspect.
func TestUnheededByRate(t *testing.T) {
	of := func(src byte, cnps uint64, before, after, fastest float64) flows.Flow {
		f := flowOf(src, 26, 1000)
		*f.Evidence.Sign(flows.SignCNP) = signOf(cnps)
		f.Evidence.Control = flows.Control{Judged: cnps, Slowed: cnps / 3, Before: before, After: after,
			Fastest: fastest}
		return f
	}
	slow, longer := of(3, 60, 1.4e9, 1.3e9, 6e9), of(4, 200, 1.2e9, 1.1e9, 5e9)
	*longer.Evidence.Sign(flows.SignCNP) = spanSign(200, 0, 100*time.Millisecond) // fewer in the same time
	for _, row := range []struct {
		name       string
		flow       flows.Flow
		neighbours []flows.Flow
		want       bool
	}{
		{"unheeded", of(2, 90, 5.7e9, 5.4e9, 9e9), []flows.Flow{slow, of(4, 70, 1.2e9, 1.1e9, 5e9)}, true},
		{"more CNPs in a longer time", of(2, 90, 5.7e9, 5.4e9, 9e9), []flows.Flow{slow, longer}, true},
		{"a single neighbour", of(2, 90, 5.7e9, 5.4e9, 9e9), []flows.Flow{slow}, false},
		{"fewer CNPs", of(2, 50, 5.7e9, 5.4e9, 9e9), []flows.Flow{slow, of(4, 70, 1.2e9, 1.1e9, 5e9)}, false},
		{"it slows down", of(2, 90, 5.7e9, 4.9e9, 9e9), []flows.Flow{slow, of(4, 70, 1.2e9, 1.1e9, 5e9)}, false},
		{"a fast neighbour", of(2, 90, 5.7e9, 5.4e9, 9e9), []flows.Flow{slow, of(4, 70, 3e9, 2.9e9, 6e9)}, false},
		{"neighbours with little to send", of(2, 90, 5.7e9, 5.4e9, 9e9),
			[]flows.Flow{slow, of(4, 70, 1.2e9, 1.1e9, 1.2e9)}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := causesOf(explainFlows(append(row.neighbours, row.flow)...))
			require.Equal(t, row.want, slices.Contains(got, "CNP unheeded ?10.0.0.2"), "%v", got)
		})
	}
}

// All answers of one kind with a wrong ICRC name their source; some are corruption.
func TestWrongICRC(t *testing.T) {
	of := func(wrong, right uint64) []string {
		f := flowOf(2, 26, 100)
		f.Wrong.CNPs, f.CNPs = wrong, right
		*f.Evidence.Sign(flows.SignWrongAnswer) = signOf(wrong)
		var out []string
		for _, v := range explainFlows(f) {
			if v.Cause == triage.CauseWrongICRC {
				out = append(out, causesOf([]triage.Verdict{v})...)
			}
		}
		return out
	}
	require.Equal(t, []string{"wrong ICRC 10.0.0.1"}, of(40, 0))
	require.Empty(t, of(40, 1))
	require.Empty(t, of(2, 0))

	f := flowOf(2, 26, 100)
	f.Wrong.CNPs, f.CNPs = 40, 1
	*f.Evidence.Sign(flows.SignWrongAnswer) = signOf(40)
	all := explainFlows(f)
	require.Equal(t, []string{"corrupt ?a link or node before the capture point"}, causesOf(all))
	require.Contains(t, all[0].Text, "40 of 41 CNPs from 10.0.0.1")
}

// Messages of nodes with a wrong ICRC or UDP checksum: the receiver of the flow did not write those that name
// the flow, and the source of the others is known.
func TestWrongNotifications(t *testing.T) {
	for _, row := range []struct {
		kind, what string
		set        func(w *flows.WrongAnswers)
	}{
		{"Fast CNP", "ICRC", func(w *flows.WrongAnswers) { w.FastCNPs = 40 }},
		{"PPFC", "ICRC", func(w *flows.WrongAnswers) { w.PPFC = 40 }},
		{"FCN", "UDP checksum", func(w *flows.WrongAnswers) { w.FCN = 40 }},
		{"proxy message", "UDP checksum", func(w *flows.WrongAnswers) { w.Proxy = 40 }},
	} {
		t.Run(row.kind, func(t *testing.T) {
			f := flowOf(2, 26, 100)
			row.set(&f.Wrong)
			*f.Evidence.Sign(flows.SignWrongAnswer) = signOf(40)
			all := explainFlows(f)
			require.Equal(t, []string{"wrong ICRC ?the node that sends these " + row.kind + "s"}, causesOf(all))
			require.Contains(t, all[0].Text, "have a wrong "+row.what)

			u := flows.Unpaired{FlowKey: rocev2.FlowKey{Src: netip.MustParseAddr("10.0.0.9"),
				Dst: netip.MustParseAddr("10.0.0.2")}, WrongAnswer: signOf(40)}
			row.set(&u.Wrong)
			all = triage.Explain(&flows.Snapshot{Unpaired: []flows.Unpaired{u}})
			require.Equal(t, []string{"wrong ICRC 10.0.0.9"}, causesOf(all))
		})
	}
}

// Requests and responses with a wrong ICRC are corrupt; if all are, the sender or a hop rewrites them.
func TestCorruptData(t *testing.T) {
	f := flowOf(2, 26, 100)
	f.Responses.Packets, f.Responses.ICRCWrong = 100, 4
	*f.Evidence.Sign(flows.SignWrongICRC) = signOf(4)
	all := explainFlows(f)
	require.Equal(t, []string{"corrupt ?a link or node before the capture point"}, causesOf(all))
	require.Contains(t, all[0].Text, "4 of 100 packets from 10.0.0.2 had a wrong ICRC (4 %)")
	*f.Evidence.Sign(flows.SignWrongICRC) = signOf(100)
	require.Equal(t, []string{"corrupt ?10.0.0.2"}, causesOf(explainFlows(f)))
}

// NAKs and RNR NAKs without a known flow are explained.
func TestUnmatchedRejections(t *testing.T) {
	u := flows.Unpaired{FlowKey: rocev2.FlowKey{Src: netip.MustParseAddr("10.0.0.1"),
		Dst: netip.MustParseAddr("10.0.0.2"), DestQP: 9}, WithQP: true, Refused: signOf(1), RNR: signOf(2)}
	*u.NAK(bth.NAKRemoteAccess), u.RNRNAKs, u.RNRTimers = 1, 2, 1<<12|1
	all := triage.Explain(&flows.Snapshot{Unpaired: []flows.Unpaired{u}})
	require.Equal(t, []string{"receiver not ready 10.0.0.1", "refused ?the request of 10.0.0.2"}, causesOf(all))
	require.Contains(t, all[0].Text, "The RNR timer in them is 640µs to 655.36ms.")
	require.Contains(t, all[1].Text, "10.0.0.1 rejected 1 request of 10.0.0.2")
}

// timedOut returns a flow with retransmissions after timeouts, the last answer before them, and the
// length of the longest request without an answer.
func timedOut(src byte, qp uint32, answered, open uint32) flows.Flow {
	f := flowOf(src, 26, 100)
	f.DestQP = qp
	f.Causes.Timeout, f.PSN.Retransmitted = 3, 3
	e := f.Evidence
	e.MaxTimeout, e.LargestAnswered, e.LargestOpen = 4*time.Millisecond, answered, open
	*e.Sign(flows.SignAfterTimeout) = spanSign(3, 10*time.Millisecond, 20*time.Millisecond)
	if answered > 0 {
		*e.Sign(flows.SignAnswer) = spanSign(50, 0, 5*time.Millisecond)
	}
	return f
}

// running returns a flow with answers until the end.
func running(src byte, qp uint32, answered uint32) flows.Flow {
	f := flowOf(src, 26, 100)
	f.DestQP = qp
	f.Evidence.LargestAnswered = answered
	*f.Evidence.Sign(flows.SignAnswer) = spanSign(50, 0, 30*time.Millisecond)
	return f
}

// Long packets that get no answer beside short ones that do are a matter of the MTU.
func TestMTU(t *testing.T) {
	const mtu = "MTU ?the MTU of a link between 10.0.0.2 and 10.0.0.1"
	all := explainFlows(timedOut(2, 17, 0, 4156), running(2, 18, 316), running(3, 19, 4156))
	require.Equal(t, []string{mtu}, causesOf(all))
	require.Equal(t, "10.0.0.1", all[0].Suspects[1][len("the queue pair at "):])
	all = explainFlows(timedOut(2, 17, 0, 4156), running(2, 18, 4156))
	require.NotContains(t, causesOf(all), mtu, "long packets between the same hosts are answered")
	all = explainFlows(timedOut(2, 17, 4156, 4156), running(2, 18, 316))
	require.NotContains(t, causesOf(all), mtu, "they were answered before")
}

// All flows of two hosts that become silent together are a path that is down, if others are not.
func TestPathDown(t *testing.T) {
	a, b := timedOut(2, 17, 1000, 1000), timedOut(2, 18, 1000, 1000)
	require.Equal(t, []string{"path down ?the path between 10.0.0.2 and 10.0.0.1"},
		causesOf(explainFlows(a, b, running(3, 19, 1000))))
	require.Equal(t, []string{"timeout ?the path between this capture point and 10.0.0.1"},
		causesOf(explainFlows(a, b)), "no other flow shows that the capture goes on")
	require.NotContains(t, causesOf(explainFlows(a, running(2, 18, 1000))), "path down")
	c, d := timedOut(2, 17, 0, 1000), timedOut(2, 18, 0, 1000)
	require.NotContains(t, causesOf(explainFlows(c, d, running(3, 19, 1000))),
		"path down ?the path between 10.0.0.2 and 10.0.0.1", "their answers do not pass the capture point")
}

// A sender that still sends new requests when its timer expires is never silent.
func TestTimeoutWithoutSilence(t *testing.T) {
	f := timedOut(2, 17, 1000, 1000)
	f.Evidence.MaxTimeout, f.Evidence.MaxWait = 3*time.Microsecond, 2*time.Millisecond
	all := explainFlows(f)
	require.Equal(t, []string{"timeout ?the path between this capture point and 10.0.0.1"}, causesOf(all))
	require.Contains(t, all[0].Text, "2ms")
}

// A pause without end is named; the party is a host, not a router.
func TestEndlessPause(t *testing.T) {
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 1}
	l := flows.Link{Src: mac}
	l.PauseSigns[3] = flows.PauseSign{Sign: spanSign(300, 0, 40*time.Millisecond), Longest: 40 * time.Millisecond}
	l.Priorities[3] = flows.Priority{XOFF: 300, Paused: 40 * time.Millisecond}
	explain := func(f ...flows.Flow) []string {
		return causesOf(triage.Explain(&flows.Snapshot{Links: []flows.Link{l}, Flows: f}))
	}
	require.Equal(t, []string{"endless pause ?" + mac.String()}, explain())
	host, other := flowOf(1, 26, 10), flowOf(5, 26, 10)
	host.SrcMAC = mac
	require.Equal(t, []string{"endless pause " + mac.String()}, explain(host))
	other.SrcMAC = mac
	require.Equal(t, []string{"endless pause ?" + mac.String()}, explain(host, other), "a router")
	l.Priorities[3].XON = 1
	require.Equal(t, []string{"pause storm " + mac.String()}, explain(host))
}

// An incast names the receiver only with evidence about its port.
func TestIncastNeedsEvidenceOfThePort(t *testing.T) {
	of := func(load float64, shift time.Duration) string {
		var all []flows.Flow
		for i := range byte(4) {
			f := flowOf(2+i, 26, 1000)
			f.ECN[rocev2.CE], f.CNPs = 20, 5
			*f.Evidence.Sign(flows.SignCE) = spanSign(20, 0, 10*time.Millisecond)
			f.Evidence.PortLoad = load
			for n := range 6 {
				at := start.Add(time.Duration(n)*2*time.Millisecond + time.Duration(i)*shift)
				f.Evidence.Episodes = append(f.Evidence.Episodes, flows.Episode{Since: at, Until: at})
			}
			all = append(all, f)
		}
		return causesOf(explainFlows(all...))[0]
	}
	require.Equal(t, "incast 10.0.0.1", of(0, 0), "the same moments")
	require.Equal(t, "incast 10.0.0.1", of(0.95, 500*time.Microsecond), "a full port")
	require.Equal(t, "congestion", of(0.06, 500*time.Microsecond), "other moments, a free port")
	require.Equal(t, "incast ?10.0.0.1", of(0.06, 0), "they contradict each other")
}

// A request that is retransmitted a few times without an answer until the end was given up.
func TestGaveUp(t *testing.T) {
	f := timedOut(2, 17, 1000, 1000)
	f.GaveUp = &flows.GaveUp{Frame: 99, Retries: 7}
	all := explainFlows(f, running(3, 19, 1000))
	require.Equal(t, []string{"gave up ?the path to 10.0.0.1"}, causesOf(all))
	require.Equal(t, []string{"a receiver that is down: it answers on other connections"}, all[0].Excluded)
	f.GaveUp.Retries = 2
	require.Equal(t, []string{"timeout ?the path between this capture point and 10.0.0.1"}, causesOf(explainFlows(f)))
}

// Congestion of one sender's paths to many receivers at the same time is one finding.
func TestFanOutIsOneFinding(t *testing.T) {
	var all []flows.Flow
	for i := range byte(50) {
		f := flowOf(2, 26, 60)
		f.Dst = netip.AddrFrom4([4]byte{10, 0, 1, i})
		*f.Evidence.Sign(flows.SignCNP) = signOf(4)
		all = append(all, f)
	}
	verdicts := explainFlows(all...)
	require.Equal(t, []string{"congestion ?a queue near 10.0.0.2"}, causesOf(verdicts))
	require.Equal(t, 50, verdicts[0].Joined)
	require.Len(t, verdicts[0].Flows, 50)
}

// Losses of several senders to one receiver and their timeouts are one finding.
func TestLossesAndTimeoutsAreOneFinding(t *testing.T) {
	lossy := flowOf(3, 26, 100)
	lossy.PSN.Lost, lossy.Causes.NAK = 5, 5
	*lossy.Evidence.Sign(flows.SignNAK) = signOf(5)
	*lossy.Evidence.Sign(flows.SignAnswer) = signOf(50)
	all := explainFlows(timedOut(2, 17, 1000, 1000), lossy)
	require.Equal(t, []string{"loss"}, causesOf(all))
	require.Equal(t, 2, all[0].Joined)
	require.Contains(t, all[0].Text, "The retransmission timers of 1 sender expired as well.")
}

// The burst after a pause belongs to the pause storm of the device that the flows go to.
func TestBurstAfterPause(t *testing.T) {
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 1}
	l := flows.Link{Src: mac}
	l.PauseSigns[3] = flows.PauseSign{Sign: spanSign(20, 0, 10*time.Millisecond), Longest: time.Millisecond}
	l.Priorities[3] = flows.Priority{XOFF: 20, XON: 20, Paused: 8 * time.Millisecond}
	explain := func(to net.HardwareAddr) []triage.Verdict {
		var all []flows.Flow
		for i := range byte(4) {
			f := flowOf(2+i, 26, 1000)
			f.DstMAC, f.ECN[rocev2.CE], f.CNPs, f.Evidence.PortLoad = to, 20, 5, 0.95
			*f.Evidence.Sign(flows.SignCE) = spanSign(20, 2*time.Millisecond, 8*time.Millisecond)
			all = append(all, f)
		}
		return triage.Explain(&flows.Snapshot{Flows: all, Links: []flows.Link{l}})
	}
	all := explain(mac)
	require.Equal(t, []string{"pause storm ?" + mac.String()}, causesOf(all))
	require.Len(t, all[0].Flows, 4)
	require.Contains(t, all[0].Text, "congested the path of 4 flows")
	require.Len(t, explain(net.HardwareAddr{2, 0, 0, 0, 0, 7}), 2, "flows to another device")
}
