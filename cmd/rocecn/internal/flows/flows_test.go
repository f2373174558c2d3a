package flows

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/flows"
	"github.com/rocecn/rocecn/internal/traffic"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
)

// run runs the command.
func run(t *testing.T, stdin io.Reader, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	status = Run(context.Background(), args, stdin, &out, &err)
	return status, out.String(), err.String()
}

// lines runs the command with -json, and returns the objects.
func lines(t *testing.T, args ...string) (all []map[string]any) {
	t.Helper()
	status, out, stderr := run(t, nil, append([]string{"-json"}, args...)...)
	require.Zero(t, status, stderr)
	for line := range strings.Lines(out) {
		var v map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &v))
		if v["capture"] == nil { // the line about the capture itself: see captureOf
			all = append(all, v)
		}
	}
	return all
}

// valueAt returns the value at a path of keys.
func valueAt(v any, keys ...string) any {
	for _, k := range keys {
		m, _ := v.(map[string]any)
		v = m[k]
	}
	return v
}

// made writes a capture.
func made(t *testing.T, seed uint64, o traffic.Options) (path string, c *traffic.Capture) {
	t.Helper()
	c = traffic.Generate(seed, o)
	path = filepath.Join(t.TempDir(), "made.pcap")
	f := wiretest.Must(os.Create(path))(t)
	require.NoError(t, c.Write(f))
	require.NoError(t, f.Close())
	return path, c
}

// The results for the captures in testdata.
func TestCaptures(t *testing.T) {
	for _, c := range []struct {
		name          string
		repeats, cm   float64
		management, n int
	}{
		{"rxe-perf4.pcap", 0, 0, 0, 7},
		{"rxe-rping6.pcap", 0, 2, 2, 4},
		{"rxe-vlan4.pcap", 0, 0, 0, 3},
		{"rxe-ucmatose4.pcap", 0, 4, 2, 6},
		{"rxe-verbs6.pcap", 3, 0, 0, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			var gaps, missing, retransmitted, rnr, cm float64
			n := 0
			for _, l := range lines(t, wiretest.Path(t, c.name)) {
				if l["unpaired"] == true {
					require.Equal(t, "rxe-verbs6.pcap", c.name, l)
					continue
				}
				n++
				if l["src_qp_from"] == "cm" {
					cm++
				}
				if l["psn"] == nil {
					require.Equal(t, "UD", l["transport"])
					continue
				}
				gaps += valueAt(l, "psn", "gaps").(float64)
				missing += valueAt(l, "psn", "missing").(float64)
				retransmitted += valueAt(l, "psn", "repeats").(float64)
				rnr += valueAt(l, "repeats_by", "rnr").(float64)
				if valueAt(l, "psn", "repeats").(float64) > 0 {
					require.EqualValues(t, 243, valueAt(l, "psn", "first_trouble_frame"))
					require.Nil(t, l["src_qp"])
				}
				if c.name == "rxe-vlan4.pcap" {
					require.NotZero(t, l["vlan"])
				}
			}
			require.Equal(t, []float64{0, 0, c.repeats, c.repeats, c.cm},
				[]float64{gaps, missing, retransmitted, rnr, cm},
				c.name)
			require.Equal(t, c.n, n)
		})
	}
}

// Votes find the same pairs as connection management.
func TestVotesAgreeWithCM(t *testing.T) {
	for _, name := range []string{"rxe-ucmatose4.pcap", "rxe-rping6.pcap"} {
		path := filepath.Join(t.TempDir(), name)
		f := wiretest.Must(os.Create(path))(t)
		w := wiretest.Must(capture.NewWriter(f, capture.Ethernet, time.Microsecond))(t)
		for _, r := range wiretest.Capture(t, name) {
			if !bytes.Contains(r.Data, []byte{0x01, 0x07, 0x02, 0x03}) { // a MAD of connection management
				require.NoError(t, w.Write(&capture.Record{Data: r.Data, OrigLen: uint32(r.OrigLen), Time: r.Time}))
			}
		}
		require.NoError(t, f.Close())
		qps := func(path, from string) map[string]any {
			all := map[string]any{}
			for _, l := range lines(t, path) {
				if l["transport"] == "RC" {
					require.Equal(t, from, l["src_qp_from"])
					all[fmt.Sprint(l["src"], l["dst_qp"])] = l["src_qp"]
				}
			}
			return all
		}
		require.Equal(t, qps(wiretest.Path(t, name), "cm"), qps(path, "votes"))
	}
}

