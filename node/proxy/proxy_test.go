package proxy

import (
	"encoding/binary"
	"maps"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/encap"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wiretest"
	kinds "github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

var (
	start              = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	self4, self6       = addr("10.0.1.254"), addr("2001:db8:1::fe")
	switch4, switch6   = addr("192.0.2.5"), addr("2001:db8:ffff::5") // congested nodes
	sender4, receiver4 = addr("10.0.1.1"), addr("10.0.4.1")
	sender6, receiver6 = addr("2001:db8:1::1"), addr("2001:db8:4::1")
	flow4              = rocev2.FlowKey{Src: sender4, Dst: receiver4, DestQP: 0x11}
	flow6              = rocev2.FlowKey{Src: sender6, Dst: receiver6, DestQP: 0x11}
)

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

// senders returns the rule of all senders.
func senders(m Answer) *acl.Map[Answer] {
	return acl.NewMap(
		acl.Entry[Answer]{Prefix: netip.MustParsePrefix("0.0.0.0/0"), Value: m},
		acl.Entry[Answer]{Prefix: netip.MustParsePrefix("::/0"), Value: m},
	)
}

// newProxy returns a proxy that knows the sender's queue pair of both flows: 0x21.
func newProxy(t testing.TB, change func(*Config)) *Role {
	cfg := Config{
		Enabled: true, Self4: self4, Self6: self6, Senders: senders(AnswerCNP),
		Accept: acl.New(netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8:ffff::/48")),
		QPs:    qpmap.New(qpmap.Config{MaxPairs: 64, MaxOpen: 64, MaxPending: 64}),
	}
	for _, k := range []rocev2.FlowKey{flow4, flow6} {
		cfg.QPs.(*qpmap.Map).Add(qpmap.Key{FlowKey: k}, qpmap.Pair{SrcQP: 0x21})
	}
	if change != nil {
		change(&cfg)
	}
	return wiretest.Must(New(cfg))(t)
}

// congested returns a data packet of a flow.
func congested(t testing.TB, k rocev2.FlowKey, change func(*rocev2.Packet)) []byte {
	p := rocev2.Packet{Datagram: rocev2.Datagram{
		Src: k.Src, Dst: k.Dst, TrafficClass: uint8(rocev2.CE), HopLimit: 60, SrcPort: 0xC123, DstPort: rocev2.Port,
	}}
	p.BTH.Opcode, p.BTH.PKey, p.BTH.DestQP = bth.Opcode(bth.OpRDMAWriteOnly), 0x8001, k.DestQP
	p.Payload = make([]byte, 1024)
	if change != nil {
		change(&p)
	}
	return wiretest.Must(p.AppendBinary(nil))(t)
}

// message returns the message about a packet.
func messageAbout(t testing.TB, ip []byte) []byte {
	m := messageOf(t, ip)
	m.TruncateInvoking(switch4)
	return wiretest.Must(m.AppendBinary(nil))(t)
}

func TestCNP(t *testing.T) {
	for _, c := range []struct {
		flow         rocev2.FlowKey
		from         netip.Addr
		fromReceiver bool
		src          netip.Addr
	}{
		{flow4, switch4, false, self4},
		{flow4, switch6, false, self4}, // the message came over the other family
		{flow6, switch6, false, self6},
		{flow6, switch4, false, self6},
		{flow4, switch4, true, receiver4},
		{flow6, switch6, true, receiver6},
	} {
		p := newProxy(t, func(cfg *Config) { cfg.FromReceiver = c.fromReceiver })
		out, a, reason := p.receiveMessage([]byte{9}, c.from, messageAbout(t, congested(t, c.flow, nil)), start)
		require.Equal(t, node.NoReason, reason)
		require.Equal(t, answered{Method: AnswerCNP, Flow: c.flow, SrcQP: 0x21, Level: 3}, a)
		require.Equal(t, byte(9), out[0])
		got := decode(t, out[1:])
		require.Equal(t, c.src, got.Src)
		require.Equal(t, c.flow.Src, got.Dst)
		notification := wiretest.Must(cnp.FromPacket(&got))(t)
		require.Equal(t, cnp.New(0x21, 0x8001), notification)
		require.Equal(t, map[node.Count]uint64{{Action: node.ActionSent, Message: kinds.KindCNP}: 1},
			maps.Collect(p.Counters().All()))
	}
}

// READ responses are data: a message about one is answered like a message about a request. The proxy has learned the
// queue pair of their sender from the READs of the other end.
func TestResponses(t *testing.T) {
	for _, op := range []bth.Opcode{bth.RCRDMAReadResponseFirst, bth.RCRDMAReadResponseMiddle,
		bth.RCRDMAReadResponseLast, bth.RCRDMAReadResponseOnly} {
		t.Run(op.String(), func(t *testing.T) {
			m := qpmap.New(qpmap.Config{MaxPairs: 64, MaxOpen: 64, MaxPending: 64})
			p := newProxy(t, func(cfg *Config) { cfg.QPs = m })
			observe := func(k rocev2.FlowKey, op bth.Opcode, psn uint32, payload int) {
				var packet rocev2.Packet
				require.NoError(t, packet.DecodeIP(congested(t, k, func(p *rocev2.Packet) {
					p.BTH.Opcode, p.BTH.PSN, p.Payload = op, psn, make([]byte, payload)
					p.BTH.RETH.DMALength = 1024
				})))
				m.Observe(&packet, 0, start)
			}
			back := rocev2.FlowKey{Src: flow6.Dst, Dst: flow6.Src, DestQP: 0x21} // from the receiver of the responses
			for psn := range uint32(4) {
				observe(back, bth.RCRDMAReadRequest, 100+psn, 0)
				observe(flow6, bth.RCRDMAReadResponseOnly, 100+psn, 1024)
			}
			response := congested(t, flow6, func(p *rocev2.Packet) { p.BTH.Opcode, p.BTH.PSN = op, 104 })
			out, a, reason := p.receiveMessage(nil, switch6, messageAbout(t, response), start)
			require.Equal(t, node.NoReason, reason)
			require.Equal(t, answered{Method: AnswerCNP, Flow: flow6, SrcQP: 0x21, Level: 3}, a)
			got := decode(t, out)
			require.Equal(t, sender6, got.Dst)
			require.Equal(t, cnp.New(0x21, 0x8001), wiretest.Must(cnp.FromPacket(&got))(t))
		})
	}
}

func decode(t *testing.T, ip []byte) (p rocev2.Packet) {
	t.Helper()
	require.NoError(t, p.DecodeIP(ip))
	_, err := icrc.Verify(p.IP)
	require.NoError(t, err)
	return p
}

// Fast CNP and PPFC name the receiver's queue pair: no pair need be known.
func TestOtherMethods(t *testing.T) {
	p := newProxy(t, func(c *Config) { c.Senders, c.QPs = senders(AnswerFastCNP), nil })
	out, a, reason := p.receiveMessage(nil, switch6, messageAbout(t, congested(t, flow6, nil)), start)
	require.Equal(t, node.NoReason, reason)
	require.Equal(t, answered{Method: AnswerFastCNP, Flow: flow6, Option: 1, Level: 3}, a)
	got := decode(t, out)
	n := wiretest.Must(fastcnp.FromPacket(&got, fastcnp.CodePoints{}))(t)
	require.Equal(t, receiver6, n.Option.OriginalDst)
	require.EqualValues(t, 0x11, n.CNP.DestQP)
	require.EqualValues(t, 0x8001, n.CNP.PKey)
	require.NotEqual(t, n.Option.OriginalDst, n.Src, "from the network")

	p = newProxy(t, func(c *Config) {
		c.Senders, c.QPs, c.Pause = senders(AnswerPPFC), nil, ppfc.Extension{Type: ppfc.Stop,
			Pause: 100 * time.Microsecond}
	})
	for _, k := range []rocev2.FlowKey{flow4, flow6} {
		out, a, reason = p.receiveMessage(nil, switch6, messageAbout(t, congested(t, k, nil)), start)
		require.Equal(t, node.NoReason, reason)
		require.Equal(t, answered{Method: AnswerPPFC, Flow: k, Level: 3}, a)
		got = decode(t, out)
		n := wiretest.Must(ppfc.FromPacket(&got))(t)
		require.Equal(t, ppfc.Extension{Congested: k.Dst, Type: ppfc.Stop, Pause: 100 * time.Microsecond}, n.Extension)
		require.EqualValues(t, 0x11, n.DestQP)
	}
}

// The trace of the invoking packet goes into the Fast CNP.
func TestFastCNPWithTrace(t *testing.T) {
	p := newProxy(t, func(c *Config) { c.Senders = senders(AnswerFastCNP) })
	frame := wiretest.Capture(t, "ioam-linux618-hpcc.pcap")[0].Data
	out, a, reason := p.receiveMessage(nil, switch6, messageAbout(t, frame[14:]), start)
	require.Equal(t, node.NoReason, reason)
	require.EqualValues(t, 2, a.Option)
	got := decode(t, out)
	n := wiretest.Must(fastcnp.FromPacket(&got, fastcnp.CodePoints{}))(t)
	require.EqualValues(t, 2, n.Option.Number)
}

// A congested node inside a VPN includes the packet in its tunnel.
func TestTunnelledInvokingPacket(t *testing.T) {
	for _, via := range []encap.Tunnel{
		&encap.IPInIPv6{Src: addr("2001:db8:fe::1"), Dst: addr("2001:db8:fe::9")},
		&encap.VXLAN{Src: addr("2001:db8:fe::1"), Dst: addr("2001:db8:fe::9"), VNI: 7, Ethernet: make([]byte, 14)},
	} {
		p := newProxy(t, nil)
		outer := wiretest.Must(via.Append(nil, congested(t, flow4, nil), 5))(t)
		_, a, reason := p.receiveMessage(nil, switch6, messageAbout(t, outer), start)
		require.Equal(t, node.NoReason, reason)
		require.Equal(t, flow4, a.Flow)
		require.EqualValues(t, 0x21, a.SrcQP)
	}
}

func TestReceiveRejects(t *testing.T) {
	with := func(change func(m *proxymsg.Message)) func(t *testing.T) []byte {
		return func(t *testing.T) []byte {
			var m proxymsg.Message
			require.NoError(t, m.Decode(messageAbout(t, congested(t, flow6, nil)), 0))
			change(&m)
			return wiretest.Must(m.AppendBinary(nil))(t)
		}
	}
	about := func(k rocev2.FlowKey, change func(*rocev2.Packet)) func(t *testing.T) []byte {
		return func(t *testing.T) []byte { return messageAbout(t, congested(t, k, change)) }
	}
	opcode := func(op bth.Operation) func(*rocev2.Packet) {
		return func(p *rocev2.Packet) { p.BTH.Opcode = bth.Opcode(op) }
	}
	right := about(flow6, nil)
	for _, c := range []struct {
		name   string
		change func(*Config)
		from   netip.Addr
		data   func(t *testing.T) []byte
		want   node.Reason
	}{
		{"no list", func(c *Config) { c.Accept = nil }, switch6, right, node.ReasonDenied},
		{"not on the list", nil, addr("2001:db8:fffe::5"), right, node.ReasonDenied},
		{"a sender itself", nil, sender6, right, node.ReasonDenied},
		{"no octets", nil, switch6, func(*testing.T) []byte { return nil }, node.ReasonBroken},
		{"no invoking packet", nil, switch6, with(func(m *proxymsg.Message) { m.Invoking = nil }), node.ReasonBroken},
		{"truncated before the queue pair", nil, switch6,
			with(func(m *proxymsg.Message) { m.Invoking = m.Invoking[:40+8+11] }), node.ReasonBroken},
		{"TCP", nil, switch6, with(func(m *proxymsg.Message) { m.Protocol = 6 }), node.ReasonTupleMismatch},
		{"another port", nil, switch6, with(func(m *proxymsg.Message) { m.DstPort = 4790 }), node.ReasonTupleMismatch},
		{"another sender", func(c *Config) { c.Family = proxymsg.IPv6 }, switch6,
			with(func(m *proxymsg.Message) { m.Src = addr("2001:db8:1::2") }), node.ReasonTupleMismatch},
		{"another receiver", func(c *Config) { c.Family = proxymsg.IPv6 }, switch6,
			with(func(m *proxymsg.Message) { m.Dst = addr("2001:db8:4::2") }), node.ReasonTupleMismatch},
		{"another source port", nil, switch6, with(func(m *proxymsg.Message) { m.SrcPort++ }),
			node.ReasonTupleMismatch},
		{"fragment", nil, switch6, with(func(m *proxymsg.Message) { m.Invoking[6] = 44 }), node.ReasonFragment},
		{"acknowledgement", nil, switch6, about(flow6, opcode(bth.OpAcknowledge)), node.ReasonAcknowledgement},
		{"ATOMIC acknowledgement", nil, switch6, about(flow6, opcode(bth.OpAtomicAcknowledge)),
			node.ReasonAcknowledgement},
		{"CNP", nil, switch6, about(flow6, func(p *rocev2.Packet) {
			p.BTH.Opcode, p.Payload = bth.CNP,
				make([]byte, 16)
		}), node.ReasonNotification},
		{"sender link-local", nil, switch6, about(rocev2.FlowKey{Src: addr("fe80::1"), Dst: receiver6, DestQP: 0x11},
			nil), node.ReasonAddress},
		{"sender is the proxy over IPv4", nil, switch6,
			about(rocev2.FlowKey{Src: self4, Dst: receiver4, DestQP: 0x11}, nil), node.ReasonOwnAddress},
		{"sender is the proxy", nil, switch6, about(rocev2.FlowKey{Src: self6, Dst: receiver6, DestQP: 0x11}, nil),
			node.ReasonOwnAddress},
		{"no senders", func(c *Config) { c.Senders = nil }, switch6, right, node.ReasonNoMethod},
		{"sender not notified", func(c *Config) { c.Senders = senders(NoAnswer) }, switch6, right, node.ReasonNoMethod},
		{"Fast CNP over IPv4", func(c *Config) { c.Senders = senders(AnswerFastCNP) }, switch6, about(flow4, nil),
			node.ReasonNoMethod},
		{"no address of the family", func(c *Config) { c.Self4 = netip.Addr{} }, switch6, about(flow4, nil),
			node.ReasonNoMethod},
		{"CNP from a multicast address", func(c *Config) {
			c.FromReceiver = true
			c.QPs.(*qpmap.Map).Add(qpmap.Key{FlowKey: rocev2.FlowKey{Src: sender4, Dst: addr("224.0.0.5"), DestQP: 1}},
				qpmap.Pair{SrcQP: 1})
		}, switch6, about(rocev2.FlowKey{Src: sender4, Dst: addr("224.0.0.5"), DestQP: 1}, nil), node.ReasonAddress},
		{"pair not known", nil, switch6, about(rocev2.FlowKey{Src: sender6, Dst: receiver6, DestQP: 0x12}, nil),
			node.ReasonUnknownQP},
		{"no pairs", func(c *Config) { c.QPs = nil }, switch6, right, node.ReasonUnknownQP},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newProxy(t, c.change)
			data := c.data(t)
			out, a, reason := p.receiveMessage([]byte{9}, c.from, data, start)
			require.Equal(t, c.want, reason)
			require.Equal(t, []byte{9}, out)
			require.Zero(t, a)
			require.Zero(t, p.sent())
			require.EqualValues(t, 1, p.refused(c.want))
			wiretest.NoAllocs(t, c.name, func() { _, _, _ = p.receiveMessage(nil, c.from, data, start) })
		})
	}
}

