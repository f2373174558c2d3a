package run

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/filter"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/netio"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/rocev2"
)

// parameterProblems is a source of the ICMPv6 errors by which a Linux host rejects Fast CNPs.
func parameterProblems(t *testing.T, h *wiretest.Host, at string) netio.SocketSource {
	t.Helper()
	return wiretest.On(t, h, func() (netio.SocketSource, error) { return netio.ListenICMPv6(ip(at), 4) })
}

// decoded passes the next packets of a source to f until it returns true.
func decoded(t *testing.T, in netio.Source, f func(p *rocev2.Packet) bool) {
	t.Helper()
	poll := wiretest.Must(netio.NewPoll(t.Context(), in))(t)
	defer poll.Close()
	for {
		_, packets, err := poll.Next(wiretest.Timeout)
		require.NoError(t, err)
		require.NotEmpty(t, packets, "no more comes")
		for i := range packets {
			var p rocev2.Packet
			if p.DecodeEthernet(packets[i].Data) == nil && f(&p) {
				return
			}
		}
	}
}

// fast is a Fast CNP of the congested node about a datagram.
func fast(t *testing.T, about []byte) []byte {
	t.Helper()
	var p rocev2.Packet
	require.NoError(t, p.DecodeIP(about))
	b, _, err := fastcnp.AppendFor(nil, &p, node6, nil, fastcnp.Config{})
	require.NoError(t, err)
	return b
}

// The router in front of a Linux host translates Fast CNPs to CNPs in its kernel, for flows with queue pairs that the
// agent has learned. The host receives no Fast CNP that it would reject.
func TestKernelTranslator(t *testing.T) {
	a, r, b, in := network(t)
	out, core := raw(t, a), raw(t, b)
	rejected := parameterProblems(t, b, "2001:db8:2::c")
	data := datagram(t, 17)
	sends(t, core, fast(t, data))
	poll := wiretest.Must(netio.NewPoll(t.Context(), rejected))(t)
	defer poll.Close()
	_, packets, err := poll.Next(wiretest.Timeout)
	require.NoError(t, err)
	require.Len(t, packets, 1, "Linux rejects a Fast CNP")
	decoded(t, in, func(p *rocev2.Packet) bool { return len(p.Ext) > 0 }) // the host received it

	config := readConfig("kernel_translator")
	agent := start(t, r, config)
	sends(t, core, fast(t, data)) // no pair is known yet: it is dropped
	agent.awaits(t, 1, "rocecn_role_refused_total", `reason="unknown_qp"`)
	sends(t, out, data)
	agent.awaits(t, 1, "rocecn_role_pairs")
	var about rocev2.Packet
	require.NoError(t, about.DecodeIP(data))
	want := wiretest.Must(cnp.AppendFor(nil, &about, receiver, 34, cnp.Config{}))(t)
	want[7]-- // one hop
	wiretest.Await(t, "the kernel knows the pair", func() bool {
		sends(t, core, fast(t, data))
		return agent.metric("rocecn_role_packets_total", `outcome="accepted"`) > 0
	})
	before := agent.metric("rocecn_role_packets_total", `outcome="accepted"`)
	const n = 50
	for range n {
		sends(t, core, fast(t, data))
	}
	agent.awaits(t, before+n, "rocecn_role_packets_total", `outcome="accepted"`)
	require.Equal(t, before+n, agent.metric("rocecn_sink_packets_total", `sink="kernel"`, `role="sender"`))
	require.Equal(t, before+n, agent.metric("rocecn_role_to_sink_total"))
	var frames [][]byte
	decoded(t, in, func(p *rocev2.Packet) bool {
		require.Equal(t, want, p.IP)
		frames = append(frames, append(append([]byte(nil), p.Link...), p.IP...))
		return len(frames) == n
	})
	names := []string{"infiniband.bth.opcode", "infiniband.bth.destqp", "ipv6.src", "ipv6.dst"}
	for _, row := range wiretest.TsharkFields(t, names, frames...) {
		require.Equal(t, []string{"129", "0x000022", receiver.String(), sender.String()}, []string{
			row.Get(names[0]), row.Get(names[1]), row.Get(names[2]), row.Get(names[3])})
	}
	// From a source that is not accepted.
	denied := agent.metric("rocecn_role_refused_total", `reason="denied"`)
	forged, _, err := fastcnp.AppendFor(nil, &about, ip("2001:db8:2::d"), nil, fastcnp.Config{})
	require.NoError(t, err)
	sends(t, core, forged)
	agent.awaits(t, denied+1, "rocecn_role_refused_total", `reason="denied"`)
	_, packets, err = poll.Next(1)
	require.NoError(t, err)
	require.Empty(t, packets, "Linux no longer rejects packets")

	agent.reload(t, strings.Replace(config, `as = "cnp"`, `as = "log"`, 1))
	agent.awaits(t, 0, "rocecn_config_last_reload_successful")
	agent.awaitLog(t, "role.sender.as: ")
	agent.reload(t, config+"window = \"1h\"\n") // pairs and counters stay
	agent.awaits(t, 1, "rocecn_config_last_reload_successful")
	total := agent.metric("rocecn_role_packets_total", `outcome="accepted"`)
	require.GreaterOrEqual(t, total, before+n)
	sunk := agent.metric("rocecn_sink_packets_total")
	wiretest.Await(t, "the kernel knows the pair", func() bool {
		sends(t, core, fast(t, data), fast(t, data))
		return agent.metric("rocecn_sink_packets_total") > sunk
	})
	agent.awaits(t, sunk+1, "rocecn_sink_packets_total") // one per window
	r.Run(t, "", "ip", "link", "add", "later", "type", "veth", "peer", "name", "r3")
	agent.awaits(t, 1, "rocecn_source_up", `input="later"`)
	r.Run(t, "", "ip", "link", "del", "later")
	agent.awaits(t, 0, "rocecn_source_up", `input="later"`)
	require.EqualValues(t, 1, agent.metric("rocecn_source_up", `input="r1"`))
	agent.terminate(t)
	require.NotContains(t, r.Run(t, "", "ip", "link", "show", "r1"), "xdp")
}

