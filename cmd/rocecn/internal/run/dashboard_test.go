package run

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/flows"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/node/reaction"
)

// exported returns the metrics of an agent with all roles except the border, with their labels.
func exported(t *testing.T) map[string][]string {
	t.Helper()
	on := regexp.MustCompile(`(?m)^# ([a-z_]+ = )`).ReplaceAllString(reference, "$1")
	on, border, _ := strings.Cut(strings.ReplaceAll(on, "enabled = false", "enabled = true"), "[role.border]")
	require.NotEmpty(t, border) // nft plays it
	on = strings.Replace(on, "[role.switch]\n", "[role.switch]\nproxies_from = \"routing\"\npnc_code = 65281\n", 1)
	on = strings.Replace(on, "observe = []", "observe = [\"routers\"]", 1)
	f := wiretest.Must(parseFile([]byte(on)))(t)
	s := &server{log: slog.New(slog.NewTextHandler(io.Discard, nil)), dry: true}
	f.linkTables(nil, s.currentLog)
	require.NoError(t, s.applyFile(f, nil))
	defer s.close()
	s.border.dropped = map[borderDrops]uint64{{"border", "fast_cnp"}: 1}
	for _, a := range s.actors {
		a.latency.Observe(time.Millisecond)
		a.updateSizes(time.Now())
		a.rateStats.Store(new(reaction.TableStats)) // as of a sender that reacts
	}
	for _, p := range s.parts {
		p.publishQueues(time.Now())
	}
	text := string(s.formatMetrics())
	labels := labelsOf(text)
	labels["rocecn_shaped_packets_total"] = []string{"instance", "role", "wait"} // of a program in the kernel
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (\w+) `).FindAllStringSubmatch(text, -1) {
		if !strings.HasSuffix(m[1], "_seconds") { // a histogram has other names
			require.Contains(t, labels, m[1], "no sample")
		}
	}
	return labels
}

// labelsOf returns the metrics of a text with their labels.
func labelsOf(text string) map[string][]string {
	labels := map[string][]string{}
	sample := regexp.MustCompile(`(?m)^(\w+)(?:\{(.*)\})? \S+$`)
	for _, m := range sample.FindAllStringSubmatch(text, -1) {
		names := []string{"instance"} // added by Prometheus
		for _, l := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(m[2], -1) {
			names = append(names, l[1])
		}
		labels[m[1]] = names
	}
	return labels
}

var (
	selector   = regexp.MustCompile(`\b(rocecn_\w+)(?:\{([^}]*)\})?`)
	labelName  = regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)`)
	grouping   = regexp.MustCompile(`\bby \(([^)]*)\)`)
	shownLabel = regexp.MustCompile(`\{\{\s*(\w+)\s*\}\}`)
	labelQuery = regexp.MustCompile(`^label_values\((.*), (\w+)\)$`)
)

// wrongIn returns the metrics and labels of a query, shown with this legend, that do not exist.
func wrongIn(query, legend string, labels map[string][]string) (wrong []string) {
	usedLabels := []string{}
	if m := labelQuery.FindStringSubmatch(query); m != nil {
		query, usedLabels = m[1], append(usedLabels, m[2])
	}
	names := selector.FindAllStringSubmatch(query, -1)
	if names == nil {
		return []string{"no metric"}
	}
	left := shownLabel.FindAllStringSubmatch(legend, -1)
	for _, l := range left {
		usedLabels = append(usedLabels, l[1])
	}
	if m := grouping.FindStringSubmatch(query); m != nil { // the grouping removes the others
		by := strings.Split(m[1], ", ")
		for _, l := range left {
			if !slices.Contains(by, l[1]) {
				wrong = append(wrong, l[1])
			}
		}
		usedLabels = append(usedLabels, by...)
	}
	for _, m := range names {
		has, ok := labels[m[1]]
		if !ok {
			wrong = append(wrong, m[1])
			continue
		}
		of := usedLabels
		for _, l := range labelName.FindAllStringSubmatch(m[2], -1) {
			of = append(of, l[1])
		}
		for _, l := range of {
			if !slices.Contains(has, l) {
				wrong = append(wrong, m[1]+"{"+l+"}")
			}
		}
	}
	return wrong
}

// captured returns the metrics of rocecn flows -listen.
func captured(t *testing.T) map[string][]string {
	t.Helper()
	ctx, interrupt := context.WithCancel(t.Context())
	output, logs := io.Pipe()
	done := make(chan int, 1)
	go func() {
		done <- flows.Run(ctx, []string{"-listen", "127.0.0.1:0", wiretest.Path(t, "tour.pcap")}, nil, io.Discard, logs)
	}()
	lines := bufio.NewReader(output)
	first := wiretest.Must(lines.ReadString('\n'))(t)
	go io.Copy(io.Discard, lines)
	answer := wiretest.Must(http.Get(regexp.MustCompile(`http://\S+`).FindString(first) + "metrics"))(t)
	defer answer.Body.Close()
	text := wiretest.Must(io.ReadAll(answer.Body))(t)
	interrupt()
	require.Zero(t, <-done)
	return labelsOf(string(text))
}

