package run

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// theProxy is a proxy that learns from packets that cross the router.
var theProxy = fmt.Sprintf(readConfig("proxy"), proxymsg.Port)

// complaint is a proxy message about a packet.
func complaint(t *testing.T, about []byte) []byte {
	t.Helper()
	var f rocev2.Frame
	f.Decode(about, rocev2.DecodeOptions{Link: rocev2.LinkIP})
	return wiretest.Must(proxymsg.AppendFor(nil, &f, node6, proxyAddr, 3, proxymsg.Config{}))(t)
}

var proxyAddr = ip("2001:db8:2::1")

// A proxy on a router learns from crossing packets, answers congested nodes, reloads its configuration, and ends.
// Every packet is counted once.
func TestProxy(t *testing.T) {
	a, r, b, in := network(t)
	agent := start(t, r, theProxy)
	fromA, fromB := raw(t, a), raw(t, b)
	data, unknown := datagram(t, 17), datagram(t, 18)

	sends(t, fromB, complaint(t, data)) // no pair is known yet
	agent.awaits(t, 1, "rocecn_role_refused_total", `reason="unknown_qp"`)
	sends(t, fromA, data)
	agent.awaits(t, 1, "rocecn_role_packets_total", `outcome="learned"`)
	agent.awaits(t, 1, "rocecn_role_pairs")
	const n = 100
	for range n {
		sends(t, fromB, complaint(t, data), complaint(t, unknown))
	}
	cnps(t, in, n, proxyAddr)
	agent.awaits(t, n+1, "rocecn_role_refused_total", `reason="unknown_qp"`)
	agent.awaits(t, n, "rocecn_sink_packets_total")
	require.EqualValues(t, n, agent.metric("rocecn_role_sent_total", `kind="cnp"`))
	require.EqualValues(t, n, agent.metric("rocecn_latency_seconds_count"))
	require.Zero(t, agent.metric("rocecn_sink_errors_total"))

	// An invalid file changes nothing, and the status shows it.
	agent.reload(t, strings.Replace(theProxy, `"cnp"`, `"cnq"`, 1))
	agent.awaits(t, 0, "rocecn_config_last_reload_successful")
	agent.awaitLog(t, "role.proxy.senders[0].send: ")
	agent.reload(t, strings.Replace(theProxy, `["traffic"]`, `["trafic"]`, 1))
	agent.awaitLog(t, `role.proxy.observe[0]: \"trafic\": want the name of a table [source.NAME]`)
	sends(t, fromB, complaint(t, data))
	cnps(t, in, 1, proxyAddr)

	// A valid file changes the rules, and learned pairs stay.
	other := strings.Replace(theProxy, "enabled = true", `enabled = true
per_flow = "1h"
cnp_source = "destination"`, 1)
	other += `
[source.more]
type = "packet"
interfaces = ["r1"]
filter = "rocev2"
`
	other = strings.Replace(other, `["traffic"]`, `["traffic", "more"]`, 1)
	agent.reload(t, other)
	agent.awaits(t, 1, "rocecn_config_last_reload_successful")
	agent.awaits(t, 3, "rocecn_source_up")
	sends(t, fromB, complaint(t, data), complaint(t, data))
	cnps(t, in, 1, receiver)
	agent.awaits(t, 1, "rocecn_role_refused_total", `reason="limited"`)
	require.Zero(t, agent.metric("rocecn_source_reopened_total"))
	before := agent.metric("rocecn_source_packets_total", "messages")
	require.EqualValues(t, 2*n+4, before) // the sockets stay open, with their counters
	agent.reload(t, theProxy)
	agent.awaits(t, 2, "rocecn_source_up")
	wiretest.Await(t, "nothing new", func() bool {
		require.NoError(t, agent.Process.Signal(hup))
		return strings.Contains(agent.log(), "nothing has changed")
	})

	require.Contains(t, agent.get("/healthz"), "200 OK")
	require.Contains(t, agent.get("/readyz"), "200 OK")
	status := agent.get("/status")
	for _, part := range []string{`"input": "r0"`, `"up": true`, `"learned": 1`, `"pairs": 1`, `[role.proxy]\n`} {
		require.Contains(t, status, part)
	}
	require.NotContains(t, agent.get("/metrics"), "2001:db8:1::a")
	require.Equal(t, agent.metric("rocecn_role_packets_total"),
		agent.metric("rocecn_source_packets_total")+float64(moreOf(agent)))
	require.Regexp(t, "warning: source.messages: .*: address already in use: right if", agent.checks(t))
	agent.terminate(t)
}

