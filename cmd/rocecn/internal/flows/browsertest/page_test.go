package browsertest

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/internal/traffic"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/pfc"
	"github.com/rocecn/rocecn/rocev2"
)

var pictures = flag.String("pictures", "", "write pictures to this `directory`")

// browser starts a Chromium of its own. chromedp gives it a folder for its data, and removes the folder after the last
// process of Chromium has ended.
func browser(t *testing.T) context.Context {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		wiretest.Missing(t, "chromium")
	}
	ctx, cancel := chromedp.NewExecAllocator(context.Background(),
		chromedp.ExecPath(path),
		chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck,
		chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true),
		chromedp.Flag("hide-scrollbars", true),
		chromedp.Flag("force-color-profile", "srgb"),
		chromedp.WSURLReadTimeout(time.Minute),
	)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	require.NoError(t, chromedp.Do(ctx)) // starts it, for as long as ctx lives
	ctx, cancel = context.WithTimeout(ctx, 8*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// A console has the errors and the requests of a page.
type console struct {
	sync.Mutex
	complaints, requests []string
}

func (c *console) add(list *[]string, text string) {
	c.Lock()
	defer c.Unlock()
	*list = append(*list, text)
}

// open opens a file, and returns its console.
func open(t *testing.T, ctx context.Context, file string) *console {
	t.Helper()
	var c console
	require.NoError(t, chromedp.Listen(ctx, func(ev any) {
		switch ev := ev.(type) {
		case *runtime.EventConsoleAPICalled:
			c.add(&c.complaints, fmt.Sprint(ev.Type))
		case *runtime.EventExceptionThrown:
			c.add(&c.complaints, ev.ExceptionDetails.Text)
		case *log.EventEntryAdded:
			c.add(&c.complaints, ev.Entry.Text)
		case *network.EventRequestWillBeSent:
			c.add(&c.requests, ev.Request.URL)
		}
	}))
	require.NoError(t, chromedp.Do(ctx, chromedp.Navigate("file://"+file)))
	return &c
}

// command builds rocecn once.
var command = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "rocecn")
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, "rocecn")
	build := exec.Command("go", "build", "-o", name, "./cmd/rocecn")
	build.Dir = filepath.Join("..", "..", "..", "..", "..")
	out, err := build.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return name, nil
})

func TestMain(m *testing.M) {
	flag.Parse()
	status := m.Run()
	if name, err := command(); err == nil {
		os.RemoveAll(filepath.Dir(name))
	}
	os.Exit(status)
}

// pageOf writes the page of a capture.
func pageOf(t *testing.T, capture string) string {
	t.Helper()
	name := wiretest.Must(command())(t)
	html := filepath.Join(t.TempDir(), "page.html")
	out, err := exec.Command(name, "flows", "-html", html, capture).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return html
}

// lossy writes a capture in which things happen, and says which.
func lossy(t *testing.T) (name string, made *traffic.Capture) {
	t.Helper()
	made = traffic.Generate(21, traffic.Options{Connections: 4})
	name = filepath.Join(t.TempDir(), "lossy.pcap")
	f := wiretest.Must(os.Create(name))(t)
	require.NoError(t, made.Write(f))
	require.NoError(t, f.Close())
	return name, made
}

// read returns the value of an expression.
func read[T any](t *testing.T, ctx context.Context, expression string) (v T) {
	t.Helper()
	v = wiretest.Must(chromedp.Run(ctx, chromedp.Evaluate[T](expression)))(t)
	return v
}

// column returns the cells of a column, from top to bottom.
func column(t *testing.T, ctx context.Context, heading string) []string {
	t.Helper()
	return read[[]string](t, ctx, fmt.Sprintf(`(() => {
		const i = [...document.querySelectorAll("#flows thead th")].findIndex(h => h.textContent === %q);
		return [...document.querySelectorAll("#flows tr[data-flow]")].map(r => r.cells[i].textContent);
	})()`, heading))
}

// click clicks at the first element that matches a selector and contains a text, if one is given.
func click(t *testing.T, ctx context.Context, selector, text string) {
	t.Helper()
	require.True(t, read[bool](t, ctx, fmt.Sprintf(`(() => {
		const found = [...document.querySelectorAll(%q)].find(e => %q === "" || e.textContent === %q);
		found?.click();
		return Boolean(found);
	})()`, selector, text, text)), "%s %s", selector, text)
}

// painted waits for the next redraw of the page.
func painted(t *testing.T, ctx context.Context) {
	t.Helper()
	_, err := chromedp.Run(ctx, chromedp.Evaluate[int](
		`new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))`,
		chromedp.EvalAwaitPromise))
	require.NoError(t, err)
}

// press presses a key where the focus is.
func press(t *testing.T, ctx context.Context, keys ...string) {
	t.Helper()
	for _, key := range keys {
		read[chromedp.Void](t, ctx, fmt.Sprintf(
			`void document.activeElement.dispatchEvent(new KeyboardEvent("keydown", {key: %q, bubbles: true}))`, key))
	}
	painted(t, ctx)
}

func screen(t *testing.T, ctx context.Context, width, height int64, dark bool) {
	t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	view(t, ctx, width, height, media("screen", scheme))
}