// The agent receives packets by nftables that the kernel does not handle: PPFC, and Fast CNPs of unknown flows.
func TestKernelTranslatorAndAgent(t *testing.T) {
	wiretest.Tool(t, "nft")
	a, r, b, in := network(t)
	out, core := raw(t, a), raw(t, b)
	r.Run(t, `table inet rocecn_hosts {
	chain forward {
		type filter hook forward priority filter; policy accept;
		oifname "r0" exthdr dst exists udp dport 4791 log group 7 queue-threshold 1 drop
		oifname "r0" udp dport 4791 @th,64,8 0x81 @th,96,8 & 0x20 == 0x20 log group 7 queue-threshold 1 drop
	}
}
`, "nft", "-f", "-")
	agent := start(t, r, readConfig("kernel_translator_and_agent"))
	data, other := datagram(t, 17), datagram(t, 18)
	sends(t, core, fast(t, other)) // the kernel passes it on, and the agent does not know the pair either
	agent.awaits(t, 1, "rocecn_role_refused_total", `reason="unknown_qp"`)
	agent.awaits(t, 1, "rocecn_role_packets_total", `outcome="forwarded"`)
	sends(t, out, data)
	agent.awaits(t, 1, "rocecn_role_pairs")
	var about rocev2.Packet
	require.NoError(t, about.DecodeIP(data))
	stop, err := ppfc.AppendFor(nil, &about, node6, ppfc.Extension{Type: ppfc.Stop, Pause: 1000}, ppfc.Config{})
	require.NoError(t, err)
	sends(t, core, stop)
	agent.awaits(t, 1, "rocecn_sink_packets_total", `sink="host"`)
	cnps(t, in, 1, receiver)

	// check reports the resources of the running agent as in use, and another agent cannot start.
	for _, taken := range []string{
		"source.rest: 7: nflog: group 7: another program reads this group",
		"role.sender.mode: fastpath: r1: an XDP program is there already",
	} {
		require.Contains(t, agent.checks(t), "warning: "+taken+": right if it is by the agent, which runs\n")
	}
	self := wiretest.Must(os.Executable())(t)
	elsewhere := strings.Replace(string(octetsOf(t, agent.config)), monitor, "[::1]:9480", 1)
	second := startAs(t, r, wiretest.File(t, "second.toml", elsewhere), self)
	require.Error(t, second.awaitEnd(t))
	require.Contains(t, second.log(), "role.sender.mode: fastpath: r1: an XDP program is there already")
	agent.terminate(t)
	require.NotContains(t, agent.checks(t), "the agent, which runs")
}

