package run

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/nftables"
	"github.com/rocecn/rocecn/encap"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
)

// edge is a host with interfaces wan0 and wan1.
func edge(t *testing.T) *wiretest.Host {
	t.Helper()
	h := wiretest.NewHost(t, "h")
	h.Run(t, "", "ip", "link", "add", "wan0", "type", "veth", "peer", "name", "wan1")
	return h
}

// rejectRules makes agents use a program nft that rejects rules while a file of this name exists.
func rejectRules(t *testing.T) (name string) {
	t.Helper()
	nft := wiretest.Must(exec.LookPath("nft"))(t)
	name = filepath.Join(t.TempDir(), "refused")
	script := fmt.Sprintf("#!/bin/sh\n[ -e %s -a \"$1\" = -f ] && exit 1\nexec %s \"$@\"\n", name, nft)
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(name), "nft"), []byte(script), 0o700))
	t.Setenv("PATH", filepath.Dir(name)+":"+os.Getenv("PATH"))
	return name
}

// Nothing waits for children of nft after nft was killed or has ended.
func TestNFTChildrenAreNotAwaited(t *testing.T) {
	folder := t.TempDir()
	child, ended := filepath.Join(folder, "child"), filepath.Join(folder, "ended")
	t.Setenv("PATH", folder+":/usr/bin:/bin")
	was := nftTimeout
	defer func() { nftTimeout = was }()
	leaves := func(then string) (output string, err error) {
		_ = os.Remove(child)
		script := fmt.Sprintf("#!/bin/sh\n(sleep 60; : >%s) &\necho $! >%s\n%s\n", ended, child, then)
		require.NoError(t, os.WriteFile(filepath.Join(folder, "nft"), []byte(script), 0o700))
		output, err = runNFT("")
		require.NoFileExists(t, ended, "the child was waited for")
		octets, wrong := os.ReadFile(child)
		require.NoError(t, wrong)
		pid, wrong := strconv.Atoi(strings.TrimSpace(string(octets)))
		require.NoError(t, wrong)
		require.NoError(t, unix.Kill(pid, unix.SIGKILL))
		return output, err
	}
	output, err := leaves("echo the table")
	require.NoError(t, err)
	require.Equal(t, "the table\n", output)
	for _, c := range []struct{ name, want string }{
		{"exit 3", "nft: exit status 3"},
		{"echo no such; exit 3", "nft: exit status 3: no such"},
		{"echo Operation not permitted '(you must be root)'; exit 1",
			"nft: permission denied: CAP_NET_ADMIN is needed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err = leaves(c.name)
			require.EqualError(t, err, c.want)
		})
	}
	nftTimeout = 5 * time.Second
	_, err = leaves("wait")
	require.EqualError(t, err, "nft: no answer within 5s")
}

// A change by another program right after the installation is not taken for the border's own rules.
func TestBorderIntruder(t *testing.T) {
	wiretest.Tool(t, "nft")
	nft := wiretest.Must(exec.LookPath("nft"))(t)
	folder := t.TempDir()
	once := filepath.Join(folder, "once")
	script := fmt.Sprintf("#!/bin/sh\n%[1]s \"$@\" || exit\n[ \"$1\" = -f ] && mkdir %[2]s 2>&- && "+
		"exec %[1]s insert rule inet rocecn forward accept\nexit 0\n", nft, once)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "nft"), []byte(script), 0o700))
	h := edge(t)
	self := wiretest.Must(os.Executable())(t)
	t.Setenv("PATH", folder+":"+os.Getenv("PATH"))
	agent := startAs(t, h, wiretest.File(t, "agent.toml",
		"[role.border]\nenabled = true\ninstall = \"nft\"\ninterfaces = [\"wan0\", \"wan1\"]\n"), self)
	agent.awaitLog(t, "its rules were changed or deleted by another program")
	agent.awaitLog(t, "border: complete")
	require.DirExists(t, once)
	require.NotRegexp(t, `(?m)^\s+accept$`, h.Run(t, "", nft, "list", "table", "inet", "rocecn"))
	agent.terminate(t)
}