// Rules go by the sender's longest prefix, so a forged tuple can aim a
// notification nowhere else.
func TestSendersByPrefix(t *testing.T) {
	p := newProxy(t, func(c *Config) {
		c.Senders = acl.NewMap(
			acl.Entry[Answer]{Prefix: netip.MustParsePrefix("2001:db8:1::/48"), Value: AnswerCNP},
			acl.Entry[Answer]{Prefix: netip.MustParsePrefix("2001:db8:1:1::/64"), Value: AnswerFastCNP},
			acl.Entry[Answer]{Prefix: netip.MustParsePrefix("2001:db8:1:2::/64"), Value: NoAnswer},
		)
	})
	for _, c := range []struct {
		name string
		want node.Reason
	}{
		{"2001:db8:1::1", node.NoReason},
		{"2001:db8:1:1::1", node.NoReason},
		{"2001:db8:1:2::1", node.ReasonNoMethod},
		{"2001:db8:2::1", node.ReasonNoMethod},
		{"10.0.1.1", node.ReasonNoMethod},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := flow6
			if k.Src = addr(c.name); k.Src.Is4() {
				k.Dst = receiver4
			}
			_, a, reason := p.receiveMessage(nil, switch6, messageAbout(t, congested(t, k, nil)), start)
			require.Equal(t, c.want, reason)
			if c.name == "2001:db8:1:1::1" {
				require.Equal(t, AnswerFastCNP, a.Method)
			}
		})
	}
}

