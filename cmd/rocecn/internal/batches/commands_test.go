package batches_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/flows"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/inspect"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/pairs"
	"github.com/rocecn/rocecn/internal/wiretest"
)

// The commands print the same with one and with several goroutines, also with full tables. Two captures have many
// batches: they repeat the packets of a small one.
func TestCommandsOnAllCPUs(t *testing.T) {
	names := wiretest.Must(filepath.Glob(filepath.Join(filepath.Dir(wiretest.Path(t, "rxe-perf4.pcap")), "*.pcap*")))(t)
	require.NotEmpty(t, names)
	for _, small := range []string{"rxe-perf4.pcap", "rxe-verbs6.pcap"} {
		octets := wiretest.Must(os.ReadFile(wiretest.Path(t, small)))(t)
		long := filepath.Join(t.TempDir(), small)
		octets = append(octets, bytes.Repeat(octets[24:], 2<<20/len(octets))...)
		require.NoError(t, os.WriteFile(long, octets, 0o600))
		names = append(names, long)
	}
	for _, row := range []struct {
		name string
		run  func(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int
		args []string
	}{
		{"flows", flows.Run, []string{"-json"}},
		{"flows with full tables", flows.Run, []string{"-json", "-max-flows", "16"}},
		{"flows in intervals", flows.Run, []string{"-json", "-interval", "20ms", "-trouble"}},
		{"pairs", pairs.Run, []string{"-json"}},
		{"inspect as JSON", inspect.Run, []string{"-json"}},
		{"inspect as JSON with pairs", inspect.Run, []string{"-json", "-pairs"}},
		{"inspect as text", inspect.Run, []string{"-all", "-link"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			var want [3][]byte
			for _, cpus := range []int{1, 4} {
				before := runtime.GOMAXPROCS(cpus)
				var stdout, stderr bytes.Buffer
				status := row.run(t.Context(), append(row.args, names...), nil, &stdout, &stderr)
				runtime.GOMAXPROCS(before)
				got := [3][]byte{{byte(status)}, stdout.Bytes(), stderr.Bytes()}
				if cpus == 1 {
					want = got
					require.NotEmpty(t, stdout.Bytes())
				}
				for i := range got {
					require.True(t, bytes.Equal(want[i], got[i]), "status, output or messages differ: %d", i)
				}
			}
		})
	}
}
