package repo

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// Every requirement in CONFORMANCE.md names code and tests that exist, or says
// that it is none of the library's.
func TestConformance(t *testing.T) {
	wiretest.Once(t)
	table := wiretest.Must(os.ReadFile("CONFORMANCE.md"))(t)
	rows := 0
	tested := map[string]map[string]bool{} // by folder
	for line := range strings.Lines(string(table)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		id := strings.TrimSpace(cells[0])
		if !regexp.MustCompile(`^[FPWXB]\d\d$`).MatchString(id) {
			continue
		}
		rows++
		require.Len(t, cells, 6, line)
		code, tests := cells[4], cells[5]
		if code == "–" {
			require.NotEmpty(t, strings.TrimSpace(tests), "%s: why not", id)
			continue
		}
		for _, place := range quoted.FindAllStringSubmatch(code, -1) {
			_, err := os.Stat(place[1])
			require.NoError(t, err, id)
		}
		named := 0
		for group := range strings.SplitSeq(tests, "; ") {
			place := quoted.FindStringSubmatch(group)
			require.NotNil(t, place, "%s: no package in %q", id, group)
			has := tested[place[1]]
			if has == nil {
				has = functions(t, place[1])
				tested[place[1]] = has
			}
			for _, name := range regexp.MustCompile(`\b(Test|Fuzz|Example)\w*`).FindAllString(group, -1) {
				require.Contains(t, has, name, "%s: %s has no such test", id, place[1])
				named++
			}
		}
		require.Positive(t, named, "%s names no test", id)
	}
	require.Equal(t, 44+44+40+15+7, rows)
}

var quoted = regexp.MustCompile("`([^`]+)`")

// functions returns the names of the test functions in a folder.
func functions(t *testing.T, dir string) map[string]bool {
	files := wiretest.Must(filepath.Glob(filepath.Join(dir, "*_test.go")))(t)
	names := map[string]bool{}
	for _, file := range files {
		src := wiretest.Must(os.ReadFile(file))(t)
		for _, f := range regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example)\w*)\(`).FindAllSubmatch(src, -1) {
			names[string(f[1])] = true
		}
	}
	return names
}