func TestReceivePacket(t *testing.T) {
	p := newProxy(t, nil)
	var f rocev2.Frame
	f.Decode(congested(t, flow6, nil), rocev2.DecodeOptions{Link: rocev2.LinkIP})
	datagram := func(src, dst netip.Addr, change func(ip []byte)) (d rocev2.Datagram) {
		ip := wiretest.Must(proxymsg.AppendFor(nil, &f, src, dst, 3, proxymsg.Config{}))(t)
		if change != nil {
			change(ip)
		}
		require.NoError(t, d.DecodeIP(ip))
		return d
	}
	right := datagram(switch6, self6, nil)
	inner := wiretest.Must((&encap.IPInIPv6{Src: switch6, Dst: self6}).Append(nil, right.IP, 1))(t)
	var tunnelled, cut rocev2.Datagram
	require.NoError(t, tunnelled.DecodeIP(inner))
	require.NoError(t, cut.Decode(right.IP[:200], rocev2.DecodeOptions{Link: rocev2.LinkIP, AllowTruncated: true}))
	for _, c := range []struct {
		name string
		d    rocev2.Datagram
		want node.Reason
	}{
		{"right", right, node.NoReason},
		{"over IPv4", datagram(switch4, self4, nil), node.NoReason},
		{"another address", datagram(switch6, sender6, nil), node.ReasonNotOurs},
		{"tunnelled", tunnelled, node.ReasonTunnelled},
		{"cut", cut, node.ReasonBroken},
		{"checksum", datagram(switch6, self6, func(ip []byte) { ip[46]++ }), node.ReasonChecksum},
		{"no checksum", datagram(switch6, self6, func(ip []byte) { ip[46], ip[47] = 0, 0 }), node.ReasonChecksum},
		{"no checksum over IPv4", datagram(switch4, self4, func(ip []byte) { ip[26], ip[27] = 0, 0 }), node.NoReason},
		{"denied", datagram(addr("2001:db8:fffe::5"), self6, nil), node.ReasonDenied},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, _, reason := p.see(nil, &c.d, start)
			if c.want == node.NoReason {
				require.Equal(t, node.NoReason, reason)
				require.NotEmpty(t, out)
			} else {
				require.Equal(t, c.want, reason)
				require.Empty(t, out)
			}
		})
	}
}

