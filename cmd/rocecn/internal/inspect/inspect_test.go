package inspect

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/proxymsg"
)

var update = flag.Bool("update", false, "write testdata/messages.pcap and the golden files again")

// inspect runs the program.
func inspect(stdin []byte, args ...string) (stdout, stderr string, status int) {
	var out, messages bytes.Buffer
	status = Run(context.Background(), args, bytes.NewReader(stdin), &out, &messages)
	return out.String(), messages.String(), status
}

// flat has every value of a JSON line by its path, as in "bth.psn". Extended
// headers are named by their type, as in "RETH.va".
type flat map[string]string

func flatten(t testing.TB, line string) flat {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(line))
	d.UseNumber()
	var v any
	require.NoError(t, d.Decode(&v), line)
	require.IsType(t, map[string]any{}, v, line)
	f := flat{}
	f.add("", v)
	return f
}

func (f flat) add(path string, v any) {
	switch v := v.(type) {
	case map[string]any:
		if path != "" {
			path += "."
		}
		for key, value := range v {
			f.add(path+key, value)
		}
	case []any:
		for i, value := range v {
			if path == "headers" {
				header := value.(map[string]any)
				f.add(header["type"].(string), header)
			} else {
				f.add(fmt.Sprintf("%s.%d", path, i), value)
			}
		}
	default:
		f[path] = fmt.Sprint(v)
	}
}

// lines returns the lines of a -json output.
func lines(t testing.TB, out string) (all []flat) {
	t.Helper()
	for line := range strings.Lines(out) {
		require.True(t, strings.HasSuffix(line, "\n"), "a line without its end: %q", line)
		all = append(all, flatten(t, line))
	}
	return all
}

func octetsOf(t testing.TB, capture string) []byte {
	t.Helper()
	return wiretest.Must(os.ReadFile(wiretest.Path(t, capture)))(t)
}

// The JSON and text output of each capture is committed. -update rewrites it; review the difference.
func TestGolden(t *testing.T) {
	if *update {
		TestMessages(t)
	}
	for _, c := range []struct{ extension, flag string }{{".jsonl", "-json"}, {".txt", "-json=false"}} {
		for _, capture := range wiretest.Captures(t, "*.pcap") {
			out, _, status := inspect(nil, c.flag, wiretest.Path(t, capture))
			require.Zero(t, status, capture)
			golden := wiretest.OwnPath(t, strings.TrimSuffix(capture, ".pcap")+c.extension)
			if *update {
				require.NoError(t, os.WriteFile(golden, []byte(out), 0o644))
			}
			want := wiretest.Must(os.ReadFile(golden))(t)
			wanted, got := strings.Split(string(want), "\n"), strings.Split(out, "\n")
			for i := range min(len(wanted), len(got)) {
				require.Equal(t, wanted[i], got[i], golden)
			}
			require.Len(t, got, len(wanted), golden)
		}
	}
}

func TestSummary(t *testing.T) {
	_, stderr, status := inspect(nil, wiretest.Path(t, "rxe-verbs6.pcap"))
	require.Zero(t, status)
	require.Equal(t, "253 packets: 72 data, 22 ack, 159 other\n"+
		"ICRC: 92 right, 2 wrong; truncated packets: 0; errors: 0\n"+
		"from 2026-11-21 09:50:36 to 2026-11-21 09:50:59 UTC\n", stderr)

	_, stderr, _ = inspect(nil, wiretest.Path(t, "messages.pcap"))
	require.Contains(t, stderr,
		"24 packets: 1 data, 1 ack, 2 cnp, 4 fastcnp, 4 ppfc, 2 fcn, 2 proxy, 1 other, 7 error\n"+
			"ICRC: 12 right, 0 wrong; truncated packets: 0; errors: 7\n")

	_, stderr, _ = inspect(nil, wiretest.Path(t, "ioam-linux618-dex.pcap"))
	require.Contains(t, stderr, "1 packet: 1 data\n")
}

