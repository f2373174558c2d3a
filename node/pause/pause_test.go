package pause_test

import (
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/encap"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/pause"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

var (
	self4 = netip.MustParseAddr("192.0.2.1")
	self6 = netip.MustParseAddr("2001:db8:1::1")
	dst4  = netip.MustParseAddr("192.0.2.14")
	dst6  = netip.MustParseAddr("2001:db8:4::e")
	sw4   = netip.MustParseAddr("198.51.100.5")
	sw6   = netip.MustParseAddr("2001:db8:ffff::5")
	now   = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	ip    = rocev2.DecodeOptions{Link: rocev2.LinkIP}
)

const us = time.Microsecond

// notification returns a PPFC from a node to the host, about an address and the
// queue pair 0x11.
func notification(t testing.TB, from, congested netip.Addr, typ ppfc.Type, duration time.Duration) []byte {
	t.Helper()
	n := ppfc.New(0x11, 0xFFFF, ppfc.Extension{Congested: congested, Type: typ, Port: 7, Pause: duration})
	to := self6
	if from.Is4() {
		to = self4
	}
	return wiretest.Must(n.AppendPacket(nil, from, to, ppfc.Config{}))(t)
}

func config(t testing.TB) pause.Config {
	m := qpmap.New(qpmap.Config{MaxPairs: 16, MaxPending: 4, MaxOpen: 4})
	require.NoError(t, m.Add(qpmap.Key{FlowKey: rocev2.FlowKey{Src: self6, Dst: dst6, DestQP: 0x11}},
		qpmap.Pair{SrcQP: 0x22}))
	require.NoError(t, m.Add(qpmap.Key{FlowKey: rocev2.FlowKey{Src: self4, Dst: dst4, DestQP: 0x11}},
		qpmap.Pair{SrcQP: 0x23}))
	return pause.Config{
		Enabled: true, Self4: self4, Self6: self6, QPs: m, MaxPause: 1000 * us,
		Accept: acl.New(netip.PrefixFrom(sw6, 64), netip.PrefixFrom(sw4, 24)),
	}
}

func made(t testing.TB, cfg pause.Config) *pause.Role {
	t.Helper()
	return wiretest.Must(pause.New(cfg))(t)
}

// An action has the fields of a Decision that the tests compare, unless it rejects the packet.
type action struct {
	From    netip.Addr
	Target  pause.Target
	SrcQP   uint32
	KnownQP bool
	State   pause.State
	Pause   time.Duration
	Until   time.Time
}

var (
	frame rocev2.Frame
	// by state
	stateEffects = []node.Effect{node.EffectResumed, node.EffectStopped, node.EffectHeld, node.EffectAlarmed}
)

// receive returns ReasonNotOurs also for packets that a table ignores.
func receive(table *pause.Role, packet []byte, o rocev2.DecodeOptions, now time.Time) (a action, reason node.Reason) {
	frame.Decode(packet, o)
	_, d := table.Receive(nil, &frame, node.Event{Now: now})
	switch d.Action {
	case node.ActionAccepted:
		asked, until := pause.StateAfter(d.Request), now.Add(d.Pause)
		if state, end := table.State(table.Target(), now); d.Pause > 0 && state == asked {
			until = end
		}
		return action{d.From, table.Target(), d.SrcQP, d.KnownQP, asked, d.Pause, until}, d.Reason
	case node.NoAction:
		return a, node.ReasonNotOurs
	}
	return a, d.Reason
}

// TestAccepted checks the target and the request of a notification, in both readings.
func TestAccepted(t *testing.T) {
	other := netip.MustParseAddr("2001:db8:4::99")
	for _, c := range []struct {
		name   string
		packet []byte
		want   action
	}{
		{"stop", notification(t, sw6, dst6, ppfc.Stop, 100*us),
			action{From: sw6, Target: pause.FlowTarget(dst6, 0x11), SrcQP: 0x22, KnownQP: true,
				State: pause.StateStopped,
				Pause: 100 * us, Until: now.Add(100 * us)}},
		{"hold, longer than allowed", notification(t, sw6, dst6, ppfc.Hold, 65535*us),
			action{From: sw6, Target: pause.FlowTarget(dst6, 0x11), SrcQP: 0x22, KnownQP: true, State: pause.StateHeld,
				Pause: 1000 * us, Until: now.Add(1000 * us)}},
		{"alarm", notification(t, sw4, dst4, ppfc.Alarm, 0),
			action{From: sw4, Target: pause.FlowTarget(dst4, 0x11), SrcQP: 0x23, KnownQP: true,
				State: pause.StateAlarmed,
				Until: now}},
		{"resume, whatever its duration", notification(t, sw6, dst6, ppfc.Resume, 100*us),
			action{From: sw6, Target: pause.FlowTarget(dst6, 0x11), SrcQP: 0x22, KnownQP: true,
				State: pause.StateRunning,
				Until: now}},
		{"IPv4 flow, IPv6 packet", notification(t, sw6, dst4, ppfc.Stop, 1*us),
			action{From: sw6, Target: pause.FlowTarget(dst4, 0x11), SrcQP: 0x23, KnownQP: true,
				State: pause.StateStopped,
				Pause: us, Until: now.Add(us)}},
		{"flow that is not known", notification(t, sw6, other, ppfc.Stop, 1*us),
			action{From: sw6, Target: pause.FlowTarget(other, 0x11), State: pause.StateStopped, Pause: us,
				Until: now.Add(us)}},
		{"port of the node", notification(t, sw6, sw6, ppfc.Stop, 1*us),
			action{From: sw6, Target: pause.PortTarget(sw6, 7), State: pause.StateStopped, Pause: us,
				Until: now.Add(us)}},
		{"port of the node, IPv4", notification(t, sw4, sw4, ppfc.Stop, 1*us),
			action{From: sw4, Target: pause.PortTarget(sw4, 7), State: pause.StateStopped, Pause: us,
				Until: now.Add(us)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := made(t, config(t))
			got, reason := receive(table, c.packet, ip, now)
			require.Equal(t, node.NoReason, reason)
			require.Equal(t, c.want, got)
			require.Equal(t, map[node.Count]uint64{
				{Action: node.ActionAccepted, Message: message.KindPPFC}: 1, {Effect: stateEffects[c.want.State]}: 1,
			}, maps.Collect(table.Counters().All()))
			state, until := table.State(c.want.Target, now)
			if c.want.Pause == 0 {
				require.Equal(t, pause.StateRunning, state)
			} else {
				require.Equal(t, c.want.State, state)
				require.Equal(t, c.want.Until, until)
			}
		})
	}
	// An ingress knows no queue pairs; the node itself can be a flow's destination.
	cfg := config(t)
	cfg.QPs = nil
	got, _ := receive(made(t, cfg), notification(t, sw6, dst6, ppfc.Stop, us), ip, now)
	require.Equal(t, pause.FlowTarget(dst6, 0x11), got.Target)
	cfg = config(t)
	require.NoError(t, cfg.QPs.(*qpmap.Map).Add(qpmap.Key{FlowKey: rocev2.FlowKey{Src: self6, Dst: sw6, DestQP: 0x11}},
		qpmap.Pair{SrcQP: 0x24}))
	got, _ = receive(made(t, cfg), notification(t, sw6, sw6, ppfc.Stop, us), ip, now)
	require.Equal(t, pause.FlowTarget(sw6, 0x11), got.Target)
	require.EqualValues(t, 0x24, got.SrcQP)
}

// The story of one flow.
func TestOneFlow(t *testing.T) {
	table := made(t, config(t))
	flow := pause.FlowTarget(dst6, 0x11)
	at := func(n int) time.Time { return now.Add(time.Duration(n) * us) }
	receivePause := func(n int, typ ppfc.Type, duration time.Duration) {
		t.Helper()
		_, reason := receive(table, notification(t, sw6, dst6, typ, duration), ip, at(n))
		require.Equal(t, node.NoReason, reason)
	}
	is := func(n int, want pause.State, until int) {
		t.Helper()
		state, end := table.State(flow, at(n))
		require.Equal(t, want, state)
		next, ok := table.Next(at(n))
		require.Equal(t, want != pause.StateRunning, ok)
		if ok {
			require.Equal(t, at(until), end)
			require.False(t, next.After(end))
		}
	}
	is(0, pause.StateRunning, 0)
	receivePause(0, ppfc.Stop, 100*us)
	is(0, pause.StateStopped, 100)
	is(99, pause.StateStopped, 100)
	receivePause(99, ppfc.Stop, 100*us) // the last word on stopping counts
	is(100, pause.StateStopped, 199)
	receivePause(110, ppfc.Alarm, 300*us) // which does not end the stop
	is(110, pause.StateStopped, 199)
	receivePause(120, ppfc.Hold, 200*us)
	is(198, pause.StateStopped, 199)
	is(199, pause.StateHeld, 320)
	is(320, pause.StateAlarmed, 410)
	is(409, pause.StateAlarmed, 410)
	is(410, pause.StateRunning, 0)
	receivePause(500, ppfc.Stop, 65535*us) // and the resume is lost
	is(1499, pause.StateStopped, 1500)
	is(1500, pause.StateRunning, 0)
	receivePause(2000, ppfc.Stop, 100*us)
	receivePause(2000, ppfc.Hold, 100*us)
	receivePause(2010, ppfc.Resume, 0)
	is(2010, pause.StateRunning, 0)
	receivePause(3000, ppfc.Stop, 100*us)
	receivePause(3010, ppfc.Stop, 0) // ends immediately
	is(3010, pause.StateRunning, 0)
	for state, want := range []uint64{1, 6, 2, 1} {
		require.Equal(t, want, table.Counters().Load(node.Count{Effect: stateEffects[state]}))
	}
}

// A rejected notification has the first reason that applies, and changes no state.
func TestRefused(t *testing.T) {
	stop := notification(t, sw6, dst6, ppfc.Stop, 100*us)
	changed := func(change func(*rocev2.Packet)) []byte {
		var p rocev2.Packet
		require.NoError(t, p.DecodeIP(stop))
		change(&p)
		return wiretest.Must(p.AppendBinary(nil))(t)
	}
	wrongICRC := slices.Clone(stop)
	wrongICRC[len(wrongICRC)-1] ^= 1
	stranger := netip.MustParseAddr("2001:db8:bad::1")
	tunnel := wiretest.Must((&encap.IPInIPv6{Src: sw6, Dst: self6}).Append(nil, stop, 5))(t)
	strangersTunnel := wiretest.Must((&encap.IPInIPv6{Src: sw6, Dst: self6}).Append(nil,
		notification(t, stranger, dst6, ppfc.Stop, us), 5))(t)
	for _, c := range []struct {
		name   string
		packet []byte
		reason node.Reason
	}{
		{"CNP", changed(func(p *rocev2.Packet) { p.BTH.Resv6, p.Payload = 0, make([]byte, 16) }), node.ReasonNotOurs},
		{"CNP with the P bit set", changed(func(p *rocev2.Packet) { p.Payload = make([]byte, 16) }),
			node.ReasonNotOurs},
		{"data", changed(func(p *rocev2.Packet) { p.BTH.Opcode = bth.RCSendOnly }), node.ReasonNotOurs},
		{"other UDP", changed(func(p *rocev2.Packet) { p.DstPort = 53 }), node.ReasonNotOurs},
		{"another host's", changed(func(p *rocev2.Packet) { p.Dst = dst6 }), node.ReasonNotOurs},
		{"nothing", nil, node.ReasonNotOurs},
		{"in a tunnel", tunnel, node.ReasonTunnelled},
		{"a stranger's in a tunnel", strangersTunnel, node.ReasonTunnelled},
		{"a stranger's", notification(t, stranger, dst6, ppfc.Stop, us), node.ReasonDenied},
		{"of the receiver", notification(t, dst6, dst6, ppfc.Stop, us), node.ReasonDenied},
		{"of 13 octets", changed(func(p *rocev2.Packet) { p.Payload = p.Payload[:13] }), node.ReasonBroken},
		{"cut", stop[:len(stop)-1], node.ReasonBroken},
		{"ICRC", wrongICRC, node.ReasonICRC},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := made(t, config(t))
			got, reason := receive(table, c.packet, ip, now)
			require.Equal(t, c.reason, reason)
			require.Zero(t, got)
			require.Zero(t, table.Len())
			of := node.Count{Action: node.ActionRefused, Reason: c.reason}
			if other := c.reason == node.ReasonNotOurs && c.name != "another host's"; other { // the role has no say
				require.Empty(t, maps.Collect(table.Counters().All()))
			} else {
				require.EqualValues(t, 1, table.Counters().Load(of))
			}
			wiretest.NoAllocs(t, c.name, func() { receive(table, c.packet, ip, now) })
		})
	}
	withoutAccept := config(t)
	withoutAccept.Accept = nil
	_, reason := receive(made(t, withoutAccept), stop, ip, now)
	require.Equal(t, node.ReasonDenied, reason)
}

