package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/lab"
	"github.com/rocecn/rocecn/lab/experiment"
	"github.com/rocecn/rocecn/lab/scenario"
)

func call(ctx context.Context, stdin string, args ...string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	status = runCommand(ctx, args, strings.NewReader(stdin), &out, &errs)
	return status, out.String(), errs.String()
}

const incast = `{"name": "an incast", "duration": "300us", "topology": {"kind": "star", "hosts": 5},
	"traffic": [{"kind": "incast", "senders": 4, "jitter": "1us"}]}`

func TestRun(t *testing.T) {
	status, out, errs := call(t.Context(), incast, "run", "-")
	require.Equal(t, 0, status, errs)
	require.Regexp(t, `^(-: \d+ %\n)*$`, errs, "only the progress, on a slow machine")
	require.True(t, strings.HasPrefix(out, "an incast\n\ncnp: reaction paper"), out)
	require.Regexp(t, `(?m)^peak of the deepest queue +KB +[\d.]+ +[\d.]+ +[\d.]+$`, out)

	status, out, errs = call(t.Context(), incast, "run", "-json", "-variants", "oracle", "-")
	require.Equal(t, 0, status, errs)
	require.Equal(t, 1, strings.Count(out, "\n"))
	require.Contains(t, out, `"variant":"oracle"`)

	status, out, errs = call(t.Context(), incast, "run", "-json", "-")
	require.Equal(t, 0, status, errs)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.Len(t, lines, 3)
	for _, line := range lines {
		var v struct {
			Variant, Line, Duration string
			Topology                map[string]any
			Traffic                 []map[string]any
			Scenario                json.RawMessage
			Whole                   bool
			Events                  uint64
			Metrics                 []struct{ Name string }
		}
		require.NoError(t, json.Unmarshal([]byte(line), &v))
		require.Equal(t, "300µs", v.Duration)
		require.True(t, v.Whole)
		require.Greater(t, v.Events, uint64(1000))
		require.Contains(t, fmt.Sprint(v.Metrics), "{peak after the warmup}", "as experiments have it")
		require.EqualValues(t, "star 5 100G 1µs", fmt.Sprint(v.Topology["kind"], " ", v.Topology["hosts"], " ",
			v.Topology["rate"], " ", v.Topology["delay"]))
		require.Equal(t, "incast", v.Traffic[0]["kind"])
		want := wiretest.Must(scenario.Read([]byte(incast)))(t)
		got := wiretest.Must(scenario.Read(v.Scenario))(t)
		require.Equal(t, want, got, "scenario that repeats the run")
		require.Contains(t, v.Line, v.Variant+": ")
		require.Equal(t, "peak of the deepest queue", v.Metrics[0].Name)
	}
}

// Any scenario has a table of its messages, and one over time.
func TestTables(t *testing.T) {
	messages, series := filepath.Join(t.TempDir(), "m.csv"), filepath.Join(t.TempDir(), "s.csv")
	const list = `{"duration": "200us", "topology": {"kind": "star", "hosts": 3}, "variants": ["none"], "seeds": [7],
		"switch": {"pipeline": "0s"},
		"traffic": [{"kind": "list", "messages": [{"from": 0, "to": 2, "size": "1024", "at": "100us"}]}]}`
	status, _, errs := call(t.Context(), list, "run", "-messages", messages, "-series", series, "-")
	require.Equal(t, 0, status, errs)
	// Two links of 1 µs and 90.08 ns for the packet, back the same with an acknowledgement of 106 octets: 8.48 ns.
	require.Equal(t, "variant,seed,from,to,octets,posted_us,completion_us,alone_us,slowdown\n"+
		"none,7,0,2,1024,100,4.19712,4.19712,1\n", string(wiretest.Must(os.ReadFile(messages))(t)))
	lines := strings.Split(string(wiretest.Must(os.ReadFile(series))(t)), "\n")
	require.Len(t, lines, 1+200+1)
	require.Equal(t, "variant,seed,end_us,port,queue_octets,use_percent,rate_gbps,notifications", lines[0])
	require.Equal(t, "none,7,1,switch 0 to host 2,0,0,100,0", lines[1])
	require.Equal(t, "none,7,102,switch 0 to host 2,0,9.008,100,0", lines[102])
}