// Every message of a node on the list is charged to the rates of messages; only sent notifications are charged to the
// other rates.
func TestLimits(t *testing.T) {
	const interval = 50 * time.Microsecond
	six, four := messageAbout(t, congested(t, flow6, nil)), messageAbout(t, congested(t, flow4, nil))
	unknown := messageAbout(t, congested(t, rocev2.FlowKey{Src: sender4, Dst: receiver4, DestQP: 0x99}, nil))
	otherQP, otherSender, otherReceiver := flow6, flow6, flow6
	otherQP.DestQP, otherSender.Src, otherReceiver.Dst = 0x12, sender6.Next(), receiver6.Next()
	type step struct {
		data []byte
		from netip.Addr
		at   time.Duration
		want node.Reason
	}
	for _, row := range []struct {
		name   string
		change func(*Config)
		steps  []step
	}{
		{"none", nil, []step{
			{six, switch6, 0, node.NoReason}, {six, switch6, 0, node.NoReason}, {six, switch6, 0, node.NoReason},
		}},
		{"per flow", func(c *Config) { c.PerFlow = interval }, []step{
			{six, switch6, 0, node.NoReason},
			{six, switch6, interval - 1, node.ReasonLimited},
			{four, switch6, interval - 1, node.NoReason},
			{six, switch6, interval, node.NoReason},
			{six, switch6, 2*interval - 1, node.ReasonLimited},
			{six, switch6, -time.Hour, node.ReasonLimited},
			{six, switch6, interval - time.Hour, node.NoReason},
		}},
		{"per flow, by all that names it", func(c *Config) {
			c.PerFlow = interval
			for _, k := range []rocev2.FlowKey{otherQP, otherSender, otherReceiver} {
				c.QPs.(*qpmap.Map).Add(qpmap.Key{FlowKey: k}, qpmap.Pair{SrcQP: 0x21})
			}
		}, []step{
			{six, switch6, 0, node.NoReason},
			{messageAbout(t, congested(t, otherQP, nil)), switch6, 0, node.NoReason},
			{messageAbout(t, congested(t, otherSender, nil)), switch6, 0, node.NoReason},
			{messageAbout(t, congested(t, otherReceiver, nil)), switch6, 0, node.NoReason},
			// the same flow
			{messageAbout(t, congested(t, flow6, func(p *rocev2.Packet) { p.SrcPort++ })), switch6, 0,
				node.ReasonLimited},
		}},
		{"in", func(c *Config) { c.In = node.Rate{PerSecond: 1, Burst: 3} }, []step{
			{six, addr("::1"), 0, node.ReasonDenied}, // takes nothing
			{unknown, switch6, 0, node.ReasonUnknownQP}, {nil, switch4, 0, node.ReasonBroken}, {six, switch6, 0,
				node.NoReason},
			{six, switch6, 0, node.ReasonLimited},
			{nil, switch4, time.Second - 1, node.ReasonLimited}, // before anything in the message is looked at
			{nil, addr("::1"), time.Second - 1, node.ReasonDenied},
			{six, switch6, time.Second, node.NoReason},
		}},
		{"in, by source", func(c *Config) { c.InPerSource = node.Rate{PerSecond: 1, Burst: 2} }, []step{
			{nil, switch6, 0, node.ReasonBroken}, {six, switch6, 0, node.NoReason}, {six, switch6, 0,
				node.ReasonLimited},
			{six, switch4, 0, node.NoReason}, {six, switch6.Next(), 0, node.NoReason}, // others are not held up
			{six, switch4, 0, node.NoReason}, {six, switch4, 0, node.ReasonLimited},
			{six, switch6, time.Second, node.NoReason},
		}},
		{"in, by source and in all", func(c *Config) {
			c.In, c.InPerSource = node.Rate{PerSecond: 1, Burst: 3}, node.Rate{PerSecond: 1, Burst: 2}
		}, []step{
			{six, switch6, 0, node.NoReason}, {six, switch6, 0, node.NoReason},
			{six, switch6, 0, node.ReasonLimited}, // takes nothing from the sum
			{six, switch4, 0, node.NoReason},
			// take nothing from the source
			{six, switch4, 0, node.ReasonLimited}, {six, switch4, 0, node.ReasonLimited},
			{six, switch4, time.Second, node.NoReason}, {six, switch4, 2 * time.Second, node.NoReason},
		}},
		{"out", func(c *Config) { c.Out = node.Rate{PerSecond: 1} }, []step{
			{unknown, switch6, 0, node.ReasonUnknownQP},
			{six, switch6, 0, node.NoReason},
			{unknown, switch6, 0, node.ReasonUnknownQP}, // looked at last
			{four, switch6, 0, node.ReasonLimited},
			{four, switch6, time.Second, node.NoReason},
		}},
		{"the message for the program", func(c *Config) {
			c.Senders, c.Out = senders(AnswerOther), node.Rate{PerSecond: 1}
		}, []step{
			{six, switch6, 0, node.NoReason}, {four, switch6, 0, node.ReasonLimited},
			{four, switch6, time.Second, node.NoReason},
		}},
		{"Out rejects, and the flow's interval does not begin", func(c *Config) {
			c.PerFlow, c.Out = time.Minute,
				node.Rate{PerSecond: 1}
		}, []step{
			{six, switch6, 0, node.NoReason},
			{four, switch6, 0, node.ReasonLimited},
			{four, switch6, time.Second, node.NoReason},
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := newProxy(t, row.change)
			for i, s := range row.steps {
				_, _, reason := p.receiveMessage(nil, s.from, s.data, start.Add(s.at))
				require.Equal(t, s.want, reason, "step %d", i)
			}
		})
	}
}

// tcp returns a packet of TCP, as much of it as names its flow, and the tuple.
func tcp(src, dst netip.Addr, srcPort, dstPort uint16) ([]byte, rocev2.FiveTuple) {
	b := append([]byte{0x60, 0, 0, 0, 0, 20, 6, 64}, append(src.AsSlice(), dst.AsSlice()...)...)
	b = binary.BigEndian.AppendUint16(b, srcPort)
	b = binary.BigEndian.AppendUint16(b, dstPort)
	tuple := rocev2.FiveTuple{Src: src, Dst: dst, Protocol: 6, SrcPort: srcPort, DstPort: dstPort}
	return append(b, make([]byte, 16)...), tuple
}

// encoded returns the octets of a message.
func encoded(t testing.TB, m proxymsg.Message) []byte {
	return wiretest.Must(m.AppendBinary(nil))(t)
}