func TestOff(t *testing.T) {
	cfg := config(t)
	cfg.Enabled = false
	for _, cfg := range []pause.Config{{}, cfg} {
		table := made(t, cfg)
		_, reason := receive(table, notification(t, sw6, dst6, ppfc.Stop, 100*us), ip, now)
		require.Equal(t, node.ReasonDisabled, reason)
		state, _ := table.State(pause.FlowTarget(dst6, 0x11), now)
		require.Equal(t, pause.StateRunning, state)
		_, ok := table.Next(now)
		require.False(t, ok)
	}
}

func TestAllocs(t *testing.T) {
	table := made(t, config(t))
	stop, resume := notification(t, sw6, dst6, ppfc.Stop, 100*us), notification(t, sw6, dst6, ppfc.Resume, 0)
	wiretest.NoAllocs(t, "Receive, State, Next", func() {
		receive(table, stop, ip, now)
		table.State(pause.FlowTarget(dst6, 0x11), now)
		table.Next(now)
		receive(table, resume, ip, now)
	})
}

func FuzzReceive(f *testing.F) {
	for _, p := range wiretest.Capture(f, "messages.pcap") {
		f.Add(p.Data[14:], p.Time.UnixNano())
	}
	f.Fuzz(func(t *testing.T, packet []byte, at int64) {
		cfg := config(t)
		cfg.MaxTargets = 16
		table := made(t, cfg)
		now := time.Unix(0, at)
		a, reason := receive(table, packet, ip, now)
		if reason != node.NoReason {
			require.Zero(t, a)
			require.Zero(t, table.Len())
			return
		}
		state, until := table.State(a.Target, now)
		require.Equal(t, a.Pause > 0, state != pause.StateRunning)
		require.True(t, until.IsZero() || until.Equal(a.Until))
		_, ok := table.Next(now.Add(1000 * us))
		require.False(t, ok)
	})
}

