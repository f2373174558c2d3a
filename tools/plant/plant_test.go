package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// repository has one function and a test of it, and one file that another test reads.
var repository = []struct{ name, text string }{
	{"go.mod", "module example.org/sum\n\ngo 1.26\n"},
	{"sum/sum.go", `package sum

// Of adds.
func Of(a, b int) int {
	if a < 0 {
		a = -a
	}
	return a + b
}
`},
	{"sum/limit.txt", "limit 7\n"},
	{"sum/text/a.txt", "x\n"},
	{"sum/sum_test.go", `package sum

import ("os"; "testing")

func TestOf(t *testing.T) {
	if Of(2, 3) != 5 { t.Fatal("sum") }
}

func TestLimit(t *testing.T) {
	if b, err := os.ReadFile("limit.txt"); err != nil || string(b) != "limit 7\n" { t.Fatal("limit") }
}
`},
}

func writeRepository(t *testing.T) (root string) {
	root = t.TempDir()
	for _, file := range repository {
		path := filepath.Join(root, file.name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(file.text), 0o644))
	}
	return root
}

func writeList(t *testing.T, text string) string {
	path := filepath.Join(t.TempDir(), "list.toml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

func entry(name, file, old, new, more string) string {
	const form = "[[fault]]\nname = '%s'\nstratum = 'sums'\nfile = '%s'\nold = '%s'\nnew = '%s'\n%s\n"
	return fmt.Sprintf(form, name, file, old, new, more)
}

func TestFaults(t *testing.T) {
	for _, test := range []struct {
		name, list string
		want       []string
		err        string
	}{
		{"noticed", entry("subtracts", "sum/sum.go", "a + b", "a - b", ""),
			[]string{"noticed sums: subtracts (TestOf", "| all | 1 | 1 | 0 |"}, ""},
		{"missed", entry("keeps the sign", "sum/sum.go", "a = -a", "", ""),
			[]string{"MISSED sums: keeps the sign (sum/sum.go", "| all | 1 | 0 | 1 |"}, "1 faults are missed"},
		{"missed with a reason", entry("keeps the sign", "sum/sum.go", "a = -a", "", "missed = 'never negative'"),
			[]string{"missed, as expected, sums: keeps the sign (never negative", "| all | 1 | 0 | 0 |"}, ""},
		{"other file", entry("limit", "sum/limit.txt", "7", "8", "tests = ['./sum']"),
			[]string{"noticed sums: limit (TestLimit"}, ""},
		{"prepared", entry("limit", "sum/text/a.txt", "x", "y",
			"prepare = ['cp', 'sum/text/a.txt', 'sum/limit.txt']\ntests = ['./sum', '-run', 'TestLimit']"),
			[]string{"noticed sums: limit (TestLimit"}, ""},
		{"does not compile", entry("c", "sum/sum.go", "a + b", "a + c", ""),
			[]string{"INVALID c: does not compile"}, "1 faults could not be planted: c"},
		{"text not found", entry("n", "sum/sum.go", "a * b", "b", ""),
			[]string{"INVALID n: sum/sum.go has the old text 0 times"}, "could not be planted"},
		{"endless", entry("e", "sum/sum.go", "return a + b", "for {}", ""), []string{"noticed sums: e (timeout"}, ""},
		{"two", entry("subtracts", "sum/sum.go", "a + b", "a - b", "") + entry("keeps", "sum/sum.go", "a = -a", "", ""),
			[]string{"noticed sums: subtracts", "MISSED sums: keeps", "| sums | 2 | 1 | 1 |"}, "1 faults are missed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := writeRepository(t)
			var out bytes.Buffer
			limit := "1m"
			if test.name == "endless" { // it takes as long as its limit
				limit = "2s"
			}
			args := []string{"-root", root, "-timeout", limit, writeList(t, test.list)}
			err := runCommand(context.Background(), &out, args)
			if test.err == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, test.err)
			}
			for _, want := range test.want {
				require.Contains(t, out.String(), want)
			}
			for _, file := range repository {
				after, err := os.ReadFile(filepath.Join(root, file.name))
				require.NoError(t, err)
				require.Equal(t, file.text, string(after), "the repository itself is unchanged")
			}
		})
	}
}

func TestTestsFailWithoutFault(t *testing.T) {
	root := writeRepository(t)
	require.NoError(t, os.WriteFile(filepath.Join(root, "sum/limit.txt"), []byte("limit 9\n"), 0o644))
	var out bytes.Buffer
	err := runCommand(context.Background(), &out, []string{"-root", root,
		writeList(t, entry("subtracts", "sum/sum.go", "a + b", "a - b", ""))})
	require.ErrorContains(t, err, "go test ./sum fails without a fault: TestLimit")
	require.Empty(t, out.String())
}

func TestListErrors(t *testing.T) {
	for _, test := range []struct{ name, list, want string }{
		{"syntax", "[[fault]]\nname = 3 4", "list.toml"},
		{"unknown key", "[[fault]]\ncolour = 'red'", "unknown keys"},
		{"no file", "[[fault]]\nname = 'a'\nstratum = 's'\nold = 'x'", "want name, stratum, file and old"},
		{"same name", entry("a", "f.go", "x", "y", "") + entry("a", "f.go", "x", "z", ""), "the name occurs twice"},
		{"no change", entry("a", "f.go", "x", "x", ""), "old and new are equal"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := readLists([]string{writeList(t, test.list)})
			require.ErrorContains(t, err, test.want)
		})
	}
}

func TestShares(t *testing.T) {
	root := writeRepository(t)
	list := writeList(t, entry("first", "sum/sum.go", "a + b", "a - b", "")+
		entry("second", "sum/sum.go", "a + b", "a * b", "")+entry("third", "sum/sum.go", "a + b", "a", ""))
	for _, test := range []struct {
		share string
		want  string
	}{{"1/2", "first third"}, {"2/2", "second"}, {"1/1", "first second third"}} {
		t.Run(test.share, func(t *testing.T) {
			var out bytes.Buffer
			args := []string{"-root", root, "-share", test.share, list}
			require.NoError(t, runCommand(context.Background(), &out, args))
			for _, name := range []string{"first", "second", "third"} {
				require.Equal(t, strings.Contains(test.want, name), strings.Contains(out.String(), name), name)
			}
		})
	}
	for _, share := range []string{"0/2", "3/2", "x"} {
		require.ErrorContains(t, runCommand(context.Background(), new(bytes.Buffer),
			[]string{"-root", root, "-share", share, list}), "want I/N")
	}
}

func TestChoose(t *testing.T) {
	root := writeRepository(t)
	var out bytes.Buffer
	require.NoError(t, chooseStatements(&out, root, []string{"sum"}, 3, 1))
	want := []string{"sum/sum.go:5: Of: if a < 0 {", "sum/sum.go:6: Of: a = -a", "sum/sum.go:8: Of: return a + b"}
	require.Equal(t, want, strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n"))
	err := chooseStatements(&out, root, []string{"sum"}, 4, 1)
	require.ErrorContains(t, err, "4 statements wanted, and only 3")
}

// The committed lists fit the code: each fault can be planted.
func TestCommittedLists(t *testing.T) {
	lists, err := filepath.Glob("faults/*.toml")
	require.NoError(t, err)
	faults, err := readLists(lists)
	require.NoError(t, err)
	require.NotEmpty(t, faults)
	for _, f := range faults {
		text, err := os.ReadFile(filepath.Join("../..", f.File))
		require.NoError(t, err, f.Name)
		require.Equal(t, 1, strings.Count(string(text), f.Old), "%s: %s", f.File, f.Name)
	}
}