// A host that rejects a Fast CNP of the kernel receives no others, and its packets are marked. A forged rejection
// has no effect.
func TestKernelRejections(t *testing.T) {
	for _, senders := range []string{"2001:db8:1::/64", "2001:db8:1::a/128"} {
		t.Run(senders, func(t *testing.T) { testKernelRejections(t, senders) })
	}
}

func testKernelRejections(t *testing.T, senders string) {
	a, r, _, in := network(t)
	slowly(t, r)
	config := strings.Replace(readConfig("kernel_rejections"), "2001:db8:1::/64", senders, 1) +
		"probe = \"1h\"\nseed = \"not public\"\n"
	agent := start(t, r, config)
	out := raw(t, a)
	sent := func() float64 { return agent.metric("rocecn_role_sent_total", `kind="fastcnp"`) }
	marked := func() float64 { return agent.metric("rocecn_role_packets_total", `outcome="marked"`) }
	wiretest.Await(t, "two rejections", func() bool {
		sends(t, out, datagram(t, 17))
		time.Sleep(50 * time.Millisecond) // a Linux host sends no more than one ICMPv6 error in a second, after a few
		return agent.metric("rocecn_role_packets_total", `outcome="learned"`) > 0
	})
	require.Positive(t, sent())
	before, was := sent(), marked()
	wiretest.Await(t, "they are marked", func() bool { // once the queue is long enough
		for range 20 {
			sends(t, out, datagram(t, 17))
		}
		return marked() >= was+20
	})
	require.Equal(t, before, sent())
	require.Zero(t, agent.metric("rocecn_role_marks_not_made_total"))
	var status string
	wiretest.Await(t, "the host in /status", func() bool { // which lists them once a second
		status = agent.get("/status")
		return strings.Contains(status, `"rejecting": {`)
	})
	require.Regexp(t, `"rejecting": \{\s*"total": 1,\s*"hosts": \[\s*\{\s*"host": "2001:db8:1::a",\s*"since": "`,
		status)
	require.NotContains(t, status, "not public")
	agent.reload(t, config+"per_flow = \"1us\"\n")
	wiretest.Await(t, "the reload", func() bool { // the rejection stays known from the first packet on
		for range 200 {
			sends(t, out, datagram(t, 17))
		}
		return strings.Contains(agent.log(), "msg=reloaded")
	})
	was = marked()
	wiretest.Await(t, "they are marked", func() bool {
		sends(t, out, datagram(t, 17))
		return marked() >= was+24
	})
	require.Equal(t, before, sent())

	// From a host to which no Fast CNP was sent.
	a.Run(t, "", "ip", "addr", "add", "2001:db8:1::e/64", "dev", "a0", "nodad")
	var about rocev2.Packet
	require.NoError(t, about.DecodeIP(datagram(t, 17)))
	about.Src = ip("2001:db8:1::e")
	never, _, err := fastcnp.AppendFor(nil, &about, ip("2001:db8:1::1"), nil, fastcnp.Config{})
	require.NoError(t, err)
	learned := agent.metric("rocecn_role_packets_total", `outcome="learned"`)
	sends(t, out, wiretest.Rejection(about.Src, netip.AddrFrom16([16]byte(never[8:])), never))
	agent.awaits(t, 1, "rocecn_role_refused_total", `reason="denied"`)
	require.Equal(t, learned, agent.metric("rocecn_role_packets_total", `outcome="learned"`))
	require.Zero(t, in.Lost())
	agent.terminate(t)
}

// A host that rejects Fast CNPs of the kernel gets another one after a while. Once it accepts them, it gets all.
func TestKernelProbes(t *testing.T) {
	a, r, _, _ := network(t)
	slowly(t, r)
	agent := start(t, r, readConfig("kernel_rejections"))
	out := raw(t, a)
	sent := func() float64 { return agent.metric("rocecn_role_sent_total", `kind="fastcnp"`) }
	learned := func() float64 { return agent.metric("rocecn_role_packets_total", `outcome="learned"`) }
	send := func() {
		for range 5 {
			sends(t, out, datagram(t, 17))
		}
		time.Sleep(50 * time.Millisecond) // a Linux host sends no more than one ICMPv6 error in a second, after a few
	}
	wiretest.Await(t, "two rejections", func() bool { send(); return learned() > 0 })
	was, before := learned(), sent()
	wiretest.Await(t, "the probe, rejected", func() bool { send(); return learned() > was })
	require.LessOrEqual(t, sent(), before+10, "few of the packets are answered")
	a.Run(t, "", "ip6tables", "-A", "OUTPUT", "-p", "icmpv6", "--icmpv6-type", "parameter-problem", "-j", "DROP")
	wiretest.Await(t, "a probe without an answer", func() bool { send(); return sent() > before+50 })
	agent.terminate(t)
}

