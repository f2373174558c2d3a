package wiretest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Cases returns the cases of a text file in the folder testdata of the tested package. A case is a line, and the lines
// after it that are indented by a tab. Lines that begin with // are comments. The words are replaced in every line as
// by [strings.NewReplacer].
func Cases(t testing.TB, name string, words ...string) (cases [][]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	replacer := strings.NewReplacer(words...)
	for line := range strings.Lines(string(text)) {
		line, indented := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "\t")
		switch {
		case indented:
			cases[len(cases)-1] = append(cases[len(cases)-1], replacer.Replace(line))
		case !strings.HasPrefix(line, "//"):
			cases = append(cases, []string{replacer.Replace(line)})
		}
	}
	if len(cases) == 0 {
		t.Fatal(name + ": no cases")
	}
	return cases
}
