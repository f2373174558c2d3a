package proxy

import (
	"net/netip"
	"testing"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/encap"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/limit"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
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
func senders(m Method) *acl.Map[Method] {
	return acl.NewMap(
		acl.Entry[Method]{Prefix: netip.MustParsePrefix("0.0.0.0/0"), Value: m},
		acl.Entry[Method]{Prefix: netip.MustParsePrefix("::/0"), Value: m},
	)
}

// newProxy returns a proxy that knows the sender's queue pair of both flows: 0x21.
func newProxy(t testing.TB, change func(*Config)) *Proxy {
	cfg := Config{
		Enabled: true, Self4: self4, Self6: self6, Senders: senders(CNP),
		Accept: acl.New(netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8:ffff::/48")),
		QPs:    qpmap.New(qpmap.Config{MaxPairs: 64, MaxOpen: 64, MaxPending: 64}),
	}
	for _, k := range []rocev2.FlowKey{flow4, flow6} {
		cfg.QPs.Add(k, 0, qpmap.Pair{SrcQP: 0x21})
	}
	if change != nil {
		change(&cfg)
	}
	p, err := New(cfg)
	require.NoError(t, err)
	return p
}

// congested returns a data packet of a flow.
func congested(t testing.TB, k rocev2.FlowKey, change func(*rocev2.Packet)) []byte {
	p := rocev2.Packet{Datagram: rocev2.Datagram{
		Src: k.Src, Dst: k.Dst, TrafficClass: rocev2.CE, HopLimit: 60, SrcPort: 0xC123, DstPort: rocev2.Port,
	}}
	p.BTH.Opcode, p.BTH.PKey, p.BTH.DestQP = bth.Opcode(bth.OpRDMAWriteOnly), 0x8001, k.DestQP
	p.Payload = make([]byte, 1024)
	if change != nil {
		change(&p)
	}
	ip, err := p.AppendBinary(nil)
	require.NoError(t, err)
	return ip
}

// message returns the message about a packet.
func message(t testing.TB, ip []byte) []byte {
	var f rocev2.Flow
	require.NoError(t, f.DecodeIP(ip))
	m := proxymsg.For(&f, 3)
	m.Cut(switch4)
	b, err := m.AppendBinary(nil)
	require.NoError(t, err)
	return b
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
		out, a, reason := p.Receive([]byte{9}, c.from, message(t, congested(t, c.flow, nil)), start)
		require.Equal(t, node.Accepted, reason)
		require.Equal(t, Answer{Method: CNP, Flow: c.flow, SrcQP: 0x21, Level: 3}, a)
		require.Equal(t, byte(9), out[0])
		got := decode(t, out[1:])
		require.Equal(t, c.src, got.Src)
		require.Equal(t, c.flow.Src, got.Dst)
		notification, err := cnp.FromPacket(&got)
		require.NoError(t, err)
		require.Equal(t, cnp.New(0x21, 0x8001), notification)
		require.Equal(t, Stats{Sent: 1}, p.Stats())
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
	p := newProxy(t, func(c *Config) { c.Senders, c.QPs = senders(FastCNP), nil })
	out, a, reason := p.Receive(nil, switch6, message(t, congested(t, flow6, nil)), start)
	require.Equal(t, node.Accepted, reason)
	require.Equal(t, Answer{Method: FastCNP, Flow: flow6, Option: 1, Level: 3}, a)
	got := decode(t, out)
	n, err := fastcnp.FromPacket(&got)
	require.NoError(t, err)
	require.Equal(t, receiver6, n.Option.OriginalDst)
	require.EqualValues(t, 0x11, n.CNP.DestQP)
	require.EqualValues(t, 0x8001, n.CNP.PKey)
	require.NotEqual(t, n.Option.OriginalDst, n.Src, "from the network")

	p = newProxy(t, func(c *Config) {
		c.Senders, c.QPs, c.Pause = senders(PPFC), nil, ppfc.Extension{Type: ppfc.Stop, Pause: 100 * time.Microsecond}
	})
	for _, k := range []rocev2.FlowKey{flow4, flow6} {
		out, a, reason = p.Receive(nil, switch6, message(t, congested(t, k, nil)), start)
		require.Equal(t, node.Accepted, reason)
		require.Equal(t, Answer{Method: PPFC, Flow: k, Level: 3}, a)
		got = decode(t, out)
		n, err := ppfc.FromPacket(&got)
		require.NoError(t, err)
		require.Equal(t, ppfc.Extension{Congested: k.Dst, Type: ppfc.Stop, Pause: 100 * time.Microsecond}, n.Extension)
		require.EqualValues(t, 0x11, n.DestQP)
	}
}

// The trace of the invoking packet goes into the Fast CNP.
func TestFastCNPWithTrace(t *testing.T) {
	p := newProxy(t, func(c *Config) { c.Senders = senders(FastCNP) })
	frame := wiretest.Capture(t, "ioam-linux618-hpcc.pcap")[0].Data
	out, a, reason := p.Receive(nil, switch6, message(t, frame[14:]), start)
	require.Equal(t, node.Accepted, reason)
	require.EqualValues(t, 2, a.Option)
	got := decode(t, out)
	n, err := fastcnp.FromPacket(&got)
	require.NoError(t, err)
	require.EqualValues(t, 2, n.Option.Number)
}

// What a congested node inside a VPN sends shows the packet in its tunnel.
func TestTunnelledInvokingPacket(t *testing.T) {
	for _, via := range []encap.Tunnel{
		&encap.IPInIPv6{Src: addr("2001:db8:fe::1"), Dst: addr("2001:db8:fe::9")},
		&encap.VXLAN6{Src: addr("2001:db8:fe::1"), Dst: addr("2001:db8:fe::9"), VNI: 7, Ethernet: make([]byte, 14)},
	} {
		p := newProxy(t, nil)
		outer, err := via.Append(nil, congested(t, flow4, nil), 5)
		require.NoError(t, err)
		_, a, reason := p.Receive(nil, switch6, message(t, outer), start)
		require.Equal(t, node.Accepted, reason)
		require.Equal(t, flow4, a.Flow)
		require.EqualValues(t, 0x21, a.SrcQP)
	}
}

func TestReceiveRefuses(t *testing.T) {
	with := func(change func(m *proxymsg.Message)) func(t *testing.T) []byte {
		return func(t *testing.T) []byte {
			var m proxymsg.Message
			require.NoError(t, m.Decode(message(t, congested(t, flow6, nil)), 0))
			change(&m)
			b, err := m.AppendBinary(nil)
			require.NoError(t, err)
			return b
		}
	}
	about := func(k rocev2.FlowKey, change func(*rocev2.Packet)) func(t *testing.T) []byte {
		return func(t *testing.T) []byte { return message(t, congested(t, k, change)) }
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
		{"no list", func(c *Config) { c.Accept = nil }, switch6, right, node.Denied},
		{"not on the list", nil, addr("2001:db8:fffe::5"), right, node.Denied},
		{"a sender itself", nil, sender6, right, node.Denied},
		{"no octets", nil, switch6, func(*testing.T) []byte { return nil }, node.Broken},
		{"no invoking packet", nil, switch6, with(func(m *proxymsg.Message) { m.Invoking = nil }), node.Broken},
		{"cut before the queue pair", nil, switch6, with(func(m *proxymsg.Message) { m.Invoking = m.Invoking[:40+8+11] }), node.Broken},
		{"TCP", nil, switch6, with(func(m *proxymsg.Message) { m.Protocol = 6 }), node.TupleMismatch},
		{"another port", nil, switch6, with(func(m *proxymsg.Message) { m.DstPort = 4790 }), node.TupleMismatch},
		{"another sender", func(c *Config) { c.Family = proxymsg.IPv6 }, switch6,
			with(func(m *proxymsg.Message) { m.Src = addr("2001:db8:1::2") }), node.TupleMismatch},
		{"another receiver", func(c *Config) { c.Family = proxymsg.IPv6 }, switch6,
			with(func(m *proxymsg.Message) { m.Dst = addr("2001:db8:4::2") }), node.TupleMismatch},
		{"another source port", nil, switch6, with(func(m *proxymsg.Message) { m.SrcPort++ }), node.TupleMismatch},
		{"fragment", nil, switch6, with(func(m *proxymsg.Message) { m.Invoking[6] = 44 }), node.Fragment},
		{"acknowledgement", nil, switch6, about(flow6, opcode(bth.OpAcknowledge)), node.Acknowledgement},
		{"ATOMIC acknowledgement", nil, switch6, about(flow6, opcode(bth.OpAtomicAcknowledge)), node.Acknowledgement},
		{"CNP", nil, switch6, about(flow6, func(p *rocev2.Packet) { p.BTH.Opcode, p.Payload = bth.CNP, make([]byte, 16) }), node.Notification},
		{"sender link-local", nil, switch6, about(rocev2.FlowKey{Src: addr("fe80::1"), Dst: receiver6, DestQP: 0x11}, nil), node.Address},
		{"sender is the proxy", nil, switch6, about(rocev2.FlowKey{Src: self6, Dst: receiver6, DestQP: 0x11}, nil), node.OwnAddress},
		{"no senders", func(c *Config) { c.Senders = nil }, switch6, right, node.NoMethod},
		{"sender not told", func(c *Config) { c.Senders = senders(Nothing) }, switch6, right, node.NoMethod},
		{"Fast CNP over IPv4", func(c *Config) { c.Senders = senders(FastCNP) }, switch6, about(flow4, nil), node.NoMethod},
		{"no address of the family", func(c *Config) { c.Self4 = netip.Addr{} }, switch6, about(flow4, nil), node.NoMethod},
		{"CNP from a multicast address", func(c *Config) {
			c.FromReceiver = true
			c.QPs.Add(rocev2.FlowKey{Src: sender4, Dst: addr("224.0.0.5"), DestQP: 1}, 0, qpmap.Pair{SrcQP: 1})
		}, switch6, about(rocev2.FlowKey{Src: sender4, Dst: addr("224.0.0.5"), DestQP: 1}, nil), node.Address},
		{"pair not known", nil, switch6, about(rocev2.FlowKey{Src: sender6, Dst: receiver6, DestQP: 0x12}, nil), node.UnknownQP},
		{"no pairs", func(c *Config) { c.QPs = nil }, switch6, right, node.UnknownQP},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newProxy(t, c.change)
			data := c.data(t)
			out, a, reason := p.Receive([]byte{9}, c.from, data, start)
			require.Equal(t, c.want, reason)
			require.Equal(t, []byte{9}, out)
			require.Zero(t, a)
			require.Zero(t, p.Stats().Sent)
			require.EqualValues(t, 1, p.Stats().Refused[c.want])
			wiretest.NoAllocs(t, c.name, func() { _, _, _ = p.Receive(nil, c.from, data, start) })
		})
	}
}

