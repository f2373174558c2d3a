package run

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/config"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/fastpath"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/qdisc"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/roles"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/reaction"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

//go:embed testdata/*.toml
var configs embed.FS

// readConfig returns a configuration from testdata.
func readConfig(name string) string {
	octets, err := configs.ReadFile("testdata/" + name + ".toml")
	if err != nil {
		panic(err)
	}
	return string(octets)
}

// Each error of a file names its key and line.
func TestWrongFiles(t *testing.T) {
	good := readConfig("switch")
	const methods, mark = `methods = [{ senders = "::/0", method = "fastcnp" }]`, `marking = "elsewhere"` + "\n"
	f := wiretest.Must(parseFile([]byte(good)))(t)
	require.Len(t, f.listWarnings(), 1)
	require.Contains(t, f.listWarnings()[0], "role.switch: no limit")
	for _, limit := range []struct{ of, key string }{
		{"self", `per_flow = "100us"`}, {"self", `rate = { per_second = 5 }`}, {"self", `limits = "none"`},
		{"[role.switch]", "per_second = 5"},
	} {
		t.Run(limit.key, func(t *testing.T) {
			f := wiretest.Must(parseFile([]byte(strings.Replace(good, limit.of, limit.key+"\n"+limit.of, 1))))(t)
			require.Empty(t, f.listWarnings())
		})
	}
	kernel := strings.NewReplacer(`"packet"`, `"qdisc"`+"\nlevels = [5]", `sink = "b"`, `mode = "kernel"`).Replace(good)
	deep := strings.Replace(strings.Replace(good, `"packet"`, `"psample"`, 1), `interfaces = ["eth0"]`, `group = 1`, 1)
	f = wiretest.Must(parseFile([]byte(kernel)))(t)
	require.Contains(t, f.formatSummary(), "AmbientCapabilities=CAP_BPF CAP_NET_ADMIN CAP_PERFMON\n")
	require.Contains(t, f.formatSummary(), "role.switch: the kernel answers at eth0\n")
	for _, c := range []struct {
		name string
		bind bool
	}{{":80", true}, {"[::1]:1023", true}, {"127.0.0.1:9479", false}, {":0", false}} {
		t.Run(c.name, func(t *testing.T) {
			f.agent.HTTP = c.name
			require.Equal(t, c.bind, strings.Contains(f.formatSummary(), "CAP_NET_BIND_SERVICE"))
		})
	}
	k, err := (&file{sources: f.sources}).buildKernelConfig(instance(t, strings.Replace(kernel, mark+methods, `
methods = [{ senders = "::/0", method = "fastcnp" }, { senders = "fd00::/8", method = "mark" }]
capable = [{ senders = "fd00:1::/32", capable = "no" }, { senders = "2001:db8::/32", capable = "yes" },
	{ senders = "2001:db8:1::/48", capable = "unknown" }, { senders = "10.0.0.0/8", capable = "yes" }]
`, 1)))
	require.NoError(t, err)
	policies := map[string]fastpath.Policy{}
	for _, s := range k.part.(*kernelSwitch).senders {
		policies[s.Prefix.String()] = s.policy
	}
	require.Equal(t, map[string]fastpath.Policy{
		"::/0": fastpath.NotifyAndMark, "fd00::/8": fastpath.Mark, "fd00:1::/32": fastpath.Mark,
		"2001:db8::/32": fastpath.Notify, "2001:db8:1::/48": fastpath.NotifyAndMark, "10.0.0.0/8": fastpath.Nothing,
	}, policies)
	_, err = parseFile([]byte(strings.Replace(strings.Replace(kernel, methods,
		`methods = [{ senders = "0.0.0.0/0", method = "mark" }]`, 1), `["2001:db8::5"]`, `["192.0.2.5"]`, 1)))
	require.NoError(t, err, "an IPv4 address is enough to mark")
	other := "[[role.switch]]\nenabled = true\nsources = [\"a\"]\nsink = \"c\"\nself = [\"2001:db8::5\"]\n" +
		methods + "\n[sink.c]\ntype = \"raw\"\n[[role.switch]]"
	translates := readConfig("translate")
	f = wiretest.Must(parseFile([]byte(translates)))(t)
	require.Contains(t, f.formatSummary(),
		"role.sender: the kernel translates Fast CNPs at eth0, and drops those it cannot; PPFC go on to 2001:db8::5\n"+
			"not used: source.d, sink.b\nAmbientCapabilities=CAP_BPF CAP_NET_ADMIN\n")
	f = wiretest.Must(parseFile([]byte(strings.Replace(translates, `["a"]`, "[\"a\", \"d\"]\nsink = \"b\"", 1))))(t)
	require.Contains(t, f.formatSummary(), "eth0; others, and PPFC, are the agent's\n")
	learns := good[:strings.Index(good, "[role")] + `[role.ingress]
enabled = true
sources = ["a"]
sink = "b"
labels = "learn"
tunnel = { src = "2001:db8:fe::1" }
accept = ["2001:db8::/32"]
cnp = ["2001:db8::5"]
`
	proxy := readConfig("messages")
	const second = "[source.c]\ntype = \"udp\"\nlisten = [\"[::1]:8\", \"[::1]:9\"]\n[role.proxy]"
	_, err = parseFile([]byte(strings.Replace(proxy, "[role.proxy]", second, 1))) // no role uses it
	require.NoError(t, err)
	_, err = parseFile([]byte(learns))
	require.NoError(t, err)
	files := map[string]string{"good": good, "kernel": kernel, "deep": deep, "learns": learns, "translates": translates,
		"proxy": proxy, "proxy of a, b and c": strings.Replace(proxy, `"b"]`, `"b", "c"]`, 1),
		"routed":                 readConfig("routed"),
		"kernel that observes c": strings.Replace(kernel, `["a"]`, "[\"a\"]\nobserve = [\"c\"]", 1)}
	for _, c := range wiretest.Cases(t, "wrong.txt", "(nothing)", "", `\n`, "\n") {
		in, old, replacement, message := files[c[0]], c[1], c[2], c[3]
		t.Run(message, func(t *testing.T) {
			require.Contains(t, in, old)
			_, err := parseFile([]byte(strings.Replace(in, old, replacement, 1)))
			require.ErrorContains(t, err, message)
		})
	}
	_, err = parseFile([]byte(strings.Replace(kernel, "[role.switch]", other, 1)))
	require.ErrorContains(t, err, `role.switch[1].sources[0]: role.switch[0] has eth0 already: both would answer`)
}

