package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const printed = `goos: linux
goarch: amd64
pkg: github.com/rocecn/rocecn/lab/sim
cpu: A CPU
BenchmarkHold/100-2   	 1000	 50.0 ns/op	 20.0 Mevents/s	 0 B/op	 0 allocs/op
BenchmarkHold/100-2   	 1000	 70.0 ns/op	 14.0 Mevents/s	 0 B/op	 0 allocs/op
BenchmarkHold/100-2   	 1000	 60.0 ns/op	 16.0 Mevents/s	 0 B/op	 0 allocs/op
pkg: github.com/rocecn/rocecn/lab
BenchmarkLab/hpcc-fastcnp   	 10	 123456 ns/op	 5.678 Mevents/s	 2.5 Mhops/s
PASS
`

func TestTable(t *testing.T) {
	text, err := table(strings.NewReader(printed), time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC))
	require.NoError(t, err)
	require.Contains(t, text, "linux, amd64, A CPU, ")
	require.Contains(t, text, "2026-11-23; medians of 3 runs.")
	require.Contains(t, text, "\n| lab/sim | Hold/100 | 16 |  |  | 60 | 0 |\n")
	require.Contains(t, text, "\n| lab | Lab/hpcc-fastcnp | 5.68 | 2.5 |  | 123456 |  |\n")

	_, err = table(strings.NewReader("PASS\n"), time.Time{})
	require.ErrorContains(t, err, "no benchmarks")
	_, err = table(strings.NewReader("BenchmarkX 1 x ns/op\n"), time.Time{})
	require.Error(t, err)
}

func TestInto(t *testing.T) {
	dir := t.TempDir()
	in, into := filepath.Join(dir, "lab.txt"), filepath.Join(dir, "B.md")
	require.NoError(t, os.WriteFile(in, []byte(printed), 0o644))
	require.NoError(t, os.WriteFile(into, []byte("a\n<!-- lab -->\nformer text\n<!-- end lab -->\nb\n"), 0o644))
	require.NoError(t, run(into, []string{in}, nil))
	text, err := os.ReadFile(into)
	require.NoError(t, err)
	require.True(t, bytes.HasPrefix(text, []byte("a\n<!-- lab -->\nlinux")), string(text))
	require.True(t, bytes.HasSuffix(text, []byte("|\n<!-- end lab -->\nb\n")))
	require.NotContains(t, string(text), "former")
	require.NoError(t, os.WriteFile(into, []byte("a\n"), 0o644))
	require.ErrorContains(t, run(into, []string{in}, nil), "no lines")
	require.Error(t, run("", []string{filepath.Join(dir, "none")}, nil))
}
