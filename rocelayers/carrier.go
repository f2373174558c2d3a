package rocelayers

import (
	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/rocev2"
)

var (
	errUDPLength = wireerr.New("rocelayers", "UDP length", 0, "below the octets there", wireerr.Malformed)
	errPadding   = wireerr.New("rocelayers", "Padding", 0, "not as many octets as the BTH's pad count says", wireerr.Range)
)

// What the layers of messages know about the layers that carry them.

// udpLength returns the length field of the UDP header before data, or what it
// must be when there is none to look at. The layer is of type t.
func udpLength(udp *layers.UDP, t gopacket.LayerType, data []byte, df gopacket.DecodeFeedback) (uint16, error) {
	n := len(data) + 8
	switch {
	case udp == nil && truncated(df):
		return 0, ErrCut
	case udp == nil && n > 0xFFFF:
		return 0, rocev2.ErrTooLong
	case udp == nil:
		return uint16(n), nil
	case !meant(udp, t):
		return 0, rocev2.ErrPort
	case int(udp.Length) < n: // gopacket takes 0 for a jumbogram
		return 0, errUDPLength
	}
	return udp.Length, nil
}

// meant tells whether the destination port leads to layers of type t, where
// there is a port to look at. gopacket also goes by the source port, for other
// traffic that happens to come from one of our ports.
func meant(udp *layers.UDP, t gopacket.LayerType) bool {
	return udp == nil || udp.DstPort.LayerType() == t
}

// truncated tells whether a layer before has found the packet cut.
func truncated(df gopacket.DecodeFeedback) bool {
	switch df := df.(type) {
	case *gopacket.DecodingLayerParser:
		return df.Truncated
	case gopacket.Packet:
		return df.Metadata().Truncated
	}
	return false
}

// layersBefore returns the layers that a packet has so far.
func layersBefore(p gopacket.PacketBuilder) []gopacket.Layer {
	if packet, ok := p.(gopacket.Packet); ok {
		return packet.Layers()
	}
	return nil
}

// last returns the last layer if it is a T, otherwise nil.
func last[T gopacket.Layer](before []gopacket.Layer) (l T) {
	if len(before) > 0 {
		l, _ = before[len(before)-1].(T)
	}
	return l
}

// ipv6Around returns the last IPv6 layer, nil if there is none.
func ipv6Around(before []gopacket.Layer) *layers.IPv6 {
	for i := len(before) - 1; i >= 0; i-- {
		if l, ok := before[i].(*layers.IPv6); ok {
			return l
		}
	}
	return nil
}
