package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/rocecn/rocecn/filter"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/netio"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

const isProxy = "ROCECN_TEST_PROXY"

func TestMain(m *testing.M) {
	if os.Getenv(isProxy) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// A switch shows the proxy a captured connection on a mirror port, then a congested
// node tells of its data: the sender gets CNPs.
func TestLive(t *testing.T) {
	s, p := wiretest.NewHost(t, "switch"), wiretest.NewHost(t, "proxy")
	ends := []string{"192.0.2.5/24", "10.77.0.1/24", "10.77.0.2/24"}
	wiretest.Link(t, wiretest.End{Host: s, Device: "s0", Addresses: ends},
		wiretest.End{Host: p, Device: "p0", Addresses: []string{"192.0.2.254/24", "10.77.0.254/24"}})
	t.Setenv(isProxy, "yes")
	p.Start(t, "/proc/self/exe", "-i", "p0", "-self", "10.77.0.254",
		"-accept", "192.0.2.0/24", "-senders", "10.77.0.0/24")
	wiretest.Await(t, "the proxy", func() bool { // the socket that it opens last but one
		return strings.Contains(p.Run(t, "", "cat", "/proc/net/udp6"), fmt.Sprintf(":%04X ", proxymsg.Port))
	})
	mirror := wiretest.On(t, s, func() (netio.Sink, error) { return netio.OpenPort("s0", nil) })
	out := wiretest.Open(t, s, netio.OpenRaw, "")
	roce := &filter.Capture{Selection: filter.RoCEv2}
	in := wiretest.Open(t, s, netio.OpenPackets, netio.PacketConfig{Interface: "s0", Direction: netio.In, Filter: roce})
	poll := wiretest.Must(netio.NewPoll(t.Context(), in))(t)
	defer poll.Close()
	var traffic [][]byte
	var message []byte
	for _, c := range wiretest.Capture(t, "rxe-ucmatose4.pcap") {
		traffic = append(traffic, c.Data)
		if message = about(t, c.Data, congested, self); message != nil {
			break // the rest ends the connection
		}
	}
	var m proxymsg.Message
	var frame []byte
	wiretest.Await(t, "a CNP", func() bool { // the cable may not be up yet, and the message be read before the traffic
		for _, frame := range traffic {
			require.NoError(t, mirror.Send(frame))
		}
		require.NoError(t, mirror.Flush())
		require.NoError(t, out.Send(message))
		require.NoError(t, out.Flush())
		_, packets, err := poll.Next(0)
		require.NoError(t, err)
		if len(packets) > 0 {
			frame = append(frame, packets[0].Data...)
		}
		return frame != nil
	})
	var cnp rocev2.Packet
	require.NoError(t, cnp.DecodeEthernet(frame))
	requireCNP(t, &cnp, self)
	var d rocev2.Datagram
	require.NoError(t, d.DecodeIP(message))
	require.NoError(t, m.Decode(d.Data, 0))
	require.Equal(t, m.Src, cnp.Dst)
}
