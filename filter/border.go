package filter

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/ipv6opt"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocev2"
)

// A Border is a set of messages of congestion signalling that must not cross
// the border of a domain, in either direction: Fast CNP (FAST section 5), proxy
// messages (PROXY section 6), FCN, and optionally PPFC and the CNPs of
// receivers. The zero value has the default code points and ports.
type Border struct {
	CodePoints fastcnp.CodePoints // option types of Fast CNPs
	FCNPort    uint16             // UDP port of FCN; 0 stands for fcn.Port
	ProxyPort  uint16             // UDP port of proxy messages; 0 stands for proxymsg.Port
	CNP        bool               // CNPs must not cross either
	PPFC       bool               // nor must PPFC notifications

	// DropTunnels: tunnels that a border cannot look into must not cross, with any contents. These are
	//   - the IP protocols ESP, AH, EtherIP and L2TPv3, and those in TunnelProtocols;
	//   - the UDP ports of L2TP, AMT, Teredo and ESP, and those in TunnelPorts;
	//   - other tunnels that are too deep, fragmented or malformed.
	DropTunnels     bool
	TunnelProtocols []uint8 // further IP protocols that are tunnels; no effect without DropTunnels
	// TunnelPorts are further UDP ports of tunnels, such as those of FOU. Programs and rules drop packets to them even
	// without DropTunnels.
	TunnelPorts []uint16
}

// Tunnels that a border cannot look into.
var (
	opaqueProtocols = []uint32{wire.ProtoESP, wire.ProtoAH, wire.ProtoEtherIP, wire.ProtoL2TP}
	opaquePorts     = []uint32{wire.PortL2TP, wire.PortAMT, wire.PortTeredo, wire.PortNATT}
)

// protocols returns the IP protocols of tunnels that must not cross, if a border does not look into any.
func (b *Border) protocols() []uint32 {
	if !b.DropTunnels {
		return tunnelProtocols
	}
	all := slices.Concat(tunnelProtocols, opaqueProtocols)
	for _, p := range b.TunnelProtocols {
		if !slices.Contains(all, uint32(p)) {
			all = append(all, uint32(p))
		}
	}
	return all
}

// ports returns the UDP ports of tunnels that must not cross, if a border does not look into any.
func (b *Border) ports() []uint32 {
	all := slices.Clone(tunnelPorts)
	if b.DropTunnels {
		all = append(all, opaquePorts...)
	}
	return addPorts(all, b.TunnelPorts)
}

// isTunnel reports whether the innermost packet that a border can read is a tunnel.
func (b *Border) isTunnel(ip []byte) bool {
	next, rest := uint8(0), []byte(nil)
	switch wire.VersionField(ip) {
	case wire.IPv4:
		if len(ip) < wire.IPv4Size {
			return false
		}
		if next = ip[9]; binary.BigEndian.Uint16(ip[6:])&fragmentOffset4 == 0 {
			rest = ip[min(len(ip), int(ip[0]&0x0F)*4):]
		}
	case wire.IPv6:
		if len(ip) < wire.IPv6Size {
			return false
		}
		for next, rest = ip[6], ip[wire.IPv6Size:]; wire.IsExtension(next) || next == wire.ProtoFragment; {
			n := fragmentSize
			if len(rest) < n {
				return false
			}
			if next == wire.ProtoFragment && binary.BigEndian.Uint16(rest[2:])&fragmentOffset6 != 0 {
				next, rest = rest[0], nil
				break
			}
			if next != wire.ProtoFragment {
				n = 8 + 8*int(rest[1])
			}
			next, rest = rest[0], rest[min(len(rest), n):]
		}
	}
	if next == wire.ProtoUDP {
		return len(rest) >= atPort+2 && containsAny(b.TunnelPorts, tunnelPorts, opaquePorts,
			binary.BigEndian.Uint16(rest[atPort:]))
	}
	return containsAny(b.TunnelProtocols, tunnelProtocols, opaqueProtocols, next)
}

// containsAny reports whether one of three lists has a number.
func containsAny[N uint8 | uint16](own []N, one, other []uint32, n N) bool {
	return slices.Contains(own, n) || slices.Contains(one, uint32(n)) || slices.Contains(other, uint32(n))
}

// The fields that tell PPFC notifications from CNPs (D18): the P bit, and the
// UDP length, which for a CNP is that of UDP header, BTH, 16 reserved octets,
// ICRC.
const (
	ppfcBit   = ppfc.Bit
	cnpLength = 8 + bth.Size + 16 + 4
)

var (
	errPort = wireerr.New("filter", "UDP port of FCN or proxy messages", "4791, the port of RoCEv2", wireerr.Range)
	errSame = wireerr.New("filter", "UDP ports of FCN and proxy messages", "equal, want two ports", wireerr.Range)
)

// Validate returns an error if one of the ports is that of RoCEv2, as then no
// RoCEv2 could cross, or both are the same, as then a proxy message counts as FCN.
func (b *Border) Validate() error {
	switch c := b.withDefaults(); {
	case c.FCNPort == rocev2.Port || c.ProxyPort == rocev2.Port:
		return errPort
	case c.FCNPort == c.ProxyPort:
		return errSame
	}
	return nil
}

// withDefaults returns b with its defaults filled in.
func (b *Border) withDefaults() Border {
	c := *b
	c.CodePoints.Option1 = cmp.Or(b.CodePoints.Option1, fastcnp.Option1Type)
	c.CodePoints.Option2 = cmp.Or(b.CodePoints.Option2, fastcnp.Option2Type)
	c.FCNPort = cmp.Or(b.FCNPort, fcn.Port)
	c.ProxyPort = cmp.Or(b.ProxyPort, proxymsg.Port)
	return c
}

