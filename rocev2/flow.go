package rocev2

import (
	"math"
	"math/bits"
	"net/netip"

	"github.com/rocecn/rocecn/internal/wireerr"
)

// A FiveTuple names a flow.
type FiveTuple struct {
	Src, Dst         netip.Addr
	Protocol         uint8  // 6 TCP, 17 UDP and with it RoCEv2
	SrcPort, DstPort uint16 // 0 where the protocol is neither TCP nor UDP
}

// A Flow is the innermost flow in a packet, the one below its tunnels: IP in
// IP, SRv6, VXLAN, MPLS, GRE and Ethernet in IP, one inside the other.
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

	// The octets of two packets, each up to the end that its IP header's length
	// field gives or as far as the capture goes; they alias the input. Without
	// tunnels the two are one.
	Outermost []byte // from the outermost IP header on, as the node saw it
	IP        []byte // the innermost packet, the flow's own
}

// What Flow.Decode refuses, besides what the walk to a Datagram does.
var (
	errTCPHeader = wireerr.New("rocev2", "TCP header", 4, "truncated: 4 octets of ports needed", wireerr.Truncated)
	errVXLAN     = wireerr.New("rocev2", "VXLAN header", 8, "truncated: 8 octets needed", wireerr.Truncated)
	errVNI       = wireerr.New("rocev2", "VXLAN header", 0, "I flag is 0: no network identifier", wireerr.Malformed)
	errLabels    = wireerr.New("rocev2", "MPLS label stack", 4, "truncated: 4 octets a label needed down to the bottom of the stack, and a packet below", wireerr.Truncated)
	errLabelled  = wireerr.New("rocev2", "MPLS label stack", 0, "carries neither IPv4 nor IPv6", wireerr.Other)
	errGRE       = wireerr.New("rocev2", "GRE header", 4, "truncated: 4 octets needed, and 4 for each of checksum, key and sequence number", wireerr.Truncated)
	errGREFlags  = wireerr.New("rocev2", "GRE header", 0, "version is not 0, or flags that RFC 2784 refuses", wireerr.Malformed)
)

// Numbers that tunnels are known by, besides those of walk.go.
const (
	etherBridged  = 0x6558 // an Ethernet frame, in GRE
	etherMPLS     = 0x8847
	etherMPLS2    = 0x8848
	protoTCP      = 6
	protoGRE      = 47
	protoMPLS     = 137 // RFC 4023
	protoEthernet = 143 // RFC 8986
	portVXLAN     = 4789
	portMPLS      = 6635 // RFC 7510
)

// DecodeFrame sets f from an Ethernet II frame: plain, 802.1Q, 802.1ad or
// stacked tags, MPLS labels. f aliases b.
func (f *Flow) DecodeFrame(b []byte) error { return f.Decode(b, DecodeOptions{}) }

// DecodeIP sets f from an IPv4 or IPv6 packet. f aliases b.
func (f *Flow) DecodeIP(b []byte) error { return f.Decode(b, DecodeOptions{Link: LinkIP}) }

// Decode sets f from the octets that o describes. f aliases b. On error f is
// unchanged.
//
// It is the walk of D12, and besides IP in IP it goes on through MPLS labels
// behind Ethernet, IP and UDP port 6635, through VXLAN on UDP port 4789, GRE,
// and Ethernet in IP. As there, at most 4 IP headers stand inside the
// outermost one, whatever is between them. A tunnel that carries no IP is an
// error: the tuple of the tunnel itself would name the wrong sender. So are
// fragments, the first one too, which has ports, as the others of its flow
// have none. In any other protocol the flow has no ports.
func (f *Flow) Decode(b []byte, o DecodeOptions) error {
	at, version, ether, err := linkEnd(b, o.Link)
	if err == errNotIP && isMPLS(ether) {
		at, version, err = labels(b, at)
	}
	limit := len(b) // the end of the packet around the next one
	if o.Cut {
		limit = math.MaxInt
	}
	var p place
	var outermost []byte
	for depth := 0; err == nil; depth++ {
		if depth > maxDepth {
			return errDepth
		}
		var next uint8
		if next, err = p.header(b, at, limit, version); err != nil {
			return err
		}
		if p.lied {
			return errIPLength
		}
		there := b[:min(p.end, len(b))]
		if depth == 0 {
			outermost = there[at:len(there):len(there)]
		}
		at, version, err = p.tunnel(there, next)
		if err == nil && version == 0 {
			return f.set(there, outermost, &p, next)
		}
		limit = p.end
	}
	return err
}

