package browsertest

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
)

// fiveFlows is the data of a page with 8 ms and five flows. They have every kind of column, cells without a value,
// equal cells, and two columns that are omitted. Three flows have charts.
const fiveFlows = `{
"start": "2026-11-29T09:00:00Z", "span": 8000000,
"columns": [
	{"name": "QP", "help": "source", "kind": "qp"}, {"name": "to QP", "help": "destination", "kind": "qp"},
	{"name": "Port", "help": "UDP", "kind": "number"}, {"name": "Transport", "help": "service", "kind": "text"},
	{"name": "Packets", "help": "all", "kind": "count"}, {"name": "bit/s", "help": "mean", "kind": "rate"},
	{"name": "Missing", "help": "never seen", "kind": "count"}, {"name": "Empty", "help": "", "kind": "count"},
	{"name": "Line", "help": "", "kind": "text"}, {"name": "CE", "help": "marked", "kind": "share"},
	{"name": "RTT p99", "help": "round trip", "kind": "time"}],
"addresses": ["10.0.0.2", "10.0.0.10", "10.0.0.9", "2001:db8::5"],
"rows": [
	[0, 2, 0, 8000000, "nnnnnnrnnyn", 17, 257, 49152, "RC", 12000, 463000000, 3, 0, "a", 12.34, 92160],
	[1, 2, 2000000, 6000000, "nnnnnnnnnyn", null, 258, 49153, "UC", 7, 9999, null, 0, "a", 0.04, null],
	[0, 3, 1000000, 1000000, "nnnnnnnnnnn", 9, 259, 49152, "RC", 7, null, 0, 0, "a", 0, 1500000],
	[2, 0, 4000000, 4000000, "nnnnnnnnnnn", 18, 260, 50000, "XRC", 100, 10000, 0, 0, "a", 0, 999],
	[1, 3, 3000000, 8000000, "nnnnnnrnnnn", null, 261, 49152, "RC", 20, 1000000, 1, 0, "a", 99.96, 61000000000]],
"totals": {"from": 0, "widths": [[1000000, 8]], "octets": [125000, 0, 250000], "ce": [5, 0, 2], "cnps": [1],
	"missing": [0, 0, 3], "late": [0, 4], "repeats": [0, 0, 0, 1], "naks": [0, 0, 0, 0, 2],
	"rnrs": [0, 0, 0, 0, 0, 1], "ppfc": [6], "rtt": [0, 92160]},
"pauses": [
	{"name": "02:00:00:00:00:01, priority 3",
		"pauses": [[1000000, 2000000, 1000000, 3, 9], [3000000, 4000000, 500000, 2, 10]]},
	{"name": "02:00:00:00:00:02, priority 4", "pauses": [[6000000, 6000010, 10, 1, 11]]}],
"charts": [
	{"row": 0, "remarks": "RC, path MTU 1024", "from": 0, "widths": [[1000000, 8]], "octets": [125000, 0, 250000],
		"ce": [5, 0, 2], "cnps": [1], "naks": [0, 0, 3], "rnrs": [0, 1], "rtt": [0, 92160],
		"psn": [0, 9, 10, 19, 5, 8, null, null, null, null, null, null, null, null, null, null], "more": 2,
		"marks": [["cnp", 1000000, 4, 0, 0, "CNP"], ["late", 1500000, 5, 3, 3, "late"],
			["gap", 2500000, 6, 12, 14, "3 missing"], ["life", 2500000, 6, 5, 5, "begins"],
			["nak", 2600000, 7, 0, 0, "NAK <b>"], ["fast", 3000000, 8, 0, 0, "Fast CNP"],
			["repeat", 3500000, 9, 5, 7, "3 again"]],
		"nodes": [{"node": 5, "width": 1000000, "depth": [4, null, 2]}]},
	{"row": 1, "remarks": "UC", "from": 2000000, "widths": [[500000, 2], [1000000, 1]], "octets": [100, 100, 100],
		"marks": [["rnr", 2200000, 12, 0, 0, "RNR NAK"]],
		"nodes": [{"node": 6, "width": 500000, "depth": [8, 2]}, {"node": 7, "width": 500000, "depth": [0, 4]}]},
	{"row": 3, "remarks": "XRC", "from": 4000000, "widths": [[1000000, 1]], "octets": [50]}]
}`

// handmade writes a page with other data than those of its capture. It has two more buttons of findings.
func handmade(t *testing.T) func(data string) (file string) {
	html := string(wiretest.Must(os.ReadFile(pageOf(t, wiretest.Path(t, "messages.pcap"))))(t))
	place := regexp.MustCompile(`(?s)<script type="application/json" id="data">.*?</script>`)
	require.Len(t, place.FindAllString(html, -1), 1)
	return func(data string) string {
		made := place.ReplaceAllLiteralString(html, `<button id="to4" data-open="4">show</button>`+
			`<button id="copies" data-copy="roce &amp;&amp; ip">copy</button>`+
			`<script type="application/json" id="data">`+data+"</script>")
		return wiretest.File(t, "page.html", []byte(made))
	}
}

// helpers are functions for the tests of handmade pages.
const helpers = `void Object.assign(window, {
	texts: (selector, root = document) => [...root.querySelectorAll(selector)].map(e => e.textContent),
	order: () => [...document.querySelectorAll("#flows tr[data-flow]")].map(e => Number(e.dataset.flow)).join(" "),
	opened: () => [...document.querySelectorAll("#flows tr.open")].map(e => Number(e.dataset.flow)).join(" "),
	flow: number => document.querySelector('#flows tr[data-flow="' + number + '"]'),
	detail(number) {
		const next = flow(number).nextElementSibling;
		return next?.className === "detail" ? next : null;
	},
	type(text) { filterBox.value = text; filterBox.dispatchEvent(new Event("input")); },
	// Each part of a picture as its class, left, top, width and height.
	shapes: root => [...root.querySelectorAll("svg path:not(.grid)")].flatMap(path =>
		path.getAttribute("d").split(/(?=M)/).map(d => {
			const part = path.parentNode.appendChild(path.cloneNode());
			part.setAttribute("d", d);
			const {x, y, width, height} = part.getBBox();
			part.remove();
			return path.getAttribute("class") + [x, y, width, height].map(n => " " + Number(n.toFixed(1))).join("");
		})),
	// Whether points are in an area.
	filled: (root, ...points) => points.map(([x, y]) =>
		root.querySelector("path.rate").isPointInFill(new DOMPoint(x, y)) ? "1" : "0").join(""),
	now: () => [view.from, view.to, cursor].join(" "),
	pointer(plot, type, part, more = {}) {
		const box = plot.getBoundingClientRect();
		plot.setPointerCapture = () => {};
		plot.dispatchEvent(new PointerEvent(type,
			{ clientX: box.left + part * box.width, button: 0, bubbles: true, ...more }));
	},
})`

// do runs statements.
func do(t *testing.T, ctx context.Context, statements string) {
	t.Helper()
	read[chromedp.Void](t, ctx, "void (() => {"+statements+"})()")
}

