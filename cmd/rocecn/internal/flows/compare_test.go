package flows

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/traffic"
	"github.com/rocecn/rocecn/internal/wiretest"
)

// twoPoints writes a capture, and one made from it: each tenth frame is lost,
// each tenth has another DSCP, all are 40 µs later.
func twoPoints(t *testing.T) (a, b string, lost, remarked int) {
	t.Helper()
	made := traffic.Generate(4, traffic.Options{Connections: 5, Clean: true, OneWay: true})
	dir := t.TempDir()
	write := func(name string, frames []*traffic.Frame) string {
		path := filepath.Join(dir, name)
		f := wiretest.Must(os.Create(path))(t)
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
			wiretest.SetDSCP(t, other.Data[14:], 10)
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
			n, _ := valueAt(last, "dscp_changed", "26>10").(float64)
			changed += n
			require.EqualValues(t, 40, valueAt(last, "delay_us", "min"))
			require.EqualValues(t, 40, valueAt(last, "delay_us", "p99"))
		}
	}
	require.EqualValues(t, lost, sum)
	require.EqualValues(t, lost, last["lost"])
	require.EqualValues(t, remarked, changed)
	require.Equal(t, "one way", valueAt(last, "clocks", "known"))

	_, out, _ = run(t, nil, "-compare", "-top", "2", a, b)
	require.Contains(t, out, "DSCP 26 to 10: ")
	require.Contains(t, out, "Delays are as the two clocks have them")
	require.Less(t, strings.Count(out, "\n"), 10)

	status, out, stderr = run(t, nil, "-compare", a, filepath.Join(t.TempDir(), "none"))
	require.Equal(t, 1, status)
	require.Contains(t, stderr, "no such file")
	require.Empty(t, out)
	status, _, _ = run(t, nil, "-compare", a)
	require.Equal(t, 2, status)
}

// Unreadable captures are reported before anything else, and then nothing is printed.
func TestCompareUnreadable(t *testing.T) {
	good := wiretest.Path(t, "rxe-perf4.pcap")
	dir := t.TempDir()
	none, text := filepath.Join(dir, "none"), filepath.Join(dir, "text")
	require.NoError(t, os.WriteFile(text, []byte("no capture at all"), 0o600))
	for _, c := range []struct {
		files  []string
		causes []string
	}{
		{[]string{good, none}, []string{none + ": no such file"}},
		{[]string{none, good}, []string{none + ": no such file"}},
		{[]string{none, none + "2"}, []string{none + ": no such file", none + "2: no such file"}},
		{[]string{good, text}, []string{"neither a pcap nor a pcapng capture"}},
		{[]string{text, good}, []string{"neither a pcap nor a pcapng capture"}},
		{[]string{good, dir}, []string{dir}},
	} {
		for _, form := range []string{"-json", "-json=false"} {
			status, out, stderr := run(t, nil, append([]string{form, "-compare"}, c.files...)...)
			require.Equal(t, 1, status, c.files)
			require.Empty(t, out, c.files)
			for _, cause := range c.causes {
				require.Contains(t, stderr, cause)
			}
		}
	}
	status, _, stderr := run(t, nil, "-compare", "-", "-")
	require.Equal(t, 2, status)
	require.Contains(t, stderr, "only one of the captures can be standard input")

	// Packets from before a damaged record are reported, with the error.
	octets := wiretest.Must(os.ReadFile(good))(t)
	require.NoError(t, os.WriteFile(text, octets[:len(octets)-5], 0o600))
	status, out, stderr := run(t, nil, "-compare", good, text)
	require.Equal(t, 1, status)
	require.Contains(t, stderr, "the file ends early")
	require.Contains(t, out, "total")
}

// The lost packets of a flow are those that the capture of the host does not contain.
func TestCompareReal(t *testing.T) {
	path := func(point string) string { return wiretest.Path(t, "real/write4-loss1."+point+".pcap.gz") }
	status, out, stderr := run(t, nil, "-json", "-compare", path("eth0"), path("eth1"))
	require.Zero(t, status, stderr)
	all := strings.Split(strings.TrimSpace(out), "\n")
	require.Len(t, all, 3)
	require.JSONEq(t, `{"compare":true,"src":"10.1.0.1","dst":"10.2.0.1","dest_qp":46,
		"packets":{"a":3038,"b":3002},"same":3002,"lost":36,"outside":0,"added":0,"duplicated":{"a":0,"b":0},
		"delay_us":{"samples":3002,"min":21,"p50":143.36,"p99":21495.808,"max":125416}}`, all[0])
	require.JSONEq(t, `{"compare":true,"total":true,"packets":{"a":4716,"b":4680},"same":4680,"lost":36,
		"outside":0,"added":0,"duplicated":{"a":0,"b":0},
		"clocks":{"known":"both ways","offset_us":7,"least_delay_us":14}}`, all[2])
}

// An interrupt ends the reading of both points; packets read so far are reported.
func TestCompareInterrupt(t *testing.T) {
	octets, err := os.ReadFile(wiretest.Path(t, "rxe-perf4.pcap"))
	require.NoError(t, err)
	for range 50 {
		ctx, interrupt := context.WithCancel(context.Background())
		r, w := io.Pipe()
		var out, stderr bytes.Buffer
		status := make(chan int)
		go func() {
			status <- Run(ctx, []string{"-json", "-compare", wiretest.Path(t, "rxe-perf4.pcap"), "-"}, r, &out, &stderr)
		}()
		_, err = w.Write(octets)
		require.NoError(t, err)
		interrupt()
		require.NoError(t, w.Close())
		require.Zero(t, <-status)
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		var total map[string]any
		require.NoError(t, json.Unmarshal([]byte(lines[len(lines)-1]), &total))
		require.EqualValues(t, 88, valueAt(total, "packets", "b"), "all that the pipe was given")
	}
}

// There may be no room for all flows: the total has them, and says so.
func TestCompareEvicted(t *testing.T) {
	frames := traffic.Generate(4, traffic.Options{Connections: 30, Clean: true, OneWay: true}).Frames
	path := filepath.Join(t.TempDir(), "a.pcap")
	f := wiretest.Must(os.Create(path))(t)
	require.NoError(t, (&traffic.Capture{Frames: frames}).Write(f))
	require.NoError(t, f.Close())
	_, out, _ := run(t, nil, "-json", "-compare", "-window", "4", "-max-flows", "16", path, path)
	n := len(frames)
	require.Regexp(t, fmt.Sprintf(`"packets":{"a":%d,"b":%d},"same":%d,"lost":0,.*"evicted_flows":\d+}\n$`, n, n, n),
		out)
	_, out, _ = run(t, nil, "-compare", "-window", "4", "-max-flows", "16", path, path)
	require.Regexp(t, `Table full \(-max-flows\): only the total counts \d+ more flows`, out)
}