// moreOf returns the number of the role's packets from a source that has been removed.
func moreOf(a *agent) int {
	return int(a.metric("rocecn_role_packets_total") - a.metric("rocecn_source_packets_total"))
}

// A source follows an interface that goes down and up, is renamed, or is missing at first.
func TestFlap(t *testing.T) {
	a, r := wiretest.NewHost(t, "a"), wiretest.NewHost(t, "r")
	link := func() {
		wiretest.Link(t, wiretest.End{Host: a, Device: "a0", Addresses: []string{"2001:db8:1::a/64"}},
			wiretest.End{Host: r, Device: "r0", Addresses: []string{"2001:db8:1::1/64"}})
		wiretest.AwaitLinks(t, a)
	}
	agent := start(t, r, strings.Replace(theProxy, `filter = "rocev2"`, `filter = "rocev2"
required = false
direction = "in"`, 1)[:strings.Index(theProxy, "[source.messages]")+len("required = false\ndirection = \"in\"\n")]+`
[role.receiver]
enabled = true
learn = true
sources = ["traffic"]
sink = "net"
self = ["2001:db8:2::b"]
[sink.net]
type = "raw"
`)
	require.Contains(t, agent.get("/readyz"), "200 OK") // it is not required
	require.Zero(t, agent.metric("rocecn_source_up"))
	seen := 0.
	one := func() {
		t.Helper()
		agent.awaits(t, 1, "rocecn_source_up")
		out := raw(t, a)
		a.Run(t, "", "ip", "-6", "route", "replace", "2001:db8:2::/64", "via", "2001:db8:1::1")
		sends(t, out, datagram(t, 17))
		seen++
		agent.awaits(t, seen, "rocecn_source_packets_total")
	}
	link()
	one()
	require.Zero(t, agent.metric("rocecn_source_reopened_total"))
	r.Run(t, "", "ip", "link", "set", "r0", "down")
	agent.awaits(t, 0, "rocecn_source_up")
	require.Contains(t, agent.get("/readyz"), "200 OK")
	require.Contains(t, agent.get("/healthz"), "200 OK")
	r.Run(t, "", "ip", "link", "set", "r0", "up")
	r.Run(t, "", "ip", "addr", "replace", "2001:db8:1::1/64", "dev", "r0")
	wiretest.AwaitLinks(t, a)
	one()
	agent.awaits(t, 1, "rocecn_source_reopened_total")
	r.Run(t, "", "ip", "link", "set", "r0", "name", "old") // and it stays up
	agent.awaits(t, 0, "rocecn_source_up")
	another := func(device, subnet string, reopened float64) {
		t.Helper()
		wiretest.Link(t, wiretest.End{Host: a, Device: device, Addresses: []string{subnet + "a/64"}},
			wiretest.End{Host: r, Device: "r0", Addresses: []string{subnet + "1/64"}})
		agent.awaits(t, reopened, "rocecn_source_reopened_total")
		a.Run(t, "", "ip", "-6", "route", "replace", "2001:db8:2::/64", "via", subnet+"1")
		out := raw(t, a)
		wiretest.Await(t, device+" is up", func() bool {
			return strings.Contains(a.Run(t, "", "ip", "-oneline", "link", "show", device), " state UP ")
		})
		sends(t, out, datagram(t, 17))
		seen++
		agent.awaits(t, seen, "rocecn_source_packets_total")
	}
	another("a1", "2001:db8:3::", 2)

	// The same for an interface that was down between two checks of the agent.
	require.NoError(t, agent.Process.Signal(syscall.SIGSTOP))
	r.Run(t, "link set r0 down\nlink set r0 name older\nlink set older up\n", "ip", "-batch", "-")
	require.NoError(t, agent.Process.Signal(syscall.SIGCONT))
	agent.awaits(t, 0, "rocecn_source_up")
	another("a2", "2001:db8:4::", 3)
	require.NotContains(t, agent.get("/metrics"), "rocecn_queue_level{")
	agent.terminate(t)
}

