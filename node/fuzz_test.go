package node_test

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/rocecn/rocecn/encap"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/filter"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/border"
	"github.com/rocecn/rocecn/node/congested"
	"github.com/rocecn/rocecn/node/ingress"
	"github.com/rocecn/rocecn/node/pause"
	"github.com/rocecn/rocecn/node/proxy"
	"github.com/rocecn/rocecn/node/receiver"
	"github.com/rocecn/rocecn/node/sender"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// Each role is tested with hostile sequences: frames of all kinds, valid, changed or random, and answers to packets
// that the role sent; times that jump; and changes of the configuration. Rules for all roles are in hostile_test.go;
// rules for a single role are in this file.

const ms = time.Millisecond

var (
	slow      = node.Rate{PerSecond: 100, Burst: 2} // rate of sent packets
	slower    = node.Rate{PerSecond: 50, Burst: 3}  // rate of received packets
	anySource = netip.MustParsePrefix("::/0")
	anybody4  = netip.MustParsePrefix("0.0.0.0/0")
	all       = acl.New(anySource, anybody4)
)

func FuzzBorder(f *testing.F) {
	c := &fuzzedRole[border.Config]{
		fresh: func(c border.Config) (configurable[border.Config], error) { return border.New(c) },
		configs: []border.Config{
			{Enabled: true}, {Enabled: true, Border: filter.Border{CNP: true, PPFC: true}}, {},
		},
		on:     func(c border.Config) bool { return c.Enabled },
		limits: func(border.Config) limits { return limits{} },
		ops:    1,
		receive: func(r configurable[border.Config], _ byte, out []byte, p *scriptRun) ([]byte, node.Decision) {
			return r.Receive(out, &p.frame, node.Event{Now: p.now})
		},
	}
	c.check = func(_ configurable[border.Config], cfg border.Config, p *scriptRun, _ []byte, d node.Decision) (
		bool, netip.Addr, any,
	) {
		switch kind := p.kind(); kind { // no message crosses that can be read
		case message.KindFastCNP, message.KindProxy, message.KindFCN:
			require.Equal(p.t, cfg.Enabled, d.Action == node.ActionDropped, "%v", kind)
		case message.KindData, message.KindAck:
			require.NotEqual(p.t, node.ActionDropped, d.Action, "%v", kind)
		}
		return false, netip.Addr{}, nil
	}
	c.fuzz(f)
}