// The program for a sender has the keys of its role.
func TestKeysOfTranslator(t *testing.T) {
	f := wiretest.Must(parseFile([]byte(readConfig("translate") +
		"accept = [\"2001:db8:f::/48\"]\nwindow = \"7ms\"\nreceivers = false\n")))(t)
	k := f.kernels["sender"].part.(*kernelTranslator)
	require.Equal(t, netip.MustParseAddr("2001:db8::5"), k.Host)
	require.Equal(t, []string{"eth0"}, k.Interfaces)
	require.Equal(t, []netip.Prefix{netip.MustParsePrefix("2001:db8:f::/48")}, k.accept)
	require.Equal(t, 7*time.Millisecond, k.Window)
	require.False(t, k.Receivers)
	require.True(t, k.Drop, "nobody else reads Fast CNPs")
}

// A port has one switch in the kernel, as two would answer twice.
func TestKernelPortTwice(t *testing.T) {
	const queue = "[source.%]\ntype = \"qdisc\"\ninterfaces = [\"eth1\", \"eth0\"]\nlevels = [9]\n"
	const role = "[[role.switch]]\nenabled = true\nmode = \"kernel\"\nsources = [%]\nself = [\"2001:db8::5\"]\n" +
		"methods = [{ senders = \"::/0\", method = \"mark\" }]\n"
	sources := strings.ReplaceAll(queue, "%", "a") + strings.ReplaceAll(queue, "%", "b")
	_, err := parseFile([]byte(sources + strings.ReplaceAll(role, "%", `"a", "b"`)))
	require.ErrorContains(t, err, "role.switch[0].sources[1]: role.switch has eth1 already")
	_, err = parseFile([]byte(sources + strings.ReplaceAll(role, "%", `"a"`) + strings.ReplaceAll(role, "%", `"b"`)))
	require.ErrorContains(t, err, "role.switch[1].sources[0]: role.switch[0] has eth1 already")
	_, err = parseFile([]byte(strings.Replace(sources, "eth1", "eth2", 1) +
		strings.ReplaceAll(role, "%", `"a"`) + strings.ReplaceAll(role, "%", `"b"`)))
	require.ErrorContains(t, err, "role.switch[1].sources[0]: role.switch[0] has eth0 already")
}