// openHandmade opens a page, which must have no complaints when the test ends.
func openHandmade(t *testing.T, ctx context.Context, file string) {
	t.Helper()
	c := open(t, ctx, file)
	t.Cleanup(func() {
		c.Lock()
		defer c.Unlock()
		require.Empty(t, c.complaints)
	})
	read[chromedp.Void](t, ctx, helpers)
}

// A handmadeTest examines the page of five flows, which is opened for it.
type handmadeTest struct {
	name string
	run  func(t *testing.T, ctx context.Context)
}

// runHandmade runs tests in one browser.
func runHandmade(t *testing.T, tests ...handmadeTest) {
	ctx := browser(t)
	screen(t, ctx, 1280, 900, false)
	five := handmade(t)(fiveFlows)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			openHandmade(t, ctx, five)
			test.run(t, ctx)
		})
	}
}

func TestHandmadeTable(t *testing.T) {
	runHandmade(t,
		handmadeTest{"cells", testTable}, handmadeTest{"sorting", testSorting}, handmadeTest{"filter", testFilter},
		handmadeTest{"groups", testGroups}, handmadeTest{"details", testDetails},
		handmadeTest{"opened by a finding", testOpenedByFinding}, handmadeTest{"print", testPrint})
}

func TestHandmadePictures(t *testing.T) {
	runHandmade(t,
		handmadeTest{"strips", testStrips}, handmadeTest{"charts of a flow", testCharts},
		handmadeTest{"totals", testTotals}, handmadeTest{"overview", testOverview}, handmadeTest{"axis", testAxis},
		handmadeTest{"cursor", testCursor})
}

func TestHandmadeTime(t *testing.T) {
	runHandmade(t, handmadeTest{"zoom", testZoom}, handmadeTest{"keys", testKeys},
		handmadeTest{"pointer", testPointer})
}

// The table has a row for each flow, with the cells in the formats of their columns.
func testTable(t *testing.T, ctx context.Context) {
	require.Equal(t, []string{
		"Flow", "Over time", "QP", "to QP", "Port", "Transport", "Packets", "bit/s", "Missing", "CE", "RTT p99",
	}, read[[]string](t, ctx, `texts("#flows thead th")`))
	require.Equal(t, []string{"source and destination", "since its first request", "source", "destination", "UDP",
		"service", "all", "mean", "never seen", "marked", "round trip",
	}, read[[]string](t, ctx, `[...document.querySelectorAll("#flows thead th")].map(e => e.title)`))
	require.Equal(t, "The same everywhere: Line a. 0 everywhere: Empty", read[string](t, ctx, `texts("#empty")[0]`))
	ungroup(t, ctx)
	require.Equal(t, []string{
		"10.0.0.2 → 10.0.0.9||0x000011|0x000101|49152|RC|12000|463M|3|12.3%|92.2µs",
		"10.0.0.10 → 10.0.0.9||–|0x000102|49153|UC|7|9999|–|0.0%|–",
		"10.0.0.2 → 2001:db8::5||0x000009|0x000103|49152|RC|7|–|0|0|1.5ms",
		"10.0.0.9 → 10.0.0.2||0x000012|0x000104|50000|XRC|100|10.0k|0|0|999ns",
		"10.0.0.10 → 2001:db8::5||–|0x000105|49152|RC|20|1.00M|1|100.0%|1m1s",
	}, read[[]string](t, ctx, `[...document.querySelectorAll("#flows tr[data-flow]")].map(row =>
		[...row.cells].map(cell => cell.textContent).join("|"))`))
	require.Equal(t, []string{"0 Missing red", "0 CE yellow", "1 CE yellow", "4 Missing red"}, read[[]string](t, ctx,
		`[...document.querySelectorAll("#flows td.red, #flows td.yellow")].map(e =>
			[e.parentNode.dataset.flow, e.dataset.name, e.className].join(" "))`))
	require.Equal(t, "5 flows", read[string](t, ctx, "counted.textContent"))
	require.True(t, read[bool](t, ctx, "more.hidden"))
}

// A heading sorts by its column: texts and times upwards first, numbers downwards, and the other way with the second
// click. Rows without a value are last in both. Rows with equal cells keep their order.
func testSorting(t *testing.T, ctx context.Context) {
	ungroup(t, ctx)
	require.Equal(t, "0 1 2 3 4", read[string](t, ctx, "order()"))
	for _, test := range []struct{ heading, first, second string }{
		{"Flow", "ascending 0 2 3 1 4", "descending 4 1 3 2 0"},
		{"Over time", "ascending 0 2 1 4 3", "descending 3 4 1 2 0"},
		{"QP", "descending 3 0 2 1 4", "ascending 2 0 3 1 4"},
		{"to QP", "descending 4 3 2 1 0", "ascending 0 1 2 3 4"},
		{"Port", "descending 3 1 0 2 4", "ascending 0 2 4 1 3"},
		{"Transport", "ascending 0 2 4 1 3", "descending 3 1 0 2 4"},
		{"Packets", "descending 0 3 4 1 2", "ascending 1 2 4 3 0"},
		{"bit/s", "descending 0 4 3 1 2", "ascending 1 3 4 0 2"},
		{"Missing", "descending 0 4 2 3 1", "ascending 2 3 4 0 1"},
		{"CE", "descending 4 0 1 2 3", "ascending 2 3 1 0 4"},
		{"RTT p99", "descending 4 2 0 3 1", "ascending 3 0 2 4 1"},
	} {
		want := []string{test.first, test.second, test.first}
		require.Equal(t, want, read[[]string](t, ctx, fmt.Sprintf(`[1, 2, 3].map(() => {
			const heading = [...document.querySelectorAll("#flows th")].find(e => e.textContent === %q);
			heading.firstChild.click();
			const sorted = [...document.querySelectorAll("#flows th[aria-sort]")];
			return sorted.map(e => (e === heading ? "" : e.textContent) + e.ariaSort).join() + " " + order();
		})`, test.heading)), test.heading)
	}
	click(t, ctx, heads, "to QP")
	do(t, ctx, `type("10.0.0.2")`)
	require.Equal(t, "3 2 0", read[string](t, ctx, "order()"), "filtered rows are sorted")
	do(t, ctx, `type(""); grouped.click()`)
	require.Equal(t, "4 2 3 1 0", read[string](t, ctx, "order()"), "in groups, by the first row of each")
	require.Equal(t, []string{"to 2001:db8::52 flows", "to 10.0.0.21 flow", "to 10.0.0.92 flows"},
		read[[]string](t, ctx, `texts("tr.group th")`))
}

