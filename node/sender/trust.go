package sender

import (
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/internal/role"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// trust has, for each kind of message, NoReason if it is accepted from a packet's source, or the reason for its
// rejection. It is known before any option is decoded.
type trust struct {
	cnp   node.Reason // a CNP: the queue pair that it names must send to the source
	fast  node.Reason // a receiver's Fast CNP: the source must be the destination of the named flow
	other node.Reason // a switch's Fast CNP, or a PPFC: the source must be on the access list
}

// acceptsNone reports whether no message of the source is accepted.
func (t trust) acceptsNone() bool {
	return t.cnp != node.NoReason && t.fast != node.NoReason && t.other != node.NoReason
}

// reasonFor returns the trust in this notification.
func (t trust) reasonFor(d *node.Decision) node.Reason {
	switch {
	case d.Message == message.KindCNP:
		return t.cnp
	case d.Message == message.KindFastCNP && d.Origin == fastcnp.OriginReceiver:
		return t.fast
	}
	return t.other
}

// checkSource returns the trust in a packet's source. A source on the access list is
// trusted here; find checks later whether the flow is this host's.
func (s *Role) checkSource(p *rocev2.Packet, domain uint32, now time.Time) trust {
	if s.cfg.Accept.Contains(p.Src) {
		return trust{}
	}
	t := trust{cnp: node.ReasonDenied, fast: node.ReasonDenied, other: node.ReasonDenied}
	if ppfc.IsNotification(p) {
		return t
	}
	t.cnp = s.checkSends(p.BTH.DestQP, p.Dst, p.Src, domain, now)
	if len(p.Ext) > 0 && !s.cfg.ReceiversSendNone {
		k := flowKey(p.Dst, p.Src, p.BTH.DestQP, domain)
		_, t.fast = s.qps.SourceQP(&k, now)
	}
	return t
}

// remembered is the time after a datagram in which its queue pair counts as sending to its
// destination.
const remembered = 10 * time.Minute

// observePacket learns from a packet that is no notification.
func (s *Role) observePacket(p *rocev2.Packet, domain uint32, d *node.Decision, now time.Time) {
	if !s.cfg.Enabled {
		return
	}
	s.qps.Learn(d, p, domain, s.self.Like(p.Src), now)
	switch {
	case !s.self.Has(p.Src) || len(p.Outer) > 0:
	case p.BTH.Present.Has(bth.HasDETH):
		s.sent.Record(s.datagramKey(p.BTH.DETH.SrcQP, p.Dst, domain), now)
	default:
		s.recordConnection(p, domain, now)
	}
}

// recordConnection records that the queue pair that sends the flow of a packet of this host has a connection. If that
// is known, the flow is looked up again after the time recheck.
func (s *Role) recordConnection(p *rocev2.Packet, domain uint32, now time.Time) {
	k := flowKey(p.Src, p.FinalDst(), p.BTH.DestQP, domain)
	flow := role.Hash(&k, s.memory.Seed())
	if !s.connected.Ready(flow, recheck, now) {
		return
	}
	if qp, reason := s.qps.SourceQP(&k, now); reason == node.NoReason {
		s.connected.Record(flow, now)
		s.connected.Record(s.datagramKey(qp, netip.Addr{}, domain), now)
	}
}

// recheck is the time after which a flow of the host is looked up again, and half of that for which its queue pair
// counts as having a connection.
const recheck = time.Minute

// sentDatagram reports whether a queue pair of the host has sent a datagram to dst. A queue pair with a connection
// sends none: a frame in which it does was forged on the host's link.
func (s *Role) sentDatagram(qp uint32, dst netip.Addr, domain uint32, now time.Time) bool {
	return !s.sent.Ready(s.datagramKey(qp, dst, domain), remembered, now) &&
		s.connected.Ready(s.datagramKey(qp, netip.Addr{}, domain), 2*recheck, now)
}

// datagramKey returns the key under which sent has a queue pair and its destination.
func (s *Role) datagramKey(qp uint32, dst netip.Addr, domain uint32) uint64 {
	k := flowKey(netip.Addr{}, dst, qp, domain)
	return role.Hash(&k, s.memory.Seed())
}

func flowKey(src, dst netip.Addr, destQP, domain uint32) qpmap.Key {
	return qpmap.Key{FlowKey: rocev2.FlowKey{Src: src, Dst: dst, DestQP: destQP}, Domain: domain}
}

// checkSends returns NoReason if one of the host's queue pairs sends to dst.
func (s *Role) checkSends(qp uint32, self, dst netip.Addr, domain uint32, now time.Time) node.Reason {
	switch {
	case s.table != nil:
		switch sends, known := s.table.Sends(qp, dst, now); {
		case sends:
			return node.NoReason
		case known:
			return node.ReasonDenied
		}
		return node.ReasonUnknownQP
	case s.sentDatagram(qp, dst, domain, now):
		return node.NoReason
	}
	k := flowKey(dst, self, qp, domain)
	reason := s.checkConnection(&k, qp, self, dst, domain, now)
	if reason != node.NoReason && s.qps.Connects(&k, now) { // forged packets may be the last ones of the two flows
		return node.NoReason
	}
	return reason
}

// checkConnection returns NoReason if dst sends the flow k to a queue pair of the host, and this sends to dst: any host
// can send to the queue pair.
func (s *Role) checkConnection(
	k *qpmap.Key, qp uint32, self, dst netip.Addr, domain uint32, now time.Time,
) node.Reason {
	back, reason := s.qps.SourceQP(k, now)
	if reason != node.NoReason {
		return reason
	}
	forth := flowKey(self, dst, back, domain)
	sends, reason := s.qps.SourceQP(&forth, now)
	if reason == node.NoReason && sends != qp {
		return node.ReasonUnknownQP
	}
	return reason
}

// untrustedReason returns the reason for the rejection of a packet of a source without any trust.
// The packet is rejected in any case; its options only select the reason.
func (s *Role) untrustedReason(p *rocev2.Packet, t trust) node.Reason {
	if len(p.Ext) == 0 {
		return t.cnp
	}
	fast, err := fastcnp.FromPacket(p, s.cfg.CodePoints)
	switch {
	case err == fastcnp.ErrNotFastCNP:
		return t.cnp
	case err == nil && fast.Origin() == fastcnp.OriginReceiver:
		return t.fast
	}
	return t.other
}
