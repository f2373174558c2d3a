//go:build linux

package kerneltest

import (
	"bytes"
	"net/netip"
	"testing"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/proxy"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// A captured connection crosses the proxy in both directions. Then the congested node sends messages about its
// flows, which the proxy receives from an ordinary socket. For a known flow, an ordinary socket of the sender
// receives a CNP with the queue pair of the REQ and a valid ICRC.
//
//	sender ── proxy ── congested node
func TestProxyBetweenSenderAndCongestedNode(t *testing.T) {
	sender, between, congested := newHost(t, "sender"), newHost(t, "proxy"), newHost(t, "congested")
	connect(t, sender, "eth0", between, "in")
	connect(t, between, "out", congested, "eth0")
	sender.address(t, "eth0", "10.77.0.2/24")
	between.address(t, "out", "192.0.2.7/24")
	congested.address(t, "eth0", "192.0.2.5/24")
	start, in := sender.tap(t, "eth0"), between.tap(t, "in")
	out, end := between.tap(t, "out"), congested.tap(t, "eth0")

	self := netip.MustParseAddr("192.0.2.7")
	qps := qpmap.New(qpmap.Config{})
	p, err := proxy.New(proxy.Config{
		Enabled: true, Self4: self, QPs: qps,
		Accept: acl.New(netip.MustParsePrefix("192.0.2.5/32")),
		Senders: acl.NewMap(acl.Entry[proxy.Answer]{Prefix: netip.MustParsePrefix("10.77.0.0/24"),
			Value: proxy.AnswerCNP}),
	})
	require.NoError(t, err)

	// The capture up to the end of its data.
	requester := netip.MustParseAddr("10.77.0.2")
	var now time.Time
	var data rocev2.Packet // the requester's last one
	learned := map[uint32]bool{}
	for _, c := range wiretest.Capture(t, "rxe-ucmatose4.pcap")[:57] {
		var q rocev2.Packet
		if q.DecodeEthernet(c.Data) != nil {
			continue
		}
		from, to, away, far := start, in, out, end
		if q.Src != requester {
			from, to, away, far = end, out, in, start
		}
		now = c.Time
		from.sendIP(t, to, q.IP)
		frame := to.receive(t, "packet", func(frame []byte) bool { return bytes.HasSuffix(frame, q.IP) })
		require.NoError(t, q.DecodeEthernet(frame))
		p.Receive(nil, frameOf(frame), node.Event{Now: now})
		away.sendIP(t, far, q.IP)
		for k, pair := range qps.Learned() {
			if k.Src == requester {
				learned[pair.SrcQP] = true
			}
		}
		if q.Src == requester && q.BTH.Opcode == bth.RCSendOnly {
			data = q
		}
	}
	require.Equal(t, map[uint32]bool{0x11: true, 0x12: true}, learned)

	messages := between.listen(t, self, proxymsg.Port)
	notify := func(about *rocev2.Packet) ([]byte, node.Decision) {
		var f rocev2.Frame
		f.Decode(whole(t, about), rocev2.DecodeOptions{Link: rocev2.LinkIP})
		b := wiretest.Must(proxymsg.AppendFor(nil, &f, netip.MustParseAddr("192.0.2.5"), self, 4, proxymsg.Config{}))(t)
		end.sendIP(t, out, b)
		require.Equal(t, b[20+8:], receive(t, messages))
		var frame rocev2.Frame
		frame.Decode(b, rocev2.DecodeOptions{Link: rocev2.LinkIP})
		return p.Receive(nil, &frame, node.Event{Now: now})
	}

	unknown, uc := data, data
	unknown.BTH.DestQP = 0x77
	uc.BTH.Opcode, uc.BTH.DestQP = bth.UCSendOnly, 0x78
	for _, q := range []*rocev2.Packet{&unknown, &uc} {
		b, d := notify(q)
		require.Equal(t, node.ReasonUnknownQP, d.Reason)
		require.Empty(t, b)
	}
	ambiguous := data
	ambiguous.BTH.Opcode, ambiguous.BTH.DestQP = bth.UDSendOnly, 0x79
	for source := range uint32(2) { // two queue pairs send to this one
		ambiguous.BTH.DETH.SrcQP = 0x80 + source
		ethernet := append(make([]byte, 12), 8, 0)
		p.Receive(nil, frameOf(append(ethernet, whole(t, &ambiguous)...)), node.Event{Now: now})
	}
	b, d := notify(&ambiguous)
	require.Equal(t, node.ReasonAmbiguousQP, d.Reason)
	require.Empty(t, b)

	socket := sender.listen(t, requester, rocev2.Port)
	b, d = notify(&data)
	require.Equal(t, node.Decision{
		Action: node.ActionSent, Packet: message.Proxy, Message: message.CNP,
		From: netip.MustParseAddr("192.0.2.5"), To: requester,
		Flow:  qpmap.Key{FlowKey: rocev2.FlowKey{Src: data.Src, Dst: data.FinalDst(), DestQP: data.BTH.DestQP}},
		SrcQP: 0x12, KnownQP: true, Level: 4,
	}, d)
	in.sendIP(t, start, b)
	arrived := receive(t, socket)
	require.EqualValues(t, 0x81, arrived[0])
	require.Equal(t, []byte{0, 0, 0x12}, arrived[5:8])
	frame := start.receive(t, "CNP", func(frame []byte) bool { return bytes.HasSuffix(frame, b) })
	row := wiretest.Tshark(t, frame)[0]
	require.EqualValues(t, 0x81, row.Uint("infiniband.bth.opcode"))
	require.EqualValues(t, 0x12, row.Uint("infiniband.bth.destqp"))
	require.Equal(t, "192.0.2.7", row.Get("ip.src"))
	require.Equal(t, "10.77.0.2", row.Get("ip.dst"))
	_, err = icrc.Verify(frame[14:])
	require.NoError(t, err)

	require.EqualValues(t, 1, p.Counters().Load(node.Count{Action: node.ActionSent}))
	require.EqualValues(t, 2, p.Counters().Load(node.Count{Action: node.ActionRefused, Reason: node.ReasonUnknownQP}))
	require.EqualValues(t, 1, p.Counters().Load(node.Count{Action: node.ActionRefused, Reason: node.ReasonAmbiguousQP}))
}
