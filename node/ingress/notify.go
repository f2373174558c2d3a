package ingress

import (
	"time"

	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/internal/flowtable"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/internal/role"
	"github.com/rocecn/rocecn/rocev2"
)

// Receive decides about a packet. It distinguishes five cases:
//
// 1. Event.Level is above 0: the PE itself is congested, and the packet waits
// in one of its queues before it enters the WAN. Receive appends the CNP for
// the sender (FCN section 4.1). The program must call Receive again with the
// packet when it leaves the queue. If there is no CNP, the Reason is the first
// of these that applies:
//   - ReasonDisabled
//   - ReasonBroken, ReasonTrimmed, or ReasonNotOurs for other traffic
//   - ReasonTunnelled
//   - ReasonAcknowledgement
//   - ReasonNotification
//   - ReasonNotCapable: the packet is not ECN-capable
//   - the reasons for an FCN from ReasonAddress on
//
// 2. The packet is an FCN: Receive appends the CNP for the sender of the flow
// with the label in the FCN. Event.Domain has no effect; the CNP must be sent
// into the VPN Flow.Domain. If there is no CNP, the Reason is the first of
// these that applies:
//   - ReasonDisabled
//   - ReasonFragment or ReasonBroken: the message is incomplete
//   - ReasonNotOurs: the FCN is addressed to another node
//   - ReasonTunnelled
//   - ReasonDenied
//   - ReasonLimited: InPerSource or In
//   - ReasonBroken: a capture has truncated the message
//   - ReasonChecksum
//   - ReasonBroken: the message is malformed
//   - ReasonUnknownLabel
//   - ReasonAmbiguousLabel
//   - ReasonAcknowledgement: the flow has no data packets
//   - ReasonAddress
//   - ReasonOwnAddress
//   - ReasonNoMethod
//   - ReasonUnknownQP or ReasonAmbiguousQP
//   - ReasonLimited: PerFlow or Out
//
// 3. The packet is RoCEv2 in a tunnel that ends at Config.WAN, the other
// direction of the flows: it teaches queue pairs, in the domain of the tunnel.
// If it did, the Action is node.ActionLearned. If hardware decapsulates these
// packets, pass them to the Observe method of QPs.
//
// 4. Any other IP packet enters the WAN, from the VPN Event.Domain. Receive
// learns from it and appends it to out, unchanged, with the outer header of
// Config.Tunnel and the label of its flow. RoCEv2 has node.ActionForwarded, and
// a new flow gets a label. If RoCEv2 is forwarded with label 0, the Reason is
// one of these:
//   - ReasonTableFull: the table is full, or no label is free
//   - ReasonBroken: the packet cannot be decoded
//   - ReasonTrimmed
//   - ReasonTunnelled: the packet is inside another IP header, so its source
//     may be unreachable (D17)
//
// Other traffic is forwarded with label 0 and has node.NoAction. Receive
// appends none of these packets:
//   - packets to the PE itself
//   - packets that a capture has truncated; their flows get labels nevertheless
//   - packets that are too long for the tunnel or end in their IP header;
//     RoCEv2 has node.ActionRefused with ReasonBroken
//   - packets of a PE that is not Enabled; RoCEv2 has node.ActionRefused with
//     ReasonDisabled
//
// 5. With Config.LearnLabels nothing is forwarded. RoCEv2 in a tunnel that
// begins at Config.WAN teaches labels and queue pairs: if it did, the Action is
// node.ActionLearned, and the Decision has the flow, its label, and the queue
// pair if it was learned. Data that teaches nothing has node.ActionRefused,
// with ReasonUnknownLabel for label 0, which identifies no flow, or with
// ReasonTableFull.
//
// With Event.Observe Receive only learns, from RoCEv2 in tunnels.
func (pe *Role) Receive(out []byte, f *rocev2.Frame, e node.Event) (sent []byte, d node.Decision) {
	if sent = out; f == nil {
		return out, d
	}
	e.Now = pe.latest.Or(e.Now)
	switch {
	case e.Observe:
		if role.Teaches(f, &pe.datagram) {
			pe.learnPacket(f, &e, &d)
		}
	case e.Level > 0:
		sent, d.Reason = pe.notifyOfOwn(out, f, &e, &d)
	default:
		sent = pe.receiveFrame(out, f, &e, &d)
	}
	pe.counters.Settle(&d)
	return sent, d
}

func (pe *Role) receiveFrame(out []byte, f *rocev2.Frame, e *node.Event, d *node.Decision) (sent []byte) {
	kind, reason := role.Decode(&pe.packet, f)
	// A packet that could be decoded is RoCEv2, and so no FCN.
	if reason != node.NoReason && pe.intake.Message(d, &pe.datagram, f, pe.cfg.Port, message.KindFCN, e.Now) {
		if sent = out; d.Reason == node.NoReason {
			sent, d.Reason = pe.answerFCN(out, d, e.Now)
		}
		return sent
	}
	pe.learnPacket(f, e, d)
	if d.Action != node.NoAction || pe.cfg.LearnLabels || pe.cfg.IgnoreTunnels && isTunnelled(f) {
		return out
	}
	if f.Tunnelled() { // learnPacket may have decoded the packet inside
		kind, reason = role.Decode(&pe.packet, f)
	}
	*d = node.Decision{Packet: kind}
	sent, d.Reason = pe.forwardPacket(out, f, e, d, reason)
	return sent
}