// For a sender that does not use RoCEv2 the program chooses the notification; it gets the content of the message.
func TestOther(t *testing.T) {
	p := newProxy(t, func(c *Config) { c.Senders, c.Self6, c.QPs = senders(AnswerOther), netip.Addr{}, nil })
	packet, tuple := tcp(sender6, receiver6, 40000, 443)
	data := encoded(t, proxymsg.Message{FiveTuple: tuple, Level: 5, Invoking: packet})
	out, a, reason := p.receiveMessage([]byte{9}, switch4, data, start)
	require.Equal(t, node.NoReason, reason)
	require.Equal(t, []byte{9}, out, "nothing is sent")
	require.Equal(t, answered{
		Method: AnswerOther, Flow: rocev2.FlowKey{Src: sender6, Dst: receiver6}, Level: 5, Tuple: tuple,
		Invoking: packet,
	}, a)
	require.Equal(t, map[node.Count]uint64{{Action: node.ActionAccepted, Message: kinds.KindProxy}: 1},
		maps.Collect(p.Counters().All()))

	// RoCEv2 data of a sender with the rule AnswerOther, too.
	data = messageAbout(t, congested(t, flow4, nil))
	out, a, reason = p.receiveMessage(nil, switch4, data, start)
	require.Equal(t, node.NoReason, reason)
	require.Empty(t, out)
	var m proxymsg.Message
	require.NoError(t, m.Decode(data, 0))
	require.Equal(t, answered{Method: AnswerOther, Flow: flow4, Level: 3, Tuple: m.FiveTuple, Invoking: m.Invoking}, a)

	ack := congested(t, flow6, func(p *rocev2.Packet) { p.BTH.Opcode = bth.RCAcknowledge })
	aCNP := congested(t, flow6, func(p *rocev2.Packet) { p.BTH.Opcode, p.Payload = bth.CNP, make([]byte, 16) })
	other, otherTuple := tcp(sender6, receiver6, 40001, 443)
	for _, row := range []struct {
		name string
		m    proxymsg.Message
		want node.Reason
	}{
		{"no packet", proxymsg.Message{FiveTuple: tuple}, node.ReasonBroken},
		{"no ports", proxymsg.Message{FiveTuple: tuple, Invoking: packet[:43]}, node.ReasonBroken},
		{"another packet", proxymsg.Message{FiveTuple: tuple, Invoking: other}, node.ReasonTupleMismatch},
		{"another tuple", proxymsg.Message{FiveTuple: otherTuple, Invoking: packet}, node.ReasonTupleMismatch},
		{"acknowledgement", messageOf(t, ack), node.ReasonAcknowledgement},
		{"own", messageOf(t, first(tcp(own6, receiver6, 1, 2))), node.ReasonOwnAddress},
		{"link-local", messageOf(t, first(tcp(addr("fe80::1"), receiver6, 1, 2))), node.ReasonAddress},
		{"CNP is no answer", messageOf(t, aCNP), node.ReasonNotification},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := newProxy(t, func(c *Config) { c.Senders, c.Self6 = senders(AnswerOther), own6 })
			_, a, reason := p.receiveMessage(nil, switch6, encoded(t, row.m), start)
			require.Equal(t, row.want, reason)
			require.Zero(t, a)
		})
	}

	// The interval of such a flow goes by its five-tuple.
	p = newProxy(t, func(c *Config) { c.Senders, c.PerFlow = senders(AnswerOther), time.Hour })
	for i, c := range []struct {
		packet []byte
		want   node.Reason
	}{
		{packet, node.NoReason}, {packet, node.ReasonLimited}, {other, node.NoReason},
		{first(tcp(sender6, receiver6, 40000, 444)), node.NoReason},
		{first(tcp(sender6.Next(), receiver6, 40000, 443)), node.NoReason},
		{first(tcp(sender6, receiver6.Next(), 40000, 443)), node.NoReason},
		{udp(sender6, receiver6, 40000, 443), node.NoReason}, {udp(sender6, receiver6, 40000, 443), node.ReasonLimited},
	} {
		_, _, reason := p.receiveMessage(nil, switch6, encoded(t, messageOf(t, c.packet)), start)
		require.Equal(t, c.want, reason, "packet %d", i)
	}
	wiretest.NoAllocs(t, "other", func() { p.receiveMessage(nil, switch6, data, start) })
}

// own6 is an address of the proxy's.
var own6 = addr("2001:db8:1::fd")

func first(b []byte, _ rocev2.FiveTuple) []byte { return b }

// udp returns a UDP packet without data.
func udp(src, dst netip.Addr, srcPort, dstPort uint16) []byte {
	b, _ := tcp(src, dst, srcPort, dstPort)
	b[5], b[6] = 8, 17
	return append(b[:44], 0, 8, 0, 1)
}

// messageOf returns the message about a packet, undecoded.
func messageOf(t testing.TB, ip []byte) proxymsg.Message {
	var f rocev2.Frame
	f.Decode(ip, rocev2.DecodeOptions{Link: rocev2.LinkIP})
	tuple := wiretest.Must(f.FiveTuple())(t)
	return proxymsg.Message{FiveTuple: tuple, Level: 3, Invoking: f.Outer().IP()} // also for unanswerable packets
}

// A flow that is not RoCEv2 is none of those that a CNP, a Fast CNP or a PPFC can
// name, though its packet and its tuple are the same.
func TestNotRoCEv2(t *testing.T) {
	for _, method := range []Answer{AnswerCNP, AnswerFastCNP, AnswerPPFC, NoAnswer} {
		p := newProxy(t, func(c *Config) { c.Senders = senders(method) })
		for _, c := range []struct {
			name   string
			packet []byte
		}{
			{"TCP to that port", first(tcp(sender6, receiver6, 40000, rocev2.Port))},
			{"UDP to another", udp(sender6, receiver6, 40000, 4792)},
		} {
			t.Run(c.name, func(t *testing.T) {
				_, _, reason := p.receiveMessage(nil, switch6, encoded(t, messageOf(t, c.packet)), start)
				require.Equal(t, node.ReasonTupleMismatch, reason)
			})
		}
	}
}

// The level is that of the message, for every value.
func TestLevel(t *testing.T) {
	p := newProxy(t, nil)
	for level := range uint8(8) {
		m := messageOf(t, congested(t, flow6, nil))
		m.Level = level
		_, a, reason := p.receiveMessage(nil, switch6, encoded(t, m), start)
		require.Equal(t, node.NoReason, reason)
		require.Equal(t, level, a.Level)
	}
}

// Only a CNP may come from the receiver's address: a Fast CNP or PPFC that did would
// pass for the receiver's own.
func TestFromReceiverOnlyForCNPs(t *testing.T) {
	for _, method := range []Answer{AnswerFastCNP, AnswerPPFC} {
		p := newProxy(t, func(c *Config) { c.Senders, c.FromReceiver = senders(method), true })
		out, a, reason := p.receiveMessage(nil, switch6, messageAbout(t, congested(t, flow6, nil)), start)
		require.Equal(t, node.NoReason, reason)
		require.Equal(t, method, a.Method)
		got := decode(t, out)
		require.Equal(t, self6, got.Src)
	}
}

// Every sent message has the configured header fields and option types.
func TestCarriageAndCodePoints(t *testing.T) {
	for _, method := range []Answer{AnswerCNP, AnswerFastCNP, AnswerPPFC} {
		p := newProxy(t, func(c *Config) {
			c.Senders, c.Carriage = senders(method), rocev2.Carriage{DSCP: 10, HopLimit: 7}
			c.CodePoints = fastcnp.CodePoints{Option1: 0x83, Option2: 0x84}
			c.Pause = ppfc.Extension{Type: ppfc.Hold, Pause: 7 * time.Microsecond}
		})
		out, _, reason := p.receiveMessage(nil, switch6, messageAbout(t, congested(t, flow6, nil)), start)
		require.Equal(t, node.NoReason, reason)
		got := decode(t, out)
		require.Equal(t, []uint8{10, 7}, []uint8{got.TrafficClass >> 2, got.HopLimit}, method)
		switch method {
		case AnswerFastCNP:
			require.Equal(t, uint8(0x83), out[42], "the option type after IPv6 header, next header and length")
		case AnswerPPFC:
			n := wiretest.Must(ppfc.FromPacket(&got))(t)
			require.Equal(t, []any{ppfc.Hold, 7 * time.Microsecond}, []any{n.Type, n.Pause})
		}
	}
}

