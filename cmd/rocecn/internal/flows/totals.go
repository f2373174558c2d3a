package flows

import (
	"github.com/rocecn/rocecn/cmd/rocecn/internal/prometheus"
	"github.com/rocecn/rocecn/flows"
)

// totals are the sums over all flows of a table, including evicted ones. These counters never decrease.
type totals struct {
	flows, trouble uint64 // that the table holds; of these, those in trouble
	evicted        uint64
	packets        uint64
	ipOctets       uint64
	ecn            [4]uint64
	data           flows.Data // without rates
	causes         flows.Retransmissions
	trimmed        uint64
	discarded      uint64 // packets, as switches report
	responsePSN    flows.ResponsePSN
	answers        answerSums

	// Of the flows that the table holds. They fall, too: when a hole is filled, and
	// when a flow is given up.
	late, unseen, lost, unjudged uint64

	priorities map[string]flows.Priority // of all sources
}

// answerSums are flows.Answers, which a program cannot add up.
type answerSums struct {
	acks, rnr uint64
	naks      [5]uint64
	notices   [5]uint64 // by noticeNames
	wrong     [8]uint64 // by wrongNames
}

var noticeNames = [5]string{"cnp", "fast_cnp", "ppfc", "fcn", "proxy"}

// wrongNames are the values of the label kind of answers with a wrong ICRC: the keys of flows.WrongAnswers.
var wrongNames = [8]string{"acks", "naks", "rnr_naks", "cnps", "fast", "ppfc", "fcn", "proxy"}

func countNotices(a *flows.Answers) [5]uint64 {
	return [5]uint64{a.CNPs, a.FastCNPs, a.PPFC, a.FCN, a.Proxy}
}

func (s *answerSums) add(a *flows.Answers) {
	s.acks += a.ACKs
	s.rnr += a.RNRNAKs
	for i, n := range a.NAKs() {
		s.naks[i] += n
	}
	for i, n := range countNotices(a) {
		s.notices[i] += n
	}
	w := &a.Wrong
	for i, n := range [...]uint64{w.ACKs, w.NAKs, w.RNRNAKs, w.CNPs, w.FastCNPs, w.PPFC, w.FCN, w.Proxy} {
		s.wrong[i] += n
	}
}

// totalsOf adds up a snapshot.
func totalsOf(s *flows.Snapshot) *totals {
	e := &s.Evicted
	t := &totals{flows: uint64(len(s.Flows)), evicted: e.Flows, packets: e.Packets, ipOctets: e.IPOctets,
		ecn: e.ECN, data: e.Data, causes: e.Causes, trimmed: e.Trimmed, responsePSN: e.ResponsePSN,
		priorities: map[string]flows.Priority{}}
	t.answers.add(&e.Answers)
	for i := range s.Flows {
		f := &s.Flows[i]
		if f.Trouble() > 0 {
			t.trouble++
		}
		t.packets += f.Packets
		t.ipOctets += f.IPOctets
		t.data.Packets += f.Data.Packets
		t.data.IPOctets += f.Data.IPOctets
		t.data.CE += f.Data.CE
		for i, n := range f.ECN {
			t.ecn[i] += n
		}
		c := &f.Causes
		t.causes.NAK += c.NAK
		t.causes.RNR += c.RNR
		t.causes.Read += c.Read
		t.causes.Timeout += c.Timeout
		t.causes.Spurious += c.Spurious
		t.trimmed += f.Trimmed
		p := &f.Responses.PSN
		t.responsePSN.Gaps += p.Gaps
		t.responsePSN.Missing += p.Missing
		t.responsePSN.Late += p.Late
		t.responsePSN.Retransmitted += p.Retransmitted
		t.answers.add(&f.Answers)
		t.late += f.PSN.Late
		t.unseen += f.PSN.Unseen
		t.lost += f.PSN.Lost
		t.unjudged += f.PSN.Unjudged
	}
	for _, n := range s.Capture.Discarded {
		t.discarded += n
	}
	for i := range s.Unpaired {
		t.answers.add(&s.Unpaired[i].Answers)
	}
	for i := range s.Links {
		for name, p := range eachPriority(&s.Links[i]) {
			sum := t.priorities[name]
			t.priorities[name] = flows.Priority{XOFF: sum.XOFF + p.XOFF, XON: sum.XON + p.XON,
				Paused: sum.Paused + p.Paused}
		}
	}
	return t
}

// priorityNames are the values of the label priority: those of PFC, and all of PAUSE.
var priorityNames = [9]string{"0", "1", "2", "3", "4", "5", "6", "7", "all"}