// The filter has words that all must match: texts of addresses, queue pairs, ports and texts, comparisons with a
// column, and trouble.
func testFilter(t *testing.T, ctx context.Context) {
	ungroup(t, ctx)
	for _, test := range []struct{ text, want string }{
		{"10.0.0.10", "1 4"}, {"→ 10.0.0.9", "0 1 3"}, {"2001:DB8", "2 4"}, {"0x000101", "0"}, {"0x000012", "3"},
		{"49153", "1"}, {"xrc", "3"}, {"RC", "0 2 3 4"}, {"12000", ""}, {"–", "1 4"},
		{"packets>20", "0 3"}, {"packets<20", "1 2"}, {"packets=20", "4"}, {"PACKETS=7", "1 2"},
		{"bit/s>9999", "0 3 4"}, {"bit/s<1e6", "1 3"}, {"missing=0", "2 3"}, {"missing<5", "0 2 3 4"},
		{"qp<0x12", "0 2"}, {"toqp=0x104", "3"}, {"toqp>259", "3 4"}, {"port=49152", "0 2 4"},
		{"transport=rc", "0 2 4"}, {"transport=UC", "1"}, {"transport>rc", "1 3"}, {"transport<uc", "0 2 4"},
		{"ce>12.34", "4"}, {"ce=0", "2 3"}, {"rttp99>1000", "0 2 4"}, {"line=a", "0 1 2 3 4"}, {"empty>0", ""},
		{"trouble", "0 1 4"}, {"trouble 10.0.0.10", "1 4"}, {"trouble packets<10", "1"}, {"nosuch>1", ""},
		{"  packets>20   ce>0 ", "0"}, {"packets>", ""}, {"", "0 1 2 3 4"},
	} {
		counted := "5 flows"
		if n := len(strings.Fields(test.want)); n < 5 {
			counted = fmt.Sprintf("%d of 5 flows", n)
		}
		require.Equal(t, []string{test.want, counted}, read[[]string](t, ctx,
			fmt.Sprintf("(type(%q), [order(), counted.textContent])", test.text)), test.text)
	}
}

// A group has the sums of counts and rates, the maxima of shares and times, and a button that hides its rows.
func testGroups(t *testing.T, ctx context.Context) {
	require.True(t, read[bool](t, ctx, "grouped.checked"))
	group := func() []string {
		return read[[]string](t, ctx, `[...document.querySelectorAll("tr.group")].map(row =>
			[...row.cells].map(cell => cell.textContent).join("|") + "|" +
			row.querySelector("button").getAttribute("aria-expanded"))`)
	}
	all := []string{
		"to 10.0.0.92 flows||||||12007|463M|3|≤ 12.3%|≤ 92.2µs|true",
		"to 2001:db8::52 flows||||||27|1.00M|1|≤ 100.0%|≤ 1m1s|true",
		"to 10.0.0.21 flow||||||100|10.0k|0|0|≤ 999ns|true",
	}
	require.Equal(t, all, group())
	require.Equal(t, "0 1 2 4 3", read[string](t, ctx, "order()"))
	require.Equal(t, []string{"from 10.0.0.2", "from 10.0.0.10", "from 10.0.0.2", "from 10.0.0.10", "from 10.0.0.9"},
		read[[]string](t, ctx, `texts("tr[data-flow] th")`))

	click(t, ctx, "tr.group button", "to 2001:db8::5")
	require.Equal(t, "0 1 3", read[string](t, ctx, "order()"))
	require.Equal(t, strings.Replace(all[1], "true", "false", 1), group()[1])
	require.Equal(t, "to 2001:db8::5", read[string](t, ctx, "document.activeElement.textContent"))
	require.Equal(t, "5 flows", read[string](t, ctx, "counted.textContent"))
	require.True(t, read[bool](t, ctx, "more.hidden"), "rows of a closed group are not left")
	click(t, ctx, heads, "to QP")
	require.Equal(t, "3 1 0", read[string](t, ctx, "order()"), "it stays closed")
	click(t, ctx, "tr.group button", "to 10.0.0.9")
	require.Equal(t, "3", read[string](t, ctx, "order()"))
	do(t, ctx, `grouped.click()`)
	require.Equal(t, "4 3 2 1 0", read[string](t, ctx, "order()"), "without groups nothing is closed")
	do(t, ctx, `grouped.click()`)
	require.Equal(t, "3", read[string](t, ctx, "order()"))
	click(t, ctx, "tr.group button", "to 2001:db8::5")
	require.Equal(t, "4 2 3", read[string](t, ctx, "order()"))
	do(t, ctx, `type("packets<10")`)
	require.Equal(t, "to 2001:db8::51 flow||||||7||0|0|≤ 1.5ms|true", group()[0], "of the filtered rows")
}

// A click on a flow opens its charts below it, and the next click closes them.
func testDetails(t *testing.T, ctx context.Context) {
	ungroup(t, ctx)
	require.Equal(t, "0", read[string](t, ctx, "opened()"), "the first one is open")
	require.Equal(t, "RC, path MTU 1024", read[string](t, ctx, `texts("p", detail(0))[0]`))
	watching := read[int](t, ctx, "watchers.view.size + watchers.cursor.size")
	toggle := func(flow int) {
		do(t, ctx, fmt.Sprintf(`flow(%d).querySelector("button").click()`, flow))
		require.Equal(t, fmt.Sprint(flow), read[string](t, ctx, `document.activeElement.closest("tr").dataset.flow`))
	}
	toggle(1)
	toggle(4)
	require.Equal(t, "0 1 4", read[string](t, ctx, "opened()"))
	require.Equal(t, []string{"true", "true", "false", "false", "true"}, read[[]string](t, ctx,
		`[...document.querySelectorAll("tr[data-flow] button")].map(e => e.getAttribute("aria-expanded"))`))
	require.Equal(t, "Only 3 flows have charts: rocecn flows -sort and -address choose which.",
		read[string](t, ctx, "detail(4).textContent"))
	require.Equal(t, 11, read[int](t, ctx, "detail(1).firstChild.colSpan"))
	require.Equal(t, []string{"UC", "XRC"}, read[[]string](t, ctx, `(turn(rows[3]), [1, 3].map(n =>
		detail(n).querySelector("p").textContent))`))
	toggle(3)

	// Open flows stay open when the rows change.
	click(t, ctx, heads, "to QP")
	require.Equal(t, "4 1 0", read[string](t, ctx, "opened()"))
	do(t, ctx, `type("10.0.0.9")`)
	require.Equal(t, "1 0", read[string](t, ctx, "opened()"))
	require.Equal(t, 2, read[int](t, ctx, `document.querySelectorAll("tr.detail").length`))
	do(t, ctx, `type(""); grouped.click()`)
	require.Equal(t, "4 1 0", read[string](t, ctx, "opened()"))
	require.Equal(t, "UC", read[string](t, ctx, `texts("p", detail(1))[0]`))
	toggle(0)
	require.Equal(t, "4 1", read[string](t, ctx, "opened()"))
	require.True(t, read[bool](t, ctx, "detail(0) === null"))
	toggle(1)
	toggle(4)
	toggle(0)
	require.Equal(t, watching, read[int](t, ctx, "watchers.view.size + watchers.cursor.size"), "closed charts are gone")

	// The list of events.
	require.Equal(t, []string{"Frame by frame: 7, 2 more are not listed"}, read[[]string](t, ctx,
		`texts("summary", detail(0))`))
	require.Equal(t, []string{
		"frame 4, +1ms: CNP", "frame 5, +1.5ms: late", "frame 6, +2.5ms: 3 missing", "frame 6, +2.5ms: begins",
		"frame 7, +2.6ms: NAK <b>", "frame 8, +3ms: Fast CNP", "frame 9, +3.5ms: 3 again",
	}, read[[]string](t, ctx, `texts(".events button", detail(0))`))
	do(t, ctx, `detail(0).querySelectorAll(".events button")[2].click()`)
	require.Equal(t, "2420000 2580000 2500000", read[string](t, ctx, "now()"))
	toggle(0)
	toggle(0)
	require.Len(t, read[[]string](t, ctx, `texts(".events button", detail(0))`), 7, "also those that are not visible")
	toggle(1)
	toggle(3)
	require.Equal(t, []string{"Frame by frame"}, read[[]string](t, ctx, `texts("summary", detail(1))`))
	require.Empty(t, read[[]string](t, ctx, `texts("summary", detail(3))`))
}

