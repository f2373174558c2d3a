package run

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/nflog"
	"github.com/rocecn/rocecn/filter"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/netio"
	"github.com/rocecn/rocecn/proxymsg"
)

// soaked is an agent with six roles.
var soaked = fmt.Sprintf(readConfig("soak"), proxymsg.Port)

// For a minute, or the time in ROCECN_SOAK, traffic of all kinds meets six roles. Meanwhile the configuration
// changes, validly and not, an interface goes down and comes back, routes are removed, and a neighbour does not
// answer. Each packet is counted once, and the counters add up to the sent packets.
func TestSoak(t *testing.T) {
	lasts, err := time.ParseDuration(os.Getenv("ROCECN_SOAK"))
	if err != nil {
		lasts = 2 * time.Second
	}
	a, r, b, in := network(t)
	in.Close()
	a.Run(t, "", "ip", "addr", "add", "2001:db8:1::e/64", "dev", "a0", "nodad")
	c := wiretest.NewHost(t, "c")
	wiretest.Link(t, wiretest.End{Host: r, Device: "r2"}, wiretest.End{Host: c, Device: "c0"})
	wiretest.AwaitLinks(t, c)

	s := &soak{T: t, agent: start(t, r, soaked)}
	fromA, fromB := raw(t, a), raw(t, b)
	mac := wiretest.Must(net.ParseMAC(linkAddress(t, r, "r2")))(t)
	side := wiretest.On(t, c, func() (netio.Sink, error) { return netio.OpenPort("c0", mac) })
	arrived := s.listen(a)

	from := func(data []byte, last byte) []byte {
		data = append([]byte(nil), data...)
		data[23] = last
		return data
	}
	data := datagram(t, 17)
	marked, unresolved := from(data, 0xE), from(data, 0xD)
	answer := answerTo(data)
	broken := append([]byte(nil), answer...)
	broken[44] = 0xFF // UDP length
	met := append([]byte(nil), data...)
	met[1] |= 3 << 4 // CE
	fast := fast(t, data)
	about, aboutUnresolved, unknown := complaint(t, data), complaint(t, unresolved), complaint(t, datagram(t, 18))

	sends(t, fromA, data, marked, unresolved)
	s.both += 3
	s.marked++
	s.settled()
	configs := []string{
		strings.Replace(soaked, `per_flow = "1ms"`, `per_flow = "2ms"`, 1),
		strings.Replace(soaked, `per_flow = "1ms"`, `per_flow = 7`, 1), // invalid
		soaked,
		strings.Replace(soaked, `"2001:db8:2::c/128"`, `"2001:db8:2::c/127"`, 3),
	}
	began := time.Now()
	for round := 0; time.Since(began) < lasts; round++ {
		for range 20 {
			sends(t, fromA, data, data, marked, met)
			sends(t, fromB, answer, broken, fast, about, unknown)
			time.Sleep(10 * time.Millisecond)
		}
		s.both, s.messages = s.both+20*7, s.messages+20*2
		s.marked, s.fast, s.notified = s.marked+20, s.fast+20, s.notified+20
		if round%4 != 2 { // when routes are removed, the fate of the packets just before is unknown
			sends(t, fromB, aboutUnresolved)
			s.messages, s.notified = s.messages+1, s.notified+1
		}
		s.settled()
		switch round % 4 {
		case 0: // a valid or an invalid file while packets arrive
			good := round/4%len(configs) != 1
			s.reload(t, configs[round/4%len(configs)])
			sends(t, fromA, data, data, data)
			s.both += 3
			want := 0.
			if good {
				want = 1
			}
			s.awaits(t, want, "rocecn_config_last_reload_successful")
		case 1:
			r.Run(t, "", "ip", "link", "set", "r2", "down")
			s.awaits(t, 0, "rocecn_source_up", `input="r2"`)
			r.Run(t, "", "ip", "link", "set", "r2", "up")
			s.awaits(t, 1, "rocecn_source_up", `input="r2"`)
			wiretest.AwaitLinks(t, c)
			for range 5 {
				require.NoError(t, side.Send(data))
			}
			require.NoError(t, side.Flush())
			s.side += 5
		case 2:
			r.Run(t, "", "ip", "route", "del", "2001:db8:1::/64", "dev", "r0")
			for range 5 {
				sends(t, fromB, about)
			}
			s.messages, s.notified = s.messages+5, s.notified+5
			s.settled()
			r.Run(t, "", "ip", "route", "add", "2001:db8:1::/64", "dev", "r0")
		}
		s.settled()
	}
	t.Logf("%d packets, %d of them messages, %d by the side; %.0f were lost to the agent",
		s.both+s.messages+s.side, s.messages, s.side, s.lost())
	s.adds(arrived)
	s.terminate(t)
}

// A soak counts the sent packets by the source that receives them.
type soak struct {
	*testing.T
	*agent
	in                     netio.InterfaceSource // packets that arrive at the senders
	both, side, messages   int
	marked, fast, notified int // packets to be marked, Fast CNPs, and messages that the proxy answers
}