// instance returns the only role of a file.
func instance(t *testing.T, octets string) *roles.Instance {
	t.Helper()
	f := wiretest.Must(parseFile([]byte(octets)))(t)
	require.Len(t, f.roles, 1)
	return f.roles[0]
}

func TestCheck(t *testing.T) {
	check := func(config string, flags ...string) (status int, stdout, stderr string) {
		var out, errors bytes.Buffer
		args := append([]string{"-config", wiretest.File(t, "agent.toml", config)}, flags...)
		status = Check(t.Context(), args, nil, &out, &errors)
		return status, out.String(), errors.String()
	}
	config := readConfig("check")
	there := strings.Replace(config, "FILE", wiretest.Path(t, "messages.pcap"), 1)
	status, stdout, stderr := check(there, "-system")
	require.Equal(t, []any{0, "role.pause: from a\n", ""}, []any{status, stdout, stderr})
	status, _, stderr = check(config, "-system")
	require.Equal(t, 1, status)
	require.Contains(t, stderr, "rocecn check: source.a: FILE: open FILE: no such file or directory\n")
	status, stdout, stderr = check(there + "[sink.b]\ntype = \"raw\"\n")
	require.Equal(t, []any{0, "role.pause: from a\nnot used: sink.b\n", ""}, []any{status, stdout, stderr})
	for _, c := range []struct{ name, at string }{{"", "all interfaces"},
		{`interfaces = ["wan0", "wan1"]`, "wan0, wan1"}} {
		t.Run(c.name, func(t *testing.T) {
			status, stdout, stderr = check("[role.border]\nenabled = true\ninstall = \"nft\"\n" + c.name)
			require.Equal(t, []any{0, "role.border: by nftables at " + c.at + "\nAmbientCapabilities=CAP_NET_ADMIN\n",
				""},
				[]any{status, stdout, stderr})
		})
	}
	status, _, stderr = check("[agent]\nhttp = \"203.0.113.9:9479\"\n"+there, "-system") // an address of another host
	require.Equal(t, 1, status)
	require.Contains(t, stderr, "rocecn check: agent.http: listen tcp 203.0.113.9:9479: ")
	busy := wiretest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer busy.Close()
	status, _, stderr = check("[agent]\nhttp = \""+busy.Addr().String()+"\"\n"+there, "-system")
	require.Zero(t, status)
	require.Regexp(t, "^rocecn check: warning: agent.http: .*: right if it is by the agent, which runs\n$", stderr)
	status, _, stderr = check(there + "pe = []\n")
	require.Equal(t, 2, status)
	require.Contains(t, stderr, "line 9: role.pause.pe: unknown key")
	status = Check(t.Context(), nil, nil, new(bytes.Buffer), new(bytes.Buffer))
	require.Equal(t, 2, status)
	args := []string{"-config", wiretest.File(t, "a", config)}
	status = Run(t.Context(), args, nil, new(bytes.Buffer), new(bytes.Buffer))
	require.Equal(t, 1, status) // a missing capture is a permanent error
}

// check reports each source, sink and address that cannot be opened, also if several cannot.
func TestCheckReportsAll(t *testing.T) {
	config := "[agent]\nhttp = \"203.0.113.9:9479\"\n" // an address of another host
	for _, name := range []string{"a", "b"} {
		config += fmt.Sprintf("[source.%s]\ntype = \"capture\"\nfile = \"/none/%s\"\n", name, name)
	}
	config += "[sink.out]\ntype = \"capture\"\nfile = \"/none/c\"\n" +
		"[role.receiver]\nenabled = true\nsources = [\"a\", \"b\"]\nsink = \"out\"\n" + everyRole["receiver"]
	var stderr bytes.Buffer
	args := []string{"-config", wiretest.File(t, "agent.toml", config), "-system"}
	status := Check(t.Context(), args, nil, io.Discard, &stderr)
	require.Equal(t, 1, status)
	for _, want := range []string{"source.a: ", "source.b: ", "sink.out: ", "agent.http: "} {
		require.Equal(t, 1, strings.Count(stderr.String(), "rocecn check: "+want), stderr.String())
	}
}

