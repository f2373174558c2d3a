package flows

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/traffic"
	"github.com/rocecn/rocecn/rocev2"
)

// twoPoints writes a capture, and one made from it: each tenth frame is lost,
// each tenth has another DSCP, all are 40 µs later.
func twoPoints(t *testing.T) (a, b string, lost, remarked int) {
	t.Helper()
	made := traffic.Generate(4, traffic.Options{Connections: 5, Clean: true, OneWay: true})
	dir := t.TempDir()
	write := func(name string, frames []*traffic.Frame) string {
		path := filepath.Join(dir, name)
		f, err := os.Create(path)
		require.NoError(t, err)
		require.NoError(t, (&traffic.Capture{Frames: frames}).Write(f))
		require.NoError(t, f.Close())
		return path
	}
	a = write("a.pcap", made.Frames)
	var frames []*traffic.Frame
	for i, f := range made.Frames {
		other := *f
		other.Time = f.Time.Add(40 * time.Microsecond)
		other.Data = slices.Clone(f.Data)
		switch i % 10 {
		case 4:
			lost++
			continue
		case 7:
			remarked++
			rocev2.SetDSCP(other.Data[14:], 10)
		}
		frames = append(frames, &other)
	}
	return a, write("b.pcap", frames), lost, remarked
}

func TestCompare(t *testing.T) {
	a, b, lost, remarked := twoPoints(t)
	status, out, stderr := run(t, nil, "-json", "-compare", a, b)
	require.Zero(t, status, stderr)
	var sum, changed float64
	var last map[string]any
	for line := range strings.Lines(out) {
		last = nil
		require.NoError(t, json.Unmarshal([]byte(line), &last))
		require.Equal(t, true, last["compare"])
		if last["total"] != true {
			sum += last["lost"].(float64)
			n, _ := at(last, "dscp_changed", "26>10").(float64)
			changed += n
			require.EqualValues(t, 40, at(last, "delay_us", "min"))
			require.EqualValues(t, 40, at(last, "delay_us", "p99"))
		}
	}
	require.EqualValues(t, lost, sum)
	require.EqualValues(t, lost, last["lost"])
	require.EqualValues(t, remarked, changed)
	require.Equal(t, "one way", at(last, "clocks", "known"))

	_, out, _ = run(t, nil, "-compare", "-top", "2", a, b)
	require.Contains(t, out, "DSCP 26 to 10: ")
	require.Contains(t, out, "Delays are as the two clocks have them")
	require.Less(t, strings.Count(out, "\n"), 10)

	status, out, stderr = run(t, nil, "-compare", a, filepath.Join(t.TempDir(), "none"))
	require.Equal(t, 1, status)
	require.Contains(t, stderr, "no such file")
	require.Contains(t, out, "No packet was captured at both points.")
	status, _, _ = run(t, nil, "-compare", a)
	require.Equal(t, 2, status)
}
