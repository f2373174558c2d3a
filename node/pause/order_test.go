package pause_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/pause"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

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
					cut.Cut = true
					_, reason = receive(made(t, r.cfg), r.octets(t), cut, now)
					if r.before == 0 {
						require.Equal(t, first.want, reason, "cut, %v: %s, %s", family, first.name, second.name)
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
