package node_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/border"
	"github.com/rocecn/rocecn/node/congested"
	"github.com/rocecn/rocecn/node/ingress"
	"github.com/rocecn/rocecn/node/pause"
	"github.com/rocecn/rocecn/node/proxy"
	"github.com/rocecn/rocecn/node/receiver"
	"github.com/rocecn/rocecn/node/sender"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// All roles are a Role.
var (
	_ node.Role = (*border.Role)(nil)
	_ node.Role = (*congested.Role)(nil)
	_ node.Role = (*ingress.Role)(nil)
	_ node.Role = (*pause.Role)(nil)
	_ node.Role = (*proxy.Role)(nil)
	_ node.Role = (*receiver.Role)(nil)
	_ node.Role = (*sender.Role)(nil)
)

func run[C any](t *testing.T, r configurable[C], cfg C) node.Role {
	require.NoError(t, r.Configure(cfg))
	return r
}

// roles returns all roles by name, on or off, with queue pairs that know none.
func roles(t *testing.T, on bool) map[string]node.Role {
	four, six := netip.MustParseAddr("192.0.2.9"), netip.MustParseAddr("2001:db8::9")
	all := acl.New(netip.MustParsePrefix("::/0"), netip.MustParsePrefix("0.0.0.0/0"))
	var none *qpmap.Map
	return map[string]node.Role{
		"border":    run(t, new(border.Role), border.Config{Enabled: on}),
		"congested": run(t, new(congested.Role), congested.Config{Enabled: on, Self4: four, Self6: six}),
		"ingress": run(t, new(ingress.Role),
			ingress.Config{Enabled: on, WAN: six, Self4: four, Self6: six, Accept: all, QPs: none}),
		"pause": run(t, new(pause.Role), pause.Config{Enabled: on, Self4: four, Self6: six, Accept: all, QPs: none}),
		"proxy": run(t, new(proxy.Role), proxy.Config{Enabled: on, Self4: four, Self6: six, Accept: all, QPs: none}),
		"receiver": run(t, new(receiver.Role),
			receiver.Config{Enabled: on, Self4: four, Self6: six, QPs: none}),
		"sender": run(t, new(sender.Role),
			sender.Config{Enabled: on, Self4: four, Self6: six, Accept: all, QPs: none}),
	}
}

// Frames of all kinds, addressed to the role or not, complete or truncated, have no effect on a role that is off,
// except for its counters. A role that is on works with a nil table of queue pairs. Both count their decisions.
func TestRoles(t *testing.T) {
	var frames [][]byte
	for _, p := range wiretest.Capture(t, "messages.pcap") {
		frames = append(frames, p.Data)
	}
	frames = append(frames, wiretest.Hex(t, // a Parameter Problem, ICMPv6 type 4
		"020000000001 020000000002 86dd 60000000 0008 3a40 20010db8000000000000000000000001"+
			"20010db8000000000000000000000002 04020000 00000028"))
	for _, on := range []bool{false, true} {
		for name, role := range roles(t, on) {
			t.Run(name, func(t *testing.T) {
				var f rocev2.Frame
				actions, reasons := map[node.Action]uint64{}, map[node.Reason]uint64{}
				for _, octets := range frames {
					for _, ownAddress := range []bool{false, true} {
						octets := append([]byte(nil), octets...)
						if ownAddress {
							toOwn(octets)
						}
						for n := 14; n <= len(octets); n++ {
							f.Decode(octets[:n], rocev2.DecodeOptions{Cut: n < len(octets)})
							out, d := role.Receive(nil, &f, node.Event{Now: time.Unix(1795254649, 0)})
							require.Empty(t, out)
							if !on && d.Action != node.NoAction {
								require.Equal(t, []any{node.ActionRefused, node.ReasonDisabled}, []any{d.Action,
									d.Reason})
							}
							actions[d.Action]++
							reasons[d.Reason]++
						}
					}
				}
				if !on {
					require.NotZero(t, reasons[node.ReasonDisabled])
				}
				for reason, n := range reasons {
					if reason != node.NoReason {
						got := role.Counters().Load(node.Count{Action: node.ActionRefused, Reason: reason})
						require.Equal(t, n, got, reason)
					}
				}
				for action, n := range actions {
					if action != node.NoAction && action != node.ActionRefused { // which are counted by reason
						require.Equal(t, n, role.Counters().Load(node.Count{Action: action}), action)
					}
				}
			})
		}
	}
}

