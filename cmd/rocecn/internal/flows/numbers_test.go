package flows

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/flows"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/qpmap"
)

// everything is a flow of which all numbers differ: those of one field cannot
// pass for those of another.
func everything() flows.Flow {
	f := flows.Flow{
		FlowKey: flowKey(netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2"), 17),
		SrcQP:   18, SrcQPFrom: qpmap.BasisPort,
		First: time.Unix(1000, 0).UTC(), Last: time.Unix(1002, 500000).UTC(),
		Requests: flows.Requests{Transport: bth.TransportUC, VLAN: 3, PCP: 1<<3 | 1<<5, SrcPort: 49152,
			DSCP: 1<<26 | 1<<48,
			ECN:  [4]uint64{101, 102, 103, 104}, MTU: 1024, Packets: 105, IPOctets: 106, PayloadOctets: 107,
			ICRCWrong: 108, Truncated: 109, Trimmed: 172, FirstTrouble: 145,
			Varies: flows.Varies{VLAN: true, SrcPort: true, SrcMAC: true, DstMAC: true}},
		TrimmedRecovered: 173,
		Discards:         []flows.Discards{{Reason: "acl", Packets: 174}, {Reason: "red", Packets: 1}},
		SrcMAC:           net.HardwareAddr{2, 0, 0, 0, 0, 1},
		DstMAC:           net.HardwareAddr{2, 0, 0, 0, 0, 2}, SharedPort: 160,
		Mean: 110.5, Peak: 111.5,
		Responses: flows.Responses{ECN: [4]uint64{201, 202, 203, 204}, DSCP: 1 << 10, Packets: 205, IPOctets: 206,
			PayloadOctets: 207, ICRCWrong: 208, Truncated: 209,
			PSN: flows.ResponsePSN{Gaps: 210, Missing: 211, Late: 212, Retransmitted: 213, Copies: 214}},
		Data:      flows.Data{Packets: 215, IPOctets: 216, PayloadOctets: 217, CE: 218, Mean: 219.5, Peak: 220.5},
		Sequenced: true,
		PSN: flows.PSN{First: 130, Last: 131, Connections: 132, Gaps: 133, Missing: 134, Late: 135, Retransmitted: 136,
			Copies: 137,
			Unseen: 138, Lost: 139, Unjudged: 140},
		Causes:               flows.Retransmissions{NAK: 141, RNR: 142, Read: 143, Timeout: 144, Spurious: 170},
		RTTFromRetransmitted: 171,
		Answers: flows.Answers{ACKs: 146, RNRNAKs: 152, CNPs: 153, FastCNPs: 154,
			PPFC: 155,
			FCN:  156, Proxy: 157,
			Wrong: flows.WrongAnswers{ACKs: 1, NAKs: 2, RNRNAKs: 4, CNPs: 8, FastCNPs: 16, PPFC: 32, FCN: 64,
				Proxy: 128}},
		Spacing: 158 * time.Microsecond, AfterCE: new(flows.Histogram), RTT: new(flows.Histogram),
		Queue: flows.QueueDepth{Known: true, Node: 159, Depth: 160},
	}
	for code := range f.NAKs() {
		*f.NAK(code) = 147 + uint64(code)
	}
	for kind := range f.Messages() {
		*f.Message(kind) = flows.Messages{Begun: uint64(112 + 2*kind), Complete: uint64(113 + 2*kind)}
	}
	// Of two samples the lower one is the median. Below 32 ns they are exact.
	f.AfterCE.Add(20)
	f.AfterCE.Add(30)
	f.RTT.Add(4)
	f.RTT.Add(5)
	return f
}

// values are the metrics of everything.
var values = `src_port=49152 src_port_shared=160
	packets=105 ip_octets=106 payload_octets=107 rate_bps.mean=110.5 rate_bps.peak=111.5 mtu=1024
	responses.packets=205 responses.ip_octets=206 responses.payload_octets=207 responses.ecn.not_ect=201
	responses.ecn.ect1=202 responses.ecn.ect0=203 responses.ecn.ce=204 responses.psn.gaps=210 responses.psn.missing=211
	responses.psn.late=212 responses.psn.repeats=213 responses.psn.copies=214 responses.icrc_wrong=208
	responses.truncated=209 data.packets=215 data.ip_octets=216 data.payload_octets=217 data.ce=218
	data.rate_bps.mean=219.5 data.rate_bps.peak=220.5
	ecn.not_ect=101 ecn.ect1=102 ecn.ect0=103 ecn.ce=104
	messages.SEND.begun=112 messages.SEND.complete=113 messages.RDMA_WRITE.begun=114 messages.RDMA_WRITE.complete=115
	messages.RDMA_READ.begun=116 messages.RDMA_READ.complete=117 messages.ATOMIC.begun=118 messages.ATOMIC.complete=119
	messages.FLUSH.begun=120 messages.FLUSH.complete=121 messages.ATOMIC_WRITE.begun=122
	messages.ATOMIC_WRITE.complete=123
	lives=132 psn.gaps=133 psn.missing=134 psn.late=135 psn.repeats=136 psn.copies=137 psn.unseen=138 psn.lost=139
	psn.unjudged=140 repeats_by.nak=141 repeats_by.rnr=142 repeats_by.read=143 repeats_by.timeout=144
	repeats_by.spurious=170
	acks=146 naks=745 naks.sequence=147 naks.invalid_request=148 naks.remote_access=149 naks.remote_operational=150
	naks.invalid_RD_request=151 rnr_naks=152 cnps=307 cnps.receiver=153 cnps.fast=154 cnps.min_spacing_us=158
	cnps.after_ce_us.p50=0.02 cnps.after_ce_us.p99=0.03 ppfc=155 fcn=156 proxy=157 answers_icrc_wrong=255
	rtt_us.from_retransmitted=171 rtt_us.samples=2 rtt_us.min=0.004 rtt_us.p50=0.004 rtt_us.p99=0.005
	worst_queue.depth=160
	icrc_wrong=108 truncated=109 trimmed=172 trimmed_recovered=173 discarded=175`

func valuesOf(text string) map[string]string {
	all := map[string]string{}
	for word := range strings.FieldsSeq(text) {
		name, value, _ := strings.Cut(word, "=")
		all[strings.ReplaceAll(name, "_", " ")] = value
	}
	return all
}

func TestMetrics(t *testing.T) {
	f, want := everything(), valuesOf(values)
	got := map[string]string{}
	for _, m := range metrics {
		n, ok := m.of(&f)
		require.True(t, ok, m.name)
		got[strings.ReplaceAll(m.name, "_", " ")] = strconv.FormatFloat(n, 'f', -1, 64)
	}
	require.Equal(t, want, got)
	require.Len(t, metrics, len(want))

	// Values that were not measured are absent, not 0.
	empty := flows.Flow{Spacing: -1, AfterCE: new(flows.Histogram), RTT: new(flows.Histogram)}
	var measured []string
	for _, m := range metrics {
		if n, ok := m.of(&empty); ok {
			require.Zero(t, n)
			require.NotNil(t, m.count, m.name)
			measured = append(measured, m.name)
		}
	}
	require.Len(t, measured, len(metrics)-27, "%s", measured) // 13 of no count, 14 of PSNs
	empty.Spacing, empty.RTT = 0, nil
	spacing, _ := metricOf("min_spacing_us")
	n, ok := spacing.of(&empty)
	require.True(t, ok, "two CNPs at the same time")
	require.Zero(t, n)
	least, _ := metricOf("rtt_us.min")
	_, ok = least.of(&empty)
	require.False(t, ok)
}

func TestCSVOfEverything(t *testing.T) {
	f := everything()
	bare := flows.Flow{FlowKey: f.FlowKey, Spacing: -1, First: f.First, Last: f.First}
	var out bytes.Buffer
	w := csv.NewWriter(&out)
	require.NoError(t, w.Write(csvHeader()))
	writeCSV(w, &flows.Snapshot{Flows: []flows.Flow{f, bare}}, &intervalLine{"then", "now"})
	require.NoError(t, w.Error())
	rows := wiretest.Must(csv.NewReader(&out).ReadAll())(t)
	require.Len(t, rows, 3)
	want := valuesOf(values)
	maps.Copy(want, map[string]string{"from": "then", "to": "now", "src": "192.0.2.1", "dst": "192.0.2.2",
		"dest qp": "17",
		"src qp":  "18", "src qp from": "port", "transport": "UC", "vlan": "3", "dscp": "26 48", "pcp": "3 5",
		"src mac": "02:00:00:00:00:01", "dst mac": "02:00:00:00:00:02", "varies": "vlan src_mac dst_mac src_port",
		"first": "1970-01-01T00:16:40.000000Z", "last": "1970-01-01T00:16:42.000500Z",
		"psn.first": "130", "psn.last": "131", "psn.first trouble frame": "145", "worst queue.node": "159"})
	got, filled := map[string]string{}, []string{}
	for i, name := range rows[0] {
		got[strings.ReplaceAll(name, "_", " ")] = rows[1][i]
		if rows[2][i] != "" && rows[2][i] != "0" {
			filled = append(filled, name)
		}
	}
	require.Equal(t, want, got)
	require.Equal(t, strings.Fields("from to src dst dest_qp transport first last"), filled)
}

func TestPrometheusOfEverything(t *testing.T) {
	f := everything()
	s := &flows.Snapshot{Flows: []flows.Flow{f}, Evicted: flows.Evicted{Flows: 161},
		Stats: flows.Stats{Unlearned: 168}}
	s.Unpaired = []flows.Unpaired{
		{FlowKey: f.FlowKey, WithQP: true, Answers: f.Answers},
		{FlowKey: f.FlowKey, Answers: flows.Answers{FCN: 1}},
	}
	link := flows.Link{Src: []byte{2, 0, 0, 0, 0, 1}}
	link.Priorities[3] = flows.Priority{XOFF: 162, XON: 163, Paused: 164 * time.Millisecond}
	link.All = flows.Priority{XOFF: 165, XON: 166, Paused: 167 * time.Millisecond}
	s.Links = []flows.Link{link}
	want := map[string]float64{}
	for line := range strings.Lines(`
		flow_info src_qp="18" src_qp_from="port" transport="UC" 1
		flow_packets_total 105
		flow_ip_bytes_total 106
		flow_payload_bytes_total 107
		flow_ecn_packets_total ecn="not_ect" 101
		flow_ecn_packets_total ecn="ect1" 102
		flow_ecn_packets_total ecn="ect0" 103
		flow_ecn_packets_total ecn="ce" 104
		flow_responses_total 205
		flow_responses_missing_total 211
		flow_responses_repeats_total 213
		flow_data_packets_total 215
		flow_data_bytes_total 216
		flow_data_ce_total 218
		flow_lives_total 132
		flow_gaps_total 133
		flow_missing_packets_total 134
		flow_late_packets_total 135
		flow_repeats_total cause="nak" 141
		flow_repeats_total cause="rnr" 142
		flow_repeats_total cause="read" 143
		flow_repeats_total cause="timeout" 144
		flow_spurious_repeats_total 170
		flow_missing_packets fate="unseen" 138
		flow_missing_packets fate="lost" 139
		flow_missing_packets fate="unjudged" 140
		flow_acks_total 146
		flow_naks_total code="sequence" 147
		flow_naks_total code="invalid request" 148
		flow_naks_total code="remote access" 149
		flow_naks_total code="remote operational" 150
		flow_naks_total code="invalid RD request" 151
		flow_rnr_naks_total 152
		flow_cnps_total kind="receiver" 153
		flow_cnps_total kind="fast" 154
		flow_ppfc_total 155
		flow_fcn_total 156
		flow_proxy_messages_total 157
		flow_rtt_seconds quantile="0.5" 4e-09
		flow_rtt_seconds quantile="0.99" 5e-09
		flow_cnp_after_ce_seconds quantile="0.5" 2e-08
		flow_cnp_after_ce_seconds quantile="0.99" 3e-08
		flow_worst_queue_depth 160
		flow_worst_queue_info node="159" 1
		flow_icrc_wrong_total 108
		flow_wrong_answers_total 255
		flow_truncated_packets_total 109
		flow_trimmed_packets_total 172
		flow_discarded_packets_total 175
		flow_last_seen_timestamp_seconds 1002.0005
		unpaired_total kind="ack" 146
		unpaired_total kind="nak" 745
		unpaired_total kind="rnr_nak" 152
		unpaired_total kind="cnp" 153
		unpaired_total kind="fast_cnp" 154
		unpaired_total kind="ppfc" 155
		unpaired_total kind="fcn" 156
		unpaired_total kind="proxy" 157
		unpaired_total kind="icrc_wrong" 255
		pfc_xoff_total priority="3" 162
		pfc_xoff_total priority="all" 165
		pfc_xon_total priority="3" 163
		pfc_xon_total priority="all" 166
		pfc_paused_seconds_total priority="3" 0.164
		pfc_paused_seconds_total priority="all" 0.167
		evicted_flows_total 161
		unlearned_packets_total 168`) {
		series, number, ok := cutLast(strings.TrimSpace(line))
		if !ok {
			continue
		}
		value := wiretest.Must(strconv.ParseFloat(number, 64))(t)
		name, labels, _ := strings.Cut(series, " ")
		switch {
		case strings.HasPrefix(name, "pfc"):
			labels += ` src_mac="02:00:00:00:00:01"`
		case !strings.HasPrefix(name, "evicted") && !strings.HasPrefix(name, "unlearned"):
			labels += ` src="192.0.2.1" dst="192.0.2.2" dest_qp="17"`
		}
		want[seriesOf("rocecn_"+name, labels)] = value
	}
	want[seriesOf("rocecn_unpaired_total", `kind="fcn" src="192.0.2.1" dst="192.0.2.2"`)] = 1
	for i, operation := range []string{"SEND", "RDMA WRITE", "RDMA READ", "ATOMIC", "FLUSH", "ATOMIC WRITE"} {
		for j, what := range []string{"begun", "complete"} {
			labels := fmt.Sprintf(`src="192.0.2.1" dst="192.0.2.2" dest_qp="17" operation=%q`, operation)
			want[seriesOf("rocecn_flow_messages_"+what+"_total", labels)] = float64(112 + 2*i + j)
		}
	}
	require.Equal(t, want, exposition(t, string(appendPrometheus(nil, s))))

	// Values that do not apply are absent: a flow of datagrams has no PSNs.
	s = &flows.Snapshot{Flows: []flows.Flow{{FlowKey: f.FlowKey,
		Requests: flows.Requests{Packets: 1}, RTT: new(flows.Histogram)}}}
	for series := range exposition(t, string(appendPrometheus(nil, s))) {
		name, _, _ := strings.Cut(series, " ")
		if strings.HasPrefix(name, "rocecn_flow_responses_") {
			continue
		}
		require.NotRegexp(t,
			`lives|gaps|missing|late|repeats|messages_begun|messages_complete|rtt|after|queue|unpaired|rocecn_pfc`,
			name)
	}
}

func cutLast(line string) (before, after string, ok bool) {
	i := strings.LastIndex(line, " ")
	if i < 0 {
		return "", "", false
	}
	return line[:i], line[i+1:], true
}

// seriesOf names a series as exposition does: with its labels sorted.
func seriesOf(name, labels string) string {
	var all []string
	for _, part := range strings.SplitAfter(labels, `"`) {
		if n := len(all); n > 0 && strings.Count(all[n-1], `"`) == 1 {
			all[n-1] += part
		} else if part = strings.TrimSpace(part); part != "" {
			all = append(all, part)
		}
	}
	slices.Sort(all)
	return strings.TrimSpace(name + " " + strings.Join(all, " "))
}

// The lines of an interval name it, except that of evicted flows.
func TestIntervalLines(t *testing.T) {
	key := everything().FlowKey
	var out bytes.Buffer
	a := accountant{options: &options{}, out: bufio.NewWriter(&out)}
	link := flows.Link{Src: []byte{2, 0, 0, 0, 0, 1}}
	link.Priorities[3].XON = 1
	require.NoError(t, a.printJSON(&flows.Snapshot{
		Flows:    []flows.Flow{{FlowKey: key, Requests: flows.Requests{Packets: 1}}},
		Unpaired: []flows.Unpaired{{FlowKey: key, WithQP: true, Answers: flows.Answers{ACKs: 2}}},
		Links:    []flows.Link{link},
		Evicted:  flows.Evicted{Answers: flows.Answers{CNPs: 4}},
		Capture:  flows.Capture{OutOfOrder: 3},
	}, &intervalLine{"then", "now"}))
	require.NoError(t, a.out.Flush())
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, lines, 5)
	for _, line := range lines[:4] {
		require.Contains(t, line, `"interval":{"from":"then","to":"now"}`)
	}
	require.JSONEq(t, `{"evicted":true,"flows":0,"packets":0,"ip_octets":0,"cnps":{"receiver":4,"fast":0}}`, lines[4])
}

// Numbers have four digits at most.
func TestScaled(t *testing.T) {
	for _, c := range []struct {
		n    float64
		want string
	}{
		{0, "0"}, {9, "9"}, {9999, "9999"}, {10000, "10.0k"}, {99949, "99.9k"}, {100000, "100k"}, {999499, "999k"},
		{1e6, "1.00M"},
		{9.994e6, "9.99M"},
		{1e7, "10.0M"}, {1e8, "100M"}, {1e9, "1.00G"}, {1e12, "1.00T"}, {999e12, "999T"}, {1e15, "1P"},
		{123e15, "123P"},
	} {
		t.Run(fmt.Sprint(c.n), func(t *testing.T) { require.Equal(t, c.want, formatScaled(c.n), "%v", c.n) })
	}
}
