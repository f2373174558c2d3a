package lab

import (
	"time"

	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/lab/sim"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/ingress"
	"github.com/rocecn/rocecn/qpmap"
)

// labelled is the label that an ingress PE gave a flow, as stored in its hardware.
type labelled struct {
	pe    int32
	label uint32
	at    sim.Time // when the PE was asked last
	any   bool
}

func newPE(s *switchRole, pairs *qpmap.Map) (*ingress.Role, error) {
	n := s.of.net
	cfg := ingress.Config{
		Enabled: true, WAN: s.addr, Self6: s.addr, Accept: acl.New(switchPrefix), QPs: pairs,
		MaxFlows: n.cfg.Labels, Idle: n.cfg.Idle, Seed: n.roleSeed(),
	}
	if cfg.MaxFlows == 0 {
		cfg.MaxFlows = max(1024, len(n.flows))
	}
	return ingress.New(cfg)
}

// flowLabel returns the flow label of a packet in the WAN. For data it is from the ingress PE, if that receives
// FCNs. The simulation asks the PE for the first packet of a flow, and again before the flow counts as silent;
// for each packet if the PE learns from them. All other packets have a label computed from addresses and ports
// (RFC 6438).
func (s *Switch) flowLabel(k *packet) uint32 {
	n := s.net
	if k.kind != data || s.role.pe == nil {
		return max(k.hash&fcn.MaxFlowLabel, 1)
	}
	l, now := &n.flows[k.flow].label, n.Sim.Now()
	idle := n.cfg.Idle
	if idle == 0 {
		idle = time.Minute
	}
	if again := sim.From(idle / 4); n.cfg.Cold || !l.any || int(l.pe) != s.index || l.label == 0 || now-l.at >= again {
		_, d := s.role.pe.Receive(nil, n.roles.decodeFrame(n.encodePacket(0, k)), node.Event{Now: now.Clock()})
		*l = labelled{int32(s.index), d.Label, now, true}
	}
	if l.label == 0 {
		n.count.Unlabeled++
	}
	return l.label
}

// handleFCN handles an FCN to the PE.
func (s *switchRole) handleFCN(k *packet) {
	n, roles := s.of.net, &s.of.net.roles
	out, d := s.pe.Receive(roles.answer[:0], roles.decodeFrame(n.pool.octets(k)), n.eventNow())
	s.sendCNP(out, &d, k.flow, n.cfg.EdgeDelay)
}

// notifySender handles a packet that meets congestion at the ingress PE itself.
func (s *switchRole) notifySender(r ref, k *packet) {
	n, roles := s.of.net, &s.of.net.roles
	e := n.eventNow()
	e.Level = 1
	out, d := s.pe.Receive(roles.answer[:0], roles.decodeFrame(n.encodePacket(r, k)), e)
	s.sendCNP(out, &d, k.flow, n.cfg.EdgeDelay)
}
