package run

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/bpf"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/fastpath"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/play"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/roles"
	"github.com/rocecn/rocecn/filter"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/netio"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// prepared is an agent that discards all packets and has opened nothing.
func prepared(t *testing.T, config string) *server {
	t.Helper()
	f := wiretest.Must(parseFile([]byte(config)))(t)
	s := &server{log: slog.New(slog.NewTextHandler(io.Discard, nil)), wake: make(chan struct{}, 1), dry: true}
	f.linkTables(nil, s.currentLog)
	require.NoError(t, s.applyFile(f, nil))
	return s
}

// No packet causes an allocation.
func TestNoAllocations(t *testing.T) {
	for role, keys := range everyRole {
		role, _, _ := strings.Cut(role, " ")
		s := prepared(t, `
[source.in]
type = "psample"
group = 1
levels = [10, 20]
[sink.out]
type = "raw"
per_second = 1000
[role.`+role+`]
enabled = true
sources = ["in"]
`+sinkOf(role)+keys)
		var packets []netio.Packet
		for _, r := range wiretest.Capture(t, "messages.pcap") {
			var p netio.Packet
			p.Data, p.OrigLen, p.Link = r.Data, uint32(len(r.Data)), capture.Ethernet
			p.Depth, p.DepthKnown, p.Egress = uint64(len(packets)), true, 3
			packets = append(packets, p)
		}
		require.Greater(t, len(packets), 20)
		w := &worker{server: s, parts: s.parts, actors: s.actors}
		now := time.Unix(1e9, 0)
		take := func() {
			now = now.Add(time.Second)
			for i := range packets {
				packets[i].Time = now
			}
			w.distributePackets(s.parts[0], packets, now)
		}
		take()
		require.Zero(t, testing.AllocsPerRun(20, take), role)
		a := s.actors[0]
		n := uint64(0)
		for i := range a.outcomes {
			n += a.outcomes[i].Load()
		}
		require.EqualValues(t, 22*len(packets), n)
		require.Equal(t, a.packets.Load() > 0, a.latency.Count() > 0, role)
	}
}

// A draining queue resumes stopped flows, with or without packets.
func TestLevelsOfQueues(t *testing.T) {
	s := prepared(t, readConfig("levels"))
	data := wiretest.Capture(t, "messages.pcap")[0].Data
	w := &worker{server: s, parts: s.parts, actors: s.actors}
	a := s.actors[0]
	now := time.Unix(1e9, 0)
	meets := func(queue int, depth uint64) {
		var p netio.Packet
		p.Data, p.OrigLen, p.Link, p.Time = data, uint32(len(data)), capture.Ethernet, now
		p.Depth, p.DepthKnown, p.Egress = depth, true, queue
		w.distributePackets(s.parts[0], []netio.Packet{p}, now)
	}
	resumed := func() uint64 { return a.Role.Counters().Load(node.Count{Effect: node.EffectResumed}) }
	meets(1, 999)
	require.Zero(t, a.packets.Load())
	meets(1, 1000)
	meets(2, 5000)
	require.EqualValues(t, 2, a.packets.Load())
	meets(1, 499)
	require.Zero(t, resumed()) // queue 2 is still long
	meets(2, 500)
	require.EqualValues(t, 3, a.packets.Load())
	meets(2, 499)
	require.EqualValues(t, 1, resumed())
	meets(2, 400)
	require.EqualValues(t, 1, resumed())

	meets(1, 1000)
	stale := now.Add(queueIdleTime + 1)
	for _, p := range s.parts {
		p.publishQueues(stale)
	}
	a.resumeFlows(w.highestLevel(a))
	require.EqualValues(t, 2, resumed())
}

// The queue of a removed interface is forgotten.
func TestQueueGone(t *testing.T) {
	const nobodys = 1 << 30
	now := time.Unix(1e9, 0)
	p := &part{levels: map[int]measured{nobodys: {at: now, level: 3, depth: 5}}, names: map[int]string{nobodys: "gone"}}
	p.publishQueues(now)
	require.Equal(t, []queue{{"gone", 3, 5}}, p.listQueues())
	p.publishQueues(now.Add(queueIdleTime + 1))
	require.Empty(t, p.listQueues())
}

