package browsertest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/traffic"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
)

// The brush lies over the visible part, and each tick of the axis at its time.
func TestBrushAndAxis(t *testing.T) {
	capture, _ := lossy(t)
	ctx := browser(t)
	open(t, ctx, pageOf(t, capture))
	span := read[float64](t, ctx, "whole.to")
	for _, part := range []struct{ from, to float64 }{{0, 1}, {0.25, 0.5}, {0.6, 0.61}} {
		t.Run(fmt.Sprint(part), func(t *testing.T) {
			read[chromedp.Void](t, ctx, fmt.Sprintf("void show(%g, %g)", part.from*span, part.to*span))
			painted(t, ctx)
			at := read[[]float64](t, ctx, "[parseFloat(brush.style.left), parseFloat(brush.style.width)]")
			require.InDeltaSlice(t, []float64{100 * part.from, 100 * (part.to - part.from)}, at, 0.01)
			type tick struct {
				Left float64
				Text string
			}
			ticks := read[[]tick](t, ctx,
				`[...axis.children].map(e => ({Left: parseFloat(e.style.left), Text: e.textContent}))`)
			require.Greater(t, len(ticks), 2)
			for _, tick := range ticks {
				at := part.from + (part.to-part.from)*tick.Left/100
				since := wiretest.Must(time.ParseDuration(strings.Replace(tick.Text, "+0", "0", 1)))(t)
				require.InDelta(t, at*span, float64(since), 1+span*(part.to-part.from)/1e5, tick.Text)
			}
		})
	}
}

// With Ctrl the wheel zooms around the pointer: away from the user into the picture. With Shift it moves the visible
// part. Alone it scrolls the page.
func TestWheel(t *testing.T) {
	capture, _ := lossy(t)
	ctx := browser(t)
	open(t, ctx, pageOf(t, capture))
	span := read[float64](t, ctx, "whole.to")
	for _, test := range []struct {
		name, event string
		from, to    float64 // of the span, from 0.4 to 0.6 and the pointer at 0.45
	}{
		{"Ctrl, up", "ctrlKey: true, deltaY: -100", 0.41, 0.57},
		{"Ctrl, down", "ctrlKey: true, deltaY: 100", 0.3875, 0.6375},
		{"Command, up", "metaKey: true, deltaY: -100", 0.41, 0.57},
		{"Shift, down", "shiftKey: true, deltaY: 100", 0.42, 0.62},
		{"Shift, up", "shiftKey: true, deltaY: -100", 0.38, 0.58},
		{"Shift, to the right", "shiftKey: true, deltaX: 100", 0.42, 0.62},
		{"alone", "deltaY: -100", 0.4, 0.6},
	} {
		t.Run(test.name, func(t *testing.T) {
			read[chromedp.Void](t, ctx, fmt.Sprintf("void show(%g, %g)", 0.4*span, 0.6*span))
			read[chromedp.Void](t, ctx, fmt.Sprintf(`void (() => {
				const plot = document.querySelector("#totals .plot"), box = plot.getBoundingClientRect();
				const clientX = box.left + 0.25 * box.width;
				plot.dispatchEvent(new WheelEvent("wheel", {clientX, bubbles: true, cancelable: true, %s}));
			})()`, test.event))
			got := read[[]float64](t, ctx, "[view.from, view.to]")
			require.InDeltaSlice(t, []float64{test.from * span, test.to * span}, got, span/1000)
		})
	}
}

// A legend has the sums over the whole capture, also while a part of it is visible.
func TestLegends(t *testing.T) {
	capture, made := lossy(t)
	ctx := browser(t)
	open(t, ctx, pageOf(t, capture))
	read[chromedp.Void](t, ctx, "void show(whole.to / 2, whole.to / 2 + 1000)")
	painted(t, ctx)
	var sum traffic.Truth
	for _, truth := range made.Flows {
		sum.CE += truth.CE
		sum.CNPs += truth.CNPs
		sum.Fast += truth.Fast
		sum.Missing += truth.Missing
		sum.Late += truth.Late
	}
	legend := func(within string) map[string]uint64 {
		all := map[string]uint64{}
		for _, text := range read[[]string](t, ctx, within) {
			found := regexp.MustCompile(`^(.+): (\d+) $`).FindStringSubmatch(text)
			require.NotNil(t, found, text)
			all[found[1]] += wiretest.Must(strconv.ParseUint(found[2], 10, 64))(t)
		}
		return all
	}
	const inTotals = `[...document.querySelectorAll("#totals .of-counts .legend > span")].map(e => e.textContent)`
	all := legend(inTotals)
	require.Positive(t, sum.CE)
	require.Equal(t, sum.CE, all["CE"])
	require.Equal(t, sum.CNPs+sum.Fast, all["CNP"])
	require.Equal(t, sum.Missing, all["missing"])
	require.Equal(t, sum.Late, all["out of order"])

	// The first bin counts as well: the capture begins with a marked packet.
	made.Frames = made.Frames[slices.IndexFunc(made.Frames, func(f *traffic.Frame) bool {
		var p rocev2.Packet
		return p.DecodeEthernet(f.Data) == nil && p.ECN() == rocev2.CE
	}):]
	name := filepath.Join(t.TempDir(), "marked.pcap")
	file := wiretest.Must(os.Create(name))(t)
	require.NoError(t, made.Write(file))
	require.NoError(t, file.Close())
	open(t, ctx, pageOf(t, name))
	painted(t, ctx)
	require.Equal(t, sum.CE, legend(inTotals)["CE"])
}

// The chart of a row marks CNPs and Fast CNPs, each at its time.
func TestRowMarksFastCNPs(t *testing.T) {
	capture, made := lossy(t)
	ctx := browser(t)
	open(t, ctx, pageOf(t, capture))
	fast := uint64(0)
	for key, truth := range made.Flows {
		fast += truth.Fast
		marks := read[int](t, ctx, fmt.Sprintf(`(() => {
			const flow = rows.findIndex(({row}) =>
				row[firstCell + data.columns.findIndex(c => c.name === "to QP")] === %d);
			openFlow(flow);
			const path = document.querySelector('[data-flow="' + flow + '"] path.cnp');
			return path ? path.getAttribute("d").split("M").length - 1 : 0;
		})()`, key.DestQP))
		require.EqualValues(t, truth.CNPs+truth.Fast, marks, key)
	}
	require.Positive(t, fast)
}

// The table has the round trip times of the command, with three digits.
func TestRoundTripColumn(t *testing.T) {
	capture, _ := lossy(t)
	out, err := exec.Command(wiretest.Must(command())(t), "flows", "-json", capture).Output()
	require.NoError(t, err)
	var want []float64
	for _, found := range regexp.MustCompile(`"rtt_us":\{[^}]*"p99":([0-9.]+)`).FindAllSubmatch(out, -1) {
		want = append(want, 1000*wiretest.Must(strconv.ParseFloat(string(found[1]), 64))(t))
	}
	require.NotEmpty(t, want)
	ctx := browser(t)
	open(t, ctx, pageOf(t, capture))
	ungroup(t, ctx)
	var got []float64
	for _, text := range column(t, ctx, "RTT p99") {
		if text != "–" {
			got = append(got, float64(wiretest.Must(time.ParseDuration(text))(t)))
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	require.Len(t, got, len(want))
	for i := range want {
		require.InEpsilon(t, want[i], got[i], 0.005)
	}
}