func BenchmarkReceive(b *testing.B) {
	table := made(b, config(b))
	stop := notification(b, sw6, dst6, ppfc.Stop, 100*us)
	b.ReportAllocs()
	for b.Loop() {
		frame.Decode(stop, ip)
		table.Receive(nil, &frame, node.Event{Now: now})
	}
}

func BenchmarkState(b *testing.B) {
	table := made(b, config(b))
	receive(table, notification(b, sw6, dst6, ppfc.Stop, 100*us), ip, now)
	b.ReportAllocs()
	for b.Loop() {
		table.State(pause.FlowTarget(dst6, 0x11), now)
	}
}

// A packet with an unknown time does not change the ends of states.
func TestWithoutTime(t *testing.T) {
	table := made(t, config(t))
	flow := pause.FlowTarget(dst6, 0x11)
	state := func(at time.Time) pause.State {
		s, _ := table.State(flow, at)
		return s
	}
	require.Equal(t, pause.StateRunning, state(now))
	require.Equal(t, pause.StateRunning, state(time.Time{}))
	receive(table, notification(t, sw6, dst6, ppfc.Stop, 500*us), ip, now)
	require.Equal(t, pause.StateStopped, state(now.Add(499*us)))
	require.Equal(t, pause.StateStopped, state(time.Time{}))
	next, ok := table.Next(time.Time{})
	require.Equal(t, []any{now.Add(500 * us), true}, []any{next, ok})
	require.Equal(t, pause.StateStopped, state(now.Add(499*us)))
	require.Equal(t, pause.StateRunning, state(now.Add(500*us)))
}