// The dashboard uses existing metrics and labels of the agent or a capture, and all of their metrics.
func TestDashboard(t *testing.T) {
	labels := exported(t)
	maps.Copy(labels, captured(t))
	file := filepath.Join(wiretest.Root(t), "packaging", "dashboard.json")
	octets := wiretest.Must(os.ReadFile(file))(t)
	var d struct {
		Templating struct {
			List []struct{ Name, Type, Definition string }
		}
		Panels []struct {
			ID      int
			Title   string
			Type    string
			Targets []struct{ Expr, LegendFormat string }
		}
	}
	require.NoError(t, json.Unmarshal(octets, &d))
	var all, known string
	for _, v := range d.Templating.List {
		known += " $" + v.Name
		if v.Type == "query" {
			require.Empty(t, wrongIn(v.Definition, "", labels), v.Definition)
		}
	}
	ids := map[int]bool{}
	for _, p := range d.Panels {
		require.False(t, ids[p.ID], "%d is there twice", p.ID)
		ids[p.ID] = true
		require.Equal(t, p.Type == "row", len(p.Targets) == 0, p.Title)
		for _, q := range p.Targets {
			require.Empty(t, wrongIn(q.Expr, q.LegendFormat, labels), q.Expr)
			require.Equal(t, strings.Count(q.Expr, "("), strings.Count(q.Expr, ")"), q.Expr)
			for _, v := range regexp.MustCompile(`\$[a-z]\w*`).FindAllString(q.Expr, -1) {
				require.Contains(t, known+" ", v, q.Expr)
			}
			changes := regexp.MustCompile(`(rate|increase)\(rocecn_\w+_(total|bucket)\{`).MatchString(q.Expr)
			require.Equal(t, regexp.MustCompile(`_(total|bucket)\b`).MatchString(q.Expr), changes, q.Expr)
			all += q.Expr + "\n"
		}
	}
	for name := range labels {
		switch {
		case strings.HasPrefix(name, "rocecn_latency_seconds"):
		case name == "rocecn_role_enabled", name == "rocecn_config_last_reload_success_timestamp_seconds",
			name == "rocecn_role_to_sink_total": // the sum of sent packets and send errors
		default:
			require.Contains(t, all, name+"{", "no panel shows it")
		}
	}
}

func TestWrongQueriesAreFound(t *testing.T) {
	labels := map[string][]string{"rocecn_a_total": {"instance", "role"}, "rocecn_b": {"source"}}
	for _, c := range []struct {
		query, legend string
		wrong         []string
	}{
		{`rate(rocecn_a_total{role=~"$role"}[5m])`, "{{role}}", nil},
		{`rate(rocecn_a{role=~"$role"}[5m])`, "{{role}}", []string{"rocecn_a"}},
		{`rate(rocecn_a_total{rule="x"}[5m])`, "", []string{"rocecn_a_total{rule}"}},
		{`sum by (role) (rocecn_a_total)`, "{{role}}", nil},
		{`sum by (role) (rocecn_a_total)`, "{{instance}}", []string{"instance"}},
		{`sum by (kind) (rocecn_a_total)`, "", []string{"rocecn_a_total{kind}"}},
		{`rocecn_a_total / rocecn_b`, "{{role}}", []string{"rocecn_b{role}"}},
		{`label_values(rocecn_b, source)`, "", nil},
		{`label_values(rocecn_b{role="x"}, input)`, "", []string{"rocecn_b{input}", "rocecn_b{role}"}},
		{`up`, "", []string{"no metric"}},
	} {
		t.Run(c.query, func(t *testing.T) { require.Equal(t, c.wrong, wrongIn(c.query, c.legend, labels)) })
	}
}

// Errors of the HTTP server are logged to the current log, also after a reload has changed it.
func TestAnswersLog(t *testing.T) {
	s := prepared(t, "")
	var out bytes.Buffer
	s.log = slog.New(slog.NewTextHandler(&out, nil))
	log := s.newHTTPServer().ErrorLog
	log.Print("http: Accept error")
	require.Contains(t, out.String(), ` level=WARN msg="http: Accept error"`)
	s.log = slog.New(slog.NewJSONHandler(&out, nil))
	log.Print("http: Accept error")
	require.Contains(t, out.String(), `"level":"WARN","msg":"http: Accept error"}`)
}

// The documentation's table of metrics is complete.
func TestMetricsTable(t *testing.T) {
	names := func(text, pattern string) map[string]bool {
		all := map[string]bool{}
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
			all[m[1]] = true
		}
		return all
	}
	page := string(octetsOf(t, filepath.Join(wiretest.Root(t), "docs", "running.md")))
	_, table, found := strings.Cut(page, "| metric | |\n")
	require.True(t, found)
	has := names(string(prepared(t, "").formatMetrics()), `(?m)^# TYPE (\w+) `)
	require.Greater(t, len(has), 20)
	require.Equal(t, has, names(table, "`(rocecn_\\w+)`"))
	require.Len(t, regexp.MustCompile("`rocecn_\\w+`").FindAllString(table, -1), len(has), "each once")
}

// A dry run reports no sent packets in its status.
func TestStatusOfRehearsal(t *testing.T) {
	s := prepared(t, readConfig("rehearsal")+everyRole["receiver"])
	var out bytes.Buffer
	s.log = slog.New(slog.NewTextHandler(&out, nil))
	s.logStatus()
	require.Contains(t, out.String(), " msg=status role=receiver ")
	require.NotContains(t, out.String(), "sink=")
}
