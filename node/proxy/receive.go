package proxy

import (
	"errors"
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/internal/role"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// Receive decides about a packet. RoCEv2 in either direction teaches queue
// pairs; the Action is node.ActionLearned if it did. Packets inside another IP
// header teach nothing, because their addresses may be those of a VPN. With
// Event.Observe Receive only learns.
//
// For a message of a congested node, Receive appends to out the notification
// for the sender, a complete IP packet. If the sender has AnswerOther, it
// appends nothing and the Action is node.ActionAccepted: the program must
// notify the sender, see [Role.Message]. Flow then has the addresses, and the
// queue pair if the flow is RoCEv2.
//
// If Receive does neither, the Reason is the first of these that applies:
//   - ReasonDisabled
//   - ReasonFragment or ReasonBroken: the message is incomplete
//   - ReasonNotOurs: the message is addressed to another node
//   - ReasonTunnelled
//   - ReasonDenied
//   - ReasonLimited: InPerSource or In
//   - ReasonBroken: a capture has truncated the message
//   - ReasonChecksum
//   - ReasonBroken: the message is malformed, or the invoking packet does not
//     identify the flow
//   - ReasonTupleMismatch: also for a flow that is not RoCEv2, unless its
//     sender has AnswerOther
//   - ReasonFragment, ReasonAcknowledgement or ReasonNotification: the invoking
//     packet is one
//   - ReasonAddress
//   - ReasonOwnAddress
//   - ReasonNoMethod
//   - ReasonUnknownQP or ReasonAmbiguousQP; ReasonPSNMismatch if a queue pair
//     of the flow is known, but the PSN of the invoking packet is not of its
//     connection, as after a new connection, or long after the packet was sent
//   - ReasonLimited: PerFlow or Out
func (p *Role) Receive(out []byte, f *rocev2.Frame, e node.Event) (sent []byte, d node.Decision) {
	if sent = out; f == nil {
		return out, d
	}
	e.Now = p.latest.Or(e.Now)
	switch {
	case e.Observe:
		if role.Teaches(f, &p.datagram) {
			p.observePacket(f, e.Domain, &d, e.Now)
		}
	case !p.intake.Message(&d, &p.datagram, f, p.cfg.Port, message.KindProxy, e.Now):
		p.observePacket(f, e.Domain, &d, e.Now)
	case d.Reason == node.NoReason:
		sent, d.Reason = p.appendAnswer(out, &e, &d)
	}
	p.counters.Settle(&d)
	return sent, d
}

// Due does nothing: a proxy sends nothing unless it receives a frame.
func (p *Role) Due(out []byte, _ time.Time) (sent []byte, d node.Decision) { return out, d }

// Message returns the message of the last Decision, if its Action is
// node.ActionAccepted: the five-tuple of the flow, and the invoking packet from
// its outermost IP header on, as far as the message contains it. It aliases the
// frame and is valid until the next Receive.
func (p *Role) Message() *proxymsg.Message { return &p.message }

// observePacket learns from a packet that is no message.
func (p *Role) observePacket(f *rocev2.Frame, domain uint32, d *node.Decision, now time.Time) {
	q := &p.packet
	if !p.cfg.Enabled || !p.qps.Learns() || f.Outer().Packet(q) != nil || len(q.Outer) > 0 {
		return
	}
	d.Packet = role.KindOf(q.BTH.Opcode)
	p.counters.Inc(node.Count{Effect: node.EffectObserved})
	p.qps.Learn(d, q, domain, q.Dst, now) // of the two pairs that of the flow which this packet answers
}

// appendAnswer answers a message that was admitted, p.datagram, or returns why not.
func (p *Role) appendAnswer(out []byte, e *node.Event, d *node.Decision) ([]byte, node.Reason) {
	m := &p.message
	if m.Decode(p.datagram.Data, p.cfg.Family) != nil {
		return out, node.ReasonBroken
	}
	d.Flow = qpmap.Key{FlowKey: rocev2.FlowKey{Src: m.Src, Dst: m.Dst}, Domain: e.Domain}
	d.Level = m.Level
	answer, _ := p.cfg.Senders.Lookup(m.Src)
	isRoCEv2 := m.Protocol == 17 && m.DstPort == rocev2.Port
	if !isRoCEv2 && answer != AnswerOther {
		return out, node.ReasonTupleMismatch
	}
	if reason := p.decodeInvoking(m, isRoCEv2); reason != node.NoReason {
		return out, reason
	}
	limited := d.Flow // the key of the limit: for other protocols it has the ports as queue pair
	switch {
	case rocev2.CheckAnswerable(m.Src) != nil:
		return out, node.ReasonAddress
	case p.self.Has(m.Src):
		return out, node.ReasonOwnAddress
	case isRoCEv2:
		d.Flow.FlowKey = role.PacketKey(&p.packet)
		limited = d.Flow
	default:
		limited.DestQP = uint32(m.SrcPort)<<16 | uint32(m.DstPort)
	}
	src := p.sourceFor(answer, &d.Flow.FlowKey)
	if answer != AnswerOther && !src.IsValid() {
		return out, node.ReasonNoMethod
	}
	if answer == AnswerCNP {
		if p.qps.FindOf(d, &p.packet.BTH.Header, e.Now); d.Reason != node.NoReason {
			return out, d.Reason
		}
	}
	hash := role.Hash(&limited, p.memory.Seed()) ^ uint64(m.Protocol)
	if !p.pace.Ready(hash, role.SourceOf(&d.Flow), p.cfg.PerFlow, e.Now) {
		return out, node.ReasonLimited
	}
	sent, err := p.appendMessage(out, src, answer, d)
	if err != nil {
		return out, node.ReasonAddress // everything else was checked before
	}
	p.pace.Charge(hash, role.SourceOf(&d.Flow), e.Now)
	if answer == AnswerOther {
		d.Action, d.Message, d.Request = node.ActionAccepted, message.KindProxy, node.RequestNotify
	} else {
		d.Action, d.To = node.ActionSent, d.Flow.Src
	}
	return sent, node.NoReason
}

// decodeInvoking checks the invoking packet of a message against the five-tuple. If it is RoCEv2, it sets p.packet
// up to the BTH; the rest may be missing.
func (p *Role) decodeInvoking(m *proxymsg.Message, isRoCEv2 bool) node.Reason {
	p.invoking.Decode(m.Invoking, rocev2.DecodeOptions{Link: rocev2.LinkIP, AllowTruncated: true})
	tuple, err := p.invoking.FiveTuple()
	switch {
	case errors.Is(err, rocev2.ErrFragment):
		return node.ReasonFragment
	case err != nil:
		return node.ReasonBroken
	case tuple != m.FiveTuple:
		return node.ReasonTupleMismatch
	case !isRoCEv2:
		return node.NoReason
	}
	q := &p.packet
	if p.invoking.Inner().Datagram(&q.Datagram, rocev2.Port) != nil {
		return node.ReasonBroken
	}
	q.Outer = nil // a tunnel at the congested node does not matter here
	if _, err := q.BTH.Header.Decode(q.Data); err != nil {
		return node.ReasonBroken
	}
	return role.Unanswered(role.KindOf(q.BTH.Opcode))
}

// sourceFor returns the source address of an answer, the zero Addr if it cannot be sent.
func (p *Role) sourceFor(answer Answer, flow *rocev2.FlowKey) netip.Addr {
	switch {
	case answer == NoAnswer, answer == AnswerFastCNP && flow.Src.Is4():
		return netip.Addr{}
	case answer == AnswerCNP && p.cfg.FromReceiver:
		return flow.Dst
	}
	return p.self.Like(flow.Src)
}

// appendMessage appends an answer about p.packet.
func (p *Role) appendMessage(out []byte, src netip.Addr, by Answer, d *node.Decision) (b []byte, err error) {
	switch by {
	case AnswerOther:
		return out, nil
	case AnswerCNP:
		d.Message = message.KindCNP
		return cnp.AppendFor(out, &p.packet, src, d.SrcQP, cnp.Config{Carriage: p.cfg.Carriage})
	case AnswerFastCNP:
		cfg := p.cfg.fastCNP()
		b, sent, err := fastcnp.AppendFor(out, &p.packet, src, nil, cfg)
		if err == nil {
			d.Message, d.Option = message.KindFastCNP, sent.Option
		}
		return b, err
	default:
		d.Message = message.KindPPFC
		return ppfc.AppendFor(out, &p.packet, src, p.cfg.Pause, ppfc.Config{Carriage: p.cfg.Carriage})
	}
}
