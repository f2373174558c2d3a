package flows

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/flows"
	"github.com/rocecn/rocecn/internal/traffic"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
)

// A served is a command with -listen that goes on.
type served struct {
	url    string
	end    func() (status int, stdout string)
	stderr *output
}

// An output is the output of a program, which can be read concurrently.
type output struct {
	mu   sync.Mutex
	text strings.Builder
	line chan struct{} // closed with the first line
}

func (s *output) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text.Write(b)
	if s.line != nil && strings.Contains(s.text.String(), "\n") {
		close(s.line)
		s.line = nil
	}
	return len(b), nil
}

func (s *output) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// serve runs the command with -listen.
func serve(t *testing.T, args ...string) served {
	t.Helper()
	ctx, interrupt := context.WithCancel(t.Context())
	t.Cleanup(interrupt)
	first := make(chan struct{})
	stderr := &output{line: first}
	status, out := make(chan int, 1), make(chan string, 1)
	go func() {
		var stdout strings.Builder
		args := append([]string{"-listen", "127.0.0.1:0"}, args...)
		status <- Run(ctx, args, strings.NewReader(""), &stdout, stderr)
		out <- stdout.String()
	}()
	select {
	case <-first:
	case s := <-status:
		require.FailNow(t, "it ended", "status %d: %s", s, stderr)
	}
	url := regexp.MustCompile(`http://\S+`).FindString(stderr.String())
	require.NotEmpty(t, url, stderr)
	return served{url, func() (int, string) {
		interrupt()
		return <-status, <-out
	}, stderr}
}

// get fetches a page, after the command has read its input.
func (s served) get(t *testing.T, path string) string {
	t.Helper()
	answer := wiretest.Must(http.Get(s.url + path))(t)
	defer answer.Body.Close()
	b := wiretest.Must(io.ReadAll(answer.Body))(t)
	require.Equal(t, http.StatusOK, answer.StatusCode, string(b))
	return string(b)
}

// read waits until so many packets have been read, and returns the samples then.
func (s served) read(t *testing.T, packets float64) (samples map[string]float64) {
	t.Helper()
	for samples["rocecn_capture_packets_total"] < packets { // the test's own time limit ends it
		samples = exposition(t, s.get(t, "metrics"))
	}
	return samples
}

// The served values are the printed ones.
func TestListen(t *testing.T) {
	verbs := wiretest.Path(t, "rxe-verbs6.pcap")
	s := serve(t, "-json", "-explain", verbs)
	all := s.read(t, 253)
	require.EqualValues(t, 253, all["rocecn_capture_packets_total"])
	require.EqualValues(t, 159, all["rocecn_capture_other_packets_total"])
	require.EqualValues(t, 3, all[`rocecn_capture_repeats_total cause="rnr"`])
	require.EqualValues(t, 0, all[`rocecn_capture_repeats_total cause="timeout"`])
	require.EqualValues(t, 4, all[`rocecn_capture_rnr_naks_total`])
	require.EqualValues(t, 1, all[`rocecn_capture_naks_total code="remote access"`], "unpaired ones, too")
	require.EqualValues(t, 10, all["rocecn_capture_flows"])
	require.EqualValues(t, 2, all["rocecn_capture_flows_in_trouble"])

	var lines []any
	require.NoError(t, json.Unmarshal([]byte(s.get(t, "flows.json")), &lines))
	page := s.get(t, "")
	require.Contains(t, page, "rxe-verbs6.pcap")
	require.Contains(t, page, "0x000017")
	answer := wiretest.Must(http.Post(s.url+"metrics", "", nil))(t)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusMethodNotAllowed, answer.StatusCode)

	status, out := s.end()
	require.Zero(t, status, s.stderr)
	var printed []any
	for line := range strings.Lines(out) {
		var v any
		require.NoError(t, json.Unmarshal([]byte(line), &v))
		printed = append(printed, v)
	}
	require.Equal(t, printed, lines)
}

// The choice of flows applies to JSON and to the page.
func TestListenChooses(t *testing.T) {
	s := serve(t, "-qp", "23", "-top", "1", wiretest.Path(t, "rxe-verbs6.pcap"))
	s.read(t, 253)
	var lines []map[string]any
	require.NoError(t, json.Unmarshal([]byte(s.get(t, "flows.json")), &lines))
	require.Len(t, lines, 1+2)
	require.Equal(t, true, lines[0]["capture"])
	for _, l := range lines[1:] {
		require.EqualValues(t, 23, l["dest_qp"])
	}
	require.NotContains(t, s.get(t, ""), "0x000016")
	s.end()
}

// Packets counted before a capture failed, as when a link goes down, remain available.
func TestListenAfterDamage(t *testing.T) {
	octets := wiretest.Must(os.ReadFile(wiretest.Path(t, "rxe-verbs6.pcap")))(t)
	cut := wiretest.File(t, "cut.pcap", octets[:len(octets)-5])
	s := serve(t, cut)
	s.read(t, 252)
	wiretest.Await(t, "the end", func() bool { return strings.Contains(s.stderr.String(), "the file ends early") })
	require.Contains(t, s.get(t, ""), "0x000017")
	status, out := s.end()
	require.Equal(t, 1, status)
	require.Contains(t, out, "0x000017")
}