// A packet that cannot be sent is counted by its reason, and nothing ends.
func TestNoRoute(t *testing.T) {
	a, r, b, in := network(t)
	agent := start(t, r, strings.Replace(theProxy, `type = "raw"`, "type = \"raw\"\nper_second = 100_000", 1))
	fromA, fromB := raw(t, a), raw(t, b)
	data := datagram(t, 17)
	sends(t, fromA, data)
	agent.awaits(t, 1, "rocecn_role_packets_total", `outcome="learned"`)
	r.Run(t, "", "ip", "route", "del", "2001:db8:1::/64", "dev", "r0")
	for range 10 {
		sends(t, fromB, complaint(t, data))
	}
	agent.awaits(t, 10, "rocecn_sink_errors_total", `error="no_route"`)
	require.Zero(t, agent.metric("rocecn_sink_packets_total"))
	agent.awaits(t, 0, "rocecn_sink_up")
	require.Contains(t, agent.get("/readyz"), "200 OK") // an unreachable destination does not concern readiness
	r.Run(t, "", "ip", "route", "add", "2001:db8:1::/64", "dev", "r0")
	agent.awaits(t, 1, "rocecn_sink_up") // perhaps
	sends(t, fromB, complaint(t, data))
	cnps(t, in, 1, proxyAddr)
	agent.awaits(t, 1, "rocecn_sink_packets_total")
	require.EqualValues(t, 1, agent.metric("rocecn_sink_up"))

	// The same if the interface of all packets is down.
	r.Run(t, "", "ip", "link", "set", "r0", "down")
	wiretest.Await(t, "nothing gets out", func() bool {
		sends(t, fromB, complaint(t, data))
		return agent.metric("rocecn_sink_up") == 0
	})
	require.EqualValues(t, 1, agent.metric("rocecn_sink_packets_total"))
	agent.awaits(t, 1, "rocecn_sink_up") // for now: no more packets are sent
	agent.terminate(t)
}

// A Linux host that rejects Fast CNPs is recognized by its ICMPv6 errors, also if the sink sets another DSCP.
func TestRejectionsOfOtherDSCP(t *testing.T) {
	a, r, _, _ := network(t)
	agent := start(t, r, readConfig("dscp"))
	out := raw(t, a)
	sends(t, out, datagram(t, 17))
	agent.awaits(t, 1, "rocecn_role_refused_total", `reason="unconfirmed"`)
	time.Sleep(time.Second) // a Linux host sends no more than one ICMPv6 error in a second, after a few
	sends(t, out, datagram(t, 17))
	agent.awaits(t, 1, "rocecn_role_packets_total", `outcome="learned"`)
	agent.awaits(t, 2, "rocecn_sink_packets_total")
	sends(t, out, datagram(t, 17))
	agent.awaits(t, 1, "rocecn_role_packets_total", `outcome="marked"`)
	require.EqualValues(t, 2, agent.metric("rocecn_role_to_sink_total"))
	agent.terminate(t)
}

// Packets that wait for a neighbour that never answers count as lost, not as sent. Other packets are sent
// meanwhile.
func TestUnresolvedNeighbour(t *testing.T) {
	a, r, b, in := network(t)
	a.Run(t, "", "ip", "addr", "del", "2001:db8:1::a/64", "dev", "a0")
	a.Run(t, "", "ip", "addr", "add", "2001:db8:1::e/64", "dev", "a0", "nodad")
	agent := start(t, r, theProxy)
	fromA, fromB := raw(t, a), raw(t, b)
	data, other := datagram(t, 17), datagram(t, 17)
	other[23] = 0xE // 2001:db8:1::e, which exists
	toUnresolved, toOther := complaint(t, data), complaint(t, other)
	sends(t, fromA, data, other)
	agent.awaits(t, 2, "rocecn_role_packets_total", `outcome="learned"`)
	for range 5 {
		sends(t, fromB, toUnresolved, toOther)
	}
	agent.awaits(t, 10, "rocecn_role_to_sink_total")
	agent.awaits(t, 5, "rocecn_sink_packets_total")
	agent.awaits(t, 5, "rocecn_sink_errors_total", `error="no_neighbour"`)
	require.EqualValues(t, 5, agent.metric("rocecn_sink_packets_total"))
	require.EqualValues(t, 5, agent.metric("rocecn_sink_errors_total"))
	sends(t, fromB, toUnresolved)
	agent.awaits(t, 6, "rocecn_sink_errors_total", `error="no_neighbour"`)
	require.EqualValues(t, 1, agent.metric("rocecn_sink_up")) // the sink works
	sends(t, fromB, toOther)
	a.Run(t, "", "ip", "addr", "add", "2001:db8:1::a/64", "dev", "a0", "nodad")
	sends(t, fromB, toUnresolved)
	agent.awaits(t, 7, "rocecn_sink_packets_total")  // also those of toOther and toDead
	agent.awaits(t, 7*80, "rocecn_sink_bytes_total") // IPv6, UDP, BTH, 16 octets and the ICRC
	require.EqualValues(t, 6, agent.metric("rocecn_sink_errors_total"))
	require.Equal(t, 13., agent.metric("rocecn_role_to_sink_total"))
	require.Zero(t, in.Lost())
	agent.terminate(t)
}

