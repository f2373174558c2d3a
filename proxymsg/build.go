package proxymsg

import (
	"net/netip"

	"github.com/rocecn/rocecn/internal/answer"
	"github.com/rocecn/rocecn/rocev2"
)

// Config is the configuration of the messages that a deployment sends.
// Carriage.Checksum has no effect.
type Config struct {
	Carriage rocev2.Carriage
	// NoChecksum6 sends UDP checksum 0 over IPv6, for nodes that cannot compute
	// it. The receiver must accept 0 on this port (RFC 6935 section 5).
	NoChecksum6 bool
	Port        uint16 // UDP destination port; 0 stands for Port
}

// AppendPacket appends the message as a complete IP packet from src to dst,
// both IPv4 or both IPv6. It shortens Invoking so that
// the packet has at most 576 octets over IPv4 or 1280 over IPv6, including the
// IP header (D9). It rejects addresses, including those of the five-tuple, that
// rocev2.CheckAnswerable rejects, with rocev2.ErrNotReachable.
func (m *Message) AppendPacket(b []byte, src, dst netip.Addr, cfg Config) ([]byte, error) {
	if err := m.rangeError(); err != nil {
		return b, err
	}
	if rocev2.CheckAnswerable(m.Src) != nil || rocev2.CheckAnswerable(m.Dst) != nil {
		return b, rocev2.ErrNotReachable
	}
	d := rocev2.Datagram{DstPort: cfg.Port}
	if d.DstPort == 0 {
		d.DstPort = Port
	}
	cfg.Carriage.Checksum = !cfg.NoChecksum6 || dst.Is4()
	if err := answer.Carry(&d, src, dst, &cfg.Carriage); err != nil {
		return b, err
	}
	short := *m
	short.TruncateInvoking(dst)
	data, err := short.AppendBinary(make([]byte, 0, answer.ProxyIPv6)) // on the stack
	if err != nil {
		return b, err
	}
	d.Data = data
	return d.AppendBinary(b)
}

// TruncateInvoking shortens Invoking so that the IP packet to dst has at most 576 octets
// over IPv4 or 1280 over IPv6 (D9), without IPv6 extension headers. Call it
// before sending the message through a UDP socket; AppendPacket shortens
// Invoking itself. An IPv4-mapped dst is IPv4.
func (m *Message) TruncateInvoking(dst netip.Addr) {
	free := answer.ProxyIPv6 - 40 - 8
	if dst.Is4() || dst.Is4In6() {
		free = answer.ProxyIPv4 - 20 - 8
	}
	m.Invoking = m.Invoking[:min(len(m.Invoking), free-m.layout().size)]
}

// For returns the message about a congested packet to a proxy. The flow may be
// of any protocol. The five-tuple is that of the flow inside the packet's
// tunnels, as the draft requires. Invoking, which aliases the frame, is the
// packet as the node received it, from its outermost IP header on, including
// tunnels; the draft leaves this open.
//
// Before sending the message through a UDP socket, call [Message.TruncateInvoking]. For
// rejects packets that [rocev2.Frame.MayAnswer] rejects, and FCN and proxy
// messages to the experimental ports, with rocev2.ErrNotification.
func For(congested *rocev2.Frame, level uint8) (Message, error) { return about(congested, level, 0) }

// about is For that also rejects proxy messages to this port.
func about(congested *rocev2.Frame, level uint8, port uint16) (Message, error) {
	if err := answer.CheckFrame(congested, port); err != nil {
		return Message{}, err
	}
	flow, err := congested.FiveTuple()
	return Message{FiveTuple: flow, Level: level, Invoking: congested.Outer().IP()}, err
}

// AppendFor appends the message of [For] as a complete IP packet from src, the
// congested node, to proxy. If one of the addresses, including the two of the
// flow, is unreachable, the error is rocev2.ErrNotReachable; other errors are
// those of [For]. AppendFor also rejects messages to cfg.Port. It does not
// recognize FCNs to a port other than fcn.Port: pass such a port to
// [rocev2.Frame.MayAnswer] first. On error it returns b unchanged.
func AppendFor(b []byte, congested *rocev2.Frame, src, proxy netip.Addr, level uint8, cfg Config) ([]byte, error) {
	m, err := about(congested, level, cfg.Port)
	if err != nil {
		return b, err
	}
	return m.AppendPacket(b, src, proxy, cfg)
}