// /status shows the configuration without the values of seeds, however they are written.
func TestHideSeeds(t *testing.T) {
	for _, c := range []struct{ name, config, want string }{
		{"number", "seed = 17 # mine\nself = [\"192.0.2.1\"]", "seed = \"(hidden)\" # mine\nself = [\"192.0.2.1\"]"},
		{"text", `seed = "a \" b"`, `seed = "(hidden)"`},
		{"literal", `seed='a"b'`, `seed="(hidden)"`},
		{"lines", "seed = \"\"\"a\nb\"\"\"\nx = 1", "seed = \"(hidden)\"\nx = 1"},
		{"literal lines", "seed = '''a\nb'''\nx = 1", "seed = \"(hidden)\"\nx = 1"},
		{"inline table", `switch = { seed = 5, enabled = true }`, `switch = { seed = "(hidden)", enabled = true }`},
		{"dotted, quoted key", `switch."seed" = 5`, `switch."seed" = "(hidden)"`},
		{"lines with quotes", "seed = \"\"\"a\\\"\"\"b\"\"\"\"\nx = 1", "seed = \"(hidden)\"\nx = 1"},
		{"JSON", `{"seed": "a \" b", "x": 1}`, `{"seed": "(hidden)", "x": 1}`},
		{"JSON, number", "{\"x\": 1, \"seed\"\n:\n17}", "{\"x\": 1, \"seed\"\n:\n\"(hidden)\"}"},
		{"escaped key", `"s\u0065ed" = 5`, `"s\u0065ed" = "(hidden)"`},
		{"escaped key, dotted", `role.switch."\U00000073eed" = 'a'`, `role.switch."\U00000073eed" = "(hidden)"`},
		{"JSON, escaped key", `{"switch": {"\u0073eed": 17}, "x": "y"}`,
			`{"switch": {"\u0073eed": "(hidden)"}, "x": "y"}`},
		{"literal key", `'seed' = 5`, `'seed' = "(hidden)"`},
		{"literal key is not escaped", `'s\u0065ed' = 5`, `'s\u0065ed' = 5`},
		{"value of another key", `"x" = "seed"`, `"x" = "seed"`},
		{"after a text with quotes", `x = "a \" b", "seed" = 5`, `x = "a \" b", "seed" = "(hidden)"`},
		{"between quotes of two texts", `x = "a", y = "b", "seed" = 5`, `x = "a", y = "b", "seed" = "(hidden)"`},
		{"seed between texts that end in separators", `x = "a:", seed = 5, y = "=b"`,
			`x = "a:", seed = "(hidden)", y = "=b"`},
		{"seed with a quoted stretch", `seed = 'a"b=', x = 'c"d'`, `seed = "(hidden)", x = 'c"d'`},
		{"text before a seed before a separator", "x = 'a\"'\nseed = 5 # \": y\nz = 6",
			"x = 'a\"'\nseed = \"(hidden)\" # \": y\nz = 6"},
		{"quote in a comment", "# a \"\nseed = 5\n# \" = 1", "# a \"\nseed = \"(hidden)\"\n# \" = 1"},
		{"text of lines before a seed", "x = \"\"\"a \"b\nc\"\"\"\nseed = 5\ny = \":\"",
			"x = \"\"\"a \"b\nc\"\"\"\nseed = \"(hidden)\"\ny = \":\""},
		{"separator after a seed in a text", `x = "seed = 5", y = "seed: 6"`, `x = "seed = 5", y = "seed: 6"`},
		{"literal lines with quotes at the end", "seed = '''a'''''\nx = 1", "seed = \"(hidden)\"\nx = 1"},
		{"none", "self = [\"192.0.2.1\"]", "self = [\"192.0.2.1\"]"},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, hideSeeds(c.config)) })
	}
}

// A host of which the kernel knows that it rejects Fast CNPs can send any number of errors at little cost: the other
// hosts are not looked at.
func TestManyRejections(t *testing.T) {
	host := netip.MustParseAddr("2001:db8::1")
	p := &switchProgram{config: &kernelSwitch{}, rejected: map[netip.Addr]fastpath.Policy{host: fastpath.Mark}}
	r := wiretest.Must((&roles.SwitchConfig{}).Apply(nil))(t)
	wiretest.NoAllocs(t, "applyDecision", func() { p.applyDecision(r, &node.Decision{From: host}, time.Time{}) })
	require.Contains(t, p.rejected, host)
}

// Lists of /status are lists also if they are empty.
func TestStatusOfNothing(t *testing.T) {
	for _, config := range []string{"", "[role.border]\nenabled = true\ninstall = \"nft\""} {
		text := wiretest.Must(json.Marshal(prepared(t, config).buildStatus()))(t)
		require.NotContains(t, string(text), "null")
	}
}