// forNobody returns a copy of the agent and a configuration that user `nobody` can run and read.
func copyForUnprivileged(t *testing.T, text string) (program, config string) {
	t.Helper()
	dir := wiretest.Must(os.MkdirTemp("", "agent"))(t)
	t.Cleanup(func() { os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755))
	self := wiretest.Must(os.Executable())(t)
	program, config = filepath.Join(dir, "rocecn"), filepath.Join(dir, "agent.toml")
	require.NoError(t, os.WriteFile(program, octetsOf(t, self), 0o755))
	require.NoError(t, os.WriteFile(config, []byte("[agent]\nhttp = \""+monitor+"\"\n"+text), 0o644))
	return program, config
}

// User `nobody` can run the agent with the capabilities that check prints, and not without them.
func TestCapabilities(t *testing.T) {
	setpriv := wiretest.Tool(t, "setpriv")
	a, r, b, in := network(t)
	program, config := copyForUnprivileged(t, theProxy)
	f := wiretest.Must(parseFile([]byte(theProxy)))(t)
	_, line, _ := strings.Cut(f.formatSummary(), "AmbientCapabilities=")
	require.Equal(t, "CAP_NET_BIND_SERVICE CAP_NET_RAW\n", line)

	with := func(capabilities ...string) *agent {
		set := ""
		for _, c := range capabilities {
			set += ",+" + strings.ToLower(strings.TrimPrefix(c, "CAP_"))
		}
		args := []string{"--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs",
			"--bounding-set=-all" + set}
		if set != "" {
			args = append(args, "--inh-caps="+set[1:], "--ambient-caps="+set[1:])
		}
		return startAs(t, r, config, append(append([]string{setpriv}, args...), program)...)
	}
	agent := with(strings.Fields(line)...)
	agent.awaitLog(t, "msg=ready")
	fromA, fromB := raw(t, a), raw(t, b)
	sends(t, fromA, datagram(t, 17))
	agent.awaits(t, 1, "rocecn_role_packets_total", `outcome="learned"`)
	sends(t, fromB, complaint(t, datagram(t, 17)))
	cnps(t, in, 1, proxyAddr)
	agent.reload(t, strings.Replace(theProxy, `["messages"]`, `["messages", "logged"]`, 1)+
		"[source.logged]\ntype = \"nflog\"\ngroup = 7\n") // which needs another capability
	agent.awaits(t, 0, "rocecn_config_last_reload_successful")
	agent.awaitLog(t, "source.logged: 7: ")
	sends(t, fromB, complaint(t, datagram(t, 17)))
	cnps(t, in, 1, proxyAddr)
	require.NoError(t, os.WriteFile(config, []byte("[agent]\nhttp = \""+monitor+"\"\n"+theProxy), 0o644))
	agent.terminate(t)

	for _, c := range []struct{ name, message string }{
		{"CAP_NET_BIND_SERVICE", "CAP_NET_RAW is needed"}, {"CAP_NET_RAW", "permission denied"}, {"", "source."},
	} {
		t.Run(c.name, func(t *testing.T) {
			var has []string
			if c.name != "" {
				has = []string{c.name}
			}
			agent := with(has...)
			select {
			case err := <-agent.ended:
				require.Error(t, err)
			case <-time.After(wiretest.Timeout):
				t.Fatalf("with %q alone it goes on", c.name)
			}
			require.Contains(t, agent.log(), c.message)
		})
	}
}