// Two capture queues with clocks 200 ms apart take turns: the proxy processes and answers no more messages than the
// limits allow.
func TestTwoClocks(t *testing.T) {
	ten := node.Rate{PerSecond: 10}
	for _, c := range []struct {
		name   string
		change func(*Config)
	}{
		{"in", func(c *Config) { c.In = ten }},
		{"in per source", func(c *Config) { c.InPerSource = ten }},
		{"per flow", func(c *Config) { c.PerFlow = 100 * time.Millisecond }},
		{"out", func(c *Config) { c.Out = ten }},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newProxy(t, c.change)
			data := messageAbout(t, congested(t, flow6, nil))
			out := make([]byte, 0, 256)
			for i := range 10_000 { // 50 µs apart: half a second in all
				at := start.Add(time.Duration(i) * 50 * time.Microsecond)
				if i%2 == 1 {
					at = at.Add(-200 * time.Millisecond)
				}
				p.receiveMessage(out, switch6, data, at)
			}
			require.EqualValues(t, 5, p.sent())
		})
	}
}

// A flood by one congested node, or in its name, does not use up the rates of the others.
func TestFloodLeavesOtherRates(t *testing.T) {
	p := newProxy(t, func(c *Config) {
		c.In, c.InPerSource = node.Rate{PerSecond: 1000, Burst: 10}, node.Rate{PerSecond: 100, Burst: 5}
	})
	data := messageAbout(t, congested(t, flow6, nil))
	answered, looked := 0, 0
	for i := range 100_000 { // one second
		now := start.Add(time.Duration(i) * 10 * time.Microsecond)
		if _, _, reason := p.receiveMessage(nil, switch6, nil, now); reason == node.ReasonBroken {
			looked++
		}
		if i%10_000 == 0 {
			if _, _, reason := p.receiveMessage(nil, switch4, data, now); reason == node.NoReason {
				answered++
			}
		}
	}
	require.Equal(t, 10, answered)
	require.Equal(t, 5+99, looked)
}

// For a message with two faults, the reason is the one that is cheaper to check: its source comes before its content.
func TestOrder(t *testing.T) {
	type sent struct {
		from, to      netip.Addr
		tunnelled     bool
		cut, checksum bool
		short         bool // no invoking packet
		mismatch      bool
		flow          rocev2.FlowKey
		opcode        bth.Opcode
	}
	faults := []struct {
		reason node.Reason
		make   func(*Config, *sent)
	}{
		{node.ReasonDisabled, func(c *Config, _ *sent) { c.Enabled = false }},
		{node.ReasonNotOurs, func(_ *Config, s *sent) { s.to = sender6 }},
		{node.ReasonTunnelled, func(_ *Config, s *sent) { s.tunnelled = true }},
		{node.ReasonDenied, func(_ *Config, s *sent) { s.from = addr("2001:db8:fffe::5") }},
		{node.ReasonLimited, func(c *Config, _ *sent) { c.InPerSource = node.Rate{PerSecond: 1e-3} }},
		{node.ReasonLimited, func(c *Config, _ *sent) { c.In = node.Rate{PerSecond: 1e-3} }},
		{node.ReasonBroken, func(_ *Config, s *sent) { s.cut = true }},
		{node.ReasonChecksum, func(_ *Config, s *sent) { s.checksum = true }},
		{node.ReasonBroken, func(_ *Config, s *sent) { s.short = true }},
		{node.ReasonTupleMismatch, func(_ *Config, s *sent) { s.mismatch = true }},
		{node.ReasonAcknowledgement, func(_ *Config, s *sent) { s.opcode = bth.RCAcknowledge }},
		{node.ReasonAddress, func(_ *Config, s *sent) { s.flow.Src = addr("fe80::1") }},
		{node.ReasonNoMethod, func(c *Config, _ *sent) { c.Senders = nil }},
		{node.ReasonUnknownQP, func(_ *Config, s *sent) { s.flow.DestQP = 0x12 }},
		{node.ReasonLimited, func(c *Config, _ *sent) { c.Out = node.Rate{PerSecond: 1e-3} }},
	}
	for i, first := range faults {
		for j, second := range faults[i:] {
			s := sent{from: switch6, to: self6, flow: flow6, opcode: bth.RCSendOnly}
			p := newProxy(t, func(c *Config) {
				first.make(c, &s)
				if j > 0 {
					second.make(c, &s)
				}
			})
			m := messageOf(t, congested(t, s.flow, func(p *rocev2.Packet) { p.BTH.Opcode, p.Payload = s.opcode, nil }))
			if s.short {
				m.Invoking = nil
			}
			if s.mismatch {
				m.SrcPort++
			}
			data := wiretest.Must(m.AppendBinary(nil))(t)
			carrier := rocev2.Datagram{Src: s.from, Dst: s.to, DstPort: proxymsg.Port, Checksum: 1, Data: data}
			ip, err := carrier.AppendBinary(nil) // no builder names an address that cannot be reached
			require.NoError(t, err)
			if s.checksum {
				ip[46]++
			}
			if s.tunnelled {
				ip = wiretest.Must((&encap.IPInIPv6{Src: switch6, Dst: self6}).Append(nil, ip, 1))(t)
			}
			if s.cut {
				ip = ip[:len(ip)-1]
			}
			var d rocev2.Datagram
			require.NoError(t, d.Decode(ip, rocev2.DecodeOptions{Link: rocev2.LinkIP, AllowTruncated: true}))
			p.see(nil, exhausting(t), start) // uses up the rates
			_, _, reason := p.see(nil, &d, start)
			require.Equal(t, first.reason, reason, "%v and %v", first.reason, second.reason)
		}
	}
}

// exhausting returns a datagram with a right message.
func exhausting(t testing.TB) *rocev2.Datagram {
	m := messageOf(t, congested(t, flow4, nil))
	ip := wiretest.Must(m.AppendPacket(nil, switch6, self6, proxymsg.Config{}))(t)
	var d rocev2.Datagram
	require.NoError(t, d.DecodeIP(ip))
	return &d
}

// Without a configured seed each proxy has a random one: the flows that evict others from the table of one proxy do
// not do so in another.
func TestSeedIsRandom(t *testing.T) {
	forgotten := func() (which [100]bool) {
		p := newProxy(t, func(c *Config) { c.Senders, c.PerFlow, c.MaxFlows = senders(AnswerPPFC), time.Hour, 32 })
		for range 2 {
			for i := range which {
				k := flow6
				k.DestQP = uint32(i)
				_, _, reason := p.receiveMessage(nil, switch6, messageAbout(t, congested(t, k, nil)), start)
				which[i] = reason == node.NoReason
			}
		}
		return which
	}
	require.NotEqual(t, forgotten(), forgotten())
}

