package flows

import (
	"bytes"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/flows"
	"github.com/rocecn/rocecn/internal/traffic"
	"github.com/rocecn/rocecn/internal/wiretest"
)

// pageFrom runs the command, and returns the page and what was printed.
func pageFrom(t *testing.T, stdin io.Reader, args ...string) (html, stdout string) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "page.html")
	status, stdout, stderr := run(t, stdin, append([]string{"-html", name}, args...)...)
	require.Zero(t, status, stderr)
	b, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(b), stdout
}

// The page comes besides what is printed, which stays the same.
func TestPage(t *testing.T) {
	name, made := made(t, 21, traffic.Options{Connections: 4})
	html, stdout := pageFrom(t, nil, name)
	_, want, _ := run(t, nil, name)
	require.Equal(t, want, stdout)
	require.Equal(t, 8, strings.Count(html, "\n<tr>"))
	require.Equal(t, 8, strings.Count(html, "<section"))
	for _, truth := range made.Flows {
		if truth.FirstTrouble > 0 {
			require.Contains(t, html, fmt.Sprintf(`data-frame="%d"`, truth.FirstTrouble))
			require.Contains(t, html, fmt.Sprintf("<li>frame %d, ", truth.FirstTrouble))
		}
	}
	var top string
	for _, interval := range []string{"0", "1ms"} {
		top, _ = pageFrom(t, nil, "-top", "2", "-interval", interval, name)
		require.Equal(t, 2, strings.Count(top, "\n<tr>"))
		require.Regexp(t, `>8 flows, \d in trouble, the first 2 are shown; 281 packets`, top)
	}
	require.Regexp(t, `>8 flows, \d in trouble; 281 packets`, html)
	require.Contains(t, top, "2001:db8::1 → 2001:db8::2</a><td>0x000102<td>0x010003<td>RC<td>53<td")

	queues, _ := pageFrom(t, nil, wiretest.Path(t, "ioam-linux618-hpcc.pcap"))
	for _, node := range []int{0xB2, 0xC3, 0xD4} {
		require.Contains(t, queues, fmt.Sprintf("<title>node %d</title>", node))
	}
}

// The page fetches nothing.
func TestPageIsSelfContained(t *testing.T) {
	name, _ := made(t, 21, traffic.Options{Connections: 4})
	html, _ := pageFrom(t, nil, name)
	require.Contains(t, html, `content="default-src 'none'; `)
	require.Empty(t,
		regexp.MustCompile(`(?i)(src=|url\(|@import|https?:|//[a-z])`).FindAllString(html[:strings.Index(html,
			"<script>")], -1))
	for _, link := range regexp.MustCompile(`href="([^"]*)"`).FindAllStringSubmatch(html, -1) {
		require.Regexp(t, `^(#flow\d+|data:,)$`, link[1])
	}
}

