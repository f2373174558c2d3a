package flows

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/flows"
	"github.com/rocecn/rocecn/flows/triage"
	"github.com/rocecn/rocecn/internal/traffic"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
)

// pageFrom runs the command, and returns the page and the standard output.
func pageFrom(t *testing.T, stdin io.Reader, args ...string) (html, stdout string) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "page.html")
	status, stdout, stderr := run(t, stdin, append([]string{"-html", name}, args...)...)
	require.Zero(t, status, stderr)
	b := wiretest.Must(os.ReadFile(name))(t)
	return string(b), stdout
}

// written is the data for the script of a page.
type written struct {
	Start     string
	Span      int64
	Columns   []pageColumn
	Addresses []string
	Rows      [][]any
	Totals    *pageSeries
	Pauses    []pageLane
	Charts    []pageChart
}

// dataOf reads the data for the script of a page.
func dataOf(t *testing.T, html string) (d written) {
	t.Helper()
	_, text, found := strings.Cut(html, `<script type="application/json" id="data">`)
	require.True(t, found)
	text, _, _ = strings.Cut(text, "</script>")
	require.NoError(t, json.Unmarshal([]byte(text), &d))
	return d
}

// With -html, the standard output is the same as without.
func TestPage(t *testing.T) {
	name, made := made(t, 21, traffic.Options{Connections: 4})
	html, stdout := pageFrom(t, nil, name)
	_, want, _ := run(t, nil, name)
	require.Equal(t, want, stdout)
	d := dataOf(t, html)
	require.Len(t, d.Rows, 10)
	require.Len(t, d.Charts, 10)
	frames := map[string]bool{}
	for _, c := range d.Charts {
		for _, m := range c.Marks {
			frames[fmt.Sprint(m[2])] = true
		}
	}
	for _, truth := range made.Flows {
		if truth.FirstTrouble > 0 {
			require.True(t, frames[fmt.Sprint(truth.FirstTrouble)])
		}
	}
	var top string
	for _, interval := range []string{"0", "1ms"} {
		top, _ = pageFrom(t, nil, "-top", "2", "-interval", interval, name)
		require.Len(t, dataOf(t, top).Rows, 2)
		require.Regexp(t, `>10 flows, \d in trouble, the first 2 are shown; 281 packets`, top)
	}
	require.Regexp(t, `>10 flows, \d in trouble; 281 packets`, html)
	const partly = "also those that are not in the table"
	require.Contains(t, top, partly)
	require.NotContains(t, html, partly)
	chosen, _ := pageFrom(t, nil, "-qp", "0x10003", name)
	require.Contains(t, chosen, partly)
	require.Equal(t, dataOf(t, html).Totals, dataOf(t, chosen).Totals)

	d = dataOf(t, top)
	row := d.Rows[0]
	require.Equal(t, "2001:db8::1", d.Addresses[int(row[0].(float64))])
	require.Equal(t, "2001:db8::2", d.Addresses[int(row[1].(float64))])
	cells := map[string]any{}
	for i, c := range d.Columns {
		cells[c.Name] = row[5+i]
	}
	require.EqualValues(t, 0x102, cells["QP"])
	require.EqualValues(t, 0x10003, cells["to QP"])
	require.Equal(t, "RC", cells["Transport"])
	require.EqualValues(t, 53, cells["Packets"])
	require.EqualValues(t, 22.642, cells["CE"])
	require.Len(t, row[4], len(d.Columns))

	queues, _ := pageFrom(t, nil, wiretest.Path(t, "ioam-linux618-hpcc.pcap"))
	var nodes []uint64
	for _, c := range dataOf(t, queues).Charts {
		for _, n := range c.Nodes {
			nodes = append(nodes, n.Node)
		}
	}
	require.ElementsMatch(t, []uint64{0xB2, 0xC3, 0xD4}, nodes)
}

// The bins of all flows have the sums of the flows, and the pauses are the printed ones.
func TestPageOverTime(t *testing.T) {
	name, _ := made(t, 21, traffic.Options{Connections: 4})
	html, _ := pageFrom(t, nil, name)
	d := dataOf(t, html)
	total := func(all []uint64) (n uint64) {
		for _, one := range all {
			n += one
		}
		return n
	}
	var octets uint64
	for _, c := range d.Charts {
		octets += total(c.Octets)
		bins := 0
		for _, w := range c.Widths {
			require.Positive(t, w[0])
			bins += int(w[1])
		}
		require.LessOrEqual(t, len(c.Octets), bins)
		if c.PSN != nil {
			require.Len(t, c.PSN, 2*bins)
		}
	}
	require.Equal(t, octets, total(d.Totals.Octets))
	html, _ = pageFrom(t, nil, wiretest.Path(t, "tour.pcap"))
	require.Equal(t, []pageLane{
		{"02:00:00:00:00:01, priority 3", [][5]int64{{50_000, 350_000, 300_000, 1, 3}}, 0},
		{"02:00:00:00:00:01, all priorities", [][5]int64{{375_000, 395_971, 20_971, 1, 16}}, 0},
	}, dataOf(t, html).Pauses)
}

