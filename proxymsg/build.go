package proxymsg

import (
	"net/netip"

	"github.com/rocecn/rocecn/rocev2"
)

// The largest IP packet that carries a message. The draft limits "the UDP
// packet"; here the IP header counts too, the stricter reading (D9).
const (
	maxPacketIPv4 = 576
	maxPacketIPv6 = 1280
)

// Config is what a deployment chooses of the messages that it sends. The UDP
// checksum is always computed, whatever Carriage says.
type Config struct {
	Carriage rocev2.Carriage
	Port     uint16 // UDP destination port; 0 stands for ExperimentalPort
}

// AppendPacket appends the message as a whole IP packet from src to dst, both
// IPv4 or both IPv6, with its UDP checksum. Of Invoking it sends as much
// as fits into 576 octets of IPv4 or 1280 of IPv6, IP header included (D9).
func (m *Message) AppendPacket(b []byte, src, dst netip.Addr, cfg Config) ([]byte, error) {
	if src.Is4In6() || dst.Is4In6() {
		return b, rocev2.ErrMapped
	}
	d := rocev2.Datagram{Src: src, Dst: dst, DstPort: cfg.Port}
	if d.DstPort == 0 {
		d.DstPort = ExperimentalPort
	}
	cfg.Carriage.Checksum = true
	if err := cfg.Carriage.Apply(&d); err != nil {
		return b, err
	}
	cut := *m
	cut.Cut(dst)
	data, err := cut.AppendBinary(make([]byte, 0, maxPacketIPv6)) // on the stack
	if err != nil {
		return b, err
	}
	d.Data = data
	return d.AppendBinary(b)
}

// Cut shortens Invoking to what fits into the largest packet that may carry m
// to dst, over IPv4 or over IPv6 without extension headers (D9), for those who
// send the message through a UDP socket. An IPv4-mapped dst is IPv4. AppendPacket
// does it by itself.
func (m *Message) Cut(dst netip.Addr) {
	room := maxPacketIPv6 - 40 - 8
	if dst.Is4() || dst.Is4In6() {
		room = maxPacketIPv4 - 20 - 8
	}
	m.Invoking = m.Invoking[:min(len(m.Invoking), room-m.layout().size)]
}

// For returns the message with which a congested node tells a proxy that a
// packet met congestion: the flow below the packet's tunnels, and as the
// invoking packet, which it aliases, the packet itself from its outermost IP
// header on, tunnels included, as the node received it. The draft takes the
// five-tuple from below the tunnels and says no such thing of the invoking
// packet.
//
// To send it through a UDP socket, Cut it first. The flow may be of any
// protocol; [rocev2.Frame.MayAnswer] says which packets nothing is to be said about.
// The error is that of [rocev2.Frame.FiveTuple], for a frame without a flow.
func For(congested *rocev2.Frame, level uint8) (Message, error) {
	flow, err := congested.FiveTuple()
	if err != nil {
		return Message{}, err
	}
	return Message{FiveTuple: flow, Level: level, Invoking: congested.Outermost()}, nil
}

// AppendFor appends what [For] says, from the congested node at src to a proxy, as
// a whole IP packet. The flow's source must be such that it can be answered, and
// both the proxy and src such that others can reach them: rocev2.ErrNotReachable.
// What [rocev2.Frame.MayAnswer] refuses is refused.
func AppendFor(b []byte, congested *rocev2.Frame, src, proxy netip.Addr, level uint8, cfg Config) ([]byte, error) {
	m, err := For(congested, level)
	if err != nil {
		return b, err
	}
	for _, a := range [...]netip.Addr{m.Src, proxy, src} {
		if err := rocev2.Answerable(a); err != nil {
			return b, err
		}
	}
	if err := congested.MayAnswer(); err != nil {
		return b, err
	}
	return m.AppendPacket(b, src, proxy, cfg)
}