// The rules of the border are installed completely, for its interfaces, and stay when the agent ends.
func TestBorder(t *testing.T) {
	wiretest.Tool(t, "nft")
	h := edge(t)
	config := readConfig("border")
	const before = "add table inet rocecn\nadd chain inet rocecn old\nadd table inet other\nadd chain inet other kept\n"
	h.Run(t, before, "nft", "-f", "-")
	agent := start(t, h, config)
	require.EqualValues(t, 1, agent.metric("rocecn_border_rules_installed"))
	list := h.Run(t, "", "nft", "list", "ruleset")
	require.Contains(t, list, `iifname != { "wan0", "wan1" } oifname != { "wan0", "wan1" } return`)
	require.Contains(t, list, `comment "Fast CNP"`)
	require.NotContains(t, list, "chain old")
	require.Contains(t, list, "chain kept")
	require.NotContains(t, list, "CNP and Fast CNP")
	openFiles := func() int { return len(wiretest.Must(os.ReadDir(fmt.Sprintf("/proc/%d/fd", agent.Process.Pid)))(t)) }
	files := openFiles()
	agent.reload(t, config+"fcn_port = 2021\n")
	agent.awaits(t, 1, "rocecn_config_last_reload_successful")
	wiretest.Await(t, "other rules", func() bool {
		return strings.Contains(h.Run(t, "", "nft", "list", "ruleset"), "2021")
	})
	h.Run(t, "", "nft", "delete", "table", "inet", "rocecn")
	require.NoError(t, agent.Process.Signal(hup)) // the same file restores deleted rules
	wiretest.Await(t, "the rules", func() bool {
		return strings.Contains(h.Run(t, "", "nft", "list", "ruleset"), "2021")
	})
	wiretest.Await(t, "as few open files as before the reloads", func() bool { return openFiles() <= files })
	agent.terminate(t)
	require.Contains(t, h.Run(t, "", "nft", "list", "ruleset"), `comment "Fast CNP"`)
}

// Each border has its own table. Tables of former borders are removed, and rules that nftables rejects change no
// table.
func TestBorders(t *testing.T) {
	wiretest.Tool(t, "nft")
	h := edge(t)
	first := readConfig("borders")
	refused := rejectRules(t)
	second := strings.Replace(first, "wan0", "wan1", 1) + "cnp = true\nfcn_port = 2021\n"
	h.Run(t, "add table inet rocecn_1\nadd chain inet rocecn_1 old\nadd table inet rocecn_7\n"+
		"add table inet rocecn_x\nadd table ip rocecn_7", "nft", "-f", "-")
	agent := start(t, h, first+second)
	rules := func(table string) string { return h.Run(t, "", "nft", "list", "table", "inet", table) }
	require.Contains(t, rules("rocecn"), `iifname != "wan0" oifname != "wan0" return`)
	require.Contains(t, rules("rocecn"), fmt.Sprint(fcn.Port))
	require.Contains(t, rules("rocecn_1"), `iifname != "wan1" oifname != "wan1" return`)
	require.Contains(t, rules("rocecn_1"), "2021")
	require.NotContains(t, rules("rocecn_1"), "old")
	tables := func() string { return h.Run(t, "", "nft", "list", "tables") }
	require.Equal(t, "table inet rocecn_x\ntable ip rocecn_7\ntable inet rocecn\ntable inet rocecn_1\n", tables())

	require.NoError(t, os.WriteFile(refused, nil, 0o600))
	agent.reload(t, strings.Replace(first, "wan0", "wan2", 1)+second)
	agent.awaits(t, 0, "rocecn_config_last_reload_successful")
	require.NoError(t, os.Remove(refused))
	require.Contains(t, rules("rocecn"), `"wan0"`)
	require.Contains(t, rules("rocecn_1"), `"wan1"`)
	agent.reload(t, second)
	agent.awaits(t, 1, "rocecn_config_last_reload_successful")
	require.Equal(t, "table inet rocecn_x\ntable ip rocecn_7\ntable inet rocecn\n", tables())
	require.Contains(t, rules("rocecn"), "2021")
	agent.awaitLog(t, "table inet rocecn_1 is deleted")

	// Without any border nothing needs protection, and the tables stay.
	agent.reload(t, "")
	agent.awaitLog(t, "its rules stay: nft delete table inet rocecn\"")
	require.Zero(t, agent.metric("rocecn_border_rules_installed"))
	agent.terminate(t)
	require.Contains(t, rules("rocecn"), "2021")
}