// appendTotals appends the metrics of -listen: sums, so that the number of series is constant.
func appendTotals(b []byte, s *flows.Snapshot, dropped uint64) []byte {
	text := prometheus.Text{Octets: b}
	one := func(name, help string, n uint64) {
		text.Family("rocecn_capture_"+name, help)
		text.Sample(float64(n))
	}
	many := func(name, help, label string, values []string, of func(i int) float64) {
		text.Family("rocecn_capture_"+name, help)
		for i, value := range values {
			text.Sample(of(i), label, value)
		}
	}
	counts := func(all []uint64) func(i int) float64 { return func(i int) float64 { return float64(all[i]) } }
	t := totalsOf(s)
	one("packets_total", "Packets read, of any kind.", s.Stats.Packets)
	one("other_packets_total", "Of these, neither RoCEv2 nor about congestion.", s.Stats.Others)
	one("broken_packets_total", "Packets of RoCEv2 or about congestion that do not parse.", s.Stats.Broken)
	one("cut_packets_total", "Packets truncated by the snapshot length before the end of the headers.",
		s.Stats.Truncated)
	one("dropped_packets_total", "Packets that came too fast, and were not read.", dropped)
	one("flows", "Flows that are held.", t.flows)
	one("flows_in_trouble", "Of these, those in trouble since they began.", t.trouble)
	one("evicted_flows_total", "Flows that made room for others.", t.evicted)
	one("unlearned_packets_total", "Packets that were not used to learn queue pairs because the tables were full.",
		s.Stats.Unlearned)
	one("requests_total", "Requests, repeats included.", t.packets)
	one("ip_bytes_total", "Octets of requests, by the length fields of IP.", t.ipOctets)
	many("ecn_requests_total", "Requests by ECN field.", "ecn", ecnNames[:], counts(t.ecn[:]))
	one("data_packets_total", "Requests and responses, repeats included.", t.data.Packets)
	one("data_bytes_total", "Octets of requests and responses, by the length fields of IP.", t.data.IPOctets)
	one("data_ce_total", "Requests and responses that came with CE.", t.data.CE)
	c := &t.causes
	many("repeats_total", "Retransmitted requests, by cause.", "cause",
		[]string{"nak", "rnr", "read", "timeout"}, counts([]uint64{c.NAK, c.RNR, c.Read, c.Timeout}))
	one("spurious_repeats", "Those after a timeout of requests that were answered as often as they were sent. It "+
		"falls when such a request is retransmitted again.", c.Spurious)
	one("trimmed_packets_total", "Packets that a switch trimmed instead of dropping them.", t.trimmed)
	one("discarded_packets_total", "Packets that switches discarded, as they report by sFlow.", t.discarded)
	p := &t.responsePSN
	one("response_gaps_total", "Gaps in the PSNs of responses.", p.Gaps)
	one("response_missing_total", "Skipped PSNs of responses, including those that filled a gap later.", p.Missing)
	one("response_late_total", "Responses that filled a gap later.", p.Late)
	one("response_repeats_total", "Retransmitted responses.", p.Retransmitted)
	many("gaps", "Requests not captured in the flows that are held, by fate.", "fate",
		[]string{"late", "unseen", "lost", "unjudged"}, counts([]uint64{t.late, t.unseen, t.lost, t.unjudged}))
	one("acks_total", "Acknowledgements.", t.answers.acks)
	many("naks_total", "NAKs by code.", "code", nakNames[:], counts(t.answers.naks[:]))
	one("rnr_naks_total", "RNR NAKs.", t.answers.rnr)
	many("wrong_answers_total", "Answers with a wrong ICRC or UDP checksum, which are not counted as answers.", "kind",
		wrongNames[:], counts(t.answers.wrong[:]))
	many("notifications_total", "Notifications of congestion, about flows that are known and others.", "kind",
		noticeNames[:], counts(t.answers.notices[:]))
	ofPriorities := func(name, help string, of func(p flows.Priority) float64) {
		many(name, help, "priority", priorityNames[:],
			func(i int) float64 { return of(t.priorities[priorityNames[i]]) })
	}
	ofPriorities("pfc_xoff_total", "PFC and PAUSE frames that pause, of all sources.",
		func(p flows.Priority) float64 { return float64(p.XOFF) })
	ofPriorities("pfc_xon_total", "PFC and PAUSE frames that let go on, of all sources.",
		func(p flows.Priority) float64 { return float64(p.XON) })
	ofPriorities("paused_seconds_total", "Time that they paused, added up over all sources.",
		func(p flows.Priority) float64 { return p.Paused.Seconds() })
	one("pfc_sources_refused_total", "PFC and PAUSE frames of sources beyond the maximum.", s.Stats.DroppedPFC)
	return text.Octets
}
