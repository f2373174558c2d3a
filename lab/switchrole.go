package lab

import (
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/lab/sim"
	kinds "github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/congested"
	"github.com/rocecn/rocecn/node/ingress"
	"github.com/rocecn/rocecn/node/level"
	"github.com/rocecn/rocecn/node/pause"
	"github.com/rocecn/rocecn/node/proxy"
	"github.com/rocecn/rocecn/node/reaction"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// A switchRole has a switch's roles: the congested node, the proxy of its
// hosts, the ingress PE.
type switchRole struct {
	of       *Switch
	addr     netip.Addr
	agent    *congested.Role // of packets that experience congestion by RED
	pauser   *congested.Role // of packets at a port with a level above 0; nil without PPFC
	levels   level.Thresholds
	proxy    *proxy.Role
	pe       *ingress.Role
	learns   bool        // whether it learns from passing packets
	pause    *pause.Role // of a PE that stops flows itself; nil for others
	valves   []*valve    // by flow
	draining int         // number of valves that drain
	ready    sim.ID
}

func newSwitchRole(s *Switch) *switchRole {
	n := s.net
	role := &switchRole{of: s, addr: numberedAddr(switchPrefix, s.index)}
	role.ready = n.Sim.Add(role)
	method, capable := congested.MethodMark, congested.CapabilityUnknown
	switch n.cfg.Variant {
	case FastCNP, Oracle, HPCCFastCNP, HPCCFastCNPOwn, HPCCBoth:
		method, capable = congested.MethodFastCNP, congested.Capable
	case FastCNPMarks:
		method = congested.MethodFastCNP
	case Proxy:
		method = congested.MethodProxy
	case FCN:
		if s.kind == core {
			method = congested.MethodFCN
		}
	}
	cfg := congested.Config{
		Enabled:  n.cfg.Variant.Decides(),
		Self6:    role.addr,
		Methods:  acl.NewMap(acl.Entry[congested.Method]{Prefix: hostPrefix, Value: method}),
		Capable:  n.capabilities(capable),
		Proxies:  leaves{n},
		PEs:      acl.New(switchPrefix),
		Out:      n.cfg.SwitchLimit,
		MaxFlows: max(4096, 4*len(n.flows)), MaxSent: 4, MaxRejected: 4, MaxPaused: 4,
		// In this WAN routers can reach the hosts.
		FastCNP: fastcnp.Config{InnerSource: true}, PPFC: ppfc.Config{InnerSource: true},
		Pause: n.cfg.Pausing.For, Seed: n.roleSeed(),
	}
	if n.cfg.Variant.recordsOwn() {
		n.roles.own.SetQueueDepth(0) // until a packet meets congestion: a record needs a field
		cfg.Own = &n.roles.own
	}
	if n.cfg.Rejects {
		cfg.MaxSent, cfg.MaxRejected = 4096, max(4, min(n.cfg.Incapable, len(n.hosts)))
	}
	for i := range cfg.PerFlow {
		cfg.PerFlow[i] = n.cfg.Interval
	}
	role.agent = must(congested.New(cfg))
	if n.cfg.Variant.usesPPFC() {
		cfg.Enabled, cfg.Own = true, nil
		cfg.Methods = acl.NewMap(acl.Entry[congested.Method]{Prefix: hostPrefix, Value: congested.MethodPPFC})
		cfg.PauseIngress = n.cfg.Pausing.Ingress && s.kind == core
		cfg.PauseFrom, cfg.MaxPaused = n.cfg.Pausing.From, max(4096, 4*len(n.flows))
		for i := range cfg.PerFlow {
			cfg.PerFlow[i] = n.cfg.Pausing.Interval
		}
		role.pauser = must(congested.New(cfg))
		role.levels = level.Thresholds{Up: n.cfg.Pausing.Up, Down: n.cfg.Pausing.Down}
	}
	pairs := n.roles.learned
	if n.cfg.Cold {
		pairs = qpmap.New(qpmap.Config{
			Grow: true, Idle: n.cfg.Forget, MaxPairs: max(1<<16, 4*len(n.flows)), MaxOpen: max(4096, 4*len(n.flows)),
		})
	}
	role.proxy = must(proxy.New(proxy.Config{
		Enabled: n.cfg.Variant == Proxy, Self6: role.addr, Accept: acl.New(switchPrefix),
		Senders: acl.NewMap(acl.Entry[proxy.Answer]{Prefix: hostPrefix, Value: proxy.AnswerCNP}),
		QPs:     pairs, Seed: n.roleSeed(),
	}))
	if s.kind == edge && n.cfg.Variant == FCN {
		role.pe = must(newPE(role, pairs))
	}
	if s.kind == edge && n.cfg.Variant.usesPPFC() && n.cfg.Pausing.Ingress {
		role.pause = must(pause.New(pause.Config{
			Enabled: true, Self6: role.addr, Accept: acl.New(switchPrefix), MaxPause: n.cfg.Pausing.Most,
			MaxTargets: max(4096, 4*len(n.flows)), Seed: n.roleSeed(),
		}))
	}
	role.learns = n.cfg.Cold && (role.pe != nil || n.cfg.Variant == Proxy && s.hasHost())
	return role
}

// must is for configurations that the laboratory makes itself and so are valid.
func must[T any](v T, err error) T {
	if err != nil {
		panic("lab: " + err.Error())
	}
	return v
}

// leaves has the proxy of each sender: that of its first switch.
type leaves struct{ net *Network }

// Lookup implements [congested.Proxies].
func (l leaves) Lookup(sender netip.Addr) (proxy netip.Addr, ok bool) {
	i, ok := addrIndex(hostPrefix, sender)
	if !ok || i >= len(l.net.hosts) {
		return netip.Addr{}, false
	}
	s, ok := l.net.hosts[i].port.peer.owner.(*Switch)
	if !ok {
		return netip.Addr{}, false
	}
	return numberedAddr(switchPrefix, s.proxySwitch().index), true
}

// hasHost reports whether the switch has a link to a host.
func (s *Switch) hasHost() bool {
	for _, p := range s.ports {
		if _, ok := p.peer.owner.(*Host); ok {
			return true
		}
	}
	return false
}

// observePacket shows a packet from another node to the switch's proxy and, if the packet's tunnel ends here, to its
// ingress PE: both learn from it. flowLabel passes packets that enter the WAN to the PE.
func (s *Switch) observePacket(r ref, k *packet) {
	n := s.net
	if k.text != 0 || s.role.pe != nil && int(k.egress) != s.index {
		return
	}
	frame, now := n.roles.decodeFrame(n.encodeWire(r, k)), n.Sim.Now().Clock()
	if s.role.pe != nil {
		s.role.pe.Receive(nil, frame, node.Event{Now: now})
	} else {
		s.proxySwitch().role.proxy.Receive(nil, frame, node.Event{Now: now})
	}
}

// handleMessage handles a message to the switch itself, as a proxy or an ingress PE.
func (s *Switch) handleMessage(r ref, k *packet) {
	n := s.net
	defer n.pool.release(r)
	switch {
	case s.handleRejection(k):
		return
	case s.role.pause != nil:
		s.role.handlePPFC(k)
		return
	case n.cfg.Variant == FCN:
		s.role.handleFCN(k)
		return
	}
	roles := &n.roles
	out, d := s.role.proxy.Receive(roles.answer[:0], roles.decodeFrame(n.pool.octets(k)), n.eventNow())
	s.role.sendCNP(out, &d, k.flow, n.cfg.ProxyDelay)
}

// sendCNP sends the CNP that a proxy or an ingress PE has made from a message.
func (s *switchRole) sendCNP(cnp []byte, d *node.Decision, flow int32, wait sim.Time) {
	n := s.of.net
	to, ok := addrIndex(hostPrefix, d.Flow.Src)
	if d.Action != node.ActionSent || !ok || to >= len(n.hosts) {
		n.count.Refused++
		n.countUnlearned(d.Reason)
		return
	}
	n.count.CNPs++
	s.sendLater(n.newMessage(cnp, n.placeIndex(s.of), to, flow), wait)
}

// countUnlearned counts a rejection for want of a queue pair.
func (n *Network) countUnlearned(reason node.Reason) {
	if reason == node.ReasonUnknownQP || reason == node.ReasonAmbiguousQP {
		n.count.Unlearned++
	}
}

// learnPair adds the queue pairs of a flow to those of proxies and PEs, as if they
// had learned them.
func (n *Network) learnPair(f *Flow) {
	if n.roles.learned != nil {
		key := qpmap.Key{FlowKey: rocev2.FlowKey{Src: f.src.role.addr, Dst: f.dst.role.addr, DestQP: f.destQP()}}
		_ = n.roles.learned.Add(key, qpmap.Pair{SrcQP: f.sourceQP()}) // a full table does not learn
	}
}

// notifyCongested handles a packet that meets congestion at a port.
func (s *Switch) notifyCongested(out *Port, r ref, k *packet) {
	n, now := s.net, s.net.Sim.Now()
	n.count.Congested++
	out.met++
	n.recordOnset(k)
	if s.role.pe != nil && k.egress >= 0 && int(k.ingress) == s.index {
		s.role.notifySender(r, k)
		return
	}
	if n.cfg.Variant.recordsOwn() {
		n.roles.own = n.newRecord(&reaction.Hop{QLen: uint64(out.dataQueue().octets),
			TS: time.Duration(now / sim.Nanosecond)},
			out.number)
	}
	s.askRole(s.role.agent, out, r, k)
}

// recordOnset notes when congestion began: for all, and for the flow of a packet.
func (n *Network) recordOnset(k *packet) {
	now, f := n.Sim.Now(), n.flows[k.flow]
	n.count.Onset, f.met = min(n.count.Onset, now), min(f.met, now)
}

// askPauser handles a packet at a port with a level above 0.
func (s *Switch) askPauser(out *Port, r ref, k *packet) {
	n := s.net
	n.recordOnset(k)
	s.askRole(s.role.pauser, out, r, k)
}

// askRole asks a congested node about a packet, and carries out its decision.
func (s *Switch) askRole(agent *congested.Role, out *Port, r ref, k *packet) {
	n, roles := s.net, &s.net.roles
	e := node.Event{Level: out.level, Port: uint16(out.index), Now: n.Sim.Now().Clock()}
	notice, d := agent.Receive(roles.answer[:0], roles.decodeFrame(n.encodeWire(r, k)), e)
	if d.MarkECN {
		n.count.Marked++
		k.ce = true
	}
	if d.Reason != node.NoReason {
		n.count.Refused++
		return
	}
	to := n.flows[k.flow].src.index
	switch d.Message {
	case kinds.KindFastCNP:
		n.count.FastCNPs++
	case kinds.KindPPFC:
		n.count.PPFCs++
		to = n.notifiedNode(d.To)
	case kinds.KindProxy, kinds.KindFCN: // to a switch
		if d.Message == kinds.KindProxy {
			n.count.Proxied++
		} else {
			n.count.FCNs++
		}
		i, _ := addrIndex(switchPrefix, d.To)
		to = ^i
	default:
		return
	}
	if n.cfg.Variant == Oracle {
		n.hosts[to].role.receiveNotification(notice, k.flow)
		return
	}
	s.role.sendLater(n.newMessage(notice, n.placeIndex(s), to, k.flow), n.cfg.SwitchDelay)
}

// updateLevel updates the congestion level from the depth of a port's data queue.
// When the level has fallen to 0, it resumes the flows that the port has
// stopped or held.
func (s *Switch) updateLevel(p *Port, octets int64) {
	was := p.level
	if p.level = s.role.levels.Level(uint64(octets), was); p.level > 0 || was == 0 {
		return
	}
	n, now := s.net, s.net.Sim.Now().Clock()
	s.role.pauser.Receive(nil, nil, node.Event{Port: uint16(p.index), Now: now})
	for {
		notice, d := s.role.pauser.Due(n.roles.answer[:0], now)
		if d.Action != node.ActionSent {
			return
		}
		n.count.Released++
		s.role.sendLater(n.newMessage(notice, n.placeIndex(s), n.notifiedNode(d.To), 0), n.cfg.SwitchDelay)
	}
}

// notifiedNode returns the destination of a PPFC: the index of a host, or ^ of that of a PE.
func (n *Network) notifiedNode(to netip.Addr) int {
	if i, ok := addrIndex(switchPrefix, to); ok {
		return ^i
	}
	i, _ := addrIndex(hostPrefix, to)
	return i
}

// sendLater delays a notification at the switch until it is built.
func (s *switchRole) sendLater(r ref, wait sim.Time) {
	n := s.of.net
	n.roles.making++
	n.Sim.Schedule(n.Sim.Now()+wait, sim.Timer, s.ready, uint32(r))
}

// Handle runs an event: a notification is ready.
func (s *switchRole) Handle(arg uint32) {
	n, r := s.of.net, ref(arg)
	n.roles.making--
	k := n.pool.packetAt(r)
	if int(k.to) == ^s.of.index { // the congested node is the proxy or the PE itself
		s.of.handleMessage(r, k)
		return
	}
	s.of.forwardPacket(nil, r, k)
}