func FuzzCongested(f *testing.F) {
	method := func(m congested.Method, change func(*congested.Config)) congested.Config {
		c := congested.Config{Enabled: true, Self4: switch4, Self6: switch6, PEs: acl.New(netip.PrefixFrom(pe, 128)),
			Methods: acl.NewMap(acl.Entry[congested.Method]{Prefix: anySource, Value: m},
				acl.Entry[congested.Method]{Prefix: anybody4, Value: m}),
			Proxies: acl.NewMap(acl.Entry[netip.Addr]{Prefix: anySource, Value: proxy6},
				acl.Entry[netip.Addr]{Prefix: anybody4, Value: proxy4}),
			MaxFlows: 4, MaxSent: 4, MaxRejected: 4, MaxPaused: 4, Seed: 7, Pause: ms,
			FastCNP: fastcnp.Config{Long: fastcnp.LongTraceFallBack}}
		change(&c)
		return c
	}
	type role = configurable[congested.Config]
	c := &fuzzedRole[congested.Config]{
		fresh: func(c congested.Config) (role, error) { return congested.New(c) },
		configs: []congested.Config{
			method(congested.MethodFastCNP, func(c *congested.Config) {}),
			method(congested.MethodFastCNP, func(c *congested.Config) {
				c.PerFlow, c.Out = [8]time.Duration{ms, ms, ms, ms, ms, ms, ms, ms}, slow
				c.Capable = acl.NewMap(acl.Entry[congested.Capability]{Prefix: anySource, Value: congested.Capable})
			}),
			method(congested.MethodProxy, func(c *congested.Config) { c.Out = slow }),
			method(congested.MethodFCN, func(c *congested.Config) { c.PerFlow[0] = time.Second }),
			method(congested.MethodPPFC, func(c *congested.Config) { c.Out = slow }),
			method(congested.MethodPPFC, func(c *congested.Config) { c.PauseIngress = true }),
			method(congested.MethodMark, func(c *congested.Config) {}),
			method(congested.MethodMark, func(c *congested.Config) {
				c.CannotMark, c.Fallback = true,
					congested.MethodPPFC
			}),
			{},
		},
		on:   func(c congested.Config) bool { return c.Enabled },
		self: []netip.Addr{switch4, switch6},
		ops:  4,
		limits: func(c congested.Config) limits {
			return limits{out: c.Out, perFlow: c.PerFlow[0]}
		},
	}
	resumed := false
	c.receive = func(r role, op byte, out []byte, p *scriptRun) ([]byte, node.Decision) {
		a := r.(*congested.Role)
		resumed = op%4 == 3
		switch op % 4 {
		case 2:
			return a.Receive(out, &p.frame, node.Event{Observe: true, Now: p.now})
		case 3:
			_, d := a.Receive(out, nil, node.Event{Port: uint16(op >> 4 & 1), Now: p.now})
			if d.Action != node.NoAction {
				return out, d
			}
			return a.Due(out, p.now)
		}
		return a.Receive(out, &p.frame, node.Event{Port: uint16(op >> 4 & 1), Now: p.now})
	}
	c.check = func(_ role, cfg congested.Config, p *scriptRun, sent []byte, d node.Decision) (bool, netip.Addr, any) {
		if d.MarkECN {
			require.False(p.t, cfg.CannotMark)
			require.NotEqual(p.t, rocev2.NotECT, p.frame.Outer().ECN())
			require.False(p.t, d.Action == node.ActionSent && cfg.Capable != nil, "FAST section 4")
		}
		if resumed {
			require.True(p.t, d.Action != node.ActionSent || d.Message == message.KindPPFC)
			return false, netip.Addr{}, nil
		}
		if d.Action != node.ActionSent && d.Action != node.ActionMarked {
			return false, netip.Addr{}, nil
		}
		require.Equal(p.t, message.KindData, p.kind(), "only data is answered")
		require.NotContains(p.t, []netip.Addr{switch4, switch6}, d.Flow.Src)
		var flow any = d.Flow
		if d.Message == message.KindFCN {
			flow = [2]any{p.frame.Outer().Src(), p.frame.Outer().FlowLabel()}
			require.Equal(p.t, pe, d.To)
		}
		return d.Action == node.ActionSent, netip.Addr{}, flow
	}
	c.fuzz(f)
}