// Rules go by the sender's longest prefix, so a forged tuple can aim a
// notification nowhere else.
func TestSendersByPrefix(t *testing.T) {
	p := newProxy(t, func(c *Config) {
		c.Senders = acl.NewMap(
			acl.Entry[Method]{Prefix: netip.MustParsePrefix("2001:db8:1::/48"), Value: CNP},
			acl.Entry[Method]{Prefix: netip.MustParsePrefix("2001:db8:1:1::/64"), Value: FastCNP},
			acl.Entry[Method]{Prefix: netip.MustParsePrefix("2001:db8:1:2::/64"), Value: Nothing},
		)
	})
	for sender, want := range map[string]node.Reason{
		"2001:db8:1::1":   node.Accepted,
		"2001:db8:1:1::1": node.Accepted,
		"2001:db8:1:2::1": node.NoMethod,
		"2001:db8:2::1":   node.NoMethod,
		"10.0.1.1":        node.NoMethod,
	} {
		k := flow6
		if k.Src = addr(sender); k.Src.Is4() {
			k.Dst = receiver4
		}
		_, a, reason := p.Receive(nil, switch6, message(t, congested(t, k, nil)), start)
		require.Equal(t, want, reason, sender)
		if sender == "2001:db8:1:1::1" {
			require.Equal(t, FastCNP, a.Method)
		}
	}
}

