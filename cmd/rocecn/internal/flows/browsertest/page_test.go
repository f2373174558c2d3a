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
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/internal/traffic"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
)

var pictures = flag.String("pictures", "", "write pictures to this `directory`")

// browser starts a Chromium that is nobody else's. chromedp gives it a folder
// for its data and removes that at the end, when those of Chromium's processes
// that go on a little longer no longer write there.
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
	ctx, cancel = context.WithTimeout(ctx, 3*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// A console is what a page complained of and asked for.
type console struct {
	sync.Mutex
	complaints, requests []string
}

func (c *console) add(list *[]string, text string) {
	c.Lock()
	defer c.Unlock()
	*list = append(*list, text)
}

// open opens a file, and returns what comes of it.
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
	name, err := command()
	require.NoError(t, err)
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
	f, err := os.Create(name)
	require.NoError(t, err)
	require.NoError(t, made.Write(f))
	require.NoError(t, f.Close())
	return name, made
}

// read returns what an expression is.
func read[T any](t *testing.T, ctx context.Context, expression string) (v T) {
	t.Helper()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	require.NoError(t, err)
	return v
}

// column returns the cells of a column, from top to bottom.
func column(t *testing.T, ctx context.Context, n int) []string {
	t.Helper()
	return read[[]string](t, ctx,
		fmt.Sprintf(`[...document.querySelectorAll("#flows tbody tr")].map(r => r.cells[%d].textContent)`, n))
}

func click(t *testing.T, ctx context.Context, heading string) (column int) {
	t.Helper()
	return read[int](t, ctx, fmt.Sprintf(`(() => {
		const all = [...document.querySelectorAll("#flows th button")];
		const i = all.findIndex(b => b.textContent === %q);
		all[i].click();
		return i;
	})()`, heading))
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
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(*pictures, name), png, 0o644))
}

// The page opens without a complaint, asks for nothing but itself, and sorts.
func TestOpensAndSorts(t *testing.T) {
	capture, made := lossy(t)
	ctx := browser(t)
	c := open(t, ctx, pageOf(t, capture))
	require.Equal(t, "RoCEv2 flows · lossy.pcap", read[string](t, ctx, "document.title"))

	packets := click(t, ctx, "Packets")
	got := column(t, ctx, packets)
	require.Len(t, got, len(made.Flows)+4) // and those of connection management
	numbers := func() (all []int) {
		for _, text := range column(t, ctx, packets) {
			n, err := strconv.Atoi(text)
			require.NoError(t, err)
			all = append(all, n)
		}
		return all
	}
	descending := numbers()
	require.True(t, slices.IsSortedFunc(descending, func(a, b int) int { return b - a }), "%v", descending)
	click(t, ctx, "Packets")
	require.True(t, slices.IsSorted(numbers()))
	require.Equal(t, "ascending", read[string](t, ctx, `document.querySelector("th[aria-sort]").ariaSort`))

	rates := column(t, ctx, click(t, ctx, "bit/s"))
	require.Equal(t, []string{"547M", "463M", "81.2M", "56.8M", "7.74M", "7.51M", "5.00M", "4.95M"}, rates)
	names := column(t, ctx, click(t, ctx, "Flow"))
	require.True(t, slices.IsSorted(names), "%v", names)
	missing := column(t, ctx, click(t, ctx, "Missing"))
	require.Equal(t, "2", missing[0])
	require.Equal(t, "–", missing[len(missing)-1])

	require.Empty(t, c.complaints)
	for _, url := range c.requests { // the page, and perhaps its empty icon
		require.Regexp(t, `^(file://.*/page\.html|data:,)$`, url)
	}
}

