package congested

import (
	"errors"
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/level"
	"github.com/rocecn/rocecn/pfc"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocev2"
)

// Congested decides what to do about a packet that met congestion, and appends
// the notification to send, a whole IP packet, to b, which must not overlap the
// frame. 4,096 octets of room in b are always enough, and then nothing is
// allocated.
//
// Only RoCEv2 data is answered. Everything else has a reason, of which the first
// counts: Disabled; Broken; Fragment; NotOurs, for other traffic and for
// notifications on their way to another node; Acknowledgement; Notification;
// OwnAddress, of a packet that the node sent itself; Address, of a sender that
// cannot be answered; what the method asks; Limited. A refusal takes nothing from
// any limit.
//
//	method    capable   packet is ECN-capable   it is not
//	FastCNP   unknown   sent, marked            sent
//	FastCNP   yes       sent                    sent
//	FastCNP   no        marked                  NotCapable
//	Mark      any       marked                  NotCapable
//
// A limit on notifications takes nothing from marking: where it withholds a Fast
// CNP from a sender that is not known as capable the reason is Limited, and the
// packet is marked all the same. No other refusal marks, and no other method. A
// node that cannot mark does as [Config] says.
//
// FastCNP and PPFC are not for packets out of a tunnel, Tunnelled (D17); FCN, and
// PPFC for the ingress PE, are for no others, NotTunnelled. Below all levels of
// Config.PauseFrom a PPFC has nothing to say: the reason is Accepted, and there is
// nothing to send.
func (a *Agent) Congested(b []byte, e *Event, now time.Time) ([]byte, Decision) {
	out, d := a.decide(b, e, now)
	if d.MarkECN {
		a.stats.Marked++
	}
	switch {
	case d.Reason != node.Accepted:
		a.stats.Refused[d.Reason]++
		return b, d
	case d.Kind != message.Other:
		a.stats.Sent[d.Kind]++
	}
	return out, d
}

// seen is what is known of a packet before a method is asked.
type seen struct {
	tunnelled bool
	key       rocev2.FlowKey
	flow      uint64 // the hash of key
	ecn       uint8  // of the outermost IP header, which is the one to be marked
}

// srcPort returns the UDP source port of a message to the FCN or the proxy port:
// what the configuration says or else an ephemeral port, which depends on the
// flow, as port 0 is reserved and often filtered.
func (s *seen) srcPort(configured uint16) uint16 {
	const ephemeral = 49152 // to 65535 (RFC 6335 section 6)
	if configured != 0 {
		return configured
	}
	return ephemeral + uint16(s.key.Hash(0)&0x3FFF) // the same of every agent, whatever its seed
}

func (a *Agent) decide(b []byte, e *Event, now time.Time) ([]byte, Decision) {
	if !a.cfg.Enabled {
		return b, Decision{Reason: node.Disabled}
	}
	var s seen
	reason := a.look(e, &s)
	d := Decision{Packet: a.message.Kind, Reason: reason}
	if reason != node.Accepted {
		return b, d
	}
	method, ok := a.cfg.Methods.Lookup(s.key.Src)
	if !ok {
		d.Reason = node.NoMethod
		return b, d
	}
	return a.notify(b, e, &s, d, method, now)
}

// notify answers a packet by a method.
func (a *Agent) notify(b []byte, e *Event, s *seen, d Decision, method Method, now time.Time) ([]byte, Decision) {
	switch method {
	case FastCNP:
		return a.fastCNP(b, e, s, d, now)
	case Proxy:
		return a.proxy(b, e, s, d, now)
	case FCN:
		return a.fcn(b, e, s, d, now)
	case PPFC:
		return a.ppfc(b, e, s, d, now)
	case Mark:
		return a.mark(b, e, s, d, now)
	}
	d.Reason = node.NoMethod
	return b, d
}