// systemd is notified when the agent is ready, reloads, works and ends.
func TestNotify(t *testing.T) {
	h := wiretest.NewHost(t, "h")
	name := filepath.Join(t.TempDir(), "notify")
	socket := wiretest.Must(net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"}))(t)
	defer socket.Close()
	t.Setenv("NOTIFY_SOCKET", name)
	t.Setenv("WATCHDOG_USEC", "200000")
	awaitMessage := func(want string) (rest string) {
		t.Helper()
		b := make([]byte, 1<<10)
		for {
			require.NoError(t, socket.SetReadDeadline(time.Now().Add(wiretest.Timeout)))
			n := wiretest.Must(socket.Read(b))(t)
			if rest, ok := strings.CutPrefix(string(b[:n]), want); ok {
				return rest
			}
			require.Equal(t, "WATCHDOG=1", string(b[:n]))
		}
	}
	monotonic := func() int64 { // microseconds of the clock that systemd compares with
		var now unix.Timespec
		require.NoError(t, unix.ClockGettime(unix.CLOCK_MONOTONIC, &now))
		return now.Nano() / 1000
	}
	config := fmt.Sprintf(readConfig("notify"), proxymsg.Port)
	agent := start(t, h, config)
	awaitMessage("READY=1")
	awaitMessage("WATCHDOG=1")
	before := monotonic()
	agent.reload(t, config+"rate_in = { per_second = 5 }\n")
	text := strings.TrimSpace(awaitMessage("RELOADING=1\nMONOTONIC_USEC="))
	reloaded := wiretest.Must(strconv.ParseInt(text, 10, 64))(t)
	require.GreaterOrEqual(t, reloaded, before)
	require.LessOrEqual(t, reloaded, monotonic())
	awaitMessage("READY=1")
	require.NoError(t, agent.Process.Signal(hup))
	awaitMessage("RELOADING=1\nMONOTONIC_USEC=")
	awaitMessage("READY=1")
	agent.terminate(t)
	awaitMessage("STOPPING=1")

	// A reload does not make an agent ready that was not.
	self := wiretest.Must(os.Executable())(t)
	late := "[agent]\nhttp = \"" + monitor + "\"\n" + config + strings.Replace(config, `"udp"`, `"packet"`, 1)
	late = strings.NewReplacer(
		fmt.Sprintf("[source.messages]\ntype = \"packet\"\nlisten = [\"[::1]:%d\"]", proxymsg.Port),
		"[source.late]\ntype = \"packet\"\ninterfaces = [\"late0\"]").Replace(late)
	late = late[:strings.LastIndex(late, "[sink.net]")]
	late = strings.Replace(late, `["messages"]`, `["messages", "late"]`, 1)
	agent = startAs(t, h, wiretest.File(t, "agent.toml", late), self)
	wiretest.Await(t, "the agent", func() bool { return strings.Contains(agent.get("/readyz"), "source.late") })
	require.NoError(t, os.WriteFile(agent.config, []byte(late+"\n# changed\n"), 0o600))
	require.NoError(t, agent.Process.Signal(hup))
	agent.awaitLog(t, "msg=reloaded")
	awaitMessage("WATCHDOG=1")
	wiretest.Link(t, wiretest.End{Host: h, Device: "late0"},
		wiretest.End{Host: wiretest.NewHost(t, "other"), Device: "late1"})
	awaitMessage("READY=1")
	agent.terminate(t)
}

// A file with a permanently missing resource changes nothing, and the agent waits for one that may appear.
func TestReloadOpens(t *testing.T) {
	_, r, _, _ := network(t)
	agent := start(t, r, theProxy)
	missing := filepath.Join(t.TempDir(), "missing", "file")
	capture := strings.Replace(theProxy, `["messages"]`, `["messages", "more"]`, 1) +
		"[source.more]\ntype = \"capture\"\nfile = \"" + missing + "\"\n"
	agent.reload(t, capture)
	agent.awaits(t, 0, "rocecn_config_last_reload_successful")
	agent.awaitLog(t, "source.more: ")
	require.EqualValues(t, 2, agent.metric("rocecn_source_up"))
	require.Regexp(t, `"last_reload_successful": *false`, agent.get("/status"))
	require.NotContains(t, agent.get("/metrics"), "\nrocecn_pause_stopped{", "no role has stopped flows")
	agent.reload(t, theProxy)
	agent.awaits(t, 1, "rocecn_config_last_reload_successful")
	require.Regexp(t, `"last_reload_successful": *true`, agent.get("/status"))
	agent.reload(t, strings.Replace(theProxy, `type = "raw"`, "type = \"capture\"\nfile = \""+missing+"\"", 1))
	agent.awaits(t, 0, "rocecn_config_last_reload_successful")
	agent.awaitLog(t, "sink.net: ")
	require.EqualValues(t, 1, agent.metric("rocecn_sink_up"))
	for _, name := range []string{"logged", "renamed"} { // a group has one socket
		agent.reload(t, strings.Replace(theProxy, `["messages"]`, `["messages", "`+name+`"]`, 1)+
			"[source."+name+"]\ntype = \"nflog\"\ngroup = 7\n")
		agent.awaits(t, 1, "rocecn_source_up", `source="`+name+`"`)
		agent.awaits(t, 1, "rocecn_config_last_reload_successful")
	}
	agent.reload(t, strings.Replace(theProxy, `["r0"]`, `["r0", "r7"]`, 1))
	agent.awaits(t, 0, "rocecn_source_up", `source="renamed"`)
	agent.awaits(t, 1, "rocecn_config_last_reload_successful")
	agent.awaits(t, 2, "rocecn_source_up")
	require.Contains(t, agent.get("/readyz"), "not ready: source.traffic: r7")
	agent.terminate(t)
}

// A reload applies the keys of the agent immediately: HTTP address and logging. A signal logs the status, and an
// unchanged file is logged once.
func TestReloadAgent(t *testing.T) {
	_, r, b, _ := network(t)
	agent := start(t, r, theProxy)
	signal := func(s syscall.Signal) { require.NoError(t, agent.Process.Signal(s)) }
	write := func(table string) {
		require.NoError(t, os.WriteFile(agent.config, []byte("[agent]\n"+table+theProxy), 0o600))
	}
	signal(hup)
	agent.awaitLog(t, "nothing has changed")
	require.NotContains(t, agent.log(), "msg=reloaded")
	require.Contains(t, agent.get("/debug/pprof/cmdline"), "404")

	write("http = \"[::1]:9479\"\npprof = true\n")
	signal(hup)
	wiretest.Await(t, "pprof", func() bool { return strings.Contains(agent.get("/debug/pprof/cmdline"), "200 OK") })
	write("http = \"[2001:db8:77::1]:9479\"\n") // not an address of this host
	signal(hup)
	agent.awaits(t, 0, "rocecn_config_last_reload_successful")
	agent.awaitLog(t, "agent.http: ")
	write("http = \"[::1]:9480\"\nlog = { format = \"json\" }\n")
	signal(hup)
	agent.awaitLog(t, `"msg":"reloaded"`)
	require.Empty(t, agent.get("/metrics"))
	agent.monitor = "[::1]:9480"
	agent.awaits(t, 1, "rocecn_config_last_reload_successful")
	write("")
	signal(hup)
	wiretest.Await(t, "no server answers", func() bool { return agent.get("/metrics") == "" })

	sends(t, raw(t, b), complaint(t, datagram(t, 17)))
	agent.awaitLog(t, "reason=unknown_qp")
	signal(syscall.SIGUSR1)
	agent.awaitLog(t, fmt.Sprintf(
		"msg=status source=messages type=udp input=[2001:db8:2::1]:%d up=true packets=1 lost=0 "+
			"reopened=0", proxymsg.Port))
	agent.awaitLog(t, "msg=status role=proxy pairs=0 ignored=0 sent=0 marked=0")
	agent.awaitLog(t, "msg=status sink=net role=proxy up=true packets=0 no_route=0")
	agent.terminate(t)
}

// A sink is down with its interface, and continues by another interface of the same name.
func TestSinkDevice(t *testing.T) {
	a, r, b, in := network(t)
	in.Close()
	agent := start(t, r, strings.Replace(theProxy, `type = "raw"`, "type = \"raw\"\ndevice = \"r0\"", 1))
	fromA, fromB := raw(t, a), raw(t, b)
	data := datagram(t, 17)
	sends(t, fromA, data)
	agent.awaits(t, 1, "rocecn_role_packets_total", `outcome="learned"`)
	require.EqualValues(t, 1, agent.metric("rocecn_sink_up"))
	r.Run(t, "", "ip", "link", "set", "r0", "down")
	agent.awaits(t, 0, "rocecn_sink_up")
	r.Run(t, "", "ip", "link", "del", "r0")
	t.Cleanup(func() { a.Run(t, "", "ip", "link", "add", "a0", "type", "veth") }) // deleted like the first one
	wiretest.Link(t, wiretest.End{Host: a, Device: "a0", Addresses: []string{"2001:db8:1::a/64"}},
		wiretest.End{Host: r, Device: "r0", Addresses: []string{"2001:db8:1::1/64"}})
	wiretest.AwaitLinks(t, r)
	agent.awaits(t, 1, "rocecn_sink_up")
	sends(t, fromB, complaint(t, data))
	agent.awaits(t, 1, "rocecn_sink_packets_total")
	require.Zero(t, agent.metric("rocecn_sink_errors_total"))
	agent.awaitLog(t, "sink lost")
	wiretest.Await(t, "the log of both", func() bool { return strings.Count(agent.log(), "sink is open") >= 2 })
	require.Equal(t, 1, strings.Count(agent.log(), "sink lost"))
	require.Equal(t, 2, strings.Count(agent.log(), "sink is open"))
	agent.terminate(t)
}

// Waiting for a file that is a pipe can be interrupted.
func TestInterruptedFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(name, 0o600))
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	var output bytes.Buffer
	require.Zero(t, Run(ctx, []string{"-config", name}, nil, &output, &output))
	require.Equal(t, 1, Check(ctx, []string{"-config", name}, nil, &output, &output), "the file has not been checked")
	require.Empty(t, output.String())
}