// Marks are where things happened: each at the time of its frame, those of a gap
// or repeat first where the truth has it.
func TestMarks(t *testing.T) {
	capture, made := lossy(t)
	ctx := browser(t)
	open(t, ctx, pageOf(t, capture))
	type mark struct {
		Kind, Title string
		Frame       int
		X           float64
	}
	type drawn struct {
		Name, Start string
		Marks       []mark
	}
	all := read[[]drawn](t, ctx,
		`[...document.querySelectorAll("section")].filter(s => s.querySelector(".of-psn")).map(s => ({
		Name: s.querySelector("h3").textContent,
		Start: s.querySelector(".axis span").textContent,
		Marks: [...s.querySelectorAll(".of-psn path[data-frame]")].map(m => ({
			Kind: m.getAttribute("class"), Title: m.querySelector("title").textContent, Frame: +m.dataset.frame,
			X: m.getBBox().x,
		})),
	}))`)
	require.Len(t, all, len(made.Flows))
	for key, truth := range made.Flows {
		name := fmt.Sprintf(" → 0x%06x", key.DestQP)
		i := slices.IndexFunc(all, func(d drawn) bool { return strings.HasSuffix(d.Name, name) })
		require.GreaterOrEqual(t, i, 0)
		start, err := time.Parse(time.RFC3339Nano, all[i].Start)
		require.NoError(t, err)
		counts, first, x := map[string]uint64{}, 0, 0.0
		var per float64 // a nanosecond in the picture
		for _, m := range all[i].Marks {
			n := uint64(1)
			if found := regexp.MustCompile(`: (\d+) repeated`).FindStringSubmatch(m.Title); found != nil {
				n, _ = strconv.ParseUint(found[1], 10, 64)
			}
			counts[m.Kind] += n
			if first == 0 && (m.Kind == "gap" || m.Kind == "repeat") {
				first = m.Frame
			}
			require.GreaterOrEqual(t, m.X, x)
			x = m.X
			since := float64(made.Frames[m.Frame-1].Time.Sub(start.Truncate(time.Microsecond)))
			if per == 0 {
				per = m.X / since
			}
			require.InDelta(t, since*per, m.X, 2)
		}
		require.EqualValues(t, truth.FirstTrouble, first)
		require.Equal(t, truth.Late, counts["late"])
		require.Equal(t, truth.NAKed+truth.RNR+truth.Rest+truth.Timeout, counts["repeat"])
		require.Equal(t, truth.Lives-1, counts["life"])
		require.Equal(t, truth.Gaps, counts["gap"])
	}
}

// Depths are drawn by node, in the order of the trace: the last one comes first.
func TestQueues(t *testing.T) {
	ctx := browser(t)
	open(t, ctx, pageOf(t, wiretest.Path(t, "tour.pcap")))
	require.Equal(t, []string{"node 212", "node 195", "node 178"},
		read[[]string](t, ctx, `[...document.querySelectorAll(".of-queues path title")].map(e => e.textContent)`))
	screen(t, ctx, 1000, 480, false)
	read[chromedp.Void](t, ctx, `scrollTo(0, document.querySelector("section").offsetTop - 8)`)
	picture(t, ctx, "flows-queues.png")
}

// A telephone is 360 pixels wide: the table scrolls, the page does not.
func TestPhoneDarkAndPrint(t *testing.T) {
	capture, _ := lossy(t)
	ctx := browser(t)
	c := open(t, ctx, pageOf(t, capture))
	colours := func() []string {
		return read[[]string](t, ctx,
			`[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color,
			getComputedStyle(document.querySelector(".psn")).stroke]`)
	}
	screen(t, ctx, 1200, 900, false)
	light := colours()
	require.Equal(t, "rgb(255, 255, 255)", light[0])
	picture(t, ctx, "flows-page.png")

	screen(t, ctx, 1200, 900, true)
	dark := colours()
	require.Equal(t, "rgb(20, 24, 28)", dark[0])
	for i := range light {
		require.NotEqual(t, light[i], dark[i])
	}
	picture(t, ctx, "flows-page-dark.png")

	screen(t, ctx, 360, 780, false)
	require.LessOrEqual(t, read[int](t, ctx, "document.documentElement.scrollWidth"), 360)
	require.Greater(t, read[int](t, ctx, `document.querySelector(".wide").scrollWidth`), 360)
	for _, width := range read[[]float64](t, ctx,
		`[...document.querySelectorAll("svg")].map(e => e.getBoundingClientRect().width)`) {
		require.Greater(t, width, 250.)
	}
	read[chromedp.Void](t, ctx, `scrollTo(0, document.querySelector("section").offsetTop - 60)`)
	picture(t, ctx, "flows-page-phone.png")

	// Paper is light, whatever the screen is, and the table is whole on it.
	view(t, ctx, 1040, 720, media("print", "dark"))
	require.Equal(t, light, colours())
	require.Equal(t, "visible", read[string](t, ctx, `getComputedStyle(document.querySelector(".wide")).overflowX`))
	require.LessOrEqual(t, read[int](t, ctx, "document.documentElement.scrollWidth"), 1040)
	whole := true
	pdf, err := chromedp.Run(ctx, chromedp.PrintToPDF(func(p *page.PrintToPDFParams) {
		p.PreferCSSPageSize,
			p.PrintBackground = &whole, &whole
	}))
	require.NoError(t, err)
	require.True(t, bytes.HasPrefix(pdf, []byte("%PDF")))
	require.Empty(t, c.complaints)
}

