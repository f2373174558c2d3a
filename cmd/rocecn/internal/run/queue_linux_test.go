package run

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/filter"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/netio"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

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
	agent.awaits(t, 1, "rocecn_source_reopened_total")
	r.Run(t, "", "ip", "link", "add", "later", "type", "veth", "peer", "name", "r3")
	agent.awaits(t, 1, "rocecn_source_up", `input="later"`)
	agent.awaits(t, 2, "rocecn_source_reopened_total")
	agent.terminate(t)
}

// In kernel mode the kernel answers and marks, with the same file and the same metrics.
func TestKernel(t *testing.T) {
	a, r, b, in := network(t)
	slowly(t, r)
	config := readConfig("kernel")
	var end netio.InterfaceSource
	b.Do(t, func() (err error) {
		roce := &filter.Capture{Selection: filter.CE}
		end, err = netio.OpenPackets(netio.PacketConfig{Interface: "b0", Direction: netio.In, Filter: roce})
		return err
	})
	defer end.Close()
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
			file := written(t, "agent.toml", config)
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
		Run(ctx, []string{"-dry-run", "-config", written(t, "agent.toml", good)}, nil, io.Discard, logs)
		logs.Close()
	}()
	lines := bufio.NewScanner(output)
	for lines.Scan() && !strings.Contains(lines.Text(), "decides nothing in a dry run") {
	}
	require.NotEmpty(t, lines.Text())
	stop()
	io.Copy(io.Discard, output)
}