// view waits until the page is as wide as it is told to be.
func view(t *testing.T, ctx context.Context, width, height int64, as chromedp.Action[chromedp.Void]) {
	t.Helper()
	require.NoError(t, chromedp.Do(ctx, chromedp.EmulateViewport(width, height), as))
	wiretest.Await(t, "width of the page", func() bool { return read[int64](t, ctx, "innerWidth") == width })
}

// media lets a page believe that it is shown on screen or printed.
func media(name, scheme string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Media: name, Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return err
	})
}

func picture(t *testing.T, ctx context.Context, name string) {
	t.Helper()
	if *pictures == "" {
		return
	}
	png := wiretest.Must(chromedp.Run(ctx, chromedp.CaptureScreenshot()))(t)
	require.NoError(t, os.WriteFile(filepath.Join(*pictures, name), paletted(t, png), 0o644))
}

// ungroup shows the flows one below the other.
func ungroup(t *testing.T, ctx context.Context) {
	t.Helper()
	read[chromedp.Void](t, ctx, `void (grouped.checked && grouped.click())`)
}

const heads = "#flows thead button"

// The page opens without a complaint, asks for nothing but itself, and sorts.
func TestOpensAndSorts(t *testing.T) {
	capture, made := lossy(t)
	ctx := browser(t)
	c := open(t, ctx, pageOf(t, capture))
	require.Equal(t, "RoCEv2 flows · lossy.pcap", read[string](t, ctx, "document.title"))

	ungroup(t, ctx)
	click(t, ctx, heads, "Packets")
	onlyResponses := 0
	for k, truth := range made.Flows {
		if truth.Responses > 0 && made.Flows[rocev2.FlowKey{Src: k.Dst, Dst: k.Src, DestQP: truth.SrcQP}] == nil {
			onlyResponses++
		}
	}
	require.Positive(t, onlyResponses)
	require.Len(t, column(t, ctx, "Packets"), len(made.Flows)+onlyResponses+4) // and those of connection management
	numbers := func() (all []int) {
		for _, text := range column(t, ctx, "Packets") {
			n := wiretest.Must(strconv.Atoi(text))(t)
			all = append(all, n)
		}
		return all
	}
	descending := numbers()
	require.True(t, slices.IsSortedFunc(descending, func(a, b int) int { return b - a }), "%v", descending)
	click(t, ctx, heads, "Packets")
	require.True(t, slices.IsSorted(numbers()))
	require.Equal(t, "ascending", read[string](t, ctx, `document.querySelector("th[aria-sort]").ariaSort`))

	click(t, ctx, heads, "bit/s")
	rates := []string{"547M", "463M", "151M", "105M", "81.2M", "56.8M", "7.74M", "7.51M", "5.00M", "4.95M"}
	require.Equal(t, rates, column(t, ctx, "bit/s"))
	click(t, ctx, heads, "Flow")
	names := column(t, ctx, "Flow")
	require.True(t, slices.IsSorted(names), "%v", names)
	click(t, ctx, heads, "Missing")
	missing := column(t, ctx, "Missing")
	require.Equal(t, "2", missing[0])
	require.Equal(t, "–", missing[len(missing)-1])
	require.Equal(t, "The same everywhere: Port 50000. 0 everywhere: Lost, Copies",
		read[string](t, ctx, `document.querySelector("#empty").textContent`))

	require.Empty(t, c.complaints)
	for _, url := range c.requests { // the page, and perhaps its empty icon
		require.Regexp(t, `^(file://.*/page\.html|data:,)$`, url)
	}
}

// Numbers are written as rocecn flows prints them.
func TestFormats(t *testing.T) {
	capture, _ := lossy(t)
	ctx := browser(t)
	open(t, ctx, pageOf(t, capture))
	for _, c := range []struct{ name, want string }{
		{`shortTime(92160)`, "92.2µs"}, {`shortTime(104448)`, "104µs"}, {`shortTime(2851234)`, "2.85ms"},
		{`shortTime(999)`, "999ns"}, {`shortTime(1000)`, "1µs"}, {`shortTime(0)`, "0ns"}, {`shortTime(1.5e9)`, "1.5s"},
		{`shortTime(1004)`, "1µs"}, {`shortTime(9994)`, "9.99µs"}, {`shortTime(12345)`, "12.3µs"},
		{`shortTime(999499)`, "999µs"}, {`shortTime(999999)`, "1ms"}, {`shortTime(-1004)`, "-1µs"},
		{`duration(999999)`, "999.999µs"}, {`duration(1e6)`, "1ms"}, {`duration(1e9)`, "1s"},
		{`duration(59.999e9)`, "59.999s"}, {`duration(60e9)`, "1m0s"}, {`duration(3600e9)`, "1h0m0s"},
		{`scaled(0.4)`, "0"}, {`scaled(12345)`, "12.3k"}, {`scaled(123456)`, "123k"}, {`scaled(2e9)`, "2.00G"},
		{`scaled(2e12)`, "2.00T"}, {`scaled(2e15)`, "2P"}, {`formats.share(0)`, "0"}, {`formats.share(0.04)`, "0.0%"},
		{`formats.count(7)`, "7"}, {`formats.qp(0)`, "0x000000"}, {`written("share", null)`, "–"},
		{`shortTime(100.4e9)`, "1m40s"}, {`shortTime(7325e9)`, "2h2m10s"}, {`shortTime(-1234567)`, "-1.23ms"},
		{`duration(20971)`, "20.971µs"}, {`scaled(9999)`, "9999"}, {`scaled(10000)`, "10.0k"},
		{`scaled(463e6)`, "463M"},
		{`scaled(7.51e6)`, "7.51M"}, {`scaled(12.4e15)`, "12P"},
		{`formats.qp(0x102)`, "0x000102"}, {`formats.share(22.642)`, "22.6%"},
		{`escaped('<a b="c">&')`, "&lt;a b=&quot;c&quot;&gt;&amp;"},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, read[string](t, ctx, c.name)) })
	}
	require.Equal(t, []float64{0, 50, 100, 150}, read[[]float64](t, ctx, `ticks(0, 199, 4)`))
	require.Equal(t, []float64{20, 40, 60}, read[[]float64](t, ctx, `ticks(10, 60, 4)`), "the last one is at the end")
	require.Equal(t, []float64{0.5, 1, 1, 2, 5, 10, 20}, read[[]float64](t, ctx,
		`[0.3, 0.7, 1, 1.5, 3, 7, 11].map(nice)`))
	require.Equal(t, []float64{7, 4, 6, 0, 0}, read[[]float64](t, ctx,
		`[sum([1, 2, 4], [0, 9]), most([1, 4, 2], [0, 3]), sum([1, 2, 4], [1, 3]),
			sum(undefined, [0, 2]), most([5], [1, 2])]`))
	require.Equal(t, []int{-1, 0, 0, 1, 3}, read[[]int](t, ctx,
		`[5, 10, 19, 20, 50].map(at => binAt([10, 20, 30, 40], at))`))
	require.Equal(t, [][]int{{0, 2}, {2, 3}, {3, 5}, {5, 6}}, read[[][]int](t, ctx,
		`groups([0, 1, 2, 12, 13, 14, 15], {from: 0, to: 20}, 10)`), "narrow ones together, wide ones alone")
}