// Every key of the contract, where it applies, and no other.
func TestKeys(t *testing.T) {
	f := flows.Flow{SrcQPFrom: 2, Requests: flows.Requests{VLAN: 3, PCP: 1, SrcPort: 4, MTU: 1024,
		FirstTrouble: 12, Varies: flows.Varies{VLAN: true}},
		SrcMAC: make([]byte, 6), DstMAC: make([]byte, 6), SharedPort: 1,
		Sequenced: true, Mean: 1, PSN: flows.PSN{Connections: 1}}
	f.Src, f.Dst = netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")
	f.Peak = 1
	f.Responses.Packets, f.Data.Mean, f.Data.Peak = 1, 1, 1
	f.Outer = &flows.Outer{Tunnels: []rocev2.Tunnel{rocev2.VXLAN}, CENotECT: 1}
	f.RTT, f.AfterCE = new(flows.Histogram), new(flows.Histogram)
	f.RTT.Add(time.Microsecond)
	f.AfterCE.Add(time.Microsecond)
	f.Queue.Known = true
	f.Message(flows.MessageFlush).Begun = 1
	var got map[string]any
	require.NoError(t, json.Unmarshal(jsonOf(t, lineOf(&f, nil)), &got))
	keys := func(v any) []string { return slices.Sorted(maps.Keys(v.(map[string]any))) }
	require.Equal(t,
		strings.Fields("acks cnps data dest_qp dscp dst dst_mac ecn fcn first icrc_wrong ip_octets "+
			"last lives messages mtu naks outer packets payload_octets pcp ppfc proxy psn rate_bps repeats_by "+
			"responses rnr_naks rtt_us src src_mac src_port src_port_shared src_qp src_qp_from transport "+
			"truncated varies vlan worst_queue"),
		keys(got))
	require.Equal(t, []string{"ce", "ect0", "ect1", "not_ect"}, keys(got["ecn"]))
	require.Equal(t,
		strings.Fields("copies first first_trouble_frame gaps last late lost missing repeats unjudged unseen"),
		keys(got["psn"]))
	require.Equal(t, strings.Fields("nak read rnr spurious timeout"), keys(got["repeats_by"]))
	require.Equal(t, []string{"invalid RD request", "invalid request", "remote access", "remote operational",
		"sequence"}, keys(got["naks"]))
	require.Equal(t, strings.Fields("after_ce_us fast min_spacing_us receiver"), keys(got["cnps"]))
	require.Equal(t, strings.Fields("p50 p99"), keys(valueAt(got, "cnps", "after_ce_us")))
	require.Equal(t, strings.Fields("min p50 p99 samples"), keys(got["rtt_us"]))
	require.Equal(t, strings.Fields("depth node"), keys(got["worst_queue"]))
	require.Equal(t, strings.Fields("mean peak"), keys(got["rate_bps"]))
	require.Equal(t, strings.Fields("dscp ecn first icrc_wrong ip_octets last packets payload_octets psn truncated"),
		keys(got["responses"]))
	require.Equal(t, strings.Fields("copies gaps late missing repeats"), keys(valueAt(got, "responses", "psn")))
	require.Equal(t, strings.Fields("ce_not_ect dscp ecn kind"), keys(got["outer"]))
	require.Equal(t, []any{"vxlan"}, valueAt(got, "outer", "kind"))
	require.Equal(t, strings.Fields("ce ip_octets packets payload_octets rate_bps"), keys(got["data"]))
	require.Equal(t, strings.Fields("mean peak"), keys(valueAt(got, "data", "rate_bps")))
	require.Equal(t, map[string]any{"FLUSH": map[string]any{"begun": 1., "complete": 0.}}, got["messages"])

	plain := lineOf(&flows.Flow{Spacing: -1}, nil)
	plain.Src, plain.Dst = f.Src, f.Dst
	require.NoError(t, json.Unmarshal(jsonOf(t, plain), &got))
	clear(got)
	require.NoError(t, json.Unmarshal(jsonOf(t, plain), &got))
	absent := "src_qp src_qp_from vlan mtu lives psn repeats_by responses rtt_us worst_queue"
	for _, key := range strings.Fields(absent) {
		require.NotContains(t, got, key)
	}
	u := flows.Unpaired{FlowKey: flowKey(f.Src, f.Dst, 17), WithQP: true, Answers: flows.Answers{ACKs: 2, CNPs: 1}}
	*u.NAK(bth.NAKRemoteAccess) = 1
	require.Equal(t,
		`{"unpaired":true,"src":"192.0.2.1","dst":"2001:db8::1","dest_qp":17,"acks":2,"naks":{"remote access":1},`+
			`"cnps":{"receiver":1,"fast":0}}`+"\n",
		string(jsonOf(t, unpairedLineOf(&u, nil))))
	link := flows.Link{Src: []byte{2, 0, 0, 0, 0, 1}}
	link.Priorities[3] = flows.Priority{XOFF: 2, XON: 1, Paused: 12500}
	require.Equal(t,
		`{"pfc":true,"src_mac":"02:00:00:00:00:01","priorities":{"3":{"xoff":2,"xon":1,"paused_us":12.5}}}`+"\n",
		string(jsonOf(t, pfcLineOf(&link, nil))))
}

