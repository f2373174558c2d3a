package rocev2

import (
	"net/netip"

	"github.com/rocecn/rocecn/internal/wireerr"
)

// A FiveTuple names a flow.
type FiveTuple struct {
	Src, Dst         netip.Addr
	Protocol         uint8  // 6 TCP, 17 UDP and with it RoCEv2
	SrcPort, DstPort uint16 // 0 where the protocol is neither TCP nor UDP
}

// A Flow is the innermost flow in a packet, the one below its mirrors, overlays
// and other tunnels, one inside the other: see [Tunnel].
//
// Where a tunnel hides a RoCEv2 packet from [Packet], which follows IP in IP
// alone, p.DecodeIP(f.IP) reads it.
//
// The zero value is ready for any number of Decode calls; they allocate
// nothing.
type Flow struct {
	// FiveTuple is that of the innermost IP packet. Where a type 4 Routing
	// header stands in that packet itself (SRv6 without encapsulation) and its
	// Segments Left is not 0, Dst is the final destination, Segment List[0]:
	// the address that the flow's sender and receiver know, and the one that
	// its checksum and ICRC are computed with.
	FiveTuple
	FlowLabel uint32 // of the innermost IP header: 20 bits, IPv6 only

	Tunnels Tunnels // that the packet came in, besides IP in IP

	// The octets of two packets, each up to the end that its IP header's length
	// field gives or as far as the capture goes; they alias the input. Without
	// tunnels the two are one.
	Outermost []byte // from the outermost IP header on, as the node saw it
	IP        []byte // the innermost packet, the flow's own
}

var errTCPHeader = wireerr.New("rocev2", "TCP header", 4, "truncated: 4 octets of ports needed", wireerr.Truncated)

// DecodeFrame sets f from an Ethernet II frame: plain, 802.1Q, 802.1ad or
// stacked tags, MPLS labels. f aliases b.
func (f *Flow) DecodeFrame(b []byte) error { return f.Decode(b, DecodeOptions{}) }

// DecodeIP sets f from an IPv4 or IPv6 packet. f aliases b.
func (f *Flow) DecodeIP(b []byte) error { return f.Decode(b, DecodeOptions{Link: LinkIP}) }

// Decode sets f from the octets that o describes. f aliases b. On error f is
// unchanged.
//
// It is the walk of D12, and besides IP in IP it goes on through what [Tunnel]
// names: ERSPAN and others in GRE, VXLAN on UDP port 4789, Geneve on 6081, MPLS
// labels behind Ethernet, IP and UDP port 6635, Ethernet in IP. As there, at
// most 4 IP headers stand inside the outermost one, whatever is between them. A
// tunnel that carries no IP is an error: the tuple of the tunnel itself would
// name the wrong sender. So are fragments, the first one too, which has ports,
// as the others of its flow have none. In any other protocol the flow has no
// ports.
func (f *Flow) Decode(b []byte, o DecodeOptions) error {
	var frame Frame
	frame.Decode(b, o)
	t, err := frame.FiveTuple()
	if err != nil {
		return err
	}
	*f = Flow{FiveTuple: t, FlowLabel: frame.FlowLabel(), Tunnels: frame.Tunnels(), Outermost: frame.Outermost(), IP: frame.IP()}
	return nil
}