// All missing interfaces of borders are named in one line.
func TestMissingInterfacesOfBorder(t *testing.T) {
	f := wiretest.Must(parseFile([]byte("[role.border]\nenabled = true\ninstall = \"nft\"\n" +
		"interfaces = [\"none0\", \"none1\"]\n")))(t)
	require.Equal(t, "role.border: none0: no such interface, role.border: none1: no such interface",
		f.describeMissingInterfaces())
}

// The summary names the sources and the sink of each role.
func TestSummaryNamesSinks(t *testing.T) {
	f := wiretest.Must(parseFile([]byte("[source.a]\ntype = \"capture\"\nfile = \"a.pcap\"\n" +
		"[source.b]\ntype = \"capture\"\nfile = \"b.pcap\"\n" +
		"[sink.out]\ntype = \"raw\"\n[sink.file]\ntype = \"capture\"\nfile = \"out.pcap\"\n" +
		"[role.proxy]\nenabled = true\nsources = [\"a\", \"b\"]\nsink = \"out\"\n" + everyRole["proxy"] +
		"[role.switch]\nenabled = true\nsources = [\"b\"]\nsink = \"file\"\n" + everyRole["switch"])))(t)
	require.Contains(t, f.formatSummary(), "role.proxy: from a, b to out\n")
	require.Contains(t, f.formatSummary(), "role.switch: from b to file\n")
}

// check does not write to a capture.
func TestCheckCaptureSink(t *testing.T) {
	name := filepath.Join(t.TempDir(), "sent.pcap")
	check := func() (status int, stderr string) {
		var output bytes.Buffer
		config := wiretest.File(t, "agent.toml", fmt.Sprintf(readConfig("receiver"), wiretest.Path(t, "messages.pcap"),
			name, everyRole["receiver"]))
		status = Check(t.Context(), []string{"-config", config, "-system"}, nil, io.Discard, &output)
		return status, output.String()
	}
	status, stderr := check()
	require.Zero(t, status, stderr)
	require.NoFileExists(t, name)
	require.NoError(t, os.WriteFile(name, []byte("old"), 0o600))
	status, stderr = check()
	require.Zero(t, status, stderr)
	require.Equal(t, "old", string(octetsOf(t, name)))
	name = filepath.Join(name+".d", "sent.pcap")
	status, stderr = check()
	require.Equal(t, 1, status)
	require.Contains(t, stderr, "rocecn check: sink.out: open "+name+": no such file or directory\n")
}

// A damaged capture is an error after the packets before the damage.
func TestDamagedCapture(t *testing.T) {
	octets := octetsOf(t, wiretest.Path(t, "messages.pcap"))
	file := wiretest.File(t, "cut.pcap", string(octets[:len(octets)-5]))
	var stdout, stderr bytes.Buffer
	status := Run(t.Context(), []string{"-dry-run", "-config", wiretest.File(t, "agent.toml", `
[source.a]
type = "capture"
file = "`+file+`"
[role.border]
enabled = true
sources = ["a"]
`)}, nil, &stdout, &stderr)
	require.Equal(t, 1, status)
	require.Contains(t, stderr.String(), "the file ends early")
	require.Greater(t, strings.Count(stdout.String(), "\n"), 10)
}

// An invalid or missing configuration is an error of its flag.
func TestRunWithInvalidFile(t *testing.T) {
	for _, c := range []struct{ name, file, message string }{
		{"invalid", wiretest.File(t, "agent.toml", "[source.a]\ntype = \"pakcet\"\n"),
			`line 2: source.a.type: "pakcet": want one of `},
		{"missing", filepath.Join(t.TempDir(), "none.toml"), "no such file or directory\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			require.Equal(t, 2, Run(t.Context(), []string{"-config", c.file}, nil, &stdout, &stderr))
			require.Empty(t, stdout.String())
			require.Equal(t, 1, strings.Count(stderr.String(), "\n"), stderr.String())
			require.True(t, strings.HasPrefix(stderr.String(), "rocecn run: -config "+c.file+": "), stderr.String())
			require.Contains(t, stderr.String(), c.message)
		})
	}
}

