package run

import (
	"net/netip"
	"slices"
	"time"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/config"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/io/fastpath"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/roles"
	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/netio"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/congested"
	"github.com/rocecn/rocecn/rocev2"
)

// A kernelSwitch is the configuration of a switch in the kernel.
type kernelSwitch struct {
	fastpath.AnswererConfig
	senders []kernelSender
}

type kernelSender struct {
	roles.KernelSender
	policy fastpath.Policy
}

// buildKernelSwitch returns the configuration of a switch with mode kernel.
func (f *file) buildKernelSwitch(r *roles.Instance) (*kernelSwitch, error) {
	c := new(kernelSwitch)
	if r.Agent.Sink != "" {
		return nil, config.Wrong("sink", "the kernel sends by its own routes: want no sink")
	}
	for i, name := range r.Agent.Sources {
		s := f.sources[name]
		q, ok := s.source.(*qdiscSource)
		if !ok {
			return nil, config.Wrong(config.Index("sources", i),
				"type %s: want qdisc, since the kernel only watches queues", s.Type)
		}
		for _, port := range q.Interfaces {
			c.Ports = append(c.Ports, fastpath.Port{Name: port, Levels: s.levelThresholds()})
		}
	}
	for i, name := range r.Agent.Observe {
		if _, ok := f.sources[name].source.(*icmpSource); !ok {
			return nil, config.Wrong(config.Index("observe", i),
				"type %s: want icmpv6, since the kernel learns only which hosts reject Fast CNPs", f.sources[name].Type)
		}
	}
	k, err := r.Config.(*roles.SwitchConfig).Kernel()
	if err != nil {
		return nil, err
	}
	c.Self, c.PerFlow, c.FastCNP.CodePoints = k.Self, k.PerFlow, k.CodePoints
	c.Remember, c.LabelKey = len(r.Agent.Observe) > 0, k.Seed
	if k.Marks {
		c.AfterProbe = fastpath.Mark
	}
	for _, s := range k.Senders {
		c.senders = append(c.senders, kernelSender{s, choosePolicy(s, k.Marks)})
	}
	return c, nil
}

// choosePolicy returns the kernel's policy for senders, by the rules of package congested.
func choosePolicy(s roles.KernelSender, marks bool) fastpath.Policy {
	switch {
	case s.Method == congested.MethodFastCNP && s.Prefix.Addr().Is4():
		return fastpath.Nothing
	case s.Method == congested.MethodFastCNP && s.Capable == congested.Capable:
		return fastpath.Notify
	case s.Method == congested.MethodFastCNP && s.Capable == congested.CapabilityUnknown && marks:
		return fastpath.NotifyAndMark
	case s.Method == congested.MethodFastCNP && s.Capable == congested.CapabilityUnknown:
		return fastpath.Notify
	case s.Method != congested.NoMethod && marks:
		return fastpath.Mark
	}
	return fastpath.Nothing
}

// findSender returns the entry with the longest prefix that contains an address.
func (c *kernelSwitch) findSender(a netip.Addr) (s kernelSender, ok bool) {
	for _, other := range c.senders {
		if other.Prefix.Contains(a) && (!ok || other.Prefix.Bits() > s.Prefix.Bits()) {
			s, ok = other, true
		}
	}
	return s, ok
}

func (c *kernelSwitch) tryOpen() error { return fastpath.TryAnswerer(c.AnswererConfig) }

func (c *kernelSwitch) open(last kernelProgram) (kernelProgram, error) {
	a, err := fastpath.OpenAnswerer(c.AnswererConfig)
	if err != nil {
		return nil, err
	}
	p := &switchProgram{Answerer: a, config: c, rejected: map[netip.Addr]fastpath.Policy{}}
	if last, ok := last.(*switchProgram); ok { // before the prefixes, or they get Fast CNPs until syncRole is called
		for host := range last.rejected {
			p.reject(host)
		}
	}
	for _, s := range c.senders {
		_, rejected := p.rejected[s.Prefix.Addr()]
		if err == nil && !(rejected && s.Prefix.IsSingleIP()) {
			err = a.SetSender(s.Prefix, s.policy)
		}
	}
	if err != nil {
		a.Close()
		return nil, err
	}
	return p, nil
}