func TestUsage(t *testing.T) {
	capture := wiretest.Path(t, "rxe-rping6.pcap")
	for _, args := range [][]string{
		{},
		{"-json"},
		{"-i", "lo", capture},
		{"-i", "", "-all"},
		{"-nonsense", capture},
		{"-fcn-port", capture},
		{"-fcn-port", "0", capture},
		{"-proxy-port", "65536", capture},
		{"-proxy-port", "-1", capture},
		{"-fcn-port", "4791", capture},
		{"-fcn-port", "7", "-proxy-port", "7", capture},
		{"-option-types", "1", capture},
		{"-option-types", "0x93,0x94,0x95", capture},
	} {
		stdout, stderr, status := inspect(nil, args...)
		require.Equal(t, 2, status, args)
		require.Empty(t, stdout, args)
		require.NotEmpty(t, stderr, args)
	}
	_, stderr, _ := inspect(nil, "-i", "lo", "a.pcap")
	require.Equal(t, "rocecn inspect: -i lo and the capture a.pcap: want only one of them\n", stderr)
	_, stderr, status := inspect(nil, "-h")
	require.Zero(t, status)
	require.Contains(t, stderr, "usage: rocecn inspect")
	_, _, status = inspect(nil, "-fcn-port", fmt.Sprint(proxymsg.Port), "-proxy-port", fmt.Sprint(fcn.Port), capture)
	require.Zero(t, status)
	_, _, status = inspect(nil, "-fcn-port", "1", "-proxy-port", "65535", capture)
	require.Zero(t, status)
}

// An interrupt ends the current file, and no further file is read.
func TestInterrupt(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	a, b := filepath.Join(t.TempDir(), "a.pcap"), filepath.Join(t.TempDir(), "b.pcap")
	var out, messages bytes.Buffer
	require.Equal(t, 1, Run(ctx, []string{a, b}, nil, &out, &messages))
	require.Contains(t, messages.String(), a+": no such file")
	require.NotContains(t, messages.String(), b)
}

// A file that cannot be read is no reason to leave the others out.
func TestSeveralFiles(t *testing.T) {
	a, b := wiretest.Path(t, "rxe-rping6.pcap"), wiretest.Path(t, "rxe-vlan4.pcap")
	missing := filepath.Join(t.TempDir(), "missing.pcap")
	empty := wiretest.File(t, "empty", "")
	text := wiretest.File(t, "text", []byte("no capture at all"))
	stdout, stderr, status := inspect(octetsOf(t, "rxe-udaddy6.pcap"), "-json", a, missing, empty, t.TempDir(), text, b,
		"-")
	require.Equal(t, 1, status)
	require.Contains(t, stderr, "rocecn inspect: "+missing+": no such file or directory\n")
	require.Contains(t, stderr, "rocecn inspect: "+empty+": empty file\n")
	require.Contains(t, stderr, ": is a directory\n")
	require.Contains(t, stderr, "rocecn inspect: "+text+": neither a pcap nor a pcapng capture\n")
	require.Contains(t, stderr, fmt.Sprintf("\n%d packets: ", 60+128+41))
	frames := map[string]int{}
	for _, line := range lines(t, stdout) {
		frames[line["file"]]++
		require.Equal(t, fmt.Sprint(frames[line["file"]]), line["frame"], "frames count from 1 in every file")
	}
	require.Equal(t, map[string]int{a: 60, b: 128, "-": 41}, frames)

	stdout, _, _ = inspect(nil, "-all", a, b)
	require.Equal(t, 60, strings.Count(stdout, a))
	stdout, _, _ = inspect(nil, "-json", a)
	require.NotContains(t, stdout, `"file"`)
}

// brokenWriter takes some octets, then no more.
type brokenWriter struct {
	size int
	err  error
}

