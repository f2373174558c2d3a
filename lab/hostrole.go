package lab

import (
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/lab/sim"
	kinds "github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/pause"
	"github.com/rocecn/rocecn/node/receiver"
	"github.com/rocecn/rocecn/node/sender"
	"github.com/rocecn/rocecn/qpmap"
)

// A hostRole has a host's roles: the receiver that sends notifications and the sender that receives them.
type hostRole struct {
	of       *Host
	addr     netip.Addr
	receiver *receiver.Role
	sender   *sender.Role
	pause    *pause.Role
	learns   bool
}

// A learning has the queue pairs that a host has learned. Its own, which CNPs name, it knows from the start.
type learning struct {
	*qpmap.Map
	own pairs
}

// Sends implements [sender.QPTable].
func (l learning) Sends(qp uint32, dst netip.Addr, now time.Time) (sends, known bool) {
	return l.own.Sends(qp, dst, now)
}

// asked has pairs that others learn.
type asked struct{ node.Pairs }

func newHostRole(h *Host, flows int) *hostRole {
	n := h.net
	addr := numberedAddr(hostPrefix, h.index)
	var known node.Pairs = pairs{n}
	if n.cfg.ColdHosts {
		size := max(4096, 4*len(n.flows))
		known = learning{qpmap.New(qpmap.Config{Grow: true, MaxPairs: size, MaxOpen: size}), pairs{n}}
	}
	r := receiver.Config{
		Enabled: n.cfg.Variant.Answers() || n.cfg.Incapable > 0, Out: n.cfg.HostLimit,
		Self6: addr, QPs: asked{known}, PerFlow: n.cfg.Interval, MaxFlows: max(1024, 4*flows), Seed: n.roleSeed(),
	}
	if n.cfg.Variant == CNPPolled {
		r.PerFlow = 0 // polling is the limit
	}
	s := sender.Config{
		Enabled: n.cfg.Variant != None, Self6: addr, Accept: acl.New(switchPrefix), QPs: known,
		Window: n.cfg.Join, MaxSources: 4, MaxQPs: 4096, Seed: n.roleSeed(),
	}
	p := pause.Config{
		Enabled: n.cfg.Variant.usesPPFC(), Self6: addr, Accept: acl.New(switchPrefix), QPs: pairs{n},
		MaxPause: n.cfg.Pausing.Most, MaxTargets: 4096,
	}
	if !p.Enabled {
		p.MaxTargets = 1
	}
	return &hostRole{
		of: h, addr: addr, receiver: must(receiver.New(r)), sender: must(sender.New(s)), pause: must(pause.New(p)),
		learns: n.cfg.ColdHosts && s.Enabled,
	}
}

// learnPacket shows the host's roles a packet of data or an acknowledgement that it sends or receives, if they learn.
func (h *hostRole) learnPacket(r ref, k *packet) {
	if h.learns {
		n := h.of.net
		h.sender.Receive(nil, n.roles.decodeFrame(n.encodePacket(r, k)), n.eventNow())
	}
}

// handleMark handles a packet with CE.
func (h *Host) handleMark(f *Flow, r ref, k *packet) {
	if h.net.cfg.Variant == CNPPolled {
		f.polled, f.ce = *k, true
		return
	}
	h.askReceiver(r, k)
}

// schedulePoll starts polling a flow, at its first packet.
func (h *Host) schedulePoll(f *Flow) {
	if h.net.cfg.Variant == CNPPolled {
		f.poll.Set(&h.net.Sim, h.net.Sim.Now()+sim.From(h.net.cfg.Interval))
	}
}

// pollFlow is one poll.
func (h *Host) pollFlow(f *Flow) {
	if f.ce {
		f.ce = false
		h.askReceiver(0, &f.polled)
	}
	h.schedulePoll(f)
}

// askReceiver asks the receiver for a CNP.
func (h *Host) askReceiver(r ref, k *packet) {
	n, roles := h.net, &h.net.roles
	out, d := h.role.receiver.Receive(roles.answer[:0], roles.decodeFrame(n.encodePacket(r, k)), n.eventNow())
	to, ok := addrIndex(hostPrefix, d.To)
	if d.Action != node.ActionSent || !ok || to >= len(n.hosts) {
		n.count.Refused++
		n.countUnlearned(d.Reason)
		return
	}
	n.count.CNPs++
	h.sendLater(n.newMessage(out, h.index, to, k.flow), n.cfg.ReceiverDelay)
}

// receiveNotification reads a notification, and notifies its reaction point. flow is the flow that experienced
// congestion.
func (h *hostRole) receiveNotification(ip []byte, flow int32) {
	if h.ignoresMessage(ip) {
		return
	}
	n := h.of.net
	d := &n.roles.accepted // not a variable of its own: given to a Control, each would be allocated
	_, *d = h.sender.Receive(nil, n.roles.decodeFrame(ip), n.eventNow())
	i := int(d.SrcQP)/2 - 1
	if d.Action != node.ActionAccepted || !d.KnownQP || i < 0 || i >= len(n.flows) || n.flows[i].src != h.of {
		n.count.Refused++
		n.countUnlearned(d.Reason)
		return
	}
	if d.Repeated {
		n.count.Again++
		return
	}
	if d.Message == kinds.KindPPFC {
		h.pauseFlow(n.flows[i], ip)
		return
	}
	if i != int(flow) {
		n.count.Astray++
	}
	n.flows[i].applyNotification(d)
}

// pauseFlow applies a PPFC to a flow of the host.
func (h *hostRole) pauseFlow(f *Flow, ip []byte) {
	n := h.of.net
	if _, d := h.pause.Receive(nil, n.roles.decodeFrame(ip), n.eventNow()); d.Action != node.ActionAccepted {
		n.count.Refused++
		return
	}
	n.count.Braked++
	h.updateFlow(f)
}

// updateFlow updates the flow from the state of the pause table.
func (h *hostRole) updateFlow(f *Flow) {
	f.applyPause(h.pause.State(pause.FlowTarget(f.dst.role.addr, f.destQP()), h.of.net.Sim.Now().Clock()))
}