// switchProgram is a running switch in the kernel. The role has the hosts that reject Fast CNPs; the kernel follows it.
type switchProgram struct {
	*fastpath.Answerer
	config   *kernelSwitch
	rejected map[netip.Addr]fastpath.Policy // policies of hosts that reject Fast CNPs
	frame    rocev2.Frame
}

// The kernel gets at most maxRejected hosts that reject Fast CNPs, which keeps room for the configured prefixes. A host
// may quote a Fast CNP that was sent at most quoteTime ago, as in package congested.
const (
	maxRejected = 1 << 14
	quoteTime   = 5 * time.Second
	quotedDst   = 24 // offset of the destination in an IPv6 header
)

func (p *switchProgram) watchPorts() error { return p.Watch(p.config.Ports) }

func (p *switchProgram) close() { p.Close() }

// preparePacket records the Fast CNP quoted by an ICMPv6 error for the role, if the kernel has sent it.
func (p *switchProgram) preparePacket(r node.Role, packet *netio.Packet) {
	p.frame.Decode(packet.Data, packet.Options())
	octets, ok := p.frame.ICMPv6()
	role, isSwitch := r.(*roles.Switch)
	if !ok || !isSwitch || len(octets) < wire.ICMPv6Size ||
		octets[0] != wire.ICMPv6ParameterProblem {
		return
	}
	quoted := octets[wire.ICMPv6Size:]
	if !p.HasSent(quoted, quoteTime) {
		return
	}
	p.findProbe(role, netip.AddrFrom16([16]byte(quoted[quotedDst:])), packet.Time) // this may be its rejection
	role.RecordSent(quoted, 0, packet.Time)
}

// findProbes tells the role which probes the kernel has sent.
func (p *switchProgram) findProbes(role *roles.Switch, now time.Time) {
	for host := range p.rejected {
		p.findProbe(role, host, now)
	}
}

// findProbe tells the role whether the kernel has sent a probe to a host.
func (p *switchProgram) findProbe(role *roles.Switch, host netip.Addr, now time.Time) {
	if p.rejected[host] == fastpath.Probe && p.HasProbed(host) {
		p.rejected[host] = p.config.AfterProbe
		role.RecordProbe(host, 0, now)
	}
}

// applyDecision passes a host that has rejected Fast CNPs to the kernel. Its time does not depend on the number of such
// hosts, because a host may send many errors.
func (p *switchProgram) applyDecision(_ node.Role, d *node.Decision, _ time.Time) {
	if _, ok := p.rejected[d.From]; ok || len(p.rejected) >= maxRejected {
		return
	}
	p.reject(d.From)
}

// reject ends the Fast CNPs to a host, if it gets any.
func (p *switchProgram) reject(host netip.Addr) {
	if s, ok := p.config.findSender(host); ok && s.Method == congested.MethodFastCNP {
		p.setRejected(host, p.config.AfterProbe)
	}
}

// setRejected gives the kernel the policy of a host that rejects Fast CNPs.
func (p *switchProgram) setRejected(host netip.Addr, policy fastpath.Policy) {
	_ = p.SetSender(netip.PrefixFrom(host, host.BitLen()), policy) // maxRejected keeps room in the map
	p.rejected[host] = policy
}

// syncRole passes to the kernel which hosts get no Fast CNPs, and which get a probe.
func (p *switchProgram) syncRole(r node.Role, now time.Time) {
	role, ok := r.(*roles.Switch)
	if !ok {
		return
	}
	p.findProbes(role, now)
	wanted := map[netip.Addr]fastpath.Policy{}
	for h := range role.Rejections(now) {
		s, ok := p.config.findSender(h.Host)
		if !ok || s.Method != congested.MethodFastCNP || len(wanted) == maxRejected {
			continue
		}
		policy := p.config.AfterProbe
		if !h.NextProbe.IsZero() && !h.NextProbe.After(now) {
			policy = fastpath.Probe
		}
		wanted[h.Host] = policy
	}
	for host, policy := range wanted {
		if before, ok := p.rejected[host]; !ok || before != policy {
			p.setRejected(host, policy)
		}
	}
	for host := range p.rejected {
		if _, ok := wanted[host]; ok {
			continue
		}
		delete(p.rejected, host)
		one := netip.PrefixFrom(host, host.BitLen())
		if s, ok := p.config.findSender(host); ok && s.Prefix == one {
			_ = p.SetSender(one, s.policy)
		} else {
			_ = p.RemoveSender(one)
		}
	}
}