// The answers to the six questions are on the first screen.
func TestSixQuestions(t *testing.T) {
	capture, _ := lossy(t)
	ctx := browser(t)
	html := pageOf(t, capture)
	open(t, ctx, html)
	screen(t, ctx, 1280, 800, false)
	type answer struct {
		Asked, Answer  string
		Top, Bottom    float64
		Left, Right    float64
		Wide, Overflow bool
	}
	all := read[[]answer](t, ctx, `[...document.querySelectorAll("#questions article")].map(e => ({
		Asked: e.querySelector("h3").textContent, Answer: e.innerText.replaceAll("\n", " "),
		Top: e.getBoundingClientRect().top, Bottom: e.getBoundingClientRect().bottom,
		Left: e.getBoundingClientRect().left, Right: e.getBoundingClientRect().right,
		Overflow: e.scrollWidth > e.clientWidth || e.scrollHeight > e.clientHeight,
	}))`)
	for i, want := range []struct{ asked, answer string }{
		{"Is it loss, or is it the capture?",
			"2 packets to 192.0.2.2, 2001:db8::2 were acknowledged but not captured, from frame 124"},
		{"Is there congestion?", "22.6% of 2001:db8::1 → 2001:db8::2 QP 0x010003"},
		{"Do CNPs arrive, does the sender slow down?",
			"6 CNPs in all; 2001:db8::1 → 2001:db8::2 QP 0x010009 went from"},
		{"Is PFC pausing me?", "no PFC or PAUSE frame in the capture"},
		{"Which queue?", "no IOAM trace"},
		{"Changes between two points?", "rocecn flows -compare lossy.pcap B"},
	} {
		got := all[i]
		require.Equal(t, want.asked, got.Asked)
		require.Contains(t, got.Answer, want.answer)
		require.GreaterOrEqual(t, got.Top, 0.)
		require.LessOrEqual(t, got.Bottom, 800.)
		require.GreaterOrEqual(t, got.Left, 0.)
		require.LessOrEqual(t, got.Right, 1280.)
		require.False(t, got.Overflow)
	}
	require.Len(t, all, 6)
	verdict := read[float64](t, ctx, `document.querySelector("#verdict").getBoundingClientRect().bottom`)
	require.Less(t, verdict, all[0].Top, "known values come first")

	// An answer leads to the flow that it is about.
	click(t, ctx, "#questions article:nth-child(3) [data-open]", "show")
	painted(t, ctx)
	require.Equal(t, "0x010009", read[string](t, ctx,
		`[...document.querySelectorAll("tr.open")].at(-1).cells[3].textContent`))
}

type mark struct {
	Kind, Title string
	X           float64
}

// marksOf opens a flow, and returns the marks of its PSNs.
func marksOf(t *testing.T, ctx context.Context, flow int) []mark {
	t.Helper()
	return read[[]mark](t, ctx, fmt.Sprintf(`(() => {
		openFlow(%d);
		const detail = document.querySelector('[data-flow="%d"]').nextElementSibling;
		return [...detail.querySelectorAll(".of-psns path:has(title)")].map(m => ({
			Kind: m.getAttribute("class"), Title: m.querySelector("title").textContent, X: m.getBBox().x,
		}));
	})()`, flow, flow))
}