// A new configuration in the midst of a sequence keeps the states, with the times at which they end, and the state of
// the limits. An invalid one changes nothing.
func TestConfigure(t *testing.T) {
	cfg := config(t)
	cfg.In, cfg.MaxTargets = node.Rate{PerSecond: 1e-3, Burst: 3}, 64
	table := made(t, cfg)
	flow := pause.FlowTarget(dst6, 0x11)
	receivePause := func(typ ppfc.Type) (action, node.Reason) {
		return receive(table, notification(t, sw6, dst6, typ, 900*us), ip, now)
	}
	_, reason := receivePause(ppfc.Stop)
	require.Equal(t, node.NoReason, reason)
	for _, c := range []struct {
		name   string
		change func(*pause.Config)
	}{
		{"pause: neither Self4", func(c *pause.Config) { c.Self4, c.Self6 = netip.Addr{}, netip.Addr{} }},
		{"Self4", func(c *pause.Config) { c.Self4 = self6 }},
		{"MaxPause -1ns", func(c *pause.Config) { c.MaxPause = -1 }},
		{"In has a Burst", func(c *pause.Config) { c.In = node.Rate{Burst: 3} }},
		{"InPerSource", func(c *pause.Config) { c.InPerSource.Burst = 1 }},
		{"MaxTargets cannot change", func(c *pause.Config) { c.MaxTargets = 65 }},
		{"MaxSources cannot change", func(c *pause.Config) { c.MaxSources = 65 }},
		{"the Seed cannot change", func(c *pause.Config) { c.Seed = 9 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			bad := cfg
			bad.Accept = nil
			c.change(&bad)
			require.ErrorContains(t, table.Configure(bad), c.name)
		})
	}
	_, reason = receivePause(ppfc.Alarm)
	require.Equal(t, node.NoReason, reason, "the list is as it was")

	cfg.MaxPause = 100 * us
	require.NoError(t, table.Configure(cfg))
	state, until := table.State(flow, now)
	require.Equal(t, pause.StateStopped, state)
	require.Equal(t, now.Add(900*us), until, "the earlier request")
	a, reason := receivePause(ppfc.Hold)
	require.Equal(t, []any{node.NoReason, 100 * us}, []any{reason, a.Pause})
	_, reason = receivePause(ppfc.Resume)
	require.Equal(t, node.ReasonLimited, reason, "three were looked at")
	cfg.In, cfg.Accept = node.Rate{}, acl.New()
	require.NoError(t, table.Configure(cfg))
	_, reason = receivePause(ppfc.Resume)
	require.Equal(t, node.ReasonDenied, reason)
	cfg.Enabled = false
	require.NoError(t, table.Configure(cfg))
	state, _ = table.State(flow, now)
	require.Equal(t, pause.StateStopped, state)
}