// The output is the same for each format, and for any number of goroutines.
func TestSameOutput(t *testing.T) {
	path, c := made(t, 5, traffic.Options{Connections: 40})
	_, want, _ := run(t, nil, "-json", path)
	octets := wiretest.Must(os.ReadFile(path))(t)
	require.Greater(t, len(octets), 1<<20)
	for _, workers := range []string{"1", "2", "7"} {
		status, got, _ := run(t, nil, "-json", "-workers", workers, path)
		require.Zero(t, status)
		require.Equal(t, want, got)
	}
	_, got, _ := run(t, bytes.NewReader(octets), "-json", "-")
	require.Equal(t, want, got, "standard input")
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	z.Write(octets)
	z.Close()
	_, got, _ = run(t, bytes.NewReader(packed.Bytes()), "-json", "-")
	require.Equal(t, want, got, "gzip")

	// Several files are one capture.
	dir := t.TempDir()
	var names []string
	for i := range 3 {
		part := &traffic.Capture{Frames: c.Frames[len(c.Frames)*i/3 : len(c.Frames)*(i+1)/3]}
		name := filepath.Join(dir, fmt.Sprint(i))
		f := wiretest.Must(os.Create(name))(t)
		require.NoError(t, part.Write(f))
		require.NoError(t, f.Close())
		names = append(names, name)
	}
	_, got, _ = run(t, nil, append([]string{"-json"}, names...)...)
	require.Equal(t, want, got, "parts")
}

// The lines of seven shards, sorted, are those of the whole.
func TestShards(t *testing.T) {
	path, _ := made(t, 6, traffic.Options{Connections: 12})
	sorted := func(out string) []string { return slices.Sorted(strings.Lines(out)) }
	inputs := []string{path, wiretest.Path(t, "messages.pcap"), wiretest.Path(t, "fastcnp.pcap"),
		wiretest.Path(t, "rxe-verbs6.pcap")}
	_, whole, _ := run(t, nil, append([]string{"-json"}, inputs...)...)
	for _, first := range []int{0, 1} {
		var parts strings.Builder
		for i := range 7 {
			status, part, stderr := run(t, nil,
				append([]string{"-json", "-shard", fmt.Sprintf("%d/7", i+first)}, inputs...)...)
			require.Zero(t, status, stderr)
			parts.WriteString(part)
		}
		require.Equal(t, sorted(whole), sorted(parts.String()))
	}
}

