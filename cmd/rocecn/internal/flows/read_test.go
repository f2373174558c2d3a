package flows

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/cli"
	"github.com/rocecn/rocecn/flows"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// A stopper has enough after so many packets.
type stopper struct{ packets int }

var errEnough = errors.New("enough")

func (s *stopper) usePackets(packets []flows.Packet, _ []time.Time, _ uint64) error {
	if s.packets -= len(packets); s.packets < 0 {
		return errEnough
	}
	return nil
}

func sleepNothing(time.Duration) error { return nil }

// If the consumer returns an error, no goroutine and no file is left, also if the input continues, or pauses.
func TestStopped(t *testing.T) {
	octets := wiretest.Must(os.ReadFile(wiretest.Path(t, "rxe-perf4.pcap")))(t)
	octets = append(octets, bytes.Repeat(octets[24:], 8<<20/len(octets))...) // more than is in use at a time
	path := wiretest.File(t, "long.pcap", octets)
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
					r := reader{workers: workers, inputs: cli.Inputs{Stdin: in}, idle: sleepNothing,
						packets: (&stopper{packets}).usePackets}
					require.ErrorIs(t, r.readCapture(t.Context(), name), errEnough)
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

// A dawdler takes its time for some batches.
type dawdler struct{ batches, idled int }

func (d *dawdler) usePackets([]flows.Packet, []time.Time, uint64) error { return nil }
func (d *dawdler) progress(octets, size int64) {
	if d.batches++; d.batches <= 5 {
		time.Sleep(250 * time.Millisecond)
	}
}
func (d *dawdler) idle(time.Duration) error { d.idled++; return nil }

// The time of a file is that of its packets, however long it takes to read them:
// its intervals are the same each time.
func TestFileIsNeverIdle(t *testing.T) {
	octets := wiretest.Must(os.ReadFile(wiretest.Path(t, "rxe-perf4.pcap")))(t)
	path := wiretest.File(t, "long.pcap", append(octets, bytes.Repeat(octets[24:], 4<<20/len(octets))...))
	var d dawdler
	r := reader{workers: 2, packets: d.usePackets, progress: d.progress, idle: d.idle}
	require.NoError(t, r.readCapture(t.Context(), path))
	require.Greater(t, d.batches, 6)
	require.Zero(t, d.idled)
}

// During a pause of the input, idle is called, and its error ends the reading.
func TestPipeIsIdle(t *testing.T) {
	in, out, err := os.Pipe()
	require.NoError(t, err)
	defer out.Close()
	defer in.Close()
	octets := wiretest.Must(os.ReadFile(wiretest.Path(t, "rxe-perf4.pcap")))(t)
	_, err = out.Write(octets[:10<<10])
	require.NoError(t, err)
	r := reader{workers: 2, inputs: cli.Inputs{Stdin: in}, packets: (&stopper{1 << 20}).usePackets,
		idle: func(time.Duration) error { return errEnough }}
	ended := make(chan error, 1)
	go func() { ended <- r.readCapture(t.Context(), "-") }()
	select {
	case err := <-ended:
		require.ErrorIs(t, err, errEnough)
	case <-time.After(30 * time.Second):
		t.Fatal("no status was sent")
	}
}

// resources returns the number of goroutines and, on Linux, of open files.
func resources(t *testing.T) (goroutines, files int) {
	t.Helper()
	open, _ := os.ReadDir("/proc/self/fd")
	return runtime.NumGoroutine(), len(open)
}

// Parts of a capture are read in the order in which they are named, and it is said where that is not that of time.
func TestPartsOutOfOrder(t *testing.T) {
	octets := wiretest.Must(os.ReadFile(wiretest.Path(t, "rxe-perf4.pcap")))(t)
	cut := 24
	for range 20 {
		cut += 16 + int(binary.LittleEndian.Uint32(octets[cut+8:]))
	}
	dir := t.TempDir()
	one, two := filepath.Join(dir, "1.pcap"), filepath.Join(dir, "2.pcap")
	require.NoError(t, os.WriteFile(one, octets[:cut], 0o600))
	require.NoError(t, os.WriteFile(two, append(bytes.Clone(octets[:24]), octets[cut:]...), 0o600))
	_, whole, _ := run(t, nil, "-json", wiretest.Path(t, "rxe-perf4.pcap"))
	status, out, messages := run(t, nil, "-json", one, two)
	require.Zero(t, status)
	require.Equal(t, whole, out)
	require.NotContains(t, messages, "ends")
	status, _, messages = run(t, nil, "-json", two, one)
	require.Zero(t, status)
	require.Regexp(t, `^rocecn flows: .*1\.pcap: ends [0-9.]+m?s before the previous input: files are parts`, messages)
}