// A dry run ends quietly when its reader closes the pipe, and with an error when it cannot write.
func TestDryRunIsNotRead(t *testing.T) {
	config := wiretest.File(t, "agent.toml", `
[source.a]
type = "capture"
file = "`+wiretest.Path(t, "messages.pcap")+`"
[source.b]
type = "udp"
listen = ["127.0.0.1:11022"]
[role.border]
enabled = true
sources = ["a", "b"]
`)
	ctx, cancel := context.WithTimeout(t.Context(), wiretest.Timeout)
	defer cancel()
	var stderr bytes.Buffer
	in, out := io.Pipe()
	in.Close()
	require.Zero(t, Run(ctx, []string{"-dry-run", "-config", config}, nil, out, &stderr), stderr.String())
	require.NoError(t, ctx.Err())
	require.NotContains(t, stderr.String(), "closed")
	in, out = io.Pipe()
	in.CloseWithError(syscall.ENOSPC)
	require.Equal(t, 1, Run(ctx, []string{"-dry-run", "-config", config}, nil, out, &stderr))
	require.NoError(t, ctx.Err())
	require.Contains(t, stderr.String(), `msg="the agent failed" error="no space left on device"`)
}

// No sink may overwrite another file of the configuration, by any name, whether it exists or not.
func TestSameFiles(t *testing.T) {
	folder := t.TempDir()
	t.Chdir(folder)
	require.NoError(t, os.Mkdir("sub", 0o700))
	require.NoError(t, os.Symlink("sub", "link"))
	require.NoError(t, os.WriteFile("there.pcap", nil, 0o600))
	require.NoError(t, os.Link("there.pcap", "hard.pcap"))
	require.NoError(t, os.Symlink("sub/not.pcap", "not.pcap"))
	require.NoError(t, os.Symlink("loop.pcap", "loop.pcap"))
	const two = "[sink.a]\ntype = \"capture\"\nfile = \"ONE\"\n[TWO.b]\ntype = \"capture\"\nfile = \"OTHER\"\n"
	for _, c := range []struct{ one, two, other, message string }{
		{"a.pcap", "source", "./a.pcap", "line 3: sink.a.file: the file is already used by source.b"},
		{"a.pcap", "sink", "a.pcap", "line 6: sink.b.file: the file is already used by sink.a"},
		{"a.pcap", "sink", folder + "/a.pcap", "line 6: sink.b.file: the file is already used by sink.a"},
		{"sub/a.pcap", "sink", "link/a.pcap", "line 6: sink.b.file: the file is already used by sink.a"},
		{"there.pcap", "sink", "hard.pcap", "line 6: sink.b.file: the file is already used by sink.a"},
		{"not.pcap", "sink", "sub/not.pcap", "line 6: sink.b.file: the file is already used by sink.a"},
		{"loop.pcap", "sink", "a.pcap", ""},
		{"a.pcap", "sink", "sub/../agent.toml", "line 6: sink.b.file: the file is already used by this configuration"},
		{"sub/a.pcap", "sink", "a.pcap", ""},
		{"sub/a.pcap", "source", "a.pcap", ""},
		{"there.pcap", "sink", "a.pcap", ""},
		{"/dev/null", "sink", "/dev/null", ""},
	} {
		config := strings.NewReplacer("ONE", c.one, "TWO", c.two, "OTHER", c.other).Replace(two)
		require.NoError(t, os.WriteFile("agent.toml", []byte(config), 0o600))
		_, err := readFile(t.Context(), filepath.Join(folder, "agent.toml"))
		if c.message == "" {
			require.NoError(t, err, config)
		} else {
			require.EqualError(t, err, c.message)
		}
	}
}

// The kernel's counters have one for each kind of message, also for a kind added later.
func TestEveryKindIsCountedInTheKernel(t *testing.T) {
	for kind := message.KindOther; kind.String() != fmt.Sprintf("Kind(%d)", uint8(kind)); kind++ {
		require.Less(t, int(kind), len(kernelCounts{}.sent), kind)
	}
}

