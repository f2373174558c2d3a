package congested_test

import (
	"testing"
	"time"

	"github.com/rocecn/rocecn/ioam"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/congested"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/stretchr/testify/require"
)

// A new configuration in the midst of a sequence keeps the hosts that rejected a Fast CNP, the stopped flows and the
// state of the limits. An invalid one changes nothing.
func TestConfigure(t *testing.T) {
	cfg := method(congested.MethodFastCNP)
	cfg.Out, cfg.MaxFlows = node.Rate{PerSecond: 1e-3, Burst: 4}, 64
	a := agent(t, cfg)
	e := &event{Frame: data(t), Options: ip, Port: 7}
	sent, _ := congest(a, nil, e, now)
	require.Equal(t, node.NoReason, icmp(a, src6, problem(sent), now))

	for _, c := range []struct {
		name   string
		change func(*congested.Config)
	}{
		{"Self6", func(c *congested.Config) { c.Self6 = self4 }},
		{"Out has a Burst", func(c *congested.Config) { c.Out = node.Rate{Burst: 4} }},
		{"field Own is empty", func(c *congested.Config) { c.Own = new(ioam.Node) }},
		{"field Own: ioam: ", func(c *congested.Config) {
			c.Own = new(ioam.Node)
			c.Own.SetNode(64, 1<<24) // 24 bits
		}},
		{"PerFlow[3]", func(c *congested.Config) { c.PerFlow[3] = -1 }},
		{"MaxFlows cannot change", func(c *congested.Config) { c.MaxFlows = 65 }},
		{"MaxSent cannot change", func(c *congested.Config) { c.MaxSent = 65 }},
		{"MaxRejected cannot change", func(c *congested.Config) { c.MaxRejected = 65 }},
		{"MaxPaused cannot change", func(c *congested.Config) { c.MaxPaused = 65 }},
		{"the Seed cannot change", func(c *congested.Config) { c.Seed = 9 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			bad := cfg
			bad.Methods = nil
			c.change(&bad)
			require.ErrorContains(t, a.Configure(bad), c.name)
		})
	}
	rejected := decision{Packet: message.Data, MarkECN: true}
	_, d := congest(a, nil, e, now)
	require.Equal(t, rejected, d, "the methods are as they were, and the sender is not capable")

	cfg.Methods = method(congested.MethodPPFC).Methods
	require.NoError(t, a.Configure(cfg))
	_, d = congest(a, nil, e, now)
	require.Equal(t, message.PPFC, d.Kind)
	cfg.Methods = method(congested.MethodFastCNP).Methods
	require.NoError(t, a.Configure(cfg))
	_, d = congest(a, nil, e, now)
	require.Equal(t, rejected, d)
	cfg.Enabled = false
	require.NoError(t, a.Configure(cfg))
	_, d = congest(a, nil, e, now)
	require.Equal(t, node.ReasonDisabled, d.Reason)
	require.Empty(t, resumes(t, a, 7), "nothing is sent by a role that is off")
	cfg.Enabled = true
	require.NoError(t, a.Configure(cfg))
	_, d = congest(a, nil, e, now)
	require.Equal(t, rejected, d)
	out, resumed := resume(a, nil, 7, now)
	require.Equal(t, node.ActionSent, resumed.Action)
	_, n := ofPPFC(t, out)
	require.Equal(t, ppfc.Resume, n.Type)

	// Of four notifications two were sent.
	cfg.Methods = method(congested.MethodProxy).Methods
	require.NoError(t, a.Configure(cfg))
	for i, want := range []node.Reason{0, 0, node.ReasonLimited} {
		_, d = congest(a, nil, e, now.Add(time.Duration(i)))
		require.Equal(t, want, d.Reason)
	}
}