// 10,000 flows: below 5 MB, all of them in the table, and it sorts.
func TestCrowd(t *testing.T) {
	const n = 10_000
	name := filepath.Join(t.TempDir(), "crowd.pcap")
	f, err := os.Create(name)
	require.NoError(t, err)
	w, err := capture.NewWriter(f, capture.Ethernet, time.Microsecond)
	require.NoError(t, err)
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	for psn := range uint32(3) {
		for i := range uint32(n) {
			if psn == 1 && i%7 == 0 {
				continue // missing
			}
			p := rocev2.Packet{Datagram: rocev2.Datagram{
				Src: netip.AddrFrom16([16]byte{0x20, 1, 0x0d, 0xb8, 0x11, 0x11, 0x22, 0x22, 0x33, 0x33, 0x44, 0x44,
					0x55, 0x55, 0x66, 0x61}),
				Dst: netip.AddrFrom16([16]byte{0x20, 1, 0x0d, 0xb8, 0x11, 0x11, 0x22, 0x22, 0x33, 0x33, 0x44, 0x44,
					0x55, 0x55, 0x66, 0x62}),
				HopLimit: 64, SrcPort: 50000, DstPort: rocev2.Port,
			}}
			p.BTH.Opcode, p.BTH.DestQP, p.BTH.PSN, p.BTH.PKey = bth.RCSendOnly, 0x800000+i, 100+psn, 0xFFFF
			frame := append(make([]byte, 12, 128), 0x86, 0xDD)
			frame, err = p.AppendBinary(frame)
			require.NoError(t, err)
			now = now.Add(time.Microsecond)
			require.NoError(t, w.Write(&capture.Record{Data: frame, OrigLen: uint32(len(frame)), Time: now}))
		}
	}
	require.NoError(t, f.Close())
	html := pageOf(t, name)
	info, err := os.Stat(html)
	require.NoError(t, err)
	require.Less(t, info.Size(), int64(5_000_000))
	t.Log(info.Size(), "octets")

	ctx := browser(t)
	began := time.Now()
	c := open(t, ctx, html)
	require.Equal(t, n, read[int](t, ctx, `document.querySelector("#flows tbody").rows.length`))
	t.Log("opens in", time.Since(began))
	visible := `[...document.querySelectorAll("#flows tbody tr")].filter(r => !r.hidden).length`
	require.Equal(t, 500, read[int](t, ctx, visible))
	began = time.Now()
	qps := column(t, ctx, click(t, ctx, "to QP"))
	t.Log("sorts in", time.Since(began))
	require.Equal(t, fmt.Sprintf("0x%06x", 0x800000+n-1), qps[0])
	require.Equal(t, "0x800000", qps[n-1])
	require.Equal(t, 500, read[int](t, ctx, visible))
	read[chromedp.Void](t, ctx, `document.querySelector("#all").click()`)
	require.Equal(t, n, read[int](t, ctx, visible))
	require.Empty(t, c.complaints)
}
