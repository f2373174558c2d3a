package filter

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/rocev2"
)

// Expression returns the filter in the language of tcpdump (pcap-filter(7)),
// for captures with this link layer. It selects the same packets as Program,
// except packets with a VLAN tag in Linux cooked captures, where tcpdump does
// not recognize tags.
//
// tcpdump's own "udp dst port" does not look past IPv6 extension headers, and its "protochain" cannot read fields of
// the header that it finds. So the expression has a term for each length of the header chain, and is long. Its "vlan"
// would make that more than the 4096 instructions that Linux accepts for an interface, because every load after it
// needs additional instructions. So tags are read as octets.
func (c *Capture) Expression(link rocev2.LinkType) (string, error) {
	if err := c.check(); err != nil {
		return "", err
	}
	switch link {
	case rocev2.LinkEthernet:
		// The last term selects nothing. It makes tcpdump reject the expression for any other link layer. "vlan" would
		// do that too, but would shift by one tag the offsets of terms that a user adds after the expression, such as
		// "and host ::1".
		return or(c.expressionTags(12, maxTags), and("ether host 0:0:0:0:0:0", "less 0")), nil
	case rocev2.LinkSLL, rocev2.LinkSLL2:
		return c.expressionTypes("ether proto", packet{"ip", 0}, packet{"ip6", 0}), nil
	case rocev2.LinkIP:
		return or(and("ip", c.expression4(packet{"ip", 0})), and("ip6", c.expression6(packet{"ip6", 0}))), nil
	}
	return "", errLink
}

// tcpdump gives "and" and "or" the same precedence, so every term has parentheses.
func and(terms ...string) string { return "(" + strings.Join(terms, " and ") + ")" }
func or(terms ...string) string  { return "(" + strings.Join(terms, " or ") + ")" }

// matchValues is the expression for one of these values.
func matchValues(field string, values ...uint32) string {
	var terms []string
	for _, v := range values {
		terms = append(terms, fmt.Sprintf("%s %#x", field, v))
	}
	return or(terms...)
}

// expressionTags is the part of Expression for an Ethernet frame from the EtherType at this offset on. At most more
// tags may follow.
func (c *Capture) expressionTags(at, more int) string {
	etherType, ip := fmt.Sprintf("ether[%d:2] =", at), packet{"ether", at + 2}
	e := c.expressionTypes(etherType, ip, ip)
	if more == 0 {
		return e
	}
	return or(e, and(matchValues(etherType, tags...), c.expressionTags(at+4, more-1)))
}

// expressionTypes is the part of Expression for the octets after an EtherType.
func (c *Capture) expressionTypes(etherType string, ip4, ip6 packet) string {
	e := or(and(matchValues(etherType, wire.EtherIPv4), c.expression4(ip4)),
		and(matchValues(etherType, wire.EtherIPv6), c.expression6(ip6)))
	if c.Selection == Flows {
		types := append(slices.Clone(c.unreadTypes()), wire.EtherMACControl, wire.EtherRoCEv1)
		e = or(e, matchValues(etherType, types...))
	}
	return e
}

// A packet is an IP packet in an expression: the octets of a protocol of tcpdump from an offset on.
type packet struct {
	of   string
	from int
}

// An offset in a packet: octets, plus the lengths of headers in the language of
// tcpdump.
type offset struct {
	octets  int
	headers string
}

func (o offset) plus(n int) offset { return offset{o.octets + n, o.headers} }

func (o offset) String() string { return strconv.Itoa(o.octets) + o.headers }

// load is the expression for so many octets at an offset.
func (p packet) load(at offset, size int) string {
	return fmt.Sprintf("%s[%v:%d]", p.of, at.plus(p.from), size)
}

// octet is the expression for an octet of the IP header.
func (p packet) octet(at int) string { return p.load(offset{octets: at}, 1) }

