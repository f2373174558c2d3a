package proxymsg

import (
	"net/netip"

	"github.com/rocecn/rocecn/rocev2"
)

// The largest IP packet that carries a message. D9: the draft limits "the UDP
// packet"; here the IP header counts too, the stricter reading.
const (
	maxPacketIPv4 = 576
	maxPacketIPv6 = 1280
)

// Config says how a message is carried. The UDP checksum is always computed,
// whatever Carriage says.
type Config struct {
	rocev2.Carriage
	Port uint16 // UDP destination port; 0 stands for 1022
}

// AppendPacket appends the message as a whole IP packet, IPv4 or IPv6 as src
// and dst are, with its UDP checksum. Of Invoking it sends as much as fits
// into 576 octets of IPv4 or 1280 of IPv6, IP header included (D9).
func (m *Message) AppendPacket(b []byte, src, dst netip.Addr, cfg Config) ([]byte, error) {
	d := rocev2.Datagram{Src: src, Dst: dst, DstPort: cfg.Port}
	if d.DstPort == 0 {
		d.DstPort = Port
	}
	cfg.Checksum = true
	if err := cfg.Apply(&d); err != nil {
		return b, err
	}
	cut := *m
	cut.Cut(src.Is4())
	data, err := cut.AppendBinary(make([]byte, 0, maxPacketIPv6)) // on the stack
	if err != nil {
		return b, err
	}
	d.Data = data
	return d.AppendBinary(b)
}

// Cut shortens Invoking to what fits into the largest packet that may carry m,
// over IPv4 or over IPv6 without extension headers (D9), for those who send
// the message through a UDP socket. AppendPacket does it by itself.
func (m *Message) Cut(overIPv4 bool) {
	room := maxPacketIPv6 - 40 - 8
	if overIPv4 {
		room = maxPacketIPv4 - 20 - 8
	}
	m.Invoking = m.Invoking[:min(len(m.Invoking), room-m.layout().size)]
}

// AppendFor appends the message with which the node at src tells a proxy that
// a packet met congestion: the flow below the packet's tunnels, and as the
// invoking packet the packet itself from its outermost IP header on, tunnels
// included, as the node received it. The draft takes the five-tuple from below
// the tunnels and says no such thing of the invoking packet.
func AppendFor(b []byte, congested *rocev2.Flow, src, proxy netip.Addr, level uint8, cfg Config) ([]byte, error) {
	m := Message{FiveTuple: congested.FiveTuple, Level: level, Invoking: congested.Outermost}
	return m.AppendPacket(b, src, proxy, cfg)
}