// look finds the RoCEv2 packet in a frame, below its tunnels, and says why it is
// not to be answered, whatever the method.
func (a *Agent) look(e *Event, s *seen) node.Reason {
	m, frame, o := &a.message, e.Frame, e.Options
	if ether, _ := rocev2.LinkPayload(frame, o); ether == pfc.EtherType {
		m.Kind = message.Other // flow control of the link
		return node.NotOurs
	}
	err := m.Decode(frame, o, a.messages())
	if m.Kind == message.Other && a.below(e, s) {
		frame, o = a.inner.IP, a.inner.Options()
		err = m.Decode(frame, o, a.messages())
	}
	p := &m.Packet
	switch {
	case m.Kind == message.Broken:
		return node.Broken
	case errors.Is(err, rocev2.ErrFragment):
		if port, ok := rocev2.FirstFragmentPort(frame, o); ok && a.ours(port) {
			return node.Fragment
		}
		return node.NotOurs
	case m.Kind == message.Other:
		return node.NotOurs
	case m.Kind == message.Ack:
		return node.Acknowledgement
	case m.Kind != message.Data:
		if !a.own(p.Dst) {
			return node.NotOurs
		}
		return node.Notification
	}
	if !s.tunnelled {
		s.ecn = p.ECN()
		if s.tunnelled = len(p.Outer) > 0; s.tunnelled {
			s.ecn = outerECN(p.Outer)
		}
	}
	s.key = p.FlowKey()
	s.flow = s.key.Hash(a.cfg.Seed)
	switch {
	case a.own(p.Src):
		return node.OwnAddress
	case rocev2.Answerable(p.Src) != nil || s.key.Dst.IsMulticast(): // RFC 4443 section 2.4 (e)
		return node.Address
	}
	return node.Accepted
}

// below looks into the tunnels that message.Decode, which follows IP in IP alone,
// does not go into, and says whether there is a packet in one: a.inner. A mirrored
// packet is a copy of one that was elsewhere, and is none.
func (a *Agent) below(e *Event, s *seen) bool {
	in := &a.inner
	if in.Decode(e.Frame, e.Options) != nil || in.Tunnels.Len() == 0 || in.Tunnels.Mirrored() {
		return false
	}
	s.tunnelled, s.ecn = true, outerECN(in.Outermost)
	return true
}

// messages says how messages are told apart.
func (a *Agent) messages() message.Config {
	return message.Config{FCNPort: a.cfg.FCN.Port, ProxyPort: a.cfg.Proxy.Port, CodePoints: a.cfg.FastCNP.CodePoints}
}

// ours says whether a UDP port is one of RoCEv2 and its notifications.
func (a *Agent) ours(port uint16) bool {
	return port == rocev2.Port || port == portOr(a.cfg.FCN.Port, fcn.ExperimentalPort) || port == portOr(a.cfg.Proxy.Port, proxymsg.ExperimentalPort)
}

func portOr(port, otherwise uint16) uint16 {
	if port == 0 {
		return otherwise
	}
	return port
}

// own says whether an address is the node's own.
func (a *Agent) own(addr netip.Addr) bool { return addr == a.cfg.Self4 || addr == a.cfg.Self6 }

// self returns the node's own address of the family of another one.
func (a *Agent) self(like netip.Addr) netip.Addr {
	if like.Is4() {
		return a.cfg.Self4
	}
	return a.cfg.Self6
}

// outerECN returns the ECN field of the outermost IP header.
func outerECN(outer []byte) uint8 {
	if outer[0]>>4 == 6 {
		return outer[1] >> 4 & 3
	}
	return outer[1] & 3
}

// mark answers a packet by marking alone, or by the fallback where the node cannot
// mark.
func (a *Agent) mark(b []byte, e *Event, s *seen, d Decision, now time.Time) ([]byte, Decision) {
	if a.cfg.CannotMark && a.cfg.Fallback != Nothing {
		b, d = a.notify(b, e, s, d, a.cfg.Fallback, now)
		if d.Kind != message.Other {
			a.stats.FellBack++
		}
		return b, d
	}
	if d.MarkECN = a.mayMark(s); !d.MarkECN {
		d.Reason = node.NotCapable
	}
	return b, d
}

// mayMark says whether a packet can be marked: one that is not ECN-capable never
// is (RFC 3168 section 5).
func (a *Agent) mayMark(s *seen) bool { return s.ecn != rocev2.NotECT && !a.cfg.CannotMark }

// fastCNP notifies the sender itself (FAST section 4).
func (a *Agent) fastCNP(b []byte, e *Event, s *seen, d Decision, now time.Time) ([]byte, Decision) {
	p := &a.message.Packet
	switch {
	case !p.Src.Is6() || !a.cfg.Self6.IsValid():
		d.Reason = node.NoMethod
		return b, d
	case s.tunnelled && !a.cfg.InnerSource:
		d.Reason = node.Tunnelled
		return b, d
	}
	capable := a.capability(p.Src, now)
	if capable == No {
		return a.mark(b, e, s, d, now)
	}
	// The two at once are forbidden where the sender is known as capable, and
	// allowed where that is not known: then the packet is marked even if a limit
	// withholds the Fast CNP, for a sender that only knows ECN would hear nothing.
	marked := capable == Unknown && a.mayMark(s)
	if d.Reason = a.limited(e, s.flow, now); d.Reason != node.Accepted {
		d.MarkECN = marked
		return b, d
	}
	out, err := fastcnp.AppendFor(b, p, a.cfg.Self6, e.Own, a.cfg.FastCNP)
	if err != nil {
		d.Reason = node.Broken
		return b, d
	}
	a.took(s.flow, now)
	a.sent.Take(a.hash(out[len(b):]), now)
	d.Kind, d.To, d.Option, d.MarkECN = message.FastCNP, p.Src, fastcnp.OptionOf(out[len(b):]), marked
	return out, d
}