func TestWrongArguments(t *testing.T) {
	wrong := filepath.Join(t.TempDir(), "wrong.json")
	require.NoError(t, os.WriteFile(wrong, []byte(`{"duration": "1ms", "topology": {"kind": "ring"}}`), 0o644))
	for _, c := range []struct {
		args   string
		status int
		errs   string
	}{
		{"", misused, "usage: rocelab run"},
		{"ran", misused, "ran is no command"},
		{"run", misused, "usage: rocelab run"},
		{"run -nothing -", misused, "flag provided but not defined: -nothing\n" + usage},
		{"run -seeds x C2", misused, "invalid value \"x\" for flag -seeds: parse error\n" + usage},
		{"merge -nothing -", misused, "flag provided but not defined: -nothing\n" + usage},
		{"check -nothing A1", misused, "flag provided but not defined: -nothing\n" + usage},
		{"run nowhere.json", failed, "nowhere.json: no such file"},
		{"run - " + wrong, failed, wrong +
			`: topology.kind: "ring": want star, line, circle, leaf-spine, fat-tree, wan, two-dc or fork`},
		{"check A99", misused, "A99 is no check"},
		{"run C2 -", misused, "scenarios and experiments are run apart"},
		{"run -quick -", misused, "-html, -quick, -seeds, -cases, -share and -results are for experiments: C1, C1a, "},
		{"run -share 3/2 C2", misused, `-share: "3/2" is not a share such as 2/8`},
		{"run -share 1/2x C2", misused, `-share: "1/2x" is not a share such as 2/8`},
		{"run -variants cnp C2", misused, "-variants, -messages and -series: want scenarios, not experiments"},
		{"run -series x - -", misused, "-messages and -series: want one scenario"},
		{"run -variants hpcc -", misused, `-: -variants: "hpcc": want some of cnp,fastcnp,oracle`},
		{"run -cases [ C2", misused, "-cases: error parsing regexp: missing closing ]"},
		{"run -seeds -1 C2", misused, "-seeds: -1: want 1 to 1000"},
		{"merge", misused, "usage: rocelab run"},
		{"merge nowhere.json", failed, "nowhere.json: no such file"},
		{"merge -", failed, "rocelab merge: -: "},
	} {
		t.Run(c.args, func(t *testing.T) {
			status, out, errs := call(t.Context(), incast, strings.Fields(c.args)...)
			require.Equal(t, c.status, status)
			require.Contains(t, errs, c.errs)
			require.Empty(t, out, "%s: nothing runs where a later file is wrong", c.args)
		})
	}
	status, out, _ := call(t.Context(), "", "-h")
	require.Equal(t, 0, status)
	require.Equal(t, usage, out)
	status, _, errs := call(t.Context(), "", "check", "-h")
	require.Equal(t, 0, status)
	require.Equal(t, usage, errs)
}

// Shares of an experiment that are put together are the experiment.
func TestExperiments(t *testing.T) {
	dir := t.TempDir()
	var files []string
	for _, share := range []string{"1/2", "2/2"} {
		status, out, errs := call(t.Context(), "", "run", "-json", "-quick", "-seeds", "1", "-share", share, "C2m")
		require.Equal(t, 0, status, errs)
		files = append(files, filepath.Join(dir, share[:1]))
		require.NoError(t, os.WriteFile(files[len(files)-1], []byte(out), 0o644))
	}
	status, merged, errs := call(t.Context(), "", append([]string{"merge", "-json"}, files...)...)
	require.Equal(t, 0, status, errs)
	require.Empty(t, errs)
	status, whole, errs := call(t.Context(), "", "run", "-json", "-quick", "-seeds", "1", "C2m")
	require.Equal(t, 0, status, errs)
	require.Equal(t, whole, merged)
	require.True(t, json.Valid([]byte(whole)))
	require.Contains(t, whole, `"name":"C2m, incast, the completion of messages: rate 100 Gbit/s, buffer unlimited, `+
		`senders 8, message 64 KB"`, "each scenario names its experiment, also where it is run alone")

	status, out, errs := call(t.Context(), "", "merge", files[0])
	require.Equal(t, 0, status)
	require.Equal(t, "rocelab merge: 20 runs are missing\n", errs)
	require.True(t, strings.HasPrefix(out, "C2m: incast, the completion of messages\n"), out)

	status, out, errs = call(t.Context(), "", "run", "-quick", "-seeds", "1", "-cases", "senders 8, message 64 KB",
		"C2m")
	require.Equal(t, 0, status, errs)
	require.Equal(t, 2, strings.Count(out, "\nrate 100 Gbit/s, "), "with and without PFC")

	// A run continues where an earlier one ended: the cases in the file do not run again.
	ctx, end := context.WithCancel(t.Context())
	end()
	status, out, errs = call(ctx, "", "run", "-json", "-quick", "-seeds", "1", "-results", files[0], "-share", "1/2",
		"C2m")
	require.Equal(t, 0, status, errs)
	require.Equal(t, string(wiretest.Must(os.ReadFile(files[0]))(t)), out)
	status, _, errs = call(ctx, "", "run", "-seeds", "1", "-results", files[0], "C2m")
	require.Equal(t, failed, status)
	require.Equal(t, "rocelab run: -results: "+files[0]+": results of size quick: want full\n", errs)

	// A run of other cases keeps those in the file.
	readRuns := func() []experiment.Run {
		var r experiment.Results
		require.NoError(t, json.Unmarshal(wiretest.Must(os.ReadFile(files[0]))(t), &r))
		return r.Runs
	}
	before := readRuns()
	status, _, errs = call(t.Context(), "", "run", "-quick", "-seeds", "1", "-results", files[0], "-cases",
		"unlimited, senders 8, message 1000 KB", "C2m")
	require.Equal(t, 0, status, errs)
	after := readRuns()
	require.Greater(t, len(after), len(before))
	for _, run := range before {
		require.Contains(t, after, run)
	}

	status, _, errs = call(ctx, "", "run", "-quick", "-seeds", "1", "C2m")
	require.Equal(t, interrupted, status)
	require.Equal(t, "rocelab run: interrupted; 40 runs are missing\n", errs)
}