// A button of a finding opens its flow, also if the filter or a closed group hides it.
func testOpenedByFinding(t *testing.T, ctx context.Context) {
	click(t, ctx, "tr.group button", "to 2001:db8::5")
	do(t, ctx, `type("xrc")`)
	require.Equal(t, "3", read[string](t, ctx, "order()"))
	click(t, ctx, "#to4", "")
	require.Equal(t, "4", read[string](t, ctx, `document.activeElement.closest("tr").dataset.flow`))
	do(t, ctx, `type("xrc")`)
	click(t, ctx, "#to4", "")
	require.Equal(t, "0 1 2 4 3", read[string](t, ctx, "order()"))
	require.Equal(t, "0 4", read[string](t, ctx, "opened()"), "it stays open")
	require.Empty(t, read[string](t, ctx, "filterBox.value"))
	wiretest.Await(t, "the flow to be visible", func() bool {
		return read[bool](t, ctx, `(({top, bottom}) => top >= 0 && bottom <= innerHeight)(
			flow(4).getBoundingClientRect())`)
	})
	do(t, ctx, `navigator.clipboard.writeText = text => { window.copied = text; }`)
	click(t, ctx, "#copies", "")
	require.Equal(t, "roce && ip", read[string](t, ctx, "copied"))
}

// The strip of a flow has its rate, CNPs and trouble, or without a chart the time from its first to its last packet.
func testStrips(t *testing.T, ctx context.Context) {
	strip := func(flow int) []string {
		return read[[]string](t, ctx, fmt.Sprintf(`shapes(flow(%d).querySelector(".strip"))`, flow))
	}
	require.Equal(t, []string{"rate 0 16.7 1000 83.3", "cnp 125 0 0 100", "cnp 375 0 0 100", "gap 312.5 0 0 100",
		"gap 325 0 0 100", "gap 437.5 0 0 100"}, strip(0))
	require.Equal(t, "10010", read[string](t, ctx, // 1, 0 and 2 Gbit/s
		`filled(flow(0).querySelector(".strip"), [60, 70], [60, 50], [190, 98], [300, 30], [300, 10])`))
	require.Equal(t, []string{"rate 250 16.7 250 83.3", "gap 275 0 0 100"}, strip(1))
	require.Equal(t, []string{"there 125 60 2 0"}, strip(2))
	require.Equal(t, []string{"there 375 60 625 0"}, strip(4))
	do(t, ctx, `show(2e6, 4e6)`)
	painted(t, ctx)
	require.Equal(t, []string{"cnp 500 0 0 100", "gap 250 0 0 100", "gap 300 0 0 100", "gap 750 0 0 100"}, strip(0)[1:])
	require.Equal(t, []string{"there 500 60 510 0"}, strip(4), "up to the edge, and a bit beyond")
}

// The charts of a flow are true to scale.
func testCharts(t *testing.T, ctx context.Context) {
	do(t, ctx, `turn(rows[1])`)
	type lane struct {
		Label, Legend, Picture, Keys string
		Shapes, Ticks                []string
	}
	lanes := func(root string) (all []lane) {
		return read[[]lane](t, ctx, `[...`+root+`.querySelectorAll(".lane")].map(e => ({
			Label: e.querySelector(".label b").textContent + ", " + e.querySelector(".label .faint").textContent,
			Legend: texts(".legend > span", e).map(text => text.trim()).join(", "),
			Keys: [...e.querySelectorAll(".key")].map(e => e.className).join(", "),
			Picture: e.querySelector("svg").ariaLabel,
			Shapes: shapes(e),
			Ticks: [...e.querySelectorAll(".tick")].map(e => e.textContent + " " + parseFloat(e.style.top).toFixed(1)),
		}))`)
	}
	const name = "over time, 10.0.0.2 → 10.0.0.9"
	require.Equal(t, []lane{
		{"Rate, bit/s", "", "Rate " + name, "", []string{"rate 0 0 1000 100"},
			[]string{"0 100.0", "1.00G 50.0", "2.00G 0.0"}},
		{"Congestion, ", "CE: 7, CNP: 1", "Congestion " + name, "key ce, key cnp",
			[]string{"ce 0 0 56.3 100", "ce 250 60 56.3 40", "cnp 62.5 80 56.3 20"},
			[]string{"0 100.0", "2 60.0", "4 20.0"}},
		{"PSN, since the first", "missing: 1, out of order: 1, retransmitted: 1, new connection: 1", "PSN " + name,
			"key gap, key late, key repeat, key life",
			[]string{"psn 0 0 250 100", "psn 375 57.9 0 0", "late 187.5 84.2 0 0", "gap 312.5 18.3 0 26.5",
				"life 312.5 0 0 100", "repeat 437.5 63.2 0 10.5"},
			[]string{"0 100.0", "10 47.4"}},
		{"Answers, ", "NAK: 3, RNR NAK: 1, CNP: 1, Fast CNP: 1", "Answers " + name,
			"key nak, key rnr, key cnp, key fast",
			[]string{"nak some 250 3.8 125 17.5", "nak 325 3.8 0 17.5", "rnr some 125 28.8 125 17.5",
				"cnp 125 53.8 0 17.5", "fast 375 78.8 0 17.5"}, []string{}},
		{"Round trip, longest", "", "Round trip " + name, "", []string{"rtt 125 0 112.5 100"},
			[]string{"0 100.0", "50µs 45.8"}},
		{"Queue depth, ", "node 5: 4", "Queue depth " + name, "key node0",
			[]string{"node0 0 0 125 100", "node0 250 50 125 50"}, []string{"0 100.0", "2 50.0", "4 0.0"}},
	}, lanes("detail(0)"))
	require.Equal(t, "1001", read[string](t, ctx, `filled(detail(0), [60, 60], [60, 40], [190, 98], [300, 2])`))
	require.Equal(t, []string{"frame 5, +1.5ms: late", "frame 6, +2.5ms: 3 missing", "frame 6, +2.5ms: begins",
		"frame 9, +3.5ms: 3 again"}, read[[]string](t, ctx, `texts(".of-psns title", detail(0))`))
	require.Equal(t, []string{"frame 7, +2.6ms: NAK <b>", "frame 4, +1ms: CNP", "frame 8, +3ms: Fast CNP"},
		read[[]string](t, ctx, `texts(".of-events title", detail(0))`))

	// The second flow begins after 2 ms, with narrower bins. Nodes are drawn side by side.
	second := lanes("detail(1)")
	require.Len(t, second, 3)
	require.Equal(t, []string{"rate 250 0 250 100"}, second[0].Shapes)
	require.Equal(t, "1101", read[string](t, ctx, // 1.6 Mbit/s for 1 ms, then 0.8
		`filled(detail(1), [260, 2], [370, 2], [430, 45], [430, 55])`))
	require.Equal(t, "RNR NAK: 0", second[1].Legend)
	require.Equal(t, []string{"rnr 275 15 0 70"}, second[1].Shapes)
	require.Equal(t, "node 6: 8, node 7: 4", second[2].Legend)
	require.Equal(t, []string{"node0 250 0 62.5 100", "node0 312.5 75 62.5 25", "node1 254 100 58.5 0",
		"node1 316.5 50 58.5 50"}, second[2].Shapes)
	require.Equal(t, []string{"node 6", "node 7"}, read[[]string](t, ctx, `texts(".of-queues title", detail(1))`))

	// Closer, only visible parts count for the scale, and the legends stay the same.
	do(t, ctx, `show(2e6, 4e6)`)
	painted(t, ctx)
	closer := lanes("detail(0)")
	require.Equal(t, []string{"ce 0 0 225 100"}, closer[1].Shapes)
	require.Equal(t, []string{"0 100.0", "1 50.0", "2 0.0"}, closer[1].Ticks)
	require.Equal(t, "CE: 7, CNP: 1", closer[1].Legend)
	require.Equal(t, []string{"psn 0 66.7 500 33.3", "gap 250 -8 0 38.2", "life 250 0 0 100",
		"repeat 750 77.8 0 22.2"}, roundShapes(closer[2].Shapes, "psn", "gap", "life", "repeat"))
	require.Equal(t, []string{"nak some 0 3.8 500 17.5", "nak 300 3.8 0 17.5", "fast 500 78.8 0 17.5"},
		closer[3].Shapes)
	require.Empty(t, closer[4].Shapes)
	require.Empty(t, closer[4].Ticks, "without values there is no scale")
	require.Equal(t, []string{"node0 0 0 500 100"}, closer[5].Shapes)
}

