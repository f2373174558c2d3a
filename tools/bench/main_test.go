package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTables(t *testing.T) {
	r, err := parse(strings.NewReader(`goos: linux
goarch: amd64
pkg: github.com/rocecn/rocecn/tools/bench
cpu: A CPU
BenchmarkRead/CNP/by_hand-2         	 100	        10.0 ns/op	       0 B/op	       0 allocs/op
BenchmarkRead/CNP/by_hand-2         	 100	        14.0 ns/op	       0 B/op	       0 allocs/op
BenchmarkRead/CNP/by_hand-2         	 100	         9.0 ns/op	       0 B/op	       0 allocs/op
BenchmarkRead/CNP/walk-2            	 100	        15.0 ns/op	       0 B/op	       0 allocs/op
BenchmarkRead/CNP/walk-2            	 100	        20.0 ns/op	       0 B/op	       0 allocs/op
BenchmarkRead/FCN/NewPacket-2       	 100	      1000 ns/op	     880 B/op	       7 allocs/op
PASS
pkg: github.com/rocecn/rocecn/node/proxies
cpu: A CPU
BenchmarkLookup/65,536_prefixes-2   	 100	        50.0 ns/op	       0 B/op	       0 allocs/op
PASS
pkg: github.com/rocecn/rocecn/icrc
BenchmarkSum/ip=6/octets=76/by=tables-2         	 100	        30.0 ns/op	       0 B/op	       0 allocs/op
BenchmarkSum/ip=6/octets=76/by=wide_folding-2   	 100	        10.0 ns/op	       0 B/op	       0 allocs/op
BenchmarkSum/ip=6/octets=76/by=crc32-2          	 100	        20.0 ns/op	       0 B/op	       0 allocs/op
PASS
`))
	require.NoError(t, err)
	require.Equal(t, []string{"linux", "amd64", "A CPU"}, r.machine)
	require.Equal(t, 1, r.count())
	require.Contains(t, r.ratios(), "| walk of a CNP frame ÷ reader by hand | 1.75 |\n")
	require.Equal(t, `
### Read

| | CNP | FCN |
|---|--:|--:|
| by hand | 10.0 (1.00) |  |
| walk | 17.5 (1.75) |  |
| NewPacket |  | 1000 7 allocs |
`, r.tables())
	require.Equal(t, `
### ICRC by tables

| | IPv6, 76 octets |
|---|--:|
| hash/crc32 | 20.0 (1.00) |
| tables | 30.0 (1.50) |

### ICRC by wide folding

| | IPv6, 76 octets |
|---|--:|
| hash/crc32 | 20.0 (1.00) |
| wide folding | 10.0 (0.50) |
`, r.ways())
	require.Equal(t, `
### Packages

| package | benchmark | ns | allocations |
|---|---|--:|--:|
| node/proxies | Lookup/65,536 prefixes | 50.0 | 0 |
`, r.others())

	_, err = parse(strings.NewReader("PASS\n"))
	require.Error(t, err)
}

func TestInstructions(t *testing.T) {
	dir := t.TempDir()
	in := filepath.Join(dir, "arm64.txt")
	require.NoError(t, os.WriteFile(in, []byte(`goos: linux
goarch: arm64
pkg: github.com/rocecn/rocecn/tools/bench
cpu: emulated
BenchmarkRead/CNP/by_hand	1000	155 instructions/op
BenchmarkRead/CNP/walk	1000	341 instructions/op
`), 0o644))
	var out bytes.Buffer
	require.NoError(t, write("", "arm64", []string{in}, &out))
	require.True(t, strings.HasPrefix(out.String(), "linux, arm64, emulated, go"), out.String())
	require.Contains(t, out.String(), "; instructions an operation.\n")
	require.Contains(t, out.String(), "| walk of a CNP frame ÷ reader by hand | 2.20 |\n")
	require.Contains(t, out.String(), "| by hand | 155 (1.00) |\n| walk | 341 (2.20) |\n")
}

const output = `goos: linux
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

func TestLab(t *testing.T) {
	r, err := parse(strings.NewReader(output))
	require.NoError(t, err)
	require.Equal(t, 1, r.count())
	text := r.lab()
	require.Contains(t, text, "\n| lab/sim | Hold/100 | 16 |  |  | 60 | 0 |\n")
	require.Contains(t, text, "\n| lab | Lab/hpcc-fastcnp | 5.68 | 2.5 |  | 123456 |  |\n")

	_, err = parse(strings.NewReader("PASS\n"))
	require.ErrorContains(t, err, "no benchmarks")
	_, err = parse(strings.NewReader("BenchmarkX 1 x ns/op\n"))
	require.Error(t, err)
}

func TestInto(t *testing.T) {
	dir := t.TempDir()
	in, into := filepath.Join(dir, "lab.txt"), filepath.Join(dir, "B.md")
	require.NoError(t, os.WriteFile(in, []byte(output), 0o644))
	require.NoError(t, os.WriteFile(into, []byte("a\n<!-- lab -->\nformer text\n<!-- end lab -->\nb\n"), 0o644))
	require.NoError(t, write(into, "lab", []string{in}, nil))
	text, err := os.ReadFile(into)
	require.NoError(t, err)
	require.True(t, bytes.HasPrefix(text, []byte("a\n<!-- lab -->\nlinux")), string(text))
	require.True(t, bytes.HasSuffix(text, []byte("|\n<!-- end lab -->\nb\n")))
	require.NotContains(t, string(text), "former")
	require.NoError(t, os.WriteFile(into, []byte("a\n"), 0o644))
	require.ErrorContains(t, write(into, "lab", []string{in}, nil), "no lines")
	require.Error(t, write("", "lab", []string{filepath.Join(dir, "none")}, nil))
}