// learnPacket learns from a packet in a tunnel, of either direction.
func (pe *Role) learnPacket(f *rocev2.Frame, e *node.Event, d *node.Decision) {
	if pe.fromTunnel(f, e.Domain, d, e.Now); pe.cfg.LearnLabels && d.Action == node.NoAction {
		*d = node.Decision{}
		pe.learnFromTunnel(f, e.Domain, d, e.Now)
	}
}

// isTunnelled reports whether a frame holds a packet in a tunnel, and is no mirrored copy of one.
func isTunnelled(f *rocev2.Frame) bool {
	_, err := f.FiveTuple()
	return err == nil && f.Tunnelled() && !f.Inner().Mirrored()
}

// answerFCN answers an FCN that was admitted, pe.datagram, or returns why not.
func (pe *Role) answerFCN(out []byte, d *node.Decision, now time.Time) ([]byte, node.Reason) {
	var m fcn.Message
	if m.Decode(pe.datagram.Data) != nil {
		return out, node.ReasonBroken
	}
	pe.expireFlows(now)
	if pe.cfg.LearnLabels {
		l := pe.lookUpLearned(d, m.FlowLabel)
		if l == nil {
			return out, d.Reason
		}
		d.Level = m.Level
		return pe.appendCNP(out, d, &l.flow, l.pKey, now)
	}
	i := pe.lookUpLabel(m.FlowLabel)
	if i == 0 {
		return out, node.ReasonUnknownLabel
	}
	e := pe.table.Value(i)
	if !e.data {
		return out, node.ReasonAcknowledgement
	}
	k := pe.table.Key(i)
	d.Flow, d.Label, d.Level = role.FlowOf(k), e.label, m.Level
	return pe.appendCNP(out, d, k, e.pKey, now)
}

// lookUpLabel returns the slot of the flow that has a label, 0 if none has.
func (pe *Role) lookUpLabel(label uint32) uint32 {
	slot := pe.labels.slotOf(label)
	i := uint32(slot)
	if label == 0 || int64(i) != slot || !pe.table.Holds(i) || pe.table.Value(i).label != label {
		return 0
	}
	return i
}

// fromTunnel learns from a packet in a tunnel that ends here.
func (pe *Role) fromTunnel(f *rocev2.Frame, domain uint32, d *node.Decision, now time.Time) {
	p := &pe.packet
	if !pe.cfg.Enabled || !pe.qps.Learns() || !f.Tunnelled() || f.Inner().Mirrored() || f.Outer().Dst() != pe.cfg.WAN ||
		f.Inner().Packet(p) != nil {
		return
	}
	d.Packet = role.KindOf(p.BTH.Opcode)
	pe.qps.Learn(d, p, domain, p.Dst, now) // of the two pairs that of the flow which this packet answers
}

// notifyOfOwn appends the CNP for the sender of a packet that congests the PE itself.
func (pe *Role) notifyOfOwn(
	out []byte, f *rocev2.Frame, e *node.Event, d *node.Decision,
) (sent []byte, reason node.Reason) {
	p := &pe.packet
	d.Packet, reason = role.Decode(p, f)
	switch {
	case !pe.cfg.Enabled:
		return out, node.ReasonDisabled
	case reason != node.NoReason:
		return out, reason
	case len(p.Outer) > 0:
		return out, node.ReasonTunnelled
	case role.Unanswered(d.Packet) != node.NoReason:
		return out, role.Unanswered(d.Packet)
	case p.ECN() == rocev2.NotECT:
		return out, node.ReasonNotCapable
	}
	pe.expireFlows(e.Now)
	d.Flow.FlowKey, d.Flow.Domain = role.PacketKey(p), e.Domain
	k := role.TableKey(&d.Flow)
	if e, _ := pe.table.Find(&k, k.Hash(pe.table.Seed)); e != nil {
		d.Label = e.label
	}
	return pe.appendCNP(out, d, &k, p.BTH.PKey, e.Now)
}

// appendCNP appends the CNP for the sender of d.Flow, or returns the reason for which there is none. The key of the
// flow in a table is flow, and its packets have this P_Key.
func (pe *Role) appendCNP(
	out []byte, d *node.Decision, flow *flowtable.Key, pKey uint16, now time.Time,
) ([]byte, node.Reason) {
	sender := d.Flow.Src
	src := pe.self.Like(sender)
	switch {
	case rocev2.CheckAnswerable(sender) != nil:
		return out, node.ReasonAddress
	case pe.self.Has(sender), sender == pe.cfg.WAN:
		return out, node.ReasonOwnAddress
	case !src.IsValid():
		return out, node.ReasonNoMethod
	}
	if pe.qps.FindAmid(d, now); d.Reason != node.NoReason {
		return out, d.Reason
	}
	hash := flow.Hash(pe.memory.Seed())
	if !pe.pace.Ready(hash, role.SourceOf(&d.Flow), pe.cfg.PerFlow, now) {
		return out, node.ReasonLimited
	}
	c := cnp.New(d.SrcQP, pKey)
	sent, err := c.AppendPacket(out, src, sender, cnp.Config{Carriage: pe.cfg.Carriage})
	if err != nil {
		return out, node.ReasonUnknownQP // over 24 bits: everything else was checked before
	}
	pe.pace.Charge(hash, role.SourceOf(&d.Flow), now)
	d.Action, d.Message, d.To = node.ActionSent, message.KindCNP, sender
	return sent, node.NoReason
}
