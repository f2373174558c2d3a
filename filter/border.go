package filter

import (
	"cmp"
	"encoding/binary"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/ipv6opt"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocev2"
)

// A Border says which messages of congestion signalling do not cross the
// border of a domain, in neither direction: Fast CNP (FAST section 5), proxy
// messages (PROXY section 6), FCN, and by choice PPFC and the CNPs of
// receivers. The zero value stands for the default code points and ports.
type Border struct {
	CodePoints fastcnp.CodePoints // of Fast CNPs
	FCNPort    uint16             // 0 stands for fcn.ExperimentalPort
	ProxyPort  uint16             // 0 stands for proxymsg.ExperimentalPort
	CNP        bool               // CNPs may not cross either
	PPFC       bool               // nor PPFC notifications
}

// The fields by which PPFC notifications are told from CNPs (D18): the P bit,
// and the UDP length, which of a CNP is 8 octets of UDP header, BTH, 16
// reserved octets, ICRC.
const (
	ppfcBit   = bth.PPFCBit
	cnpLength = 8 + bth.Size + 16 + 4
)

// withDefaults returns r with its defaults filled in.
func (r *Border) withDefaults() Border {
	return Border{
		CodePoints: fastcnp.CodePoints{
			Option1: cmp.Or(r.CodePoints.Option1, fastcnp.ExperimentalType),
			Option2: cmp.Or(r.CodePoints.Option2, fastcnp.ExperimentalType),
		},
		FCNPort:   cmp.Or(r.FCNPort, fcn.ExperimentalPort),
		ProxyPort: cmp.Or(r.ProxyPort, proxymsg.ExperimentalPort),
		CNP:       r.CNP,
		PPFC:      r.PPFC,
	}
}

// Match says of what kind a packet is and whether it is to be dropped. The
// octets are as o describes them; o.Cut does not matter.
//
// Match looks into the tunnels that [rocev2.Flow] knows. A Fast CNP is known
// by the type of its option, whatever the option's length and wherever it
// stands in the Destination Options headers of a packet with OpCode 0x81;
// FCN and proxy messages are by their port. Nothing else need be right: of
// what is malformed, fragmented or cut everything is dropped of which the
// type or the port can be read. Where a packet with the type ends before port
// and OpCode could say that it is no CNP, it is dropped.
//
// The kind is Other for what is neither RoCEv2 nor a message, and Broken for
// RoCEv2 that ends before its OpCode.
func (r *Border) Match(b []byte, o rocev2.DecodeOptions) (kind message.Kind, drop bool) {
	c := r.withDefaults()
	ip := rocev2.Innermost(b, o)
	switch {
	case len(ip) == 0:
	case ip[0]>>4 == 4:
		return c.matchUDP(udpInIPv4(ip), false)
	case ip[0]>>4 == 6:
		udp, found := udpInIPv6(ip, &c.CodePoints)
		return c.matchUDP(udp, found)
	}
	return message.Other, false
}

// matchUDP matches what is there of a UDP datagram, nil for another protocol.
// found says that there was an option of a Fast CNP before it.
func (r *Border) matchUDP(udp []byte, found bool) (kind message.Kind, drop bool) {
	if udp == nil {
		return message.Other, false
	}
	if len(udp) < atPort+2 {
		return cutBefore(message.Other, found)
	}
	switch binary.BigEndian.Uint16(udp[atPort:]) {
	case rocev2.Port:
	case r.FCNPort:
		return message.FCN, true
	case r.ProxyPort:
		return message.Proxy, true
	default:
		return message.Other, false
	}
	if len(udp) <= atOpcode {
		return cutBefore(message.Broken, found)
	}
	switch op := bth.Opcode(udp[atOpcode]); {
	case op.Acknowledges():
		return message.Ack, false
	case op != bth.CNP:
		return message.Data, false
	case len(udp) > atPBit && udp[atPBit]&ppfcBit != 0 && binary.BigEndian.Uint16(udp[atLength:]) != cnpLength:
		return message.PPFC, found || r.PPFC
	case found:
		return message.FastCNP, true
	}
	return message.CNP, r.CNP
}

// cutBefore is the verdict on a packet that ends before its OpCode.
func cutBefore(kind message.Kind, found bool) (message.Kind, bool) {
	if found {
		return message.FastCNP, true
	}
	return kind, false
}

// udpInIPv4 returns what is there of the UDP datagram in an IPv4 packet, which
// may be the first fragment of one; nil when there is none.
func udpInIPv4(ip []byte) []byte {
	if len(ip) < 20 {
		return nil
	}
	n := int(ip[0]&0x0F) * 4
	end := min(len(ip), int(binary.BigEndian.Uint16(ip[2:])))
	offset := binary.BigEndian.Uint16(ip[6:]) & 0x1FFF
	if n < 20 || n > end || offset != 0 || ip[9] != protoUDP {
		return nil
	}
	return ip[n:end]
}

// udpInIPv6 returns what is there of the UDP datagram in an IPv6 packet, which
// may be the first fragment of one; nil when there certainly is none. found
// says whether an option of one of the types stands in a Destination Options
// header on the way.
func udpInIPv6(ip []byte, c *fastcnp.CodePoints) (udp []byte, found bool) {
	if len(ip) < 40 {
		return nil, false
	}
	next := ip[6]
	b := ip[40:min(len(ip), 40+int(binary.BigEndian.Uint16(ip[4:])))]
	for {
		switch next {
		case protoUDP:
			return b, found
		case protoFragment:
			if len(b) < 8 || binary.BigEndian.Uint16(b[2:])&0xFFF8 != 0 {
				return b[:0], found
			}
			next, b = b[0], b[8:]
			continue
		case protoHopByHop, protoRouting, protoDestOpts:
		default:
			return nil, false
		}
		if len(b) < 2 {
			return b[:0], found
		}
		n := min(len(b), 8+8*int(b[1]))
		if next == protoDestOpts && hasOption(b[2:n], c) {
			found = true
		}
		if n < 8+8*int(b[1]) {
			return b[:0], found
		}
		next, b = b[0], b[n:]
	}
}

// hasOption says whether the options hold one of these types, as far as they
// can be told apart.
func hasOption(options []byte, c *fastcnp.CodePoints) bool {
	for len(options) > 0 {
		t := ipv6opt.Type(options[0])
		if t == c.Option1 || t == c.Option2 {
			return true
		}
		n := 1
		if t != ipv6opt.Pad1 {
			if len(options) < 2 {
				return false
			}
			n = 2 + int(options[1])
		}
		options = options[min(n, len(options)):]
	}
	return false
}