// Marks are where things happened: each at the time of its frame, those of a gap
// or repeat first where the truth has it.
func TestMarks(t *testing.T) {
	capture, made := lossy(t)
	ctx := browser(t)
	open(t, ctx, pageOf(t, capture))
	start := wiretest.Must(time.Parse(time.RFC3339Nano, read[string](t, ctx, "data.start")))(t)
	span := read[float64](t, ctx, "data.span")
	title := regexp.MustCompile(`^frame (\d+), .*?: (?:(\d+) retransmitted)?`)
	seen := 0
	for key, truth := range made.Flows {
		flow := read[int](t, ctx, fmt.Sprintf(
			`rows.findIndex(({row}) => row[firstCell + data.columns.findIndex(c => c.name === "to QP")] === %d)`,
			key.DestQP))
		counts, first, x := map[string]uint64{}, 0, 0.0
		for _, m := range marksOf(t, ctx, flow) {
			found := title.FindStringSubmatch(m.Title)
			frame := wiretest.Must(strconv.Atoi(found[1]))(t)
			n, err := strconv.ParseUint(found[2], 10, 64)
			if err != nil {
				n = 1
			}
			counts[m.Kind] += n
			if first == 0 && (m.Kind == "gap" || m.Kind == "repeat") {
				first = frame
			}
			require.GreaterOrEqual(t, m.X, x)
			x = m.X
			require.InDelta(t, float64(made.Frames[frame-1].Time.Sub(start))/span*1000, m.X, 1)
			seen++
		}
		require.EqualValues(t, truth.FirstTrouble, first)
		require.Equal(t, truth.Late, counts["late"])
		require.Equal(t, truth.NAKed+truth.RNR+truth.Rest+truth.Timeout, counts["repeat"])
		require.Equal(t, truth.Connections-1, counts["life"])
		require.Equal(t, truth.Gaps, counts["gap"])
	}
	require.Greater(t, seen, 10)
}

// Depths are drawn by node, in the order of the trace: the last one comes first. So are
// pauses, at their exact times.
func TestQueuesAndPauses(t *testing.T) {
	ctx := browser(t)
	open(t, ctx, pageOf(t, wiretest.Path(t, "tour.pcap")))
	require.Equal(t, []string{"node 212", "node 195", "node 178"},
		read[[]string](t, ctx, `[...document.querySelectorAll(".of-queues path title")].map(e => e.textContent)`))
	type pause struct{ X, Width float64 }
	pauses := read[[]pause](t, ctx, `[...document.querySelectorAll("#totals .of-pauses path.pause")]
		.map(e => e.getBBox()).map(b => ({X: b.x, Width: b.width}))`)
	span := read[float64](t, ctx, "data.span")
	require.Len(t, pauses, 2)
	require.InDelta(t, 50e6/span, pauses[0].X, 0.1) // priority 3, from 50 to 350 µs
	require.InDelta(t, 300e6/span, pauses[0].Width, 0.1)
	require.InDelta(t, 375e6/span, pauses[1].X, 0.1)
	require.Contains(t, read[string](t, ctx, `document.querySelector(".of-pauses title").textContent`),
		"from frame 3 on, +50µs: paused 300µs by 1 XOFF")
	screen(t, ctx, 1280, 900, false)
	read[chromedp.Void](t, ctx, `scrollTo(0, document.querySelector("#flows").offsetTop - 90)`)
	picture(t, ctx, "flows-queues.png")
}

