package sender_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/sender"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// A new configuration in the midst of a sequence keeps the reports, the destinations of datagrams and the state of
// the limits. An invalid one changes nothing.
func TestConfigure(t *testing.T) {
	cfg := config(t)
	cfg.QPs, cfg.Window, cfg.AcceptedPerSource, cfg.MaxQPs = nil, time.Hour, node.Rate{PerSecond: 1}, 64
	s := made(t, cfg)
	observe(s, congested(t, func(p *rocev2.Packet) { p.BTH.Opcode, p.BTH.DETH.SrcQP = bth.UDSendOnly, 0x55 }), now)
	about := receiverCNP(t, congested(t), 0x55)
	e, reason := receive(s, about, ip, now)
	require.Equal(t, []any{false, node.NoReason}, []any{e.Repeated, reason})
	for _, c := range []struct {
		name   string
		change func(*sender.Config)
	}{
		{"sender: neither Self4", func(c *sender.Config) { c.Self4, c.Self6 = netip.Addr{}, netip.Addr{} }},
		{"Self6", func(c *sender.Config) { c.Self6 = self4 }},
		{"AcceptedPerSource {PerSecond:-1", func(c *sender.Config) { c.AcceptedPerSource.PerSecond = -1 }},
		{"Window -1ns", func(c *sender.Config) { c.Window = -1 }},
		{"Accepted has a Burst", func(c *sender.Config) { c.Accepted = node.Rate{Burst: 1} }},
		{"MaxQPs cannot change", func(c *sender.Config) { c.MaxQPs = 65 }},
		{"MaxSources cannot change", func(c *sender.Config) { c.MaxSources = 65 }},
		{"the Seed cannot change", func(c *sender.Config) { c.Seed = 9 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			bad := cfg
			bad.Accept = nil
			c.change(&bad)
			require.ErrorContains(t, s.Configure(bad), c.name)
		})
	}
	_, reason = receive(s, fastCNP(t, sw, congested(t)), ip, now)
	require.Equal(t, node.ReasonUnknownQP, reason, "the list is as it was")
	_, reason = receive(s, about, ip, now)
	require.Equal(t, node.ReasonLimited, reason)

	cfg.AcceptedPerSource, cfg.Accept = node.Rate{PerSecond: 10}, acl.New()
	require.NoError(t, s.Configure(cfg))
	_, reason = receive(s, about, ip, now.Add(100*time.Millisecond-1))
	require.Equal(t, node.ReasonLimited, reason)
	e, reason = receive(s, about, ip, now.Add(100*time.Millisecond))
	require.Equal(t, []any{true, node.NoReason}, []any{e.Repeated, reason}, "nothing is forgotten")
	_, reason = receive(s, fastCNP(t, sw, congested(t)), ip, now)
	require.Equal(t, node.ReasonDenied, reason)
	cfg.Enabled = false
	require.NoError(t, s.Configure(cfg))
	_, reason = receive(s, about, ip, now.Add(time.Second))
	require.Equal(t, node.ReasonDisabled, reason)
	cfg.Enabled = true
	require.NoError(t, s.Configure(cfg))
	e, reason = receive(s, about, ip, now.Add(time.Second))
	require.Equal(t, []any{true, node.NoReason}, []any{e.Repeated, reason})
}