// Queue pairs of the host's RDMA device need not be learned from packets, and are known while the device reports
// them.
func TestDevicePairs(t *testing.T) {
	dir := t.TempDir()
	requireListed := func(qps string) {
		ids := "link rxe0/1 lqpn 34 state CONNECT ps TCP comm x cm-idn 1 dst-addr " + receiver.String() + ":4420"
		script := "#!/bin/sh\ncase $3 in qp) " + qps + " ;; *) echo " + ids + " ;; esac\n"
		require.NoError(t, os.WriteFile(filepath.Join(dir, "new"), []byte(script), 0o755))
		require.NoError(t, os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "rdma")))
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	requireListed("echo link rxe0/1 lqpn 34 rqpn 17 type RC state RTS")
	_, r, b, in := network(t)
	core := raw(t, b)
	config := readConfig("device_pairs")
	agent := start(t, r, config)
	data := datagram(t, 17)
	accepted := func() float64 { return agent.metric("rocecn_role_packets_total", `outcome="accepted"`) }
	refused := func() float64 { return agent.metric("rocecn_role_refused_total", `reason="unknown_qp"`) }
	wiretest.Await(t, "the kernel knows the pair", func() bool {
		sends(t, core, fast(t, data))
		return accepted() > 0
	})
	cnps(t, in, 1, receiver)
	before := refused()
	requireListed("echo no such device >&2")
	wiretest.Await(t, "the kernel has forgotten the pair", func() bool {
		sends(t, core, fast(t, data))
		return refused() > before
	})
	agent.awaitLog(t, "rdma: error output: no such device")
	requireListed("echo link rxe0/1 lqpn 34 rqpn 17 type RC state RTS")
	now := accepted()
	wiretest.Await(t, "it knows it again", func() bool {
		sends(t, core, fast(t, data))
		return accepted() > now
	})
	agent.awaitLog(t, "queue pairs of the RDMA devices can be read again")
	agent.reload(t, strings.Replace(config, "rdma = \"rxe0\"\n", "", 1))
	wiretest.Await(t, "no device is polled any longer", func() bool {
		was := refused()
		sends(t, core, fast(t, data))
		return refused() > was
	})
	agent.terminate(t)

	file := wiretest.File(t, "agent.toml", config)
	requireListed("echo no such device >&2")
	var out, stderr bytes.Buffer
	r.Do(t, func() error { Check(t.Context(), []string{"-config", file, "-system"}, nil, &out, &stderr); return nil })
	require.Contains(t, stderr.String(), "role.sender.rdma: rdma: error output: no such device")
}

// slowly gives the router's port to the receiver a queue that hardly drains.
func slowly(t *testing.T, r *wiretest.Host) {
	t.Helper()
	tc := wiretest.Tool(t, "tc")
	out, err := r.TryRun("", tc, "qdisc", "replace", "dev", "r1", "root", "tbf", "rate", "8kbit", "burst", "2000",
		"limit", "1000000")
	if err != nil {
		wiretest.NotInKernel(t, "CONFIG_NET_SCH_TBF", out)
	}
}

