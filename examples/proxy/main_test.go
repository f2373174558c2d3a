package main

import (
	"bytes"
	"net/netip"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/proxy"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// Behind each data packet of a captured connection comes a message about it: the
// CNPs have the queue pairs that the connection's ends have named.
func TestProxy(t *testing.T) {
	self, congested := netip.MustParseAddr("10.77.0.254"), netip.MustParseAddr("192.0.2.5")
	var b bytes.Buffer
	w := pcapgo.NewWriter(&b)
	require.NoError(t, w.WriteFileHeader(1<<16, layers.LinkTypeEthernet))
	write := func(frame []byte, at time.Time) {
		require.NoError(t, w.WritePacket(gopacket.CaptureInfo{Timestamp: at, CaptureLength: len(frame),
			Length: len(frame)}, frame))
	}
	data := 0
	for _, c := range wiretest.Capture(t, "rxe-ucmatose4.pcap") {
		write(c.Data, c.Time)
		var p rocev2.Packet
		var f rocev2.Flow
		if p.DecodeFrame(c.Data) != nil || f.DecodeFrame(c.Data) != nil || p.BTH.Opcode != bth.RCSendOnly {
			continue
		}
		m, err := proxymsg.AppendFor(append([]byte(nil), c.Data[:14]...), &f, congested, self, 3, proxymsg.Config{})
		require.NoError(t, err)
		write(m, c.Time)
		data++
	}
	in, err := capture.Open(&b)
	require.NoError(t, err)
	var written bytes.Buffer
	out, err := capture.NewWriter(&written, capture.Raw, time.Microsecond)
	require.NoError(t, err)
	p, err := proxy.New(proxy.Config{
		Enabled: true, Self4: self, QPs: qpmap.New(qpmap.Config{}), Accept: acl.New(netip.PrefixFrom(congested, 32)),
		Senders: acl.NewMap(acl.Entry[proxy.Method]{Prefix: netip.MustParsePrefix("10.77.0.0/24"), Value: proxy.CNP}),
	})
	require.NoError(t, err)
	require.NoError(t, run(in, out, p))

	sent, err := pcapgo.NewReader(&written)
	require.NoError(t, err)
	for range data {
		ip, _, err := sent.ReadPacketData()
		require.NoError(t, err)
		var p rocev2.Packet
		require.NoError(t, p.DecodeIP(ip))
		_, err = p.VerifyICRC()
		require.NoError(t, err)
		c, err := cnp.FromPacket(&p)
		require.NoError(t, err)
		require.Contains(t, []uint32{0x11, 0x12}, c.DestQP)
		require.Equal(t, self, p.Src)
	}
	require.EqualValues(t, data, p.Counters().Of(node.Count{Action: node.Sent}))
	require.Positive(t, data)
}