// Opening is retried after 250 ms, then at growing intervals without end.
func TestRetry(t *testing.T) {
	var r retry
	now := time.Unix(1e9, 0)
	for _, pause := range []time.Duration{250e6, 500e6, 1e9, 2e9, 3e9, 3e9, 3e9} {
		require.True(t, r.isDue(now))
		require.False(t, r.isDue(now.Add(pause-1)))
		now = now.Add(pause)
	}
}

// The reason why a source is not open is logged once, again if it changes, and again after it was open.
func TestWhyNotOpen(t *testing.T) {
	s := prepared(t, readConfig("paused")+everyRole["pause"])
	var output bytes.Buffer
	s.log = slog.New(slog.NewTextHandler(&output, nil))
	w, p := &worker{server: s, parts: s.parts, actors: s.actors}, s.parts[0]
	source := &captureSource{File: wiretest.Path(t, "messages.pcap")}
	now := time.Unix(1e9, 0)
	lines := func(message string, beats int, err error) int {
		p.open = func() (netio.Source, error) {
			if err == nil {
				return source.listInputs()[0].open()
			}
			return nil, err
		}
		output.Reset()
		for range beats {
			now = now.Add(housekeepingInterval)
			w.maintainPart(p, now)
		}
		return strings.Count(output.String(), message)
	}
	require.Equal(t, 1, lines("source not open", 100, netio.ErrNoInterface))
	require.Equal(t, 1, lines("source not open", 100, netio.ErrDown))
	require.Zero(t, lines("source not open", 100, nil))
	require.True(t, w.handleSourceError(p, netio.ErrNoInterface))
	require.Contains(t, output.String(), "source lost")
	require.Zero(t, lines("source not open", 100, netio.ErrNoInterface),
		"it was logged that it is lost, with the reason")
	require.Equal(t, 1, lines("source is back", 100, nil))
	w.handleSourceError(p, netio.ErrNoInterface)
	require.Contains(t, output.String(), "source lost")
}

// A flappingSource is a source of an interface that may be down.
type flappingSource struct {
	lostSource
	up    bool
	tries int // calls of IsUp
}

func (s *flappingSource) IsUp() bool { s.tries++; return s.up }

// A source that was lost long ago is tried every 3 s. If it reports again that it was lost, it was up in between, and
// is tried at the next housekeeping.
func TestLostAgain(t *testing.T) {
	s := prepared(t, readConfig("paused")+everyRole["pause"])
	w, p, source := &worker{server: s, parts: s.parts, actors: s.actors}, s.parts[0], new(flappingSource)
	p.source = source
	p.markUp(s)
	now := time.Unix(1e9, 0)
	lose := func() {
		require.False(t, w.handleSourceError(p, netio.ErrAway))
		require.False(t, p.up.Load())
	}
	lose()
	w.maintainPart(p, now)
	require.Equal(t, 1, source.tries)
	for _, pause := range []time.Duration{250e6, 500e6, 1e9, 2e9, 3e9} {
		now = now.Add(pause)
		tries := source.tries
		w.maintainPart(p, now.Add(-1))
		require.Equal(t, tries, source.tries, pause)
		w.maintainPart(p, now)
		require.Equal(t, tries+1, source.tries, pause)
	}
	now = now.Add(housekeepingInterval)
	source.up = true
	w.maintainPart(p, now)
	require.False(t, p.up.Load(), "the next try is not due")
	lose()
	w.maintainPart(p, now)
	require.True(t, p.up.Load())
}

// Stopped flows are counted while they are stopped.
func TestStopped(t *testing.T) {
	s := prepared(t, readConfig("paused")+everyRole["pause"])
	w := &worker{server: s, parts: s.parts, actors: s.actors}
	now := time.Unix(1e9, 0)
	for _, r := range wiretest.Capture(t, "messages.pcap") {
		var p netio.Packet
		p.Data, p.OrigLen, p.Link, p.Time = r.Data, uint32(len(r.Data)), capture.Ethernet, now
		w.distributePackets(s.parts[0], []netio.Packet{p}, now)
	}
	s.actors[0].updateSizes(now)
	require.Contains(t, string(s.formatMetrics()), "\nrocecn_pause_stopped{role=\"pause\"} 1\n")
	require.Contains(t, string(s.formatMetrics()), "\nrocecn_role_effects_total{role=\"pause\",effect=\"stopped\"} 1\n")
	s.actors[0].runTimers(now.Add(time.Hour), s)
	require.Contains(t, string(s.formatMetrics()), "\nrocecn_pause_stopped{role=\"pause\"} 0\n")
}