func TestCheck(t *testing.T) {
	status, out, errs := call(t.Context(), "", "check", "-quick", "A1", "A3", "B1")
	require.Equal(t, 0, status, errs)
	require.Regexp(t, `(?m)^A1 +1 switches, packet 1 .* ps +ok$`, out)
	require.Contains(t, out, "\nA3 ")
	require.NotContains(t, out, "\nB1 ", "it is not quick")
}

// After an interrupt the results so far are printed.
func TestInterrupt(t *testing.T) {
	ctx, end := context.WithTimeout(t.Context(), 3*time.Second)
	defer end()
	long := strings.Replace(incast, "300us", "1000s", 1)
	status, out, errs := call(ctx, long, "run", "-", "../../docs/scenarios/line.json")
	require.Equal(t, interrupted, status, errs)
	require.Contains(t, errs,
		"rocelab run: interrupted; -: 0 of 3 runs ended; missing: ../../docs/scenarios/line.json\n")
	require.Contains(t, out, "interrupted: cnp, seed 1, ended after ")

	ctx, end = context.WithTimeout(t.Context(), 3*time.Second)
	defer end()
	_, out, _ = call(ctx, long, "run", "-json", "-")
	require.Contains(t, out, `"whole":false`)

	ctx, end = context.WithCancel(t.Context())
	end()
	status, out, errs = call(ctx, "", "check", "A1", "B1")
	require.Equal(t, interrupted, status)
	require.Equal(t, 1, strings.Count(out, "\n"), "the head of the table alone")
	require.Equal(t, "rocelab check: interrupted; missing: A1, 12 of 12 rows; B1, 10 of 10 rows\n", errs)

	// In the middle of a check.
	ctx, end = context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer end()
	status, _, errs = call(ctx, "", "check", "B1")
	require.Equal(t, interrupted, status)
	require.Contains(t, errs, "missing: B1, 10 of 10 rows\n")
}

// The figures of docs/results.md are those of docs/results/quick.json, which has all experiments, and full.json. A
// table stands between <!-- table C1: use of its link: cnp fastcnp --> and <!-- end -->, and has all cases of the
// experiment; one of full.json begins with "full"; a frontier of C14 stands between <!-- frontier WAN far --> and
// <!-- end -->.
func TestResults(t *testing.T) {
	t.Chdir("../..")
	quick, full := results(t, "docs/results/quick.json", "quick"), results(t, "docs/results/full.json", "full")
	for _, e := range experiment.All() {
		require.NotEmpty(t, quick.In(e.ID), e.ID)
	}

	const file = "docs/results.md"
	old := wiretest.Must(os.ReadFile(file))(t)
	tables := 0
	blocks := regexp.MustCompile(`(?s)<!-- (table|full|frontier) [^\n]* -->\n.*?<!-- end -->`)
	made := blocks.ReplaceAllStringFunc(string(old), func(block string) string {
		tables++
		head, _, _ := strings.Cut(block, "\n")
		what := strings.TrimSuffix(strings.TrimPrefix(head, "<!-- "), " -->")
		rows := ""
		if network, ok := strings.CutPrefix(what, "frontier "); ok {
			rows = frontierRows(quick, network)
		} else if table, ok := strings.CutPrefix(what, "full "); ok {
			rows = tableRows(t, full, table)
		} else {
			rows = tableRows(t, quick, strings.TrimPrefix(what, "table "))
		}
		return head + "\n" + rows + "<!-- end -->"
	})
	require.NotZero(t, tables)
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(made), 0o644))
		return
	}
	require.Equal(t, string(old), made, "go test ./cmd/rocelab -run TestResults -update")
}