// A received is a table and a notification, which it accepts unless a fault is
// put in.
type received struct {
	cfg    pause.Config
	packet rocev2.Packet
	outer  []byte // before the packet
	cut    int    // octets missing at the end
	flip   bool   // a bit of the ICRC
	before int    // number of earlier notifications
}

var stranger = netip.MustParseAddr("2001:db8:bad::1")

// faults are the faults of a notification, in the order of the checks.
var faults = []struct {
	name string
	do   func(*received)
	want node.Reason
}{
	{"data", func(r *received) { r.packet.BTH.Opcode = bth.RCSendOnly }, node.ReasonNotOurs}, // no say in it
	{"off", func(r *received) { r.cfg.Enabled = false }, node.ReasonDisabled},
	{"to another host", func(r *received) { r.packet.Dst = r.packet.Dst.Next() }, node.ReasonNotOurs},
	{"in a tunnel", func(r *received) { r.outer = make([]byte, 40) }, node.ReasonTunnelled},
	{"a stranger's", func(r *received) {
		if r.packet.Src = stranger; r.packet.Dst.Is4() {
			r.packet.Src = netip.MustParseAddr("203.0.113.1")
		}
	}, node.ReasonDenied},
	{"the node's rate", func(r *received) { r.cfg.InPerSource, r.before = node.Rate{PerSecond: 1}, 1 },
		node.ReasonLimited},
	{"the rate of all nodes", func(r *received) { r.cfg.In, r.before = node.Rate{PerSecond: 1}, 1 },
		node.ReasonLimited},
	{"cut", func(r *received) { r.cut = 1 }, node.ReasonBroken},
	{"of 13 octets", func(r *received) { r.packet.Payload = r.packet.Payload[:8] }, node.ReasonBroken},
	{"ICRC", func(r *received) { r.flip = true }, node.ReasonICRC},
}