// listen counts the agent's notifications that arrive at the senders until the test ends.
func (s *soak) listen(a *wiretest.Host) (arrived *atomic.Int64) {
	a.Do(s.T, func() (err error) {
		s.in, err = netio.OpenPackets(netio.PacketConfig{
			Interface: "a0", Direction: netio.In, Filter: &filter.Capture{Selection: filter.Notifications},
		})
		return err
	})
	poll, err := netio.NewPoll(s.Context(), s.in)
	require.NoError(s, err)
	arrived = new(atomic.Int64)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			_, packets, err := poll.Next(time.Second)
			if err != nil {
				return
			}
			for i := range packets {
				if p := packets[i].Data; len(p) >= 54 && netip.AddrFrom16([16]byte(p[22:])) != node6 {
					arrived.Add(1) // not sent by the test itself
				}
			}
		}
	}()
	s.Cleanup(func() { <-ended; poll.Close(); s.in.Close() })
	return arrived
}

func (s *soak) lost() float64 { return s.metric("rocecn_source_lost_total") }

// settled waits until the agent has received all sent packets, or has counted them as lost.
func (s *soak) settled() {
	s.Helper()
	for _, c := range []struct {
		name string
		n    int
	}{{"both", s.both}, {"side", s.side}, {"messages", s.messages}} {
		s.awaits(s.T, float64(c.n), "rocecn_source_(?:packets|lost)_total", `source="`+c.name+`"`)
	}
}

// adds checks the sums.
func (s *soak) adds(arrived *atomic.Int64) {
	s.Helper()
	of := func(outcome, role string) float64 {
		return s.metric("rocecn_role_packets_total", `role="`+role+`"`, `outcome="`+outcome+`"`)
	}
	from := func(source string) float64 { return s.metric("rocecn_source_packets_total", `source="`+source+`"`) }
	for _, c := range []struct {
		name string
		want float64
	}{
		{"switch", from("both") + from("side")}, {"proxy", from("messages") + from("both")}, {"ingress", from("both")},
		{"sender", from("both")}, {"receiver", from("both")}, {"border", from("both")},
	} {
		s.awaits(s.T, c.want, "rocecn_role_packets_total", `role="`+c.name+`"`)
		if c.name == "switch" || c.name == "ingress" {
			continue // a rejected notification may leave a mark, and a rejected label a packet on its path
		}
		require.Equal(s, of("refused", c.name), s.metric("rocecn_role_refused_total", `role="`+c.name+`"`), c.name)
	}
	if s.lost() == 0 { // then each outcome is known
		require.EqualValues(s, s.marked, of("marked", "switch")-
			s.metric("rocecn_role_refused_total", `role="switch"`)+of("refused", "switch")) // and limited packets
		require.EqualValues(s, s.fast, of("accepted", "sender"))
		require.EqualValues(s, s.notified, of("sent", "proxy"))
		require.EqualValues(s, s.both, of("passed", "border")+of("dropped", "border")+of("ignored", "border"))
	}
	for _, role := range []string{"switch", "proxy", "ingress", "receiver"} {
		l := `role="` + role + `"`
		s.awaits(s.T, s.metric("rocecn_role_to_sink_total", l), "rocecn_sink_(?:packets|errors)_total", l)
	}
	for _, what := range [][2]string{
		{"sent", "switch"}, {"sent", "receiver"}, {"forwarded", "ingress"}, {"learned", "proxy"}, {"refused", "switch"},
		{"refused", "proxy"},
	} {
		require.Positive(s, of(what[0], what[1]), what)
	}
	for _, reason := range []string{"no_route", "no_neighbour", "limited"} {
		s.Log(reason, s.metric("rocecn_sink_errors_total", `error="`+reason+`"`))
	}
	require.Positive(s, s.metric("rocecn_sink_errors_total", `error="no_neighbour"`))
	require.Positive(s, s.metric("rocecn_sink_errors_total", `error="limited"`))

	// All packets that left the agent for the senders have arrived.
	sent := s.metric("rocecn_sink_packets_total", `role="switch"`) +
		s.metric("rocecn_sink_packets_total", `role="proxy"`) + s.metric("rocecn_sink_packets_total", `role="receiver"`)
	defer func() {
		s.Logf("%.0f notifications left the agent, %d arrived, %d packets were lost then", sent, arrived.Load(),
			s.in.Lost())
	}()
	wiretest.Await(s.T, "packets sent by the sinks", func() bool { return float64(arrived.Load()) >= sent })
	require.EqualValues(s, sent, arrived.Load())
}

// Tens of thousands of packets of every kind pass three roles. Each is counted once by its outcome, and the
// counters add up to the sent packets.
func TestEveryPacketIsCounted(t *testing.T) {
	a, r, b, in := network(t)
	agent := start(t, r, theProxy+readConfig("counted"))
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
		if round%10 == 9 { // no faster than the test network and the agent
			agent.awaits(t, float64((round+1)*burst), "rocecn_source_packets_total", `source="messages"`)
			agent.awaits(t, float64(4*(round+1)*burst+1), "rocecn_source_packets_total", `source="both"`)
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
		_, packets, err := poll.Next(wiretest.Timeout)
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
