package pause_test

import (
	"net/netip"
	"testing"

	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/pause"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/stretchr/testify/require"
)

// A new configuration in the midst of a sequence keeps the states, with the times at which they end, and the state of
// the limits. An invalid one changes nothing.
func TestConfigure(t *testing.T) {
	cfg := config(t)
	cfg.In, cfg.MaxTargets = node.Rate{PerSecond: 1e-3, Burst: 3}, 64
	table := made(t, cfg)
	flow := pause.FlowTarget(dst6, 0x11)
	tell := func(typ ppfc.Type) (action, node.Reason) {
		return receive(table, notification(t, sw6, dst6, typ, 900*us), ip, now)
	}
	_, reason := tell(ppfc.Stop)
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
	_, reason = tell(ppfc.Alarm)
	require.Equal(t, node.NoReason, reason, "the list is as it was")

	cfg.MaxPause = 100 * us
	require.NoError(t, table.Configure(cfg))
	state, until := table.State(flow, now)
	require.Equal(t, pause.StateStopped, state)
	require.Equal(t, now.Add(900*us), until, "what was asked for before")
	a, reason := tell(ppfc.Hold)
	require.Equal(t, []any{node.NoReason, 100 * us}, []any{reason, a.Pause})
	_, reason = tell(ppfc.Resume)
	require.Equal(t, node.ReasonLimited, reason, "three were looked at")
	cfg.In, cfg.Accept = node.Rate{}, acl.New()
	require.NoError(t, table.Configure(cfg))
	_, reason = tell(ppfc.Resume)
	require.Equal(t, node.ReasonDenied, reason)
	cfg.Enabled = false
	require.NoError(t, table.Configure(cfg))
	state, _ = table.State(flow, now)
	require.Equal(t, pause.StateStopped, state)
}