func TestCheck(t *testing.T) {
	verbs, perf := wiretest.Path(t, "rxe-verbs6.pcap"), wiretest.Path(t, "rxe-perf4.pcap")
	for _, c := range []struct {
		rules, file string
		status      int
	}{
		{"repeats=0", perf, 0},
		{"repeats=0", verbs, 3},
		{"repeats = 0, ce<1%", perf, 0},
		{"cnps>0", perf, 3},
		{"total.cnps>0", perf, 3},
		{"total.cnps=0,missing=0,gaps<=0,data.packets>=1", perf, 0},
		{"total.repeats<=3,total.repeats>2", verbs, 0},
		{"total.repeats!=3", verbs, 3},
		{"total.rnr_naks=4", verbs, 0}, // unpaired ones count in the total
		{"rnr_naks=0", verbs, 3},       // the receiver rejected requests of an unknown flow
		{"repeats<75%", verbs, 3},      // 3 of 4
		{"repeats<=75%", verbs, 0},
		{"total.repeats<5%", verbs, 0}, // 3 of 62
		{"rtt_us.p99<100000", perf, 0},
		{"rtt_us.p99<1", perf, 3},
		{"packets>2", wiretest.Path(t, "rxe-ucmatose4.pcap"), 0},
		{"packets>3", wiretest.Path(t, "rxe-ucmatose4.pcap"), 3},
		{"packets<5", wiretest.Path(t, "rxe-ucmatose4.pcap"), 0}, // management has 6, and no rules

		{"retries=0", perf, 2},
		{"repeats", perf, 2},
		{"repeats=few", perf, 2},
		{"rtt_us.p99<1%", perf, 2},
		{"total.mtu=1024", perf, 2},
		{"begun=0", perf, 2}, // of which messages?
	} {
		t.Run(c.rules, func(t *testing.T) {
			status, _, stderr := run(t, nil, "-check", c.rules, c.file)
			require.Equal(t, c.status, status, "%s: %s", c.rules, stderr)
			if status == 3 {
				require.Regexp(t, `rule .* is broken: .* has [a-z_.0-9]+ [0-9.]+`, stderr)
			}
		})
	}
	status, _, _ := run(t, nil, "-check", "repeats=0", "-qp", "17", verbs)
	require.Zero(t, status, "rules apply to the chosen flows")
}

func TestChoice(t *testing.T) {
	verbs := wiretest.Path(t, "rxe-verbs6.pcap")
	qps := func(args ...string) (all []float64) {
		for _, l := range lines(t, append(args, verbs)...) {
			if l["unpaired"] != true {
				all = append(all, l["dest_qp"].(float64))
			}
		}
		return all
	}
	require.Equal(t, []float64{23, 21, 17, 18, 17, 20, 19, 21, 20, 22}, qps())
	require.Equal(t, []float64{23, 21}, qps("-top", "2"))
	require.Equal(t, []float64{23, 21}, qps("-trouble"))
	require.Equal(t, []float64{17, 18, 20, 23, 19, 21, 22, 17, 20, 21}, qps("-sort", "packets"))
	require.Equal(t, []float64{23}, qps("-sort", "repeats", "-top", "1"))
	require.Equal(t, []float64{17, 17, 18, 19, 20, 20, 21, 21, 22, 23}, qps("-sort", "first"))
	require.Equal(t, []float64{17, 20, 21, 17, 18, 19, 20, 21, 22, 23}, qps("-sort", "src"))
	require.Equal(t, []float64{17, 23, 17}, qps("-sort", "dst", "-qp", "17,0x17"))
	require.Len(t, qps("-address", "fd77::1"), 10)
	require.Len(t, qps("-address", "2001:db8::/32,fd77::/16"), 10)
	require.Empty(t, qps("-address", "fd77::3"))
	require.Len(t, qps("-dscp", "26"), 7)
	require.Empty(t, qps("-dscp", "0,1"))
}

