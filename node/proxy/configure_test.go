package proxy

import (
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

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
	show := func(k rocev2.FlowKey, op bth.Opcode, psn uint32) {
		var q rocev2.Packet
		require.NoError(t, q.DecodeIP(congested(t, k, func(q *rocev2.Packet) { q.BTH.Opcode, q.BTH.PSN = op, psn })))
		p.observe1(&q, start)
	}
	for psn := uint32(1000); psn < 1005; psn++ {
		show(flow4, bth.RCRDMAWriteOnly, psn)
		show(back, bth.RCAcknowledge, psn)
	}
	data := messageAbout(t, congested(t, flow4, func(q *rocev2.Packet) { q.BTH.PSN = 1003 }))
	hear := func() (answered, node.Reason) {
		_, a, reason := p.hear(nil, switch4, data, start)
		return a, reason
	}
	a, reason := hear()
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
	_, reason = hear()
	require.Equal(t, node.ReasonLimited, reason, "the list is as it was, and the flow's interval goes on")

	cfg.PerFlow, cfg.Senders = 0, senders(AnswerPPFC)
	require.NoError(t, p.Configure(cfg))
	a, reason = hear()
	require.Equal(t, []any{AnswerPPFC, node.NoReason}, []any{a.Method, reason})
	cfg.Senders = senders(AnswerCNP)
	require.NoError(t, p.Configure(cfg))
	a, reason = hear()
	require.Equal(t, []any{AnswerCNP, uint32(0x21), node.NoReason}, []any{a.Method, a.SrcQP, reason},
		"nothing is forgotten")
	_, reason = hear()
	require.Equal(t, node.ReasonLimited, reason, "the source has sent four")
	cfg.InPerSource = node.Rate{}
	require.NoError(t, p.Configure(cfg))
	_, reason = hear()
	require.Equal(t, node.NoReason, reason)
}

// The counters of a proxy can be read while it works. This test is for the race detector.
func TestCountersMeanwhile(t *testing.T) {
	p := newProxy(t, nil)
	data := messageAbout(t, congested(t, flow6, nil))
	var wg sync.WaitGroup
	wg.Go(func() {
		for range 1000 {
			p.hear(nil, switch6, data, start)
		}
	})
	for p.Counters().Load(node.Count{Action: node.ActionSent}) < 1000 {
		for range p.Counters().All() {
		}
	}
	wg.Wait()
	require.EqualValues(t, 1000, p.Counters().Load(node.Count{Action: node.ActionSent}))
}