// A border with a missing interface is incomplete: check reports it, and the agent waits for it.
func TestBorderMissing(t *testing.T) {
	wiretest.Tool(t, "nft")
	h := edge(t)
	const config = "[agent]\nhttp = \"" + monitor + "\"\n" +
		"[role.border]\nenabled = true\ninstall = \"nft\"\ninterfaces = [\"wan0\", \"wan2\"]\n"
	file := wiretest.File(t, "agent.toml", config)
	check := func() (status int, stderr string) {
		var out, errors bytes.Buffer
		h.Do(t, func() error {
			status = Check(t.Context(), []string{"-config", file, "-system"}, nil, &out, &errors)
			return nil
		})
		return status, errors.String()
	}
	status, stderr := check()
	require.Equal(t, 1, status)
	require.Equal(t, "rocecn check: role.border: wan2: no such interface\n", stderr)

	self := wiretest.Must(os.Executable())(t)
	agent := startAs(t, h, file, self)
	agent.awaitLog(t, "lacks=\"role.border: wan2: no such interface\"")
	require.Contains(t, agent.get("/readyz"), "not ready: role.border: wan2: ")
	require.Zero(t, agent.metric("rocecn_border_rules_installed"))
	require.NotContains(t, agent.log(), "msg=ready")
	require.Contains(t, h.Run(t, "", "nft", "list", "ruleset"), `{ "wan0", "wan2" }`)

	h.Run(t, "", "ip", "link", "add", "wan2", "type", "veth", "peer", "name", "wan3")
	agent.awaitLog(t, "msg=ready")
	require.EqualValues(t, 1, agent.metric("rocecn_border_rules_installed"))
	status, stderr = check()
	require.Zero(t, status)
	require.NotContains(t, stderr, "role.border")
	agent.terminate(t)
}

// Changes of the border's rules by other programs are logged and undone as soon as nftables allows it. Other rules
// are not touched.
func TestBorderChanged(t *testing.T) {
	wiretest.Tool(t, "nft")
	h := edge(t)
	refused := rejectRules(t)
	agent := start(t, h, "[role.border]\nenabled = true\ninstall = \"nft\"\ninterfaces = [\"wan0\"]\n")
	rules := func() string { return h.Run(t, "", "nft", "-s", "list", "table", "inet", "rocecn") }
	want := rules()
	h.Run(t, "", "nft", "add", "table", "inet", "other")
	for n, change := range []string{
		"delete table inet rocecn", "flush table inet rocecn", "add rule inet rocecn forward accept",
	} {
		h.Run(t, change, "nft", "-f", "-")
		wiretest.Await(t, change, func() bool {
			return strings.Count(agent.log(), "rules were changed or deleted") == n+1 &&
				strings.Count(agent.log(), "msg=\"border: complete\"\n") == n+1
		})
		require.Equal(t, want, rules())
		require.EqualValues(t, 1, agent.metric("rocecn_border_rules_installed"))
		h.Run(t, "", "nft", "list", "table", "inet", "other")
	}

	require.NoError(t, os.WriteFile(refused, nil, 0o600))
	h.Run(t, "", "nft", "flush", "ruleset")
	agent.awaitLog(t, "lacks=\"role.border: nft: exit status 1\"")
	require.Zero(t, agent.metric("rocecn_border_rules_installed"))
	require.Contains(t, agent.get("/readyz"), "not ready: role.border: nft: exit status 1")
	require.NoError(t, os.Remove(refused))
	agent.awaits(t, 1, "rocecn_border_rules_installed")
	require.Equal(t, want, rules())
	agent.terminate(t)
}

