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

// A Flow is the innermost flow in a frame, the one below its mirrors, overlays and other tunnels, one
// inside the other: see [Tunnel]. It is what a congested node tells others about. [Frame.Flow] gives it.
//
// The zero value is ready for any number of Decode calls; they allocate nothing.
type Flow struct {
	// FiveTuple is that of the innermost packet, as [Frame.FiveTuple] has it.
	FiveTuple
	FlowLabel uint32 // of the innermost IP header: 20 bits, IPv6 only

	Tunnels Tunnels // that the packet came in, besides IP in IP

	// The octets of two packets, each up to the end that its IP header's length
	// field gives or as far as the capture goes; they alias the input. Without
	// tunnels the two are one.
	Outermost []byte // from the outermost IP header on, as the node saw it
	IP        []byte // the innermost packet, the flow's own
}

var errTCPHeader = wireerr.New("rocev2", "TCP header", 4,
	"truncated: 4 octets of ports needed", wireerr.Truncated)

// DecodeFrame sets f from an Ethernet II frame: plain, 802.1Q, 802.1ad or
// stacked tags, MPLS labels. f aliases b.
func (f *Flow) DecodeFrame(b []byte) error { return f.Decode(b, DecodeOptions{}) }

// DecodeIP sets f from an IPv4 or IPv6 packet. f aliases b.
func (f *Flow) DecodeIP(b []byte) error { return f.Decode(b, DecodeOptions{Link: LinkIP}) }

// Decode sets f from the octets that o describes. f aliases b. It fails as [Frame.FiveTuple] does; f is
// then unchanged.
func (f *Flow) Decode(b []byte, o DecodeOptions) error {
	var frame Frame
	_ = frame.Decode(b, o) // Flow says what its error would
	return frame.Flow(f)
}

// Flow sets to from the innermost packet. It fails as FiveTuple does; to is then unchanged.
func (f *Frame) Flow(to *Flow) error {
	t, err := f.FiveTuple()
	if err != nil {
		return err
	}
	*to = Flow{t, f.FlowLabel(), f.Tunnels(), f.Outermost(), f.IP()}
	return nil
}
