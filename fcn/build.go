package fcn

import (
	"net/netip"

	"github.com/rocecn/rocecn/internal/answer"
	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/rocev2"
)

// Config is the configuration of the FCNs that a deployment sends.
// Carriage.Checksum has no effect.
type Config struct {
	Carriage rocev2.Carriage
	// NoChecksum6 sends UDP checksum 0 over IPv6, for nodes that cannot compute
	// it. The receiver must accept 0 on this port (RFC 6935 section 5).
	NoChecksum6 bool
	Port        uint16 // UDP destination port; 0 stands for Port
	// CopyLabel also writes the message's flow label to its own IPv6 header, as
	// the draft allows, instead of Carriage.FlowLabel.
	CopyLabel bool
}

// Errors of For and AppendFor.
var (
	ErrNotTunnelled = wireerr.New("fcn", "congested packet", "not in a tunnel with an outer IPv6 header",
		wireerr.Other)
	ErrNotECNCapable = wireerr.New("fcn", "congested packet", "its outer header is not ECN-capable", wireerr.Other)
	errFlowLabelZero = wireerr.New("fcn", "Flow Label", "0, which identifies no flow", wireerr.Malformed)
	errOwn           = wireerr.New("fcn", "congested packet", "its outer source is the node's own address",
		wireerr.Other)
)

// AppendPacket appends the message as a complete IP packet from src to dst, both
// IPv4 or both IPv6. It rejects addresses that
// rocev2.CheckAnswerable rejects, with rocev2.ErrNotReachable.
func (m Message) AppendPacket(b []byte, src, dst netip.Addr, cfg Config) ([]byte, error) {
	var data [Size]byte
	if _, err := m.AppendBinary(data[:0]); err != nil {
		return b, err
	}
	cfg.Carriage.Checksum = !cfg.NoChecksum6 || dst.Is4()
	if cfg.Port == 0 {
		cfg.Port = Port
	}
	d := rocev2.Datagram{DstPort: cfg.Port, Data: data[:]}
	if err := answer.Carry(&d, src, dst, &cfg.Carriage); err != nil {
		return b, err
	}
	if cfg.CopyLabel {
		d.FlowLabel = m.FlowLabel
	}
	return d.AppendBinary(b)
}

// For returns the message of a congested node about a packet, for a program
// that sends it through a UDP socket to the outer source of the packet,
// congested.Outer().Src(). The message has the flow label of the outer header
// and this congestion level, 1 to 7, or 0 if the field is not used. The tunnel
// may carry any protocol.
//
// For rejects
//   - packets without an outer IPv6 header, with [ErrNotTunnelled]
//   - packets with an outer header that is not ECN-capable, with
//     [ErrNotECNCapable]
//   - packets with flow label 0, with an error that matches rocecn.ErrMalformed
//     (FCN section 4.1)
//   - packets that rocev2.Frame.MayAnswer rejects
//   - FCN and proxy messages to the experimental ports, with
//     rocev2.ErrNotification
//   - a level over 7, with an error that matches rocecn.ErrRange
func For(congested *rocev2.Frame, level uint8) (Message, error) {
	m, _, err := about(congested, level, 0)
	return m, err
}

// about is For that also rejects FCN messages to this port, and returns the
// outer source of the packet.
func about(congested *rocev2.Frame, level uint8, port uint16) (m Message, pe netip.Addr, err error) {
	ip := congested.Outer().IP()
	if pe, _ = wire.Addresses(ip); !congested.Tunnelled() || !pe.Is6() {
		return m, pe, ErrNotTunnelled
	}
	label := wire.FlowLabel(ip)
	switch {
	case rocev2.ECN(wire.TrafficClass(ip)&3) == rocev2.NotECT:
		return m, pe, ErrNotECNCapable
	case label == 0:
		return m, pe, errFlowLabelZero
	}
	if err := answer.CheckFrame(congested, port); err != nil {
		return m, pe, err
	}
	m = Message{FlowLabel: label, Level: level}
	return m, pe, m.rangeError()
}

// AppendFor appends the message of [For] as a complete IP packet from src, the
// congested node, to the ingress PE, the source of the packet's outer IPv6
// header. On error it returns b unchanged. The errors are those of [For] and
//   - an error that matches rocecn.ErrOther if the ingress PE is the node
//     itself
//   - rocev2.ErrNotReachable if an address is unreachable
//
// AppendFor also rejects messages to cfg.Port. It does not recognize proxy
// messages to a port other than proxymsg.Port: pass such a port to
// [rocev2.Frame.MayAnswer] first.
func AppendFor(b []byte, congested *rocev2.Frame, src netip.Addr, level uint8, cfg Config) ([]byte, error) {
	m, pe, err := about(congested, level, cfg.Port)
	if err != nil {
		return b, err
	}
	if pe == src {
		return b, errOwn
	}
	return m.AppendPacket(b, src, pe, cfg)
}
