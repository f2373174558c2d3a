// Code generated from rocelayers/udp.go by rocelayers/genfork; DO NOT EDIT.

package rocelayers

import (
	"cmp"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocev2"
)

// UDP is gopacket's UDP layer for a [Stack]: the ports of the Stack's Config
// lead to the messages of this package, without [Register]. In contrast to
// gopacket's only the destination port does, so that traffic which happens to
// come from one of these ports is not taken for a message.
//
// Where gopacket asks for a *layers.UDP, that is &l.UDP.
type UDP struct {
	layers.UDP

	config *message.Config // of the Stack; nil outside one
}

// NextLayerType returns the type that the destination port leads to, and for unknown ports the type that gopacket's
// layer returns.
func (l *UDP) NextLayerType() gopacket.LayerType {
	if t := leadsTo(l.config, l.DstPort); t != gopacket.LayerTypePayload {
		return t
	}
	t := l.UDP.NextLayerType() // goes by the source port, too
	if isOurs(t) {
		return gopacket.LayerTypePayload
	}
	return t
}

// leadsTo returns the type of the layers after a UDP header with a destination port: in a Stack according to its
// configuration, otherwise according to Register and the similar functions.
func leadsTo(c *message.Config, port layers.UDPPort) gopacket.LayerType {
	if c == nil {
		return port.LayerType()
	}
	switch p := uint16(port); {
	case p == rocev2.Port:
		return LayerTypeBTH
	case !c.NoFCN && p == cmp.Or(c.FCNPort, fcn.Port):
		return LayerTypeFCN
	case !c.NoProxy && p == cmp.Or(c.ProxyPort, proxymsg.Port):
		return LayerTypeProxy
	}
	if t := port.LayerType(); !isOurs(t) {
		return t
	}
	return gopacket.LayerTypePayload
}

// isOurs reports whether UDP ports lead to layers of this type and this package defines the type.
func isOurs(t gopacket.LayerType) bool {
	return t == LayerTypeBTH || t == LayerTypeFCN || t == LayerTypeProxy
}

// inUDP is embedded in the layers of messages that fill the data of a UDP datagram.
type inUDP struct {
	udp    *layers.UDP  // the layer that carries the message; nil: data is the whole UDP data
	ipv6   *layers.IPv6 // the IP layers before it, if known; in a Stack one may be left over from an earlier packet
	ipv4   *layers.IPv4
	config *message.Config // of the Stack; nil for the defaults, as in NewPacket
}

// setBefore sets the layers before l, in wire order.
func (l *inUDP) setBefore(before []gopacket.Layer) {
	l.udp = last[*layers.UDP](before)
	l.ipv6, l.ipv4 = innermostIP(before)
}

// cutAfterIPv6 returns the octets of data up to the end of its IPv6 packet. google/gopacket passes on octets after a
// packet that has a Hop-by-Hop header.
func (l *inUDP) cutAfterIPv6(data []byte) []byte {
	if !endsEarly(l.ipv6) {
		return data
	}
	at := indexOf(l.ipv6.Payload, data)
	if at < 0 || l.ipv4 != nil && indexOf(l.ipv4.Payload, data) >= 0 {
		return data
	}
	return data[:min(max(endOf(l.ipv6)-at, 0), len(data))]
}

// endsEarly reports whether octets after an IPv6 packet are in the Payload of its layer.
func endsEarly(ip *layers.IPv6) bool {
	return ip != nil && ip.HopByHop != nil && ip.Length != 0 && len(ip.Payload) > endOf(ip)
}

// endOf returns the end of an IPv6 packet with a Hop-by-Hop header in the Payload of its layer, which is after that
// header.
func endOf(ip *layers.IPv6) int { return int(ip.Length) - ip.HopByHop.ActualLength }

// indexOf returns the index of the octet of payload at which data, a part of the same frame, begins, or -1.
func indexOf(payload, data []byte) int {
	if at := cap(payload) - cap(data); len(data) > 0 && at >= 0 && at < len(payload) && &payload[at] == &data[0] {
		return at
	}
	return -1
}

// decodeInUDP is [decodeAs] for these layers.
func decodeInUDP[T any, P interface {
	layer[T]
	setBefore([]gopacket.Layer)
}](data []byte, p gopacket.PacketBuilder) error {
	l, before := P(new(T)), layersBefore(p)
	if fromOurPort(last[*layers.UDP](before), l.LayerType()) {
		return p.NextDecoder(gopacket.LayerTypePayload)
	}
	l.setBefore(before)
	return decodeInto(l, data, p)
}

// udpLength returns the length field of the UDP header before data, or the value that it must have if there is no
// header. The layer is of type t.
func udpLength(udp *layers.UDP, c *message.Config, t gopacket.LayerType, data []byte,
	df gopacket.DecodeFeedback) (uint16, error) {
	n := len(data) + 8
	switch {
	case udp == nil && truncated(df):
		return 0, errUDPTruncated
	case udp == nil && n > 0xFFFF:
		return 0, wireerr.TooLong
	case udp == nil:
		return uint16(n), nil
	case leadsTo(c, udp.DstPort) != t:
		return 0, rocev2.ErrPort
	case int(udp.Length) < n: // gopacket takes 0 for a jumbogram
		return 0, errUDPLength
	}
	return udp.Length, nil
}

// fromOurPort reports whether gopacket found a layer of type t by the source port: other traffic that happens to come
// from one of our ports.
func fromOurPort(udp *layers.UDP, t gopacket.LayerType) bool {
	return udp != nil && udp.DstPort.LayerType() != t
}

// truncated reports whether an earlier layer found the packet truncated.
func truncated(df gopacket.DecodeFeedback) bool {
	switch df := df.(type) {
	case *gopacket.DecodingLayerParser:
		return df.Truncated
	case gopacket.Packet:
		return df.Metadata().Truncated
	}
	return false
}