// fastCNPs reads this number of Fast CNPs, and checks them by our decoder and by tshark.
func fastCNPs(t *testing.T, in netio.Source, want int, from netip.Addr) {
	t.Helper()
	poll := wiretest.Must(netio.NewPoll(t.Context(), in))(t)
	defer poll.Close()
	var frames [][]byte
	for len(frames) < want {
		_, packets, err := poll.Next(wiretest.Timeout)
		require.NoError(t, err)
		require.NotEmpty(t, packets, "%d of %d Fast CNPs", len(frames), want)
		for i := range packets {
			var p rocev2.Packet
			require.NoError(t, p.DecodeEthernet(packets[i].Data))
			n, err := fastcnp.FromPacket(&p, fastcnp.CodePoints{})
			require.NoError(t, err)
			require.Equal(t, []any{uint32(17), receiver, from, sender},
				[]any{n.FlowKey().DestQP, n.FlowKey().Dst, p.Src, p.Dst})
			_, err = p.VerifyICRC()
			require.NoError(t, err)
			frames = append(frames, append([]byte(nil), packets[i].Data...))
		}
	}
	names := []string{"infiniband.bth.opcode", "infiniband.bth.destqp"}
	for _, row := range wiretest.TsharkFields(t, names, frames...) {
		require.Equal(t, []string{"129"}, row.All("infiniband.bth.opcode"))
		require.Equal(t, []string{"0x000011"}, row.All("infiniband.bth.destqp"))
	}
}

// On a router with a long queue to the receiver, the agent watches the queue and notifies the sender.
func TestQueue(t *testing.T) {
	a, r, _, in := network(t)
	slowly(t, r)
	agent := start(t, r, readConfig("queue"))
	require.Contains(t, agent.log(), "cannot mark them")
	require.Contains(t, agent.log(), `msg="interface missing, waiting for it" source=queues input=later`)
	require.NotContains(t, agent.log(), "input=r1")
	agent.awaits(t, 1, "rocecn_source_up", `input="r1"`)
	require.Zero(t, agent.metric("rocecn_source_up", `input="later"`))
	require.Contains(t, agent.get("/metrics"), "\nrocecn_queue_level{source=\"queues\",interface=\"later\"} 0\n")
	out := raw(t, a)
	wiretest.Await(t, "the depth of the queue", func() bool {
		sends(t, out, datagram(t, 17))
		return agent.metric("rocecn_queue_depth_bytes", `interface="r1"`) > 5000 &&
			agent.metric("rocecn_queue_level", `interface="r1"`) >= 2
	})
	require.Zero(t, agent.metric("rocecn_queue_depth_bytes", `interface="later"`))
	agent.awaits(t, 0, "rocecn_queue_depth_bytes") // as far as is known
	agent.awaits(t, 0, "rocecn_queue_level")
	before := agent.metric("rocecn_source_packets_total")
	const n = 50
	for range n {
		sends(t, out, datagram(t, 17))
	}
	agent.awaits(t, before+n, "rocecn_source_packets_total")
	wiretest.Await(t, "all packets but those of a short queue", func() bool {
		sent := agent.metric("rocecn_role_packets_total", `outcome="sent"`)
		return sent >= n-20 && sent == agent.metric("rocecn_sink_packets_total")
	})
	sent := agent.metric("rocecn_sink_packets_total")
	fastCNPs(t, in, int(sent), ip("2001:db8:1::1"))
	require.Equal(t, sent, agent.metric("rocecn_role_marks_not_made_total"))
	require.Equal(t, agent.metric("rocecn_source_packets_total"),
		sent+agent.metric("rocecn_role_packets_total", `outcome="ignored"`))
	require.Zero(t, agent.metric("rocecn_source_lost_total"))

	// Another interface of the same name also has a queue.
	r.Run(t, "", "ip", "link", "set", "r1", "down")
	r.Run(t, "", "ip", "link", "set", "r1", "name", "old")
	r.Run(t, "", "ip", "link", "add", "r1", "type", "veth", "peer", "name", "r2")
	reopened := func() float64 { return agent.metric("rocecn_source_reopened_total") }
	wiretest.Await(t, "r1 is open again", func() bool {
		return reopened() >= 1 && agent.metric("rocecn_source_up", `input="r1"`) == 1
	})
	first := reopened() // 2 if the agent first found no interface
	r.Run(t, "", "ip", "link", "add", "later", "type", "veth", "peer", "name", "r3")
	agent.awaits(t, 1, "rocecn_source_up", `input="later"`)
	wiretest.Await(t, "the log and the metric count the same", func() bool {
		return reopened() > first && int(reopened()) == strings.Count(agent.log(), `msg="source is back"`)
	})
	agent.terminate(t)
}