// roundShapes returns the shapes of some classes.
func roundShapes(shapes []string, classes ...string) (chosen []string) {
	for _, s := range shapes {
		for _, class := range classes {
			if strings.HasPrefix(s, class+" ") {
				chosen = append(chosen, s)
			}
		}
	}
	return chosen
}

// The lanes of all flows have the totals, and those of links the pauses.
func testTotals(t *testing.T, ctx context.Context) {
	require.Equal(t, []string{
		"Rate bit/s", "Congestion CE: 7 CNP: 1 ", "Sequence missing: 3 out of order: 4 retransmitted: 1 ",
		"NAKs, PPFC NAK: 2 RNR NAK: 1 PPFC: 6 ", "Round trip longest", "Paused 02:00:00:00:00:01, priority 3",
		"Paused 02:00:00:00:00:02, priority 4",
	}, read[[]string](t, ctx, `texts("#totals .label").map(text => text.replace("  ", " "))`))
	require.Equal(t, "Rate over time, all flows", read[string](t, ctx,
		`document.querySelector("#totals svg").ariaLabel`))
	require.Equal(t, []string{
		"gap 250 25 37.5 75", "late 166.7 0 37.5 100", "repeat 458.3 75 37.5 25",
		"nak 500 66.7 37.5 33.3", "rnr 666.7 83.3 37.5 16.7", "ppfc 83.3 0 37.5 100",
	}, read[[]string](t, ctx, `[2, 3].flatMap(n => shapes(document.querySelectorAll("#totals .lane")[n]))`))
	require.Equal(t, []string{"pause 125 10 125 90", "pause some 375 55 125 45", "pause 750 88 2.5 12"},
		read[[]string](t, ctx, `shapes(document.querySelector("#totals .of-pauses")).concat(
			shapes(document.querySelectorAll("#totals .of-pauses")[1]))`))
	require.Equal(t, []string{"from frame 9 on, +1ms: paused 1ms by 3 XOFF",
		"from frame 10 on, +3ms: paused 500µs of 1ms by 2 XOFF"},
		read[[]string](t, ctx, `texts("#totals .of-pauses title")`))
	do(t, ctx, `show(5999500, 6000500)`)
	painted(t, ctx)
	require.Equal(t, "pause 500 10 10 90", strings.Join(read[[]string](t, ctx, `shapes(document.querySelectorAll(
		"#totals .of-pauses")[1])`), ", "))
	for _, test := range []struct {
		at   string
		want []string
	}{
		{"500000", []string{"1.00Gbit/s", "5 CE, 1 CNP", "", "6 PPFC", "", "", ""}},
		{"1500000", []string{"0bit/s", "", "4 out of order", "", "92.2µs", "paused 1ms by 3 XOFF", ""}},
		{"2500000", []string{"2.00Gbit/s", "2 CE", "3 missing", "", "", "", ""}},
		{"3000000", []string{"0bit/s", "", "1 retransmitted", "", "", "paused 500µs of 1ms by 2 XOFF", ""}},
	} {
		do(t, ctx, "showAll(); point("+test.at+")")
		painted(t, ctx)
		require.Equal(t, test.want, read[[]string](t, ctx, `texts("#totals .value")`), test.at)
	}
	do(t, ctx, "point(null)")
	painted(t, ctx)
	require.Equal(t, make([]string, 7), read[[]string](t, ctx, `texts("#totals .value")`))
}

// The overview has the rate, trouble and pauses of the complete time, at every zoom.
func testOverview(t *testing.T, ctx context.Context) {
	want := []string{
		"rate 0 0 1000 100", "trouble 250 0 125 18", "trouble 375 0 125 18", "trouble 500 0 125 18",
		"trouble 625 0 125 18", "pause 125 22 125 18", "pause 375 22 125 18", "pause 750 22 2 18",
	}
	require.Equal(t, want, read[[]string](t, ctx, `shapes(overview)`))
	require.Equal(t, "1001", read[string](t, ctx, `filled(overview, [60, 60], [60, 40], [190, 98], [300, 2])`))
	do(t, ctx, `show(2e6, 4e6)`)
	painted(t, ctx)
	require.Equal(t, want, read[[]string](t, ctx, `(drawOverview(), shapes(overview))`))
	require.Equal(t, "2000000 4000000 ", read[string](t, ctx, "now()"))
}

