package run

import (
	"net"
	"strings"
	"testing"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/nflog"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/netio"
	"github.com/stretchr/testify/require"
)

// Tens of thousands of packets of every kind pass three roles. Each is counted once by its outcome, and the
// counters add up to the sent packets.
func TestEveryPacketIsCounted(t *testing.T) {
	a, r, b, in := network(t)
	agent := start(t, r, theProxy+`
[source.both]
type = "packet"
interfaces = ["r0", "r1"]
filter = "rocev2"
direction = "in"
[sink.limited]
type = "raw"
per_second = 1000
[role.switch]
enabled = true
sources = ["both"]
sink = "limited"
self = ["2001:db8:2::1"]
methods = [{ senders = "2001:db8:1::/64", method = "fastcnp" }]
marking = "elsewhere"
per_flow = "1ms"
[role.border]
enabled = true
cnp = true
sources = ["both"]
`)
	fromA, fromB := raw(t, a), raw(t, b)
	data := datagram(t, 17)
	answer := answerTo(data)
	broken := append([]byte(nil), answer...)
	broken[44] = 0xFF // UDP length
	const rounds, burst = 400, 20
	sends(t, fromA, data)
	agent.awaits(t, 1, "rocecn_role_packets_total", `role="proxy"`, `outcome="learned"`)
	for round := range rounds {
		for range burst {
			sends(t, fromA, data, datagram(t, 18))
			sends(t, fromB, answer, broken, complaint(t, data))
		}
		if round%10 == 9 { // no faster than the test network
			agent.awaits(t, float64((round+1)*burst), "rocecn_source_packets_total", `source="messages"`)
		}
	}
	const each = rounds * burst
	agent.awaits(t, 4*each+1, "rocecn_source_packets_total", `source="both"`)
	agent.awaits(t, each, "rocecn_source_packets_total", `source="messages"`)
	for _, role := range []string{`role="switch"`, `role="border"`} {
		agent.awaits(t, 4*each+1, "rocecn_role_packets_total", role)
	}
	defer func() {
		if t.Failed() {
			t.Log(r.TryRun("", "ip", "-s", "link"))
			for line := range strings.Lines(agent.get("/metrics")) {
				if strings.Contains(line, "_packets_total{") || strings.Contains(line, "_errors_total{") {
					t.Log(line)
				}
			}
		}
	}()
	wiretest.Await(t, "packets that cross r0, including the answers", func() bool { // and the proxy's messages
		return agent.metric("rocecn_role_packets_total", `role="proxy"`) ==
			4*each+1+agent.metric("rocecn_sink_packets_total")+each
	})
	require.Zero(t, agent.metric("rocecn_source_lost_total"))

	// The packets sent by the roles left by the sinks, or have an error.
	for _, role := range []string{`role="switch"`, `role="proxy"`} {
		sent := agent.metric("rocecn_role_packets_total", role, `outcome="sent"`)
		require.Equal(t, sent, agent.metric("rocecn_role_sent_total", role))
		require.Equal(t, sent, agent.metric("rocecn_role_to_sink_total", role))
		agent.awaits(t, sent, "rocecn_sink_(?:packets|errors)_total", role)
		require.Equal(t, agent.metric("rocecn_sink_packets_total", role),
			agent.metric("rocecn_latency_seconds_count", role))
	}
	require.EqualValues(t, each, agent.metric("rocecn_role_sent_total", `role="proxy"`))
	refused := agent.metric("rocecn_role_refused_total", `role="switch"`)
	require.Equal(t, refused, agent.metric("rocecn_role_packets_total", `role="switch"`, `outcome="refused"`))

	// The sender received the sent CNPs and Fast CNPs.
	want := int(agent.metric("rocecn_sink_packets_total"))
	poll := wiretest.Must(netio.NewPoll(t.Context(), in))(t)
	defer poll.Close()
	got, all := 0, want+2*each                             // answers and invalid packets have crossed as well
	for lost := 0; got+lost < all; lost = int(in.Lost()) { // they have not been read so far
		_, packets, err := poll.Next(wiretest.Patience)
		require.NoError(t, err)
		require.NotEmpty(t, packets, "%d read and %d lost of %d", got, lost, all)
		got += len(packets)
	}
	agent.terminate(t)
}

// On a router in front of a host that only understands CNPs, nftables keeps Fast CNPs from the host, and the agent
// translates them into CNPs.
func TestTranslator(t *testing.T) {
	wiretest.Tool(t, "nft")
	a, r, b, in := network(t)
	r.Run(t, nflog.Rules("host", 7, "r0"), "nft", "-f", "-")
	mac := linkAddress(t, a, "a0")
	agent := start(t, r, `
[source.host]
type = "nflog"
group = 7
[source.traffic]
type = "packet"
interfaces = ["r1"]
filter = "rocev2"
[sink.port]
type = "packet"
interface = "r0"
neighbour = "`+mac+`"
[role.sender]
enabled = true
sources = ["host"]
observe = ["traffic"]
sink = "port"
self = ["2001:db8:1::a"]
accept = ["2001:db8:2::c/128"]
qps = [{ dst = "2001:db8:2::b", dest_qp = 17, qp = 34 }]
as = "cnp"
`)
	fast := fast(t, datagram(t, 17))
	rejected := parameterProblems(t, b, "::")
	out := raw(t, b)
	sends(t, out, fast, fast)
	agent.awaits(t, 2, "rocecn_role_packets_total", `outcome="accepted"`)
	agent.awaits(t, 2, "rocecn_role_packets_total", `outcome="ignored"`) // as they arrive at r1
	cnps(t, in, 2, receiver)
	packets := wiretest.Must(rejected.Read())(t)
	require.Empty(t, packets) // the host has rejected nothing
	agent.terminate(t)
}

// linkAddress returns the hardware address of a device of a host.
func linkAddress(t *testing.T, h *wiretest.Host, device string) (mac string) {
	t.Helper()
	h.Do(t, func() error {
		i, err := net.InterfaceByName(device)
		if err == nil {
			mac = i.HardwareAddr.String()
		}
		return err
	})
	return mac
}