// In kernel mode /status lists the senders and flows of Fast CNPs, with numbers that add up to the metrics.
func TestKernelFlows(t *testing.T) {
	a, r, _, _ := network(t)
	slowly(t, r)
	agent := start(t, r, readConfig("kernel")+"per_flow = \"1h\"\n")
	out := raw(t, a)
	countLimited := func() uint64 { return uint64(agent.metric("rocecn_role_refused_total", `reason="limited"`)) }
	wiretest.Await(t, "flow 17 is limited", func() bool {
		for range 20 { // more than leaves the queue before flow 18
			sends(t, out, datagram(t, 17))
		}
		return countLimited() >= 3
	})
	sends(t, out, datagram(t, 18))
	agent.awaits(t, 2, "rocecn_role_sent_total", `kind="fastcnp"`)
	var s *agentStatus
	var limited uint64
	wiretest.Await(t, "a status while no packet is counted", func() bool {
		s, limited = new(agentStatus), countLimited()
		_, body, _ := strings.Cut(agent.get("/status"), "\r\n\r\n")
		require.NoError(t, json.Unmarshal([]byte(body), s))
		return limited == countLimited()
	})
	role := s.Roles[0]
	require.Equal(t, 2, role.Flows.Total)
	require.Len(t, role.Flows.Listed, 2)
	for i, want := range []struct {
		qp     uint32
		counts decisionCounts
	}{{18, decisionCounts{Sent: 1}}, {17, decisionCounts{Sent: 1, Limited: limited}}} {
		f := role.Flows.Listed[i]
		require.Equal(t, []any{sender, receiver, want.qp, want.counts}, []any{f.Src, f.Dst, f.DestQP, f.decisionCounts})
		require.Equal(t, []any{"fastcnp", sender, uint8(1)}, []any{f.Kind, f.To, *f.Level})
		require.GreaterOrEqual(t, *f.Depth, uint64(1500)) // at a depth of 2000 the level rises, below 1500 it falls
		require.WithinDuration(t, time.Now(), f.Last, wiretest.Timeout)
	}
	require.True(t, s.Sources[0].Kernel)
	require.Equal(t, 1, role.Senders.Total)
	require.Equal(t, decisionCounts{Sent: 2, Limited: limited}, role.Senders.Listed[0].decisionCounts)
	require.Regexp(t, `2001:db8:1::a > \S+ qp 17\n      notified 1, limited \d+, by fastcnp to 2001:db8:1::a`,
		formatStatus(s, monitor, time.Now()))
	agent.terminate(t)
}