// octets returns the notification.
func (r *received) octets(t *testing.T) []byte {
	b := wiretest.Must(r.packet.AppendBinary(nil))(t)
	if r.flip {
		b[len(b)-1] ^= 1
	}
	if r.outer != nil {
		outer := make([]byte, 40)
		outer[0], outer[4], outer[5], outer[6], outer[7] = 6<<4, uint8(len(b)>>8), uint8(len(b)), 41, 64
		if r.packet.Dst.Is4() {
			outer[6] = 4
		}
		self := self6.As16()
		copy(outer[8:], self[:])
		copy(outer[24:], self[:])
		b = append(outer, b...)
	}
	return b[:len(b)-r.cut]
}

func newReceived(t *testing.T, from, congested netip.Addr) *received {
	r := &received{cfg: config(t)}
	require.NoError(t, r.packet.DecodeIP(notification(t, from, congested, ppfc.Stop, 100*us)))
	return r
}

// For a notification with two faults, the reason is the one that is checked first, in both families.
func TestOrderOfFaults(t *testing.T) {
	for _, family := range [][2]netip.Addr{{sw6, dst6}, {sw4, dst4}} {
		for i, first := range faults {
			t.Run(first.name, func(t *testing.T) {
				for _, second := range faults[i:] {
					r := newReceived(t, family[0], family[1])
					good := *r
					second.do(r)
					if first.name != second.name {
						first.do(r)
					}
					table := made(t, r.cfg)
					for range r.before { // by the same node
						before := good
						before.packet.Src = r.packet.Src
						receive(table, before.octets(t), ip, now)
					}
					a, reason := receive(table, r.octets(t), ip, now)
					require.Equal(t, first.want, reason, "%v: %s, %s", family, first.name, second.name)
					require.Zero(t, a)
					cut := ip
					cut.AllowTruncated = true
					_, reason = receive(made(t, r.cfg), r.octets(t), cut, now)
					if r.before == 0 {
						require.Equal(t, first.want, reason, "truncated, %v: %s, %s", family, first.name, second.name)
					}
				}
			})
		}
	}
}