func TestListenRefused(t *testing.T) {
	s := serve(t, wiretest.Path(t, "fastcnp.pcap"))
	taken := strings.TrimSuffix(strings.TrimPrefix(s.url, "http://"), "/")
	status, _, stderr := run(t, nil, "-listen", taken, wiretest.Path(t, "fastcnp.pcap"))
	require.Equal(t, 1, status)
	require.Contains(t, stderr, "-listen: ")
	s.end()
	status, _, stderr = run(t, nil, "-listen", "127.0.0.1:0", "no.pcap")
	require.Equal(t, 1, status, "there is nothing to serve")
	require.Contains(t, stderr, "no such file")
	status, _, _ = run(t, nil, "-listen", "127.0.0.1:0", "-compare", "a", "b")
	require.Equal(t, 2, status)
}

// For a table of any size, no total decreases, and each ends with the value of a large table. The number of series is
// constant.
func TestTotals(t *testing.T) {
	series := 0
	for seed := range uint64(4) {
		made := traffic.Generate(seed, traffic.Options{Connections: 30, NoCM: seed%2 == 0})
		var d flows.Decoder
		var p flows.Packet
		small, large := flows.New(flows.Config{MaxFlows: 16}), flows.New(flows.Config{})
		before := map[string]float64{}
		for i, f := range made.Frames {
			d.Decode(&p, f.Data, rocev2.DecodeOptions{})
			small.Observe(&p, uint64(i+1), f.Time)
			large.Observe(&p, uint64(i+1), f.Time)
			if i%50 != 0 && i != len(made.Frames)-1 {
				continue
			}
			now := exposition(t, string(appendTotals(nil, small.Snapshot(), 7)))
			for name, n := range before {
				if strings.Contains(name, "_total") {
					require.GreaterOrEqual(t, now[name], n, name)
				}
			}
			before = now
		}
		require.EqualValues(t, 7, before["rocecn_capture_dropped_packets_total"])
		require.Positive(t, before["rocecn_capture_evicted_flows_total"])
		want := exposition(t, string(appendTotals(nil, large.Snapshot(), 7)))
		for _, name := range []string{
			"packets_total", "requests_total", "ip_bytes_total", `ecn_requests_total ecn="ce"`,
			"acks_total", "rnr_naks_total", `naks_total code="sequence"`, `notifications_total kind="cnp"`,
			`notifications_total kind="fast_cnp"`, `notifications_total kind="ppfc"`, `notifications_total kind="fcn"`,
			`notifications_total kind="proxy"`, `paused_seconds_total priority="3"`,
			"trimmed_packets_total", "discarded_packets_total", `wrong_answers_total kind="cnps"`,
		} {
			require.Equal(t, want["rocecn_capture_"+name], before["rocecn_capture_"+name], name)
			require.Contains(t, want, "rocecn_capture_"+name)
		}
		require.Len(t, want, len(before))
		if series == 0 {
			series = len(want)
		}
		require.Len(t, want, series)
	}
}

// Each count of a flow, of an unmatched line and of evicted flows adds to its sum.
func TestTotalsOfEverything(t *testing.T) {
	f := everything()
	f.Wrong = flows.WrongAnswers{ACKs: 1, NAKs: 2, RNRNAKs: 3, CNPs: 4, FastCNPs: 5, PPFC: 6, FCN: 7, Proxy: 8}
	unpaired := flows.Unpaired{}
	unpaired.Wrong.CNPs = 40
	s := &flows.Snapshot{Flows: []flows.Flow{f}, Unpaired: []flows.Unpaired{unpaired},
		Evicted: flows.Evicted{Trimmed: 1000, ResponsePSN: flows.ResponsePSN{Gaps: 2000, Missing: 3000, Late: 4000,
			Retransmitted: 5000}},
		Capture: flows.Capture{Discarded: map[string]uint64{"acl": 7, "red": 8}}, Links: make([]flows.Link, 2)}
	s.Evicted.Wrong.CNPs = 400
	s.Links[0].Priorities[3] = flows.Priority{XOFF: 10, XON: 20, Paused: 300 * time.Millisecond}
	s.Links[1].Priorities[3] = flows.Priority{XOFF: 1, XON: 2, Paused: 30 * time.Millisecond}
	s.Links[1].All = flows.Priority{XOFF: 5, XON: 6, Paused: 7 * time.Millisecond}
	got := exposition(t, string(appendTotals(nil, s, 0)))
	for _, row := range []struct {
		name string
		want float64
	}{
		{"spurious_repeats", 170}, {"trimmed_packets_total", 1172}, {"discarded_packets_total", 15},
		{"response_gaps_total", 2210}, {"response_missing_total", 3211}, {"response_late_total", 4212},
		{"response_repeats_total", 5213}, {`wrong_answers_total kind="acks"`, 1},
		{`wrong_answers_total kind="naks"`, 2}, {`wrong_answers_total kind="rnr_naks"`, 3},
		{`wrong_answers_total kind="cnps"`, 444}, {`wrong_answers_total kind="fast"`, 5},
		{`wrong_answers_total kind="ppfc"`, 6}, {`wrong_answers_total kind="fcn"`, 7},
		{`wrong_answers_total kind="proxy"`, 8},
		{`paused_seconds_total priority="3"`, 0.33}, {`paused_seconds_total priority="all"`, 0.007},
		{`pfc_xoff_total priority="3"`, 11}, {`pfc_xon_total priority="3"`, 22}, {`pfc_xoff_total priority="all"`, 5},
	} {
		require.Equal(t, row.want, got["rocecn_capture_"+row.name], row.name)
	}
}