// The page fetches nothing.
func TestPageIsSelfContained(t *testing.T) {
	name, _ := made(t, 21, traffic.Options{Connections: 4})
	html, _ := pageFrom(t, nil, name)
	require.Contains(t, html, `content="default-src 'none'; `)
	require.Empty(t,
		regexp.MustCompile(`(?i)(src=|url\(|@import|https?:|//[a-z]|fetch\(|import\()`).FindAllString(html, -1))
	for _, link := range regexp.MustCompile(`href="([^"]*)"`).FindAllStringSubmatch(html, -1) {
		require.Equal(t, `data:,`, link[1])
	}
}

// Names in the input are escaped.
func TestPageEscapes(t *testing.T) {
	name := filepath.Join(t.TempDir(), `"><img src=x onerror=alert(1)>&.pcap`)
	octets := wiretest.Must(os.ReadFile(wiretest.Path(t, "rxe-verbs6.pcap")))(t)
	require.NoError(t, os.WriteFile(name, octets, 0o600))
	html, _ := pageFrom(t, nil, name)
	require.NotContains(t, html, "<img")
	require.Contains(t, html, "&lt;img src=x onerror=alert(1)&gt;&amp;.pcap")
}

// Nothing to say is said, too.
func TestPageOfNothing(t *testing.T) {
	html, _ := pageFrom(t, bytes.NewReader(nil), "-trouble", wiretest.Path(t, "rxe-rping6.pcap"))
	require.Contains(t, html, "0 flows, 0 in trouble")
	require.Contains(t, html, "No flow of RoCEv2 here")
	require.NotContains(t, html, "<script")
}

func TestPageCannotBeWritten(t *testing.T) {
	name := filepath.Join(t.TempDir(), "no", "such.html")
	status, stdout, stderr := run(t, nil, "-html", name, wiretest.Path(t, "rxe-perf4.pcap"))
	require.Equal(t, 1, status)
	require.Empty(t, stdout)
	require.Contains(t, stderr, name)

	full := wiretest.FullDevice(t)
	status, _, stderr = run(t, nil, "-html", full, wiretest.Path(t, "rxe-perf4.pcap"))
	require.Equal(t, 1, status)
	require.Contains(t, stderr, "-html: ")
	is, err := os.Stat(full)
	require.NoError(t, err)
	require.NotZero(t, is.Mode()&os.ModeDevice, "the device is not replaced by a file")
}

// manyFlows returns n flows with the longest addresses and numbers.
func manyFlows(n int) *flows.Snapshot {
	s := &flows.Snapshot{}
	for i := range n {
		f := flows.Flow{SrcQPFrom: 2, SrcQP: 1<<24 - 1, Sequenced: true, Mean: 123456789012,
			Requests: flows.Requests{Packets: 1e9}, RTT: new(flows.Histogram)}
		f.Src = netip.AddrFrom16([16]byte{0x20, 1, 0x1d, 0xb8, 0x11, 0x11, 0x22, 0x22, 0x33, 0x33, 0x44, 0x44, 0x55,
			0x55, byte(0x60 + i>>12), byte(i)})
		f.Dst, f.DestQP = f.Src, uint32(1<<23+i)
		f.PSN = flows.PSN{Gaps: 1e4, Missing: 1e5, Lost: 1e5, Late: 1e5, Retransmitted: 1e5}
		f.ECN[3], f.CNPs, *f.NAK(0), f.RNRNAKs = 1e8, 1e5, 1e4, 1e4
		f.RTT.Add(123456 * time.Nanosecond)
		s.Flows = append(s.Flows, f)
	}
	return s
}