// The watchdog is fed while nft does not answer, which may take longer than the watchdog's interval.
func TestBorderWatchdog(t *testing.T) {
	wiretest.Tool(t, "nft")
	nft := wiretest.Must(exec.LookPath("nft"))(t)
	folder := t.TempDir()
	hold, held, name := filepath.Join(folder, "hold"), filepath.Join(folder, "held"), filepath.Join(folder, "notify")
	script := fmt.Sprintf("#!/bin/sh\nwhile [ -e %s ]; do : >%s; sleep 0.1; done\nexec %s \"$@\"\n", hold, held, nft)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "nft"), []byte(script), 0o700))
	t.Setenv("PATH", folder+":"+os.Getenv("PATH"))
	socket := wiretest.Must(net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"}))(t)
	defer socket.Close()
	t.Setenv("NOTIFY_SOCKET", name)
	t.Setenv("WATCHDOG_USEC", "200000")
	h := edge(t)
	agent := start(t, h, "[role.border]\nenabled = true\ninstall = \"nft\"\ninterfaces = [\"wan0\"]\n")
	require.NoError(t, os.WriteFile(hold, nil, 0o600))
	h.Run(t, "", nft, "flush", "ruleset")
	awaitRetry := func() {
		t.Helper()
		b := make([]byte, 1<<10)
		require.NoError(t, socket.SetReadDeadline(time.Now().Add(nftTimeout/2)))
		_, err := socket.Read(b)
		require.NoError(t, err)
	}
	wiretest.Await(t, "nft to be held", func() bool {
		awaitRetry() // including earlier states: only a few are kept
		_, err := os.Stat(held)
		return err == nil
	})
	for range 20 { // more than were sent before it was stopped and are not read yet
		awaitRetry()
	}
	require.NoError(t, os.Remove(hold))
	agent.awaitLog(t, "border: complete\"\n")
	agent.terminate(t)
}

// Two agents with borders of the same name report the conflict. When one ends, the border of the other one holds.
func TestBorderTwice(t *testing.T) {
	wiretest.Tool(t, "nft")
	h := edge(t)
	const config = "[role.border]\nenabled = true\ninstall = \"nft\"\ninterfaces = [\"wan0\"]\n"
	agent := start(t, h, config)
	want := h.Run(t, "", "nft", "-s", "list", "ruleset")
	self := wiretest.Must(os.Executable())(t)
	other := startAs(t, h, wiretest.File(t, "other.toml", config+"cnp = true\n"), self)
	agent.awaitLog(t, "its rules were changed or deleted by another program")
	other.awaitLog(t, "its rules were changed or deleted by another program")
	agent.awaits(t, 0, "rocecn_border_rules_installed")
	other.terminate(t)
	wiretest.Await(t, "the rules", func() bool { return h.Run(t, "", "nft", "-s", "list", "ruleset") == want })
	agent.awaits(t, 1, "rocecn_border_rules_installed")
	agent.terminate(t)
}

// An ingress PE forwards in user space, with a label for the flow. A congested P router names that label, and the
// sender receives a CNP. Labels survive a change of the configuration.
func TestIngress(t *testing.T) {
	a, r, b, in := network(t)
	r.Do(t, func() error { return os.WriteFile("/proc/sys/net/ipv6/conf/all/forwarding", []byte("0"), 0) })
	config := fmt.Sprintf(readConfig("ingress"), fcn.Port)
	agent := start(t, r, config)
	next := tunnels(t, b, "b0")
	out, core := raw(t, a), raw(t, b)
	// forwarded sends a packet and returns the packet that leaves the PE.
	forwarded := func(octets []byte) *rocev2.Frame {
		sends(t, out, octets)
		return next()
	}
	data := datagram(t, 17)
	f := forwarded(data)
	label := f.Outer().FlowLabel()
	require.NotZero(t, label)
	require.Equal(t, ip("2001:db8:2::1"), f.Outer().Src())
	require.Equal(t, data, f.BorderPacket()) // unchanged: the kernel has not forwarded it
	same, err := (&encap.IPInIPv6{Src: f.Outer().Src(), Dst: f.Outer().Dst()}).Append(nil, data, label)
	require.NoError(t, err)
	require.Equal(t, same[40:], f.Outer().IP()[40:])

	var tunnelled rocev2.Frame
	tunnelled.Decode(same, rocev2.DecodeOptions{Link: rocev2.LinkIP})
	message, err := fcn.AppendFor(nil, &tunnelled, node6, 3, fcn.Config{})
	require.NoError(t, err)
	sends(t, core, message)
	cnps(t, in, 1, ip("2001:db8:1::1"))
	agent.reload(t, strings.Replace(config, "enabled = true", "enabled = true\nidle = \"30s\"", 1))
	agent.awaitLog(t, "msg=reloaded")
	require.Equal(t, label, forwarded(data).Outer().FlowLabel())
	sends(t, core, message, message)
	cnps(t, in, 2, ip("2001:db8:1::1"))

	agent.reload(t, strings.Replace(config, "enabled = true", "enabled = true\nmax_flows = 9", 1))
	agent.awaits(t, 0, "rocecn_config_last_reload_successful")
	agent.awaitLog(t, "MaxFlows")
	require.Equal(t, label, forwarded(data).Outer().FlowLabel())
	agent.addsUp(t, 6)
	agent.awaits(t, 1, "rocecn_ingress_flows")
	agent.awaits(t, 1<<16-1, "rocecn_ingress_labels_free")
	require.EqualValues(t, 1, agent.metric("rocecn_role_effects_total", `effect="opened"`))
	agent.terminate(t)
}

