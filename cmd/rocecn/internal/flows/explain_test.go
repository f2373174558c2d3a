package flows

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"html/template"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/flows"
	"github.com/rocecn/rocecn/flows/triage"
	"github.com/rocecn/rocecn/internal/traffic"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
)

// explained runs the command on a capture in testdata.
func explainedOf(t *testing.T, args ...string) (out, stderr string, status int) {
	t.Helper()
	for i, arg := range args {
		if strings.Contains(arg, ".pcap") {
			args[i] = wiretest.Path(t, arg)
		}
	}
	var stdout, errs bytes.Buffer
	status = Run(context.Background(), args, nil, &stdout, &errs)
	return stdout.String(), errs.String(), status
}

// A verdict is a line of JSON after those of the flows, which name it.
func TestExplainJSON(t *testing.T) {
	out, _, status := explainedOf(t, "-json", "-explain", "real/write4-red-ect.eth1.pcap.gz")
	require.Zero(t, status)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.Len(t, lines, 1+3)
	lines = lines[1:] // without that of the capture
	var flow struct {
		Verdicts []string           `json:"verdicts"`
		Silence  map[string]float64 `json:"silence_us"`
	}
	require.NoError(t, json.Unmarshal([]byte(lines[0]), &flow))
	require.Equal(t, []string{"no CNP", "timeout"}, flow.Verdicts)
	require.Equal(t, map[string]float64{"least": 51, "most": 7174, "covered": 525, "ack_timeout": 3}, flow.Silence)
	var v verdictLine
	require.NoError(t, json.Unmarshal([]byte(lines[1]), &v))
	require.True(t, v.Verdict)
	require.Equal(t, []any{"no CNP", "", "10.2.0.1", 1, "2026-11-22T21:37:20.900974Z", "2026-11-22T21:37:24.120015Z"},
		[]any{v.Cause, v.Party, v.Suspects[0], v.Joined, v.Since, v.Until})
	require.Equal(t, []keyLine{{"10.1.0.1", "10.2.0.1", 45}}, v.Flows)
	require.Equal(t, []frameLine{{21, "CE"}, {2433, "CE"}}, v.Frames)
	require.Contains(t, lines[1], " && ", "not escaped")
}

// Nothing is said without the flag, nor of flows that are not chosen.
func TestExplainChosen(t *testing.T) {
	out, _, _ := explainedOf(t, "-json", "real/write4-red-ect.eth1.pcap.gz")
	for _, key := range []string{"verdict", "control", "silence"} {
		require.NotContains(t, out, key)
	}
	out, _, _ = explainedOf(t, "-json", "-explain", "-qp", "46", "real/write4-red-ect.eth1.pcap.gz")
	require.Equal(t, "{\"capture\":true}\n", out)
	out, _, _ = explainedOf(t, "-explain", "rxe-perf4.pcap")
	require.True(t, strings.HasPrefix(out, "nothing to explain\n\nFLOW"), out)
	out, _, _ = explainedOf(t, "-explain", "fastcnp.pcap")
	require.True(t, strings.HasPrefix(out, "nothing can be explained: the capture has no request of any flow\n"), out)
	out, _, _ = explainedOf(t, "-explain", "-interval", "1s", "-json", "real/s4-rnr.eth0.pcap.gz")
	require.Equal(t, 1, strings.Count(out, `"verdict":true`), "at the end")
	path, _ := made(t, 6, traffic.Options{Connections: 40})
	_, out, _ = run(t, nil, "-explain", "-max-flows", "16", path)
	require.True(t, strings.HasPrefix(out, "no explanations, because the table was full"), out)
	for _, other := range []string{"-csv", "-shard=0/2"} {
		_, stderr, status := explainedOf(t, "-explain", other, "rxe-perf4.pcap")
		require.Equal(t, 2, status)
		require.Contains(t, stderr, "-explain: cannot be combined with")
	}
}

// The findings are the same as JSON, as text, on the page, in top, as metrics and for rules.
func TestFindingsAgree(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.html")
	for _, name := range []string{"real/write4-red-ect.eth1.pcap.gz", "real/s4-rnr.eth0.pcap.gz", "rxe-verbs6.pcap",
		"real/send4-reorder.eth1.pcap.gz", "rxe-perf4.pcap"} {
		t.Run(name, func(t *testing.T) {
			out, _, _ := explainedOf(t, "-json", "-explain", name)
			var all []verdictLine
			for line := range strings.Lines(out) {
				var v verdictLine
				require.NoError(t, json.Unmarshal([]byte(line), &v))
				if v.Verdict {
					all = append(all, v)
				}
			}
			text, _, _ := explainedOf(t, "-explain", "-html", page, name)
			text = strings.Join(strings.Fields(text), " ")
			html := string(wiretest.Must(os.ReadFile(page))(t))
			_, screen, _ := top(t, nil, "-once", "-interval", "1h", wiretest.Path(t, name))
			metrics, _, _ := explainedOf(t, "-prometheus", "-explain", name)
			samples := exposition(t, metrics)
			want := map[string]float64{}
			for _, v := range all {
				require.Contains(t, text, v.Text)
				require.Contains(t, html, template.HTMLEscapeString(v.Text))
				require.Contains(t, screen, "verdict: "+v.Cause)
				if v.Party == "" && len(v.Suspects) > 0 {
					require.Contains(t, screen, "verdict: "+v.Cause+": perhaps "+v.Suspects[0])
				}
				want[causeName(causeOf(t, v.Cause))]++
			}
			for _, c := range triage.Causes() {
				severity, n := "problem", causeName(c)
				if c.IsSymptom() {
					severity = "symptom"
				}
				require.Equal(t, want[n], samples[fmt.Sprintf("rocecn_findings cause=%q severity=%q", n, severity)], n)
				_, _, status := explainedOf(t, "-check", "cause."+n+"=0", name)
				require.Equal(t, want[n] > 0, status == 3, n)
			}
		})
	}
}