func TestArguments(t *testing.T) {
	for _, c := range []struct{ args, message string }{
		{"", "usage:"},
		{"-sort luck x", `"luck": want one of packets, `},
		{"-json -csv x", "want only one of -json"},
		{"-interval -1s x", "want 0s or more"},
		{"-interval 1s -prometheus x", "-prometheus: cannot be combined with -interval"},
		{"-workers 0 x", "-workers 0: want 1 to 128"},
		{"-workers 129 x", "1 to 128"},
		{"-shard 8/7 x", "want I/N"},
		{"-shard 1 x", "want I/N"},
		{"-shard 0/0 x", "want I/N"},
		{"-max-flows 3 x", "want 0, or 16 or more"},
		{"-address nowhere x", "want an address or a prefix"},
		{"-qp 0x1000000 x", "want a queue pair"},
		{"-dscp 64 x", "want a DSCP"},
		{"-fcn-port 0 x", "1 to 65535"},
		{"-i eth0 x", "-i eth0 and the capture x: want only one of them"},
	} {
		t.Run(c.args, func(t *testing.T) {
			status, _, stderr := run(t, nil, strings.Fields(c.args)...)
			require.Equal(t, 2, status, c.args)
			require.Contains(t, stderr, c.message, c.args)
		})
	}
	status, _, _ := run(t, nil, "-h")
	require.Zero(t, status)
}

// Packets before a damaged record are counted, and the error is reported.
func TestDamagedFile(t *testing.T) {
	octets := wiretest.Must(os.ReadFile(wiretest.Path(t, "rxe-perf4.pcap")))(t)
	status, out, stderr := run(t, bytes.NewReader(octets[:len(octets)-5]), "-json", "-")
	require.Equal(t, 1, status)
	require.Contains(t, stderr, "the file ends early")
	require.Equal(t, 1+7, strings.Count(out, "\n"))
	status, _, stderr = run(t, nil, filepath.Join(t.TempDir(), "none"))
	require.Equal(t, 1, status)
	require.Contains(t, stderr, "no such file")
	status, _, _ = run(t, bytes.NewReader(octets[:len(octets)-5]), "-check", "total.packets=0", "-")
	require.Equal(t, 3, status)
}

// An interrupt is the end of the input.
func TestInterrupt(t *testing.T) {
	octets, err := os.ReadFile(wiretest.Path(t, "rxe-perf4.pcap"))
	require.NoError(t, err)
	ctx, interrupt := context.WithCancel(context.Background())
	r, w := io.Pipe()
	var out, stderr bytes.Buffer
	status := make(chan int)
	go func() { status <- Run(ctx, []string{"-json", "-"}, r, &out, &stderr) }()
	_, err = w.Write(octets)
	require.NoError(t, err)
	interrupt()
	require.Zero(t, <-status)
	require.Equal(t, 1+7, strings.Count(out.String(), "\n"))
}

// The table is readable at 120 columns, and plain unless it is on a terminal.
func TestHuman(t *testing.T) {
	path, _ := made(t, 1, traffic.Options{Connections: 12})
	for _, args := range [][]string{{path}, {wiretest.Path(t, "messages.pcap")},
		{wiretest.Path(t, "rxe-verbs6.pcap")}} {
		_, out, _ := run(t, nil, args...)
		for line := range strings.Lines(out) {
			require.LessOrEqual(t, utf8.RuneCountInString(line), columns+1, line)
			require.NotContains(t, line, "\x1b")
		}
	}
	long := flows.Snapshot{Flows: []flows.Flow{{FlowKey: flowKey(netip.MustParseAddr("2001:db8:1111:2222:3333:4444:5"+
		"555:6666"),
		netip.MustParseAddr("2001:db8:1111:2222:3333:4444:5555:7777"), 0xFFFFFF), SrcQP: 0xFFFFFF, SrcQPFrom: 1,
		Sequenced: true}}}
	long.Flows[0].PSN = flows.PSN{Gaps: 1, Missing: 12, Late: 7, Unseen: 1, Lost: 4}
	h := human{colour: true}
	out := string(h.appendTable(nil, &long))
	require.Contains(t, out, red+"5"+plain, "lost packets")
	require.Contains(t, out, yellow+"7"+plain)
	require.Contains(t, out, ", 7 out of order\n")
	for line := range strings.Lines(out) {
		line = regexp.MustCompile("\x1b\\[\\d+m").ReplaceAllString(line, "")
		require.LessOrEqual(t, utf8.RuneCountInString(line), columns+1, line)
	}
}