// Linux encapsulates, in SRv6 and in its IP tunnels, and takes labels from a hash or from the packet itself. The PE
// sees which flow has which, on the way out; a P router names the label that it has seen, and the flow's sender gets a
// CNP. Flows that have one label, since their addresses and ports are the same, or all of a tunnel have, get none.
func TestLearnedLabels(t *testing.T) {
	for _, row := range []struct {
		name, option string // of the kernel
		commands     [][]string
		sysctl       string
		inherit      bool // the label is that of the packet
		one          bool // all flows have the same label: veth computes no hash
	}{
		{"seg6, a hash", "CONFIG_IPV6_SEG6_LWTUNNEL", [][]string{
			{"sr", "tunsrc", "set", "2001:db8:2::1"},
			{"route", "add", "2001:db8:2::b/128", "encap", "seg6", "mode", "encap", "segs", "2001:db8:2::c",
				"dev", "r1"},
		}, "1", false, false},
		{"seg6, reduced, the packet's own", "CONFIG_IPV6_SEG6_LWTUNNEL", [][]string{
			{"sr", "tunsrc", "set", "2001:db8:2::1"},
			{"route", "add", "2001:db8:2::b/128", "encap", "seg6", "mode", "encap.red", "segs", "2001:db8:2::c",
				"dev", "r1"},
		}, "0", true, false},
		{"ip6tnl, a hash of the tunnel", "CONFIG_IPV6_TUNNEL", [][]string{
			{"link", "add", "wan", "type", "ip6tnl", "mode", "any", "local", "2001:db8:2::1", "remote", "2001:db8:2::c",
				"encaplimit", "none"},
			{"link", "set", "wan", "up"}, {"route", "add", "2001:db8:2::b/128", "dev", "wan"},
		}, "", false, true},
		{"ip6tnl, the packet's own", "CONFIG_IPV6_TUNNEL", [][]string{
			{"link", "add", "wan", "type", "ip6tnl", "mode", "any", "local", "2001:db8:2::1", "remote", "2001:db8:2::c",
				"encaplimit", "none", "flowlabel", "inherit"},
			{"link", "set", "wan", "up"}, {"route", "add", "2001:db8:2::b/128", "dev", "wan"},
		}, "", true, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			a, r, b, in := network(t)
			for _, command := range row.commands {
				if out, err := r.TryRun("", "ip", append([]string{"-6"}, command...)...); err != nil {
					wiretest.NotInKernel(t, row.option, out)
				}
			}
			if row.sysctl != "" {
				r.Do(t, func() error {
					return os.WriteFile("/proc/sys/net/ipv6/seg6_flowlabel", []byte(row.sysctl), 0)
				})
			}
			agent := start(t, r, fmt.Sprintf(readConfig("labels"), fcn.Port))
			next := tunnels(t, b, "b0")
			out, core := raw(t, a), raw(t, b)
			// complain sends a datagram, and returns the FCN of the P router that receives it in its tunnel.
			complain := func(octets []byte) (message []byte, label uint32) {
				sends(t, out, octets)
				f := next()
				message = wiretest.Must(fcn.AppendFor(nil, f, node6, 3, fcn.Config{}))(t)
				return message, f.Outer().FlowLabel()
			}
			from := func(port uint16, label, destQP uint32) []byte {
				var p rocev2.Packet
				require.NoError(t, p.DecodeIP(datagram(t, destQP)))
				p.SrcPort, p.FlowLabel = port, label
				return wiretest.Must(p.AppendBinary(nil))(t)
			}
			one, label := complain(from(50001, 0x12345, 17))
			other, second := complain(from(50002, 0x12346, 19))
			if row.inherit {
				require.Equal(t, []uint32{0x12345, 0x12346}, []uint32{label, second})
			}
			require.NotZero(t, label)
			require.Equal(t, row.one, label == second)
			agent.awaits(t, 2, "rocecn_role_packets_total", `outcome="learned"`)
			if row.one {
				sends(t, core, one, other)
				agent.awaits(t, 2, "rocecn_role_refused_total", `reason="ambiguous_label"`)
				agent.terminate(t)
				return
			}
			sends(t, core, one, other)
			cnps(t, in, 2, ip("2001:db8:1::1"))

			// Same addresses, ports and label, but another queue pair: neither flow receives a CNP.
			again, same := complain(from(50001, 0x12345, 18))
			require.Equal(t, label, same)
			agent.awaits(t, 3, "rocecn_role_packets_total", `outcome="learned"`)
			sends(t, core, again, one, other)
			cnps(t, in, 1, ip("2001:db8:1::1"))
			agent.awaits(t, 2, "rocecn_role_refused_total", `reason="ambiguous_label"`)
			agent.awaits(t, 3, "rocecn_sink_packets_total")
			agent.terminate(t)
		})
	}
}