// All pictures have one axis and one cursor, by mouse and by keyboard, down to
// microseconds.
func TestZoomAndCursor(t *testing.T) {
	capture, _ := lossy(t)
	ctx := browser(t)
	c := open(t, ctx, pageOf(t, capture))
	shown := func() []float64 { return read[[]float64](t, ctx, "[view.from, view.to]") }
	range_ := func() string { return read[string](t, ctx, `document.querySelector("#range").textContent`) }
	all := shown()
	require.Equal(t, "all of 2.85ms", range_())
	read[chromedp.Void](t, ctx, `document.querySelector("#slider").focus()`)

	// The next event is the first one of any flow; all cursors are there.
	press(t, ctx, "n")
	first := read[float64](t, ctx, `Math.min(...data.charts.flatMap(c => c.marks ?? []).map(m => m[1]))`)
	require.Equal(t, first, read[float64](t, ctx, "cursor"))
	at := read[string](t, ctx, `document.querySelector("#at").textContent`)
	require.Equal(t, at, read[string](t, ctx, `document.querySelector("#slider").getAttribute("aria-valuetext")`))
	parts := read[[]float64](t, ctx, `[...document.querySelectorAll(".plot .cursor")].map(e => {
		const box = e.parentElement.getBoundingClientRect();
		return (e.getBoundingClientRect().left - box.left) / box.width;
	})`)
	require.Greater(t, len(parts), 10)
	for _, part := range parts {
		require.InDelta(t, first/all[1], part, 0.002)
	}
	require.NotEmpty(t, read[string](t, ctx, `document.querySelector("#totals .of-rate .value").textContent`))

	// A part of a picture is a part of the time.
	before := shown()
	for range 20 {
		press(t, ctx, "+")
	}
	got := shown()
	require.Equal(t, 1000., got[1]-got[0], "a microsecond")
	require.LessOrEqual(t, got[0], first)
	require.GreaterOrEqual(t, got[1], first)
	require.Regexp(t, `^1µs from \+.*µs on$`, range_())
	require.Regexp(t, `^\+\d+\.\d+µs$`, read[string](t, ctx, `axis.lastChild.textContent`))
	press(t, ctx, "-")
	require.Equal(t, 2000., shown()[1]-shown()[0])
	press(t, ctx, "ArrowRight")
	require.InDelta(t, first+20, read[float64](t, ctx, "cursor"), 1)
	press(t, ctx, "0")
	require.Equal(t, before, shown())
	press(t, ctx, "Home", "p")
	require.Zero(t, read[float64](t, ctx, "cursor"))
	press(t, ctx, "End")
	require.Equal(t, all[1], read[float64](t, ctx, "cursor"))

	// Dragging zooms into a period; a double click shows everything.
	drag := func(selector string, from, to float64) {
		read[chromedp.Void](t, ctx, fmt.Sprintf(`void (() => {
			const e = document.querySelector(%q), box = e.getBoundingClientRect();
			e.setPointerCapture = () => {};
			for (const [type, part] of [["pointerdown", %g], ["pointermove", %g], ["pointerup", %g]]) {
				const clientX = box.left + part * box.width;
				e.dispatchEvent(new PointerEvent(type, {clientX, button: 0, bubbles: true}));
			}
		})()`, selector, from, to, to))
		painted(t, ctx)
	}
	drag("#totals .plot", 0.25, 0.5)
	require.InDelta(t, all[1]*0.25, shown()[0], all[1]/500)
	require.InDelta(t, all[1]*0.5, shown()[1], all[1]/500)
	drag(".strip .plot", 1, 0.5) // of the visible period
	require.InDelta(t, all[1]*0.375, shown()[0], all[1]/100)
	drag("#overview", 0.6, 0.8)
	require.InDelta(t, all[1]*0.6, shown()[0], all[1]/500)
	read[chromedp.Void](t, ctx,
		`void document.querySelector("#totals .plot").dispatchEvent(new MouseEvent("dblclick"))`)
	painted(t, ctx)
	require.Equal(t, all, shown())
	click(t, ctx, "#in", "")
	click(t, ctx, "#later", "")
	painted(t, ctx)
	require.InDelta(t, all[1]/2, shown()[1]-shown()[0], 1)
	click(t, ctx, "#all", "")
	painted(t, ctx)

	// An event in the list is looked at closely.
	click(t, ctx, ".events button", "")
	painted(t, ctx)
	require.InDelta(t, 57_000, shown()[1]-shown()[0], 1000)
	require.Empty(t, c.complaints)
}

// Zoomed in, there are bins of microseconds where trouble began, though the capture
// is long.
func TestFineBins(t *testing.T) {
	ctx := browser(t)
	open(t, ctx, pageOf(t, wiretest.Path(t, "real/write4-loss1.eth0.pcap.gz")))
	got := read[[]float64](t, ctx, `(() => {
		const c = charts.get(0), widths = c.edges.slice(1).map((edge, i) => edge - c.edges[i]);
		return [Math.min(...widths), Math.max(...widths), whole.to];
	})()`)
	require.LessOrEqual(t, got[0], 8000.)
	require.Greater(t, got[1], 100*got[0])
	require.Greater(t, got[2], 1e9)
}

// The filter takes words and comparisons; flows stand by receiver, with sums.
func TestFilterAndGroups(t *testing.T) {
	capture, _ := lossy(t)
	ctx := browser(t)
	c := open(t, ctx, pageOf(t, capture))
	groups := `[...document.querySelectorAll("tr.group")].map(r => r.cells[0].textContent)`
	require.Equal(t, []string{
		"to 2001:db8::23 flows", "to 192.0.2.23 flows", "to 192.0.2.12 flows", "to 2001:db8::12 flows",
	}, read[[]string](t, ctx, groups))
	packets := read[[]string](t, ctx, `(() => {
		const i = [...document.querySelectorAll("#flows thead th")].findIndex(h => h.textContent === "Packets");
		return [...document.querySelectorAll("tr.group")].map(r => r.cells[i].textContent);
	})()`)
	require.Equal(t, []string{"98", "99", "21", "19"}, packets) // 53 + 41 + 4, 61 + 34 + 4, responses 17 + 4, 15 + 4
	click(t, ctx, "tr.group button", "to 2001:db8::2")
	require.Len(t, column(t, ctx, "QP"), 7)
	require.Equal(t, "false", read[string](t, ctx, `document.activeElement.getAttribute("aria-expanded")`))
	click(t, ctx, "tr.group button", "to 2001:db8::2")

	filter := func(text string) []string {
		read[chromedp.Void](t, ctx, fmt.Sprintf(`void (() => {
			const box = document.querySelector("#filter");
			box.value = %q;
			box.dispatchEvent(new Event("input"));
		})()`, text))
		return column(t, ctx, "to QP")
	}
	require.Len(t, filter(""), 10)
	require.Equal(t, []string{"0x010003", "0x000102"}, filter("0x010003")) // as destination and as source
	require.Equal(t, []string{"0x010009", "0x010006"}, filter("uc"))
	require.Equal(t, []string{"0x010003", "0x010000"}, filter("ce>5 RC"))
	require.Empty(t, filter("ce>5 uc"), "all words must match: either of these matches rows")
	require.Equal(t, []string{"0x010009"}, filter("missing>1"))
	require.Len(t, filter("trouble"), 4)
	require.Len(t, filter("192.0.2.2"), 5)
	require.Equal(t, "5 of 10 flows", read[string](t, ctx, `document.querySelector("#counted").textContent`))
	require.Empty(t, filter("no such<1 thing"))
	require.Empty(t, filter("<b>"))
	require.Empty(t, c.complaints)
}