// expression4 is the part of Expression for IPv4: version, IHL, no fragment,
// UDP.
func (c *Capture) expression4(ip packet) string {
	udp := and(ip.octet(9)+" = 17", c.expressionUDP(ip, ip.load(offset{octets: 2}, 2),
		offset{0, fmt.Sprintf(" + (%s & 0xf) * 4", ip.octet(0))}, ip.octet(1)+" & 3 = 3"))
	if c.Selection == Flows {
		udp = or(udp, matchValues(ip.octet(9)+" =", tunnelProtocols...))
	}
	return and(ip.octet(0)+" & 0xf0 = 0x40", ip.octet(0)+" & 0xf >= 5",
		ip.load(offset{octets: 6}, 2)+" & 0x3fff = 0", udp)
}

// expression6 is the part of Expression for IPv6.
func (c *Capture) expression6(ip packet) string {
	return and(ip.octet(0)+" & 0xf0 = 0x60", c.expressionNext(ip, ip.octet(6), offset{40, ""}, maxExtensions))
}

// expressionNext is the part of Expression for the rest of an IPv6 packet, with
// the expression for the type of the next header, the header's offset, and how
// many extension headers may follow.
func (c *Capture) expressionNext(ip packet, next string, at offset, more int) string {
	length := ip.load(offset{octets: 4}, 2) + " + 40"
	udp := and(next+" = 17", c.expressionUDP(ip, length, at, ip.octet(1)+" & 0x30 = 0x30"))
	if c.Selection == Flows {
		udp = or(udp, and(matchValues(next+" =", tunnelProtocols...), ip.whole(length, at)))
	}
	if more == 0 {
		return udp
	}
	then := offset{at.octets + 8, fmt.Sprintf("%s + %s * 8", at.headers, ip.load(at.plus(1), 1))}
	return or(udp, and(matchValues(next+" =", wire.ProtoHopByHop, wire.ProtoRouting, wire.ProtoDestinationOptions),
		c.expressionNext(ip, ip.load(at, 1), then, more-1)))
}

// whole is the expression for an IP packet of a length that is not less than at.
// The capture is not less either, or else the load fails.
func (p packet) whole(length string, at offset) string {
	return and(fmt.Sprintf("%s >= %v", length, at), p.load(at.plus(-1), 1)+" >= 0")
}

// expressionUDP is the part of Expression for the UDP header at an offset in an
// IP packet of this length; ce is the expression for a packet marked CE.
func (c *Capture) expressionUDP(ip packet, length string, at offset, ce string) string {
	field := func(from, size int) string { return ip.load(at.plus(from), size) }
	ports := func(p ...uint32) string { return matchValues(field(atPort, 2)+" =", p...) }
	header, roce := ip.whole(length, at.plus(wire.UDPSize)), ports(rocev2.Port)
	transport := and(roce, ip.whole(length, at.plus(wholeBTH)))
	switch c.Selection {
	case Ours:
		return and(header, ports(c.messagePorts()...))
	case Flows:
		return and(header, ports(slices.Concat(c.messagePorts(), []uint32{rocev2.Port}, c.tunnelPorts())...))
	case Notifications:
		return and(header, or(ports(c.messagePorts()...),
			and(transport, fmt.Sprintf("%s = %#x", field(atOpcode, 1), uint8(bth.CNP)))))
	case QueuePair:
		return and(transport, fmt.Sprintf("%s & 0xffffff = %d", field(atDestQP, 4), c.DestQP))
	case Pairs:
		several := matchValues(fmt.Sprintf("%s & %#x =", field(atOpcode, 1), transportBits), inPackets...)
		begins := matchValues(fmt.Sprintf("%s & %#x =", field(atOpcode, 1), operationBits), notLast...)
		return and(transport, or("not "+several, "not "+begins,
			fmt.Sprintf("%s & %#x != 0", field(atAckReq, 1), ackReqBit)))
	case CE:
		return and(header, roce, ce)
	}
	return and(header, roce)
}