// Each kind that a role may send has a metric: a new kind is in kinds or here.
func TestEveryKindSentHasAMetric(t *testing.T) {
	others := []message.Kind{message.KindOther, message.KindError, message.KindData, message.KindAck,
		message.KindUnknownOption,
		message.KindPFC, message.KindPause}
	for kind := message.KindOther; kind.String() != fmt.Sprintf("Kind(%d)", uint8(kind)); kind++ {
		require.NotEqual(t, slices.Contains(others, kind), slices.Contains(kinds, kind), kind)
	}
}

// The agent keeps the promises of docs/stability.md: metrics with their labels, and fields of /status.
func TestPromised(t *testing.T) {
	config := readConfig("status")
	for role, keys := range everyRole {
		if strings.Contains(role, " ") { // a second role of its kind
			continue
		}
		config += "[role." + role + "]\nenabled = true\nsources = [\"in\"]\n"
		if role == "switch" {
			config += "observe = [\"also\", \"routers\"]\nproxies_from = \"routing\"\npnc_code = 65281\n"
		}
		config += sinkOf(role) + keys
	}
	s := prepared(t, config)
	// Its counters after packets have arrived.
	s.parts[0].published.Store(&[]queue{{name: "swp1"}})
	s.file.agent.HTTP = "127.0.0.1:9479"
	s.border.dropped = map[borderDrops]uint64{{"border", "fast_cnp"}: 1}
	for _, a := range s.actors {
		a.outcomes[node.NoAction].Add(1)
		if a.instance.Role == "switch" {
			a.depth, a.deep = 100, true
			a.Role.(*roles.Switch).Level = 3
			a.handleDecision(&node.Decision{Action: node.ActionSent, Message: message.KindFastCNP,
				To: netip.MustParseAddr("2001:db8:1::a"), Flow: qpmap.Key{FlowKey: rocev2.FlowKey{
					Src: netip.MustParseAddr("2001:db8:1::a"), Dst: netip.MustParseAddr("2001:db8:4::e"), DestQP: 17}},
			}, nil, false)
		}
		a.updateSizes(time.Now())
		if a.rates != nil {
			a.rateStats.Store(new(reaction.TableStats))
		}
	}
	table := s.file.sources["routers"].source.(*bmpSource).table
	router := wiretest.Must(table.Open(netip.MustParseAddr("192.0.2.1"), time.Now()))(t)
	// Initiation with sysName (RFC 7854 section 4.3).
	require.NoError(t, router.Receive([]byte{3, 0, 0, 0, 14, 4, 0, 2, 0, 4, 'l', 'e', 'a', 'f'}, time.Now()))
	facts := map[string]bool{}
	wiretest.Metrics(string(s.formatMetrics()), func(name, what string) {
		facts[fmt.Sprintf("metric %s %s", name, what)] = true
	})

	text := wiretest.Must(json.Marshal(s.buildStatus()))(t)
	var status any
	require.NoError(t, json.Unmarshal(text, &status))
	wiretest.Fields("", status, func(path, kind string) { facts[fmt.Sprintf("status %s %s", path, kind)] = true })
	wiretest.Promised(t, "agent.txt", facts)
}

// The uncommented keys of the reference file have the values of their defaults. Only keys that a source or sink
// requires are examples.
func TestReferenceHasDefaults(t *testing.T) {
	f := wiretest.Must(parseFile([]byte(reference)))(t)
	require.Empty(t, f.roles)

	def := agentConfig{}
	decisions := def.decisionLimit()
	def.Log.Level, def.Log.Format, def.Log.Decisions = "info", "text", &decisions
	require.Equal(t, def, f.agent)
	for name, s := range f.sources {
		least := []byte("type = \"" + s.Type + "\"\n")
		for _, key := range []string{"interfaces", "listen", "group", "file", "levels"} {
			if !slices.Contains(config.Keys(s.source), key) && (key != "levels" || s.Type != "qdisc") {
				continue
			}
			line := regexp.MustCompile(`(?s)\[source\.` + name + `\].*?\n(` + key + ` = [^\n]*)`)
			least = append(least, line.FindStringSubmatch(reference)[1]+"\n"...)
		}
		other, err := parseFile(append([]byte("[source.x]\n"), least...))
		require.NoError(t, err, "%s: %s", name, least)
		require.Equal(t, s.source, other.sources["x"].source)
		require.Nil(t, other.sources["x"].Level)
		require.Equal(t, s.levelThresholds(), other.sources["x"].levelThresholds())
		require.True(t, s.Required == nil || *s.Required)
	}
	for _, s := range f.sinks {
		require.Zero(t, s.PerSecond)
	}
	// Disabled roles: they are equal with and without the keys of the file.
	require.Equal(t, []string{"agent"}, regexp.MustCompile(`\nmode = "(.*?)"`).FindStringSubmatch(reference)[1:])
	require.Equal(t, []string{"report"}, regexp.MustCompile(`\nact = "(.*?)"`).FindStringSubmatch(reference)[1:])
}

