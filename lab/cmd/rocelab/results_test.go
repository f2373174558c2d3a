package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/lab"
	"github.com/rocecn/rocecn/lab/experiment"
	"github.com/rocecn/rocecn/lab/scenario"
	"github.com/stretchr/testify/require"
)

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

// tableRows returns a table: "C1: use of its link: cnp fastcnp".
func tableRows(t *testing.T, r *experiment.Results, what string) string {
	t.Helper()
	parts := strings.Split(what, ": ")
	require.Len(t, parts, 3, what)
	var variants []lab.Variant
	head, line := "| "+parts[1], "|---|"
	if unit := experiment.Unit(parts[1]); unit != "" {
		head += ", " + unit
	}
	for name := range strings.FieldsSeq(parts[2]) {
		var v lab.Variant
		require.NoError(t, v.UnmarshalText([]byte(name)))
		variants = append(variants, v)
		head, line = head+" | "+name, line+"---|"
	}
	out := head + " |\n" + line + "\n"
	require.NotEmpty(t, r.In(parts[0]), what)
	for _, c := range r.In(parts[0]) {
		out += "| " + c.Name
		for _, v := range variants {
			cell, _ := r.Cell(c, v, parts[1])
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
			out += fmt.Sprintf("| %v | %s | %s | %s |\n", v, scenario.Figure(p.Use), scenario.Figure(p.Peak),
				p.Thresholds())
		}
	}
	return out
}