// Sums are exact above 2^53, which a float64 is not, and PSNs that are not followed do not count.
func TestExactTotals(t *testing.T) {
	s := &flows.Snapshot{Flows: make([]flows.Flow, 2), Evicted: flows.Evicted{IPOctets: 1<<53 + 1}}
	s.Flows[0].IPOctets, s.Flows[1].IPOctets = 1<<54+1, 1
	s.Flows[0].PSN.Gaps, s.Flows[1].PSN.Gaps, s.Flows[1].Sequenced = 5, 7, true
	got := totalsOf(s).metrics
	require.Equal(t, uint64(1<<53+1<<54+3), got["ip_octets"])
	require.EqualValues(t, 7, got["psn.gaps"])
	require.NotContains(t, got, "rtt_us.p99", "only counts have sums")
}

// Errors while serving are reported like all others.
func TestListenSays(t *testing.T) {
	var stderr strings.Builder
	s := wiretest.Must((&options{address: "127.0.0.1:0"}).startSite(&stderr))(t)
	defer s.close()
	s.server.ErrorLog.Print("http: Accept error")
	require.Contains(t, stderr.String(), "\nrocecn flows: http: Accept error\n")
}

// An answer is made once for requests in quick succession. An error is the whole answer to one request, and has its
// status.
func TestAnswersAreKept(t *testing.T) {
	made := 0
	var failure error
	get := func(h http.HandlerFunc) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h(w, httptest.NewRequest(http.MethodGet, "/", nil))
		return w
	}
	newHandler := func() http.HandlerFunc {
		made = 0
		return new(site).handler(answer{kind: "text/csv", octets: func(*site, context.Context) ([]byte, error) {
			made++
			return []byte("table\n"), failure
		}})
	}
	for quick := false; !quick; { // a machine may be too slow for two requests within a second
		begin, h := time.Now(), newHandler()
		for range 2 {
			w := get(h)
			require.Equal(t, http.StatusOK, w.Code)
			require.Equal(t, "table\n", w.Body.String())
			require.Equal(t, "text/csv", w.Header().Get("Content-Type"))
			require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
		}
		if quick = time.Since(begin) < fresh; quick {
			require.Equal(t, 1, made)
		}
	}
	h := newHandler()
	failure = errors.New("the table is gone")
	for range 2 {
		w := get(h)
		require.Equal(t, http.StatusServiceUnavailable, w.Code)
		require.Equal(t, "the table is gone\n", w.Body.String())
	}
	failure = nil
	require.Equal(t, "table\n", get(h).Body.String())
}

// While the capture is read, the site has the findings until then, and the packets that the kernel dropped.
func TestSiteBeforeTheEnd(t *testing.T) {
	o, _ := parse([]string{"-listen", "127.0.0.1:0", "-json", "-explain", "rxe-verbs6.pcap"}, nil, io.Discard)
	require.NotNil(t, o)
	table := flows.New(o.table)
	var d flows.Decoder
	var p flows.Packet
	for i, one := range wiretest.Capture(t, "rxe-verbs6.pcap") {
		d.Decode(&p, one.Data, rocev2.DecodeOptions{})
		table.Observe(&p, uint64(i+1), one.Time)
	}
	s := &site{of: &accountant{options: o, table: table},
		reader: &reader{dropped: 5, present: 2}, asks: make(chan func()), closed: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go s.waitForEnd(ctx)

	samples := exposition(t, string(wiretest.Must(s.answerMetrics(ctx))(t)))
	require.EqualValues(t, 7, samples["rocecn_capture_dropped_packets_total"])
	var all []map[string]any
	require.NoError(t, json.Unmarshal(wiretest.Must(s.answerJSON(ctx))(t), &all))
	var causes []any
	for _, line := range all {
		if line["cause"] != nil {
			causes = append(causes, line["cause"])
		}
	}
	require.Contains(t, causes, "receiver not ready")

	close(s.closed)
	cancel()
	for _, a := range answers {
		_, err := a.octets(s, ctx)
		require.Error(t, err, a.path)
	}
}