// tunnel returns where the IP header stands that the tunnel at p.udp, of type
// next, carries, and its version; 0 when it is no tunnel. The end of a UDP
// tunnel becomes that of p.
func (p *place) tunnel(b []byte, next uint8) (at int, version uint8, err error) {
	at = p.udp
	switch next {
	case protoIPv4:
		return at, 4, nil
	case protoIPv6:
		return at, 6, nil
	case protoEthernet:
		return frame(b, at)
	case protoMPLS:
		return labels(b, at)
	case protoGRE:
		return gre(b, at)
	case protoFragment:
		return 0, 0, ErrFragment
	case protoUDP:
		if err = p.checkUDP(b, nil); err != nil {
			return 0, 0, err
		}
		end := at + int(be.Uint16(b[at+4:]))
		inner := b[:min(end, len(b))]
		switch be.Uint16(b[at+2:]) {
		case portVXLAN:
			p.end = end
			return vxlan(inner, at+8)
		case portMPLS:
			p.end = end
			return labels(inner, at+8)
		}
	}
	return 0, 0, nil
}

// set sets f from the place of the innermost packet, which b ends with.
func (f *Flow) set(b, outermost []byte, p *place, protocol uint8) error {
	t := FiveTuple{Protocol: protocol}
	if protocol == protoTCP && len(b)-p.udp < 4 {
		return errTCPHeader
	}
	if protocol == protoTCP || protocol == protoUDP {
		ports := b[p.udp : p.udp+4]
		t.SrcPort, t.DstPort = be.Uint16(ports), be.Uint16(ports[2:])
	}
	ip := b[p.ip:len(b):len(b)]
	f.FlowLabel = 0
	if ip[0]>>4 == 6 {
		f.FlowLabel = be.Uint32(ip) & 0xFFFFF
		t.Src = netip.AddrFrom16([16]byte(ip[8:24]))
		t.Dst = netip.AddrFrom16([16]byte(finalDestination(ip, p.udp-p.ip)))
	} else {
		t.Src = netip.AddrFrom4([4]byte(ip[12:16]))
		t.Dst = netip.AddrFrom4([4]byte(ip[16:20]))
	}
	f.FiveTuple, f.Outermost, f.IP = t, outermost, ip
	return nil
}

// frame returns where the IP header in the Ethernet frame at b[at:] stands,
// and its version.
func frame(b []byte, at int) (ip int, version uint8, err error) {
	end, version, ether, err := ethernetEnd(b, at)
	if err == errNotIP && isMPLS(ether) {
		return labels(b, end)
	}
	return end, version, err
}

func isMPLS(ether uint16) bool { return ether == etherMPLS || ether == etherMPLS2 }

// labels returns where the IP header below the MPLS label stack at b[at:]
// stands, and its version, which nothing but the first four bits of the packet
// tells (RFC 3032). S marks the bottom of the stack:
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                 Label                 | TC  |S|      TTL      |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
func labels(b []byte, at int) (ip int, version uint8, err error) {
	for ; len(b)-at > 4; at += 4 {
		if b[at+2]&1 == 0 {
			continue
		}
		version = b[at+4] >> 4
		if version != 4 && version != 6 {
			return 0, 0, errLabelled
		}
		return at + 4, version, nil
	}
	return 0, 0, errLabels
}

// vxlan returns where the IP header in the VXLAN packet at b[at:] stands, and
// its version (RFC 7348). An Ethernet frame follows the header:
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|R|R|R|R|I|R|R|R|                   Reserved                    |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|           VXLAN Network Identifier            |   Reserved    |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
func vxlan(b []byte, at int) (ip int, version uint8, err error) {
	switch {
	case len(b)-at < 8:
		return 0, 0, errVXLAN
	case b[at]&0x08 == 0:
		return 0, 0, errVNI
	}
	return frame(b, at+8)
}

// gre returns where the IP header in the GRE packet at b[at:] stands, and its
// version (RFC 2784, RFC 2890). C, K and S stand for 4 octets each behind the
// first 4: checksum, key, sequence number.
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|C|0|K|S|0 0|    Reserved   |Ver|           EtherType           |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
func gre(b []byte, at int) (ip int, version uint8, err error) {
	if len(b)-at < 4 {
		return 0, 0, errGRE
	}
	flags, ether := be.Uint16(b[at:]), be.Uint16(b[at+2:])
	if flags&0x4C07 != 0 {
		return 0, 0, errGREFlags
	}
	at += 4 + 4*bits.OnesCount16(flags&0xB000)
	if at > len(b) {
		return 0, 0, errGRE
	}
	switch ether {
	case etherIPv4:
		return at, 4, nil
	case etherIPv6:
		return at, 6, nil
	case etherBridged:
		return frame(b, at)
	case etherMPLS, etherMPLS2:
		return labels(b, at)
	}
	return 0, 0, errNotIP
}
