package flows

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/flows"
	"github.com/rocecn/rocecn/internal/traffic"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
)

// top runs rocecn top.
func top(t *testing.T, stdin io.Reader, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	status = Top(context.Background(), args, stdin, &out, &err)
	return status, out.String(), err.String()
}

// Of a file each interval of its time is a block, the worst flow first.
func TestTop(t *testing.T) {
	verbs := wiretest.Path(t, "rxe-verbs6.pcap")
	status, out, stderr := top(t, nil, "-interval", "10s", verbs)
	require.Zero(t, status, stderr)
	require.Equal(t, "253 packets, 159 other\n", stderr)
	blocks := strings.Split(strings.TrimSuffix(out, "\n"), "\n\nrocecn top ")
	require.Len(t, blocks, 3, out)
	last := blocks[2]
	require.Contains(t, last, "2 flows, 1 in trouble, ")
	require.Contains(t, last, "retransmissions 3, 0 after a timeout; NAK 1, RNR NAK 4; CE 0.0%\n")
	require.Regexp(t, `(?s)BIT/S\nfd77::2 > fd77::1 \? > 0x000017 +0 +3 +0 .*\nfd77::2 > fd77::1 \? > 0x000016`, last)
	require.NotContains(t, out, "\x1b")

	_, once, _ := top(t, nil, "-once", "-interval", "10s", verbs)
	require.True(t, strings.HasPrefix(out, once+"\n"), once)
	require.Equal(t, 1, strings.Count(once, "rocecn top"))
	_, two, _ := top(t, nil, "-n", "2", "-interval", "10s", verbs)
	require.True(t, strings.HasPrefix(out, two+"\n"), two)
	require.Equal(t, 2, strings.Count(two, "rocecn top"))

	_, out, _ = top(t, nil, wiretest.Path(t, "tour.pcap"))
	require.Contains(t, out, "notifications a second: 8.0 (CNP 2.0, Fast CNP 2.0, PPFC 2.0, FCN 1.0, proxy 1.0)\n")
	require.Contains(t, out, "paused by 02:00:00:00:00:01, priority 3: 0.0% of the time, 1 XOFF, 1 XON\n")
	require.Contains(t, out, "1 broken")

	b := wiretest.Must(os.ReadFile(verbs))(t)
	_, piped, _ := top(t, bytes.NewReader(b), "-interval", "10s", "-qp", "23", "-")
	require.Contains(t, piped, "0x000017")
	require.NotContains(t, piped, "0x000016")
}

func TestTopMisuse(t *testing.T) {
	file := wiretest.Path(t, "tour.pcap")
	for _, args := range [][]string{{}, {"-i", "lo", file}, {"-interval", "0s", file}, {"-n", "0", file},
		{"-top", "0", file}, {"-sort", "size", file}, {"-max-flows", "1", file}, {"-fcn-port", "4791", file}} {
		status, _, stderr := top(t, nil, args...)
		require.Equal(t, 2, status, args)
		require.NotEmpty(t, stderr)
	}
	status, _, stderr := top(t, nil, filepath.Join(t.TempDir(), "none"))
	require.Equal(t, 1, status)
	require.Contains(t, stderr, "no such file")
	status, _, _ = top(t, nil, "-h")
	require.Zero(t, status)
}

// watched is a watch of a second of these flows.
func watched(all ...flows.Flow) *watch {
	return &watch{name: "eth0", interval: time.Second, rows: 20, reader: &reader{},
		last: &flows.Snapshot{Flows: all},
		of:   &accountant{table: flows.New(flows.Config{})}, to: time.Unix(101, 0),
		remembered: map[rocev2.FlowKey]flows.Flow{}}
}

