package flows

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rocecn/rocecn/flows"
)

// A family is a metric of Prometheus: counters end in _total, units are seconds
// and bytes.
type family struct {
	name, help string
	samples    func(f *flows.Flow, add func(value float64, labels ...string))
}

// A flow is named by its key in all families, so that a series stays the same
// one whatever becomes known of the flow: what names it otherwise is in info.
var families = []family{
	{"info", "What else is known of the flow.", func(f *flows.Flow, add func(float64, ...string)) {
		labels := []string{"transport", f.Transport.String()}
		if f.SrcQPFrom != 0 {
			labels = append(labels, "src_qp", fmt.Sprint(f.SrcQP), "src_qp_from", f.SrcQPFrom.String())
		}
		add(1, labels...)
	}},
	{"packets_total", "Requests captured, repeats included.", func(f *flows.Flow, add func(float64, ...string)) {
		add(float64(f.Packets))
	}},
	{"ip_bytes_total", "Octets of IP packets, by their length fields.", func(f *flows.Flow, add func(float64, ...string)) {
		add(float64(f.IPOctets))
	}},
	{"payload_bytes_total", "Octets of payload, without pad.", func(f *flows.Flow, add func(float64, ...string)) {
		add(float64(f.PayloadOctets))
	}},
	{"ecn_packets_total", "Requests by ECN field.", func(f *flows.Flow, add func(float64, ...string)) {
		for i, n := range f.ECN {
			add(float64(n), "ecn", ecnNames[i])
		}
	}},
	{"messages_begun_total", "Messages whose first packet was captured.", func(f *flows.Flow, add func(float64, ...string)) {
		for kind, m := range f.Messages {
			if m.Begun > 0 {
				add(float64(m.Begun), "operation", flows.Kind(kind).String())
			}
		}
	}},
	{"messages_complete_total", "Messages whose last packet was captured.", func(f *flows.Flow, add func(float64, ...string)) {
		for kind, m := range f.Messages {
			if m.Complete > 0 {
				add(float64(m.Complete), "operation", flows.Kind(kind).String())
			}
		}
	}},
	{"lives_total", "How often the flow began.", sequenced(func(f *flows.Flow) uint64 { return f.PSN.Lives })},
	{"gaps_total", "Gaps in the PSNs.", sequenced(func(f *flows.Flow) uint64 { return f.PSN.Gaps })},
	{"missing_packets_total", "PSNs that were passed over.", sequenced(func(f *flows.Flow) uint64 { return f.PSN.Missing })},
	{"late_packets_total", "Requests that filled a gap later.", sequenced(func(f *flows.Flow) uint64 { return f.PSN.Late })},
	{"repeats_total", "Requests that were repeated, by cause.", func(f *flows.Flow, add func(float64, ...string)) {
		if f.Sequenced {
			add(float64(f.Causes.NAK), "cause", "nak")
			add(float64(f.Causes.RNR), "cause", "rnr")
			add(float64(f.Causes.Read), "cause", "read")
			add(float64(f.Causes.Timeout), "cause", "timeout")
		}
	}},
	{"missing_packets", "PSNs that nothing filled, by what became of them.", func(f *flows.Flow, add func(float64, ...string)) {
		if f.Sequenced {
			add(float64(f.PSN.Unseen), "fate", "unseen")
			add(float64(f.PSN.Lost), "fate", "lost")
			add(float64(f.PSN.Unjudged), "fate", "unjudged")
		}
	}},
	{"acks_total", "Acknowledgements.", func(f *flows.Flow, add func(float64, ...string)) { add(float64(f.ACKs)) }},
	{"naks_total", "NAKs by code.", func(f *flows.Flow, add func(float64, ...string)) {
		for i, n := range f.NAKs {
			add(float64(n), "code", nakNames[i])
		}
	}},
	{"rnr_naks_total", "RNR NAKs.", func(f *flows.Flow, add func(float64, ...string)) { add(float64(f.RNRNAKs)) }},
	{"cnps_total", "CNPs, of the receiver and with a Fast CNP option.", func(f *flows.Flow, add func(float64, ...string)) {
		add(float64(f.CNPs), "kind", "receiver")
		add(float64(f.Fast), "kind", "fast")
	}},
	{"ppfc_total", "PPFC messages.", func(f *flows.Flow, add func(float64, ...string)) { add(float64(f.PPFC)) }},
	{"fcn_total", "FCN messages.", func(f *flows.Flow, add func(float64, ...string)) { add(float64(f.FCN)) }},
	{"proxy_messages_total", "Messages to a proxy.", func(f *flows.Flow, add func(float64, ...string)) { add(float64(f.Proxy)) }},
	{"rtt_seconds", "Round trip time as seen at the capture point.", quantiles(func(f *flows.Flow) *flows.Histogram { return f.RTT })},
	{"cnp_after_ce_seconds", "From the first CE to the CNP.", quantiles(func(f *flows.Flow) *flows.Histogram { return f.AfterCE })},
	{"worst_queue_depth", "The deepest queue in an IOAM trace, in the unit of the node.", func(f *flows.Flow, add func(float64, ...string)) {
		if f.Queue.Known {
			add(float64(f.Queue.Depth))
		}
	}},
	{"worst_queue_info", "The node that has this queue.", func(f *flows.Flow, add func(float64, ...string)) {
		if f.Queue.Known {
			add(1, "node", fmt.Sprint(f.Queue.Node))
		}
	}},
	{"icrc_wrong_total", "Requests with a wrong ICRC.", func(f *flows.Flow, add func(float64, ...string)) { add(float64(f.ICRCWrong)) }},
	{"truncated_packets_total", "Requests that the capture cut.", func(f *flows.Flow, add func(float64, ...string)) { add(float64(f.Truncated)) }},
	{"last_seen_timestamp_seconds", "When the last packet was captured.", func(f *flows.Flow, add func(float64, ...string)) {
		add(float64(f.Last.UnixNano()) / float64(time.Second))
	}},
}

