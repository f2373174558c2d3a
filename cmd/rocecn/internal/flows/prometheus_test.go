package flows

import (
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/flows"
	"github.com/rocecn/rocecn/internal/traffic"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
)

// exposition reads the text format of Prometheus 0.0.4, as
// https://prometheus.io/docs/instrumenting/exposition_formats/ has it, and returns
// the samples by name and sorted labels. It is stricter than a scraper: all
// families have HELP and TYPE, each once and in one piece, no series comes twice.
func exposition(t *testing.T, text string) map[string]float64 {
	t.Helper()
	var (
		metricName = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*`)
		labelName  = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*`)
		samples    = map[string]float64{}
		helped     = map[string]bool{}
		families   = map[string]string{} // name to type
		family     string
	)
	require.True(t, strings.HasSuffix(text, "\n"), "the last line has an end, too")
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if rest, ok := strings.CutPrefix(line, "# HELP "); ok {
			name, help, ok := strings.Cut(rest, " ")
			require.True(t, ok && help != "" && !helped[name], line)
			require.NotContains(t, strings.NewReplacer(`\\`, "", `\n`, "").Replace(help), `\`, line)
			helped[name] = true
			continue
		}
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, kind, _ := strings.Cut(rest, " ")
			require.Contains(t, []string{"counter", "gauge", "histogram", "summary", "untyped"}, kind, line)
			require.NotContains(t, families, name, line)
			require.True(t, helped[name], line)
			require.Equal(t, strings.HasSuffix(name, "_total"), kind == "counter", line)
			families[name], family = kind, name
			continue
		}
		require.NotEqual(t, "#", line[:min(1, len(line))], "a comment: %s", line)
		name := metricName.FindString(line)
		require.Equal(t, family, name, "not in its family: %s", line)
		rest := line[len(name):]
		labels := map[string]string{}
		if rest, ok := strings.CutPrefix(rest, "{"); ok {
			for !strings.HasPrefix(rest, "}") {
				label := labelName.FindString(rest)
				require.NotEmpty(t, label, line)
				require.False(t, strings.HasPrefix(label, "__"), line)
				rest, ok = strings.CutPrefix(rest[len(label):], `="`)
				require.True(t, ok, line)
				var value strings.Builder
				for !strings.HasPrefix(rest, `"`) {
					require.NotEmpty(t, rest, line)
					c, size := rest[0], 1
					if c == '\\' {
						escaped := strings.IndexByte(`\"n`, rest[1])
						require.GreaterOrEqual(t, escaped, 0, line)
						c, size = "\\\"\n"[escaped], 2
					}
					value.WriteByte(c)
					rest = rest[size:]
				}
				require.NotContains(t, labels, label, line)
				labels[label] = value.String()
				if rest = rest[1:]; strings.HasPrefix(rest, ",") {
					rest = rest[1:]
					continue
				}
				require.True(t, strings.HasPrefix(rest, "}"), line)
			}
			line = rest[1:]
		} else {
			line = rest
		}
		require.True(t, strings.HasPrefix(line, " "), line)
		value, err := strconv.ParseFloat(line[1:], 64) // no time stamp
		require.NoError(t, err, line)
		series := name
		for _, label := range slices.Sorted(maps.Keys(labels)) {
			series += fmt.Sprintf(" %s=%q", label, labels[label])
		}
		require.NotContains(t, samples, series, "twice")
		samples[series] = value
	}
	require.Equal(t, len(helped), len(families))
	return samples
}

func TestPrometheus(t *testing.T) {
	path, _ := made(t, 2, traffic.Options{Connections: 6})
	verbs := wiretest.Path(t, "rxe-verbs6.pcap")
	for _, files := range [][]string{
		{path, verbs},
		{wiretest.Path(t, "messages.pcap"), wiretest.Path(t, "fastcnp.pcap"), wiretest.Path(t, "tour.pcap")},
		{wiretest.Path(t, "real/s4-rnr.eth0.pcap.gz")},
		{"-trouble", "-address", "192.0.2.77", path}, // nothing
	} {
		_, out, _ := run(t, nil, append([]string{"-prometheus"}, files...)...)
		exposition(t, out)
	}
	_, out, _ := run(t, nil, "-prometheus", path, verbs)
	all := exposition(t, out)
	require.EqualValues(t, 3, all[`rocecn_flow_repeats_total cause="rnr" dest_qp="23" dst="fd77::1" src="fd77::2"`])
	require.EqualValues(t, 4, all[`rocecn_unpaired_total dest_qp="23" dst="fd77::2" kind="rnr_nak" src="fd77::1"`])
}