func FuzzIngress(f *testing.F) {
	tunnel := &encap.IPInIPv6{Src: pe, Dst: egress}
	config := func(change func(*ingress.Config)) ingress.Config {
		c := ingress.Config{Enabled: true, WAN: pe, Self4: switch4, Self6: proxy6, Accept: all, QPs: connected{},
			MaxFlows: 2, MaxSources: 4, Idle: 10 * time.Second, Quarantine: time.Second, Seed: 7,
			Instance: 1, Instances: 1 << 18, Tunnel: tunnel}
		change(&c)
		return c
	}
	type role = configurable[ingress.Config]
	newCast := func(change func(*ingress.Config)) *fuzzedRole[ingress.Config] {
		c := &fuzzedRole[ingress.Config]{
			fresh: func(c ingress.Config) (role, error) { return ingress.New(c) },
			configs: []ingress.Config{
				config(change),
				config(func(c *ingress.Config) { change(c); c.Out, c.PerFlow, c.QPs = slow, ms, &observingPairs }),
				config(func(c *ingress.Config) { change(c); c.In, c.InPerSource = slower, node.Rate{PerSecond: 1} }),
				{},
			},
			on:   func(c ingress.Config) bool { return c.Enabled },
			self: []netip.Addr{switch4, proxy6},
			limits: func(c ingress.Config) limits {
				if c.In != (node.Rate{}) {
					return limits{out: c.In, perSource: c.InPerSource}
				}
				return limits{out: c.Out, perFlow: c.PerFlow}
			},
		}
		c.state = func(r role, now time.Time) any {
			return []any{slices.Collect(r.(*ingress.Role).Flows(now)), r.(*ingress.Role).Free()}
		}
		c.receive = func(r role, op byte, out []byte, p *scriptRun) ([]byte, node.Decision) {
			pe := r.(*ingress.Role)
			switch op % 8 {
			case 0, 1, 2:
				return pe.Receive(out, &p.frame, node.Event{Domain: uint32(op >> 4 & 1), Now: p.now})
			case 3:
				return pe.Receive(out, &p.frame, node.Event{Level: 1, Now: p.now})
			case 4:
				return pe.Receive(out, &p.frame, node.Event{Observe: true, Now: p.now})
			case 5:
				pe.Due(nil, p.now)
			}
			return pe.Receive(out, &p.frame, node.Event{Now: p.now})
		}
		c.check = func(r role, cfg ingress.Config, p *scriptRun, sent []byte, d node.Decision) (bool, netip.Addr, any) {
			pe := r.(*ingress.Role)
			if pe.Free() < 0 || pe.Free()+pe.Len() > c.configs[0].MaxFlows {
				p.t.Fatalf("%d flows, and room for %d, of %d", pe.Len(), pe.Free(), c.configs[0].MaxFlows)
			}
			labels := map[uint32]bool{}
			for flow := range pe.Flows(p.now) {
				if flow.Label == 0 || labels[flow.Label] {
					p.t.Fatalf("two flows with the label %#x", flow.Label)
				}
				labels[flow.Label] = true
			}
			if d.Action == node.ActionForwarded {
				require.Equal(p.t, d.Reason == node.NoReason, d.Label != 0, "%v", d.Reason)
			}
			if d.Action != node.ActionSent { // a forwarded packet is unchanged in the tunnel, with the label
				if len(sent) > 0 {
					require.Equal(p.t, p.frame.Outer().IP(), sent[40:])
					require.Equal(p.t, d.Label, uint32(sent[1]&15)<<16|uint32(sent[2])<<8|uint32(sent[3]))
				}
				return false, netip.Addr{}, nil
			}
			require.Equal(p.t, message.KindCNP, d.Message)
			require.Contains(p.t, []message.Kind{message.KindData, message.KindFCN}, p.kind())
			require.Equal(p.t, uint32(0x21), d.SrcQP)
			// data that congests the PE itself is not charged to the limits of FCNs
			return cfg.In == node.Rate{} || d.From.IsValid(), d.From, d.Flow
		}
		return c
	}
	labels, learned := newCast(func(*ingress.Config) {}), newCast(func(c *ingress.Config) {
		c.LearnLabels, c.Instance, c.Instances = true, 0, 0
	})
	pool := traffic(f)
	for i := range labels.configs {
		for op := range byte(16) {
			f.Add([]byte(scriptOfAll(pool, byte(i), op/2)), op&1 != 0)
		}
	}
	f.Fuzz(func(t *testing.T, s []byte, learn bool) {
		switch {
		case len(s) > 1000:
		case learn:
			learned.perform(t, pool, s)
		default:
			labels.perform(t, pool, s)
		}
	})
}