// A telephone is 390 pixels wide: flows in trouble come first, and nothing is wider. Dark mode and paper have their own
// readable colours.
func TestPhoneDarkAndPrint(t *testing.T) {
	capture, _ := lossy(t)
	ctx := browser(t)
	c := open(t, ctx, pageOf(t, capture))
	colours := func() []string {
		return read[[]string](t, ctx,
			`[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color,
			getComputedStyle(document.querySelector(".psn")).stroke]`)
	}
	read[chromedp.Void](t, ctx, `void (reach(Math.round(data.span * 0.61)))`)
	screen(t, ctx, 1280, 1100, false)
	painted(t, ctx)
	light := colours()
	require.Equal(t, "rgb(255, 255, 255)", light[0])
	readable(t, ctx)
	requireTicksApart(t, ctx)
	picture(t, ctx, "flows-page.png")

	screen(t, ctx, 1280, 1100, true)
	dark := colours()
	require.Equal(t, "rgb(20, 24, 28)", dark[0])
	for i := range light {
		require.NotEqual(t, light[i], dark[i])
	}
	readable(t, ctx)
	picture(t, ctx, "flows-page-dark.png")

	screen(t, ctx, 390, 844, false)
	painted(t, ctx)
	require.LessOrEqual(t, read[int](t, ctx, "document.documentElement.scrollWidth"), 390)
	for _, width := range read[[]float64](t, ctx,
		`[...document.querySelectorAll("svg")].map(e => e.getBoundingClientRect().width)`) {
		require.Greater(t, width, 250.)
	}
	levels := read[[]string](t, ctx, `[...document.querySelectorAll("#questions article")]
		.sort((a, b) => a.getBoundingClientRect().top - b.getBoundingClientRect().top).map(e => e.className)`)
	require.Equal(t, []string{"notable", "notable", "notable", "unknown", "unknown", "unknown"}, levels)
	require.Less(t, read[float64](t, ctx,
		`document.querySelector("#questions .notable").getBoundingClientRect().bottom`), 844.)
	requireTicksApart(t, ctx)
	picture(t, ctx, "flows-page-phone.png")

	// Paper is light and has the complete table, independent of the screen.
	view(t, ctx, 1040, 720, media("print", "dark"))
	painted(t, ctx)
	require.Equal(t, light, colours())
	require.Equal(t, "visible", read[string](t, ctx, `getComputedStyle(document.querySelector(".wide")).overflowX`))
	require.LessOrEqual(t, read[int](t, ctx, "document.documentElement.scrollWidth"), 1040)
	require.Equal(t, "none", read[string](t, ctx, `getComputedStyle(filterBox.parentElement).display`))
	picture(t, ctx, "flows-page-print.png")
	read[chromedp.Void](t, ctx, `void dispatchEvent(new Event("beforeprint"))`)
	require.Equal(t, 3, read[int](t, ctx, `document.querySelectorAll("tr.open").length`), "the worst are open on paper")
	require.True(t, read[bool](t, ctx,
		`[...document.querySelectorAll("#verdict details")].every(details => details.open)`), "and all findings")
	whole := true
	pdf := wiretest.Must(chromedp.Run(ctx, chromedp.PrintToPDF(func(p *page.PrintToPDFParams) {
		p.PreferCSSPageSize,
			p.PrintBackground = &whole, &whole
	})))(t)
	require.True(t, bytes.HasPrefix(pdf, []byte("%PDF")))
	require.Empty(t, c.complaints)
}

// requireTicksApart requires that the labels of the ticks of charts overlap neither one another nor a chart, and are on
// the screen.
func requireTicksApart(t *testing.T, ctx context.Context) {
	t.Helper()
	require.Empty(t, read[[]string](t, ctx, `(() => {
		const boxes = selector => [...document.querySelectorAll(selector)].filter(e => e.checkVisibility())
			.map(e => ({ text: e.textContent, box: e.getBoundingClientRect() }));
		const overlap = ({ box: a }, { box: b }) => a.left < b.right - 0.5 && b.left < a.right - 0.5 &&
			a.top < b.bottom - 0.5 && b.top < a.bottom - 0.5;
		const ticks = boxes(".tick"), plots = boxes(".lane .plot svg");
		if (ticks.length < 6 || plots.length < 3) return ["only " + ticks.length + " ticks"];
		const wrong = ticks.filter(e => e.box.left < 0).map(e => e.text + " is not on the screen");
		ticks.forEach((a, i) => {
			ticks.slice(i + 1).filter(b => overlap(a, b)).forEach(b => wrong.push(a.text + " and " + b.text));
			plots.filter(b => overlap(a, b)).forEach(() => wrong.push(a.text + " and a chart"));
		});
		return wrong;
	})()`))
}

