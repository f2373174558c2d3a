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

// An Answer says what was sent or, where Method is Other, what the program is to
// send: then nothing was appended, of Flow the addresses are set, and the queue
// pair if the flow is RoCEv2.
type Answer struct {
	Method Method
	Flow   rocev2.FlowKey // Flow.Src is the sender that it goes to
	SrcQP  uint32         // CNP: the sender's queue pair
	Option uint8          // FastCNP: 1 or 2
	Level  uint8          // of the congestion, 0 lowest … 7 highest

	// Other: the five-tuple of the flow, and the octets of a packet of it, from its
	// outermost IP header on and as many as the message had room for. They alias the
	// message.
	Tuple    rocev2.FiveTuple
	Invoking []byte
}

// ReceivePacket is Receive for a UDP datagram out of a capture or a raw socket:
// it also checks what a UDP socket of the proxy does, first that the datagram is
// addressed to the proxy itself (node.NotOurs), not in a tunnel (node.Tunnelled)
// and whole (node.Broken), then, after access list and limits, that its checksum is
// right (node.Checksum). Whether its port is that of the messages the caller knows.
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
	}
	if reason := p.admit(d.Src, now); reason != node.Accepted {
		return out, Answer{}, p.refuse(reason)
	}
	if d.VerifyChecksum() != nil {
		return out, Answer{}, p.refuse(node.Checksum)
	}
	return p.decide(out, d.Data, now)
}

// Receive takes a message of a congested node, the UDP payload, and appends to out
// the whole IP packet that tells the sender. Where none is due it says why, looked
// at in this order: Denied, Limited (InPerSource, In), Broken (also without an
// invoking packet that shows the flow), TupleMismatch (also of a flow that is not
// RoCEv2, unless the rule of its sender is Other), Fragment, Acknowledgement,
// Notification, Address, OwnAddress, NoMethod, UnknownQP, AmbiguousQP, Limited
// (PerFlow, Out).
func (p *Proxy) Receive(out []byte, from netip.Addr, data []byte, now time.Time) ([]byte, Answer, node.Reason) {
	if reason := p.admit(from, now); reason != node.Accepted {
		return out, Answer{}, p.refuse(reason)
	}
	return p.decide(out, data, now)
}

// admit says whether a message from this source is looked at, and charges it.
func (p *Proxy) admit(from netip.Addr, now time.Time) node.Reason {
	from = from.Unmap()
	switch {
	case !p.cfg.Enabled:
		return node.Disabled
	case !p.cfg.Accept.Contains(from):
		return node.Denied
	}
	source := rocev2.FlowKey{Src: from}.Hash(p.cfg.Seed)
	if !p.from.Ready(source, now) || !p.in.Ready(now) {
		return node.Limited
	}
	p.from.Take(source, now)
	p.in.Take(now)
	return node.Accepted
}

// decide counts what becomes of a message that was admitted.
func (p *Proxy) decide(out, data []byte, now time.Time) ([]byte, Answer, node.Reason) {
	b, a, reason := p.answer(out, data, now)
	switch {
	case reason != node.Accepted:
		return out, Answer{}, p.refuse(reason)
	case a.Method == Other:
		p.stats.Others++
	default:
		p.stats.Sent++
	}
	return b, a, node.Accepted
}

// answer answers a message that was admitted.
func (p *Proxy) answer(out, data []byte, now time.Time) ([]byte, Answer, node.Reason) {
	var m proxymsg.Message
	if m.Decode(data, p.cfg.Family) != nil {
		return out, Answer{}, node.Broken
	}
	a := Answer{Flow: rocev2.FlowKey{Src: m.Src, Dst: m.Dst}, Level: m.Level}
	a.Method, _ = p.cfg.Senders.Lookup(m.Src)
	isRoCEv2 := m.Protocol == 17 && m.DstPort == rocev2.Port
	if !isRoCEv2 && a.Method != Other {
		return out, Answer{}, node.TupleMismatch
	}
	if reason := p.invoked(&m, isRoCEv2); reason != node.Accepted {
		return out, Answer{}, reason
	}
	switch {
	case rocev2.Answerable(m.Src) != nil:
		return out, Answer{}, node.Address
	case m.Src == p.cfg.Self4, m.Src == p.cfg.Self6:
		return out, Answer{}, node.OwnAddress
	}
	key := a.Flow // of the limit: of other protocols it has the ports
	if isRoCEv2 {
		a.Flow = p.packet.FlowKey()
		key = a.Flow
	} else {
		key.DestQP = uint32(m.SrcPort)<<16 | uint32(m.DstPort)
	}
	src := p.source(&a)
	switch {
	case a.Method == Other:
		a.Tuple, a.Invoking = m.FiveTuple, m.Invoking
	case !src.IsValid():
		return out, Answer{}, node.NoMethod
	case a.Method == CNP:
		pair, reason := p.senderQP(a.Flow, now)
		if reason != node.Accepted {
			return out, Answer{}, reason
		}
		a.SrcQP = pair.SrcQP
	}
	hash := key.Hash(p.cfg.Seed) ^ uint64(m.Protocol)
	if !p.flows.Ready(hash, p.cfg.PerFlow, now) || !p.out.Ready(now) {
		return out, Answer{}, node.Limited
	}
	b, err := p.append(out, src, &a)
	if err != nil {
		return out, Answer{}, node.Address // all else was looked at before
	}
	p.flows.Take(hash, now)
	p.out.Take(now)
	return b, a, node.Accepted
}

// invoked checks the invoking packet of a message against its five-tuple, and sets
// p.packet from it if it is RoCEv2, of which nothing behind the BTH need be there.
func (p *Proxy) invoked(m *proxymsg.Message, isRoCEv2 bool) node.Reason {
	o := rocev2.DecodeOptions{Link: rocev2.LinkIP, Cut: true}
	if err := p.flow.Decode(m.Invoking, o); errors.Is(err, rocev2.ErrFragment) {
		return node.Fragment
	} else if err != nil {
		return node.Broken
	}
	if p.flow.FiveTuple != m.FiveTuple {
		return node.TupleMismatch
	}
	if !isRoCEv2 {
		return node.Accepted
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

// senderQP returns the pair whose SrcQP is the queue pair that sent the invoking
// packet, whatever the flow has sent since.
func (p *Proxy) senderQP(k rocev2.FlowKey, now time.Time) (qpmap.Pair, node.Reason) {
	if p.cfg.QPs == nil {
		return qpmap.Pair{}, node.UnknownQP
	}
	pair, err := p.cfg.QPs.SourceQPOf(qpmap.Key{FlowKey: k}, &p.packet.BTH.Header, now)
	return pair, node.ReasonOf(err)
}

// append appends an answer about p.packet.
func (p *Proxy) append(out []byte, src netip.Addr, a *Answer) (b []byte, err error) {
	switch a.Method {
	case Other:
		return out, nil
	case CNP:
		return cnp.AppendFor(out, &p.packet, src, a.SrcQP, cnp.Config{Carriage: p.cfg.Carriage})
	case FastCNP:
		cfg := fastcnp.Config{Carriage: p.cfg.Carriage, CodePoints: p.cfg.CodePoints, Long: fastcnp.FallBack}
		if b, err = fastcnp.AppendFor(out, &p.packet, src, nil, cfg); err == nil {
			a.Option = fastcnp.OptionOf(b[len(out):])
		}
		return b, err
	default:
		return ppfc.AppendFor(out, &p.packet, src, p.cfg.Pause, ppfc.Config{Carriage: p.cfg.Carriage})
	}
}
