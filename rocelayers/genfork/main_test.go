package main

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// The committed files are generated from the package as it is.
func TestForkIsGenerated(t *testing.T) {
	made, committed := t.TempDir(), filepath.Join("..", "fork", "rocelayers")
	require.NoError(t, generate("..", made, false))
	files := contents(t, made)
	got := contents(t, committed)
	require.Equal(t, names(files), names(got), "run go generate ./rocelayers")
	for name, want := range files {
		require.True(t, want == got[name], "%s: run go generate ./rocelayers", name)
	}
}

// A file that cannot be written is an error. Here its path is longer than a system allows, and that of its folder is
// not.
func TestNotWritten(t *testing.T) {
	to := t.TempDir()
	for len(to) < 4080 {
		to = filepath.Join(to, strings.Repeat("x", min(200, 4094-len(to))))
	}
	require.ErrorIs(t, generate("..", to, false), syscall.ENAMETOOLONG)
	if runtime.GOOS == "linux" { // other systems may have a lower limit
		require.DirExists(t, to)
	}
}

// The line by which tools know generated files.
var generated = regexp.MustCompile(`^// Code generated .* DO NOT EDIT\.\n`)

func TestConvertSource(t *testing.T) {
	got, err := convertSource("bth.go",
		[]byte(`// Package p has layers of [github.com/google/gopacket], not of google/gopacket/x.
//
//go:generate true
package p

import (
	"github.com/google/gopacket/layers"
	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/rocelayers"
)
`))
	require.NoError(t, err)
	require.Regexp(t, generated, string(got))
	require.Equal(t, `// Code generated from rocelayers/bth.go by rocelayers/genfork; DO NOT EDIT.

// Package p has layers of [github.com/gopacket/gopacket], not of google/gopacket/x.
package p

import (
	"github.com/gopacket/gopacket/layers"
	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/rocelayers/fork/rocelayers"
)
`, string(got))
	_, err = convertSource("bth.go", []byte("no Go"))
	require.Error(t, err)
}

// Files of an earlier generation are removed, and tests with their data are generated only on demand.
func TestGenerate(t *testing.T) {
	seed := filepath.Join("testdata", "fuzz", "seed")
	from, to := t.TempDir(), t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(from, "testdata", "fuzz"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(from, "a.go"), []byte("package a\n"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(from, "a_test.go"), []byte("package a_test\n"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(from, seed), []byte("seed"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(to, "stale.go"), nil, 0o644))
	require.NoError(t, generate(from, to, true))
	require.Equal(t, []string{"a.go", "a_test.go", seed}, names(contents(t, to)))
	require.NoError(t, generate(from, to, false))
	require.Equal(t, []string{"a.go"}, names(contents(t, to)))
}

// contents returns the files below a folder.
func contents(t *testing.T, dir string) map[string]string {
	files := make(map[string]string)
	require.NoError(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		octets := wiretest.Must(os.ReadFile(name))(t)
		name, err = filepath.Rel(dir, name)
		files[name] = string(octets)
		return err
	}))
	return files
}

func names(files map[string]string) []string { return slices.Sorted(maps.Keys(files)) }