// A dry run on live packets prints each decision immediately.
func TestLiveDryRun(t *testing.T) {
	_, r, b, _ := network(t)
	self := wiretest.Must(os.Executable())(t)
	lines := wiretest.Must(os.Create(filepath.Join(t.TempDir(), "lines")))(t)
	defer lines.Close()
	agent := &agent{host: r}
	agent.Cmd = exec.Command(self, "-dry-run", "-config", wiretest.File(t, "agent.toml", theProxy))
	agent.Env, agent.Stdout = append(os.Environ(), isAgent+"=1"), lines
	agent.run(t)
	agent.awaitLog(t, "msg=ready")
	sends(t, raw(t, b), complaint(t, datagram(t, 17)))
	wiretest.Await(t, "a line", func() bool {
		return strings.Contains(string(octetsOf(t, lines.Name())), "unknown_qp")
	})
	agent.terminate(t)
}

// With fcn = "any" the PE is notified about ESP that waits in a queue. Its packets need a flow label and ECN.
func TestESPInQueue(t *testing.T) {
	a, r, _, _ := network(t)
	slowly(t, r)
	config := strings.Replace(readConfig("queue"), "sources =", "pe = [\"2001:db8:1::/64\"]\nsources =", 1)
	agent := start(t, r, config+"fcn = \"any\"\n")
	out := raw(t, a)
	esp := func(ecn, label uint32) []byte { // RFC 8200 section 3, RFC 4303 section 2
		const length, protocol = 1000, 50
		b := binary.BigEndian.AppendUint32(nil, 6<<28|ecn<<20|label)
		b = append(binary.BigEndian.AppendUint16(b, length), protocol, 64)
		return append(append(append(b, sender.AsSlice()...), receiver.AsSlice()...), make([]byte, length)...)
	}
	for range 30 {
		sends(t, out, esp(0, 7), esp(1, 0))
	}
	wiretest.Await(t, "an FCN", func() bool {
		sends(t, out, esp(1, 7))
		return agent.metric("rocecn_role_sent_total", `kind="fcn"`) > 0
	})
	require.Zero(t, agent.metric("rocecn_role_refused_total"))
	agent.terminate(t)
}
