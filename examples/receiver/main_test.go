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
	"github.com/rocecn/rocecn/netio"
	"github.com/rocecn/rocecn/node/receiver"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// All data of a capture with connection management arrives marked: the CNPs have
// the queue pairs that the connection's ends have named.
func TestReceiver(t *testing.T) {
	var in bytes.Buffer
	w := pcapgo.NewWriter(&in)
	require.NoError(t, w.WriteFileHeader(1<<16, layers.LinkTypeEthernet))
	for _, c := range wiretest.Capture(t, "rxe-rping6.pcap") {
		var f rocev2.Frame
		f.Decode(c.Data, rocev2.DecodeOptions{})
		if ip := f.Outer().IP(); ip != nil {
			wiretest.SetECN(t, ip, uint8(rocev2.CE))
		}
		info := gopacket.CaptureInfo{Timestamp: c.Time, CaptureLength: len(c.Data), Length: c.OrigLen}
		require.NoError(t, w.WritePacket(info, c.Data))
	}
	var b bytes.Buffer
	captured, err := netio.OpenFile(&in)
	require.NoError(t, err)
	out, err := captured.Sink(&b, capture.Raw)
	require.NoError(t, err)
	self := netip.MustParseAddr("fd77::1")
	r, err := receiver.New(receiver.Config{
		Enabled: true, Self6: self, QPs: qpmap.New(qpmap.Config{}), PerFlow: 50 * time.Microsecond,
	})
	require.NoError(t, err)
	require.NoError(t, run(captured, out, r))

	sent, err := pcapgo.NewReader(&b)
	require.NoError(t, err)
	n := 0
	for {
		ip, _, err := sent.ReadPacketData()
		if err != nil {
			break
		}
		var p rocev2.Packet
		require.NoError(t, p.DecodeIP(ip))
		_, err = p.VerifyICRC()
		require.NoError(t, err)
		c, err := cnp.FromPacket(&p)
		require.NoError(t, err)
		require.Equal(t, bth.CNP, c.Opcode)
		require.Equal(t, []any{self, netip.MustParseAddr("fd77::2")}, []any{p.Src, p.Dst})
		if c.DestQP != 1 { // connection management itself
			require.EqualValues(t, 0x11, c.DestQP)
			n++
		}
	}
	require.Positive(t, n)
}