// New information about a flow changes only the series of its info. Several values from one source make one series.
func TestPrometheusIdentity(t *testing.T) {
	src, dst := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	f := flows.Flow{FlowKey: flowKey(src, dst, 17), Requests: flows.Requests{Packets: 5}, Sequenced: true}
	f.Queue = flows.QueueDepth{Known: true, Node: 1, Depth: 5}
	text := func() string { return string(appendPrometheus(nil, &flows.Snapshot{Flows: []flows.Flow{f}})) }
	before := exposition(t, text())
	f.SrcQP, f.SrcQPFrom, f.Transport, f.Queue.Node = 18, 2, 3, 2
	after := exposition(t, text())
	key := ` dest_qp="17" dst="192.0.2.2"`
	for series := range before {
		if !strings.Contains(series, "_info") {
			require.Contains(t, after, series)
		}
	}
	require.Len(t, after, len(before))
	require.EqualValues(t, 1, before[`rocecn_flow_info`+key+` src="192.0.2.1" transport="RC"`])
	key += ` src="192.0.2.1"`
	require.EqualValues(t, 1, after[`rocecn_flow_info`+key+` src_qp="18" src_qp_from="votes" transport="UD"`], after)
	require.EqualValues(t, 5, after[`rocecn_flow_worst_queue_depth`+key])
	require.EqualValues(t, 1,
		after[`rocecn_flow_worst_queue_info dest_qp="17" dst="192.0.2.2" node="2" src="192.0.2.1"`])
}

// A Fast CNP about a flow that is not known, and another one from the same node,
// are one series, and count in no interval after theirs.
func TestNoticesOnce(t *testing.T) {
	table := flows.New(flows.Config{})
	var d flows.Decoder
	var p flows.Packet
	for i, r := range wiretest.Capture(t, "fastcnp.pcap") {
		d.Decode(&p, r.Data, rocev2.DecodeOptions{})
		table.Observe(&p, uint64(i+1), time.Unix(100, int64(i)))
	}
	first := table.Changes()
	samples := exposition(t, string(appendPrometheus(nil, first)))
	total := 0.0
	for series, n := range samples {
		if strings.HasPrefix(series, "rocecn_unpaired_total") {
			total += n
		}
	}
	require.EqualValues(t, len(wiretest.Capture(t, "fastcnp.pcap")), total)
	require.Empty(t, table.Changes().Unpaired)
}

// The quantiles of a hundred values differ from each other and from the greatest one.
func TestQuantiles(t *testing.T) {
	f := everything()
	f.RTT, f.AfterCE = new(flows.Histogram), new(flows.Histogram)
	for n := range 200 {
		f.RTT.Add(time.Duration(n+1) * time.Nanosecond)
		f.AfterCE.Add(time.Duration(n+1) * 2 * time.Nanosecond)
	}
	got := exposition(t, string(appendPrometheus(nil, &flows.Snapshot{Flows: []flows.Flow{f}})))
	for _, row := range []struct {
		name     string
		quantile string
		want     float64 // a histogram has an error of up to 3 %
	}{
		{"rtt", "0.5", 100e-9}, {"rtt", "0.99", 198e-9},
		{"cnp_after_ce", "0.5", 200e-9}, {"cnp_after_ce", "0.99", 396e-9},
	} {
		found := false
		for series, value := range got {
			if strings.HasPrefix(series, "rocecn_flow_"+row.name+"_seconds ") &&
				strings.Contains(series, fmt.Sprintf("quantile=%q", row.quantile)) {
				found = true
				require.InEpsilon(t, row.want, value, 0.03, series)
			}
		}
		require.True(t, found, "%v", row)
	}
}
