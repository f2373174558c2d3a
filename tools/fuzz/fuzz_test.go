package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

var targets = []target{
	{"example.com/m", "example.com/m/a", "", "FuzzA"}, {"example.com/m", "example.com/m/a", "", "FuzzB"},
	{"example.com/m", "example.com/m/b", "", "FuzzA"},
}

func TestShares(t *testing.T) {
	for _, c := range []struct {
		name string
		want []target
	}{
		{"1/1", targets}, {"1/2", []target{targets[0], targets[2]}}, {"2/2", []target{targets[1]}}, {"4/4", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := wiretest.Must(shareOf(targets, c.name))(t)
			require.Equal(t, c.want, got)
		})
	}
	for _, share := range []string{"", "1", "0/2", "3/2", "a/b"} {
		_, err := shareOf(targets, share)
		require.ErrorContains(t, err, "not as 1/3", share)
	}
}

// The target that has had the least time is next, and none that has had all.
func TestLeast(t *testing.T) {
	var runs []record
	for _, step := range []struct {
		ran   int
		had   time.Duration
		index int // of the next one
		lacks time.Duration
	}{
		{0, 3 * time.Minute, 1, 5 * time.Minute}, {1, 2 * time.Minute, 2, 5 * time.Minute},
		{2, 2 * time.Minute, 1, 3 * time.Minute}, {1, 2 * time.Minute, 2, 3 * time.Minute},
		{2, 3 * time.Minute, 0, 2 * time.Minute}, {0, 2 * time.Minute, 1, time.Minute}, {1, time.Minute, -1, 0},
	} {
		runs = append(runs, record{target: targets[step.ran].String(), processor: step.had})
		next, lacks := leastFuzzed(targets, runs, 5*time.Minute)
		require.Equal(t, step.index, next, len(runs))
		require.Equal(t, step.lacks, lacks, len(runs))
	}
	next, lacks := leastFuzzed(targets, nil, time.Second)
	require.Zero(t, next)
	require.Equal(t, time.Second, lacks)
}

func TestShorter(t *testing.T) {
	for _, c := range []struct {
		t       string
		longest time.Duration
		want    string
	}{
		{"4m", 5 * time.Minute, "4m"}, {"4m", 4 * time.Minute, "4m"}, {"4m", 90400 * time.Millisecond, "1m30s"},
		{"20000x", time.Second, "20000x"},
	} {
		require.Equal(t, c.want, shortenTime(c.t, c.longest))
	}
}

// The output of go test at the end of a run.
func TestProgress(t *testing.T) {
	const report = "fuzz: elapsed: 3s, execs: 5625 (1875/sec), new interesting: 0 (total: 276)\n" +
		"fuzz: elapsed: 5s, execs: 14443 (4152/sec), new interesting: 7 (total: 283)\n"
	executions, found, corpus := parseProgress([]byte(report + "PASS\n"))
	require.Equal(t, []int{14443, 7, 283}, []int{executions, found, corpus})
	executions, found, corpus = parseProgress(
		[]byte("fuzz: elapsed: 0s, gathering baseline coverage: 0/14 completed\n"))
	require.Zero(t, executions+found+corpus)

	const ended = "--- FAIL: FuzzA (5.02s)\n    context deadline exceeded\nFAIL\n"
	require.True(t, onlyEnded([]byte(report+ended)))
	require.False(t, onlyEnded([]byte(report+ended+"Failing input written to testdata/fuzz/FuzzA/1\n")))
	require.False(t, onlyEnded([]byte("--- FAIL: FuzzA (5.02s)\n    a_test.go:5: context deadline exceeded\n")))
}

