package main

import (
	"bytes"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/encap"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/netio"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/ingress"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

var (
	self, egress = netip.MustParseAddr("2001:db8:fe::1"), netip.MustParseAddr("2001:db8:fe::9")
	requester    = netip.MustParseAddr("10.77.0.2")
)

// play runs the PE over frames, which are a millisecond apart, and returns the
// packets that it sends.
func play(t *testing.T, frames [][]byte) (sent [][]byte) {
	t.Helper()
	var b, written bytes.Buffer
	w := pcapgo.NewWriter(&b)
	require.NoError(t, w.WriteFileHeader(1<<16, layers.LinkTypeEthernet))
	for i, f := range frames {
		info := gopacket.CaptureInfo{Timestamp: time.Unix(0, int64(i)*1e6), CaptureLength: len(f), Length: len(f)}
		require.NoError(t, w.WritePacket(info, f))
	}
	in, err := netio.OpenFile(&b)
	require.NoError(t, err)
	out, err := in.Sink(&written, capture.Raw)
	require.NoError(t, err)
	pe, err := ingress.New(ingress.Config{
		Enabled: true, WAN: self, Self4: netip.MustParseAddr("10.77.0.254"), QPs: qpmap.New(qpmap.Config{}),
		Accept: acl.New(netip.MustParsePrefix("2001:db8:fe::/48")), Seed: 1,
		Tunnel: &encap.IPInIPv6{Src: self, Dst: egress}, IgnoreTunnels: true,
	})
	require.NoError(t, err)
	require.NoError(t, forwardPackets(in, out, pe))
	r, err := pcapgo.NewReader(&written)
	require.NoError(t, err)
	for {
		ip, _, err := r.ReadPacketData()
		if err != nil {
			return sent
		}
		sent = append(sent, ip)
	}
}

// A captured connection has its requester here and its responder beyond the WAN. The FCN about the label of its data
// becomes a CNP to the queue pair of the requester.
func TestIngress(t *testing.T) {
	ethernet := []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0xDD}
	var frames [][]byte
	for _, c := range wiretest.Capture(t, "rxe-ucmatose4.pcap") {
		var p rocev2.Packet
		if p.DecodeEthernet(c.Data) != nil {
			continue
		}
		frame := c.Data
		if p.Src != requester {
			var err error
			frame, err = (&encap.IPInIPv6{Src: egress, Dst: self}).Append(slices.Clone(ethernet), p.IP, 0x77)
			require.NoError(t, err)
		}
		frames = append(frames, frame)
		if p.Src == requester && p.BTH.Opcode == bth.RCSendOnly {
			break
		}
	}
	sent := play(t, frames)
	data := sent[len(sent)-1]
	var f rocev2.Frame
	f.Decode(data, rocev2.DecodeOptions{Link: rocev2.LinkIP})
	require.NotZero(t, f.Outer().FlowLabel())
	require.True(t, bytes.HasSuffix(frames[len(frames)-1], f.Inner().IP()))

	message, err := fcn.Message{FlowLabel: f.Outer().FlowLabel(), Level: 1}.AppendPacket(slices.Clone(ethernet), egress,
		self, fcn.Config{})
	require.NoError(t, err)
	again := play(t, append(frames, message))
	require.Equal(t, sent, again[:len(sent)])
	require.Len(t, again, len(sent)+1)
	var p rocev2.Packet
	require.NoError(t, p.DecodeIP(again[len(sent)]))
	_, err = p.VerifyICRC()
	require.NoError(t, err)
	c, err := cnp.FromPacket(&p)
	require.NoError(t, err)
	require.Equal(t, cnp.New(0x11, 0xFFFF), c)
	require.Equal(t, requester, p.Dst)
}

// The capture that the documentation names: each packet passes the WAN in a tunnel unchanged. Each RoCEv2 flow has a
// label of its own, and other packets have label 0.
func TestCapture(t *testing.T) {
	var frames [][]byte
	captured := wiretest.Capture(t, "rxe-ucmatose4.pcap")
	for _, c := range captured {
		frames = append(frames, c.Data)
	}
	var in, out rocev2.Frame
	labels := map[rocev2.FlowKey]uint32{}
	sent := play(t, frames)
	for _, frame := range frames {
		in.Decode(frame, rocev2.DecodeOptions{})
		if in.Outer().IP() == nil {
			continue
		}
		require.NotEmpty(t, sent)
		out.Decode(sent[0], rocev2.DecodeOptions{Link: rocev2.LinkIP})
		sent = sent[1:]
		require.Equal(t, []netip.Addr{self, egress}, []netip.Addr{out.Outer().Src(), out.Outer().Dst()})
		require.Equal(t, in.Outer().IP(), out.Inner().IP())
		var p rocev2.Packet
		var flow rocev2.FlowKey
		if in.Outer().Packet(&p) == nil {
			flow, _ = p.FlowKey()
		}
		if label, ok := labels[flow]; ok {
			require.Equal(t, label, out.Outer().FlowLabel())
		}
		labels[flow] = out.Outer().FlowLabel()
	}
	require.Empty(t, sent)
	require.Zero(t, labels[rocev2.FlowKey{}])
	require.Len(t, labels, 7, "3 queue pairs in each direction, and other packets")
	require.Len(t, slices.Compact(slices.Sorted(maps.Values(labels))), len(labels))
}