// A flow with a queue pair for its name.
func flowOf(qp uint32, set func(f *flows.Flow)) flows.Flow {
	f := flows.Flow{FlowKey: flowKey(netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2"), qp),
		Sequenced: true, Last: time.Unix(100, 0)}
	f.Packets = 10
	set(&f)
	return f
}

// Each order has its worst flow, and goes on with the others. A silent flow is before all stalls of others.
func TestTopOrder(t *testing.T) {
	w := watched(
		flowOf(1, func(f *flows.Flow) { f.Data.Mean = 9 }),
		flowOf(2, func(f *flows.Flow) { f.PSN.Retransmitted, f.Causes.Timeout = 1, 1000 }),
		flowOf(3, func(f *flows.Flow) { f.PSN.Retransmitted = 5 }),
		flowOf(4, func(f *flows.Flow) { f.CNPs, f.FastCNPs = 1, 1 }),
		flowOf(5, func(f *flows.Flow) { f.PPFC = 3 }),
	)
	w.silent = []flows.Flow{flowOf(6, func(f *flows.Flow) { f.Last = time.Unix(98, 0) })}
	for _, c := range []struct {
		order topOrder
		want  []uint32
	}{
		{byNotifications, []uint32{5, 4, 3, 2, 6, 1}}, {byRetransmissions, []uint32{3, 2, 5, 4, 6, 1}},
		{byStalls, []uint32{6, 2, 5, 4, 3, 1}},
		{byRate, []uint32{1, 5, 4, 3, 2, 6}},
	} {
		t.Run(fmt.Sprint(c.order), func(t *testing.T) {
			w.order = c.order
			var got []uint32
			for _, r := range w.worstRows() {
				got = append(got, r.flow.DestQP)
			}
			require.Equal(t, c.want, got, topOrders[c.order])
		})
	}
}

// Numbers of trouble are red or yellow, and without a colour if they are 0.
func TestTopColours(t *testing.T) {
	w := watched(flowOf(1, func(f *flows.Flow) { f.PSN.Retransmitted, f.Causes.Timeout = 7, 2 }))
	coloured := func() map[string]string {
		all := map[string]string{}
		for _, line := range w.headLines() {
			for _, part := range line {
				all[part.Text] = part.colour
			}
		}
		return all
	}
	got := coloured()
	require.Equal(t, red, got["retransmissions 7"])
	require.Equal(t, red, got["2 after a timeout"])
	for _, text := range []string{"RNR NAK 0", "NAK 0"} {
		require.Contains(t, got, text)
		require.Empty(t, got[text])
	}
	w = watched(flowOf(1, func(f *flows.Flow) {}))
	require.Empty(t, coloured()["retransmissions 0"])
}

// In any size, no line is longer than the screen is wide, there are no more lines than fit, and flows in trouble come
// first.
func TestTopFits(t *testing.T) {
	var all []flows.Flow
	for qp := range uint32(300) {
		all = append(all, flowOf(qp, func(f *flows.Flow) { f.CNPs = uint64(qp) }))
	}
	w := watched(all...)
	w.name = "\x1b[31mé.pcap"
	escape := regexp.MustCompile("\x1b\\[[0-9;]*m")
	for _, w.colour = range []bool{false, true} {
		for width := 1; width < 140; width += 6 {
			for height := 1; height < 60; height += 7 {
				block := string(w.formatBlock(width, height))
				lines := strings.Split(strings.TrimSuffix(block, "\n"), "\n")
				require.LessOrEqual(t, len(lines), height)
				for _, line := range lines {
					require.LessOrEqual(t, utf8.RuneCountInString(escape.ReplaceAllString(line, "")), width, line)
				}
				require.NotContains(t, block, "\x1b[31mé")
				if width > 80 && height > 10 {
					require.Contains(t, block, "0x00012b", "the worst")
					require.Regexp(t, `and \d+ more flows\n$`, block)
				}
			}
		}
	}
}

// flowLineOfTop matches a flow in one line with whole numbers.
const flowLineOfTop = `^\S+ > \S+ +(\?|0x[0-9a-f]{6}) > 0x[0-9a-f]{6}( +(\d+|–|[\d.]+([kMGT%]|µs|ms|s)))+$`

// A flow takes one line of 80 columns, also with long addresses and large numbers.
func TestTopLongAddresses(t *testing.T) {
	w := watched(flowOf(1<<24-1, func(f *flows.Flow) {
		f.Src, f.Dst = netip.MustParseAddr("2001:db8:1111:2222:3333:4444:5555:6661"),
			netip.MustParseAddr("2001:db8:1111:2222:3333:4444:5555:6662")
		f.SrcQP, f.SrcQPFrom = 1<<24-2, 1
		f.Data = flows.Data{Mean: 36.7e9, Packets: 1e9, CE: 5e8}
		f.CNPs, f.PSN.Retransmitted = 123456, 98765
	}))
	lines := strings.Split(strings.TrimSuffix(string(w.formatBlock(80, 24)), "\n"), "\n")
	last := lines[len(lines)-1]
	require.Regexp(t, flowLineOfTop, last)
	require.Regexp(t, `^…:5555:6661 > …:5555:6662 +0xfffffe > 0xffffff +123k +98.8k +50.0% +36.7G$`, last)
	require.Contains(t, strings.Join(lines, " "), "to 2001:db8:1111:2222:3333:4444:5555:6662: 1 flow, 36.7G bit/s, ")
}

// A flow in trouble that falls silent stays on the screen for a while; nothing is kept
// without end.
func TestTopSilent(t *testing.T) {
	w := watched()
	w.out = io.Discard
	at := func(second int64, all ...flows.Flow) string {
		w.of.from, w.of.to = time.Unix(second-1, 0), time.Unix(second, 0)
		require.NoError(t, w.showInterval(&flows.Snapshot{Flows: all}))
		return string(w.formatBlock(columns, 0))
	}
	trouble := flowOf(17, func(f *flows.Flow) { f.PSN.Retransmitted = 1 })
	well := flowOf(18, func(f *flows.Flow) {})
	require.NotContains(t, at(101, trouble, well), "silent 1s")
	require.Contains(t, at(102), "1 silent since in trouble")
	text := at(103)
	require.Contains(t, text, "0x000011     –       –       –       –   –  –       – silent 3s\n")
	require.NotContains(t, text, "0x000012")
	require.Contains(t, at(110), "silent 10s")
	require.NotContains(t, at(111), "silent 11s")
	require.Empty(t, w.remembered)
	at(101, trouble)
	require.NotContains(t, at(90), "silent -", "the clock jumped back")
	var many []flows.Flow
	for qp := range uint32(2 * maxRemembered) {
		many = append(many, flowOf(qp, func(f *flows.Flow) { f.CNPs = 1 }))
	}
	at(101, many...)
	require.Len(t, w.remembered, maxRemembered)
	at(101, flowOf(0, func(f *flows.Flow) {}))
	require.Len(t, w.remembered, maxRemembered-1)
}

// An interrupt is the end of the input, as it is everywhere: the interval until then is shown.
func TestTopInterrupted(t *testing.T) {
	b := wiretest.Must(os.ReadFile(wiretest.Path(t, "rxe-verbs6.pcap")))(t)
	ctx, interrupt := context.WithCancel(t.Context())
	var out, stderr bytes.Buffer
	in := io.MultiReader(bytes.NewReader(b), interruption(interrupt))
	require.Zero(t, Top(ctx, []string{"-interval", "1h", "-"}, in, &out, &stderr), stderr.String())
	require.Equal(t, 1, strings.Count(out.String(), "rocecn top"))
	require.Contains(t, out.String(), "retransmissions 3,")
}

// interruption is an input that interrupts when it is read, and ends.
type interruption func()

func (i interruption) Read([]byte) (int, error) { i(); return 0, io.EOF }

// Lost packets are reported.
func TestTopLost(t *testing.T) {
	w := watched()
	w.reader.dropped, w.reader.present = 5, 7
	w.last.Stats = flows.Stats{Truncated: 3, Broken: 4}
	require.Contains(t, string(w.formatBlock(columns, 0)), "not seen since the start: 12 dropped by the kernel, "+
		"0 flows evicted, 3 truncated by the snapshot length, 4 broken\n")
	path, _ := made(t, 1, traffic.Options{Connections: 40})
	_, out, stderr := top(t, nil, "-max-flows", "16", "-interval", "1h", path)
	require.NotContains(t, out, " 0 flows evicted")
	require.Contains(t, stderr, "table full (-max-flows): evicted ")
}

// The paused priorities have a line each, the longest pauses first; without any, the line says so.
func TestTopPauses(t *testing.T) {
	w := watched()
	require.Contains(t, string(w.formatBlock(columns, 0)), "\npaused: no PFC or PAUSE frame seen\n")
	for i := range byte(maxPauses + 2) {
		l := flows.Link{Src: net.HardwareAddr{2, 0, 0, 0, 0, i}}
		l.Priorities[3] = flows.Priority{XOFF: uint64(i) + 4, XON: uint64(i) + 1,
			Paused: time.Duration(i+1) * 10 * time.Millisecond}
		w.last.Links = append(w.last.Links, l)
	}
	text := string(w.formatBlock(columns, 0))
	require.NotContains(t, text, "no PFC")
	first := fmt.Sprintf("\npaused by 02:00:00:00:00:%02x, priority 3: %d.0%% of the time, %d XOFF, %d XON\n",
		maxPauses+1, maxPauses+2, maxPauses+5, maxPauses+2)
	require.Contains(t, text, first)
	require.Contains(t, text, "\nand 2 other pauses\n")
	require.NotContains(t, text, "02:00:00:00:00:01,")
}
