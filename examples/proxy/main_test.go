package main

import (
	"bytes"
	"net/netip"
	"testing"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/netio"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/proxy"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// about returns the IP packet with a proxy message about a frame with data, nil for
// another one.
func about(t *testing.T, frame []byte, congested, self netip.Addr) []byte {
	t.Helper()
	var p rocev2.Packet
	var f rocev2.Frame
	if p.DecodeEthernet(frame) != nil || p.BTH.Opcode != bth.RCSendOnly {
		return nil
	}
	f.Decode(frame, rocev2.DecodeOptions{})
	return wiretest.Must(proxymsg.AppendFor(nil, &f, congested, self, 3, proxymsg.Config{}))(t)
}

// requireCNP says that a packet is a CNP from the proxy to a queue pair that one of
// the connection's ends has named.
func requireCNP(t *testing.T, p *rocev2.Packet, self netip.Addr) {
	t.Helper()
	_, err := p.VerifyICRC()
	require.NoError(t, err)
	c := wiretest.Must(cnp.FromPacket(p))(t)
	require.Contains(t, []uint32{0x11, 0x12}, c.DestQP)
	require.Equal(t, self, p.Src)
}

// Behind each data packet of a captured connection comes a message about it: the
// CNPs have the queue pairs that the connection's ends have named.
func TestProxy(t *testing.T) {
	self, congested := netip.MustParseAddr("10.77.0.254"), netip.MustParseAddr("192.0.2.5")
	var b, written bytes.Buffer
	w := wiretest.Must(capture.NewWriter(&b, capture.Ethernet, time.Microsecond))(t)
	data := 0
	for _, c := range wiretest.Capture(t, "rxe-ucmatose4.pcap") {
		require.NoError(t, w.Write(&capture.Record{Data: c.Data, Time: c.Time}))
		if m := about(t, c.Data, congested, self); m != nil {
			require.NoError(t, w.Write(&capture.Record{Data: append(bytes.Clone(c.Data[:14]), m...), Time: c.Time}))
			data++
		}
	}
	in := wiretest.Must(netio.OpenFile(&b))(t)
	out := wiretest.Must(in.Sink(&written, capture.Raw))(t)
	p := wiretest.Must(proxy.New(proxy.Config{
		Enabled: true, Self4: self, QPs: qpmap.New(qpmap.Config{}), Accept: acl.New(netip.PrefixFrom(congested, 32)),
		Senders: acl.NewMap(acl.Entry[proxy.Answer]{Prefix: netip.MustParsePrefix("10.77.0.0/24"),
			Value: proxy.AnswerCNP}),
	}))(t)
	require.NoError(t, run(t.Context(), p, out, in))

	sent := wiretest.Must(capture.Open(&written))(t)
	n := 0
	for r, err := range capture.All(sent) {
		require.NoError(t, err)
		var p rocev2.Packet
		require.NoError(t, p.DecodeIP(r.Data))
		requireCNP(t, &p, self)
		n++
	}
	require.Equal(t, data, n)
	require.EqualValues(t, data, p.Counters().Load(node.Count{Action: node.ActionSent}))
	require.Positive(t, data)
}