// What comes from outside is text.
func TestPageEscapes(t *testing.T) {
	name := filepath.Join(t.TempDir(), `"><img src=x onerror=alert(1)>&.pcap`)
	octets, err := os.ReadFile(wiretest.Path(t, "rxe-verbs6.pcap"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(name, octets, 0o600))
	html, _ := pageFrom(t, nil, name)
	require.NotContains(t, html, "<img")
	require.Contains(t, html, "&lt;img src=x onerror=alert(1)&gt;&amp;.pcap")
}

// Nothing to say is said, too.
func TestPageOfNothing(t *testing.T) {
	html, _ := pageFrom(t, bytes.NewReader(nil), "-trouble", wiretest.Path(t, "rxe-rping6.pcap"))
	require.Contains(t, html, "0 flows, 0 in trouble")
	require.NotContains(t, html, "<section")
}

func TestPageCannotBeWritten(t *testing.T) {
	name := filepath.Join(t.TempDir(), "no", "such.html")
	status, stdout, stderr := run(t, nil, "-html", name, wiretest.Path(t, "rxe-perf4.pcap"))
	require.Equal(t, 1, status)
	require.Empty(t, stdout)
	require.Contains(t, stderr, name)

	status, _, stderr = run(t, nil, "-html", "/dev/full", wiretest.Path(t, "rxe-perf4.pcap"))
	require.Equal(t, 1, status)
	require.Contains(t, stderr, "-html: ")
}

// crowd is so many flows with the longest addresses and numbers that there are.
func crowd(n int) *flows.Snapshot {
	s := &flows.Snapshot{}
	for i := range n {
		f := flows.Flow{SrcQPFrom: 2, SrcQP: 1<<24 - 1, Sequenced: true, Mean: 123456789012,
			Requests: flows.Requests{Packets: 1e9}, RTT: new(flows.Histogram)}
		f.Src = netip.AddrFrom16([16]byte{0x20, 1, 0x1d, 0xb8, 0x11, 0x11, 0x22, 0x22, 0x33, 0x33, 0x44, 0x44, 0x55,
			0x55, byte(0x60 + i>>12), byte(i)})
		f.Dst, f.DestQP = f.Src, uint32(1<<23+i)
		f.PSN = flows.PSN{Gaps: 1e4, Missing: 1e5, Lost: 1e5, Late: 1e5, Repeats: 1e5}
		f.ECN[3], f.CNPs, f.NAKs[0], f.RNRNAKs = 1e8, 1e5, 1e4, 1e4
		f.RTT.Add(123456 * time.Nanosecond)
		s.Flows = append(s.Flows, f)
	}
	return s
}

// crowded is a series in which everything happens all the time.
func crowded() *flows.Series {
	s := &flows.Series{Width: time.Second, More: 1e6, Start: time.Unix(1, 0)}
	for i := range 64 {
		s.Bins = append(s.Bins, flows.Bin{
			IPOctets: uint64(1e9 * (i%7 + 1)), CE: uint32(1e5 + i), CNPs: uint32(1e5 - i), Missing: 1e4, Late: 1e4,
			Repeats: 1e4,
			First:   int64(1e6*i + i), Last: int64(1e6 * (i + 1)), Sequenced: true,
		})
	}
	for i := range 32 {
		s.Marks = append(s.Marks, flows.Mark{Kind: flows.MarkRepeat, Frame: uint64(1e9 + i),
			Time: time.Unix(2, int64(i)), PSN: 1<<24 - 1, Count: 1e4, Line: 1e6})
	}
	for node := range uint64(6) {
		n := flows.NodeSeries{Node: 1<<56 - 1 - node}
		for i := range uint32(64) {
			n.Depth, n.Known = append(n.Depth, 1<<31+i*12345678), append(n.Known, true)
		}
		s.Nodes = append(s.Nodes, n)
	}
	return s
}

// A page of 10,000 flows stays below 5 MB, whatever they are and whatever
// happened to them.
func TestPageSize(t *testing.T) {
	a := accountant{options: &options{}, table: flows.New(flows.Config{})}
	s := crowd(10_000)
	p := a.pageOf(s)
	for i := range maxCharts {
		p.Rows[i].Chart = i + 1
		p.Charts = append(p.Charts, chartOf(i+1, &s.Flows[i], crowded()))
	}
	var b bytes.Buffer
	require.NoError(t, pageTemplate.Execute(&b, p))
	t.Log(b.Len(), "octets")
	require.Less(t, b.Len(), 5_000_000)
}

// The page never takes the place of a capture: neither of one that is read, by
// whatever name, nor of one that stands where the name of the page was forgotten.
func TestPageIsNoCapture(t *testing.T) {
	octets, err := os.ReadFile(wiretest.Path(t, "rxe-perf4.pcap"))
	require.NoError(t, err)
	packed, err := os.ReadFile(wiretest.Path(t, "real/atomic4.eth0.pcap.gz"))
	require.NoError(t, err)
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
	stdin, err := os.Open(x)
	require.NoError(t, err)
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
		{[]string{text, other, text}, "the capture that is read"}, // whatever it holds
		{[]string{x, other}, "this is a capture"},
		{[]string{gz, other}, "this is a capture"},
	} {
		before, err := os.ReadFile(c.args[0])
		require.NoError(t, err)
		status, stdout, stderr := run(t, stdin, append([]string{"-html"}, c.args...)...)
		require.Equal(t, 2, status, c.args)
		require.Empty(t, stdout)
		require.Contains(t, stderr, "-html "+c.args[0]+": "+c.reason)
		after, err := os.ReadFile(c.args[0])
		require.NoError(t, err)
		require.Equal(t, before, after)
	}

	// A page, or an empty file, is replaced, and only by a whole page.
	empty := name("empty", nil)
	for range 2 {
		status, _, stderr := run(t, nil, "-html", empty, x)
		require.Zero(t, status, stderr)
	}
	page, err := os.ReadFile(empty)
	require.NoError(t, err)
	require.Contains(t, string(page), "</html>")
	all, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, all, 7, "nothing is left beside it: %v", all)
}

// A flow that goes on at the same rate does so to its end, though the last bin is
// not whole.
func TestLastBin(t *testing.T) {
	for _, last := range []time.Duration{time.Second, 800 * time.Millisecond, 500 * time.Millisecond,
		10 * time.Millisecond} {
		s := &flows.Series{Start: time.Unix(1, 0), Width: time.Second}
		s.End = s.Start.Add(3*time.Second + last)
		for _, d := range []time.Duration{time.Second, time.Second, time.Second, last} {
			s.Bins = append(s.Bins, flows.Bin{IPOctets: uint64(d / 1000), CE: 1})
		}
		c := chartOf(1, &flows.Flow{}, s)
		require.Equal(t, "8.00M", c.RateTop, last)
		require.Equal(t, 5, strings.Count(c.Rate, "V0")+strings.Count(c.Rate, "V100"), c.Rate) // four tops and the end
		require.Contains(t, c.Rate, "H640V100Z")
		require.Equal(t, short(3*time.Second+last), c.Span)
		right := regexp.MustCompile(`H([0-9.]+)`).FindAllStringSubmatch(c.CE, -1)
		require.Len(t, right, 4)
		end, err := strconv.ParseFloat(right[3][1], 64)
		require.NoError(t, err)
		require.LessOrEqual(t, end, 640.0)
	}
	one := &flows.Series{Start: time.Unix(1, 0), End: time.Unix(1, 0), Width: time.Microsecond,
		Bins: []flows.Bin{{IPOctets: 125}}}
	require.Equal(t, "1.00G", func() string { c := chartOf(1, &flows.Flow{}, one); return c.RateTop }())
}