// crowded is a series in which everything happens all the time.
func crowded() *flows.Series {
	s := &flows.Series{DroppedMarks: 1e6, Start: time.Unix(1, 0)}
	for i := range 512 {
		s.Bins = append(s.Bins, flows.Bin{
			From: time.Duration(i) * time.Second, To: time.Duration(i+1) * time.Second,
			Tally: flows.Tally{
				IPOctets: uint64(1e9 * (i%7 + 1)), CE: uint32(1e5 + i), CNPs: uint32(1e5 - i), Missing: 1e4, Late: 1e4,
				Retransmitted: 1e4, NAKs: 1e4, RNRNAKs: 1e4, PPFC: 1e4, RTT: 123456789,
				First: int64(1e6*i + i), Last: int64(1e6 * (i + 1)), Sequenced: true,
			},
		})
	}
	for i := range 128 {
		s.Marks = append(s.Marks, flows.Mark{Kind: flows.MarkRetransmission, Frame: uint64(1e9 + i),
			Time: time.Unix(2, int64(i)), PSN: 1<<24 - 1, Count: 1e4, Line: 1e6})
	}
	for node := range uint64(6) {
		n := flows.NodeSeries{Node: 1<<56 - 1 - node, Width: time.Second}
		for i := range uint32(256) {
			n.Depth, n.Known = append(n.Depth, 1<<31+i*12345678), append(n.Known, true)
		}
		s.Nodes = append(s.Nodes, n)
	}
	return s
}

// A page of 10,000 flows stays below 5 MB where the first 50 of them have all kinds of
// trouble, and 5.5 MB where there are queues, too.
func TestPageSize(t *testing.T) {
	for _, c := range []struct{ nodes, most int }{{0, 5_000_000}, {6, 5_500_000}} {
		t.Run(fmt.Sprint(c.nodes), func(t *testing.T) {
			a := accountant{options: &options{}, table: flows.New(flows.Config{})}
			s := manyFlows(10_000)
			p := a.pageOf(s)
			series := crowded()
			series.Nodes = series.Nodes[:c.nodes]
			for i := range maxCharts {
				p.Data.Charts = append(p.Data.Charts, chartOf(i, &s.Flows[i], series, time.Unix(1, 0)))
			}
			var b bytes.Buffer
			require.NoError(t, pageTemplate.Execute(&b, p))
			t.Log(b.Len(), "octets")
			require.Less(t, b.Len(), c.most)
		})
	}
}

// The page never replaces a capture: neither an input by any name, nor a capture in place of a forgotten name of the
// page.
func TestPageIsNoCapture(t *testing.T) {
	octets := wiretest.Must(os.ReadFile(wiretest.Path(t, "rxe-perf4.pcap")))(t)
	packed := wiretest.Must(os.ReadFile(wiretest.Path(t, "real/atomic4.eth0.pcap.gz")))(t)
	dir := t.TempDir()
	name := func(name string, octets []byte) string {
		name = filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(name, octets, 0o600))
		return name
	}
	x, other := name("x.pcap", octets), name("other.pcap", octets)
	gz, text := name("x.pcap.gz", packed), name("text", []byte("no capture"))
	hard, soft := filepath.Join(dir, "hard"), filepath.Join(dir, "soft")
	require.NoError(t, os.Link(x, hard))
	require.NoError(t, os.Symlink(x, soft))
	stdin := wiretest.Must(os.Open(x))(t)
	defer stdin.Close()
	for _, c := range []struct {
		args   []string
		reason string
	}{
		{[]string{x, x}, "the capture that is read"},
		{[]string{hard, x}, "the capture that is read"},
		{[]string{soft, x}, "the capture that is read"},
		{[]string{x, soft}, "the capture that is read"},
		{[]string{x, "-"}, "the capture that is read"},
		{[]string{x, other, x}, "the capture that is read"},
		{[]string{text, other, text}, "the capture that is read"}, // with any contents
		{[]string{x, other}, "this is a capture"},
		{[]string{gz, other}, "this is a capture"},
	} {
		before := wiretest.Must(os.ReadFile(c.args[0]))(t)
		status, stdout, stderr := run(t, stdin, append([]string{"-html"}, c.args...)...)
		require.Equal(t, 2, status, c.args)
		require.Empty(t, stdout)
		require.Contains(t, stderr, "-html "+c.args[0]+": "+c.reason)
		after := wiretest.Must(os.ReadFile(c.args[0]))(t)
		require.Equal(t, before, after)
	}

	// A page, or an empty file, is replaced, and only by a whole page.
	empty := name("empty", nil)
	for range 2 {
		status, _, stderr := run(t, nil, "-html", empty, x)
		require.Zero(t, status, stderr)
	}
	page := wiretest.Must(os.ReadFile(empty))(t)
	require.Contains(t, string(page), "</html>")
	all := wiretest.Must(os.ReadDir(dir))(t)
	require.Len(t, all, 7, "nothing is left beside it: %v", all)
}

