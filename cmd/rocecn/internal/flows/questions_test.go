package flows

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/flows"
	"github.com/rocecn/rocecn/flows/triage"
	"github.com/rocecn/rocecn/rocev2"
)

// asked is a flow between two hosts, modified by a test.
func asked(set func(f *flows.Flow)) flows.Flow {
	f := flows.Flow{Sequenced: true, FlowKey: rocev2.FlowKey{Src: netip.MustParseAddr("10.0.0.1"),
		Dst: netip.MustParseAddr("10.0.0.2"), DestQP: 18}, Requests: flows.Requests{Packets: 200}}
	set(&f)
	f.Data = flows.Data{Packets: f.Packets, CE: f.ECN[rocev2.CE]}
	return f
}

// Each question is answered from the capture, or the answer is that it cannot be.
func TestQuestions(t *testing.T) {
	const loss, congestion, cnps, pauses, queues, points = 0, 1, 2, 3, 4, 5
	link := func(p flows.Priority) []flows.Link {
		return []flows.Link{{Src: []byte{2, 0, 0, 0, 0, 1}, Priorities: [8]flows.Priority{3: p}, Rate: 25e9}}
	}
	ecn := func(ect, ce uint64) [4]uint64 { return [4]uint64{rocev2.ECT0: ect, rocev2.CE: ce} }
	const name = "10.0.0.1 → 10.0.0.2 QP 0x000012"
	for _, c := range []struct {
		asked          int
		set            func(f *flows.Flow)
		links          []flows.Link
		unpaired       uint64 // CNPs
		answer, detail string
		level          level
	}{
		{loss, func(f *flows.Flow) {}, nil, 0, "Nothing is missing", "", good},
		{loss, func(f *flows.Flow) { f.Sequenced = false }, nil, 0,
			"Not to be said: no flow has PSNs that follow one another", "", unknown},
		{loss, func(f *flows.Flow) { f.PSN.Unseen = 3 }, nil, 0, "The capture: 3 packets not in it arrived", "",
			notable},
		{loss, func(f *flows.Flow) { f.PSN.Unjudged = 1 }, nil, 0, "1 packet lost, or not captured", "", bad},
		{loss, func(f *flows.Flow) {
			f.PSN = flows.PSN{Lost: 2, Unjudged: 3, Unseen: 4, Late: 5, Retransmitted: 6}
			f.Causes = flows.Retransmissions{NAK: 1, RNR: 2, Timeout: 3}
		}, nil, 0, "2 packets lost", "3 lost or not captured, 4 not captured, as they were acknowledged, " +
			"5 out of order; " +
			"retransmitted 1 after NAKs, 2 after RNR NAKs, 3 after a timeout", bad},
		{loss, func(f *flows.Flow) { f.PSN.Late = 7 }, nil, 0, "Nothing is missing", "7 out of order", good},
		{loss, func(f *flows.Flow) { f.PSN.Retransmitted, f.Causes.RNR = 1, 1 }, nil, 0, "Nothing is missing",
			"retransmitted 1 after RNR NAKs", notable},
		{congestion, func(f *flows.Flow) { f.ECN[rocev2.NotECT] = 200 }, nil, 0,
			"Not to be said: no packet can be marked",
			"all of them are sent as not ECN-capable", unknown},
		{congestion, func(f *flows.Flow) { f.ECN = ecn(200, 0) }, nil, 0, "None: no packet is marked", "", good},
		{congestion, func(f *flows.Flow) { f.ECN = ecn(199, 1) }, nil, 0, "The way to 10.0.0.2",
			"0.5% of " + name + " are marked; in all 1 CE in 1 flow", bad},
		{cnps, func(f *flows.Flow) {}, nil, 0, "None is needed: there is no CE and no CNP", "", good},
		{cnps, func(f *flows.Flow) { f.ECN = ecn(199, 1) }, nil, 0, "No CNP in the capture",
			"1 flow with CE: no CNP was sent, or it was not captured", bad},
		{cnps, func(f *flows.Flow) { f.ECN = ecn(199, 1) }, nil, 2, "Not for 1 of 1 flow with CE",
			"2 CNPs in all; 2 of flows that are not known", notable},
		{cnps, func(f *flows.Flow) { f.ECN, f.CNPs = ecn(199, 1), 1 }, nil, 0, "1 CNP", "", notable},
		{pauses, func(f *flows.Flow) {}, nil, 0, "Not seen here",
			"no PFC or PAUSE frame in the capture: they stay on their link, capture there", unknown},
		{pauses, func(f *flows.Flow) {}, link(flows.Priority{XOFF: 2, Paused: time.Millisecond}), 0,
			"Yes: priority 3 for 1ms", "by 02:00:00:00:00:01, 2 XOFFs", bad},
		{pauses, func(f *flows.Flow) {}, link(flows.Priority{XON: 2}), 0,
			"No: such frames, but they pause nothing", "", good},
		{queues, func(f *flows.Flow) {}, nil, 0, "Not known", "no IOAM trace with a depth in the capture", unknown},
		{queues, func(f *flows.Flow) { f.Queue = flows.QueueDepth{Node: 7, Known: true} }, nil, 0,
			"None: all are empty", "", good},
		{queues, func(f *flows.Flow) { f.Queue = flows.QueueDepth{Node: 7, Depth: 9, Known: true} }, nil, 0,
			"That of node 7", "it was 9 deep", notable},
		{points, func(f *flows.Flow) {}, nil, 0, "This is one point", "rocecn flows -compare a.pcap B", unknown},
	} {
		s := &flows.Snapshot{Flows: []flows.Flow{asked(c.set)}, Links: c.links}
		if c.unpaired > 0 {
			s.Unpaired = []flows.Unpaired{{Answers: flows.Answers{CNPs: c.unpaired}}}
		}
		q := answerQuestions(s, nil, func(rocev2.FlowKey) *flows.Series { return nil }, []string{"a.pcap"})[c.asked]
		require.Equal(t, []string{c.answer, c.detail, string(c.level)}, []string{q.Answer, q.Detail, string(q.Level)})
	}
	q := answerQuestions(&flows.Snapshot{}, nil, nil, []string{"a.pcap", "b.pcap"})
	require.Equal(t, []level{unknown, unknown, unknown, unknown, unknown, unknown},
		[]level{q[0].Level, q[1].Level, q[2].Level, q[3].Level, q[4].Level, q[5].Level})
	require.Equal(t, "rocecn flows -compare A B", q[points].Detail)
}

