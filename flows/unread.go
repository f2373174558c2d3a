package flows

import (
	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/rocev2"
)

// findUnread returns the header at which decoding of a frame of other traffic stopped, or 0 if the
// frame is no RoCE for certain: traffic of well-known protocols, and UDP without a packet of RoCEv2
// inside.
func (d *Decoder) findUnread() unreadHeader {
	ether := d.f.EtherType()
	if h := d.f.Inner().EthernetHeader(); len(h) >= 14 { // of the frame in a mirror or tunnel
		ether = be.Uint16(h[len(h)-2:])
	}
	switch {
	case ether != wire.EtherIPv4 && ether != wire.EtherIPv6 && ether != 0:
		if ether < 0x600 || plainEtherTypes[ether] { // a length
			return 0
		}
		return unreadEtherType | unreadHeader(ether)
	}
	ip := d.f.Inner().IP()
	if wire.Version(ip) == 0 {
		return 0
	}
	proto, payload := findPayload(ip)
	switch {
	case len(payload) < 8:
		return 0
	case proto == wire.ProtoGRE:
		return unreadGRE | unreadHeader(be.Uint16(payload[2:]))
	case proto == wire.ProtoUDP:
		if port := wire.DstPort(payload); port != rocev2.Port && port != sflowPort && containsRoCE(payload[8:]) {
			return unreadUDPPort | unreadHeader(port)
		}
		return 0
	case plainProtocols[proto]:
		return 0
	}
	return unreadIPProtocol | unreadHeader(proto)
}

// plainEtherTypes are protocols of links and networks that carry no IP packets.
var plainEtherTypes = map[uint16]bool{
	0x0806: true, // ARP
	0x22F0: true, // AVTP
	0x8035: true, // RARP
	0x8808: true, // MAC control
	0x8809: true, // slow protocols, such as LACP
	0x888E: true, // 802.1X
	0x8892: true, // PROFINET
	0x88A2: true, // ATA over Ethernet
	0x88CC: true, // LLDP
	0x88F7: true, // PTP
	0x8902: true, // CFM
	0x8906: true, // FCoE
	0x8914: true, // FIP
	0x9000: true, // loopback
}

// plainProtocols are IP protocols that carry no IP packets.
var plainProtocols = [256]bool{
	1: true, 2: true, 6: true, 33: true, 46: true, 58: true, 59: true, 88: true, 89: true, 103: true, 112: true,
	113: true, 132: true, 136: true,
}

// findPayload returns the protocol after the IP header and its extension headers, and its octets. For
// a fragment other than the first one it returns no octets.
func findPayload(ip []byte) (proto uint8, payload []byte) {
	if !wire.IsIPv6(ip) {
		n := wire.HeaderLen(ip)
		if len(ip) < max(n, wire.IPv4Size) || be.Uint16(ip[6:])&0x1FFF != 0 {
			return 0, nil
		}
		return ip[9], ip[n:]
	}
	proto, payload = ip[6], ip[wire.IPv6Size:]
	for len(payload) >= 8 {
		switch proto {
		case wire.ProtoHopByHop, wire.ProtoRouting, wire.ProtoDestinationOptions:
			n := 8 * (1 + int(payload[1]))
			if n > len(payload) {
				return 0, nil
			}
			proto, payload = payload[0], payload[n:]
		case wire.ProtoFragment:
			if be.Uint16(payload[2:])&^7 != 0 {
				return 0, nil
			}
			proto, payload = payload[0], payload[8:]
		default:
			return proto, payload
		}
	}
	return 0, nil
}

// sflowPort is the UDP port of sFlow, with samples that contain headers of packets.
const sflowPort = 6343

// searched is the number of octets of a UDP payload that are searched for RoCEv2.
const searched = 128

// containsRoCE reports whether octets contain an IP header without options, followed by a UDP header
// to the port of RoCEv2.
func containsRoCE(b []byte) bool {
	b = b[:min(len(b), searched)]
	for i := wire.IPv4Size; i+4 <= len(b); i += 2 { // i is the UDP header; tunnels have even lengths
		if be.Uint16(b[i+2:]) != rocev2.Port {
			continue
		}
		if h := b[i-wire.IPv4Size:]; h[0] == 0x45 && h[9] == wire.ProtoUDP {
			return true
		}
		if i >= wire.IPv6Size {
			if h := b[i-wire.IPv6Size:]; wire.IsIPv6(h) && h[6] == wire.ProtoUDP {
				return true
			}
		}
	}
	return false
}
