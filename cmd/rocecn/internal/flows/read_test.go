package flows

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/rocecn/rocecn/flows"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// A stopper has enough after so many packets.
type stopper struct{ packets int }

var errEnough = errors.New("enough")

func (s *stopper) packet(*flows.Packet, uint64, time.Time) error {
	if s.packets--; s.packets < 0 {
		return errEnough
	}
	return nil
}
func (s *stopper) progress(octets, size int64) {}
func (s *stopper) idle(time.Duration) error    { return nil }

// Who has enough leaves no goroutine and no file behind, also where the input
// goes on, or pauses.
func TestStopped(t *testing.T) {
	octets, err := os.ReadFile(wiretest.Path(t, "rxe-perf4.pcap"))
	require.NoError(t, err)
	octets = append(octets, bytes.Repeat(octets[24:], 8<<20/len(octets))...) // more than is in use at a time
	path := filepath.Join(t.TempDir(), "long.pcap")
	require.NoError(t, os.WriteFile(path, octets, 0o600))
	for _, workers := range []int{1, 2, 8} {
		for _, packets := range []int{0, 50} {
			for _, input := range []string{"file", "pipe that goes on", "pipe that pauses"} {
				t.Run(fmt.Sprintf("%d workers, %d packets, %s", workers, packets, input), func(t *testing.T) {
					goroutines, files := resources(t)
					name := path
					in, out, err := os.Pipe()
					require.NoError(t, err)
					written := make(chan bool)
					go func() {
						defer close(written)
						switch input {
						case "pipe that goes on":
							_, err := out.Write(octets)
							for err == nil {
								_, err = out.Write(octets[24:])
							}
						case "pipe that pauses":
							_, _ = out.Write(octets[:40<<10])
						}
					}()
					if input != "file" {
						name = "-"
					}
					r := reader{workers: workers, stdin: in, to: &stopper{packets}}
					require.ErrorIs(t, r.read(t.Context(), name), errEnough)
					in.Close()
					<-written
					out.Close()
					wiretest.Await(t, "no more goroutines and files than before", func() bool {
						g, f := resources(t)
						return g <= goroutines && f <= files
					})
				})
			}
		}
	}
}

// resources returns how many goroutines there are and, on Linux, open files.
func resources(t *testing.T) (goroutines, files int) {
	t.Helper()
	open, _ := os.ReadDir("/proc/self/fd")
	return runtime.NumGoroutine(), len(open)
}