// Each answer opens the flow with the largest number of packets, marks or messages that it is about.
func TestFlowOfAnswer(t *testing.T) {
	const loss, congestion, cnps, queues = 0, 1, 2, 4
	type change = func(f *flows.Flow)
	marked := func(ce uint64) change {
		return func(f *flows.Flow) { f.ECN = [4]uint64{rocev2.ECT0: f.Packets - ce, rocev2.CE: ce} }
	}
	for _, row := range []struct {
		name   string
		asked  int
		flows  []change
		opened uint32 // 0: none
	}{
		{"nothing lost", loss, []change{marked(0)}, 0},
		{"lost requests", loss, []change{func(f *flows.Flow) { f.PSN.Lost = 2 }, func(f *flows.Flow) { f.PSN.Lost = 3 },
			func(f *flows.Flow) { f.PSN.Late = 9 }}, 2},
		{"lost responses", loss, []change{func(f *flows.Flow) { f.PSN.Lost = 2 },
			func(f *flows.Flow) { f.PSN.Unjudged, f.Responses.PSN.Missing = 1, 2 }}, 2},
		{"retransmitted", loss, []change{func(f *flows.Flow) { f.PSN.Retransmitted = 4 },
			func(f *flows.Flow) { f.PSN.Retransmitted = 3 }}, 1},
		{"marked", congestion, []change{marked(7), marked(8), marked(6)}, 2},
		{"CNPs", cnps, []change{func(f *flows.Flow) { f.CNPs = 4 }, func(f *flows.Flow) { f.CNPs = 5 }}, 2},
		{"Fast CNPs", cnps, []change{func(f *flows.Flow) { f.CNPs = 4 },
			func(f *flows.Flow) { f.CNPs, f.FastCNPs = 3, 2 }, func(f *flows.Flow) { f.FastCNPs = 3 }}, 2},
		{"marked without CNPs", cnps, []change{marked(7), marked(8), marked(6)}, 2},
		{"neither", cnps, []change{marked(0)}, 0},
		{"queues", queues, []change{func(f *flows.Flow) { f.Queue = flows.QueueDepth{Node: 7, Depth: 9, Known: true} },
			func(f *flows.Flow) { f.Queue = flows.QueueDepth{Node: 8, Depth: 10, Known: true} }}, 2},
	} {
		t.Run(row.name, func(t *testing.T) {
			var s flows.Snapshot
			for i, set := range row.flows {
				s.Flows = append(s.Flows, asked(func(f *flows.Flow) {
					f.DestQP = uint32(i + 1)
					set(f)
				}))
			}
			q := answerQuestions(&s, nil, func(rocev2.FlowKey) *flows.Series { return nil }, nil)[row.asked]
			var opened uint32
			if q.Flow != nil {
				opened = q.Flow.DestQP
			}
			require.Equal(t, row.opened, opened)
		})
	}
}

