package main

import (
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/filter"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/netio"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

const isSwitch = "ROCECN_TEST_SWITCH"

func TestMain(m *testing.M) {
	if os.Getenv(isSwitch) != "" {
		main()
	}
	os.Exit(m.Run())
}

// A sender floods the slow port of a router. The agent there tells it, by a Fast CNP
// that tshark reads, too; Linux does not understand that and says so, which the agent
// learns.
func TestSwitch(t *testing.T) {
	a, s, b := wiretest.NewHost(t, "a"), wiretest.NewHost(t, "s"), wiretest.NewHost(t, "b")
	wiretest.Link(t, wiretest.End{Host: a, Device: "a0", Addresses: []string{"2001:db8:1::a/64"}},
		wiretest.End{Host: s, Device: "s0", Addresses: []string{"2001:db8:1::5/64"}})
	wiretest.Link(t, wiretest.End{Host: s, Device: "s1", Addresses: []string{"2001:db8:2::5/64"}},
		wiretest.End{Host: b, Device: "b0", Addresses: []string{"2001:db8:2::b/64"}})
	a.Run(t, "", "ip", "route", "add", "default", "via", "2001:db8:1::5")
	s.Do(t, func() error { return os.WriteFile("/proc/sys/net/ipv6/conf/all/forwarding", []byte("1"), 0) })
	tc := wiretest.Tool(t, "tc")
	slow := strings.Fields("qdisc add dev s1 root tbf rate 100kbit burst 2000 limit 1000000")
	if out, err := s.TryRun("", tc, slow...); err != nil {
		wiretest.NotInKernel(t, "CONFIG_NET_SCH_TBF", out)
	}
	t.Setenv(isSwitch, "yes")
	s.Start(t, "/proc/self/exe", "-i", "s1", "-self", "2001:db8:1::5", "-senders", "2001:db8:1::/64",
		"-http", "[::1]:9099")
	metrics := func() (text string) {
		_ = s.Try(func() error {
			c, err := net.Dial("tcp", "[::1]:9099")
			if err != nil {
				return err
			}
			defer c.Close()
			if _, err := io.WriteString(c, "GET /metrics HTTP/1.0\r\n\r\n"); err != nil {
				return err
			}
			octets, err := io.ReadAll(c)
			text = string(octets)
			return err
		})
		return text
	}
	wiretest.Await(t, "the agent", func() bool { return strings.Contains(metrics(), "rocecn_queue_octets 0\n") })

	roce := &filter.Capture{Selection: filter.RoCEv2}
	in := wiretest.Open(t, a, netio.OpenPackets, netio.PacketConfig{Interface: "a0", Direction: netio.In, Filter: roce})
	out := wiretest.Open(t, a, netio.OpenRaw, "")
	poll := wiretest.Must(netio.NewPoll(t.Context(), in))(t)
	defer poll.Close()
	data := rocev2.Packet{Payload: make([]byte, 1024)}
	data.Src, data.Dst = netip.MustParseAddr("2001:db8:1::a"), netip.MustParseAddr("2001:db8:2::b")
	data.SrcPort, data.DstPort, data.HopLimit, data.TrafficClass = 49152, rocev2.Port, 64, uint8(rocev2.ECT0)
	data.BTH.Header = bth.Header{Opcode: bth.RCSendMiddle, PKey: 0xFFFF, DestQP: 0x12}
	octets, err := data.AppendBinary(nil)
	require.NoError(t, err)

	var frame []byte
	wiretest.Await(t, "a Fast CNP", func() bool {
		for range 10 {
			require.NoError(t, out.Send(octets))
		}
		require.NoError(t, out.Flush())
		_, packets, err := poll.Next(0)
		require.NoError(t, err)
		if len(packets) > 0 {
			frame = append(frame, packets[0].Data...)
		}
		return frame != nil
	})
	var p rocev2.Packet
	require.NoError(t, p.DecodeEthernet(frame))
	_, err = p.VerifyICRC()
	require.NoError(t, err)
	n := wiretest.Must(fastcnp.FromPacket(&p, fastcnp.CodePoints{}))(t)
	require.Equal(t, rocev2.FlowKey{Src: data.Src, Dst: data.FinalDst(), DestQP: data.BTH.DestQP}, n.FlowKey())
	require.Equal(t, netip.MustParseAddr("2001:db8:1::5"), n.Src)
	row := wiretest.TsharkFields(t, []string{"infiniband.bth.opcode", "infiniband.bth.destqp"}, frame)[0]
	require.Equal(t, []string{"129"}, row.All("infiniband.bth.opcode"))
	require.Equal(t, []string{"0x000012"}, row.All("infiniband.bth.destqp"))

	wiretest.Await(t, "that Linux does not understand Fast CNPs", func() bool {
		return strings.Contains(metrics(), "rocecn_switch_total{what=\"learned\"} ")
	})
	text := metrics()
	require.Contains(t, text, "rocecn_switch_total{what=\"sent_fastcnp\"} ")
	require.Contains(t, text, "rocecn_send_failed_total 0\n")
	require.Contains(t, text, "rocecn_lost_total 0\n")
}