// A host with addresses of both families accepts notifications about its own addresses only. A host with an address
// of one family accepts none about the other family.
func TestOnlyOwnAddresses(t *testing.T) {
	for _, c := range []struct {
		name       string
		self4      netip.Addr
		self6      netip.Addr
		from, to   netip.Addr
		congestion netip.Addr
		want       node.Reason
	}{
		{"IPv4", self4, self6, sw4, self4, dst4, node.NoReason},
		{"IPv4, another host's", self4, self6, sw4, self4.Next(), dst4, node.ReasonNotOurs},
		{"IPv6", self4, self6, sw6, self6, dst6, node.NoReason},
		{"IPv6, another host's", self4, self6, sw6, self6.Next(), dst6, node.ReasonNotOurs},
		{"IPv4 without an address", netip.Addr{}, self6, sw4, self4, dst4, node.ReasonNotOurs},
		{"IPv6 without an address", self4, netip.Addr{}, sw6, self6, dst6, node.ReasonNotOurs},
		{"IPv4, only IPv4", self4, netip.Addr{}, sw4, self4, dst4, node.NoReason},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newReceived(t, c.from, c.congestion)
			r.cfg.Self4, r.cfg.Self6 = c.self4, c.self6
			r.packet.Dst = c.to
			_, reason := receive(made(t, r.cfg), r.octets(t), ip, now)
			require.Equal(t, c.want, reason)
		})
	}
}

// Two capture queues with clocks 200 ms apart take turns: no limit admits more notifications than configured, and no
// stop ends early.
func TestTwoQueues(t *testing.T) {
	const second = 10_000 // notifications a second
	stop := notification(t, sw6, dst6, ppfc.Stop, 1000*us)
	for _, c := range []struct {
		name   string
		change func(*pause.Config)
	}{
		{"in", func(c *pause.Config) { c.In = node.Rate{PerSecond: 20, Burst: 2} }},
		{"in per source", func(c *pause.Config) { c.InPerSource = node.Rate{PerSecond: 20, Burst: 2} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := config(t)
			c.change(&cfg)
			table := made(t, cfg)
			passed, last := 0, time.Time{}
			for i := range second {
				now := now.Add(time.Duration(i) * time.Second / second)
				queue := now
				if i%2 == 1 {
					queue = now.Add(-200 * time.Millisecond)
				}
				if _, reason := receive(table, stop, ip, queue); reason == node.NoReason {
					passed++
					last = now
				}
				state, _ := table.State(pause.FlowTarget(dst6, 0x11), queue)
				// The slower queue sees the time of the other one, a frame ago.
				if since := now.Sub(last); !last.IsZero() && since < 900*us {
					require.Equal(t, pause.StateStopped, state, since)
				} else if since > 1200*us {
					require.Equal(t, pause.StateRunning, state, since)
				}
			}
			require.Equal(t, 2+19, passed)
		})
	}
}

// A node that sends without end does not use up the rate of another one.
func TestInPerSource(t *testing.T) {
	cfg := config(t)
	cfg.InPerSource, cfg.In = node.Rate{PerSecond: 1, Burst: 2}, node.Rate{PerSecond: 1, Burst: 3}
	table := made(t, cfg)
	for i, c := range []struct {
		from netip.Addr
		want node.Reason
	}{
		{stranger, node.ReasonDenied}, {sw6, node.NoReason}, {sw6, node.NoReason}, {sw6, node.ReasonLimited}, {sw6,
			node.ReasonLimited},
		{sw6.Next(), node.NoReason}, {sw6.Next(), node.ReasonLimited}, {sw6.Next().Next(), node.ReasonLimited},
	} {
		_, reason := receive(table, notification(t, c.from, dst6, ppfc.Stop, us), ip, now)
		require.Equal(t, c.want, reason, i)
	}
}

// By default the rates of many nodes are kept at the same time. Each node has its own rate, and is still limited
// after all the others have sent.
func TestManySources(t *testing.T) {
	cfg := config(t)
	cfg.InPerSource = node.Rate{PerSecond: 1}
	table := made(t, cfg)
	for _, want := range []node.Reason{node.NoReason, node.ReasonLimited} {
		from := sw6
		for range 64 {
			_, reason := receive(table, notification(t, from, dst6, ppfc.Stop, us), ip, now)
			require.Equal(t, want, reason)
			from = from.Next()
		}
	}
}