// toOwn makes an address of a role the destination of a frame.
func toOwn(frame []byte) {
	switch {
	case len(frame) >= 14+20 && frame[14]>>4 == 4:
		copy(frame[14+16:], []byte{192, 0, 2, 9})
	case len(frame) >= 14+40 && frame[14]>>4 == 6:
		own := netip.MustParseAddr("2001:db8::9").As16()
		copy(frame[14+24:], own[:])
	}
}

// The Decision about a message from a node that is not on the access list names that node.
func TestFromOfRefused(t *testing.T) {
	from, self := netip.MustParseAddr("2001:db8::5"), netip.MustParseAddr("2001:db8::1")
	c := cnp.New(0x11, 0xFFFF)
	aCNP := wiretest.Must(c.AppendPacket(nil, from, self, cnp.Config{}))(t)
	n := ppfc.New(7, 0xFFFF, ppfc.Extension{Congested: from, Type: ppfc.Stop})
	aPPFC := wiretest.Must(n.AppendPacket(nil, from, self, ppfc.Config{}))(t)
	m := fcn.Message{FlowLabel: 5, Level: 3}
	anFCN := wiretest.Must(m.AppendPacket(nil, from, self, fcn.Config{}))(t)
	toProxy := wiretest.Hex(t, "60000000 0008 11 40 20010db8000000000000000000000005"+
		"20010db8000000000000000000000001 c000"+fmt.Sprintf("%04x", proxymsg.Port)+"0008 0000")

	var f rocev2.Frame
	frame := func(octets []byte) *rocev2.Frame {
		f.Decode(octets, rocev2.DecodeOptions{Link: rocev2.LinkIP})
		return &f
	}
	now := time.Unix(1795254649, 0)
	check := func(name string, d node.Decision) {
		require.Equal(t, []any{node.ActionRefused, node.ReasonDenied, from}, []any{d.Action, d.Reason, d.From}, name)
	}
	s := wiretest.Must(sender.New(sender.Config{Enabled: true, Self6: self}))(t)
	_, sent := s.Receive(nil, frame(aPPFC), node.Event{Now: now})
	check("sender", sent)
	_, sent = s.Receive(nil, frame(aCNP), node.Event{Now: now})
	require.Equal(t, []any{node.ReasonUnknownQP, from}, []any{sent.Reason, sent.From}, "sender")
	table := wiretest.Must(pause.New(pause.Config{Enabled: true, Self6: self}))(t)
	_, paused := table.Receive(nil, frame(aPPFC), node.Event{Now: now})
	check("pause", paused)
	p := wiretest.Must(proxy.New(proxy.Config{Enabled: true, Self6: self}))(t)
	_, decision := p.Receive(nil, frame(toProxy), node.Event{Now: now})
	check("proxy", decision)
	agent := wiretest.Must(congested.New(congested.Config{Enabled: true, Self6: self}))(t)
	_, learned := agent.Receive(nil, frame(wiretest.Hex(t, "60000000 0008 3a40 20010db8000000000000000000000005"+
		"20010db8000000000000000000000001 04020000 00000028")), node.Event{Now: now})
	check("congested", learned)

	r := wiretest.Must(receiver.New(receiver.Config{Enabled: true, Self6: self}))(t)
	b := wiretest.Must(border.New(border.Config{Enabled: true}))(t)
	for _, octets := range [][]byte{aPPFC, aCNP, anFCN, toProxy} {
		_, d := r.Receive(nil, frame(octets), node.Event{Now: now})
		require.Zero(t, d.From, "receiver")
		_, d = b.Receive(nil, frame(octets), node.Event{Now: now})
		require.Zero(t, d.From, "border")
	}

	pe := wiretest.Must(ingress.New(ingress.Config{Enabled: true, WAN: self}))(t)
	_, named := pe.Receive(nil, frame(anFCN), node.Event{Now: now})
	check("ingress", named)
}
