package flows

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rocecn/rocecn/flows"
)

// A metric is a number about a flow. Rules, the order of the table and
// the columns of CSV name it as the keys of the JSON objects do.
type metric struct {
	name string
	// count returns the value of a count, which can be summed up over flows and be a part of their packets. It is nil
	// for other metrics, and returns 0 if the value is unknown.
	count func(f *flows.Flow) uint64
	of    func(f *flows.Flow) (value float64, ok bool)
}

// newCount returns a count that is known for each flow.
func newCount(name string, of func(f *flows.Flow) uint64) metric {
	return metric{name, of, func(f *flows.Flow) (float64, bool) { return float64(of(f)), true }}
}

// newSequenceCount returns a count that is only known for flows with PSNs that are followed.
func newSequenceCount(name string, of func(f *flows.Flow) uint64) metric {
	count := func(f *flows.Flow) uint64 {
		if !f.Sequenced {
			return 0
		}
		return of(f)
	}
	return metric{name, count, func(f *flows.Flow) (float64, bool) { return float64(of(f)), f.Sequenced }}
}

// metrics are all of them, in the order of the columns.
var metrics = newMetrics()

func newMetrics() []metric {
	var all []metric
	count := func(name string, of func(f *flows.Flow) uint64) {
		all = append(all, newCount(name, of))
	}
	sequence := func(name string, of func(f *flows.Flow) uint64) {
		all = append(all, newSequenceCount(name, of))
	}
	value := func(name string, of func(f *flows.Flow) (float64, bool)) {
		all = append(all, metric{name, nil, of})
	}
	percentiles := func(name string, of func(f *flows.Flow) *flows.Histogram) {
		at := func(p float64) func(f *flows.Flow) (float64, bool) {
			return func(f *flows.Flow) (float64, bool) { return toMicroseconds(of(f).Percentile(p)), of(f).Count() > 0 }
		}
		value(name+".p50", at(0.5))
		value(name+".p99", at(0.99))
	}

	count("packets", func(f *flows.Flow) uint64 { return f.Packets })
	count("ip_octets", func(f *flows.Flow) uint64 { return f.IPOctets })
	count("payload_octets", func(f *flows.Flow) uint64 { return f.PayloadOctets })
	value("rate_bps.mean", func(f *flows.Flow) (float64, bool) { return f.Mean, f.Mean > 0 })
	value("rate_bps.peak", func(f *flows.Flow) (float64, bool) { return f.Peak, f.Peak > 0 })
	count("responses.packets", func(f *flows.Flow) uint64 { return f.Responses.Packets })
	count("responses.ip_octets", func(f *flows.Flow) uint64 { return f.Responses.IPOctets })
	count("responses.payload_octets", func(f *flows.Flow) uint64 { return f.Responses.PayloadOctets })
	for i, name := range ecnNames {
		count("responses.ecn."+name, func(f *flows.Flow) uint64 { return f.Responses.ECN[i] })
	}
	count("responses.psn.gaps", func(f *flows.Flow) uint64 { return f.Responses.PSN.Gaps })
	count("responses.psn.missing", func(f *flows.Flow) uint64 { return f.Responses.PSN.Missing })
	count("responses.psn.late", func(f *flows.Flow) uint64 { return f.Responses.PSN.Late })
	count("responses.psn.repeats", func(f *flows.Flow) uint64 { return f.Responses.PSN.Retransmitted })
	count("responses.psn.copies", func(f *flows.Flow) uint64 { return f.Responses.PSN.Copies })
	count("responses.icrc_wrong", func(f *flows.Flow) uint64 { return f.Responses.ICRCWrong })
	count("responses.truncated", func(f *flows.Flow) uint64 { return f.Responses.Truncated })
	count("data.packets", func(f *flows.Flow) uint64 { return f.Data.Packets })
	count("data.ip_octets", func(f *flows.Flow) uint64 { return f.Data.IPOctets })
	count("data.payload_octets", func(f *flows.Flow) uint64 { return f.Data.PayloadOctets })
	count("data.ce", func(f *flows.Flow) uint64 { return f.Data.CE })
	value("data.rate_bps.mean", func(f *flows.Flow) (float64, bool) { return f.Data.Mean, f.Data.Mean > 0 })
	value("data.rate_bps.peak", func(f *flows.Flow) (float64, bool) { return f.Data.Peak, f.Data.Peak > 0 })
	value("mtu", func(f *flows.Flow) (float64, bool) { return float64(f.MTU), f.MTU != 0 })
	value("src_port", func(f *flows.Flow) (float64, bool) { return float64(f.SrcPort), f.SrcPort != 0 })
	count("src_port_shared", func(f *flows.Flow) uint64 { return f.SharedPort })
	for i, name := range ecnNames {
		count("ecn."+name, func(f *flows.Flow) uint64 { return f.ECN[i] })
	}
	for kind := range new(flows.Requests).Messages() {
		name := kind.String()
		count("messages."+name+".begun", func(f *flows.Flow) uint64 { return f.Message(kind).Begun })
		count("messages."+name+".complete", func(f *flows.Flow) uint64 { return f.Message(kind).Complete })
	}
	sequence("lives", func(f *flows.Flow) uint64 { return f.PSN.Connections })
	sequence("psn.gaps", func(f *flows.Flow) uint64 { return f.PSN.Gaps })
	sequence("psn.missing", func(f *flows.Flow) uint64 { return f.PSN.Missing })
	sequence("psn.late", func(f *flows.Flow) uint64 { return f.PSN.Late })
	sequence("psn.repeats", func(f *flows.Flow) uint64 { return f.PSN.Retransmitted })
	sequence("psn.copies", func(f *flows.Flow) uint64 { return f.PSN.Copies })
	sequence("psn.unseen", func(f *flows.Flow) uint64 { return f.PSN.Unseen })
	sequence("psn.lost", func(f *flows.Flow) uint64 { return f.PSN.Lost })
	sequence("psn.unjudged", func(f *flows.Flow) uint64 { return f.PSN.Unjudged })
	sequence("repeats_by.nak", func(f *flows.Flow) uint64 { return f.Causes.NAK })
	sequence("repeats_by.rnr", func(f *flows.Flow) uint64 { return f.Causes.RNR })
	sequence("repeats_by.read", func(f *flows.Flow) uint64 { return f.Causes.Read })
	sequence("repeats_by.timeout", func(f *flows.Flow) uint64 { return f.Causes.Timeout })
	sequence("repeats_by.spurious", func(f *flows.Flow) uint64 { return f.Causes.Spurious })
	count("acks", func(f *flows.Flow) uint64 { return f.ACKs })
	count("naks", func(f *flows.Flow) uint64 { return countNAKs(&f.Answers) })
	for code := range new(flows.Answers).NAKs() {
		count("naks."+nakNames[code], func(f *flows.Flow) uint64 { return *f.NAK(code) })
	}
	count("rnr_naks", func(f *flows.Flow) uint64 { return f.RNRNAKs })
	count("cnps", func(f *flows.Flow) uint64 { return f.CNPs + f.FastCNPs })
	count("cnps.receiver", func(f *flows.Flow) uint64 { return f.CNPs })
	count("cnps.fast", func(f *flows.Flow) uint64 { return f.FastCNPs })
	value("cnps.min_spacing_us", func(f *flows.Flow) (float64, bool) {
		return toMicroseconds(f.Spacing),
			f.Spacing >= 0
	})
	percentiles("cnps.after_ce_us", func(f *flows.Flow) *flows.Histogram { return f.AfterCE })
	count("ppfc", func(f *flows.Flow) uint64 { return f.PPFC })
	count("fcn", func(f *flows.Flow) uint64 { return f.FCN })
	count("proxy", func(f *flows.Flow) uint64 { return f.Proxy })
	count("answers_icrc_wrong", func(f *flows.Flow) uint64 { return f.Wrong.Total() })
	count("rtt_us.samples", func(f *flows.Flow) uint64 { return f.RTT.Count() })
	count("rtt_us.from_retransmitted", func(f *flows.Flow) uint64 { return f.RTTFromRetransmitted })
	value("rtt_us.min", func(f *flows.Flow) (float64, bool) { return toMicroseconds(f.RTT.Min()), f.RTT.Count() > 0 })
	percentiles("rtt_us", func(f *flows.Flow) *flows.Histogram { return f.RTT })
	value("worst_queue.depth", func(f *flows.Flow) (float64, bool) { return float64(f.Queue.Depth), f.Queue.Known })
	count("icrc_wrong", func(f *flows.Flow) uint64 { return f.ICRCWrong })
	count("truncated", func(f *flows.Flow) uint64 { return f.Truncated })
	count("trimmed", func(f *flows.Flow) uint64 { return f.Trimmed })
	count("trimmed_recovered", func(f *flows.Flow) uint64 { return f.TrimmedRecovered })
	count("discarded", func(f *flows.Flow) uint64 { return countDiscards(f.Discards) })
	return all
}