func TestReceivePacket(t *testing.T) {
	p := newProxy(t, nil)
	var f rocev2.Flow
	require.NoError(t, f.DecodeIP(congested(t, flow6, nil)))
	datagram := func(src, dst netip.Addr, change func(ip []byte)) (d rocev2.Datagram) {
		ip, err := proxymsg.AppendFor(nil, &f, dst, 3, proxymsg.Config{Src: src})
		require.NoError(t, err)
		if change != nil {
			change(ip)
		}
		require.NoError(t, d.DecodeIP(ip))
		return d
	}
	right := datagram(switch6, self6, nil)
	inner, err := (&encap.IPInIPv6{Src: switch6, Dst: self6}).Append(nil, right.IP, 1)
	require.NoError(t, err)
	var tunnelled, cut rocev2.Datagram
	require.NoError(t, tunnelled.DecodeIP(inner))
	require.NoError(t, cut.Decode(right.IP[:200], rocev2.DecodeOptions{Link: rocev2.LinkIP, Cut: true}))
	for _, c := range []struct {
		name string
		d    rocev2.Datagram
		want node.Reason
	}{
		{"right", right, node.Accepted},
		{"over IPv4", datagram(switch4, self4, nil), node.Accepted},
		{"another address", datagram(switch6, sender6, nil), node.NotOurs},
		{"tunnelled", tunnelled, node.Tunnelled},
		{"cut", cut, node.Broken},
		{"checksum", datagram(switch6, self6, func(ip []byte) { ip[46]++ }), node.Checksum},
		{"no checksum", datagram(switch6, self6, func(ip []byte) { ip[46], ip[47] = 0, 0 }), node.Checksum},
		{"no checksum over IPv4", datagram(switch4, self4, func(ip []byte) { ip[26], ip[27] = 0, 0 }), node.Accepted},
		{"denied", datagram(addr("2001:db8:fffe::5"), self6, nil), node.Denied},
	} {
		out, _, reason := p.ReceivePacket(nil, &c.d, start)
		if c.want == node.Accepted {
			require.Equal(t, node.Accepted, reason, c.name)
			require.NotEmpty(t, out)
		} else {
			require.Equal(t, c.want, reason, c.name)
			require.Empty(t, out)
		}
	}
}

