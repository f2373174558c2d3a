package flows

import (
	"fmt"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/prometheus"
	"github.com/rocecn/rocecn/flows"
	"github.com/rocecn/rocecn/flows/triage"
)

// A family is a metric of Prometheus: counters end in _total, units are seconds
// and bytes.
type family struct {
	name, help string
	samples    samples
}

// samples adds the samples of a family for a flow.
type samples = func(f *flows.Flow, add func(value float64, labels ...string))

// In all families, a flow is identified by its key, so that series remain the same when more becomes known of the flow.
// Other labels are in info.
var families = []family{
	{"info", "Further labels of the flow.", func(f *flows.Flow, add func(float64, ...string)) {
		labels := []string{"transport", f.Transport.String()}
		if f.SrcQPFrom != 0 {
			labels = append(labels, "src_qp", fmt.Sprint(f.SrcQP), "src_qp_from", f.SrcQPFrom.String())
		}
		add(1, labels...)
	}},
	{"packets_total", "Captured requests, including retransmissions.", numberSamples("packets")},
	{"ip_bytes_total", "Octets of IP packets, by their length fields.", numberSamples("ip_octets")},
	{"payload_bytes_total", "Octets of payload, without pad.", numberSamples("payload_octets")},
	{"ecn_packets_total", "Requests by ECN field.", labelledSamples("ecn", "ecn.", ecnNames[:]...)},
	{"responses_total", "READ responses and ATOMIC Acknowledges.", numberSamples("responses.packets")},
	{"responses_missing_total", "Skipped PSNs of responses.", numberSamples("responses.psn.missing")},
	{"responses_repeats_total", "Retransmitted responses.", numberSamples("responses.psn.repeats")},
	{"data_packets_total", "Requests and responses.", numberSamples("data.packets")},
	{"data_bytes_total", "Octets of IP packets of requests and responses.", numberSamples("data.ip_octets")},
	{"data_ce_total", "Requests and responses that came with CE.", numberSamples("data.ce")},
	{"messages_begun_total", "Messages with a captured first packet.",
		operationSamples(func(m flows.Messages) uint64 { return m.Begun })},
	{"messages_complete_total", "Messages with a captured last packet.",
		operationSamples(func(m flows.Messages) uint64 { return m.Complete })},
	{"lives_total", "Connections of the flow.", numberSamples("lives")},
	{"gaps_total", "Gaps in the PSNs.", numberSamples("psn.gaps")},
	{"missing_packets_total", "Skipped PSNs.", numberSamples("psn.missing")},
	{"late_packets_total", "Requests that filled a gap later.", numberSamples("psn.late")},
	{"repeats_total", "Retransmitted requests, by cause.",
		labelledSamples("cause", "repeats_by.", "nak", "rnr", "read", "timeout")},
	{"spurious_repeats_total", "Those after a timeout of requests that were answered as often as they were sent.",
		numberSamples("repeats_by.spurious")},
	{"missing_packets", "PSNs that never arrived, by fate.",
		labelledSamples("fate", "psn.", "unseen", "lost", "unjudged")},
	{"acks_total", "Acknowledgements.", numberSamples("acks")},
	{"naks_total", "NAKs by code.", labelledSamples("code", "naks.", nakNames[:]...)},
	{"rnr_naks_total", "RNR NAKs.", numberSamples("rnr_naks")},
	{"cnps_total", "CNPs, of the receiver and with a Fast CNP option.", labelledSamples("kind", "cnps.", "receiver",
		"fast")},
	{"ppfc_total", "PPFC messages.", numberSamples("ppfc")},
	{"fcn_total", "FCN messages.", numberSamples("fcn")},
	{"proxy_messages_total", "Messages to a proxy.", numberSamples("proxy")},
	{"rtt_seconds", "Round trip time as seen at the capture point.",
		quantileSamples(func(f *flows.Flow) *flows.Histogram { return f.RTT })},
	{"cnp_after_ce_seconds", "From the first CE to the CNP.",
		quantileSamples(func(f *flows.Flow) *flows.Histogram { return f.AfterCE })},
	{"worst_queue_depth", "The deepest queue in an IOAM trace, in the unit of the node.",
		numberSamples("worst_queue.depth")},
	{"worst_queue_info", "The node that has this queue.", func(f *flows.Flow, add func(float64, ...string)) {
		if f.Queue.Known {
			add(1, "node", fmt.Sprint(f.Queue.Node))
		}
	}},
	{"icrc_wrong_total", "Requests with a wrong ICRC.", numberSamples("icrc_wrong")},
	{"wrong_answers_total", "Answers with a wrong ICRC or UDP checksum, which are not counted as answers.",
		numberSamples("answers_icrc_wrong")},
	{"truncated_packets_total", "Requests that the capture truncated.", numberSamples("truncated")},
	{"trimmed_packets_total", "Packets that a switch trimmed instead of dropping them.", numberSamples("trimmed")},
	{"discarded_packets_total", "Packets that switches discarded, as they report by sFlow.",
		numberSamples("discarded")},
	{"last_seen_timestamp_seconds", "When the last packet was captured.",
		func(f *flows.Flow, add func(float64, ...string)) {
			add(float64(f.Last.UnixNano()) / float64(time.Second))
		}},
}

