package conform

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	agent "github.com/rocecn/rocecn/cmd/rocecn/internal/run"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/netio"
)

const isAgent = "ROCECN_TEST_AGENT"

func TestMain(m *testing.M) {
	if os.Getenv(isAgent) == "" {
		wiretest.CollectRarely(800) // nearly all memory is garbage: frames
		stopTimeout = time.Minute
		os.Exit(m.Run())
	}
	ctx, _ := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	os.Exit(agent.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// startAgent starts rocecn run on a host, and waits until it is ready.
func startAgent(t *testing.T, h *wiretest.Host, config string) {
	t.Helper()
	file := wiretest.File(t, "agent.toml", "[agent]\nlog = { decisions = 0 }\n"+config)
	cmd := exec.Command(wiretest.Must(os.Executable())(t), "-config", file)
	cmd.Env = append(os.Environ(), isAgent+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stderr := wiretest.Must(cmd.StderrPipe())(t)
	h.Do(t, cmd.Start)
	var mu sync.Mutex
	var output bytes.Buffer
	ready, ended := make(chan bool, 1), make(chan bool)
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			mu.Lock()
			fmt.Fprintln(&output, lines.Text())
			mu.Unlock()
			if strings.Contains(lines.Text(), "msg=ready") {
				ready <- true
			}
		}
		cmd.Wait()
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-ended
		if t.Failed() {
			t.Log(output.String())
		}
	})
	select {
	case <-ready:
	case <-ended:
		t.Fatal("the agent ended: " + output.String())
	}
}

// A bench is a tester and a device, joined by ports for senders, receivers and control.
type bench struct{ tester, device *wiretest.Host }

// newBench joins a tester to a device that routes. The prefixes of senders and receivers are routed to the tester,
// which has no addresses in its kernel.
func newBench(t *testing.T) bench {
	t.Helper()
	return newBenchWith(t, nil)
}

// newBenchWith is newBench with a host in the link of the senders that changes the packets of the device, if out is not
// nil.
func newBenchWith(t *testing.T, out *atomic.Pointer[changer]) bench {
	t.Helper()
	b := bench{wiretest.NewHost(t, "t"), wiretest.NewHost(t, "d")}
	b.tester.Do(t, func() error {
		return os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte("1"), 0)
	})
	for i, name := range []string{"t0", "t1", "t2"} {
		near := wiretest.End{Host: b.tester, Device: name}
		if i == 0 && out != nil {
			near = changeBetween(t, near, out)
		}
		wiretest.Link(t, near, wiretest.End{Host: b.device,
			Device:    fmt.Sprintf("d%d", i),
			Addresses: []string{fmt.Sprintf("2001:db8:%d::1/64", i+1), fmt.Sprintf("10.0.%d.1/24", i+1)}})
	}
	b.device.Do(t, func() error {
		for _, file := range []string{"ipv6/conf/all/forwarding", "ipv4/ip_forward"} {
			if err := os.WriteFile("/proc/sys/net/"+file, []byte("1"), 0); err != nil {
				return err
			}
		}
		return nil
	})
	b.device.Run(t, `addr add 2001:db8:ffff::5/128 dev lo
route add 2001:db8:a::/48 via 2001:db8:1::a
route add 2001:db8:f::/48 via 2001:db8:2::b
route add 10.10.0.0/16 dev d0
route add 10.15.0.0/16 dev d1
`, "ip", "-batch", "-")
	wiretest.AwaitLinks(t, b.tester, b.device)
	return b
}

// slow gives the port to the receivers a rate that the tester exceeds.
func (b bench) slow(t *testing.T) {
	t.Helper()
	out, err := b.device.TryRun("", wiretest.Tool(t, "tc"), "qdisc", "replace", "dev", "d1", "root", "tbf", "rate",
		"10mbit", "burst", "5000", "limit", "60000")
	if err != nil {
		wiretest.NotInKernel(t, "CONFIG_NET_SCH_TBF", out)
	}
}

// conform runs the suite on the bench, and returns the results by case and the exit status. tshark reads each capture.
func (b bench) conform(t *testing.T, profile string, args ...string) (results map[string]result, status int) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "profile.toml")
	require.NoError(t, os.WriteFile(file, []byte(profile), 0o600))
	var out, messages bytes.Buffer
	args = append([]string{"-profile", file, "-json", "-capture", dir}, args...)
	b.tester.Do(t, func() error {
		status = Run(t.Context(), args, nil, &out, &messages)
		return nil
	})
	require.Empty(t, messages.String())
	results = map[string]result{}
	for line := range strings.Lines(out.String()) {
		var r result
		require.NoError(t, json.Unmarshal([]byte(line), &r))
		if r.Case != "" {
			results[r.Case] = r
			t.Logf("%s %s %s: %s (%.1f s)", r.Case, r.Level, r.Verdict, r.Seen, r.Seconds)
		}
	}
	checkCaptures(t, dir, results)
	return results, status
}