// The metrics count packets that the rules drop, across reloads that replace the rules.
func TestBorderDrops(t *testing.T) {
	wiretest.Tool(t, "nft")
	_, r, b, in := network(t)
	in.Close()
	const config = "[role.border]\nenabled = true\ninstall = \"nft\"\ninterfaces = [\"r0\"]\n"
	agent := start(t, r, config)
	out, fast := raw(t, b), fast(t, datagram(t, 17))
	sends(t, out, fast, fast)
	agent.awaits(t, 2, "rocecn_border_dropped_packets_total", `role="border"`, `rule="fast_cnp"`)
	agent.reload(t, config+"fcn_port = 2021\n")
	agent.awaitLog(t, "msg=reloaded")
	sends(t, out, fast)
	agent.awaits(t, 3, "rocecn_border_dropped_packets_total", `rule="fast_cnp"`)
	require.NoError(t, agent.Process.Signal(hup)) // the same file replaces the rules as well
	agent.awaitLog(t, "nothing has changed")
	sends(t, out, fast)
	agent.awaits(t, 4, "rocecn_border_dropped_packets_total", `rule="fast_cnp"`)
	require.Contains(t, agent.get("/status"), `"fast_cnp": 4`)
	agent.terminate(t)
}

// The counters of rules are read without the lock, which metrics need. An error is logged once, and keeps the counts.
func TestBorderDropsUnread(t *testing.T) {
	s := prepared(t, "")
	var out bytes.Buffer
	s.log = slog.New(slog.NewTextHandler(&out, nil))
	kernel := wiretest.Must(nftables.Open())(t)
	require.NoError(t, kernel.Close())
	counted := map[borderDrops]uint64{{"border", "fast_cnp"}: 7}
	s.border = borderState{tables: []string{"rocecn"}, roles: []string{"border"}, kernel: kernel, dropped: counted}
	s.mu.Lock() // of another goroutine
	s.readDrops()
	s.readDrops()
	s.mu.Unlock()
	require.Equal(t, 1, strings.Count(out.String(), "the counters of its rules cannot be read"), out.String())
	require.Equal(t, counted, s.border.dropped)
	s.border.kernel = wiretest.Must(nftables.Open())(t)
	s.readDrops()
	require.Contains(t, out.String(), "the counters of its rules can be read again")
	require.Equal(t, counted, s.border.dropped)
	s.border.close()
}