// The reference file has all keys, except keys of roles that docs/roles explains, and is valid with its examples.
func TestReferenceHasAllKeys(t *testing.T) {
	has := func(key string) {
		t.Helper()
		require.Regexp(t, `(?m)^(# )?`+key+` = `, reference)
	}
	for _, key := range config.Keys(agentConfig{}) {
		if key != "log" {
			has(key)
		}
	}
	for _, key := range config.Keys(sourceCommon{}) {
		has(key)
	}
	for _, key := range config.Keys(sinkCommon{}) {
		has(key)
	}
	for _, key := range config.Keys(roles.Agent{}) {
		has(key)
	}
	for kind, s := range sources {
		require.Contains(t, reference, `type = "`+kind+`"`)
		for _, key := range config.Keys(s()) {
			has(key)
		}
	}
	for kind, s := range sinks {
		require.Contains(t, reference, `type = "`+kind+`"`)
		for _, key := range config.Keys(s()) {
			has(key)
		}
	}
	for _, name := range roles.Names() {
		require.Contains(t, reference, "\n[role."+name+"]\nenabled = false\n")
	}

	on := regexp.MustCompile(`(?m)^# ([a-z_]+ = )`).ReplaceAllString(reference, "$1")
	on = strings.ReplaceAll(on, "enabled = false", "enabled = true")
	on = strings.Replace(on, `install = "none"`, `install = "nft"`, 1)
	f := wiretest.Must(parseFile([]byte(on)))(t)
	require.Len(t, f.roles, 7)
	require.Empty(t, f.listWarnings())
	require.Contains(t, f.formatSummary(),
		"\nnot used: source.asic, source.rehearsal, source.rejections, source.routers, sink.file\n")
	require.Contains(t, f.formatSummary(),
		"AmbientCapabilities=CAP_BPF CAP_NET_ADMIN CAP_NET_BIND_SERVICE CAP_NET_RAW CAP_PERFMON\n")

	var out, stderr bytes.Buffer
	require.Zero(t, Run(t.Context(), []string{"-reference"}, nil, &out, &stderr))
	require.Equal(t, reference, out.String())

	// As written, no role is on, and the file is valid.
	out.Reset()
	args := []string{"-config", wiretest.File(t, "agent.toml", reference)}
	require.Zero(t, Check(t.Context(), args, nil, &out, &stderr))
	require.Equal(t, []string{"no role is on\n", ""}, []string{out.String(), stderr.String()})
}

// The configurations on the pages of the roles are valid, without warnings.
func TestDocuments(t *testing.T) {
	docs := filepath.Join(wiretest.Root(t), "docs")
	var blocks [][][]byte
	pages := wiretest.Must(filepath.Glob(filepath.Join(docs, "roles", "*.md")))(t)
	for _, page := range pages {
		blocks = append(blocks, regexp.MustCompile("(?s)```toml\n(.*?)```").FindAllSubmatch(octetsOf(t, page), -1)...)
	}
	require.Len(t, blocks, 11)
	for _, b := range blocks {
		f, err := parseFile(b[1])
		require.NoError(t, err, "%s", b[1])
		require.Len(t, f.roles, 1)
		require.Empty(t, f.listWarnings(), "%s", b[1])
	}
	octets := octetsOf(t, filepath.Join(docs, "running.md"))
	for kind := range sources {
		require.Contains(t, string(octets), "\n| `"+kind+"` |")
	}
	for _, m := range regexp.MustCompile("`(rocecn_[a-z_]+)").FindAllSubmatch(octets, -1) {
		if name := string(m[1]); name != "rocecn_host" {
			border := prepared(t, "[role.border]\nenabled = true\ninstall = \"nft\"")
			require.Contains(t, string(border.formatMetrics()), name)
		}
	}
}