func sequenced(of func(f *flows.Flow) uint64) func(*flows.Flow, func(float64, ...string)) {
	return func(f *flows.Flow, add func(float64, ...string)) {
		if f.Sequenced {
			add(float64(of(f)))
		}
	}
}

func quantiles(of func(f *flows.Flow) *flows.Histogram) func(*flows.Flow, func(float64, ...string)) {
	return func(f *flows.Flow, add func(float64, ...string)) {
		if h := of(f); h != nil && h.Samples() > 0 {
			add(h.Percentile(0.5).Seconds(), "quantile", "0.5")
			add(h.Percentile(0.99).Seconds(), "quantile", "0.99")
		}
	}
}

// appendPrometheus appends a snapshot in the text format of Prometheus
// (exposition format 0.0.4).
func appendPrometheus(b []byte, s *flows.Snapshot) []byte {
	for _, family := range families {
		name := "rocecn_flow_" + family.name
		kind := "gauge"
		if strings.HasSuffix(name, "_total") {
			kind = "counter"
		}
		b = fmt.Appendf(b, "# HELP %s %s\n# TYPE %s %s\n", name, family.help, name, kind)
		for i := range s.Flows {
			f := &s.Flows[i]
			family.samples(f, func(value float64, labels ...string) {
				b = append(append(b, name...), '{')
				b = fmt.Appendf(b, `src="%v",dst="%v",dest_qp="%d"`, f.Src, f.Dst, f.DestQP)
				for i := 0; i < len(labels); i += 2 {
					b = fmt.Appendf(b, `,%s=%q`, labels[i], labels[i+1])
				}
				b = append(b, "} "...)
				b = strconv.AppendFloat(b, value, 'g', -1, 64)
				b = append(b, '\n')
			})
		}
	}
	b = append(b, "# HELP rocecn_unpaired_total Packets that are about no flow that is known.\n# TYPE rocecn_unpaired_total counter\n"...)
	for i := range s.Unpaired {
		u := &s.Unpaired[i]
		qp := ""
		if u.WithQP {
			qp = fmt.Sprintf(`,dest_qp="%d"`, u.DestQP)
		}
		for _, c := range []struct {
			kind string
			n    uint64
		}{{"ack", u.ACKs}, {"nak", sum(u.NAKs[:])}, {"rnr_nak", u.RNRNAKs}, {"cnp", u.CNPs}, {"fast_cnp", u.Fast},
			{"ppfc", u.PPFC}, {"fcn", u.FCN}, {"proxy", u.Proxy}} {
			if c.n > 0 {
				b = fmt.Appendf(b, "rocecn_unpaired_total{src=\"%v\",dst=\"%v\"%s,kind=%q} %d\n", u.Src, u.Dst, qp, c.kind, c.n)
			}
		}
	}
	for _, family := range []struct {
		name, help string
		of         func(p *flows.Priority) float64
	}{
		{"rocecn_pfc_xoff_total", "PFC frames that pause a priority.", func(p *flows.Priority) float64 { return float64(p.XOFF) }},
		{"rocecn_pfc_xon_total", "PFC frames that let a priority go on.", func(p *flows.Priority) float64 { return float64(p.XON) }},
		{"rocecn_pfc_paused_seconds_total", "Time between XOFF and XON.", func(p *flows.Priority) float64 { return p.Paused.Seconds() }},
	} {
		b = fmt.Appendf(b, "# HELP %s %s\n# TYPE %s counter\n", family.name, family.help, family.name)
		for i := range s.Links {
			l := &s.Links[i]
			for priority, p := range priorities(l) {
				b = fmt.Appendf(b, "%s{src_mac=\"%v\",priority=%q} ", family.name, l.Src, priority)
				b = append(strconv.AppendFloat(b, family.of(p), 'g', -1, 64), '\n')
			}
		}
	}
	b = append(b, "# HELP rocecn_evicted_flows_total Flows that there was no room for.\n# TYPE rocecn_evicted_flows_total counter\n"...)
	return fmt.Appendf(b, "rocecn_evicted_flows_total %d\n", s.Evicted.Flows)
}