//go:embed testdata/roles.txt
var roleKeys string

// everyRole has the keys of all roles for many decisions about the captures of testdata.
var everyRole = func() map[string]string {
	all := map[string]string{}
	for paragraph := range strings.SplitSeq(roleKeys, "\n\n") {
		role, keys, _ := strings.Cut(strings.TrimSpace(paragraph), "\n")
		all[role] = keys + "\n"
	}
	all["switch"] += "seed = 1\n" // the same flow labels in every run
	return all
}()

// sinkOf returns the key for the sink of a role, if it sends packets.
func sinkOf(role string) string {
	if role == "border" || role == "pause" {
		return ""
	}
	return "sink = \"out\"\n"
}

// On a capture, the agent decides as play does, line for line, and sends the same packets.
func TestSameAsPlay(t *testing.T) {
	played := map[string]bool{}
	seen := map[string]bool{}
	for _, in := range append(wiretest.Captures(t, "*.pcap"), "tour.pcap") {
		in = wiretest.Path(t, in)
		for _, role := range slices.Sorted(maps.Keys(everyRole)) {
			keys := everyRole[role]
			role, _, _ := strings.Cut(role, " ")
			played[role] = true
			sent := filepath.Join(t.TempDir(), "sent.pcap")
			config := wiretest.File(t, "agent.toml", fmt.Sprintf(readConfig("same"), in, sent, role, keys))
			want, got, stderr := new(bytes.Buffer), new(bytes.Buffer), new(bytes.Buffer)
			out := filepath.Join(t.TempDir(), "out.pcap")
			status := play.Run(t.Context(), []string{"-role", role, "-config", config, in, out}, nil, want, stderr)
			ran := Run(t.Context(), []string{"-config", config, "-dry-run"}, nil, got, stderr)
			require.Equal(t, status, ran, stderr)
			require.Equal(t, want.String(), got.String(), "%s %s", role, in)
			require.NoFileExists(t, sent)
			for line := range strings.Lines(want.String()) {
				_, rest, _ := strings.Cut(line, `"action":"`)
				action, _, _ := strings.Cut(rest, `"`)
				seen[role+" "+action] = true
			}

			require.Equal(t, status, Run(t.Context(), []string{"-config", config}, nil, new(bytes.Buffer), stderr))
			require.Equal(t, packets(t, out), packets(t, sent), "%s %s", role, in)
		}
	}
	require.Len(t, played, len(roles.Names()))
	for _, wanted := range []string{
		"switch sent", "switch refused", "receiver sent", "receiver learned", "sender accepted", "sender refused",
		"proxy sent", "proxy refused", "ingress forwarded", "ingress refused", "border dropped", "border passed",
		"pause accepted", "pause refused",
	} {
		require.True(t, seen[wanted], "%s: %v", wanted, seen)
	}
}

// sentBy returns the packets that roles send about messages.pcap to one sink with these keys.
func sentBy(t *testing.T, keys string, names ...string) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sent.pcap")
	config := fmt.Sprintf("[source.traffic]\ntype = \"capture\"\nfile = %q\n"+
		"[sink.out]\ntype = \"capture\"\nfile = %q\n%s", wiretest.Path(t, "messages.pcap"), file, keys)
	for _, name := range names {
		config += "[role." + name + "]\nenabled = true\nsources = [\"traffic\"]\nsink = \"out\"\n"
		config += everyRole[name]
	}
	stderr := new(bytes.Buffer)
	config = wiretest.File(t, "agent.toml", config)
	status := Run(t.Context(), []string{"-config", config}, nil, new(bytes.Buffer), stderr)
	require.Zero(t, status, stderr)
	require.NotContains(t, openFiles(), file)
	return packets(t, file)
}

// openFiles returns the names of the open files of the process, as far as the system lists them.
func openFiles() (names []string) {
	const folder = "/proc/self/fd"
	list, _ := os.ReadDir(folder)
	for _, one := range list {
		if name, err := os.Readlink(filepath.Join(folder, one.Name())); err == nil {
			names = append(names, name)
		}
	}
	return names
}