// Packets that came out of order are not missing, and nothing is red.
func TestHumanReordered(t *testing.T) {
	f := flows.Flow{Sequenced: true, Requests: flows.Requests{Packets: 9000},
		PSN: flows.PSN{Gaps: 900, Missing: 1811, Late: 1811}}
	h := human{colour: true}
	out := string(h.appendTable(nil, &flows.Snapshot{Flows: []flows.Flow{f}}))
	require.Regexp(t, `\s0\s+\S+1811\S+\s+0\s`, out)
	require.Contains(t, out, "1811 out of order, none lost")
	require.NotContains(t, out, red)
	require.Zero(t, f.Trouble())
	// Packets that the capture missed are not lost in the network.
	f.PSN.Late, f.PSN.Unseen = 1800, 11
	out = string(h.appendTable(nil, &flows.Snapshot{Flows: []flows.Flow{f}}))
	require.Contains(t, out, yellow+"11"+plain)
	require.Contains(t, out, "11 not captured, 1800 out of order\n")
	require.NotContains(t, out, red)
	// Late ones may have been lost before the capture, where something is repeated.
	f.PSN.Retransmitted, f.Causes.NAK, f.PSN.Copies = 3, 3, 2
	require.Equal(t, []string{"gaps: 900", "11 not captured", "1800 out of order or retransmitted",
		"3 retransmitted after NAKs", "2 copied by the network"}, formatRemarks(&f))
}

// Where there is too little for a number, there is none.
func TestNoRate(t *testing.T) {
	f := flows.Flow{Requests: flows.Requests{Packets: 2}}
	require.NotContains(t, string(jsonOf(t, lineOf(&f, nil))), "peak")
	require.Equal(t, cell{Text: none}, flowColumns[5].of(&f))
	m := wiretest.Must(metricOf("rate_bps.peak"))(t)
	_, ok := m.of(&f)
	require.False(t, ok)
	f.Mean, f.Peak = 5, 7
	require.Contains(t, string(jsonOf(t, lineOf(&f, nil))), `"rate_bps":{"mean":5,"peak":7}`)
	f.Mean, f.Peak = 0.4, 1.6
	require.Contains(t, string(jsonOf(t, lineOf(&f, nil))), `"rate_bps":{"mean":0,"peak":2}`)
}

func TestPause(t *testing.T) {
	l := flows.Link{Src: net.HardwareAddr{2, 0, 0, 0, 0, 1}, Rate: 100e9, Assumed: true}
	l.Priorities[3] = flows.Priority{XOFF: 2, XON: 1, Paused: 12500 * time.Nanosecond}
	l.All.XON = 1
	require.Equal(t, `{"pfc":true,"src_mac":"02:00:00:00:00:01","priorities":{`+
		`"3":{"xoff":2,"xon":1,"paused_us":12.5},"all":{"xoff":0,"xon":1,"paused_us":0}},"link_bps_assumed":true}`+"\n",
		string(jsonOf(t, pfcLineOf(&l, nil))))
	require.Equal(t, []string{
		"priority 3: 2 XOFF, 1 XON, paused 12.5µs",
		"all priorities: 0 XOFF, 1 XON, paused 0s",
	}, formatPauses(&l))
	h := human{}
	require.Equal(t, "PFC  02:00:00:00:00:01 (100 Gbit/s assumed):\n"+
		"  priority 3: 2 XOFF, 1 XON, paused 12.5µs\n  all priorities: 0 XOFF, 1 XON, paused 0s\n",
		string(h.appendTable(nil, &flows.Snapshot{Links: []flows.Link{l}})))
	l.Assumed, l.Rate = false, 25e9
	require.NotContains(t, string(jsonOf(t, pfcLineOf(&l, nil))), "assumed")
	require.Equal(t, "priority 3: 2 XOFF, 1 XON, paused 12.5µs", formatPauses(&l)[0])

	// The page of messages.pcap has a pause of 65535 quanta.
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "(100 Gbit/s assumed)"},
		{[]string{"-link-rate", "25G"}, "XON, paused"},
		{[]string{"-link-rate", "25 Gbit/s"}, "XON, paused"},
		{[]string{"-link-rate", "1000000000"}, "XON, paused"},
	} {
		_, out, _ := run(t, nil, append(c.args, wiretest.Path(t, "tour.pcap"))...)
		require.Contains(t, out, c.want)
		require.Equal(t, c.args == nil, strings.Contains(out, "assumed"))
	}
	for _, text := range []string{"", "0", "-1", "fast", "100X", "1e30", "NaN", "100"} {
		status, _, stderr := run(t, nil, "-link-rate", text, wiretest.Path(t, "tour.pcap"))
		require.Equal(t, 2, status, text)
		require.Contains(t, stderr, "-link-rate", text)
	}
}

