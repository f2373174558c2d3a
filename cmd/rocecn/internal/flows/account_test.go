package flows

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/flows"
	"github.com/rocecn/rocecn/internal/traffic"
	"github.com/rocecn/rocecn/internal/wiretest"
)

// intervalsOf runs -interval 1s over frames of which each is later than the one
// before by so much, and returns the packets of each interval printed.
func intervalsOf(t *testing.T, steps ...time.Duration) (packets []float64, froms []string) {
	t.Helper()
	data := traffic.Generate(1, traffic.Options{Connections: 1, Clean: true, NoCM: true, OneWay: true}).Frames[0].Data
	path := filepath.Join(t.TempDir(), "steps.pcap")
	f := wiretest.Must(os.Create(path))(t)
	w := wiretest.Must(capture.NewWriter(f, capture.Ethernet, time.Microsecond))(t)
	now := time.Unix(1e9, 0)
	for _, step := range steps {
		now = now.Add(step)
		require.NoError(t, w.Write(&capture.Record{Data: data, OrigLen: uint32(len(data)), Time: now}))
	}
	require.NoError(t, f.Close())
	for _, l := range lines(t, "-interval", "1s", path) {
		packets = append(packets, l["packets"].(float64))
		froms = append(froms, valueAt(l, "interval", "from").(string)[11:19])
	}
	return packets, froms
}

// A clock that jumps ends the interval, in either direction; one that goes back a
// little, as those of several queues do, does not.
func TestIntervalJumps(t *testing.T) {
	const s, h = time.Second, time.Hour // begins at 01:46:40
	for _, c := range []struct {
		name    string
		steps   []time.Duration
		packets []float64
		froms   string
	}{
		{"steady", []time.Duration{0, s / 2, s / 2, s / 2, s / 2}, []float64{2, 2, 1}, "01:46:40 01:46:41 01:46:42"},
		{"a pause", []time.Duration{0, s / 2, 10 * s, s}, []float64{2, 1, 1}, "01:46:40 01:46:50 01:46:51"},
		{"back a little", []time.Duration{0, s, -s / 5, s / 5, -s}, []float64{1, 4}, "01:46:40 01:46:41"},
		{"back an hour", []time.Duration{0, s / 2, -h, s / 2, s / 2, s}, []float64{2, 2, 1, 1},
			"01:46:40 00:46:40 00:46:41 00:46:42"},
		{"forth and back", []time.Duration{0, 5 * h, -5 * h, s / 2, s / 2, s}, []float64{1, 1, 2, 1, 1},
			"01:46:40 06:46:40 01:46:40 01:46:41 01:46:42"},
		{"far forth", []time.Duration{0, 101 * 365 * 24 * h, s / 2}, []float64{1, 2}, "01:46:40 01:46:40"},
	} {
		t.Run(c.name, func(t *testing.T) {
			packets, froms := intervalsOf(t, c.steps...)
			require.Equal(t, c.packets, packets, c.name)
			require.Equal(t, strings.Fields(c.froms), froms, c.name)
		})
	}
}

// The peak of an interval, the flow's so far, is not below its mean.
func TestIntervalPeak(t *testing.T) {
	n := 0
	for _, l := range lines(t, "-interval", "100us", wiretest.Path(t, "rxe-perf4.pcap")) {
		if rate, ok := l["rate_bps"].(map[string]any); ok && rate["peak"] != nil && rate["mean"] != nil {
			require.GreaterOrEqual(t, rate["peak"], rate["mean"], l)
			n++
		}
	}
	require.NotZero(t, n)
}

// While nothing comes, a live capture's intervals end as time passes, no faster.
func TestIdle(t *testing.T) {
	var out bytes.Buffer
	a := accountant{table: flows.New(flows.Config{}), out: bufio.NewWriter(&out)}
	a.options = &options{form: "json", interval: time.Second}
	a.order, _ = orderOf("trouble")
	require.NoError(t, a.advanceIdle(time.Hour), "before the first packet there is no time")
	begin := time.Unix(1e9, 0)
	require.NoError(t, a.countPackets(make([]flows.Packet, 1), []time.Time{begin}, 1))
	for i := range time.Duration(15) {
		require.NoError(t, a.advanceIdle((i+1)*200*time.Millisecond))
	}
	require.Equal(t, begin.Add(3*time.Second), a.from)
	require.NoError(t, a.countPackets(make([]flows.Packet, 1), []time.Time{begin.Add(3100 * time.Millisecond)}, 2))
	require.Equal(t, begin.Add(3*time.Second), a.from)
	require.Equal(t, begin.Add(3100*time.Millisecond), a.last)
}

// Intervals begin with the next packet after a pause of a hundred years or more. After a shorter one they keep their
// phase.
func TestLongestGap(t *testing.T) {
	const step, years = 7 * time.Second, 100 * 365 * 24 * time.Hour // years is no multiple of step: 5 s are left
	for _, c := range []struct{ pause, from time.Duration }{
		{years - 1, years - 5*time.Second}, // 450,514,285 steps
		{years, years},
	} {
		t.Run(fmt.Sprint(c.pause), func(t *testing.T) {
			a := accountant{table: flows.New(flows.Config{}), out: bufio.NewWriter(new(bytes.Buffer))}
			a.options = &options{form: "json", interval: step}
			a.order, _ = orderOf("trouble")
			begin := time.Unix(1e9, 0)
			require.NoError(t, a.advanceTo(begin))
			require.NoError(t, a.advanceTo(begin.Add(step+c.pause)))
			require.Equal(t, c.from, a.from.Sub(begin.Add(step)), c.pause)
		})
	}
}