// readable reports texts with a contrast to their background of less than 4.5 to 1, and buttons without a name.
func readable(t *testing.T, ctx context.Context) {
	t.Helper()
	require.Empty(t, read[[]string](t, ctx, `(() => {
		const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
		const rgb = colour => {
			canvas.clearRect(0, 0, 1, 1);
			canvas.fillStyle = colour;
			canvas.fillRect(0, 0, 1, 1);
			return [...canvas.getImageData(0, 0, 1, 1).data];
		};
		const linear = c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
		const light = ([r, g, b]) => [r, g, b].map(c => linear(c / 255))
			.reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
		const behind = e => {
			for (; e; e = e.parentElement) {
				const colour = rgb(getComputedStyle(e).backgroundColor);
				if (colour[3] > 200) return colour;
			}
			return rgb(getComputedStyle(document.body).backgroundColor);
		};
		const wrong = [];
		const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
		while (walk.nextNode()) {
			const e = walk.currentNode.parentElement;
			if (!walk.currentNode.data.trim() || e.closest("script, title") || !e.checkVisibility()) continue;
			const [a, b] = [light(rgb(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
			if ((a + 0.05) / (b + 0.05) < 4.5) wrong.push(walk.currentNode.data.trim().slice(0, 40));
		}
		const nameless = b => !b.hidden && !b.ariaLabel && !b.textContent;
		return wrong.concat([...document.querySelectorAll("button")].filter(nameless).map(b => b.outerHTML));
	})()`))
}

// busy returns the milliseconds of processor time that the thread of the page has used so far.
func busy(t *testing.T, ctx context.Context) float64 {
	t.Helper()
	var at float64
	require.NoError(t, chromedp.Do(ctx, chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		got, err := cdp.Call(ctx, target, performance.GetMetrics, cdp.Empty{})
		if err != nil {
			return err
		}
		for _, m := range got.Metrics {
			if m.Name == "ThreadTime" {
				at = m.Value * 1000
			}
		}
		return nil
	})))
	return at
}

// crowd writes a capture of so many flows.
func manyFlows(t *testing.T, n uint32) string {
	name := filepath.Join(t.TempDir(), "crowd.pcap")
	f := wiretest.Must(os.Create(name))(t)
	w := wiretest.Must(capture.NewWriter(f, capture.Ethernet, time.Microsecond))(t)
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	host := func(last byte) netip.Addr {
		return netip.AddrFrom16([16]byte{0x20, 1, 0x0d, 0xb8, 0x11, 0x11, 0x22, 0x22, 0x33, 0x33, 0x44, 0x44, 0x55,
			0x55, 0x66, last})
	}
	for psn := range uint32(3) {
		for i := range n {
			if psn == 1 && i%7 == 0 {
				continue // missing
			}
			p := rocev2.Packet{Datagram: rocev2.Datagram{
				Src: host(1), Dst: host(byte(2 + i%50)), HopLimit: 64, SrcPort: 50000, DstPort: rocev2.Port,
			}}
			p.BTH.Opcode, p.BTH.DestQP, p.BTH.PSN, p.BTH.PKey = bth.RCSendOnly, 0x800000+i, 100+psn, 0xFFFF
			frame := append(make([]byte, 12, 128), 0x86, 0xDD)
			frame = wiretest.Must(p.AppendBinary(frame))(t)
			now = now.Add(time.Microsecond)
			require.NoError(t, w.Write(&capture.Record{Data: frame, OrigLen: uint32(len(frame)), Time: now}))
		}
	}
	require.NoError(t, f.Close())
	return name
}

// A page of 10,000 flows is below 5 MB. Sorting and filtering create a constant number of elements, so their time grows
// only with the comparisons.
func TestManyFlows(t *testing.T) {
	const n = 10_000
	html := pageOf(t, manyFlows(t, n))
	info := wiretest.Must(os.Stat(html))(t)
	require.Less(t, info.Size(), int64(5_000_000))
	t.Log(info.Size(), "octets")

	ctx := browser(t)
	began := time.Now()
	c := open(t, ctx, html)
	require.Equal(t, n, read[int](t, ctx, `rows.length`))
	t.Log("opens in", time.Since(began))
	read[chromedp.Void](t, ctx, `void Object.assign(window, {
		sortAsTold: name =>
			[...document.querySelectorAll("#flows thead button")].find(b => b.textContent === name).click(),
		filterAsTold(text) { filterBox.value = text; filterBox.dispatchEvent(new Event("input")); },
	})`)
	require.NoError(t, chromedp.Do(ctx, chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, performance.Enable, performance.EnableParams{})
		return err
	})))
	const times = 5
	for _, grouped := range []bool{true, false} {
		if !grouped {
			ungroup(t, ctx)
		}
		for _, one := range []struct{ name, act string }{
			{"sorted by queue pair", `sortAsTold("to QP")`},
			{"sorted by name", `sortAsTold("Flow")`},
			{"filtered by a text", `filterAsTold("0x8001")`},
			{"filtered by a number", `filterAsTold("missing>0")`},
			{"not filtered", `filterAsTold("")`},
		} {
			t.Run(one.name, func(t *testing.T) {
				// This includes the layout of the page.
				before := busy(t, ctx)
				took := read[[]float64](t, ctx, fmt.Sprintf(`(() => {
				const make = document.createElement;
				let made = 0, least = Infinity;
				document.createElement = function (...all) { made++; return make.apply(this, all); };
				for (let i = 0; i < %d; i++) {
					const before = performance.now();
					made = 0;
					%s;
					document.body.offsetHeight;
					least = Math.min(least, performance.now() - before);
				}
				delete document.createElement;
				return [least, made];
			})()`, times, one.act))
				t.Logf("by receiver %v, %s: at least %.1f ms, of the thread on average %.1f ms; %.0f elements", grouped,
					one.name, took[0], (busy(t, ctx)-before)/times, took[1])
				require.Less(t, took[1], 2000.)
				require.LessOrEqual(t, len(column(t, ctx, "to QP")), 100)
			})
		}
	}
	click(t, ctx, heads, "to QP")
	qps := column(t, ctx, "to QP")
	require.Len(t, qps, 100)
	require.Equal(t, fmt.Sprintf("0x%06x", 0x800000+n-1), qps[0])
	click(t, ctx, "#more", "")
	require.Len(t, column(t, ctx, "to QP"), 600)
	require.Equal(t, "Show 500 more of 10000", read[string](t, ctx, `document.querySelector("#more").textContent`))
	click(t, ctx, heads, "to QP")
	require.Equal(t, "0x800000", column(t, ctx, "to QP")[0])
	require.Empty(t, c.complaints)
}