// proxy notifies the proxy of the sender (PROXY section 4). What it says of the
// sender's flow is taken from below the tunnels.
func (a *Agent) proxy(b []byte, e *Event, s *seen, d Decision, now time.Time) ([]byte, Decision) {
	var proxy netip.Addr
	if a.cfg.Proxies != nil {
		proxy, _ = a.cfg.Proxies.Lookup(s.key.Src)
	}
	switch {
	case !proxy.IsValid():
		d.Reason = node.NoProxy
		return b, d
	case !a.self(proxy).IsValid():
		d.Reason = node.NoMethod
		return b, d
	}
	if d.Reason = a.limited(e, s.flow, now); d.Reason != node.Accepted {
		return b, d
	}
	cfg := a.cfg.Proxy
	cfg.Carriage.SrcPort = s.srcPort(cfg.Carriage.SrcPort)
	err := a.flow.Decode(e.Frame, e.Options)
	if err == nil {
		b, err = proxymsg.AppendFor(b, &a.flow, a.self(proxy), proxy, level.ToProxy(e.Level), cfg)
	}
	if err != nil {
		d.Reason = node.Broken
		return b, d
	}
	a.took(s.flow, now)
	d.Kind, d.To = message.Proxy, proxy
	return b, d
}

// fcn notifies the ingress PE of the tunnel that the packet came in, the source
// of its outermost header (FCN section 4.1).
func (a *Agent) fcn(b []byte, e *Event, s *seen, d Decision, now time.Time) ([]byte, Decision) {
	f := &a.flow
	if !s.tunnelled || f.Decode(e.Frame, e.Options) != nil {
		d.Reason = node.NotTunnelled
		return b, d
	}
	fcnMessage, err := fcn.For(f, level.ToFCN(e.Level))
	pe := f.OuterSrc()
	// What an FCN names is the label of a PE, and the tunnels of several customers
	// may hold flows of the same addresses: the limit goes by the former.
	named := rocev2.FlowKey{Src: pe, DestQP: f.OuterFlowLabel()}.Hash(a.cfg.Seed)
	if err == fcn.ErrNotTunnelled {
		d.Reason = node.NotTunnelled
		return b, d
	}
	switch d.Reason = a.ingress(pe); {
	case d.Reason != node.Accepted:
	case f.OuterFlowLabel() == 0:
		d.Reason = node.UnknownLabel
	case err != nil: // fcn.ErrNotECNCapable
		d.Reason = node.NotCapable
	case !a.cfg.Self6.IsValid():
		d.Reason = node.NoMethod
	default:
		d.Reason = a.limited(e, named, now)
	}
	if d.Reason != node.Accepted {
		return b, d
	}
	cfg := a.cfg.FCN
	cfg.Carriage.SrcPort = s.srcPort(cfg.Carriage.SrcPort)
	if b, err = fcnMessage.AppendPacket(b, a.cfg.Self6, pe, cfg); err != nil {
		d.Reason = node.Broken
		return b, d
	}
	a.took(named, now)
	d.Kind, d.To = message.FCN, pe
	return b, d
}

// ingress says why the source of a tunnel is no ingress PE to be notified.
func (a *Agent) ingress(pe netip.Addr) node.Reason {
	switch {
	case a.own(pe):
		return node.OwnAddress
	case !a.cfg.PEs.Contains(pe):
		return node.Denied
	case rocev2.Answerable(pe) != nil:
		return node.Address
	}
	return node.Accepted
}

// limited returns Limited where a limit holds.
func (a *Agent) limited(e *Event, flow uint64, now time.Time) node.Reason {
	interval := a.cfg.PerFlow[min(e.Level, level.Max)]
	perFlow, rate := a.perFlow.Ready(flow, interval, now), a.rate.Ready(now) // both see the time, should it jump back
	if !perFlow || !rate {
		return node.Limited
	}
	return node.Accepted
}

// took says that a notification was sent.
func (a *Agent) took(flow uint64, now time.Time) {
	a.perFlow.Take(flow, now)
	a.rate.Take(now)
}
