package browsertest

import (
	"context"
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
)

// A shape is a part of a picture that is 1000 wide and 100 high.
type shape struct {
	Kind                string
	X, Y, Width, Height float64
}

// Pictures of lanes are true to scale, and the value at the cursor is that of its time. The bins are 1 µs wide, and
// eight of them are filled.
func TestLanes(t *testing.T) {
	ctx := browser(t)
	c := open(t, ctx, pageOf(t, wiretest.Path(t, "messages.pcap")))
	read[chromedp.Void](t, ctx, `void Object.assign(window, {
		edges: [0, 1000, 2000, 3000, 4000, 5000, 6000, 7000, 8000],
		setTime(to) { whole.to = to; Object.assign(view, whole); },
		drawOne(lane) {
			const made = drawLane(lane, "test").node;
			document.body.append(made);
			return made;
		},
		shapesOf(lane) {
			const made = drawOne(lane);
			const shapes = [...made.querySelectorAll("svg path:not(.grid)")].map(path => {
				const {x, y, width, height} = path.getBBox();
				return {Kind: path.getAttribute("class"), X: x, Y: y, Width: width, Height: height};
			});
			made.remove();
			return shapes;
		},
	})`)
	const kinds = `[["a", "A", "ka"], ["b", "B", "kb"], ["c", "C", "kc"]]`
	const counts = `countLane("Counts", {edges, a: [2, 0, 1], c: [1]}, ` + kinds + `)`
	const pauses = `pauseLane({name: "p", pauses: [[1000, 2000, 1000, 3, 9], [3000, 4000, 500, 2, 10]]})`
	const psns = `psnLane({edges, psn: [0, 10, 11, 20, null, null, 21, 40, ...Array(8).fill(null)], marks: [` +
		`["gap", 1500, 7, 12, 16, "5 missing"], ["cnp", 1600, 8, 0, 0, "CNP"]]})`
	const events = `eventLane({edges, naks: [0, 3], marks: [["nak", 1500, 7, 0, 0, "a NAK"], ` +
		`["nak", 1520, 8, 0, 0, "another"], ["cnp", 4000, 9, 0, 0, "a CNP"]]}, ` +
		`[["nak", "NAK", "naks"], ["rnr", "RNR", "rnrs"], ["cnp", "CNP", null]])`
	const queues = `queueLane([{node: 5, from: 0, width: 1000, depth: [4, null, 2]}, ` +
		`{node: 6, from: 0, width: 1000, depth: [8, 1]}])`
	for _, row := range []struct {
		name, lane string
		time       float64 // the whole time
		at         float64 // of the cursor
		value      string
		shapes     []shape
	}{
		{"rate", `rateLane({edges, octets: [125, 250]})`, 8000, 500, "1.00Gbit/s", []shape{{"rate", 0, 0, 1000, 100}}},
		{"rate of the next bin", `rateLane({edges, octets: [125, 250]})`, 8000, 1000, "2.00Gbit/s",
			[]shape{{"rate", 0, 0, 1000, 100}}},
		{"counts side by side, without room for kinds that are absent", counts, 8000, 500, "2 A, 1 C",
			[]shape{{"ka", 0, 0, 306.25, 100}, {"kc", 62.5, 50, 56.25, 50}}},
		{"nothing at the cursor", counts, 8000, 1500, "",
			[]shape{{"ka", 0, 0, 306.25, 100}, {"kc", 62.5, 50, 56.25, 50}}},
		{"counts of bins too narrow for a bar", counts, 8e6, 500, "3 A, 1 C",
			[]shape{{"ka", 0, 0, 1.8, 100}, {"kc", 2, 66.67, 1.8, 33.33}}},
		{"round trip", `rttLane({edges, rtt: [100, 300, 200]})`, 8000, 2500, "200ns",
			[]shape{{"rtt", 0, 0, 362.5, 100}}},
		{"longest round trip of several bins", `rttLane({edges, rtt: [100, 300, 200]})`, 8e6, 500, "300ns",
			[]shape{{"rtt", 0, 0, 1.8, 100}}},
		{"pause", pauses, 8000, 1500, "paused 1µs by 3 XOFF",
			[]shape{{"pause", 125, 10, 125, 90}, {"pause some", 375, 55, 125, 45}}},
		{"part of a pause", pauses, 8000, 3500, "paused 500ns of 1µs by 2 XOFF",
			[]shape{{"pause", 125, 10, 125, 90}, {"pause some", 375, 55, 125, 45}}},
		{"between pauses", pauses, 8000, 2500, "",
			[]shape{{"pause", 125, 10, 125, 90}, {"pause some", 375, 55, 125, 45}}},
		{"pause of half a column", `pauseLane({name: "p", pauses: [[4000, 4010, 10, 1, 9]]})`, 8000, 4005,
			"paused 10ns by 1 XOFF", []shape{{"pause", 500, 55, 2.5, 45}}},
		{"pause that is hardly seen", `pauseLane({name: "p", pauses: [[4000, 4001, 1, 1, 9]]})`, 8000, 4001,
			"paused 1ns by 1 XOFF", []shape{{"pause", 500, 88, 2.5, 12}}},
		{"several pauses in a column", `pauseLane({name: "p", pauses: [[4000, 4004, 4, 1, 9], [4008, 4014, 6, 1, 9]]})`,
			8000, 4001, "paused 4ns by 1 XOFF", []shape{{"pause", 500, 55, 2.5, 45}}},
		{"PSNs", psns, 8000, 500, "10", []shape{{"psn", 0, 0, 500, 100}, {"gap", 187.5, 52, 0, 26}}},
		{"PSNs of a later bin", psns, 8000, 3500, "40", []shape{{"psn", 0, 0, 500, 100}, {"gap", 187.5, 52, 0, 26}}},
		{"events in rows", events, 8000, 1500, "a NAK, 1 more", []shape{{"nak", 187.5, 7.5, 0, 35},
			{"nak", 190, 7.5, 0, 35}, {"cnp", 500, 57.5, 0, 35}}},
		{"another event", events, 8000, 4020, "a CNP", []shape{{"nak", 187.5, 7.5, 0, 35},
			{"nak", 190, 7.5, 0, 35}, {"cnp", 500, 57.5, 0, 35}}},
		{"queues of two nodes", queues, 8000, 500, "5: 4, 6: 8",
			[]shape{{"node0", 0, 50, 375, 50}, {"node1", 4, 0, 246, 100}}},
		{"queues of narrow bins", `queueLane([{node: 5, from: 4000, width: 10, depth: [4, 2]}])`, 8000, 4015, "5: 2",
			[]shape{{"node0", 500, 0, 5.25, 100}}},
		{"queue of one node", queues, 8000, 2500, "5: 2",
			[]shape{{"node0", 0, 50, 375, 50}, {"node1", 4, 0, 246, 100}}},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := read[[]shape](t, ctx, fmt.Sprintf(`(setTime(%g), shapesOf(%s))`, row.time, row.lane))
			require.Len(t, got, len(row.shapes))
			for i, want := range row.shapes {
				require.Equal(t, want.Kind, got[i].Kind)
				require.InDeltaSlice(t, []float64{want.X, want.Y, want.Width, want.Height},
					[]float64{got[i].X, got[i].Y, got[i].Width, got[i].Height}, 0.02, "%v", got[i])
			}
			require.Equal(t, row.value, read[string](t, ctx, fmt.Sprintf("%s.read(%g)", row.lane, row.at)))
		})
	}
	t.Run("absent", func(t *testing.T) {
		require.True(t, read[bool](t, ctx, `[countLane("x", {edges}, `+kinds+`), rttLane({edges}), psnLane({edges}),
			eventLane({edges}, []), queueLane(undefined)].every(lane => lane === null)`))
	})
	t.Run("scale of several bins in one", func(t *testing.T) {
		for _, row := range []struct {
			lane string
			want []string
		}{
			{`rateLane({edges, octets: [125, 250]})`, []string{"0", "200M"}}, // 375 octets in 8 µs
			{counts, []string{"0", "1", "2", "3"}},
			{`rttLane({edges, rtt: [100, 300, 200]})`, []string{"0", "100ns", "200ns", "300ns"}},
		} {
			require.Equal(t, row.want, read[[]string](t, ctx, `(() => {
				setTime(8e6);
				const made = drawOne(`+row.lane+`), ticks = [...made.querySelectorAll(".tick")].map(e => e.textContent);
				made.remove();
				return ticks;
			})()`), row.lane)
		}
	})
	t.Run("tall", func(t *testing.T) {
		heights := read[[]float64](t, ctx, fmt.Sprintf(`[rateLane({edges, octets: [1]}), %s, %s, %s].map(lane => {
			const made = drawOne(lane), height = made.querySelector(".plot").offsetHeight;
			made.remove();
			return height;
		})`, psns, queues, counts))
		require.Equal(t, heights[:1], heights[1:2])
		require.Equal(t, heights[:1], heights[2:3])
		require.Greater(t, heights[0], 1.5*heights[3])
	})
	require.Empty(t, c.complaints)
}

// The pictures in the table show the visible time, as all others do.
func TestStripsFollowView(t *testing.T) {
	capture, _ := lossy(t)
	ctx := browser(t)
	open(t, ctx, pageOf(t, capture))
	requireRedrawn(t, ctx, ".strip svg")
	requireRedrawn(t, ctx, "#totals .of-rate svg")
}

// requireRedrawn requires that a picture changes with the visible time, and is the same again with the same time.
func requireRedrawn(t *testing.T, ctx context.Context, selector string) {
	t.Helper()
	picture := func(from, to float64) string {
		read[chromedp.Void](t, ctx, fmt.Sprintf("void show(%g * whole.to, %g * whole.to)", from, to))
		painted(t, ctx)
		return read[string](t, ctx, fmt.Sprintf("document.querySelector(%q).innerHTML", selector))
	}
	all := picture(0, 1)
	require.NotEqual(t, all, picture(0.25, 0.5), selector)
	require.Equal(t, all, picture(0, 1), selector)
}