func TestLog(t *testing.T) {
	at := time.Date(2026, 11, 23, 19, 0, 0, 0, time.UTC)
	runs := []record{
		{at.Add(time.Minute), "222", "b.FuzzA", 90 * time.Second, 1000, 5, 25, true},
		{at, "111", "a.FuzzA", 60001 * time.Millisecond, 300, 2, 9, true},
		{at.Add(time.Hour), "222", "b.FuzzA", 30 * time.Second, 500, 1, 26, false},
	}
	name := filepath.Join(t.TempDir(), "log")
	for _, r := range runs {
		require.NoError(t, appendLog(name, r))
	}
	octets := wiretest.Must(os.ReadFile(name))(t)
	require.Equal(t, "time\tcommit\ttarget\tseconds\texecutions\tnew\tcorpus\tresult\n"+
		"2026-11-23T19:01:00Z\t222\tb.FuzzA\t90.000\t1000\t5\t25\tok\n"+
		"2026-11-23T19:00:00Z\t111\ta.FuzzA\t60.001\t300\t2\t9\tok\n"+
		"2026-11-23T20:00:00Z\t222\tb.FuzzA\t30.000\t500\t1\t26\tfailed\n", string(octets))

	require.NoError(t, os.WriteFile(name, append(octets, octets...), 0o644)) // two, put together
	got := wiretest.Must(readLog(name))(t)
	require.Equal(t, append(runs, runs...), got)

	var table strings.Builder
	require.NoError(t, writeSummary(&table, runs))
	require.Equal(t, `| target | minutes | executions | new inputs | inputs kept | runs that failed |
|---|--:|--:|--:|--:|--:|
| a.FuzzA | 1.0 | 300 | 2 | 9 | 0 |
| b.FuzzA | 2.0 | 1500 | 6 | 26 | 1 |
| all | 3.0 | 1800 | 8 | 35 | 1 |

2 targets, 3 runs, from 2026-11-23 19:00:00 (111) to 2026-11-23 20:00:00 (222).
`, table.String())

	for _, line := range []string{
		"", "x\t222\tb.FuzzA\t90\t1\t2\t3\tok",
		"2026-11-23T19:01:00Z\t2\tb.FuzzA\t9\t1\tx\t3\tok",
	} {
		require.NoError(t, os.WriteFile(name, []byte(header+line+"\n"), 0o644))
		_, err := readLog(name)
		require.ErrorContains(t, err, "log:2: ", line)
	}
}

// Minimizing keeps the inputs of a corpus that reach code of their own, and those with a name that
// a person has chosen. Code reached by inputs of f.Add counts as reached.
func TestMinimize(t *testing.T) {
	folder := t.TempDir()
	t.Chdir(folder)
	write := func(name, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, []byte(text), 0o644))
	}
	write("go.mod", "module example.com/m\n\ngo 1.25\n")
	write("m.go", "package m\n\nfunc Kind(b []byte) int {\n\tif len(b) == 0 {\n\t\treturn 0\n\t}\n"+
		"\tif b[0] == 'a' {\n\t\treturn 1\n\t}\n\tif b[0] == 'b' {\n\t\treturn 2\n\t}\n\treturn 3\n}\n")
	write("m_test.go", "package m\n\nimport \"testing\"\n\nfunc FuzzKind(f *testing.F) {\n\tf.Add([]byte(nil))\n"+
		"\tf.Fuzz(func(t *testing.T, b []byte) { Kind(b) })\n}\n")
	for _, c := range []struct{ name, value string }{
		{"0000000000000001", ""}, // as f.Add gives it
		{"0000000000000002", "b"},
		{"0000000000000003", "bb"},
		{"0000000000000004", "aaa"},
		{"an-empty-one", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			write("testdata/fuzz/FuzzKind/"+c.name, "go test fuzz v1\n[]byte(\""+c.value+"\")\n")
		})
	}
	targets := wiretest.Must(listTargets(t.Context(), []string{"./..."}))(t)
	require.Len(t, targets, 1)
	require.NoError(t, minimizeCorpora(t.Context(), targets, t.TempDir()))
	kept := wiretest.Must(inputsOf(targets[0].corpusFolder()))(t)
	var names []string
	for _, i := range kept {
		names = append(names, filepath.Base(i.file))
	}
	require.Equal(t, []string{"an-empty-one", "0000000000000002", "0000000000000004"}, names)
}