// results reads results of a size that are whole.
func results(t *testing.T, file, size string) *experiment.Results {
	t.Helper()
	text := wiretest.Must(os.ReadFile(file))(t)
	var r experiment.Results
	require.NoError(t, json.Unmarshal(text, &r))
	require.Equal(t, size, r.Size)
	require.Regexp(t, `^[0-9a-f]{12}(, [0-9a-f]{12})*$`, r.Commit)
	require.Zero(t, r.Missing())
	return &r
}

// tableRows returns a table: "C1: use of its link: cnp fastcnp Δ". Δ stands for the differences of the named variants
// from their baselines, seed by seed, except those of none, oracle and hpcc.
func tableRows(t *testing.T, r *experiment.Results, what string) string {
	t.Helper()
	parts := strings.Split(what, ": ")
	require.Len(t, parts, 3, what)
	cases, figure := r.In(parts[0]), parts[1]
	require.NotEmpty(t, cases, what)
	head, line := "| "+figure, "|---|"
	if unit := r.UnitText(cases[0], figure); unit != "" {
		head += ", " + unit
	}
	type column struct {
		v       lab.Variant
		changes bool
	}
	var columns []column
	for name := range strings.FieldsSeq(parts[2]) {
		if name == "Δ" {
			for _, c := range slices.Clone(columns) {
				if !slices.Contains([]lab.Variant{lab.None, lab.CNP, lab.Oracle, lab.HPCC}, c.v) {
					columns = append(columns, column{c.v, true})
					head, line = head+" | "+c.v.String()+", difference", line+"---|"
				}
			}
			continue
		}
		var v lab.Variant
		require.NoError(t, v.UnmarshalText([]byte(name)))
		columns = append(columns, column{v, false})
		head, line = head+" | "+name, line+"---|"
	}
	out := head + " |\n" + line + "\n"
	for _, c := range cases {
		out += "| " + c.Name
		for _, col := range columns {
			cell := "–"
			if !col.changes {
				cell, _ = r.Cell(c, col.v, figure)
			} else if change, ok := r.Change(c, col.v, figure); ok {
				cell = change.String()
			}
			out += " | " + cell
		}
		out += " |\n"
	}
	return out
}

func frontierRows(r *experiment.Results, network string) string {
	out := "| variant | use of the link, % | peak after the warmup, KB | thresholds |\n|---|---|---|---|\n"
	for _, v := range []lab.Variant{lab.CNP, lab.FastCNP, lab.Oracle} {
		for _, p := range r.Frontier(network, v) {
			use, _ := r.Cell(p.Case, v, "use of its link")
			peak, _ := r.Cell(p.Case, v, "peak after the warmup")
			out += fmt.Sprintf("| %v | %s | %s | %s |\n", v, use, peak, p.Thresholds())
		}
	}
	return out
}

var update = flag.Bool("update", false, "write the outputs in the document again")

// The documents show the output of the tool: every line of a console block that begins with $ is a command, in the root
// of its module.
func TestDocument(t *testing.T) {
	wiretest.Once(t)
	wiretest.Alone(t)
	t.Chdir("../..")
	requireDocumented(t, "docs/laboratory.md", 4)
	requireDocumented(t, "docs/checks.md", 1)
}

// requireDocumented compares the console blocks of a file with the output of their commands, or writes it.
func requireDocumented(t *testing.T, file string, count int) {
	t.Helper()
	text := wiretest.Must(os.ReadFile(file))(t)
	blocks := 0
	made := regexp.MustCompile("(?s)```console\n.*?```").ReplaceAllStringFunc(string(text), func(block string) string {
		blocks++
		out := bytes.NewBufferString("```console\n")
		for line := range strings.Lines(block) {
			if args, ok := strings.CutPrefix(line, "$ rocelab "); ok {
				out.WriteString(line)
				var messages bytes.Buffer // progress among them, on a slow machine
				status := runCommand(t.Context(), strings.Fields(args), strings.NewReader(""), out, &messages)
				require.Equal(t, 0, status, messages.String())
			}
		}
		return out.String() + "```"
	})
	require.Equal(t, count, blocks)
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(made), 0o644))
		return
	}
	require.Equal(t, string(text), made, "go test ./cmd/rocelab -update")
}

// The scenarios of the documents are right.
func TestScenarios(t *testing.T) {
	files := wiretest.Must(filepath.Glob("../../docs/scenarios/*.json"))(t)
	require.Len(t, files, 12)
	for _, file := range files {
		text := wiretest.Must(os.ReadFile(file))(t)
		s, err := scenario.Read(text)
		require.NoError(t, err, file)
		require.LessOrEqual(t, bytes.Count(text, []byte("\n")), 30)
		require.NotEmpty(t, s.Name)
	}
}