// The axis has up to eight ticks, on a telephone three.
func testAxis(t *testing.T, ctx context.Context) {
	state := func() string {
		painted(t, ctx)
		return read[string](t, ctx, `[...axis.children].map(e => e.textContent + " " + parseFloat(e.style.left))
			.join(", ") +
			"; " + range.textContent + "; " + [brush.style.left, brush.style.width].join(" ")`)
	}
	require.Equal(t, "0 0, +1ms 12.5, +2ms 25, +3ms 37.5, +4ms 50, +5ms 62.5, +6ms 75, +7ms 87.5, +8ms 100; "+
		"all of 8ms; 0% 100%", state())
	require.Equal(t, 9, read[int](t, ctx,
		`document.querySelectorAll("#totals .lane:first-child path.grid").length - 3`),
		"a line at each, and three for the rate")
	do(t, ctx, "show(2e6, 4e6)")
	require.Equal(t, "+2ms 0, +2.5ms 25, +3ms 50, +3.5ms 75, +4ms 100; 2ms from +2ms on; 25% 25%", state())
	require.InDeltaSlice(t, []float64{0.25, 0.25}, read[[]float64](t, ctx, `(() => {
		const box = selector => document.querySelector(selector).getBoundingClientRect();
		const all = box("#slider svg"), part = box("#brush");
		return [(part.left - all.left) / all.width, part.width / all.width];
	})()`), 0.01, "the brush is over the visible part")
	do(t, ctx, "show(0, 2e6)")
	require.Contains(t, state(), "; 2ms from 0 on; 0% 25%")
	do(t, ctx, "show(6e6, 8e6)")
	require.Contains(t, state(), "; 2ms from +6ms on; 75% 25%")
	do(t, ctx, "showAll()")
	screen(t, ctx, 600, 900, false)
	require.Equal(t, "0 0, +5ms 62.5; all of 8ms; 0% 100%", state(), "a narrow screen")
	screen(t, ctx, 1280, 900, false)
}

// The visible part is within the capture and at least a microsecond.
func testZoom(t *testing.T, ctx context.Context) {
	for _, test := range []struct{ act, want string }{
		{"show(-1e6, 1e6)", "0 2000000"}, {"show(7e6, 9e6)", "6000000 8000000"}, {"show(3e6, 3e6)", "3000000 3001000"},
		{"show(5e6, 3e6)", "5000000 5001000"}, {"show(8e6, 9e9)", "0 8000000"}, {"show(8e6, 8e6)", "7999000 8000000"},
		{"showAll(); zoom(0.5)", "2000000 6000000"}, {"show(2e6, 6e6); zoom(0.5, 3e6)", "2500000 4500000"},
		{"show(2.5e6, 4.5e6); zoom(2, 3e6)", "2000000 6000000"}, {"showAll(); zoom(1e-9, 1e6)", "999875 1000875"},
		{"show(2e6, 3e6); zoom(100)", "0 8000000"}, {"show(2e6, 4e6); pan(0.5)", "3000000 5000000"},
		{"show(2e6, 4e6); pan(-0.5)", "1000000 3000000"}, {"show(0, 2e6); pan(-0.5)", "0 2000000"},
		{"show(6e6, 8e6); pan(0.5)", "6000000 8000000"}, {"show(2e6, 4e6); showAll()", "0 8000000"},
		{"showAll(); look(4e6)", "3920000 4080000 4000000"},
		{"show(1e6, 1.001e6); look(4e6)", "3999500 4000500 4000000"},
		{"showAll(); look(1000)", "0 160000 1000"}, {"show(2e6, 4e6); reach(3e6)", "2000000 4000000 3000000"},
		{"show(2e6, 4e6); reach(4e6)", "2000000 4000000 4000000"}, {"reach(2e6)", "2000000 4000000 2000000"},
		{"reach(5e6)", "4000000 6000000 5000000"}, {"reach(1e6)", "0 2000000 1000000"},
		{"show(2e6, 4e6); point(-5)", "2000000 4000000 0"}, {"point(9e9)", "2000000 4000000 8000000"},
		// Buttons zoom around the cursor if there is one.
		{"point(2.5e6); document.querySelector('#in').click()", "2250000 3250000 2500000"},
		{"document.querySelector('#out').click()", "2000000 4000000 2500000"},
		{"point(null); document.querySelector('#in').click()", "2500000 3500000 "},
		{"document.querySelector('#out').click()", "2000000 4000000 "},
		{"document.querySelector('#earlier').click()", "1000000 3000000 "},
		{"document.querySelector('#later').click()", "2000000 4000000 "},
		{"document.querySelector('#next').click()", "0 2000000 1000000"},
		{"document.querySelector('#next').click()", "0 2000000 1500000"},
		{"document.querySelector('#all').click()", "0 8000000 1500000"},
	} {
		got := read[string](t, ctx, fmt.Sprintf("(() => { %s; return now(); })()", test.act))
		if len(strings.Fields(test.want)) == 2 && !strings.HasSuffix(test.want, " ") {
			got = strings.Join(strings.Fields(got)[:2], " ")
		}
		require.Equal(t, test.want, got, test.act)
	}
	// Several changes are drawn once.
	require.Equal(t, 0, read[int](t, ctx, `(window.redraws = 0, watchers.view.add(() => { redraws++; }),
		show(0, 1e6), show(0, 2e6), show(0, 3e6), redraws)`))
	painted(t, ctx)
	require.Equal(t, 1, read[int](t, ctx, "redraws"))
	do(t, ctx, "show(0, 4e6)")
	painted(t, ctx)
	require.Equal(t, 2, read[int](t, ctx, "redraws"))
}

// Keys of the axis, each from a view of 2 ms to 4 ms.
func testKeys(t *testing.T, ctx context.Context) {
	for _, test := range []struct{ cursor, key, want string }{
		{"null", "key: 'ArrowRight'", "2000000 4000000 2020000"},
		{"null", "key: 'ArrowLeft'", "2000000 4000000 3980000"},
		{"3e6", "key: 'ArrowRight'", "2000000 4000000 3020000"},
		{"3e6", "key: 'ArrowLeft'", "2000000 4000000 2980000"},
		{"3e6", "key: 'ArrowRight', shiftKey: true", "2000000 4000000 3200000"},
		{"3e6", "key: 'ArrowLeft', shiftKey: true", "2000000 4000000 2800000"},
		{"4e6", "key: 'ArrowRight'", "3020000 5020000 4020000"},
		{"2e6", "key: 'ArrowLeft'", "980000 2980000 1980000"},
		{"3e6", "key: 'Home'", "0 2000000 0"}, {"3e6", "key: 'End'", "6000000 8000000 8000000"},
		{"2.5e6", "key: '+'", "2250000 3250000 2500000"}, {"null", "key: '+'", "2500000 3500000 "},
		{"2.5e6", "key: '='", "2250000 3250000 2500000"}, {"null", "key: '='", "2500000 3500000 "},
		{"2.5e6", "key: '-'", "1500000 5500000 2500000"}, {"null", "key: '-'", "1000000 5000000 "},
		{"3e6", "key: '0'", "0 8000000 3000000"}, {"3e6", "key: 'Escape'", "0 8000000 "},
		{"null", "key: 'n'", "0 2000000 1000000"}, {"null", "key: 'p'", "2000000 4000000 3500000"},
		{"2.5e6", "key: 'n'", "2000000 4000000 2600000"}, {"2.5e6", "key: 'p'", "2000000 4000000 2200000"},
		{"3.5e6", "key: 'n'", "2000000 4000000 3500000"}, {"1e6", "key: 'p'", "2000000 4000000 1000000"},
		{"3e6", "key: '0', ctrlKey: true", ""}, {"3e6", "key: '0', metaKey: true", ""},
		{"3e6", "key: '0', altKey: true", ""}, {"3e6", "key: 'x'", ""}, {"3e6", "key: 'Tab'", ""},
	} {
		want := test.want + ", handled"
		if test.want == "" {
			want = "2000000 4000000 3000000"
		}
		require.Equal(t, want, read[string](t, ctx, fmt.Sprintf(`(show(2e6, 4e6), point(%s),
			document.querySelector("#slider").dispatchEvent(new KeyboardEvent("keydown", {%s, cancelable: true})) ?
			now() : now() + ", handled")`, test.cursor, test.key)), "%s at %s", test.key, test.cursor)
	}
}