func FuzzPause(f *testing.F) {
	config := pause.Config{Enabled: true, Self4: sender4, Self6: sender6, Accept: all, QPs: connected{},
		MaxPause: time.Second, MaxSources: 4, MaxTargets: 2, Seed: 7}
	limited, short := config, config
	limited.In, limited.InPerSource = slower, node.Rate{PerSecond: 1}
	short.MaxPause = 10 * ms
	type role = configurable[pause.Config]
	c := &fuzzedRole[pause.Config]{
		fresh:   func(c pause.Config) (role, error) { return pause.New(c) },
		configs: []pause.Config{config, limited, short, {}},
		on:      func(c pause.Config) bool { return c.Enabled },
		limits:  func(c pause.Config) limits { return limits{out: c.In, perSource: c.InPerSource} },
		state: func(r role, now time.Time) any {
			next, some := r.(*pause.Role).Next(now)
			return []any{r.(*pause.Role).Len(), next, some}
		},
		ops: 1,
	}
	c.receive = func(r role, op byte, out []byte, p *scriptRun) ([]byte, node.Decision) {
		return r.Receive(out, &p.frame, node.Event{Now: p.now})
	}
	c.check = func(r role, cfg pause.Config, p *scriptRun, sent []byte, d node.Decision) (bool, netip.Addr, any) {
		table := r.(*pause.Role)
		if len(sent) > 0 || table.Len() > config.MaxTargets {
			p.t.Fatalf("%x sent, %d targets of %d", sent, table.Len(), config.MaxTargets)
		}
		if d.Action != node.ActionAccepted {
			return false, netip.Addr{}, nil
		}
		require.True(p.t, d.Pause >= 0 && d.Pause <= cfg.MaxPause, d.Pause)
		if state, until := table.State(table.Target(), p.now); d.Pause > 0 {
			require.NotEqual(p.t, pause.StateRunning, state)
			require.LessOrEqual(p.t, until.Sub(p.known), config.MaxPause)
		} else if d.Request == node.RequestResume {
			require.Equal(p.t, pause.StateRunning, state)
		}
		return true, d.From, nil
	}
	c.fuzz(f)
}

func FuzzProxy(f *testing.F) {
	config := func(answer proxy.Answer, change func(*proxy.Config)) proxy.Config {
		c := proxy.Config{Enabled: true, Self4: proxy4, Self6: proxy6, Accept: all, QPs: connected{},
			Senders: acl.NewMap(acl.Entry[proxy.Answer]{Prefix: anySource, Value: answer},
				acl.Entry[proxy.Answer]{Prefix: anybody4, Value: answer}),
			MaxFlows: 4, MaxSources: 4, Seed: 7}
		change(&c)
		return c
	}
	type role = configurable[proxy.Config]
	c := &fuzzedRole[proxy.Config]{
		fresh: func(c proxy.Config) (role, error) { return proxy.New(c) },
		configs: []proxy.Config{
			config(proxy.AnswerCNP, func(*proxy.Config) {}),
			config(proxy.AnswerCNP, func(c *proxy.Config) { c.Out, c.PerFlow, c.FromReceiver = slow, ms, true }),
			config(proxy.AnswerFastCNP, func(c *proxy.Config) { c.PerFlow, c.QPs = ms, &observingPairs }),
			config(proxy.AnswerPPFC, func(c *proxy.Config) { c.In, c.InPerSource = slower, node.Rate{PerSecond: 1} }),
			config(proxy.AnswerOther, func(c *proxy.Config) { c.Out = slow }),
			{},
		},
		on:   func(c proxy.Config) bool { return c.Enabled },
		self: []netip.Addr{proxy4, proxy6, receiver4, receiver6},
		ops:  1,
		limits: func(c proxy.Config) limits {
			if c.In != (node.Rate{}) {
				return limits{out: c.In, perSource: c.InPerSource}
			}
			return limits{out: c.Out, perFlow: c.PerFlow}
		},
	}
	c.receive = func(r role, op byte, out []byte, p *scriptRun) ([]byte, node.Decision) {
		return r.Receive(out, &p.frame, node.Event{Now: p.now})
	}
	c.check = func(_ role, cfg proxy.Config, p *scriptRun, sent []byte, d node.Decision) (bool, netip.Addr, any) {
		if d.Action != node.ActionSent && d.Action != node.ActionAccepted {
			return false, netip.Addr{}, nil
		}
		require.Equal(p.t, message.KindProxy, p.kind())
		if d.Action == node.ActionSent {
			require.Equal(p.t, d.Flow.Src, d.To)
			require.True(p.t, d.Message != message.KindCNP || d.SrcQP == 0x21)
			// a sender is told less than was said about it
			require.LessOrEqual(p.t, len(sent), len(p.frame.Outer().IP())+40)
		}
		return true, d.From, d.Flow
	}
	c.fuzz(f)
}

