package wiretest

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var promise = flag.Bool("promise", false, "add new facts to the files of api about the tool")

// Promised requires that all promises of docs/stability.md still hold, as a file of api lists them,
// a fact a line. With -promise it adds the facts that are new. From 1.0.0 on no line leaves such a
// file, except by hand for facts that the revision of a draft removes.
func Promised(t testing.TB, file string, facts map[string]bool) {
	t.Helper()
	path := filepath.Join(Root(t), "api", file)
	text, err := os.ReadFile(path)
	if err != nil && !*promise {
		t.Fatal(err)
	}
	all := strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
	for _, fact := range all {
		if !facts[fact] {
			t.Errorf("api/%s promises a fact that no longer holds: %s", file, fact)
		}
	}
	if !*promise {
		if len(all) == 0 {
			t.Errorf("api/%s promises nothing", file)
		}
		return
	}
	for fact := range facts {
		all = append(all, fact)
	}
	slices.Sort(all)
	if err := os.WriteFile(path, []byte(strings.Join(slices.Compact(all), "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Fields calls f with the path and the type of every field in a value that was read from JSON.
func Fields(path string, value any, f func(path, kind string)) {
	switch v := value.(type) {
	case map[string]any:
		for name, member := range v {
			Fields(path+"."+name, member, f)
		}
	case []any:
		for _, element := range v {
			Fields(path+"[]", element, f)
		}
	case string:
		f(path, "string")
	case float64:
		f(path, "number")
	case bool:
		f(path, "bool")
	}
}

var (
	familyLine = regexp.MustCompile(`(?m)^# TYPE (\w+) (\w+)$`)
	sampleLine = regexp.MustCompile(`(?m)^(\w+)(?:\{(.*)\})? `)
	labelName  = regexp.MustCompile(`(\w+)="`)
)

// Metrics calls f with the name and the type of every metric in a text for Prometheus, and with the name and the labels
// of every sample.
func Metrics(text string, f func(name, kind string)) {
	for _, family := range familyLine.FindAllStringSubmatch(text, -1) {
		f(family[1], family[2])
	}
	for _, sample := range sampleLine.FindAllStringSubmatch(text, -1) {
		var labels []string
		for _, label := range labelName.FindAllStringSubmatch(sample[2], -1) {
			labels = append(labels, label[1])
		}
		f(sample[1], "{"+strings.Join(labels, ",")+"}")
	}
}