// causeOf returns the cause with a name.
func causeOf(t *testing.T, name string) triage.Cause {
	t.Helper()
	for _, c := range triage.Causes() {
		if c.String() == name {
			return c
		}
	}
	t.Fatal(name)
	return 0
}

// The page knows the verdicts without the flag, and shows them nowhere else.
func TestExplainForThePage(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.html")
	out, _, status := explainedOf(t, "-json", "-html", page, "real/s4-rnr.eth0.pcap.gz")
	require.Zero(t, status)
	require.NotContains(t, out, "verdict")
	_, err := os.Stat(page)
	require.NoError(t, err)
}

// 4.096 µs times a power of two.
func TestAckTimeout(t *testing.T) {
	for _, c := range []struct {
		d    time.Duration
		want int
	}{{0, 0}, {5 * time.Microsecond, 0}, {8191, 0}, {8192, 1}, {67_108_864, 14},
		{67_108_863, 13}, {time.Hour * 1e6, 31}} {
		t.Run(fmt.Sprint(c.d), func(t *testing.T) { require.Equal(t, c.want, ackTimeoutOf(c.d), c.d) })
	}
}

// Rules limit the findings, and NAKs without a known flow.
func TestCheckFindings(t *testing.T) {
	const marked = "real/write4-red-ect.eth1.pcap.gz" // no CNP, timeout
	for _, c := range []struct {
		rule, capture, want string
	}{
		{"verdicts=0", "rxe-perf4.pcap", ""},
		{"verdicts=0", marked, "rule verdicts=0 is broken: the capture has verdicts 2"},
		{"verdicts<=2", marked, ""},
		{"cause.no-cnp=0", marked, "rule cause.no-cnp=0 is broken: the capture has cause.no-cnp 1"},
		{"cause.loss=0", marked, ""},
		{"naks=0", "rxe-verbs6.pcap", "rule naks=0 is broken: unpaired fd77::1 > fd77::2 qp 0x000016 has naks 1"},
		{"rnr_naks=0", "rxe-verbs6.pcap",
			"rule rnr_naks=0 is broken: unpaired fd77::1 > fd77::2 qp 0x000017 has rnr_naks 4"},
		{"acks<1000", "rxe-verbs6.pcap", ""},
	} {
		t.Run(c.rule, func(t *testing.T) {
			_, stderr, status := explainedOf(t, "-check", c.rule, c.capture)
			if c.want == "" {
				require.Zero(t, status, stderr)
				return
			}
			require.Equal(t, 3, status)
			require.Contains(t, stderr, c.want)
		})
	}
	for _, c := range []struct{ args, want string }{
		{"-check cause.cnp=0", "want one of pause-storm, incast,"},
		{"-check total.verdicts=0", "verdicts: want a count"},
		{"-check verdicts=0 -shard 0/2", "cannot be combined with -shard"},
		{"-all", "-all: want -explain as well"},
	} {
		_, stderr, status := explainedOf(t, append(strings.Fields(c.args), "rxe-perf4.pcap")...)
		require.Equal(t, 2, status)
		require.Contains(t, stderr, c.want)
	}
}

// Text has at most 10 findings, and states the number of the others.
func TestExplainAll(t *testing.T) {
	var a accountant
	for range 13 {
		a.verdicts = append(a.verdicts, triage.Verdict{Text: "a finding", Suspects: []string{"a", "b", "c"}})
	}
	print := func(all bool) string {
		var b bytes.Buffer
		a.options, a.out = &options{explains: true, form: "human", all: all}, bufio.NewWriter(&b)
		require.NoError(t, a.printVerdicts())
		return b.String()
	}
	short := print(false)
	require.Equal(t, 10, strings.Count(short, "a finding"))
	require.Contains(t, short, "3 more findings: -all\n")
	require.Contains(t, short, "pause storm: either a, b or c\n")
	require.Equal(t, 13, strings.Count(print(true), "a finding"))
}

// With a choice of flows, the verdicts about one of them remain, and those about no flow, such as the pause of a link.
func TestVerdictsOfChosenFlows(t *testing.T) {
	src, dst := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	one, two := flowKey(src, dst, 17), flowKey(src, dst, 18)
	about := func(c triage.Cause, keys ...rocev2.FlowKey) triage.Verdict {
		return triage.Verdict{Cause: c, Flows: keys}
	}
	a := &accountant{verdicts: []triage.Verdict{about(triage.CausePauseStorm), about(triage.CauseTimedOut, two),
		about(triage.CauseNotReady, one), about(triage.CauseIncast, two, one), about(triage.CauseNotReady, one)}}
	a.chooseVerdicts(&flows.Snapshot{Flows: []flows.Flow{{FlowKey: one}}})
	var causes []string
	for _, v := range a.verdicts {
		causes = append(causes, v.Cause.String())
	}
	require.Equal(t, []string{"pause storm", "receiver not ready", "incast", "receiver not ready"}, causes)
	require.Equal(t, []string{"receiver not ready", "incast"}, a.causes[one])
}