func FuzzReceiver(f *testing.F) {
	config := receiver.Config{Enabled: true, Self4: receiver4, Self6: receiver6, QPs: connected{}, MaxFlows: 4, Seed: 7}
	limited, fast := config, config
	limited.Out, limited.PerFlow = slow, ms
	fast.Fast, fast.PerFlow, fast.FastCNP.Long, fast.QPs = true, ms, fastcnp.LongTraceFallBack, &observingPairs
	type role = configurable[receiver.Config]
	c := &fuzzedRole[receiver.Config]{
		fresh:   func(c receiver.Config) (role, error) { return receiver.New(c) },
		configs: []receiver.Config{config, limited, fast, {}},
		on:      func(c receiver.Config) bool { return c.Enabled },
		self:    []netip.Addr{receiver4, receiver6},
		ops:     1,
		limits:  func(c receiver.Config) limits { return limits{out: c.Out, perFlow: c.PerFlow} },
	}
	c.receive = func(r role, op byte, out []byte, p *scriptRun) ([]byte, node.Decision) {
		return r.Receive(out, &p.frame, node.Event{Now: p.now})
	}
	c.check = func(_ role, cfg receiver.Config, p *scriptRun, sent []byte, d node.Decision) (bool, netip.Addr, any) {
		if d.Action != node.ActionSent {
			return false, netip.Addr{}, nil
		}
		require.Equal(p.t, message.KindData, p.kind())
		require.Equal(p.t, rocev2.CE, p.frame.Inner().ECN())
		if d.Message == message.KindFastCNP {
			return true, netip.Addr{}, d.Flow
		}
		return true, netip.Addr{}, [2]any{d.To, d.SrcQP}
	}
	c.fuzz(f)
}

func FuzzSender(f *testing.F) {
	config := sender.Config{Enabled: true, Self4: sender4, Self6: sender6, QPs: connected{},
		Accept:     acl.New(netip.PrefixFrom(switch6, 128), netip.PrefixFrom(switch4, 32)),
		MaxSources: 4, MaxQPs: 4, Seed: 7}
	limited, joined := config, config
	limited.Accepted, limited.AcceptedPerSource = slow, node.Rate{PerSecond: 1}
	joined.Window, joined.AllowTunnel, joined.ReceiversSendNone, joined.QPs = 10*ms, true, true, &observingPairs
	type role = configurable[sender.Config]
	c := &fuzzedRole[sender.Config]{
		fresh:   func(c sender.Config) (role, error) { return sender.New(c) },
		configs: []sender.Config{config, limited, joined, {}},
		on:      func(c sender.Config) bool { return c.Enabled },
		limits: func(c sender.Config) limits {
			return limits{out: c.Accepted, perSource: c.AcceptedPerSource, perFlow: c.Window}
		},
		ops: 1,
	}
	c.receive = func(r role, op byte, out []byte, p *scriptRun) ([]byte, node.Decision) {
		return r.Receive(out, &p.frame, node.Event{Now: p.now})
	}
	c.check = func(_ role, cfg sender.Config, p *scriptRun, sent []byte, d node.Decision) (bool, netip.Addr, any) {
		require.Empty(p.t, sent)
		if d.Action != node.ActionAccepted {
			require.False(p.t, d.Repeated)
			return false, netip.Addr{}, nil
		}
		require.Contains(p.t, []message.Kind{message.KindCNP, message.KindFastCNP, message.KindPPFC}, d.Message)
		if d.From == switch4 || d.From == switch6 {
			require.NotEqual(p.t, fastcnp.OriginReceiver, d.Origin == fastcnp.OriginReceiver &&
				d.Message == message.KindFastCNP)
		} else { // of a receiver, about a flow to it
			require.NotEqual(p.t, message.KindPPFC, d.Message)
			require.True(p.t, d.Flow.Dst == d.From || d.Message == message.KindCNP && d.SrcQP == 0x21, d)
			require.False(p.t, d.Message == message.KindFastCNP && cfg.ReceiversSendNone)
		}
		if d.Repeated || d.Message == message.KindPPFC {
			return true, d.From, nil
		}
		return true, d.From, d.SrcQP
	}
	c.fuzz(f)
}