// Only what is sent takes from a limit.
func TestLimits(t *testing.T) {
	const interval = 50 * time.Microsecond
	six, four := message(t, congested(t, flow6, nil)), message(t, congested(t, flow4, nil))
	unknown := message(t, congested(t, rocev2.FlowKey{Src: sender4, Dst: receiver4, DestQP: 0x99}, nil))
	type step struct {
		data []byte
		from netip.Addr
		at   time.Duration
		want node.Reason
	}
	for name, c := range map[string]struct {
		change func(*Config)
		steps  []step
	}{
		"none": {nil, []step{
			{six, switch6, 0, node.Accepted}, {six, switch6, 0, node.Accepted}, {six, switch6, 0, node.Accepted},
		}},
		"per flow": {func(c *Config) { c.PerFlow = interval }, []step{
			{six, switch6, 0, node.Accepted},
			{six, switch6, interval - 1, node.Limited},
			{four, switch6, interval - 1, node.Accepted},
			{six, switch6, interval, node.Accepted},
			{six, switch6, 2*interval - 1, node.Limited},
			{six, switch6, -time.Hour, node.Limited},
			{six, switch6, interval - time.Hour, node.Accepted},
		}},
		"in": {func(c *Config) { c.In = limit.Rate{PerSecond: 1, Burst: 2} }, []step{
			{six, addr("::1"), 0, node.Denied}, {unknown, switch6, 0, node.UnknownQP}, {nil, switch6, 0, node.Broken},
			{six, switch6, 0, node.Accepted}, {four, switch6, 0, node.Accepted},
			{six, switch6, 0, node.Limited},
			{nil, addr("::1"), time.Second - 1, node.Limited}, // before anything in the message is looked at
			{six, switch6, time.Second, node.Accepted},
		}},
		"out": {func(c *Config) { c.Out = limit.Rate{PerSecond: 1} }, []step{
			{unknown, switch6, 0, node.UnknownQP},
			{six, switch6, 0, node.Accepted},
			{unknown, switch6, 0, node.UnknownQP}, // looked at last
			{four, switch6, 0, node.Limited},
			{four, switch6, time.Second, node.Accepted},
		}},
		"out refuses, and the flow's interval does not begin": {func(c *Config) { c.PerFlow, c.Out = time.Minute, limit.Rate{PerSecond: 1} }, []step{
			{six, switch6, 0, node.Accepted},
			{four, switch6, 0, node.Limited},
			{four, switch6, time.Second, node.Accepted},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProxy(t, c.change)
			for i, s := range c.steps {
				_, _, reason := p.Receive(nil, s.from, s.data, start.Add(s.at))
				require.Equal(t, s.want, reason, "step %d", i)
			}
		})
	}
}