// checkCaptures requires that tshark finds nothing malformed in the captures, and that each packet has the id of the
// case in its comment.
func checkCaptures(t *testing.T, dir string, results map[string]result) {
	t.Helper()
	tshark := wiretest.Tool(t, "tshark")
	merged := filepath.Join(dir, "all.pcapng")
	args := []string{"-a", "-w", merged}
	packets := 0
	for id, r := range results {
		if r.Capture != "" {
			require.Equal(t, id+".pcapng", r.Capture)
			args = append(args, filepath.Join(dir, r.Capture))
			packets++
		}
	}
	require.Positive(t, packets)
	require.NoError(t, exec.Command(wiretest.Tool(t, "mergecap"), args...).Run())
	arguments := []string{"-n", "-r", merged, "-T", "fields", "-e", "frame.comment", "-e", "_ws.malformed", "-o",
		"infiniband.rroce.port:4791"}
	for _, port := range []string{"1021", "1022", "1121", "1122"} { // FCNs may look like RTCP
		arguments = append(arguments, "-d", "udp.port=="+port+",data")
	}
	cmd := exec.Command(tshark, arguments...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "WIRESHARK_CONFIG_DIR="+dir)
	text, err := cmd.Output()
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		comment, malformed, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		id, direction, _ := strings.Cut(comment, " ")
		require.Contains(t, results, id)
		require.Contains(t, []string{"sent", "received"}, direction)
		require.Empty(t, malformed, comment)
	}
}

// conformRepeated runs a case until it is not inconclusive, at most some times, as a busy machine makes it so.
func (b bench) conformRepeated(t *testing.T, profile, id string) (results map[string]result, status int) {
	t.Helper()
	for tries := 0; tries == 0 || tries < busyTries && hasTime(t); tries++ {
		if results, status = b.conform(t, profile, "-case", id); results[id].Verdict != inconclusive {
			break
		}
	}
	return results, status
}

// requirePass runs inconclusive cases again, some times, as a busy machine makes them so, and requires that each case
// passes or is allowed not to apply.
func (b bench) requirePass(t *testing.T, profile string, results map[string]result, allowed map[string]string) {
	t.Helper()
	for tries := 0; tries < busyTries && hasTime(t); tries++ {
		var left []string
		for id, r := range results {
			if _, ok := allowed[id]; !ok && r.Verdict == inconclusive {
				left = append(left, id)
			}
		}
		if len(left) == 0 {
			break
		}
		again, _ := b.conform(t, profile, "-case", strings.Join(left, ","))
		maps.Copy(results, again)
	}
	notPassed(t, results, allowed)
}

const switchAgent = `
[source.queues]
type = "qdisc"
interfaces = ["d1"]
levels = [5000, 15_000, 30_000]
tunnels = true
[source.rejections]
type = "icmpv6"
listen = ["2001:db8:ffff::5"]
[sink.net]
type = "raw"
per_second = 20_000
[role.switch]
enabled = true
sources = ["queues"]
observe = ["rejections"]
sink = "net"
self = ["2001:db8:ffff::5", "10.0.1.1"]
methods = [
	{ senders = "2001:db8:a:1::/64", method = "fastcnp" }, { senders = "2001:db8:a:2::/64", method = "ppfc" },
	{ senders = "2001:db8:a:3::/64", method = "proxy" }, { senders = "2001:db8:a:4::/64", method = "fcn" },
	{ senders = "10.10.0.0/18", method = "ppfc" }, { senders = "10.10.64.0/18", method = "proxy" },
	{ senders = "10.10.192.0/18", method = "fcn" },
]
proxies = [{ senders = "::/0", proxy = "2001:db8:3::9" }, { senders = "0.0.0.0/0", proxy = "2001:db8:3::9" }]
pe = ["2001:db8:a:5::/64"]
ppfc = { alarm = 1, hold = 2, stop = 3 }
per_flow = "20ms"
probe = "1h"
marking = "elsewhere"
`