// Match returns the kind of the packet in a frame, and reports whether to drop it. The result does not depend on
// whether the capture truncated the frame.
//
// Match looks into all tunnels that [rocev2.Tunnel] names except mirrors, with IP in IP at most 4 deep (D12): a packet
// deeper than that crosses, and so do other tunnels, unless DropTunnels is set. It recognizes a Fast CNP by the type
// of its option, for any length of the option, anywhere in the Destination Options headers of a packet with opcode
// 0x81, and FCN and proxy messages by their ports. Nothing else needs to be right: malformed, fragmented and
// truncated packets are dropped if the type or the port can be read. A packet with the type is also dropped if it
// ends before its port and opcode could show that it is not a CNP.
//
// A first fragment, of IPv4 or IPv6, that ends before the end of its UDP header or of the headers before that is always
// dropped: the next fragment could make it any message (RFC 7112). With CNP or PPFC set, a first fragment to the port
// of RoCEv2 must also include its opcode. Later fragments pass, because no host can reassemble the packet without the
// first. Match does not look into tunnels with fragmented outer packets.
//
// The kind is Other for packets that are neither RoCEv2 nor a message, and
// Broken for RoCEv2 that ends before its opcode and for first fragments that
// could be any message.
func (b *Border) Match(f *rocev2.Frame) (kind message.Kind, drop bool) {
	c := b.withDefaults()
	ip := f.BorderPacket()
	if len(ip) == 0 {
		return message.KindOther, false
	}
	switch wire.VersionField(ip) {
	case wire.IPv4:
		kind, drop = c.matchUDP(udpInIPv4(ip))
	case wire.IPv6:
		kind, drop = c.matchUDP(udpInIPv6(ip, &c.CodePoints))
	}
	return kind, drop || b.DropTunnels && b.isTunnel(ip)
}

// A datagram is a UDP datagram as far as it is there.
type datagram struct {
	udp   []byte // from its header on; nil for another protocol
	found bool   // there is an option of a Fast CNP before it
	first bool   // it is in a first fragment
}

// matchUDP is Match for a datagram.
func (b *Border) matchUDP(d datagram) (kind message.Kind, drop bool) {
	udp := d.udp
	if udp == nil {
		return message.KindOther, false
	}
	incomplete := d.first && len(udp) < wire.UDPSize
	if len(udp) < atPort+2 {
		return d.cut(message.KindOther, incomplete)
	}
	switch binary.BigEndian.Uint16(udp[atPort:]) {
	case rocev2.Port:
	case b.FCNPort:
		return message.KindFCN, true
	case b.ProxyPort:
		return message.KindProxy, true
	default:
		if incomplete {
			return message.KindError, true
		}
		return message.KindOther, false
	}
	if len(udp) <= atOpcode {
		return d.cut(message.KindError, incomplete || d.first && (b.CNP || b.PPFC))
	}
	switch op := bth.Opcode(udp[atOpcode]); {
	case op.IsAcknowledge():
		return message.KindAck, false
	case op != bth.CNP:
		return message.KindData, false
	case len(udp) > atPBit && udp[atPBit]&ppfcBit != 0 && binary.BigEndian.Uint16(udp[atLength:]) != cnpLength:
		return message.KindPPFC, d.found || b.PPFC
	case d.found:
		return message.KindFastCNP, true
	}
	return message.KindCNP, b.CNP
}

// cut is the verdict on a packet that ends before its opcode. kind and drop are
// for one without an option of a Fast CNP.
func (d *datagram) cut(kind message.Kind, drop bool) (message.Kind, bool) {
	switch {
	case d.found:
		return message.KindFastCNP, true
	case drop:
		return message.KindError, true
	}
	return kind, false
}

// udpInIPv4 returns the UDP datagram in an IPv4 packet or first fragment.
func udpInIPv4(ip []byte) (d datagram) {
	if len(ip) < 20 {
		return d
	}
	n := int(ip[0]&0x0F) * 4
	end := min(len(ip), int(binary.BigEndian.Uint16(ip[2:])))
	fragment := binary.BigEndian.Uint16(ip[6:])
	if n < 20 || n > end || fragment&fragmentOffset4 != 0 || ip[9] != wire.ProtoUDP {
		return d
	}
	return datagram{udp: ip[n:end], first: fragment&moreFragments4 != 0}
}

// udpInIPv6 returns the UDP datagram in an IPv6 packet or first fragment. d.udp
// is nil only if there certainly is none; it is empty if the packet ends before
// it.
func udpInIPv6(ip []byte, c *fastcnp.CodePoints) (d datagram) {
	if len(ip) < 40 {
		return d
	}
	next := ip[6]
	b := ip[40:min(len(ip), 40+int(binary.BigEndian.Uint16(ip[4:])))]
	for next != wire.ProtoUDP {
		n := fragmentSize
		switch {
		case wire.IsExtension(next) && len(b) > 1:
			n = 8 + 8*int(b[1])
			if next == wire.ProtoDestinationOptions && hasOption(b[2:min(len(b), n)], c) {
				d.found = true
			}
		case !wire.IsExtension(next) && next != wire.ProtoFragment:
			return datagram{}
		}
		d.udp = b[:0]
		if len(b) < n {
			return d
		}
		if next == wire.ProtoFragment {
			d.first = binary.BigEndian.Uint16(b[2:])&fragmentOffset6 == 0
			if !d.first {
				return d
			}
		}
		next, b = b[0], b[n:]
	}
	d.udp = b
	return d
}

// hasOption reports whether the options include one of these types, as far as they can be parsed.
func hasOption(options []byte, c *fastcnp.CodePoints) bool {
	h := ipv6opt.Header{Options: options}
	for o := range h.All() {
		if o.Type == c.Option1 || o.Type == c.Option2 {
			return true
		}
	}
	return false
}
