package congested

import (
	"errors"
	"net/netip"

	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/internal/role"
	"github.com/rocecn/rocecn/node/level"
	"github.com/rocecn/rocecn/pfc"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// Receive answers a packet that has experienced congestion at Event.Level, and appends the notification to send, a
// whole IP packet, to out, which must not overlap the frame; with a free capacity of 1,280 octets nothing is allocated.
//
// Only RoCEv2 data is answered. For traffic that is neither RoCEv2 nor a notification, and for data that is not
// marked with Config.OnlyMarked, the Action is node.NoAction. For the rest the Reason is the first of these that
// applies:
//   - ReasonDisabled
//   - ReasonBroken or ReasonFragment
//   - ReasonAcknowledgement
//   - ReasonTrimmed
//   - ReasonNotOurs: a notification to another node
//   - ReasonNotification
//   - ReasonOwnAddress: the node has sent the packet itself
//   - ReasonAddress: the sender's address cannot be answered, or the destination is a multicast address
//   - the reasons of the method
//   - ReasonAddress: the message would name the destination of the flow, which others cannot reach (Fast CNP, proxy
//     message, or PPFC without NodeAddress)
//   - ReasonLimited
//
// With Config.AnyTunnelled, a tunnel packet of an ingress PE is answered by an FCN without any look at its contents.
// Only the reasons of FCN apply to it.
//
// A rejected packet is not charged to any limit.
//
//	method    capable   packet is ECN-capable   it is not
//	FastCNP   unknown   sent, marked            sent
//	FastCNP   yes       sent                    sent
//	FastCNP   no        marked                  ReasonNotCapable
//	Mark      any       marked                  ReasonNotCapable
//
// If a limit or the destination of the flow withholds a Fast CNP from a sender of unknown capability, the reason is
// ReasonLimited or ReasonAddress, but the packet is marked: the Action is node.ActionMarked. Otherwise a rejected
// packet is not marked. For a node that cannot mark see [Config].
//
// FastCNP and PPFC reject packets from a tunnel with ReasonTunnelled (D17); FCN, and PPFC to the ingress PE, reject all
// others with ReasonNotTunnelled. Below all levels of Config.PauseFrom no PPFC is sent, and the Action is
// node.NoAction.
//
// From ICMPv6 errors, also with Event.Observe, the role learns which hosts do not support Fast CNP, if their capability
// is not configured. The packet may be a frame, or a message of a raw ICMPv6 socket, which has verified its checksum. A
// Parameter Problem in which a host rejects a Fast CNP that this node sent in the last 5 s has one of these results:
//   - The first one is Refused as ReasonUnconfirmed.
//   - A second one within a minute, about another Fast CNP, has node.ActionLearned: the host counts as not capable.
//     After Config.Probe it gets one Fast CNP, a probe.
//   - A rejected probe has node.ActionLearned, and the next probe follows after twice the time. If the host does not
//     reject a probe, its capability is unknown again.
//
// Any other Parameter Problem to the node is Refused as ReasonDenied, and so is one to another node about a Fast CNP.
// If the role is off, the reason is ReasonDisabled.
//
// With a nil frame, the Event only reports that the queue of Event.Port has reached Event.Level: at level 0 the flows
// that were stopped or held because of that port are due, see [Role.Due]. A role that is off records this as well, with
// ReasonDisabled.
func (a *Role) Receive(out []byte, f *rocev2.Frame, e node.Event) (sent []byte, d node.Decision) {
	e.Now = a.latest.Or(e.Now)
	switch sent = out; {
	case f == nil:
		if e.Level == 0 {
			a.paused.releasePort(e.Port)
		}
		if a.cfg.Enabled {
			return sent, d
		}
		d.Reason = node.ReasonDisabled
	case e.Observe:
		a.learnICMP(&d, f, e.Domain, e.Now)
	default:
		sent = a.receiveFrame(out, f, &e, &d)
	}
	a.counters.Settle(&d)
	return sent, d
}

func (a *Role) receiveFrame(out []byte, f *rocev2.Frame, e *node.Event, d *node.Decision) (sent []byte) {
	s := congestion{Decision: d, frame: f, event: e}
	s.Flow.Domain = e.Domain
	sent, s.Reason = a.appendNotification(out, &s)
	switch {
	case s.Message != message.KindOther:
		s.Action = node.ActionSent
	case s.MarkECN:
		s.Action = node.ActionMarked
	case s.Reason == node.NoReason && s.Packet == message.KindOther:
		a.learnICMP(d, f, e.Domain, e.Now)
	}
	return sent
}

// A congestion is an Event, its packet as far as decoded, and the decision so far.
type congestion struct {
	*node.Decision
	frame     *rocev2.Frame
	event     *node.Event
	tunnelled bool
	flow      uint64 // the hash of Flow
}

// mayNameDestination reports whether a message may name the destination of the flow: no builder names an address that
// others cannot reach.
func (s *congestion) mayNameDestination() bool { return rocev2.CheckAnswerable(s.Flow.Dst) == nil }

func (a *Role) appendNotification(b []byte, s *congestion) ([]byte, node.Reason) {
	if !a.cfg.Enabled {
		if !role.Concerns(s.frame, rocev2.Port, a.cfg.FCN.Port, a.cfg.Proxy.Port) || s.frame.Inner().Mirrored() ||
			a.cfg.OnlyMarked && a.decodeFrame(s) == node.NoReason && !s.frame.Marked() {
			return b, node.NoReason
		}
		s.Packet = message.KindOther
		return b, node.ReasonDisabled
	}
	if a.cfg.AnyTunnelled && a.isFromPE(s.frame) {
		return a.appendAnyFCN(b, s)
	}
	reason := a.decodeFrame(s)
	switch {
	case s.Packet == message.KindOther && reason == node.ReasonNotOurs,
		s.Packet == message.KindData && a.cfg.OnlyMarked && !s.frame.Marked():
		return b, node.NoReason
	case reason == node.NoReason:
		reason = a.checkFlow(s)
	}
	if reason != node.NoReason {
		return b, reason
	}
	method, ok := a.cfg.Methods.Lookup(s.Flow.Src)
	if !ok {
		return b, node.ReasonNoMethod
	}
	return a.appendByMethod(b, s, method)
}

// appendByMethod answers a packet by a method.
func (a *Role) appendByMethod(b []byte, s *congestion, method Method) ([]byte, node.Reason) {
	switch method {
	case MethodFastCNP:
		return a.appendFastCNP(b, s)
	case MethodProxy:
		return a.appendProxyMessage(b, s)
	case MethodFCN:
		return a.appendFCN(b, s)
	case MethodPPFC:
		return a.appendPause(b, s)
	case MethodMark:
		return a.markPacket(b, s)
	}
	return b, node.ReasonNoMethod
}

// decodeFrame decodes the packet, and returns the reason why a packet of its kind is not answered, or NoReason for
// data.
func (a *Role) decodeFrame(s *congestion) node.Reason {
	m, f := &a.message, s.frame
	if f.EtherType() == pfc.EtherType {
		return node.ReasonNotOurs // flow control of the link
	}
	err := m.DecodeView(f.Outer(), a.messageConfig())
	// The outer view looks into IP in IP only. Packets in other tunnels count as well, but not mirrored ones, which are
	// copies: they have met no congestion here.
	if m.Kind == message.KindOther && f.Tunnels().Len() > 0 && !f.Inner().Mirrored() {
		s.tunnelled = true
		err = m.DecodeView(f.Inner(), a.messageConfig())
	}
	s.Packet = m.Kind
	p := &m.Packet
	switch {
	case m.Kind == message.KindError:
		return node.ReasonBroken
	case m.Kind == message.KindOther:
		if port, ok := f.Fragment(); ok && errors.Is(err, rocev2.ErrFragment) && a.isMessagePort(port) {
			return node.ReasonFragment
		}
		return node.ReasonNotOurs
	case m.Kind == message.KindAck:
		return node.ReasonAcknowledgement
	case m.Kind == message.KindData && p.Trimmed:
		return node.ReasonTrimmed
	case m.Kind != message.KindData:
		if !a.self.Has(p.Dst) {
			return node.ReasonNotOurs
		}
		return node.ReasonNotification
	}
	s.tunnelled = s.tunnelled || len(p.Outer) > 0
	return node.NoReason
}

// checkFlow sets the flow of the data packet, and returns the reason why its sender is not answered, or NoReason.
func (a *Role) checkFlow(s *congestion) node.Reason {
	p := &a.message.Packet
	s.Flow.FlowKey = role.PacketKey(p)
	s.flow = role.Hash(&s.Flow, a.memory.Seed())
	switch {
	case a.self.Has(p.Src):
		return node.ReasonOwnAddress
	case rocev2.CheckAnswerable(p.Src) != nil || s.Flow.Dst.IsMulticast(): // RFC 4443 section 2.4 (e)
		return node.ReasonAddress
	}
	return node.NoReason
}

// messageConfig returns the ports and option types by which messages are recognized.
func (a *Role) messageConfig() message.Config {
	return message.Config{FCNPort: a.cfg.FCN.Port, ProxyPort: a.cfg.Proxy.Port, CodePoints: a.cfg.FastCNP.CodePoints,
		SkipVerify: true} // a notification with a wrong ICRC is not answered either
}

// isMessagePort reports whether RoCEv2, FCN or proxy messages use a UDP port.
func (a *Role) isMessagePort(port uint16) bool {
	return port == rocev2.Port || port == a.cfg.FCN.Port || port == a.cfg.Proxy.Port
}

// markPacket answers a packet only by a mark or, if the node cannot mark, by Config.Fallback.
func (a *Role) markPacket(b []byte, s *congestion) ([]byte, node.Reason) {
	if a.cfg.CannotMark && a.cfg.Fallback != NoMethod {
		sent, reason := a.appendByMethod(b, s, a.cfg.Fallback)
		if s.Message != message.KindOther {
			a.counters.Inc(node.Count{Effect: node.EffectFellBack})
		}
		return sent, reason
	}
	if s.MarkECN = a.mayMark(s); !s.MarkECN {
		return b, node.ReasonNotCapable
	}
	return b, node.NoReason
}

// mayMark reports whether a packet can be marked, in its outermost IP header. Not-ECT packets must not be (RFC 3168
// section 5).
func (a *Role) mayMark(s *congestion) bool {
	ecn := a.message.Packet.ECN()
	if s.tunnelled {
		ecn = s.frame.Outer().ECN()
	}
	return !a.cfg.CannotMark && ecn != rocev2.NotECT
}

// appendFastCNP notifies the sender itself (FAST section 4).
func (a *Role) appendFastCNP(b []byte, s *congestion) ([]byte, node.Reason) {
	p := &a.message.Packet
	switch {
	case !p.Src.Is6() || !a.cfg.Self6.IsValid():
		return b, node.ReasonNoMethod
	case s.tunnelled && !a.cfg.FastCNP.InnerSource:
		return b, node.ReasonTunnelled
	}
	capable := a.lookUpCapability(p.Src, s.Flow.Domain, s.event.Now)
	if capable == Incapable {
		return a.markPacket(b, s)
	}
	// FAST section 4 forbids both a Fast CNP and a mark if the sender is known to be capable, and allows both if that
	// is unknown. Then the packet is marked even if a limit or the flow's destination withholds the Fast CNP: a sender
	// that only supports ECN would not be notified otherwise.
	marked := capable == CapabilityUnknown && a.mayMark(s)
	switch {
	case !s.mayNameDestination():
		s.MarkECN = marked
		return b, node.ReasonAddress
	case !a.isWithinLimits(s, s.flow):
		s.MarkECN = marked
		return b, node.ReasonLimited
	}
	a.cfg.FastCNP.Carriage.FlowLabel = a.drawLabel()
	out, sent, err := fastcnp.AppendFor(b, p, a.cfg.Self6, a.cfg.Own, a.cfg.FastCNP)
	if err != nil {
		return b, node.ReasonBroken
	}
	a.pace.Charge(s.flow, role.SourceOf(&s.Flow), s.event.Now)
	packet := a.hashPacket(out[len(b):], s.Flow.Domain)
	a.sent.Record(packet, s.event.Now)
	if capable == CapabilityUnknown {
		a.rejected.recordSent(a.hashAddr(p.Src, s.Flow.Domain), packet, s.event.Now)
	}
	s.Message, s.To, s.MarkECN = message.KindFastCNP, p.Src, marked
	s.Option, s.OwnRecord = sent.Option, sent.OwnRecord
	return out, node.NoReason
}

// appendProxyMessage notifies the proxy of the sender (PROXY section 4). The message names the innermost flow.
func (a *Role) appendProxyMessage(b []byte, s *congestion) ([]byte, node.Reason) {
	var proxy netip.Addr
	if a.cfg.Proxies != nil {
		proxy, _ = a.cfg.Proxies.Lookup(s.Flow.Src)
	}
	self := a.self.Like(proxy)
	switch {
	case !proxy.IsValid():
		return b, node.ReasonNoProxy
	case !self.IsValid():
		return b, node.ReasonNoMethod
	case !s.mayNameDestination():
		return b, node.ReasonAddress
	case !a.isWithinLimits(s, s.flow):
		return b, node.ReasonLimited
	}
	out, err := proxymsg.AppendFor(b, s.frame, self, proxy, level.ToProxy(s.event.Level), a.cfg.Proxy)
	if err != nil {
		return b, node.ReasonBroken
	}
	a.pace.Charge(s.flow, role.SourceOf(&s.Flow), s.event.Now)
	s.Message, s.To = message.KindProxy, proxy
	return out, node.NoReason
}

// appendFCN notifies the ingress PE of the packet's tunnel: the source of the outermost header (FCN section 4.1).
func (a *Role) appendFCN(b []byte, s *congestion) ([]byte, node.Reason) {
	if !s.tunnelled {
		return b, node.ReasonNotTunnelled
	}
	fcnMessage, err := fcn.For(s.frame, level.ToFCN(s.event.Level))
	if err == fcn.ErrNotTunnelled {
		return b, node.ReasonNotTunnelled
	}
	return a.appendFCNMessage(b, s, fcnMessage, err)
}

// appendFCNMessage appends a message to the ingress PE of the packet's tunnel. err is the error of the message.
func (a *Role) appendFCNMessage(b []byte, s *congestion, fcnMessage fcn.Message, err error) ([]byte, node.Reason) {
	f := s.frame
	pe := f.Outer().Src()
	// The limit counts by PE and label, which an FCN names, and not by the inner addresses, which several customers
	// may use.
	label := rocev2.FlowKey{Src: pe, DestQP: f.Outer().FlowLabel()}
	named := role.Hash(&qpmap.Key{FlowKey: label, Domain: s.Flow.Domain}, a.memory.Seed())
	switch reason := a.checkIngress(pe); {
	case reason != node.NoReason:
		return b, reason
	case f.Outer().FlowLabel() == 0:
		return b, node.ReasonUnknownLabel
	case err != nil: // fcn.ErrNotECNCapable
		return b, node.ReasonNotCapable
	case !a.cfg.Self6.IsValid():
		return b, node.ReasonNoMethod
	case !a.isWithinLimits(s, named):
		return b, node.ReasonLimited
	}
	out, err := fcnMessage.AppendPacket(b, a.cfg.Self6, pe, a.cfg.FCN)
	if err != nil {
		return b, node.ReasonBroken
	}
	a.pace.Charge(named, role.SourceOf(&s.Flow), s.event.Now)
	s.Message, s.To = message.KindFCN, pe
	return out, node.NoReason
}

// checkIngress returns why the source of a tunnel may not be notified as its ingress PE, or NoReason.
func (a *Role) checkIngress(pe netip.Addr) node.Reason {
	switch {
	case a.self.Has(pe):
		return node.ReasonOwnAddress
	case !a.cfg.PEs.Contains(pe):
		return node.ReasonDenied
	case rocev2.CheckAnswerable(pe) != nil:
		return node.ReasonAddress
	}
	return node.NoReason
}

// isWithinLimits reports whether the limits allow a notification about a flow.
func (a *Role) isWithinLimits(s *congestion, flow uint64) bool {
	interval := a.cfg.PerFlow[min(s.event.Level, level.Max)]
	return a.pace.Ready(flow, role.SourceOf(&s.Flow), interval, s.event.Now)
}