// Short pauses in a long capture are a low band from afar, and are told apart up close:
// here 10 µs in each millisecond of a second.
func TestPausesUpClose(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pauses.pcap")
	f := wiretest.Must(os.Create(name))(t)
	w := wiretest.Must(capture.NewWriter(f, capture.Ethernet, time.Microsecond))(t)
	write := func(at time.Duration, frame []byte) {
		r := capture.Record{Data: frame, OrigLen: uint32(len(frame)), Time: time.Unix(1, 0).Add(at)}
		require.NoError(t, w.Write(&r))
	}
	data := rocev2.Packet{Datagram: rocev2.Datagram{Src: netip.AddrFrom4([4]byte{10, 0, 0, 1}),
		Dst: netip.AddrFrom4([4]byte{10, 0, 0, 2}), HopLimit: 64, SrcPort: 50000, DstPort: rocev2.Port}}
	data.BTH.Opcode, data.BTH.DestQP, data.BTH.PKey = bth.RCSendOnly, 17, 0xFFFF
	mac := [6]byte{2, 0, 0, 0, 0, 9}
	for i := range 400 {
		at := time.Duration(i) * time.Millisecond
		data.BTH.PSN = uint32(i)
		frame := wiretest.Must(data.AppendBinary(append(make([]byte, 12), 8, 0)))(t)
		write(at, frame)
		stop := pfc.PFC{Enabled: 1 << 3}
		stop.Quanta[3] = 0xFFFF
		write(at+100*time.Microsecond, stop.AppendFrame(nil, mac))
		write(at+110*time.Microsecond, pfc.PFC{Enabled: 1 << 3}.AppendFrame(nil, mac))
	}
	require.NoError(t, f.Close())
	ctx := browser(t)
	c := open(t, ctx, pageOf(t, name))
	type box struct{ X, Width, Height float64 }
	drawn := func() []box {
		return read[[]box](t, ctx, `[...document.querySelectorAll("#totals .of-pauses path.pause")]
			.map(e => e.getBBox()).map(b => ({X: b.x, Width: b.width, Height: b.height}))`)
	}
	far := drawn()
	require.Len(t, far, 1, "all of them in one path")
	require.Less(t, far[0].Height, 15.)
	read[chromedp.Void](t, ctx, `void show(200e6, 202e6)`)
	painted(t, ctx)
	near := drawn()
	require.Len(t, near, 2)
	for i, b := range near {
		require.InDelta(t, 50+500*float64(i), b.X, 0.1)
		require.InDelta(t, 5, b.Width, 0.1)
		require.InDelta(t, 90, b.Height, 0.1)
	}
	require.Empty(t, c.complaints)
}

// The page of every capture opens, zooms, sorts and shows its flows without a complaint,
// also that of a single packet.
func TestEveryCapture(t *testing.T) {
	names := wiretest.Must(filepath.Glob(wiretest.Path(t, "*.pcap")))(t)
	require.NotEmpty(t, names)
	real := wiretest.Must(filepath.Glob(wiretest.Path(t, "real/*-loss*.pcap.gz")))(t)
	names = append(names, append(real, manyFlows(t, 1))...)
	ctx := browser(t)
	for _, name := range names {
		c := open(t, ctx, pageOf(t, name))
		if !read[bool](t, ctx, `Boolean(document.querySelector("#data"))`) {
			headline := read[string](t, ctx, `document.querySelector("#headline").textContent`)
			require.Regexp(t, "(?i)no flow", headline, name) // of RoCEv2, or in trouble
			continue
		}
		read[chromedp.Void](t, ctx, `void (() => {
			rows.slice(0, 5).filter(row => !state.open.has(row)).forEach(turn);
			zoom(0.01, whole.to / 3);
			point(whole.to / 3);
		})()`)
		painted(t, ctx)
		require.NotContains(t, read[string](t, ctx, `document.querySelector("main").innerHTML`), "NaN", name)
		require.NotContains(t, read[string](t, ctx, `document.querySelector("main").innerHTML`), "Infinity", name)
		read[chromedp.Void](t, ctx, `void (showAll(), next(1),
			document.querySelectorAll("#flows thead button").forEach(b => b.click()))`)
		painted(t, ctx)
		require.NotContains(t, read[string](t, ctx, `document.querySelector("main").innerHTML`), "NaN", name)
		require.Empty(t, c.complaints, name)
	}
}