// The memory of a proxy is the documented size.
func TestMemory(t *testing.T) {
	cfg := Config{Enabled: true, Self6: self6, PerFlow: 1, InPerSource: node.Rate{PerSecond: 1}}
	make := func() {
		_, err := New(cfg)
		require.NoError(t, err)
	}
	require.InDelta(t, 16*65536+24*4096, wiretest.Allocated(make), 64<<10)
	cfg.PerFlow, cfg.InPerSource = 0, node.Rate{}
	require.Less(t, wiretest.Allocated(make), uint64(16<<10), "no table for a limit that is not set")
	cfg.PerFlow, cfg.InPerSource = 1, node.Rate{PerSecond: 1}
	cfg.MaxFlows, cfg.MaxSources = 1<<10, 1<<16
	require.InDelta(t, 16*1024+24*65536, wiretest.Allocated(make), 64<<10)
}

func TestOffByDefault(t *testing.T) {
	p, err := New(Config{PerFlow: -1})
	require.NoError(t, err, "a role that is off needs no other setting")
	var q rocev2.Packet
	require.NoError(t, q.DecodeIP(congested(t, flow6, nil)))
	p.observe1(&q, start)
	_, _, reason := p.receiveMessage(nil, switch6, messageAbout(t, q.IP), start)
	require.Equal(t, node.ReasonDisabled, reason)
	_, _, reason = p.see(nil, exhausting(t), start)
	require.Equal(t, node.ReasonDisabled, reason)
	want := map[node.Count]uint64{{Action: node.ActionRefused, Reason: node.ReasonDisabled}: 2}
	require.Equal(t, want, maps.Collect(p.Counters().All()))
}

func TestConfig(t *testing.T) {
	for _, c := range []struct {
		name string
		cfg  Config
	}{
		{"neither Self4 nor Self6", Config{}},
		{"Self4", Config{Self4: self6}},
		{"Self6", Config{Self6: addr("fe80::1")}},
		{"Self6 10.0.1.254", Config{Self6: self4}},
		{"PerFlow", Config{Self6: self6, PerFlow: -1}},
		{"DSCP", Config{Self6: self6, Carriage: rocev2.Carriage{DSCP: 64}}},
		{"CodePoints: option type 0x1e: its act bits must be 10", Config{
			Self6: self6, CodePoints: fastcnp.CodePoints{Option1: 0x1E},
		}},
		{"Pause: ppfc: Pause Duration", Config{Self6: self6, Pause: ppfc.Extension{Pause: 100 * time.Millisecond}}},
		{"Pause: Congested ::ffff:192.0.2.1 is IPv4-mapped", Config{
			Self6: self6, Pause: ppfc.Extension{Congested: addr("::ffff:192.0.2.1")},
		}},
		{"Pause: ppfc: PT", Config{Self6: self6, Pause: ppfc.Extension{Type: 4}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.cfg.Enabled = true
			_, err := New(c.cfg)
			require.ErrorContains(t, err, c.name)
		})
	}
	require.Equal(t, "ppfc", AnswerPPFC.String())
	require.Equal(t, "other", AnswerOther.String())
	require.Equal(t, "Answer(5)", (AnswerOther + 1).String())
}

// Tunnelled packets teach nothing.
func TestObserve(t *testing.T) {
	p := newProxy(t, nil)
	inner := congested(t, flow4, nil)
	outer := wiretest.Must((&encap.IPInIPv6{Src: switch6, Dst: self6}).Append(nil, inner, 1))(t)
	var q rocev2.Packet
	require.NoError(t, q.DecodeIP(outer))
	p.observe1(&q, start)
	require.Zero(t, p.observed())
	require.NoError(t, q.DecodeIP(inner))
	p.observe1(&q, start)
	require.EqualValues(t, 1, p.observed())
}

// Without a table there is nothing to learn into.
func TestObserveWithoutPairs(t *testing.T) {
	p := newProxy(t, func(c *Config) { c.QPs = nil })
	var q rocev2.Packet
	require.NoError(t, q.DecodeIP(congested(t, flow6, nil)))
	require.False(t, p.observe1(&q, start))
	require.Zero(t, p.observed())
}

func TestNoAllocations(t *testing.T) {
	out := make([]byte, 0, 512)
	for _, method := range []Answer{AnswerCNP, AnswerFastCNP, AnswerPPFC} {
		p := newProxy(t, func(c *Config) {
			c.Senders, c.PerFlow = senders(method), time.Microsecond
			c.In, c.Out = node.Rate{PerSecond: 1e6, Burst: 10}, node.Rate{PerSecond: 1e6, Burst: 10}
		})
		data, now := messageAbout(t, congested(t, flow6, nil)), start
		wiretest.NoAllocs(t, method.String(), func() {
			now = now.Add(time.Microsecond)
			if _, _, reason := p.receiveMessage(out, switch6, data, now); reason != node.NoReason {
				t.Fatal(reason)
			}
		})
	}
}

// No packet causes a panic, and each notification goes to the sender that the message names.
func FuzzReceive(f *testing.F) {
	for _, k := range []rocev2.FlowKey{flow4, flow6} {
		f.Add(messageAbout(f, congested(f, k, nil)), uint8(1))
	}
	f.Fuzz(func(t *testing.T, data []byte, method uint8) {
		p := newProxy(t, func(c *Config) { c.Senders = senders(Answer(method % 5)) })
		out, a, reason := p.receiveMessage([]byte{9}, switch6, data, start)
		if reason != node.NoReason {
			require.Equal(t, []byte{9}, out)
			return
		}
		var m proxymsg.Message
		require.NoError(t, m.Decode(data, 0))
		if a.Method == AnswerOther {
			require.Equal(t, []byte{9}, out)
			require.Equal(t, answered{Method: AnswerOther, Level: m.Level, Flow: a.Flow, Tuple: m.FiveTuple,
				Invoking: m.Invoking}, a)
			return
		}
		got := decode(t, out[1:])
		require.Equal(t, m.Src, got.Dst)
		require.Equal(t, m.Src, a.Flow.Src)
		require.Equal(t, bth.CNP, got.BTH.Opcode)
	})
}