func TestCSV(t *testing.T) {
	_, out, _ := run(t, nil, "-csv", wiretest.Path(t, "rxe-verbs6.pcap"))
	rows := wiretest.Must(csv.NewReader(strings.NewReader(out)).ReadAll())(t)
	require.Len(t, rows, 11)
	column := slices.Index(rows[0], "psn.repeats")
	require.Equal(t, "3", rows[1][column])
	require.Equal(t, "", rows[7][column], "UD has no PSNs")
}

// The intervals together are the whole.
func TestInterval(t *testing.T) {
	path, _ := made(t, 9, traffic.Options{Connections: 6})
	sums := func(args ...string) map[string]float64 {
		all := map[string]float64{}
		for _, l := range lines(t, append(args, path)...) {
			id := fmt.Sprint(l["src"], l["dst"], l["dest_qp"])
			for _, keys := range [][]string{{"packets"}, {"ip_octets"}, {"psn", "repeats"}, {"psn", "late"}, {"acks"},
				{"ecn", "ce"}} {
				n, _ := valueAt(l, keys...).(float64)
				all[id+strings.Join(keys, ".")] += n
			}
			if len(args) > 0 {
				from, _ := time.Parse(time.RFC3339Nano, valueAt(l, "interval", "from").(string))
				to, _ := time.Parse(time.RFC3339Nano, valueAt(l, "interval", "to").(string))
				require.Equal(t, 500*time.Microsecond, to.Sub(from))
			}
		}
		return all
	}
	require.Equal(t, sums(), sums("-interval", "500us"))
}

func flowKey(src, dst netip.Addr, qp uint32) rocev2.FlowKey {
	return rocev2.FlowKey{Src: src, Dst: dst, DestQP: qp}
}

// Truncated packets are counted, with the length that is sufficient.
func TestCut(t *testing.T) {
	octets := wiretest.Must(os.ReadFile(wiretest.Path(t, "rxe-rping6.pcap")))(t)
	r := wiretest.Must(capture.Open(bytes.NewReader(octets)))(t)
	var cut bytes.Buffer
	w := wiretest.Must(capture.NewWriter(&cut, capture.Ethernet, time.Microsecond))(t)
	for {
		var record capture.Record
		if err := r.Next(&record); err != nil {
			break
		}
		record.Data = record.Data[:min(len(record.Data), 64)]
		require.NoError(t, w.Write(&record))
	}
	_, _, stderr := run(t, &cut, "-")
	require.Equal(t, "60 packets, 31 other, 29 truncated by the snapshot length (want 90 octets of each)\n", stderr)
}

// jsonOf returns the line of a JSON object.
func jsonOf(t *testing.T, v any) []byte {
	t.Helper()
	var line bytes.Buffer
	require.NoError(t, json.NewEncoder(&line).Encode(v))
	return line.Bytes()
}