// Each case of the switch passes with rocecn run in user space.
func TestSwitchAgent(t *testing.T) {
	wiretest.Once(t)
	t.Parallel()
	b := newBench(t)
	b.slow(t)
	startAgent(t, b.device, switchAgent)
	profile := switchProfile
	results, _ := b.conform(t, profile)
	b.requirePass(t, profile, results, map[string]string{
		"F14.1": `lacks "mark"`, "F14.3": `lacks "mark"`, "F14.4": `lacks "mark"`, "F14.5": `lacks "mark"`,
		"F14.6": `lacks "mark"`, "F34.2": `lacks "ioam"`, "F42.1": `has "option1"`, "W33.1": "does not use this option",
	})
}

// Each case of the switch that is about Fast CNPs passes with rocecn run in the kernel, which also marks.
func TestSwitchKernel(t *testing.T) {
	wiretest.Once(t)
	t.Parallel()
	b := newBench(t)
	b.slow(t)
	config := strings.NewReplacer("tunnels = true\n", "", "sink = \"net\"\n", "mode = \"kernel\"\n",
		`, { senders = "2001:db8:a:2::/64", method = "ppfc" }`, "", "enabled = true", "enabled = true\n"+
			`capable = [{ senders = "2001:db8:a:9::/64", capable = "yes" }]`,
		"ppfc = { alarm = 1, hold = 2, stop = 3 }\n", "", "marking = \"elsewhere\"\n", "").Replace(switchAgent)
	i, j := strings.Index(config, "methods = "), strings.Index(config, "per_flow = ")
	config = config[:i] + `methods = [{ senders = "2001:db8:a::/48", method = "fastcnp" }, ` +
		`{ senders = "10.10.0.0/16", method = "mark" }]` + "\n" + config[j:]
	i, j = strings.Index(config, "[sink.net]"), strings.Index(config, "[role.switch]")
	startAgent(t, b.device, config[:i]+config[j:])
	i, j = strings.Index(switchProfile, "supports = "), strings.Index(switchProfile, "[device.limits]")
	profile := switchProfile[:i] + `supports = ["option1", "ipv4", "ipv6", "mark", "icmpv6-learning"]` + "\n" +
		switchProfile[j:]
	profile = strings.Replace(profile, "pe = ", "capable = [\"2001:db8:a:9::/64\"]\npe = ", 1)
	results, _ := b.conform(t, profile)
	allowed := map[string]string{"F42.1": `has "option1"`}
	for id, r := range results {
		if r.Verdict == notApplicable && strings.HasPrefix(r.Seen, "device.supports lacks ") {
			allowed[id] = "device.supports lacks "
		}
	}
	require.Greater(t, len(results)-len(allowed), 30)
	b.requirePass(t, profile, results, allowed)
}

// The inputs and outputs of roles in the tests.
const (
	accessSource = `
[source.access]
type = "packet"
interfaces = ["d0"]
filter = "rocev2"
direction = "in"
`
	messageSource = `
[source.messages]
type = "udp"
listen = ["[2001:db8:ffff::5]:1021", "[2001:db8:ffff::5]:1022"]
`
	rawSink = `
[sink.net]
type = "raw"
`
)

func TestReceiverAgent(t *testing.T) {
	wiretest.Once(t)
	t.Parallel()
	b := newBench(t)
	startAgent(t, b.device, accessSource+rawSink+`
[role.receiver]
enabled = true
sources = ["access"]
sink = "net"
self = ["2001:db8:1::1", "10.0.1.1"]
learn = true
interval = "5ms"
`)
	profile := subjectProfile("receiver", "2001:db8:d::1", "2001:db8:1::1", "10.13.0.1", "10.0.1.1", `"receiver"
address = "2001:db8:c::9"`, `"sender"
address = "2001:db8:1::a"`)
	results, _ := b.conform(t, profile)
	b.requirePass(t, profile, results, map[string]string{"F21.1": "sends no Fast CNPs", "F42.1": ""})
}

func TestProxyAgent(t *testing.T) {
	wiretest.Once(t)
	t.Parallel()
	b := newBench(t)
	startAgent(t, b.device, `
[source.traffic]
type = "packet"
interfaces = ["d0"]
filter = "rocev2"
`+messageSource+rawSink+`
[role.proxy]
enabled = true
sources = ["messages"]
observe = ["traffic"]
sink = "net"
self = ["2001:db8:ffff::5", "10.0.1.1"]
accept = ["2001:db8:3::9/128"]
senders = [{ prefix = "::/0", send = "cnp" }, { prefix = "0.0.0.0/0", send = "cnp" }]
per_flow = "20ms"
rate_out = { per_second = 200, burst = 10 }
`)
	profile := subjectProfile("proxy")
	results, _ := b.conform(t, profile)
	b.requirePass(t, profile, results, map[string]string{"P43.1": ""})
}

