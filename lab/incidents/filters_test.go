package incidents

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/flows/triage"
	"github.com/rocecn/rocecn/internal/wiretest"
)

// Wireshark's display filters select the frames that a verdict names.
func TestFilters(t *testing.T) {
	tshark, err := exec.LookPath("tshark")
	if err != nil {
		wiretest.Missing(t, "tshark")
	}
	seen := map[string]bool{}                                  // by cause
	small := []int{47, 59, 63, 73, 81, 82, 124, 139, 156, 187} // incidents, of different causes
	for _, n := range small[:wiretest.Rounds(len(small))] {
		in := makeIncident(n, false)
		file := ""
		for _, v := range explain(&in) {
			what := v.Cause.String()
			if seen[what] || v.Cause == triage.CauseCongested {
				continue
			}
			seen[what] = true
			if file == "" {
				file = write(t, &in)
			}
			out, err := exec.Command(tshark, "-r", file, "-Y", v.Filter, "-T", "fields", "-e", "frame.number").Output()
			require.NoError(t, err, v.Filter)
			selected := strings.Fields(string(out))
			for _, f := range v.Frames {
				require.True(t, slices.Contains(selected, strconv.FormatUint(f.Number, 10)), "%v: frame %d, "+
					"%s", v.Cause,
					f.Number, v.Filter)
			}
			require.Less(t, len(selected), len(in.frames), v.Filter)
		}
	}
	require.GreaterOrEqual(t, len(seen), wiretest.Rounds(len(small)), "causes whose filters were run")
}

// write writes the frames of an incident as a capture, and returns its name.
func write(t *testing.T, in *incident) string {
	t.Helper()
	f := wiretest.Must(os.Create(filepath.Join(t.TempDir(), "incident.pcap")))(t)
	w := wiretest.Must(capture.NewWriter(f, capture.Ethernet, time.Nanosecond))(t)
	for _, frame := range in.frames {
		require.NoError(t, w.Write(&capture.Record{Data: frame.octets, OrigLen: uint32(len(frame.octets)),
			Time: epoch.Add(frame.at)}))
	}
	require.NoError(t, f.Close())
	return f.Name()
}
