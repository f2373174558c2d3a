package rocelayers

import (
	"slices"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/rocev2"
)

// The packet around a BTH: the ICRC covers it, and its extension headers distinguish a Fast CNP from a CNP. The BTH
// layer finds the packet through its IP layers.
//
// A parser decodes into the same layers again and again, so an IP layer may be left over from an earlier packet. Its
// slices then show the present content of that buffer. So a layer is used only if the octets that it was decoded from
// lead, header by header, to the very octets of the BTH.

// VerifyICRC checks the ICRC of the packet that l was decoded from and returns
// the coverage that matches (D1): as sent; without extension headers, as when
// a node on the way inserted them; or skipping them. It sets ICRC.Coverage to
// that, so that [SerializeLayers] computes the ICRC as the sender did.
// rocecn.ErrICRC is a wrong ICRC; other errors are those of a packet that has
// none to check: truncated by the capture, decoded without the IP layers. They leave
// ICRC.Coverage unchanged. It allocates nothing. Goroutines that share a layer
// use the function [VerifyICRC].
func (l *BTH) VerifyICRC() (icrc.Coverage, error) {
	c, err := l.verifyICRC()
	if err == nil && c != l.ICRC.Coverage { // most often nothing is written
		l.ICRC.Coverage = c
	}
	return c, err
}

func (l *BTH) verifyICRC() (icrc.Coverage, error) {
	if len(l.Contents) > 0 && l.ip != nil {
		return icrc.Verify(l.ip)
	}
	var d rocev2.Datagram
	ip, err := l.around(l.Contents, &d)
	if err != nil {
		return icrc.AsSent, err
	}
	return icrc.Verify(ip)
}

// VerifyICRC checks the ICRC of a decoded packet, as [BTH.VerifyICRC] of its BTH layer does, but sets nothing, so that
// goroutines may share a packet of gopacket. A packet without a BTH is an error. A BTH after a [Proxy] is not used,
// because it belongs to another packet.
func VerifyICRC(p gopacket.Packet) (icrc.Coverage, error) {
	for _, l := range p.Layers() {
		switch l := l.(type) {
		case *BTH:
			return l.verifyICRC()
		case *Proxy:
			return icrc.AsSent, errNoBTH
		}
	}
	return icrc.AsSent, errNoBTH
}

// around returns the innermost IP packet around the octets of a BTH, as far as it was captured, possibly with octets
// after its end. It sets d if the packet has IPv4 options or IPv6 extension headers.
func (l *BTH) around(octets []byte, d *rocev2.Datagram) ([]byte, error) {
	if len(octets) == 0 {
		return nil, errNoIP // nothing was decoded
	}
	at := &octets[0]
	ip6 := octets6(l.IPv6)
	if plain6(ip6, at) {
		return ip6, nil
	}
	ip4 := octets4(l.IPv4)
	if plain4(ip4, at) {
		return ip4, nil
	}
	if reach(ip6, 6, at, d) || reach(ip4, 4, at, d) {
		return d.IP, nil
	}
	return nil, errNoIP
}

// plain6 and plain4 report whether an IP packet without extension headers or options leads to the UDP data that begins
// at an octet.
func plain6(ip []byte, at *byte) bool {
	return len(ip) > 40+8 && wire.IsIPv6(ip) && ip[6] == uint8(layers.IPProtocolUDP) && &ip[40+8] == at
}

func plain4(ip []byte, at *byte) bool {
	return len(ip) > 20+8 && ip[0] == 0x45 && ip[9] == uint8(layers.IPProtocolUDP) && &ip[20+8] == at
}

// reach decodes an IP packet of this version into d, with the walk of package rocev2, and reports whether the UDP data
// begins at the octet at.
func reach(ip []byte, version uint8, at *byte, d *rocev2.Datagram) bool {
	return len(ip) > 0 && wire.VersionField(ip) == version &&
		d.Decode(ip, rocev2.DecodeOptions{Link: rocev2.LinkIP, AllowTruncated: true}) == nil &&
		len(d.Data) > 0 && &d.Data[0] == at
}

// packet sets p to the packet around l.
func (l *BTH) packet(p *rocev2.Packet) error {
	ip, err := l.around(l.Contents, &p.Datagram)
	if err != nil {
		return err
	}
	if len(p.Data) == 0 {
		if err := p.Datagram.Decode(ip, rocev2.DecodeOptions{Link: rocev2.LinkIP, AllowTruncated: true}); err != nil {
			return err
		}
	}
	return p.DecodeDatagram(&p.Datagram)
}

// octets4 and octets6 return the IP packet that a layer was decoded from, as far as it was captured, possibly with
// octets after its end, or nil without a layer. gopacket slices layers out of one frame, so the octets after an IP
// header are in the capacity of its Contents.
func octets4(ip *layers.IPv4) []byte {
	if ip == nil {
		return nil
	}
	return upTo(ip.Contents, len(ip.Contents)+len(ip.Payload))
}

func octets6(ip *layers.IPv6) []byte {
	if ip == nil {
		return nil
	}
	n := len(ip.Contents) + len(ip.Payload)
	if ip.HopByHop != nil { // in neither
		n += len(ip.HopByHop.Contents)
	}
	return upTo(ip.Contents, n)
}

func upTo(header []byte, n int) []byte {
	if len(header) == 0 || n > cap(header) {
		return nil
	}
	return header[:n]
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

// innermostIP returns the last IP layer; the result of the other version is nil.
func innermostIP(before []gopacket.Layer) (*layers.IPv6, *layers.IPv4) {
	for _, l := range slices.Backward(before) {
		switch ip := l.(type) {
		case *layers.IPv4:
			return nil, ip
		case *layers.IPv6:
			return ip, nil
		}
	}
	return nil, nil
}
