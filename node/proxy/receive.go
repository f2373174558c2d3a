package proxy

import (
	"errors"
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// An Answer says what was sent.
type Answer struct {
	Method Method
	Flow   rocev2.FlowKey // Flow.Src is the sender that it goes to
	SrcQP  uint32         // CNP: the sender's queue pair
	Option uint8          // FastCNP: 1 or 2
	Level  uint8          // of the congestion, 0 lowest … 7 highest
}

// ReceivePacket is Receive for a UDP datagram out of a capture or a raw socket:
// it also checks what a UDP socket of the proxy does, that the datagram is
// addressed to the proxy itself (node.NotOurs), not in a tunnel (node.Tunnelled),
// whole (node.Broken), and that its checksum is right (node.Checksum). Whether its port is that
// of the messages the caller knows.
func (p *Proxy) ReceivePacket(out []byte, d *rocev2.Datagram, now time.Time) ([]byte, Answer, node.Reason) {
	switch {
	case !p.cfg.Enabled:
		return out, Answer{}, p.refuse(node.Disabled)
	case d.Dst != p.cfg.Self4 && d.Dst != p.cfg.Self6:
		return out, Answer{}, p.refuse(node.NotOurs)
	case len(d.Outer) > 0:
		return out, Answer{}, p.refuse(node.Tunnelled)
	case d.Truncated:
		return out, Answer{}, p.refuse(node.Broken)
	case d.VerifyChecksum() != nil:
		return out, Answer{}, p.refuse(node.Checksum)
	}
	return p.Receive(out, d.Src, d.Data, now)
}

// Receive takes a message of a congested node, the UDP payload, and appends to out
// the whole IP packet that tells the sender. Where none is due it says why,
// looked at in this order: Limited (In), Denied, Broken (also
// without an invoking packet that shows a queue pair), TupleMismatch (also of a
// flow that is not RoCEv2), Fragment, Acknowledgement, Notification, Address,
// OwnAddress, NoMethod, UnknownQP, AmbiguousQP, Limited (PerFlow, Out).
func (p *Proxy) Receive(out []byte, from netip.Addr, data []byte, now time.Time) ([]byte, Answer, node.Reason) {
	b, a, reason := p.receive(out, from, data, now)
	if reason != node.Accepted {
		return out, Answer{}, p.refuse(reason)
	}
	p.stats.Sent++
	return b, a, node.Accepted
}

func (p *Proxy) receive(out []byte, from netip.Addr, data []byte, now time.Time) ([]byte, Answer, node.Reason) {
	switch {
	case !p.cfg.Enabled:
		return out, Answer{}, node.Disabled
	case !p.in.Ready(now):
		return out, Answer{}, node.Limited
	case !p.cfg.Accept.Contains(from.Unmap()):
		return out, Answer{}, node.Denied
	}
	var m proxymsg.Message
	if m.Decode(data, p.cfg.Family) != nil {
		return out, Answer{}, node.Broken
	}
	if reason := p.invoked(&m); reason != node.Accepted {
		return out, Answer{}, reason
	}
	a := Answer{Flow: p.packet.FlowKey(), Level: m.Level}
	sender := a.Flow.Src
	switch {
	case rocev2.Answerable(sender) != nil:
		return out, Answer{}, node.Address
	case sender == p.cfg.Self4, sender == p.cfg.Self6:
		return out, Answer{}, node.OwnAddress
	}
	a.Method, _ = p.cfg.Senders.Lookup(sender)
	src := p.source(&a)
	if !src.IsValid() {
		return out, Answer{}, node.NoMethod
	}
	if a.Method == CNP {
		pair, reason := p.senderQP(a.Flow, now)
		if reason != node.Accepted {
			return out, Answer{}, reason
		}
		a.SrcQP = pair.SrcQP
	}
	hash := a.Flow.Hash(p.cfg.Seed)
	if !p.flows.Ready(hash, p.cfg.PerFlow, now) || !p.out.Ready(now) {
		return out, Answer{}, node.Limited
	}
	b, err := p.append(out, src, &a)
	if err != nil {
		return out, Answer{}, node.Address // all else was looked at before
	}
	p.in.Take(now)
	p.flows.Take(hash, now)
	p.out.Take(now)
	return b, a, node.Accepted
}

// invoked sets p.packet from the invoking packet of a message, of which nothing
// behind the BTH need be there.
func (p *Proxy) invoked(m *proxymsg.Message) node.Reason {
	o := rocev2.DecodeOptions{Link: rocev2.LinkIP, Cut: true}
	if m.Protocol != 17 || m.DstPort != rocev2.Port {
		return node.TupleMismatch
	}
	if err := p.flow.Decode(m.Invoking, o); errors.Is(err, rocev2.ErrFragment) {
		return node.Fragment
	} else if err != nil {
		return node.Broken
	}
	if p.flow.FiveTuple != m.FiveTuple {
		return node.TupleMismatch
	}
	q := &p.packet
	if q.Datagram.Decode(p.flow.IP, o, rocev2.Port) != nil {
		return node.Broken
	}
	if _, err := q.BTH.Header.Decode(q.Data); err != nil {
		return node.Broken
	}
	switch op := q.BTH.Opcode; {
	case op == bth.CNP:
		return node.Notification
	case op.Acknowledges():
		return node.Acknowledgement
	}
	return node.Accepted
}

// source returns the address that an answer comes from, the zero Addr where there
// is no way of sending it.
func (p *Proxy) source(a *Answer) netip.Addr {
	self := p.cfg.Self6
	if a.Flow.Src.Is4() {
		self = p.cfg.Self4
	}
	switch {
	case a.Method == Nothing, a.Method == FastCNP && a.Flow.Src.Is4():
		return netip.Addr{}
	case a.Method == CNP && p.cfg.FromReceiver:
		return a.Flow.Dst
	}
	return self
}

// senderQP returns the pair whose SrcQP is the queue pair of a flow's sender.
func (p *Proxy) senderQP(k rocev2.FlowKey, now time.Time) (qpmap.Pair, node.Reason) {
	if p.cfg.QPs == nil {
		return qpmap.Pair{}, node.UnknownQP
	}
	return node.SourceQP(p.cfg.QPs, k, 0, now)
}

// append appends an answer about p.packet.
func (p *Proxy) append(out []byte, src netip.Addr, a *Answer) (b []byte, err error) {
	switch a.Method {
	case CNP:
		return cnp.AppendFor(out, &p.packet, a.SrcQP, cnp.Config{Src: src, Carriage: p.cfg.Carriage})
	case FastCNP:
		var choice fastcnp.Choice
		b, choice, err = fastcnp.AppendFor(out, &p.packet, nil, fastcnp.Config{
			Src: src, Carriage: p.cfg.Carriage, CodePoints: p.cfg.CodePoints, Long: fastcnp.FallBack,
		})
		a.Option = choice.Option()
		return b, err
	default:
		return ppfc.AppendFor(out, &p.packet, p.cfg.Pause, ppfc.Config{Src: src, Carriage: p.cfg.Carriage, ForHost: true})
	}
}