// The kernel must not forward the packets that the agent puts into the tunnel.
func TestIngressAgent(t *testing.T) {
	wiretest.Once(t)
	t.Parallel()
	b := newBench(t)
	b.device.Run(t, `route replace blackhole 2001:db8:f::/48
route add 2001:db8:e::/48 via 2001:db8:2::b
route replace blackhole 10.15.0.0/16
`, "ip", "-batch", "-")
	startAgent(t, b.device, accessSource+messageSource+rawSink+`
[source.wan]
type = "packet"
interfaces = ["d1"]
direction = "in"
[role.ingress]
enabled = true
sources = ["access", "messages"]
observe = ["wan"]
sink = "net"
tunnel = { type = "ipip", src = "2001:db8:ffff::5", dst = "2001:db8:e::2" }
cnp = ["2001:db8:1::1", "10.0.1.1"]
accept = ["2001:db8:3::9/128"]
per_flow = "20ms"
idle = "3s"
`)
	profile := subjectProfile("ingress", congested, "")
	results, _ := b.conform(t, profile)
	b.requirePass(t, profile, results, map[string]string{"W24.1": `congestion.by is "none"`, "W40.1": ""})
}

func TestBorderAgent(t *testing.T) {
	t.Parallel()
	wiretest.Tool(t, "nft")
	b := newBench(t)
	startAgent(t, b.device, `
[role.border]
enabled = true
install = "nft"
interfaces = ["d1"]
`)
	profile := subjectProfile("border", `"2001:db8:ffff::5"`, `"2001:db8:1::1", "2001:db8:2::1",
	"2001:db8:3::1"`)
	results, _ := b.conform(t, profile)
	b.requirePass(t, profile, results, map[string]string{"F42.1": ""})
}

// A changer returns the frames that arrive in place of one of the device.
type changer func(r *memoryRig, port int, frame []byte) []arrival

// changeBetween joins an end to another one, which it returns, by a host that forwards frames and changes those from
// the
// returned end.
func changeBetween(t *testing.T, near wiretest.End, out *atomic.Pointer[changer]) wiretest.End {
	t.Helper()
	h := wiretest.NewHost(t, "m")
	h.Do(t, func() error {
		return os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte("1"), 0)
	})
	wiretest.Link(t, near, wiretest.End{Host: h, Device: "m0"})
	go forwardChanged(t, h, out)
	return wiretest.End{Host: h, Device: "m1"}
}