var (
	ecnNames = [4]string{"not_ect", "ect1", "ect0", "ce"} // by the value of the field
	nakNames = [5]string{"sequence", "invalid request", "remote access", "remote operational", "invalid RD request"}
)

// sums are the metrics with short names that count requests and responses.
var sums = []metric{
	newCount("ce", func(f *flows.Flow) uint64 { return f.Data.CE }),
	sumOf("gaps", func(p *flows.PSN, r *flows.ResponsePSN) uint64 { return p.Gaps + r.Gaps }),
	sumOf("missing", func(p *flows.PSN, r *flows.ResponsePSN) uint64 { return p.Missing + r.Missing }),
	sumOf("late", func(p *flows.PSN, r *flows.ResponsePSN) uint64 { return p.Late + r.Late }),
	sumOf("repeats", func(p *flows.PSN, r *flows.ResponsePSN) uint64 { return p.Retransmitted + r.Retransmitted }),
	sumOf("copies", func(p *flows.PSN, r *flows.ResponsePSN) uint64 { return p.Copies + r.Copies }),
}

func sumOf(name string, of func(p *flows.PSN, r *flows.ResponsePSN) uint64) metric {
	return newSequenceCount(name, func(f *flows.Flow) uint64 { return of(&f.PSN, &f.Responses.PSN) })
}