// numberSamples is one of the metrics.
func numberSamples(name string) samples {
	m := mustMetric(name)
	return func(f *flows.Flow, add func(float64, ...string)) {
		if n, ok := m.of(f); ok {
			add(n)
		}
	}
}

// labelledSamples are metrics with a common prefix of their names and the value of a label as the end.
func labelledSamples(label, prefix string, values ...string) samples {
	all := make([]samples, len(values))
	for i, value := range values {
		all[i] = numberSamples(prefix + value)
	}
	return func(f *flows.Flow, add func(float64, ...string)) {
		for i, value := range values {
			all[i](f, func(n float64, _ ...string) { add(n, label, value) })
		}
	}
}

// operationSamples are counts of messages, of the kinds that there were.
func operationSamples(of func(m flows.Messages) uint64) samples {
	return func(f *flows.Flow, add func(float64, ...string)) {
		for kind, m := range f.Messages() {
			if n := of(m); n > 0 {
				add(float64(n), "operation", kind.String())
			}
		}
	}
}

func quantileSamples(of func(f *flows.Flow) *flows.Histogram) func(*flows.Flow, func(float64, ...string)) {
	return func(f *flows.Flow, add func(float64, ...string)) {
		if h := of(f); h.Count() > 0 {
			add(h.Percentile(0.5).Seconds(), "quantile", "0.5")
			add(h.Percentile(0.99).Seconds(), "quantile", "0.99")
		}
	}
}

// appendPrometheus appends a snapshot in the text format of Prometheus.
func appendPrometheus(b []byte, s *flows.Snapshot) []byte {
	text := prometheus.Text{Octets: b}
	for _, family := range families {
		text.Family("rocecn_flow_"+family.name, family.help)
		for i := range s.Flows {
			f := &s.Flows[i]
			key := []string{"src", f.Src.String(), "dst", f.Dst.String(), "dest_qp", fmt.Sprint(f.DestQP)}
			family.samples(f, func(value float64, labels ...string) { text.Sample(value, append(key, labels...)...) })
		}
	}
	text.Family("rocecn_unpaired_total", "Packets that are about no flow that is known.")
	for i := range s.Unpaired {
		u := &s.Unpaired[i]
		key := []string{"src", u.Src.String(), "dst", u.Dst.String()}
		if u.WithQP {
			key = append(key, "dest_qp", fmt.Sprint(u.DestQP))
		}
		for _, c := range []struct {
			kind string
			n    uint64
		}{{"ack", u.ACKs}, {"nak", countNAKs(&u.Answers)}, {"rnr_nak", u.RNRNAKs}, {"cnp", u.CNPs}, {"fast_cnp",
			u.FastCNPs},
			{"ppfc", u.PPFC}, {"fcn", u.FCN}, {"proxy", u.Proxy}, {"icrc_wrong", u.Wrong.Total()}} {
			if c.n > 0 {
				text.Sample(float64(c.n), append(key, "kind", c.kind)...)
			}
		}
	}
	pfc := func(name, help string, of func(*flows.Priority) float64) {
		text.Family("rocecn_pfc_"+name, help)
		for i := range s.Links {
			l := &s.Links[i]
			for priority, p := range eachPriority(l) {
				text.Sample(of(p), "src_mac", l.Src.String(), "priority", priority)
			}
		}
	}
	pfc("xoff_total", "PFC frames that pause a priority.", func(p *flows.Priority) float64 { return float64(p.XOFF) })
	pfc("xon_total", "PFC frames that let a priority go on.", func(p *flows.Priority) float64 { return float64(p.XON) })
	pfc("paused_seconds_total", "Time between XOFF and XON.",
		func(p *flows.Priority) float64 { return p.Paused.Seconds() })
	text.Family("rocecn_evicted_flows_total", "Flows evicted because the table was full.")
	text.Sample(float64(s.Evicted.Flows))
	text.Family("rocecn_unlearned_packets_total",
		"Packets that were not used to learn queue pairs because the tables were full.")
	text.Sample(float64(s.Stats.Unlearned))
	return text.Octets
}

// appendFindings appends the number of findings by cause, with 0 for causes without one.
func appendFindings(b []byte, all []triage.Verdict) []byte {
	text := prometheus.Text{Octets: b}
	text.Family("rocecn_findings", "Findings of -explain by cause.")
	for _, c := range triage.Causes() {
		n := 0
		for i := range all {
			if all[i].Cause == c {
				n++
			}
		}
		severity := "problem"
		if c.IsSymptom() {
			severity = "symptom"
		}
		text.Sample(float64(n), "cause", causeName(c), "severity", severity)
	}
	return text.Octets
}
