package fcn

import (
	"encoding/binary"
	"net/netip"

	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/rocev2"
)

// Config says how an FCN is carried. The UDP checksum is always computed,
// whatever Carriage says.
type Config struct {
	rocev2.Carriage
	Port uint16 // UDP destination port; 0 stands for 1021
	// CopyLabel puts the message's flow label into its own IPv6 header too, as
	// the draft allows, instead of Carriage.FlowLabel.
	CopyLabel bool
}

// Why AppendFor sends nothing.
var (
	ErrNotIPv6       = wireerr.Old("fcn: the congested packet has no outer IPv6 header: 40 octets of one needed", wireerr.Malformed)
	ErrNotECNCapable = wireerr.Old("fcn: the outer header of the congested packet is not ECN-capable")
)

// AppendPacket appends the message as a whole IP packet, IPv4 or IPv6 as the
// addresses are, with its UDP checksum.
func (m Message) AppendPacket(b []byte, src, dst netip.Addr, cfg Config) ([]byte, error) {
	var data [Size]byte
	if _, err := m.AppendBinary(data[:0]); err != nil {
		return b, err
	}
	cfg.Checksum = true
	if cfg.Port == 0 {
		cfg.Port = Port
	}
	d := rocev2.Datagram{Src: src, Dst: dst, DstPort: cfg.Port, Data: data[:]}
	if err := cfg.Apply(&d); err != nil {
		return b, err
	}
	if cfg.CopyLabel {
		d.FlowLabel = m.FlowLabel
	}
	return d.AppendBinary(b)
}

// AppendFor appends the FCN with which the node at src answers a congested
// packet: to the source address of its outer IPv6 header, the
// ingress PE, with the flow label of that header. congested begins with the
// outer IPv6 header, as rocev2.Flow.Outermost does; what it carries, and how much of it is there, does not
// matter. If its ECN field says that the flow is not ECN-capable, nothing is
// to be sent: ErrNotECNCapable.
func AppendFor(b, congested []byte, src netip.Addr, level uint8, cfg Config) ([]byte, error) {
	if len(congested) < 40 || congested[0]>>4 != 6 {
		return b, ErrNotIPv6
	}
	first := binary.BigEndian.Uint32(congested)
	if first>>20&3 == 0 {
		return b, ErrNotECNCapable
	}
	m := Message{FlowLabel: first & MaxFlowLabel, Level: level}
	return m.AppendPacket(b, src, netip.AddrFrom16([16]byte(congested[8:24])), cfg)
}