func TestOffByDefault(t *testing.T) {
	p, err := New(Config{PerFlow: -1})
	require.NoError(t, err, "what is off needs nothing")
	var q rocev2.Packet
	require.NoError(t, q.DecodeIP(congested(t, flow6, nil)))
	p.Observe(&q, start)
	_, _, reason := p.Receive(nil, switch6, message(t, q.IP), start)
	require.Equal(t, node.Disabled, reason)
	_, _, reason = p.ReceivePacket(nil, &q.Datagram, start)
	require.Equal(t, node.Disabled, reason)
	want := Stats{}
	want.Refused[node.Disabled] = 2
	require.Equal(t, want, p.Stats())
}

func TestConfig(t *testing.T) {
	for name, cfg := range map[string]Config{
		"neither Self4 nor Self6": {},
		"Self4":                   {Self4: self6},
		"Self6":                   {Self6: addr("fe80::1")},
		"Self6 10.0.1.254":        {Self6: self4},
		"PerFlow":                 {Self6: self6, PerFlow: -1},
		"DSCP":                    {Self6: self6, Carriage: rocev2.Carriage{DSCP: 64}},
	} {
		cfg.Enabled = true
		_, err := New(cfg)
		require.ErrorContains(t, err, name)
	}
	require.Equal(t, "ppfc", PPFC.String())
	require.Equal(t, "Method(9)", Method(9).String())
}

// What came in a tunnel teaches nothing.
func TestObserve(t *testing.T) {
	p := newProxy(t, nil)
	inner := congested(t, flow4, nil)
	outer, err := (&encap.IPInIPv6{Src: switch6, Dst: self6}).Append(nil, inner, 1)
	require.NoError(t, err)
	var q rocev2.Packet
	require.NoError(t, q.DecodeIP(outer))
	p.Observe(&q, start)
	require.Zero(t, p.Stats().Observed)
	require.NoError(t, q.DecodeIP(inner))
	p.Observe(&q, start)
	require.EqualValues(t, 1, p.Stats().Observed)
}

func TestNoAllocations(t *testing.T) {
	out := make([]byte, 0, 512)
	for _, method := range []Method{CNP, FastCNP, PPFC} {
		p := newProxy(t, func(c *Config) {
			c.Senders, c.PerFlow = senders(method), time.Microsecond
			c.In, c.Out = limit.Rate{PerSecond: 1e6, Burst: 10}, limit.Rate{PerSecond: 1e6, Burst: 10}
		})
		data, now := message(t, congested(t, flow6, nil)), start
		wiretest.NoAllocs(t, method.String(), func() {
			now = now.Add(time.Microsecond)
			if _, _, reason := p.Receive(out, switch6, data, now); reason != node.Accepted {
				t.Fatal(reason)
			}
		})
	}
}

// Whatever comes in, there is no panic, and what is sent goes to the sender that
// the message names.
func FuzzReceive(f *testing.F) {
	for _, k := range []rocev2.FlowKey{flow4, flow6} {
		f.Add(message(f, congested(f, k, nil)), uint8(1))
	}
	f.Fuzz(func(t *testing.T, data []byte, method uint8) {
		p := newProxy(t, func(c *Config) { c.Senders = senders(Method(method % 4)) })
		out, a, reason := p.Receive([]byte{9}, switch6, data, start)
		if reason != node.Accepted {
			require.Equal(t, []byte{9}, out)
			return
		}
		got := decode(t, out[1:])
		var m proxymsg.Message
		require.NoError(t, m.Decode(data, 0))
		require.Equal(t, m.Src, got.Dst)
		require.Equal(t, m.Src, a.Flow.Src)
		require.Equal(t, bth.CNP, got.BTH.Opcode)
	})
}