// A message about an earlier packet is answered although packets of other senders came since: they do not affect the
// sender of that packet.
func TestStraysSince(t *testing.T) {
	p := newProxy(t, func(c *Config) { c.QPs = qpmap.New(qpmap.Config{}) })
	appendObserved := func(k rocev2.FlowKey, op bth.Opcode, psn uint32) []byte {
		ip := congested(t, k, func(q *rocev2.Packet) { q.BTH.Opcode, q.BTH.PSN = op, psn })
		var q rocev2.Packet
		require.NoError(t, q.DecodeIP(ip))
		p.observe1(&q, start)
		return ip
	}
	back := rocev2.FlowKey{Src: receiver4, Dst: sender4, DestQP: 0x21}
	var marked []byte
	for psn := uint32(1000); psn < 1005; psn++ {
		marked = appendObserved(flow4, bth.RCRDMAWriteOnly, psn)
		appendObserved(back, bth.RCAcknowledge, psn)
	}
	stray := appendObserved(flow4, bth.RCRDMAWriteOnly, 0x800000)
	_, a, reason := p.receiveMessage(nil, switch4, messageAbout(t, marked), start)
	require.Equal(t, node.NoReason, reason)
	require.EqualValues(t, 0x21, a.SrcQP)
	_, _, reason = p.receiveMessage(nil, switch4, messageAbout(t, stray), start)
	require.Equal(t, node.ReasonPSNMismatch, reason)
}

// A flood of messages about flows that do not exist leads to no notification, inside or outside the senders' prefix.
func TestForgedFlows(t *testing.T) {
	p := newProxy(t, func(c *Config) {
		c.PerFlow, c.MaxFlows = time.Second, 64
		c.Senders = acl.NewMap(acl.Entry[Answer]{Prefix: netip.MustParsePrefix("2001:db8:1::/48"), Value: AnswerCNP})
	})
	random := rand.New(rand.NewPCG(3, 3))
	data := messageAbout(t, congested(t, flow6, nil))
	out := make([]byte, 0, 256)
	for i := range 100_000 {
		k := random.Uint64()
		// the lower half of the sender's address, in tuple and invoking packet
		for _, at := range []int{8, 40 + 8 + 8} {
			binary.BigEndian.PutUint64(data[at:], k)
		}
		if i%2 == 0 {
			data[2]++
			data[40+8+2]++
		}
		_, _, reason := p.receiveMessage(out, switch6, data, start)
		if reason == node.NoReason {
			t.Fatal("something was sent")
		}
	}
	require.Zero(t, p.sent())
	require.NotZero(t, p.refused(node.ReasonUnknownQP))
	require.NotZero(t, p.refused(node.ReasonNoMethod))
}

// One message, replayed all the time for a second: as many CNPs as the limit of
// the flow says, and those of another flow are not held up.
func TestReplays(t *testing.T) {
	p := newProxy(t, func(c *Config) { c.PerFlow = time.Millisecond })
	replayed, other := messageAbout(t, congested(t, flow6, nil)), messageAbout(t, congested(t, flow4, nil))
	var answers [2]int
	for i := range 100_000 {
		now := start.Add(time.Duration(i) * 10 * time.Microsecond)
		for j, data := range [][]byte{replayed, other}[:1+(i%1000)/999] {
			if _, a, reason := p.receiveMessage(nil, switch6, data, now); reason == node.NoReason {
				answers[j]++
				require.Equal(t, []rocev2.FlowKey{flow6, flow4}[j], a.Flow)
			}
		}
	}
	require.Equal(t, [2]int{1000, 100}, answers)
}

// A new configuration in the midst of a sequence keeps the learned pairs and the state of the limits. An invalid one
// changes nothing.
func TestConfigure(t *testing.T) {
	var cfg Config
	p := newProxy(t, func(c *Config) {
		c.QPs, c.PerFlow, c.MaxFlows = qpmap.New(qpmap.Config{}), time.Hour, 64
		c.InPerSource = node.Rate{PerSecond: 1e-3, Burst: 4}
		cfg = *c
	})
	back := rocev2.FlowKey{Src: receiver4, Dst: sender4, DestQP: 0x21}
	observe := func(k rocev2.FlowKey, op bth.Opcode, psn uint32) {
		var q rocev2.Packet
		require.NoError(t, q.DecodeIP(congested(t, k, func(q *rocev2.Packet) { q.BTH.Opcode, q.BTH.PSN = op, psn })))
		p.observe1(&q, start)
	}
	for psn := uint32(1000); psn < 1005; psn++ {
		observe(flow4, bth.RCRDMAWriteOnly, psn)
		observe(back, bth.RCAcknowledge, psn)
	}
	data := messageAbout(t, congested(t, flow4, func(q *rocev2.Packet) { q.BTH.PSN = 1003 }))
	receive := func() (answered, node.Reason) {
		_, a, reason := p.receiveMessage(nil, switch4, data, start)
		return a, reason
	}
	a, reason := receive()
	require.Equal(t, []any{AnswerCNP, uint32(0x21), node.NoReason}, []any{a.Method, a.SrcQP, reason})

	for _, c := range []struct {
		name   string
		change func(*Config)
	}{
		{"neither Self4", func(c *Config) { c.Self4, c.Self6 = netip.Addr{}, netip.Addr{} }},
		{"PerFlow", func(c *Config) { c.PerFlow = -1 }},
		{"InPerSource", func(c *Config) { c.InPerSource = node.Rate{Burst: 1} }},
		{"MaxFlows cannot", func(c *Config) { c.MaxFlows = 65 }},
		{"MaxSources cannot", func(c *Config) { c.MaxSources = 65 }},
		{"Seed cannot", func(c *Config) { c.Seed = 7 }},
		{"DSCP", func(c *Config) { c.Carriage.DSCP = 64 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			bad := cfg
			bad.Accept = nil
			c.change(&bad)
			require.ErrorContains(t, p.Configure(bad), c.name)
		})
	}
	_, reason = receive()
	require.Equal(t, node.ReasonLimited, reason, "the list is as it was, and the flow's interval goes on")

	cfg.PerFlow, cfg.Senders = 0, senders(AnswerPPFC)
	require.NoError(t, p.Configure(cfg))
	a, reason = receive()
	require.Equal(t, []any{AnswerPPFC, node.NoReason}, []any{a.Method, reason})
	cfg.Senders = senders(AnswerCNP)
	require.NoError(t, p.Configure(cfg))
	a, reason = receive()
	require.Equal(t, []any{AnswerCNP, uint32(0x21), node.NoReason}, []any{a.Method, a.SrcQP, reason},
		"nothing is forgotten")
	_, reason = receive()
	require.Equal(t, node.ReasonLimited, reason, "the source has sent four")
	cfg.InPerSource = node.Rate{}
	require.NoError(t, p.Configure(cfg))
	_, reason = receive()
	require.Equal(t, node.NoReason, reason)
}

// The counters of a proxy can be read while it works. This test is for the race detector.
func TestCountersMeanwhile(t *testing.T) {
	p := newProxy(t, nil)
	data := messageAbout(t, congested(t, flow6, nil))
	var wg sync.WaitGroup
	wg.Go(func() {
		for range 1000 {
			p.receiveMessage(nil, switch6, data, start)
		}
	})
	for p.Counters().Load(node.Count{Action: node.ActionSent}) < 1000 {
		for range p.Counters().All() {
		}
	}
	wg.Wait()
	require.EqualValues(t, 1000, p.Counters().Load(node.Count{Action: node.ActionSent}))
}