// Verdicts with their evidence and findings of hosts come first. Names of programs and machines are untrusted.
func TestPageBeginsWithVerdicts(t *testing.T) {
	name, _ := made(t, 21, traffic.Options{Connections: 4})
	html, _ := pageFrom(t, nil, name)
	_, explained, _ := run(t, nil, "-json", "-explain", name)
	found := 0
	for line := range strings.Lines(explained) {
		var v verdictLine
		if json.Unmarshal([]byte(line), &v) != nil || !v.Verdict {
			continue
		}
		found++
		require.Contains(t, html, template.HTMLEscapeString(v.Text))
		require.Contains(t, html, template.HTMLEscapeString(v.Next))
		require.Contains(t, html, "<code>"+template.HTMLEscapeString(v.Filter)+"</code>")
		require.Contains(t, html, fmt.Sprintf("%d %s", v.Frames[0].Frame, template.HTMLEscapeString(v.Frames[0].What)))
	}
	require.Positive(t, found)
	require.Less(t, strings.Index(html, `id="verdict"`), strings.Index(html, `id="questions"`))

	quiet, _ := pageFrom(t, nil, wiretest.Path(t, "rxe-rping6.pcap"))
	require.Contains(t, quiet, "Nothing is in trouble")
	require.NotContains(t, quiet, `class="verdicts"`)

	file := hostFile(t, observation("<b>h2", "21:37:20", receiver, `"np_cnp_sent":7`, ``),
		observation("<b>h2", "21:37:25", receiver, `"np_cnp_sent":7`, ``))
	html, _ = pageFrom(t, nil, "-host", file, wiretest.Path(t, "real/write4-red-ect.eth1.pcap.gz"))
	require.Contains(t, html, "<b>&lt;b&gt;h2, mlx5_0 port 1</b><br>1661 CE in the capture, np_cnp_sent &#43;0: "+
		"the receiver&#39;s ECN is off")
	require.Contains(t, html, "no counter has changed")
}

// A flow that a verdict is about has a chart, wherever it stands in the table.
func TestPageCharts(t *testing.T) {
	s := manyFlows(200)
	a := accountant{verdicts: []triage.Verdict{
		{Flows: []rocev2.FlowKey{{DestQP: 1}}}, // which is not shown
		{Flows: []rocev2.FlowKey{s.Flows[180].FlowKey, s.Flows[170].FlowKey}},
	}}
	rows := a.chartedRows(s.Flows)
	require.Len(t, rows, maxCharts)
	require.Equal(t, 48, rows[maxCharts-2])
	require.Equal(t, 170, rows[maxCharts-1])
	require.Equal(t, []int{0, 1, 2}, a.chartedRows(s.Flows[:3]))
	for i := range s.Flows {
		a.verdicts = append(a.verdicts, triage.Verdict{Flows: []rocev2.FlowKey{s.Flows[len(s.Flows)-1-i].FlowKey}})
	}
	require.Len(t, a.chartedRows(s.Flows), maxCharts)
	require.Equal(t, 0, a.chartedRows(s.Flows)[0], "the worst have charts, too")
}

// Of many priorities those that were paused longest are drawn.
func TestPagePauses(t *testing.T) {
	var all []flows.Pause
	for i := range 100 {
		at := time.Unix(1, 0)
		all = append(all, flows.Pause{Src: []byte{2, 0, 0, 0, 0, byte(i)}, From: at, To: at.Add(time.Hour),
			Paused: time.Duration(i%50) * time.Millisecond})
	}
	lanes := pauseLanes(all, time.Unix(0, 0))
	require.Len(t, lanes, maxPauseLanes)
	require.Equal(t, "02:00:00:00:00:31, priority 0", lanes[0].Name)
	require.Equal(t, [5]int64{1e9, 3601e9, 49e6, 0, 0}, lanes[0].Pauses[0])
}

// The numbers of bins keep their places: zeros between them stay, and those at the end go.
func TestBinsKeepTheirPlaces(t *testing.T) {
	for _, row := range []struct{ bins, want []uint32 }{
		{[]uint32{0, 3, 0, 0, 5, 0, 0}, []uint32{0, 3, 0, 0, 5}}, {[]uint32{7, 0, 8}, []uint32{7, 0, 8}},
		{[]uint32{0, 0}, nil}, {[]uint32{0, 0, 0, 1}, []uint32{0, 0, 0, 1}}, {[]uint32{1, 2}, []uint32{1, 2}},
	} {
		t.Run(fmt.Sprint(row.bins), func(t *testing.T) {
			bins := make([]flows.Bin, len(row.bins))
			for i, n := range row.bins {
				bins[i].CNPs = n
			}
			require.Equal(t, row.want, trimZeros(bins, func(b *flows.Bin) uint32 { return b.CNPs }))
		})
	}
}