func (w *brokenWriter) Write(b []byte) (int, error) {
	if w.size -= len(b); w.size < 0 {
		return 0, w.err
	}
	return len(b), nil
}

func TestOutputBreaks(t *testing.T) {
	capture := wiretest.Path(t, "rxe-verbs6.pcap")
	full := errors.New("no space left")
	for _, c := range []struct {
		err      error
		status   int
		messages string
	}{
		{syscall.EPIPE, 0, ""}, // as with | head
		{io.ErrClosedPipe, 0, ""},
		{full, 1, "rocecn inspect: no space left\n"},
	} {
		for _, size := range []int{0, 100, 70000} {
			var stderr bytes.Buffer
			status := Run(context.Background(), []string{"-json", capture, capture, capture}, nil,
				&brokenWriter{size, c.err}, &stderr)
			require.Equal(t, c.status, status)
			require.Equal(t, c.messages, stderr.String())
		}
	}
}

// The lines of a live capture come when their packets do, before the next ones.
func TestLive(t *testing.T) {
	in, feed := io.Pipe()
	printed, out := io.Pipe()
	done := make(chan int)
	go func() {
		status := Run(context.Background(), []string{"-all", "-"}, in, out, io.Discard)
		out.Close()
		done <- status
	}()
	capture := octetsOf(t, "rxe-rping6.pcap")
	first := 24 + 16 + int(capture[32]) // the file header and one record
	_, err := feed.Write(capture[:first])
	require.NoError(t, err)
	line := make([]byte, 1000)
	n := wiretest.Must(printed.Read(line))(t)
	require.Equal(t, 1, bytes.Count(line[:n], []byte("\n")))
	go io.Copy(io.Discard, printed)
	_, err = feed.Write(capture[first:])
	require.NoError(t, err)
	feed.Close()
	require.Zero(t, <-done)
}

func BenchmarkInspect(b *testing.B) {
	for _, c := range []struct {
		name string
		n    int
	}{{"rxe-verbs6.pcap", 253}, {"fastcnp.pcap", 18}, {"messages.pcap", 24}} {
		capture := octetsOf(b, c.name)
		for _, form := range []string{"-json", "-json=false"} {
			b.Run(c.name+" "+form, func(b *testing.B) {
				packets := 0
				for b.Loop() {
					Run(context.Background(), []string{form, "-"}, bytes.NewReader(capture), io.Discard, io.Discard)
					packets += c.n
				}
				b.ReportMetric(float64(packets)/b.Elapsed().Seconds(), "packets/s")
			})
		}
	}
}

// The summary counts and names every kind, also kinds that are added later.
func TestEveryKindIsInTheSummary(t *testing.T) {
	for kind := message.KindOther; kind.String() != fmt.Sprintf("Kind(%d)", uint8(kind)); kind++ {
		var s summary
		s.add(&finding{record: new(capture.Record), kind: kind})
		var out bytes.Buffer
		s.print(&out)
		require.Contains(t, out.String(), fmt.Sprintf("1 packet: 1 %v\n", kind))
	}
}

// Times have six digits, or nine where they need them; where they stand below one
// another all have nine from there on.
func TestClock(t *testing.T) {
	at := func(ns int64) time.Time { return time.Unix(0, ns).UTC() }
	var line clock
	column := clock{aligned: true}
	for _, c := range []struct {
		ns           int64
		line, column string
	}{
		{1_000, "00:00:00.000001", "00:00:00.000001"},
		{1_001, "00:00:00.000001001", "00:00:00.000001001"},
		{999_999_000, "00:00:00.999999", "00:00:00.999999000"},
		{1_000_000_000, "00:00:01.000000", "00:00:01.000000000"},
	} {
		require.Equal(t, c.line, string(line.append(nil, at(c.ns), "15:04:05")))
		require.Equal(t, c.column, string(column.append(nil, at(c.ns), "15:04:05")))
	}
}
