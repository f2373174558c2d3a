package run

import (
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/config"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/fastpath"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/roles"
	"github.com/rocecn/rocecn/netio"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/rocev2"
)

// A kernelTranslator is the configuration of a sender for hosts that only understand CNPs. The kernel translates
// their Fast CNPs on arrival.
type kernelTranslator struct {
	fastpath.TranslatorConfig
	accept []netip.Prefix
}

// buildKernelTranslator returns the configuration of a sender with mode kernel.
func (f *file) buildKernelTranslator(r *roles.Instance, ports []kernelPort) (*kernelTranslator, error) {
	c := new(kernelTranslator)
	for _, p := range ports {
		c.Interfaces = append(c.Interfaces, p.name)
	}
	if len(c.Interfaces) == 0 {
		return nil, config.Wrong("sources",
			"none of type packet: want one where Fast CNPs arrive, for the kernel to translate")
	}
	own := len(f.agentSources(&roles.Agent{Mode: "kernel", Sources: r.Agent.Sources})) > 0
	switch {
	case own && r.Agent.Sink == "":
		return nil, config.Wrong("sink",
			"missing: want the sink for CNPs that the agent builds for flows unknown to the kernel")
	case !own && r.Agent.Sink != "":
		return nil, config.Wrong("sink", "the kernel passes CNPs on by itself: want no sink")
	}
	k, err := r.Config.(*roles.SenderConfig).Kernel()
	if err != nil {
		return nil, err
	}
	c.Host, c.Receivers, c.Window, c.CodePoints, c.accept = k.Host, k.Receivers, k.Window, k.CodePoints, k.Accept
	c.Drop = !own // otherwise Linux would reject them
	return c, nil
}

func (c *kernelTranslator) tryOpen() error { return fastpath.TryTranslator(c.TranslatorConfig) }

func (c *kernelTranslator) open(kernelProgram) (kernelProgram, error) {
	t, err := fastpath.OpenTranslator(c.TranslatorConfig)
	if err != nil {
		return nil, err
	}
	for _, prefix := range c.accept {
		if err := t.Accept(prefix); err != nil {
			t.Close()
			return nil, err
		}
	}
	return &translatorProgram{Translator: t, config: c, known: map[rocev2.FlowKey]uint32{}}, nil
}

// translatorProgram is a running translator in the kernel.
type translatorProgram struct {
	*fastpath.Translator
	config   *kernelTranslator
	known    map[rocev2.FlowKey]uint32 // queue pairs that the kernel has
	syncedAt time.Time
}

func (p *translatorProgram) watchPorts() error { return p.Watch(p.config.Interfaces) }

func (p *translatorProgram) close() { p.Close() }

func (p *translatorProgram) preparePacket(node.Role, *netio.Packet) {}

// applyDecision makes the next syncRole pass a learned pair to the kernel.
func (p *translatorProgram) applyDecision(_ node.Role, d *node.Decision, _ time.Time) {
	if d.KnownQP {
		p.syncedAt = time.Time{}
	}
}

// syncRole passes changed pairs of the role to the kernel at least every second, and removes pairs that the role
// has dropped.
func (p *translatorProgram) syncRole(r node.Role, now time.Time) {
	if now.Sub(p.syncedAt) < time.Second {
		return
	}
	p.syncedAt = now
	own := map[rocev2.FlowKey]uint32{}
	for k, qp := range r.(*roles.Sender).OwnPairs() {
		if k.Src == p.config.Host {
			own[k] = qp
		}
	}
	pair := func(k rocev2.FlowKey) fastpath.Pair {
		return fastpath.Pair{Host: k.Src, Receiver: k.Dst, ReceiverQP: k.DestQP}
	}
	for k := range p.known {
		if _, ok := own[k]; !ok {
			_ = p.Forget(pair(k))
			delete(p.known, k)
		}
	}
	for k, qp := range own {
		if was, ok := p.known[k]; ok && was == qp {
			continue
		}
		if p.Learn(pair(k), qp) == nil {
			p.known[k] = qp
		}
	}
}

func (p *translatorProgram) readCounts() (n kernelCounts) {
	t := p.Counters()
	n.outcomes[node.ActionAccepted] = t.Translated + t.Again
	n.toSink, n.transmitted = t.Translated, t.Translated
	n.countRejected(node.ReasonDenied, t.Denied)
	n.countRejected(node.ReasonICRC, t.ICRC)
	n.countRejected(node.ReasonAddress, t.Address)
	if p.config.Drop {
		n.countRejected(node.ReasonUnknownQP, t.UnknownQP)
		n.countRejected(node.ReasonBroken, t.Passed)
	} else {
		n.outcomes[node.ActionForwarded] = t.UnknownQP + t.Passed // the agent decides about them
	}
	return n
}