// The output of an interval is written at its end, not at the end of the program.
func TestIntervalIsWritten(t *testing.T) {
	var out bytes.Buffer
	a := accountant{table: flows.New(flows.Config{}), out: bufio.NewWriter(&out)}
	a.options = &options{form: "prometheus", interval: time.Second}
	a.order, _ = orderOf("trouble")
	begin := time.Unix(1e9, 0)
	require.NoError(t, a.countPackets(make([]flows.Packet, 1), []time.Time{begin}, 1))
	require.NoError(t, a.advanceIdle(time.Second-1))
	require.Empty(t, out.String())
	require.NoError(t, a.advanceIdle(time.Second))
	require.Contains(t, out.String(), "rocecn_evicted_flows_total 0\n")
	broken := accountant{table: a.table, options: a.options, out: bufio.NewWriter(refusing{})}
	require.NoError(t, broken.countPackets(make([]flows.Packet, 1), []time.Time{begin}, 1))
	require.ErrorIs(t, broken.advanceIdle(time.Second), errEnough)
}

type refusing struct{}

func (refusing) Write([]byte) (int, error) { return 0, errEnough }

// Evicted flows are told of, and so are evicted answers alone.
func TestAnyEvicted(t *testing.T) {
	answers := flows.Evicted{}
	answers.CNPs = 1
	require.True(t, anyEvicted(&answers))
	both := answers
	both.Flows = 1
	require.True(t, anyEvicted(&both))
	require.True(t, anyEvicted(&flows.Evicted{Flows: 1}))
	require.False(t, anyEvicted(&flows.Evicted{Packets: 1}))
}

// No rule holds for flows that were evicted.
func TestCheckCannotSay(t *testing.T) {
	path, _ := made(t, 6, traffic.Options{Connections: 40})
	for _, rules := range []string{"packets>=0", "total.packets>0,mtu>=0"} {
		status, _, stderr := run(t, nil, "-check", rules, path)
		require.Zero(t, status, stderr)
		status, _, stderr = run(t, nil, "-check", rules, "-max-flows", "16", path)
		require.Equal(t, 3, status)
		require.Regexp(t, `-check: the table was full and evicted [1-9]\d* flows with [1-9]\d* packets`, stderr)
		require.NotContains(t, stderr, "is broken")
	}
	status, _, stderr := run(t, nil, "-max-flows", "16", path)
	require.Zero(t, status, "without rules")
	require.NotContains(t, stderr, "-check")
}

// Times of all lengths have three digits, and take no time to write.
func TestShort(t *testing.T) {
	for _, c := range []struct {
		d    time.Duration
		want string
	}{
		{0, "0s"}, {999, "999ns"}, {1000, "1µs"}, {1234, "1.23µs"}, {1999999, "2ms"}, {-1234567, "-1.23ms"},
		{90 * time.Second, "1m30s"}, {200 * 8766 * time.Hour, "1752777h46m40s"},
		{math.MaxInt64, "2560000h0m0s"}, {math.MinInt64, "-2560000h0m0s"},
		{math.MaxInt64 - 1, "2560000h0m0s"}, {8e18, "2222222h13m20s"}, {1e18, "277777h46m40s"},
		{1e18 - 1, "277777h46m40s"},
	} {
		t.Run(fmt.Sprint(c.d), func(t *testing.T) {
			got := formatDuration(c.d)
			if len(c.want) > 6 && c.d != 90*time.Second { // in words of hours: within a part in a hundred
				parsed := wiretest.Must(time.ParseDuration(got))(t)
				require.InEpsilon(t, float64(c.d), float64(parsed), 0.006, got)
				return
			}
			require.Equal(t, c.want, got)
		})
	}
}

// A name that holds an escape sequence does not reach the terminal, nor the page.
func TestNamesAreShown(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a\x1b]0;owned\x07\x1b[31m.pcap")
	_, _, stderr := run(t, nil, name)
	require.NotContains(t, stderr, "\x1b")
	require.Contains(t, stderr, `a\x1b]0;owned\a\x1b[31m.pcap: no such file`)
	_, _, stderr = run(t, nil, "-html", filepath.Join(name, "x"), wiretest.Path(t, "rxe-perf4.pcap"))
	require.NotContains(t, stderr, "\x1b")

	octets := wiretest.Must(os.ReadFile(wiretest.Path(t, "rxe-perf4.pcap")))(t)
	require.NoError(t, os.WriteFile(name, octets, 0o600))
	html, _ := pageFrom(t, nil, name)
	require.NotContains(t, html, "\x1b")
	require.Contains(t, html, `a\x1b]0;owned\a\x1b[31m.pcap`)
}

// The window of a comparison takes the memory of the packets that there are.
func TestHugeWindow(t *testing.T) {
	path := wiretest.Path(t, "rxe-perf4.pcap")
	status, out, stderr := run(t, nil, "-json", "-compare", "-window", strconv.Itoa(math.MaxInt), path, path)
	require.Zero(t, status, stderr)
	all := strings.Split(strings.TrimSpace(out), "\n")
	var total map[string]any
	require.NoError(t, json.Unmarshal([]byte(all[len(all)-1]), &total))
	require.EqualValues(t, 88, total["same"])
}
