package sender

import (
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// trust says which messages of a packet's source count, as far as the octets
// before any option show it: each is Accepted, or the reason why it does not.
type trust struct {
	cnp   node.Reason // a CNP: the source is where the queue pair that it names sends to
	fast  node.Reason // a receiver's Fast CNP: the source is the destination of the flow that it names
	other node.Reason // a switch's Fast CNP, or a PPFC: the source is on the access list
}

// none says whether no message counts.
func (t trust) none() bool {
	return t.cnp != node.Accepted && t.fast != node.Accepted && t.other != node.Accepted
}

// in says whether this notification counts.
func (t trust) in(e *Event) node.Reason {
	switch {
	case e.Kind == message.CNP:
		return t.cnp
	case e.Kind == message.FastCNP && e.Origin == fastcnp.Receiver:
		return t.fast
	}
	return t.other
}

// trust returns the trust in a packet's source. On the access list, it is complete:
// whether a Fast CNP is about a flow of this host is seen when the flow is looked up.
func (s *Sender) trust(p *rocev2.Packet, now time.Time) trust {
	if s.cfg.Accept.Contains(p.Src) {
		return trust{}
	}
	t := trust{cnp: node.Denied, fast: node.Denied, other: node.Denied}
	if ppfc.Is(p) {
		return t
	}
	t.cnp = s.sends(p.BTH.DestQP, p.Dst, p.Src, now)
	if len(p.Ext) > 0 && !s.cfg.ReceiversSendNone {
		_, t.fast = node.SourceQP(s.cfg.QPs, qpmap.Key{FlowKey: rocev2.FlowKey{Src: p.Dst, Dst: p.Src, DestQP: p.BTH.DestQP}}, now)
	}
	return t
}

// remembered is for how long a queue pair is known to send to where it has sent a
// datagram.
const remembered = 10 * time.Minute

// Observe records where the host's own datagrams (UD) go, so that CNPs about them
// count: they are no connection, and nothing need come back. Any other packet
// changes nothing. With a [QPTable] there is no need for it.
func (s *Sender) Observe(p *rocev2.Packet, now time.Time) {
	own := p.Src == s.cfg.Self4 || p.Src == s.cfg.Self6
	if own && len(p.Outer) == 0 && p.BTH.Present.Has(bth.HasDETH) {
		s.sent.Take(s.datagrams(p.BTH.DETH.SrcQP, p.Dst), now)
	}
}

// datagrams is the key of what a queue pair sends to a destination.
func (s *Sender) datagrams(qp uint32, dst netip.Addr) uint64 {
	return rocev2.FlowKey{Dst: dst, DestQP: qp}.Hash(s.cfg.Seed)
}

// sends says whether one of the host's queue pairs sends to dst.
func (s *Sender) sends(qp uint32, self, dst netip.Addr, now time.Time) node.Reason {
	switch {
	case s.table != nil:
		switch sends, known := s.table.Sends(qp, dst, now); {
		case sends:
			return node.Accepted
		case known:
			return node.Denied
		}
		return node.UnknownQP
	case !s.sent.Ready(s.datagrams(qp, dst), remembered, now):
		return node.Accepted
	}
	back, reason := node.SourceQP(s.cfg.QPs, qpmap.Key{FlowKey: rocev2.FlowKey{Src: dst, Dst: self, DestQP: qp}}, now)
	if reason != node.Accepted {
		return reason
	}
	// That dst sends to the queue pair is what anybody can do.
	forth, reason := node.SourceQP(s.cfg.QPs, qpmap.Key{FlowKey: rocev2.FlowKey{Src: self, Dst: dst, DestQP: back.SrcQP}}, now)
	if reason == node.Accepted && forth.SrcQP != qp {
		return node.UnknownQP
	}
	return reason
}

// distrust returns the reason why a packet is refused of whose source no message
// counts. That it is refused is settled: its options only choose the reason.
func (s *Sender) distrust(p *rocev2.Packet, t trust) node.Reason {
	if len(p.Ext) == 0 {
		return t.cnp
	}
	fast, err := s.cfg.CodePoints.FromPacket(p)
	switch {
	case err == fastcnp.ErrNotFastCNP:
		return t.cnp
	case err == nil && fast.Origin() == fastcnp.Receiver:
		return t.fast
	}
	return t.other
}
