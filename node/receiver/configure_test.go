package receiver_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/receiver"
	"github.com/stretchr/testify/require"
)

// A new configuration in the midst of a sequence keeps the state of the limits and the known pairs. An invalid one
// changes nothing.
func TestConfigure(t *testing.T) {
	cfg := config(t)
	cfg.PerFlow, cfg.Out, cfg.MaxFlows = time.Hour, node.Rate{PerSecond: 1e-3, Burst: 3}, 64
	r := made(t, cfg)
	is := func(at time.Duration, want node.Reason) {
		t.Helper()
		_, d := receive(r, nil, isMarked(t), now.Add(at))
		require.Equal(t, want, d.Reason)
	}
	is(0, 0)
	for _, c := range []struct {
		name   string
		change func(*receiver.Config)
	}{
		{"receiver: neither Self4", func(c *receiver.Config) { c.Self4, c.Self6 = netip.Addr{}, netip.Addr{} }},
		{"Self4", func(c *receiver.Config) { c.Self4 = self6 }},
		{"Self6", func(c *receiver.Config) { c.Self6 = self4 }},
		{"PerFlow -1ns", func(c *receiver.Config) { c.PerFlow = -1 }},
		{"Out has a Burst", func(c *receiver.Config) { c.Out = node.Rate{Burst: 5} }},
		{"FastCNP.CodePoints: option type 0xbe: its act bits must be 10, its chg bit 0", func(c *receiver.Config) {
			c.FastCNP.CodePoints.Option2 = 0xBE
		}},
		{"FastCNP.Long 3", func(c *receiver.Config) { c.FastCNP.Long = 3 }},
		{"FastCNP.Coverage 3", func(c *receiver.Config) { c.FastCNP.Coverage = 3 }},
		{"MaxFlows -1 is negative", func(c *receiver.Config) { c.MaxFlows = -1 }},
		{"MaxFlows cannot change", func(c *receiver.Config) { c.MaxFlows = 65 }},
		{"the Seed cannot change", func(c *receiver.Config) { c.Seed = 9 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			bad := cfg
			bad.QPs = nil
			c.change(&bad)
			require.ErrorContains(t, r.Configure(bad), c.name)
			if c.name != "MaxFlows cannot change" && c.name != "the Seed cannot change" {
				_, err := receiver.New(bad)
				require.ErrorContains(t, err, c.name)
			}
		})
	}
	is(time.Second/2, node.ReasonLimited) // the pair is known, and the interval goes on

	cfg.PerFlow = time.Second
	require.NoError(t, r.Configure(cfg))
	is(time.Second-1, node.ReasonLimited)
	is(time.Second, 0)
	cfg.Enabled = false
	require.NoError(t, r.Configure(cfg))
	is(2*time.Second, node.ReasonDisabled)
	cfg.Enabled, cfg.Fast = true, true
	require.NoError(t, r.Configure(cfg))
	out, d := receive(r, nil, isMarked(t), now.Add(2*time.Second))
	require.Equal(t, message.FastCNP, d.Message)
	require.NotEmpty(t, out)
	is(3*time.Second, node.ReasonLimited) // three were sent
	cfg.Out = node.Rate{}
	require.NoError(t, r.Configure(cfg))
	is(3*time.Second, 0)
}