// In kernel mode the kernel answers and marks, with the same file and the same metrics.
func TestKernel(t *testing.T) {
	a, r, b, in := network(t)
	slowly(t, r)
	config := readConfig("kernel")
	marked := &filter.Capture{Selection: filter.CE}
	end := wiretest.Open(t, b, netio.OpenPackets,
		netio.PacketConfig{Interface: "b0", Direction: netio.In, Filter: marked})
	agent := start(t, r, config)
	require.NotContains(t, agent.log(), "mark")
	require.Contains(t, agent.log(), "msg=ready roles=1 sources=2")
	require.EqualValues(t, 1, agent.metric("rocecn_source_up", `input="r1"`))
	require.Zero(t, agent.metric("rocecn_source_up", `input="later"`))
	out := raw(t, a)
	const n = 40
	for range n {
		sends(t, out, datagram(t, 17))
	}
	wiretest.Await(t, "all packets but those of a short queue", func() bool {
		sent := agent.metric("rocecn_role_packets_total", `outcome="sent"`)
		return sent >= n-20 && sent == agent.metric("rocecn_sink_packets_total", `sink="kernel"`)
	})
	sent := agent.metric("rocecn_sink_packets_total")
	fastCNPs(t, in, int(sent), ip("2001:db8:1::1"))
	require.Equal(t, sent, agent.metric("rocecn_role_sent_total", `kind="fastcnp"`))
	require.Equal(t, sent, agent.metric("rocecn_role_to_sink_total"))
	require.Zero(t, agent.metric("rocecn_role_marks_not_made_total"))
	r.Run(t, "", "tc", "qdisc", "change", "dev", "r1", "root", "tbf", "rate", "80mbit", "burst", "20000", "limit",
		"1000000") // let packets leave
	poll := wiretest.Must(netio.NewPoll(t.Context(), end))(t)
	defer poll.Close()
	for marked := 0; marked < int(sent); {
		_, packets, err := poll.Next(wiretest.Timeout)
		require.NoError(t, err)
		require.NotEmpty(t, packets, "%d of %v are marked", marked, sent)
		marked += len(packets)
	}

	agent.reload(t, config+"rate = { per_second = 5 }\n")
	agent.awaits(t, 0, "rocecn_config_last_reload_successful")
	wiretest.Await(t, "the error", func() bool {
		return strings.Contains(agent.log(), "role.switch.rate: the kernel cannot do that")
	})
	agent.reload(t, config+"per_flow = \"1h\"\n")
	agent.awaits(t, 1, "rocecn_config_last_reload_successful")
	require.Equal(t, sent, agent.metric("rocecn_sink_packets_total")) // counters stay
	agent.reload(t, strings.Replace(config, "required = false", "", 1))
	wiretest.Await(t, "it waits for the port", func() bool {
		return strings.Contains(agent.get("/readyz"), "not ready: source.queues: later")
	})
	r.Run(t, "", "ip", "link", "add", "later", "type", "veth", "peer", "name", "r3")
	agent.awaits(t, 1, "rocecn_source_up", `input="later"`)
	agent.awaits(t, 1, "rocecn_source_up", `input="r1"`)
	require.Contains(t, agent.get("/readyz"), "200 OK")
	require.Contains(t, agent.get("/status"), `"input": "later"`)
	require.Equal(t, sent, agent.metric("rocecn_sink_packets_total"))

	// No counter decreases in mode agent and in mode kernel again.
	reloaded := "rocecn_config_last_reload_success_timestamp_seconds"
	for _, config := range []string{
		"[sink.net]\ntype = \"raw\"\n" + strings.Replace(config, `mode = "kernel"`, `sink = "net"`, 1), config,
	} {
		was := agent.metric(reloaded)
		agent.reload(t, config)
		wiretest.Await(t, "a reload", func() bool { return agent.metric(reloaded) > was })
		require.Equal(t, sent, agent.metric("rocecn_role_packets_total", `outcome="sent"`))
		require.Equal(t, sent, agent.metric("rocecn_role_sent_total", `kind="fastcnp"`))
		require.Equal(t, sent, agent.metric("rocecn_role_to_sink_total"))
		require.Equal(t, sent, agent.metric("rocecn_sink_packets_total", `sink="kernel"`))
	}
	agent.terminate(t)
}

// check -system tries the kernel program, and a dry run reports that it decides nothing.
func TestKernelTried(t *testing.T) {
	config := readConfig("tried")
	check := func(config string, without ...uint32) (stderr string) {
		h := wiretest.NewHost(t, "r")
		h.Do(t, func() error { return os.WriteFile("/proc/sys/net/ipv6/conf/all/forwarding", []byte("1"), 0) })
		h.Do(t, func() error {
			header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3} // of this thread
			var data [2]unix.CapUserData
			for _, c := range []int{unix.CAP_BPF, unix.CAP_PERFMON, unix.CAP_NET_ADMIN} {
				if len(without) == 0 || without[0] != uint32(c) {
					data[c/32].Effective |= 1 << (c % 32)
					data[c/32].Permitted |= 1 << (c % 32)
				}
			}
			if err := unix.Capset(&header, &data[0]); err != nil {
				return err
			}
			var out, errors bytes.Buffer
			file := wiretest.File(t, "agent.toml", config)
			Check(t.Context(), []string{"-config", file, "-system"}, nil, &out, &errors)
			stderr = errors.String()
			return nil
		})
		return stderr
	}
	require.Contains(t, check(config), "source.queues: nowhere: ")
	good := strings.Replace(config, `, "nowhere"`, "", 1) + "limits = \"none\"\n"
	require.Equal(t, "rocecn check: warning: source.queues: lo: nothing waits there (noqueue): give it a qdisc\n",
		check(good))
	require.Contains(t, check(good, unix.CAP_NET_ADMIN), "role.switch.mode: fastpath: permission denied: CAP_BPF, ")

	ctx, stop := context.WithCancel(t.Context())
	output, logs := io.Pipe()
	go func() {
		Run(ctx, []string{"-dry-run", "-config", wiretest.File(t, "agent.toml", good)}, nil, io.Discard, logs)
		logs.Close()
	}()
	lines := bufio.NewScanner(output)
	for lines.Scan() && !strings.Contains(lines.Text(), "decides nothing in a dry run") {
	}
	require.NotEmpty(t, lines.Text())
	stop()
	io.Copy(io.Discard, output)
}