// addKernelFlows adds the flows and senders of the kernel's Fast CNPs to those that the agent's decisions were about.
// visit calls its argument for each flow of the kernel.
func (r *roleStatus) addKernelFlows(visit func(func(*fastpath.Flow)) error) {
	flows, senders := newFlowMerger(r.Flows, maxListedFlows), newFlowMerger(r.Senders, maxSeenSenders)
	sums := map[netip.Addr]fastpath.Flow{} // of the flows of a sender
	if err := visit(func(f *fastpath.Flow) {
		flows.add(f)
		sum := *f
		sum.Dst, sum.DestQP = netip.Addr{}, 0
		if other, ok := sums[f.Src]; ok {
			if other.Last.After(sum.Last) {
				sum.Level, sum.Depth, sum.Last = other.Level, other.Depth, other.Last
			}
			sum.Sent, sum.Limited = sum.Sent+other.Sent, sum.Limited+other.Limited
		}
		sums[f.Src] = sum
	}); err != nil {
		r.FlowsError = err.Error()
	}
	for _, sum := range sums {
		senders.add(&sum)
	}
	flows.finish()
	senders.finish()
}

// A flowMerger adds flows or senders of the kernel to a list of the agent.
type flowMerger struct {
	list  *flowList
	own   map[flowName]int // positions of the agent's entries in the list
	most  int              // maximum of added flows
	added []fastpath.Flow  // the latest flows that the agent has not
}

// newFlowMerger returns a flowMerger for a list with all entries of the agent.
func newFlowMerger(l *flowList, most int) *flowMerger {
	own := make(map[flowName]int, len(l.Listed))
	for i := range l.Listed {
		own[l.Listed[i].name()] = i
	}
	return &flowMerger{list: l, own: own, most: most}
}

func (m *flowMerger) add(f *fastpath.Flow) {
	if i, ok := m.own[flowName{src: f.Src, dst: f.Dst, destQP: f.DestQP}]; ok {
		one := newKernelFlow(*f)
		m.list.Listed[i].merge(&one)
		return
	}
	m.list.Total++
	if m.added = append(m.added, *f); len(m.added) >= 4*m.most {
		m.keepLatest()
	}
}

// keepLatest drops all but the latest of the added flows.
func (m *flowMerger) keepLatest() {
	slices.SortStableFunc(m.added, func(a, b fastpath.Flow) int { return b.Last.Compare(a.Last) })
	m.added = m.added[:min(len(m.added), m.most)]
}

// finish appends the added flows to the list.
func (m *flowMerger) finish() {
	m.keepLatest()
	for _, f := range m.added {
		m.list.Listed = append(m.list.Listed, newKernelFlow(f))
	}
}

// newKernelFlow returns a flow of the kernel as /status has it.
func newKernelFlow(f fastpath.Flow) flowStatus {
	s := flowStatus{
		Src: f.Src, Dst: f.Dst, DestQP: f.DestQP, decisionCounts: decisionCounts{Sent: f.Sent, Limited: f.Limited},
		Kind: message.KindFastCNP.String(), To: f.Src, Level: &f.Level, Depth: &f.Depth, Last: f.Last,
	}
	if f.Limited > 0 {
		s.Reason = node.ReasonLimited.String()
	}
	return s
}

func (p *switchProgram) readCounts() (n kernelCounts) {
	a := p.Counters()
	n.outcomes[node.ActionSent], n.outcomes[node.ActionMarked] = a.Copied+a.NotCopied, a.MarkedOnly
	n.sent[message.KindFastCNP] = a.Copied + a.NotCopied
	for reason, refused := range map[node.Reason]uint64{
		node.ReasonBroken: a.Broken, node.ReasonAcknowledgement: a.Acknowledgement,
		node.ReasonNotification: a.Notification,
		node.ReasonNoMethod:     a.NoMethod, node.ReasonOwnAddress: a.OwnAddress, node.ReasonAddress: a.Address +
			a.Routed,
		node.ReasonNotCapable: a.NotCapable, node.ReasonLimited: a.Limited,
	} {
		n.countRejected(reason, refused)
	}
	n.toSink, n.transmitted = a.Copied+a.NotCopied, a.Sent
	n.errors = [failures]uint64{noRoute: a.NoRoute, noBuffer: a.NotCopied, otherFailure: a.Checksum + a.Failed}
	return n
}
