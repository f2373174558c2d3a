package browsertest

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/csv"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/lab"
	"github.com/rocecn/rocecn/lab/experiment"
)

// measured returns results of two experiments with made-up figures: Fast CNPs halve every time and queue at the first
// hop of C1, double them at the last, and change nothing between; in C14 they have more use. There is a run over time.
func measured(t *testing.T) *experiment.Results {
	t.Helper()
	chosen := wiretest.Must(experiment.Chosen([]string{"C1", "C14"}))(t)
	plan := experiment.Plan{}
	for i := range chosen {
		plan.Cases = append(plan.Cases, chosen[i].Cases(experiment.Quick, 2)...)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	r, err := plan.Run(ended, "c0ffee", experiment.Quick, func(float64) {})
	if !errors.Is(err, context.Canceled) {
		require.NoError(t, err)
	}
	for i := range r.Cases {
		c := &r.Cases[i]
		for _, v := range c.Variants {
			factor := 1.
			if hop, ok := c.Coordinate("hop"); ok && v == lab.FastCNP {
				factor = map[float64]float64{1: 0.5, 3: 1, 5: 2}[hop.Value]
			}
			for _, seed := range c.Seeds {
				use := 80.
				if kmin, ok := c.Coordinate("KMin"); ok {
					use += float64(v)/10 + kmin.Value/50
				}
				r.Runs = append(r.Runs, experiment.Run{
					Experiment: c.Experiment, Case: c.Name, Variant: v, Seed: seed,
					Figures: experiment.Figures{
						"onset to first cut": 100 * factor, "use of its link": use,
						"peak after the warmup": (use - 79) * 100 * factor, "peak of the deepest queue": 5000 * factor,
					},
				})
			}
		}
	}
	for i, v := range []lab.Variant{lab.CNP, lab.FastCNP, lab.Oracle} {
		s := experiment.Series{
			Name: "three senders", Variant: v, Seed: 1, Line: "the line of " + v.String(), Port: "a to b", Every: 500,
		}
		for k := range 5 {
			s.Queue = append(s.Queue, float64(100*(k+1)/(i+1)))
			s.Use, s.Rate = append(s.Use, 50), append(s.Rate, float64(10+k))
			s.Notices = append(s.Notices, 1)
		}
		r.Series = append(r.Series, s)
	}
	return r
}

func labPage(t *testing.T, r *experiment.Results) string {
	t.Helper()
	var page bytes.Buffer
	require.NoError(t, r.Page(&page))
	return wiretest.File(t, "page.html", page.Bytes())
}

// download returns the table that a link downloads, without its first row.
func download(t *testing.T, ctx context.Context, name string) (rows [][]string) {
	t.Helper()
	url := read[string](t, ctx, fmt.Sprintf(`document.querySelector('a[download="%s"]').href`, name))
	text, ok := strings.CutPrefix(url, "data:text/csv;base64,")
	require.True(t, ok, name)
	octets := wiretest.Must(base64.StdEncoding.DecodeString(text))(t)
	rows = wiretest.Must(csv.NewReader(bytes.NewReader(octets)).ReadAll())(t)
	return rows[1:]
}

// The map, the frontiers, the verdicts and the checks have the values of the results, and so do the downloads.
func TestLaboratory(t *testing.T) {
	ctx := browser(t)
	c := open(t, ctx, labPage(t, measured(t)))
	require.Equal(t, "What faster notification is worth", read[string](t, ctx, "document.title"))
	require.Equal(t, []string{"50", "50", "50", "100", "100", "100", "200", "200", "200"}, read[[]string](t, ctx,
		`[...document.querySelector(".map").querySelectorAll("td")].map(e => e.textContent)`))
	colours := read[[]string](t, ctx,
		`[...document.querySelector(".map").querySelectorAll("td")].map(e => getComputedStyle(e).backgroundColor)`)
	require.Equal(t, colours[0], colours[2])
	require.NotEqual(t, colours[0], colours[3])
	require.NotEqual(t, colours[0], colours[6])
	require.NotEqual(t, colours[3], colours[6])

	// Of 3 KMin, all with another use: 3 points of each of three variants in each of four networks.
	require.Equal(t, 4*3*3, read[int](t, ctx, `document.querySelectorAll(".dots i").length`))
	require.Contains(t, read[string](t, ctx, `document.querySelector(".dots i").title`),
		"cnp: 80.2 % used, peak 120 KB; KMin 5 KB")

	worse := read[[]string](t, ctx, `[...document.querySelectorAll("#worse tbody tr")].map(e => e.innerText)`)
	require.Len(t, worse, 2*(3+2), "two peaks at the last hop: of three delays, one of them with two more reactions")
	require.Contains(t, worse[0], "C1: one way 10µs, hop 5")
	require.Contains(t, worse[0], "+100.0 %")
	require.Equal(t, 2*(3+2), read[int](t, ctx, `document.querySelector("#none tbody").rows.length`), "hops 3 and 5")

	require.Regexp(t, `\d+ of 56 are wrong`, read[string](t, ctx, `document.querySelector("#checks + p").textContent`))
	require.Equal(t, 56, read[int](t, ctx, `document.querySelector("#rows tbody").rows.length`))

	places := download(t, ctx, "map.csv")
	require.Len(t, places, 4*9) // maps, cases
	require.Equal(t, []string{"%", "1", "10µs", "50", "one way 10µs, hop 1", "c0ffee"}, places[0][1:7])
	require.Contains(t, places[0][7], "cnp: reaction paper")
	rows := download(t, ctx, "C1.csv")
	require.Len(t, rows, 9*4*4+8*3*4) // cases, variants, figures that are there; with other reactions three variants
	require.Equal(t, []string{
		"C1", "one way 10µs, hop 1", "cnp", "onset to first cut", "µs", "100", "100", "100", "2", "c0ffee",
	}, rows[0][:10])
	require.Contains(t, rows[0][10], "cnp: reaction paper")
	require.Len(t, download(t, ctx, "frontiers.csv"), 4*12*3*2)
	require.Len(t, download(t, ctx, "checks.csv"), 56)
	require.Len(t, download(t, ctx, "time1.csv"), 15)
	require.Len(t, download(t, ctx, "nothing.csv"), 2*2*(3+2))

	// Every figure carries its line.
	require.Zero(t, read[int](t, ctx,
		`[...document.querySelectorAll("pre")].filter(e => !e.textContent.trim()).length`))
	require.Empty(t, c.complaints)
	for _, url := range c.requests {
		require.Regexp(t, `^(file://.*/page\.html|data:,)$`, url)
	}
}

// A run over time plays to its end, and a pull at the slider stops it there.
func TestPlay(t *testing.T) {
	ctx := browser(t)
	c := open(t, ctx, labPage(t, measured(t)))
	at := func() string { return read[string](t, ctx, `document.querySelector(".play output").textContent`) }
	texts := func() []string {
		return read[[]string](t, ctx, `[...document.querySelectorAll(".bars b")].map(e => e.textContent)`)
	}
	scrub := func(to int) {
		read[chromedp.Void](t, ctx, fmt.Sprintf(`(() => {
			const range = document.querySelector(".play input");
			range.value = %d;
			range.dispatchEvent(new Event("input"));
		})()`, to))
	}
	press := func() { read[chromedp.Void](t, ctx, `document.querySelector(".play button").click()`) }
	caption := func() string { return read[string](t, ctx, `document.querySelector(".play button").textContent`) }
	require.Equal(t, "0.50 ms", at())
	require.Equal(t, "100 KB, link used to 50 %, may send 10.0 Gbit/s", texts()[0])
	scrub(3)
	require.Equal(t, "2.00 ms", at())
	require.Equal(t, []string{
		"400 KB, link used to 50 %, may send 13.0 Gbit/s", "200 KB, link used to 50 %, may send 13.0 Gbit/s",
		"133 KB, link used to 50 %, may send 13.0 Gbit/s",
	}, texts())
	require.Equal(t, "75%", read[string](t, ctx, `document.querySelector(".now").style.left`))
	scrub(0) // from the beginning, so that it still plays when the caption is read
	press()
	require.Equal(t, "Pause", caption())
	wiretest.Await(t, "the end of the run", func() bool { return at() == "2.50 ms" && caption() == "Play" })
	press() // from the beginning
	wiretest.Await(t, "the run again", func() bool { return at() == "1.00 ms" })
	scrub(0)
	require.Equal(t, "Play", caption())
	require.Equal(t, "0.50 ms", at())
	require.Empty(t, c.complaints)
}

func TestLaboratoryOnPhoneDarkAndPaper(t *testing.T) {
	ctx := browser(t)
	c := open(t, ctx, labPage(t, measured(t)))
	colours := func() []string {
		return read[[]string](t, ctx, `[getComputedStyle(document.body).backgroundColor,
			getComputedStyle(document.body).color,
			getComputedStyle(document.querySelector("path.of-cnp")).stroke,
			getComputedStyle(document.querySelector(".map td")).backgroundColor]`)
	}
	screen(t, ctx, 1200, 900, false)
	light := colours()
	require.Equal(t, "rgb(255, 255, 255)", light[0])
	picture(t, ctx, "laboratory-page.png")
	screen(t, ctx, 1200, 900, true)
	dark := colours()
	for i := range light {
		require.NotEqual(t, light[i], dark[i])
	}
	screen(t, ctx, 360, 780, false)
	read[chromedp.Void](t, ctx, `document.querySelectorAll("details").forEach(d => { d.open = true; })`)
	require.LessOrEqual(t, read[int](t, ctx, "document.documentElement.scrollWidth"), 360)
	for _, width := range read[[]float64](t, ctx,
		`[...document.querySelectorAll("svg")].map(e => e.getBoundingClientRect().width)`) {
		require.Greater(t, width, 250.)
	}
	view(t, ctx, 1040, 720, media("print", "dark"))
	require.Equal(t, light, colours())
	require.Equal(t, "none", read[string](t, ctx, `getComputedStyle(document.querySelector(".play")).display`))
	require.LessOrEqual(t, read[int](t, ctx, "document.documentElement.scrollWidth"), 1040)
	require.Empty(t, c.complaints)
}