// Requirements of a sender that shapes, and keys that exclude each other.
func TestWrongShaping(t *testing.T) {
	good := readConfig("shape")
	f, err := parseFile([]byte(good))
	require.NoError(t, err)
	require.Empty(t, f.listWarnings())
	require.Contains(t, f.formatSummary(),
		"role.sender: the kernel slows flows down that leave by eth0, eth1, where fq "+
			"is installed unless another qdisc was configured\nnot used: sink.b\n"+
			"AmbientCapabilities=CAP_BPF CAP_NET_ADMIN CAP_NET_RAW\n")
	for _, c := range wiretest.Cases(t, "shaping.txt", "(nothing)", "", `\n`, "\n") {
		require.Contains(t, good, c[0])
		_, err := parseFile([]byte(strings.Replace(good, c[0], c[1], 1)))
		require.ErrorContains(t, err, c[2])
	}
	_, err = parseFile([]byte(strings.Replace(good, "enabled = true", "enabled = false", 1)))
	require.NoError(t, err, "off")
}

// A source of type qdisc delivers all packets of tunnels if a switch notifies PEs of any of them.
func TestSourcesOfAnyTunnel(t *testing.T) {
	config := strings.Replace(readConfig("queue"), "sources =", "pe = [\"2001:db8:ffff::/48\"]\nsources =", 1)
	for _, c := range []struct {
		fcn  string
		want qdisc.Tunnels
	}{{"rocev2", qdisc.NoTunnels}, {"any", qdisc.AllTunnels}} {
		t.Run(c.fcn, func(t *testing.T) {
			f := wiretest.Must(parseFile([]byte(config + "fcn = \"" + c.fcn + "\"\n")))(t)
			inputs := f.sources["queues"].source.listInputs()
			require.Len(t, inputs, 1)
			require.Contains(t, inputs[0].key, fmt.Sprintf("Tunnels:%d ", c.want))
		})
	}
}

const deviceSource = "[source.in]\ntype = \"psample\"\ngroup = 1\n[sink.out]\ntype = \"raw\"\n"

// The warning of a role without a limit names keys that the role has, and each of them ends it.
func TestLimitKeys(t *testing.T) {
	values := map[string]string{"rate": "{ per_second = 5 }", "rate_out": "{ per_second = 5 }"}
	limits := regexp.MustCompile(`(?m)^(per_flow|interval|per_source|window|rate|rate_out) = .*\n`)
	for role, keys := range limitKeys {
		config := deviceSource + "[role." + role + "]\nenabled = true\nsources = [\"in\"]\nsink = \"out\"\n" +
			limits.ReplaceAllString(everyRole[role], "")
		for _, key := range strings.FieldsFunc(keys, func(r rune) bool { return r == ' ' || r == ',' }) {
			if key == "or" {
				continue
			}
			t.Run(role+" "+key, func(t *testing.T) {
				before := wiretest.Must(parseFile([]byte(config)))(t)
				require.Contains(t, strings.Join(before.listWarnings(), "\n"), "set "+keys+", or per_second")
				value := cmp.Or(values[key], `"1ms"`)
				after := wiretest.Must(parseFile([]byte(config + key + " = " + value + "\n")))(t)
				require.NotContains(t, strings.Join(after.listWarnings(), "\n"), "no limit")
			})
		}
	}
}

// A switch warns that it cannot mark only if one of its methods marks.
func TestMarkWarning(t *testing.T) {
	for _, c := range []struct {
		method string
		marks  bool
	}{{"fastcnp", true}, {"mark", true}, {"proxy", false}, {"fcn", false}, {"ppfc", false}, {"none", false}} {
		t.Run(c.method, func(t *testing.T) {
			f := wiretest.Must(parseFile([]byte(strings.Replace(readConfig("queue"), "fastcnp", c.method, 1))))(t)
			require.Equal(t, c.marks, strings.Contains(strings.Join(f.listWarnings(), "\n"), "cannot mark"))
		})
	}
}