// A pointer moves the cursor. With its first button it selects a part of the time, which is marked until then.
func testPointer(t *testing.T, ctx context.Context) {
	do(t, ctx, `window.plot = document.querySelector("#totals .plot"); show(2e6, 4e6)`)
	chosen := func() string {
		return read[string](t, ctx, `[...document.querySelectorAll(".chosen")].map(e =>
			parseFloat(e.style.left).toFixed(1) + " " + parseFloat(e.style.width).toFixed(1)).join()`)
	}
	near := func(from, to, cursor float64) {
		t.Helper()
		got := read[[]float64](t, ctx, "[view.from, view.to, cursor]")
		require.InDeltaSlice(t, []float64{from, to, cursor}, got, 2000)
	}
	do(t, ctx, `pointer(plot, "pointermove", 0.5)`)
	near(2e6, 4e6, 3e6)
	require.Empty(t, chosen(), "no button")
	do(t, ctx, `pointer(plot, "pointermove", 1.5)`)
	near(2e6, 4e6, 4e6) // at most the edge
	do(t, ctx, `pointer(plot, "pointermove", -1)`)
	near(2e6, 4e6, 2e6)
	do(t, ctx, `pointer(plot, "pointerdown", 0.25, {button: 2}); pointer(plot, "pointermove", 0.75)`)
	require.Empty(t, chosen(), "another button")
	do(t, ctx, `pointer(plot, "pointerup", 0.75, {button: 2})`)
	near(2e6, 4e6, 3.5e6)
	do(t, ctx, `pointer(plot, "pointerdown", 0.75); pointer(plot, "pointermove", 0.5)`)
	require.Equal(t, "50.0 25.0", chosen())
	do(t, ctx, `pointer(plot, "pointermove", 0.25)`)
	require.Equal(t, "25.0 50.0", chosen())
	do(t, ctx, `pointer(plot, "pointercancel", 0.25)`)
	require.Empty(t, chosen())
	do(t, ctx, `pointer(plot, "pointerup", 0.25)`)
	near(2e6, 4e6, 2.5e6) // cancelled
	do(t, ctx, `pointer(plot, "pointerdown", 0.75); pointer(plot, "pointermove", 0.25);
		pointer(plot, "pointerup", 0.25)`)
	require.Empty(t, chosen())
	near(2.5e6, 3.5e6, 2.5e6)
	do(t, ctx, `pointer(plot, "pointermove", 0.5)`)
	require.Empty(t, chosen(), "the button is up")
	do(t, ctx, `const click = 3 / plot.clientWidth; pointer(plot, "pointerdown", 0.5);
		pointer(plot, "pointermove", 0.5 + click); pointer(plot, "pointerup", 0.5 + click)`)
	require.Empty(t, chosen())
	got := read[[]float64](t, ctx, "[view.from, view.to]")
	require.InDeltaSlice(t, []float64{2.5e6, 3.5e6}, got, 2000, "a click does not zoom")

	do(t, ctx, `const drag = 6 / plot.clientWidth; pointer(plot, "pointerdown", 0.5);
		pointer(plot, "pointermove", 0.5 + drag); pointer(plot, "pointerup", 0.5 + drag)`)
	require.Less(t, read[float64](t, ctx, "view.to - view.from"), 1e5, "a short drag zooms")

	// In the overview positions are of the complete time.
	do(t, ctx, `pointer(overview, "pointermove", 0.25)`)
	require.InDelta(t, 2e6, read[float64](t, ctx, "cursor"), 2000)
	do(t, ctx, `pointer(overview, "pointerdown", 0.5); pointer(overview, "pointerup", 0.75)`)
	got = read[[]float64](t, ctx, "[view.from, view.to]")
	require.InDeltaSlice(t, []float64{4e6, 6e6}, got, 2000)
	do(t, ctx, `overview.dispatchEvent(new WheelEvent("wheel", {clientX: 0, ctrlKey: true, deltaY: 1}))`)
	got = read[[]float64](t, ctx, "[view.from, view.to]")
	require.InDeltaSlice(t, []float64{5e6, 7.5e6}, got, 2000, "around the beginning, which is not visible")
	do(t, ctx, `overview.dispatchEvent(new MouseEvent("dblclick"))`)
	require.Equal(t, []float64{0, 8e6}, read[[]float64](t, ctx, "[view.from, view.to]"))
	for _, test := range []struct {
		event     string
		prevented bool
	}{{"ctrlKey: true, deltaY: 1", true}, {"shiftKey: true, deltaY: 1", true}, {"deltaY: 1", false}} {
		require.Equal(t, test.prevented, !read[bool](t, ctx, `plot.dispatchEvent(
			new WheelEvent("wheel", {cancelable: true, `+test.event+`}))`), "%s scrolls the page", test.event)
	}
	do(t, ctx, `showAll(); const strip = flow(4).querySelector(".plot");
		pointer(strip, "pointerdown", 0.5); pointer(strip, "pointermove", 0.75); pointer(strip, "pointerup", 0.75)`)
	got = read[[]float64](t, ctx, "[view.from, view.to]")
	require.InDeltaSlice(t, []float64{4e6, 6e6}, got, 10_000, "a strip of the table")
}

