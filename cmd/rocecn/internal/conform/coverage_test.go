package conform

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
)

// untested are the rows of CONFORMANCE.md that have no case, with the reason.
var untested = []struct{ rows, reason string }{
	{"F35 P02 P04 P10 W02", "background, or a decision inside the host that no packet shows"},
	{"F36 P05 P07 P09", "a duty of the operator"},
	{"P24 P25 P26 P28 P29 P30 P31 P32 P33 P34 P35 P36 P44 B06 B07",
		"routing protocols: the advertisement of proxies is tested with routing daemons, not on the data path"},
	{"B04", "the egress of a tunnel has no role here"},
}

// Each row of CONFORMANCE.md has a case, or its reason here and in docs/conform.md.
func TestCoverage(t *testing.T) {
	wiretest.Once(t)
	root := wiretest.Root(t)
	table := string(wiretest.Must(os.ReadFile(filepath.Join(root, "CONFORMANCE.md")))(t))
	document := string(wiretest.Must(os.ReadFile(filepath.Join(root, "docs", "conform.md")))(t))
	rows := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\| ([FPWXB]\d\d) \|`).FindAllStringSubmatch(table, -1) {
		rows[m[1]] = true
	}
	require.Len(t, rows, 150)
	covered := map[string]bool{}
	for _, name := range roleNames {
		ids := map[string]bool{}
		for _, c := range roleInfos[name].cases() {
			require.Regexp(t, `^[FPWXB]\d\d\.\d+$`, c.id)
			require.False(t, ids[c.id], "%s: %s stands twice", name, c.id)
			require.NotEmpty(t, c.section, c.id)
			require.NotEmpty(t, c.expected, c.id)
			ids[c.id] = true
			for _, row := range append(slices.Clone(c.covers), c.requirement()) {
				require.Contains(t, rows, row, "%s: %s", name, c.id)
				covered[row] = true
			}
			for _, word := range c.needs {
				require.Contains(t, abilities, strings.TrimPrefix(word, "!"), c.id)
			}
		}
	}
	t.Logf("%d of %d rows have a case: %v", len(covered), len(rows), slices.Sorted(maps.Keys(covered)))
	require.GreaterOrEqual(t, len(covered), 80)
	for _, u := range untested {
		for row := range strings.FieldsSeq(u.rows) {
			require.Contains(t, rows, row)
			require.False(t, covered[row], "%s has a case", row)
			covered[row] = true
		}
		require.Contains(t, document, "| "+strings.ReplaceAll(u.rows, " ", ", ")+" | "+u.reason+" |")
	}
	for _, row := range slices.Sorted(maps.Keys(rows)) {
		require.True(t, covered[row], "%s has neither a case nor a reason", row)
	}
}

// Each case is as strict as its document, and needs the abilities without which a device cannot pass it. The file has a
// line for each case: role, id, level, and the words of device.supports that it needs or, after !, must not have.
func TestCasesByAbility(t *testing.T) {
	var all strings.Builder
	for _, name := range roleNames {
		for _, c := range roleInfos[name].cases() {
			fmt.Fprintln(&all, strings.Join(append([]string{name, c.id, string(c.level)}, c.needs...), " "))
		}
	}
	require.Equal(t, string(wiretest.Must(os.ReadFile(wiretest.OwnPath(t, "cases.txt")))(t)), all.String())
}