// The answers agree with the findings: congestion that only CNPs show is congestion.
func TestQuestionsAgreeWithFindings(t *testing.T) {
	f := asked(func(f *flows.Flow) { f.ECN, f.CNPs = [4]uint64{rocev2.ECT0: 200}, 30 })
	s := &flows.Snapshot{Flows: []flows.Flow{f}}
	all := answerQuestions(s, []triage.Verdict{
		{Cause: triage.CauseCongested, Text: "The path to 10.0.0.2 was congested.", Flows: []rocev2.FlowKey{f.FlowKey}},
		{Cause: triage.CauseCNPUnheeded, Suspects: []string{"10.0.0.1", "the path"}, Text: "It did not slow down."},
	}, func(rocev2.FlowKey) *flows.Series { return nil }, nil)
	require.Equal(t, "congestion", all[1].Answer)
	require.Contains(t, all[1].Detail, "The path to 10.0.0.2 was congested.")
	require.Equal(t, notable, all[1].Level)
	require.Equal(t, f.FlowKey, all[1].Flow.FlowKey)
	require.Equal(t, "CNP unheeded: either 10.0.0.1 or the path", all[2].Answer)
	require.Equal(t, bad, all[2].Level)
	require.Equal(t, "Nothing is missing", all[0].Answer, "no finding is about loss")
	for _, c := range []triage.Cause{triage.CauseCorrupt, triage.CauseRetransmitted} {
		all = answerQuestions(s, []triage.Verdict{{Cause: c, Text: "It was so."}},
			func(rocev2.FlowKey) *flows.Series { return nil }, nil)
		require.Equal(t, c.String(), all[0].Answer)
	}
}

// The rates before and after the first CNP, if there is time for both.
func TestSlowed(t *testing.T) {
	series := func(at time.Duration) *flows.Series {
		s := &flows.Series{Start: time.Unix(1, 0)}
		for i := range time.Duration(10) {
			octets := uint64(1000)
			if i >= 4 {
				octets = 500
			}
			s.Bins = append(s.Bins, flows.Bin{From: i * time.Millisecond, To: (i + 1) * time.Millisecond,
				Tally: flows.Tally{IPOctets: octets}})
		}
		s.Marks = []flows.Mark{{Kind: flows.MarkGap, Time: s.Start}, {Kind: flows.MarkCNP, Time: s.Start.Add(at)}}
		return s
	}
	before, after, ok := ratesAroundCNP(series(4 * time.Millisecond))
	require.True(t, ok)
	require.EqualValues(t, []float64{8e6, 4e6}, []float64{before, after})
	_, _, ok = ratesAroundCNP(series(0))
	require.False(t, ok, "nothing is before it")
	_, _, ok = ratesAroundCNP(series(10 * time.Millisecond))
	require.False(t, ok, "no series after it")
	_, _, ok = ratesAroundCNP(&flows.Series{})
	require.False(t, ok)
	_, _, ok = ratesAroundCNP(nil)
	require.False(t, ok)
}

// Above all findings stands how bad it is, and nothing is called good of which nothing was seen.
func TestHeadline(t *testing.T) {
	quiet, lossy := asked(func(*flows.Flow) {}), asked(func(f *flows.Flow) { f.PSN.Retransmitted = 3 })
	for _, row := range []struct {
		name     string
		flows    []flows.Flow
		verdicts int
	}{
		{"bad: 1 of 2 flows has something to look into", []flows.Flow{quiet, lossy}, 0},
		{"bad: 2 findings; 1 of 1 flow has something to look into", []flows.Flow{lossy}, 2},
		{"notable: 1 finding; no flow is in trouble", []flows.Flow{quiet}, 1},
		{"notable: 2 findings; no flow is in trouble", nil, 2},
		{"good: Nothing is in trouble", []flows.Flow{quiet}, 0},
		{"unknown: No flow of RoCEv2 here", nil, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := flows.Snapshot{Flows: row.flows}
			trouble := 0
			for i := range s.Flows {
				if s.Flows[i].Trouble() > 0 {
					trouble++
				}
			}
			level, sentence, _ := headline(&s, trouble, row.verdicts)
			require.Equal(t, row.name, string(level)+": "+sentence)
		})
	}
}
