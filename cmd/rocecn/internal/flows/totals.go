package flows

import (
	"github.com/rocecn/rocecn/cmd/rocecn/internal/prometheus"
	"github.com/rocecn/rocecn/flows"
)

// totals are the sums over all flows of a table, including evicted ones.
type totals struct {
	trouble uint64 // flows in trouble
	// metrics are the sums of the metrics that are counts, by name. Those of packets, ip_octets, ecn, data, trimmed,
	// responses.psn, repeats_by and answers include evicted flows and unmatched answers. They never decrease, except
	// repeats_by.spurious. All others are of the flows that are held.
	metrics    map[string]uint64
	wrong      [len(wrongNames)]uint64
	priorities map[string]flows.Priority // of all sources
}

// wrongNames are the values of the label kind of answers with a wrong ICRC: the keys of flows.WrongAnswers.
var wrongNames = [8]string{"acks", "naks", "rnr_naks", "cnps", "fast", "ppfc", "fcn", "proxy"}

// totalsOf adds up a snapshot.
func totalsOf(s *flows.Snapshot) *totals {
	t := &totals{metrics: map[string]uint64{}, priorities: map[string]flows.Priority{}}
	sums := make([]uint64, len(metrics))
	add := func(f *flows.Flow) {
		for i := range metrics {
			if count := metrics[i].count; count != nil {
				sums[i] += count(f)
			}
		}
		w := &f.Wrong
		for i, n := range [...]uint64{w.ACKs, w.NAKs, w.RNRNAKs, w.CNPs, w.FastCNPs, w.PPFC, w.FCN, w.Proxy} {
			t.wrong[i] += n
		}
	}
	e := &s.Evicted
	add(&flows.Flow{
		Requests:  flows.Requests{Packets: e.Packets, IPOctets: e.IPOctets, ECN: e.ECN, Trimmed: e.Trimmed},
		Responses: flows.Responses{PSN: e.ResponsePSN}, Data: e.Data, Sequenced: true, Causes: e.Causes,
		Answers: e.Answers,
	})
	for i := range s.Flows {
		if add(&s.Flows[i]); s.Flows[i].Trouble() > 0 {
			t.trouble++
		}
	}
	for i := range s.Unpaired {
		add(&flows.Flow{Answers: s.Unpaired[i].Answers})
	}
	for i, m := range metrics {
		if m.count != nil {
			t.metrics[m.name] = sums[i]
		}
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

// noticeMetrics are the metrics that count notifications.
var noticeMetrics = [5]string{"cnps.receiver", "cnps.fast", "ppfc", "fcn", "proxy"}

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
	t := totalsOf(s)
	sum := func(name, help, metric string) { one(name, help, t.metrics[metric]) }
	sums := func(name, help, label, prefix string, values ...string) {
		many(name, help, label, values, func(i int) float64 { return float64(t.metrics[prefix+values[i]]) })
	}
	one("packets_total", "Packets read, of any kind.", s.Stats.Packets)
	one("other_packets_total", "Of these, neither RoCEv2 nor about congestion.", s.Stats.Others)
	one("broken_packets_total", "Packets of RoCEv2 or about congestion that do not parse.", s.Stats.Broken)
	one("cut_packets_total", "Packets truncated by the snapshot length before the end of the headers.",
		s.Stats.Truncated)
	one("dropped_packets_total", "Packets that came too fast, and were not read.", dropped)
	one("flows", "Flows that are held.", uint64(len(s.Flows)))
	one("flows_in_trouble", "Of these, those in trouble since they began.", t.trouble)
	one("evicted_flows_total", "Flows that made room for others.", s.Evicted.Flows)
	one("unlearned_packets_total", "Packets that were not used to learn queue pairs because the tables were full.",
		s.Stats.Unlearned)
	sum("requests_total", "Requests, repeats included.", "packets")
	sum("ip_bytes_total", "Octets of requests, by the length fields of IP.", "ip_octets")
	sums("ecn_requests_total", "Requests by ECN field.", "ecn", "ecn.", ecnNames[:]...)
	sum("data_packets_total", "Requests and responses, repeats included.", "data.packets")
	sum("data_bytes_total", "Octets of requests and responses, by the length fields of IP.", "data.ip_octets")
	sum("data_ce_total", "Requests and responses that came with CE.", "data.ce")
	sums("repeats_total", "Retransmitted requests, by cause.", "cause", "repeats_by.", "nak", "rnr", "read", "timeout")
	sum("spurious_repeats", "Those after a timeout of requests that were answered as often as they were sent. It "+
		"falls when such a request is retransmitted again.", "repeats_by.spurious")
	sum("trimmed_packets_total", "Packets that a switch trimmed instead of dropping them.", "trimmed")
	discarded := uint64(0)
	for _, n := range s.Capture.Discarded {
		discarded += n
	}
	one("discarded_packets_total", "Packets that switches discarded, as they report by sFlow.", discarded)
	sum("response_gaps_total", "Gaps in the PSNs of responses.", "responses.psn.gaps")
	sum("response_missing_total", "Skipped PSNs of responses, including those that filled a gap later.",
		"responses.psn.missing")
	sum("response_late_total", "Responses that filled a gap later.", "responses.psn.late")
	sum("response_repeats_total", "Retransmitted responses.", "responses.psn.repeats")
	sums("gaps", "Requests not captured in the flows that are held, by fate.", "fate", "psn.", "late", "unseen", "lost",
		"unjudged")
	sum("acks_total", "Acknowledgements.", "acks")
	sums("naks_total", "NAKs by code.", "code", "naks.", nakNames[:]...)
	sum("rnr_naks_total", "RNR NAKs.", "rnr_naks")
	many("wrong_answers_total", "Answers with a wrong ICRC or UDP checksum, which are not counted as answers.", "kind",
		wrongNames[:], func(i int) float64 { return float64(t.wrong[i]) })
	many("notifications_total", "Notifications of congestion, about flows that are known and others.", "kind",
		[]string{"cnp", "fast_cnp", "ppfc", "fcn", "proxy"}, func(i int) float64 {
			return float64(t.metrics[noticeMetrics[i]])
		})
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
