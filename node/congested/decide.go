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
	"github.com/rocecn/rocecn/ppfc"
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
// any limit, and the packet is not to be marked.
//
//	method    capable   packet is ECN-capable   it is not
//	FastCNP   unknown   sent, marked            sent
//	FastCNP   yes       sent                    sent
//	FastCNP   no        marked                  NotCapable
//	Mark      any       marked                  NotCapable
//
// The other methods mark nothing. FastCNP and PPFC are not for packets out of a
// tunnel, Tunnelled (D17); FCN is for no others, NotTunnelled.
func (a *Agent) Congested(b []byte, e *Event, now time.Time) ([]byte, Decision) {
	out, d := a.decide(b, e, now)
	switch {
	case d.Reason != node.Accepted:
		a.stats.Refused[d.Reason]++
		return b, d
	case d.Kind != message.Other:
		a.stats.Sent[d.Kind]++
	}
	if d.MarkECN {
		a.stats.Marked++
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
	return ephemeral + uint16(s.flow&0x3FFF)
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
	switch method {
	case FastCNP:
		return a.fastCNP(b, e, &s, d, now)
	case Proxy:
		return a.proxy(b, e, &s, d, now)
	case FCN:
		return a.fcn(b, e, &s, d, now)
	case PPFC:
		return a.ppfc(b, e, &s, d, now)
	case Mark:
		return b, mark(d, &s)
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
	if in.Decode(e.Frame, e.Options) != nil || in.Tunnels.Len() == 0 || isMirrored(in.Tunnels) {
		return false
	}
	s.tunnelled, s.ecn = true, outerECN(in.Outermost)
	return true
}

func isMirrored(tunnels rocev2.Tunnels) bool {
	for t := range tunnels.All() {
		if t == rocev2.ERSPAN1 || t == rocev2.ERSPAN2 || t == rocev2.ERSPAN3 {
			return true
		}
	}
	return false
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

// mark decides for marking alone. A packet that is not ECN-capable is never
// marked (RFC 3168 section 5).
func mark(d Decision, s *seen) Decision {
	d.MarkECN = s.ecn != rocev2.NotECT
	if !d.MarkECN {
		d.Reason = node.NotCapable
	}
	return d
}

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
		return b, mark(d, s)
	}
	if d.Reason = a.limited(e, s, now); d.Reason != node.Accepted {
		return b, d
	}
	out, choice, err := fastcnp.AppendFor(b, p, e.Own, a.cfg.FastCNP)
	if err != nil {
		d.Reason = node.Broken
		return b, d
	}
	a.took(s, now)
	a.sent.Take(a.hash(out[len(b):]), now)
	d.Kind, d.To, d.Option = message.FastCNP, p.Src, choice.Option()
	// The two at once are forbidden where the sender is known as capable, and
	// allowed where that is not known.
	d.MarkECN = capable == Unknown && s.ecn != rocev2.NotECT
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
	if d.Reason = a.limited(e, s, now); d.Reason != node.Accepted {
		return b, d
	}
	cfg := a.cfg.Proxy
	cfg.Src, cfg.Carriage.SrcPort = a.self(proxy), s.srcPort(cfg.Carriage.SrcPort)
	err := a.flow.Decode(e.Frame, e.Options)
	if err == nil {
		b, err = proxymsg.AppendFor(b, &a.flow, proxy, level.ToProxy(e.Level), cfg)
	}
	if err != nil {
		d.Reason = node.Broken
		return b, d
	}
	a.took(s, now)
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
	message6, err := fcn.For(f, level.ToFCN(e.Level))
	pe := f.OuterSrc()
	switch {
	case err == fcn.ErrNotTunnelled:
		d.Reason = node.NotTunnelled
	case pe == a.cfg.Self6:
		d.Reason = node.OwnAddress
	case !a.cfg.PEs.Contains(pe):
		d.Reason = node.Denied
	case rocev2.Answerable(pe) != nil:
		d.Reason = node.Address
	case f.OuterFlowLabel() == 0:
		d.Reason = node.UnknownLabel
	case err != nil: // fcn.ErrNotECNCapable
		d.Reason = node.NotCapable
	case !a.cfg.Self6.IsValid():
		d.Reason = node.NoMethod
	default:
		d.Reason = a.limited(e, s, now)
	}
	if d.Reason != node.Accepted {
		return b, d
	}
	cfg := a.cfg.FCN
	cfg.Src, cfg.Carriage.SrcPort = a.cfg.Self6, s.srcPort(cfg.Carriage.SrcPort)
	if b, err = message6.AppendPacket(b, pe, cfg); err != nil {
		d.Reason = node.Broken
		return b, d
	}
	a.took(s, now)
	d.Kind, d.To = message.FCN, pe
	return b, d
}

// ppfc asks the sender itself to pause (PPFC section 3). It names the flow as the
// sender knows it: by its destination and destination queue pair (D15).
func (a *Agent) ppfc(b []byte, e *Event, s *seen, d Decision, now time.Time) ([]byte, Decision) {
	p := &a.message.Packet
	switch {
	case !a.self(p.Src).IsValid():
		d.Reason = node.NoMethod
	case s.tunnelled && !a.cfg.InnerSource:
		d.Reason = node.Tunnelled
	default:
		d.Reason = a.limited(e, s, now)
	}
	if d.Reason != node.Accepted {
		return b, d
	}
	cfg := a.cfg.PPFC
	cfg.Src = a.self(p.Src)
	pause := min(max(e.Pause, 0), ppfc.MaxPause).Truncate(time.Microsecond)
	b, err := ppfc.AppendFor(b, p, ppfc.Extension{Type: ppfc.Stop, Port: e.Port, Pause: pause}, cfg)
	if err != nil {
		d.Reason = node.Broken
		return b, d
	}
	a.took(s, now)
	d.Kind, d.To = message.PPFC, p.Src
	return b, d
}

// limited returns Limited where a limit holds.
func (a *Agent) limited(e *Event, s *seen, now time.Time) node.Reason {
	interval := a.cfg.PerFlow[level.ToProxy(e.Level)]
	flow, rate := a.perFlow.Ready(s.flow, interval, now), a.rate.Ready(now) // both see the time, should it jump back
	if !flow || !rate {
		return node.Limited
	}
	return node.Accepted
}

// took says that a notification was sent.
func (a *Agent) took(s *seen, now time.Time) {
	a.perFlow.Take(s.flow, now)
	a.rate.Take(now)
}