// Roles with one sink write to one file.
func TestSharedCaptureSink(t *testing.T) {
	one, other := sentBy(t, "", "switch"), sentBy(t, "", "proxy")
	require.NotEmpty(t, one)
	require.NotEmpty(t, other)
	require.ElementsMatch(t, append(one, other...), sentBy(t, "", "switch", "proxy"))
}

// A sink sets another DSCP in notifications and changes nothing else. Forwarded packets keep their DSCP.
func TestSinkDSCP(t *testing.T) {
	for _, role := range []string{"switch", "proxy"} {
		as, with := sentBy(t, "", role), sentBy(t, "dscp = 46\n", role)
		require.NotEmpty(t, as)
		require.Len(t, with, len(as))
		for i := range as {
			_, was, _ := strings.Cut(as[i], " ")
			_, is, _ := strings.Cut(with[i], " ")
			ip := wiretest.Hex(t, is)
			dscp := wiretest.SetDSCP(t, ip, 48)
			require.EqualValues(t, 46, dscp)
			require.Equal(t, wiretest.Hex(t, was), ip)
		}
	}
	require.Equal(t, sentBy(t, "", "ingress"), sentBy(t, "dscp = 46\n", "ingress"))
}

// packets returns the packets of a capture with their times.
func packets(t testing.TB, name string) (all []string) {
	t.Helper()
	f := wiretest.Must(os.Open(name))(t)
	defer f.Close()
	in := wiretest.Must(capture.Open(f))(t)
	for r, err := range capture.All(in) {
		require.NoError(t, err)
		all = append(all, fmt.Sprintf("%d %x", r.Time.UnixNano(), r.Data))
	}
	return all
}

func octetsOf(t testing.TB, name string) []byte {
	t.Helper()
	return wiretest.Must(os.ReadFile(name))(t)
}

// With filter = "pairs", a learner of real captures learns nearly all pairs, no wrong ones, and receives fewer
// packets.
func TestPairsFilter(t *testing.T) {
	raw, err := (&filter.Capture{Selection: filter.Pairs}).Program(rocev2.LinkEthernet)
	require.NoError(t, err)
	program, ok := bpf.Disassemble(raw)
	require.True(t, ok)
	vm, err := bpf.NewVM(program)
	require.NoError(t, err)
	for _, name := range []string{
		"real/nvme4.eth0.pcap.gz", "real/r6-loss2.eth0.pcap.gz", "real/write4-loss1.eth0.pcap.gz",
		"real/write4-red-ect.eth0.pcap.gz", "real/send4-reorder.eth0.pcap.gz", "real/w4-reddrop-q4.eth1.pcap.gz",
	} {
		all, some := qpmap.New(qpmap.Config{}), qpmap.New(qpmap.Config{})
		var packets, seen, known, knownToo int
		for _, c := range wiretest.Capture(t, name) {
			var f rocev2.Frame
			var p rocev2.Packet
			f.Decode(c.Data, rocev2.DecodeOptions{AllowTruncated: true})
			if f.Outer().Packet(&p) != nil {
				continue
			}
			now := c.Time
			packets++
			all.Observe(&p, 0, now)
			if verdict, err := vm.Run(c.Data); err == nil && verdict != 0 {
				seen++
				some.Observe(&p, 0, now)
			}
			k := qpmap.Key{FlowKey: rocev2.FlowKey{Src: p.Src, Dst: p.FinalDst(), DestQP: p.BTH.DestQP}}
			one, err := all.SourceQP(k, now)
			if err == nil {
				known++
			}
			other, wrong := some.SourceQP(k, now)
			if wrong == nil {
				knownToo++
			}
			if err == nil && wrong == nil {
				require.Equal(t, one.SrcQP, other.SrcQP, "%s %v", name, k)
			}
		}
		t.Logf("%s: sees %d of %d packets, knows %d of %d", name, seen, packets, knownToo, known)
		require.Positive(t, known, name)
		require.Greater(t, knownToo*100, known*96, name)
		require.Less(t, seen*10, packets*7, name)
	}
}

// A capture is not written through a symbolic link.
func TestCaptureSymlink(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
	require.NoError(t, os.WriteFile(target, []byte("kept"), 0o600))
	require.NoError(t, os.Symlink(target, link))
	_, err := openCapture(link, nil)
	require.ErrorIs(t, err, errSymlink)
	require.Equal(t, "kept", string(wiretest.Must(os.ReadFile(target))(t)))
	c := wiretest.Must(openCapture(target, nil))(t)
	require.NoError(t, c.file.Close())
}