// forwardChanged forwards between m0 and m1 until the test ends.
func forwardChanged(t *testing.T, h *wiretest.Host, out *atomic.Pointer[changer]) {
	var sources []netio.Source
	var sinks []netio.Sink
	for _, name := range []string{"m0", "m1"} {
		for t.Context().Err() == nil {
			err := h.Try(func() error {
				in, err := netio.OpenPackets(netio.PacketConfig{Interface: name, Direction: netio.In})
				if err != nil {
					return err
				}
				sink, err := netio.OpenPort(name, nil)
				sources, sinks = append(sources, in), append(sinks, sink)
				return err
			})
			if err == nil {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	if len(sources) < 2 {
		return
	}
	poll, err := netio.NewPoll(t.Context(), sources...)
	if err != nil {
		return
	}
	defer poll.Close()
	for t.Context().Err() == nil {
		source, packets, _ := poll.Next(100 * time.Millisecond)
		for i := range packets {
			frame := slices.Clone(packets[i].Data)
			list := []arrival{{frame: frame}}
			if change := out.Load(); source == 1 && change != nil {
				list = (*change)(nil, 0, frame)
			}
			for _, a := range list {
				sinks[1-source].Send(a.frame)
			}
			sinks[1-source].Flush()
		}
	}
}

// The agent with a host between it and the tester that changes its packets: each fault is caught, as in memory.
func TestChangedAgent(t *testing.T) {
	wiretest.Once(t)
	t.Parallel()
	var out atomic.Pointer[changer]
	b := newBenchWith(t, &out)
	b.slow(t)
	startAgent(t, b.device, switchAgent)
	tried := 0
	for _, f := range plantedFaults() {
		if f.subject != "switch" || f.out == nil || f.in != nil || f.profile != nil || f.config != nil ||
			!slices.Contains([]string{"F07.1", "F07.2", "F18.1", "F19.1", "F23.1", "F24.1", "F26.1", "F27.1", "F28.1",
				"F29.1",
				"F33.1", "F44.1", "B02.1", "X05.1", "X11.1", "X12.1", "X13.1"}, f.caught) {
			continue
		}
		tried++
		t.Run(strings.ReplaceAll(f.name, " ", "_"), func(t *testing.T) {
			change := changer(f.out)
			out.Store(&change)
			defer out.Store(nil)
			results, status := b.conformRepeated(t, switchProfile, f.caught)
			require.Equal(t, fail, results[f.caught].Verdict, results[f.caught].Seen)
			require.Equal(t, 3, status)
		})
	}
	require.Greater(t, tried, 15)
}

// A host that obeys notifications and sends on a real interface passes cases of each kind of the sender; in memory it
// passes all. The machine may be so busy that a measurement is unclear: these cases are repeated.
func TestSenderOnNetwork(t *testing.T) {
	wiretest.Once(t)
	t.Parallel()
	b := bench{wiretest.NewHost(t, "t"), wiretest.NewHost(t, "d")}
	b.tester.Do(t, func() error {
		return os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte("1"), 0)
	})
	wiretest.Link(t, wiretest.End{Host: b.tester, Device: "t0"}, wiretest.End{Host: b.device, Device: "d0",
		Addresses: []string{"2001:db8:c::1/64", "2001:db8:d::1/64"}})
	wiretest.AwaitLinks(t, b.tester, b.device)
	m := newSenderModel(t, senderConfig)
	m.(*hostModel).kernel = true
	lateness := startSender(t, b.device, "d0", m)
	cases := []string{"F02.1", "F11.1", "F11.2", "F11.3", "F10.1", "F12.1", "F15.1", "F30.1", "X02.1", "X11.1", "X14.1",
		"X14.2", "X15.1"}
	// try runs cases, and returns the results of those that have not passed. A failure counts unless the model was late
	// meanwhile.
	try := func(ids ...string) map[string]result {
		lateness()
		results, _ := b.conform(t, subjectProfile("sender"), "-case", strings.Join(ids, ","))
		late := lateness()
		for _, id := range ids {
			if late <= deviceTolerance {
				require.NotEqual(t, fail, results[id].Verdict, "%s: %s", id, results[id].Seen)
			}
		}
		require.Len(t, results, len(ids))
		maps.DeleteFunc(results, func(_ string, r result) bool { return r.Verdict == pass })
		return results
	}
	for _, id := range slices.Sorted(maps.Keys(try(cases...))) {
		for tries := 0; ; tries++ {
			results := try(id)
			if len(results) == 0 {
				break
			}
			require.True(t, tries < 5*busyTries && hasTime(t), "%s: %s: %s", id, results[id].Verdict, results[id].Seen)
		}
	}
}

// Cases that a busy machine makes inconclusive are repeated up to busyTries times, those that measure gaps up to five
// times as often, as long as the test has time.
const busyTries = 12

// hasTime reports whether the test may run for another minute.
func hasTime(t *testing.T) bool {
	end, ok := t.Deadline()
	return !ok || time.Until(end) > time.Minute
}

// deviceTolerance is the delay above which a model of a device need not conform: a tenth of the settle time.
const deviceTolerance = 25 * time.Millisecond

// startSender lets a model send and receive on an interface of a host until the test ends. It returns a function that
// returns the longest time between two steps of the model since its previous call.
func startSender(t *testing.T, h *wiretest.Host, name string, m model) (lateness func() time.Duration) {
	t.Helper()
	in := wiretest.Open(t, h, netio.OpenPackets, netio.PacketConfig{Interface: name, Direction: netio.In})
	sink := wiretest.On(t, h, func() (netio.Sink, error) { return netio.OpenPort(name, nil) })
	ctx, cancel := context.WithCancel(t.Context())
	poll := wiretest.Must(netio.NewPoll(ctx, in))(t)
	done := make(chan bool)
	var mu sync.Mutex
	var longest time.Duration
	go func() {
		defer close(done)
		r := &memoryRig{clock: time.Now(), deliver: func(_ int, frame []byte) { sink.Send(frame) }}
		for ctx.Err() == nil {
			_, packets, _ := poll.Next(time.Millisecond)
			before := r.clock
			r.clock = time.Now()
			mu.Lock()
			longest = max(longest, r.clock.Sub(before))
			mu.Unlock()
			for i := range packets {
				m.receive(r, 0, slices.Clone(packets[i].Data))
			}
			m.advance(r)
			sink.Flush()
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		poll.Close()
		in.Close()
		sink.Close()
	})
	return func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		late := longest
		longest = 0
		return late
	}
}