// The cursor is visible within the view, and its time is written next to the axis and for screen readers.
func testCursor(t *testing.T, ctx context.Context) {
	state := func() string {
		painted(t, ctx)
		return read[string](t, ctx, `[document.querySelector("#at").textContent,
			...["aria-valuenow", "aria-valuetext"].map(name => document.querySelector("#slider").getAttribute(name)),
			Number(Number(document.documentElement.style.getPropertyValue("--cursor")).toFixed(6)),
			document.documentElement.classList.contains("pointing")].join("; ")`)
	}
	require.Equal(t, "; 0; no cursor; -1; false", state())
	for _, c := range []struct{ script, want string }{
		{"show(2e6, 4e6); point(2500000.4)", "+2.5ms; 2500000; +2.5ms; 0.25; true"},
		{"point(2e6)", "+2ms; 2000000; +2ms; 0; true"},
		{"point(4e6)", "+4ms; 4000000; +4ms; 1; true"},
		{"point(6e6)", "+6ms; 6000000; +6ms; 2; false"},
		{"showAll()", "+6ms; 6000000; +6ms; 0.75; true"},
		{"point(0)", "0; 0; 0; 0; true"},
		{"point(null)", "; 0; no cursor; -1; false"},
	} {
		do(t, ctx, c.script)
		require.Equal(t, c.want, state(), c.script)
	}

	// The lanes of a flow show their values at the cursor as well, also if they are opened later.
	at := func(number int, time string) []string {
		do(t, ctx, "point("+time+")")
		painted(t, ctx)
		return read[[]string](t, ctx, fmt.Sprintf(`texts(".value", detail(%d))`, number))
	}
	require.Equal(t, []string{"1.00Gbit/s", "5 CE, 1 CNP", "9", "", "", "5: 4"}, at(0, "0"))
	require.Equal(t, []string{"0bit/s", "", "19", "", "92.2µs", ""}, at(0, "1.7e6"))
	require.Equal(t, []string{"2.00Gbit/s", "2 CE", "8", "NAK <b>", "", "5: 2"}, at(0, "2.62e6"))
	require.Equal(t, []string{"0bit/s", "", "", "", "", ""}, at(0, "7.9e6"))
	do(t, ctx, "point(2.51e6); turn(rows[1])")
	require.Equal(t, []string{"1.60Mbit/s", "", "6: 2, 7: 4"}, read[[]string](t, ctx, `texts(".value", detail(1))`))
	require.Equal(t, []string{"800kbit/s", "", ""}, at(1, "3.5e6"))
	require.Equal(t, []string{"", "", ""}, at(1, "1e6"))
}

// For paper the first three flows are opened, if they have charts.
func testPrint(t *testing.T, ctx context.Context) {
	do(t, ctx, `turn(rows[0]); dispatchEvent(new Event("beforeprint"))`)
	require.Equal(t, "0 1", read[string](t, ctx, "opened()"))
	do(t, ctx, `dispatchEvent(new Event("beforeprint"))`)
	require.Equal(t, "0 1", read[string](t, ctx, "opened()"), "open flows stay open")
}

// A table has 100 rows, and up to 500 more with a click. A filter starts with 100 again; sorting does not. A flow that
// is opened makes room for itself.
func TestHandmadePages(t *testing.T) {
	ctx := browser(t)
	screen(t, ctx, 1280, 900, false)
	write := handmade(t)
	var rows []string
	for i := range 250 {
		rows = append(rows, fmt.Sprintf(`[0, %d, 0, 1000, "n", %d]`, 1+i%2, i))
	}
	openHandmade(t, ctx, write(`{"start": "", "span": 1000,
		"columns": [{"name": "N", "help": "", "kind": "count"}],
		"addresses": ["10.0.0.1", "10.0.0.2", "10.0.0.3"], "rows": [`+strings.Join(rows, ",")+`]}`))
	for _, test := range []struct{ act, want string }{
		{"", "100 Show 150 more of 250, to 10.0.0.2"},
		{"group('10.0.0.2').click()", "100 Show 25 more of 250, to 10.0.0.2, to 10.0.0.3"},
		{"more.click()", "125 all, to 10.0.0.2, to 10.0.0.3"},
		{"group('10.0.0.2').click()", "250 all, to 10.0.0.2, to 10.0.0.3"},
		{"byN.click()", "250 all, to 10.0.0.3, to 10.0.0.2"},
		{"type('n<200')", "100 Show 100 more of 200, to 10.0.0.3"},
		{"type('n<30')", "30 all, to 10.0.0.3, to 10.0.0.2"},
		{"type(''); byN.click(); grouped.click()", "100 Show 150 more of 250, "},
		{"openFlow(99)", "100 Show 150 more of 250, "}, {"openFlow(100)", "200 Show 50 more of 250, "},
		{"openFlow(5)", "200 Show 50 more of 250, "}, {"openFlow(199)", "200 Show 50 more of 250, "},
		{"openFlow(200)", "250 all, "},
		{"type(''); byN.click(); openFlow(99)", "200 Show 50 more of 250, "}, // the 151st in this order
		{"type(''); byN.click(); grouped.click()", "100 Show 150 more of 250, to 10.0.0.2"},
		{"openFlow(1)", "200 Show 50 more of 250, to 10.0.0.2, to 10.0.0.3"}, // the first of the second group
	} {
		require.Equal(t, test.want, read[string](t, ctx, fmt.Sprintf(`(() => {
			const group = address => document.querySelector('tr.group[data-receiver="' + address + '"] button');
			const byN = [...document.querySelectorAll("#flows thead button")].find(e => e.textContent === "N");
			%s;
			return document.querySelectorAll("tr[data-flow]").length + " " +
				(more.hidden ? "all" : more.textContent) + ", " + texts("tr.group button").join(", ");
		})()`, test.act)), test.act)
	}
}

// The page first has groups if flows share a receiver, and the charts of the first flow if there is room.
func TestHandmadeFirstView(t *testing.T) {
	ctx := browser(t)
	screen(t, ctx, 1280, 900, false)
	write := handmade(t)
	one := regexp.MustCompile(`(?s)"rows": \[\n\t(\[.*?\]),.*?\]\],`).ReplaceAllString(fiveFlows, `"rows": [$1],`)
	openHandmade(t, ctx, write(one))
	require.Equal(t, "0; 0; 1 flow; false; ", read[string](t, ctx,
		`[order(), opened(), counted.textContent, grouped.checked, texts("#empty")[0].replace(/0 every.*/, "")]
			.join("; ")`))
	do(t, ctx, `type("no such")`)
	require.Equal(t, "0 of 1 flow", read[string](t, ctx, "counted.textContent"))

	openHandmade(t, ctx, write(strings.Replace(fiveFlows, `"row": 0`, `"row": 2`, 1)))
	require.Empty(t, read[string](t, ctx, "opened()"), "the first flow has no chart")

	// Without totals, pauses and charts, and shorter than a microsecond.
	bare := regexp.MustCompile(`(?s),\n"totals.*$`).ReplaceAllString(one, "}")
	openHandmade(t, ctx, write(strings.Replace(bare, `"span": 8000000`, `"span": 0`, 1)))
	require.Empty(t, read[[]string](t, ctx, `texts("#totals .lane")`))
	require.Empty(t, read[[]string](t, ctx, `shapes(overview)`))
	require.Equal(t, "all of 1µs", read[string](t, ctx, "range.textContent"))
	do(t, ctx, `next(1); zoom(0.1); turn(rows[0])`)
	require.Equal(t, "0 1000 ", read[string](t, ctx, "now()"))
	require.Equal(t, "Only 0 flows have charts: rocecn flows -sort and -address choose which.",
		read[string](t, ctx, "detail(0).textContent"))

	openHandmade(t, ctx, write(strings.Replace(bare, `"span": 8000000`, `"span": 1000000`, 1)))
	do(t, ctx, "look(5e5)")
	require.Equal(t, "480000 520000 500000", read[string](t, ctx, "now()"), "at least 40 µs around an event")

	screen(t, ctx, 600, 900, false)
	openHandmade(t, ctx, write(fiveFlows))
	require.Empty(t, read[string](t, ctx, "opened()"), "a telephone")
}