// metricOf returns the metric with a name, or with the last part of its name: nak is repeats_by.nak. The last part of a
// number that requests and responses have stands for their sum.
func metricOf(name string) (metric, error) {
	for _, m := range slices.Concat(metrics, sums) {
		if m.name == name {
			return m, nil
		}
	}
	var found []metric
	for _, m := range metrics {
		if strings.HasSuffix(m.name, "."+name) && !strings.HasPrefix(m.name, "responses.") {
			found = append(found, m)
		}
	}
	switch len(found) {
	case 0:
		return metric{}, fmt.Errorf("%q: want one of %s", name,
			strings.Join(metricNames(), ", "))
	case 1:
		return found[0], nil
	}
	return metric{}, fmt.Errorf("%q may be %s or %s", name, found[0].name, found[1].name)
}

// mustMetric is metricOf for the tables of this package.
func mustMetric(name string) metric {
	m, err := metricOf(name)
	if err != nil {
		panic(err)
	}
	return m
}

func metricNames() (names []string) {
	for _, m := range metrics {
		names = append(names, m.name)
	}
	return names
}

// toMicroseconds returns a duration in microseconds, with the nanoseconds as fraction.
func toMicroseconds(d time.Duration) float64 { return float64(d) / 1000 }

// countNAKs returns the number of NAKs of all codes.
func countNAKs(a *flows.Answers) (n uint64) {
	for _, c := range a.NAKs() {
		n += c
	}
	return n
}
