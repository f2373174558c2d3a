package ingress

import (
	"testing"
	"time"

	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/stretchr/testify/require"
)

// A new configuration in the midst of a sequence keeps the labels of flows and the state of the limits. An invalid
// one changes nothing.
func TestConfigure(t *testing.T) {
	var cfg Config
	pe := newPE(t, func(c *Config) {
		c.MaxFlows, c.PerFlow, c.In = 16, time.Second, node.Rate{PerSecond: 1e-3, Burst: 3}
		cfg = *c
	})
	label, reason := pe.give(packetOf(flow6), 0, start)
	require.Equal(t, node.NoReason, reason)
	hear := func(at time.Duration) node.Reason {
		_, _, reason := pe.hear(nil, p1, messageAbout(t, label), start.Add(at))
		return reason
	}
	require.Equal(t, node.NoReason, hear(0))

	for _, c := range []struct {
		name   string
		change func(*Config)
	}{
		{"WAN", func(c *Config) { c.WAN = cnp4 }},
		{"Self4", func(c *Config) { c.Self4 = cnp6 }},
		{"In has a Burst", func(c *Config) { c.In = node.Rate{Burst: 3} }},
		{"Out", func(c *Config) { c.Out.PerSecond = -1 }},
		{"MaxFlows cannot", func(c *Config) { c.MaxFlows = 17 }},
		{"MaxSources cannot", func(c *Config) { c.MaxSources = 17 }},
		{"Seed cannot", func(c *Config) { c.Seed++ }},
		{"Instance cannot", func(c *Config) { c.Instances, c.Instance = 2, 1 }},
		{"Instances cannot", func(c *Config) { c.Instances = 2 }},
		{"Quarantine -1ns", func(c *Config) { c.Quarantine = -1 }},
		{"PerFlow -1ns is neg", func(c *Config) { c.PerFlow = -1 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			bad := cfg
			bad.Accept = nil
			c.change(&bad)
			require.ErrorContains(t, pe.Configure(bad), c.name)
		})
	}
	require.Equal(t, node.ReasonLimited, hear(0), "the list is as it was, and so is the flow's interval")

	cfg.PerFlow, cfg.Seed = 500*time.Millisecond, 0 // the seed stays
	require.NoError(t, pe.Configure(cfg))
	again, reason := pe.give(packetOf(flow6), 0, start.Add(time.Millisecond))
	require.Equal(t, []any{label, node.NoReason}, []any{again, reason})
	require.Equal(t, node.NoReason, hear(500*time.Millisecond), "half of it is enough now")
	require.Equal(t, node.ReasonLimited, hear(time.Second), "three were looked at: the rate of all is used up")

	cfg.In, cfg.Accept = node.Rate{}, acl.New()
	require.NoError(t, pe.Configure(cfg))
	require.Equal(t, node.ReasonDenied, hear(2*time.Second))
	cfg.Enabled = false
	require.NoError(t, pe.Configure(cfg))
	require.Equal(t, node.ReasonDisabled, hear(2*time.Second))
	cfg.Enabled, cfg.Accept = true, config().Accept
	require.NoError(t, pe.Configure(cfg))
	require.Equal(t, node.NoReason, hear(3*time.Second), "off and on again, the label is known")
	require.Equal(t, 1, pe.Len())
}
