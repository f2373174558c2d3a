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

// A Decision says what was sent or, where the Action is node.Taken, what the program is to send, as the sender's
// Method is Other: then nothing was appended, of Flow the addresses are set, and the queue pair if the flow is
// RoCEv2.
type Decision struct {
	node.Decision

	// With node.Taken: the five-tuple of the flow, and the octets of a packet of it, from its outermost IP header on
	// and as many as the message had room for. They alias the frame.
	Tuple    rocev2.FiveTuple
	Invoking []byte
}

// Receive takes what the proxy sees. It learns from RoCEv2 that passes by, in either direction, but for what came
// inside another IP header, whose addresses are those of some VPN: the Action is node.Learned where that taught a
// queue pair.
//
// To a message of a congested node it appends the whole IP packet that tells the sender. Where none is due it says
// why, looked at in this order: Disabled; Fragment or Broken, of what is not a whole message; NotOurs, of those for
// others; Tunnelled; Denied; Limited (InPerSource, In); Broken, where the capture cut it; Checksum; Broken (also
// without an invoking packet that shows the flow); TupleMismatch (also of a flow that is not RoCEv2, unless the rule
// of its sender is Other); Fragment, Acknowledgement, Notification, of the invoking packet; Address; OwnAddress;
// NoMethod; UnknownQP; AmbiguousQP; Limited (PerFlow, Out).
func (p *Proxy) Receive(out []byte, f *rocev2.Frame, domain uint32, now time.Time) (sent []byte, d Decision) {
	out = p.receive(out, f, domain, &d, now)
	p.counters.Decided(&d.Decision)
	return out, d
}

func (p *Proxy) receive(out []byte, f *rocev2.Frame, domain uint32, d *Decision, now time.Time) []byte {
	if !p.intake.Message(&d.Decision, &p.datagram, f, p.cfg.Port, message.Proxy, now) {
		p.observe(f, domain, &d.Decision, now)
		return out
	}
	if d.Reason != node.Accepted {
		return out
	}
	return p.answer(out, domain, d, now)
}

// observe learns from a packet that passes by.
func (p *Proxy) observe(f *rocev2.Frame, domain uint32, d *node.Decision, now time.Time) {
	q := &p.packet
	if !p.cfg.Enabled || !p.qps.Learns() || f.Packet(q) != nil || len(q.Outer) > 0 {
		return
	}
	d.Packet = role.KindOf(q.BTH.Opcode)
	p.counters.Inc(node.Count{Action: node.Observed})
	p.qps.Learn(d, q, domain, q.Dst, now) // of the two pairs that of the flow which this packet answers
}

// answer answers a message that was admitted: p.datagram.
func (p *Proxy) answer(out []byte, domain uint32, d *Decision, now time.Time) []byte {
	var m proxymsg.Message
	if m.Decode(p.datagram.Data, p.cfg.Family) != nil {
		d.Reason = node.Broken
		return out
	}
	d.Flow = qpmap.Key{FlowKey: rocev2.FlowKey{Src: m.Src, Dst: m.Dst}, Domain: domain}
	d.Level = m.Level
	method, _ := p.cfg.Senders.Lookup(m.Src)
	isRoCEv2 := m.Protocol == 17 && m.DstPort == rocev2.Port
	if !isRoCEv2 && method != Other {
		d.Reason = node.TupleMismatch
		return out
	}
	d.Reason = p.invoked(&m, isRoCEv2)
	limited := d.Flow // what the limit goes by: of other protocols it has the ports
	switch {
	case d.Reason != node.Accepted:
	case rocev2.Answerable(m.Src) != nil:
		d.Reason = node.Address
	case p.self.Has(m.Src):
		d.Reason = node.OwnAddress
	case isRoCEv2:
		d.Flow.FlowKey = p.packet.FlowKey()
		limited = d.Flow
	default:
		limited.DestQP = uint32(m.SrcPort)<<16 | uint32(m.DstPort)
	}
	if d.Reason != node.Accepted {
		return out
	}
	src := p.source(method, &d.Flow.FlowKey)
	switch {
	case method == Other:
	case !src.IsValid():
		d.Reason = node.NoMethod
	case method == CNP:
		p.qps.FindOf(&d.Decision, &p.packet.BTH.Header, now)
	}
	hash := limited.Hash(p.memory.Seed()) ^ uint64(m.Protocol)
	if d.Reason == node.Accepted && !p.pace.Ready(hash, p.cfg.PerFlow, now) {
		d.Reason = node.Limited
	}
	if d.Reason != node.Accepted {
		return out
	}
	sent, err := p.append(out, src, method, d)
	if err != nil {
		d.Reason = node.Address // all else was looked at before
		return out
	}
	p.pace.Take(hash, now)
	if method == Other {
		d.Action, d.Kind, d.Tuple, d.Invoking = node.Taken, message.Proxy, m.FiveTuple, m.Invoking
	} else {
		d.Action, d.To = node.Sent, d.Flow.Src
	}
	return sent
}

// invoked checks the invoking packet of a message against its five-tuple, and sets p.packet from it if it is RoCEv2, of
// which nothing behind the BTH need be there.
func (p *Proxy) invoked(m *proxymsg.Message, isRoCEv2 bool) node.Reason {
	p.invoking.Decode(m.Invoking, rocev2.DecodeOptions{Link: rocev2.LinkIP, Cut: true})
	tuple, err := p.invoking.FiveTuple()
	switch {
	case errors.Is(err, rocev2.ErrFragment):
		return node.Fragment
	case err != nil:
		return node.Broken
	case tuple != m.FiveTuple:
		return node.TupleMismatch
	case !isRoCEv2:
		return node.Accepted
	}
	q := &p.packet
	if p.invoking.InnerDatagram(&q.Datagram, rocev2.Port) != nil {
		return node.Broken
	}
	q.Outer = nil // whether it came in a tunnel there does not matter here
	if _, err := q.BTH.Header.Decode(q.Data); err != nil {
		return node.Broken
	}
	return role.Unanswered(role.KindOf(q.BTH.Opcode))
}

// source returns the address that an answer comes from, the zero Addr where there is no way of sending it.
func (p *Proxy) source(method Method, flow *rocev2.FlowKey) netip.Addr {
	switch {
	case method == Nothing, method == FastCNP && flow.Src.Is4():
		return netip.Addr{}
	case method == CNP && p.cfg.FromReceiver:
		return flow.Dst
	}
	return p.self.Like(flow.Src)
}

// append appends an answer about p.packet.
func (p *Proxy) append(out []byte, src netip.Addr, method Method, d *Decision) (b []byte, err error) {
	switch method {
	case Other:
		return out, nil
	case CNP:
		d.Kind = message.CNP
		return cnp.AppendFor(out, &p.packet, src, d.SrcQP, cnp.Config{Carriage: p.cfg.Carriage})
	case FastCNP:
		cfg := fastcnp.Config{Carriage: p.cfg.Carriage, CodePoints: p.cfg.CodePoints, Long: fastcnp.FallBack}
		if b, err = fastcnp.AppendFor(out, &p.packet, src, nil, cfg); err == nil {
			d.Kind, d.Option = message.FastCNP, fastcnp.OptionOf(b[len(out):])
		}
		return b, err
	default:
		d.Kind = message.PPFC
		return ppfc.AppendFor(out, &p.packet, src, p.cfg.Pause, ppfc.Config{Carriage: p.cfg.Carriage})
	}
}
