package filter

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/rocev2"
)

// Expression returns the filter in the language of tcpdump (pcap-filter(7)),
// for captures with this link layer. It selects the same packets as Program,
// except packets with a VLAN tag in Linux cooked captures, where tcpdump does
// not recognize tags.
//
// tcpdump's own "udp dst port" does not look past IPv6 extension headers, and
// its "protochain" cannot read fields of the header that it finds. So the
// expression has a term for each length of the header chain, and is long.
func (c *Capture) Expression(link rocev2.LinkType) (string, error) {
	if err := c.check(); err != nil {
		return "", err
	}
	e := or(c.expression4(), c.expression6())
	if c.Selection == Flows && link != rocev2.LinkIP {
		e = or(e, fmt.Sprintf("ether proto %#x", etherMPLS), fmt.Sprintf("ether proto %#x", etherMPLS2),
			fmt.Sprintf("ether proto %#x", etherPause))
	}
	switch link {
	case rocev2.LinkEthernet: // after "vlan" all offsets are past the tag
		return or(e, and("vlan", or(e, and("vlan", e)))), nil
	case rocev2.LinkIP, rocev2.LinkSLL, rocev2.LinkSLL2:
		return e, nil
	}
	return "", errLink
}

// tcpdump gives "and" and "or" the same precedence, so every term has parentheses.
func and(terms ...string) string { return "(" + strings.Join(terms, " and ") + ")" }
func or(terms ...string) string  { return "(" + strings.Join(terms, " or ") + ")" }

// An offset in an IP packet: octets, plus the lengths of headers in the
// language of tcpdump.
type offset struct {
	octets  int
	headers string
}

func (o offset) plus(n int) string { return strconv.Itoa(o.octets+n) + o.headers }

// expression4 is the part of Expression for IPv4: version, IHL, no fragment,
// UDP.
func (c *Capture) expression4() string {
	udp := and("ip[9] = 17", c.expressionUDP("ip", "ip[2:2]", offset{0, " + (ip[0] & 0xf) * 4"}, "ip[1] & 3 = 3"))
	if c.Selection == Flows {
		udp = or(udp, tunnelled("ip[9]"))
	}
	return and("ip", "ip[0] & 0xf0 = 0x40", "ip[0] & 0xf >= 5", "ip[6:2] & 0x3fff = 0", udp)
}

// expression6 is the part of Expression for IPv6.
func (c *Capture) expression6() string {
	return and("ip6", "ip6[0] & 0xf0 = 0x60", c.expressionNext("ip6[6]", offset{40, ""}, maxExtensions))
}

// expressionNext is the part of Expression for the rest of an IPv6 packet, with
// the expression for the type of the next header, the header's offset, and how
// many extension headers may follow.
func (c *Capture) expressionNext(next string, at offset, more int) string {
	udp := and(next+" = 17", c.expressionUDP("ip6", "ip6[4:2] + 40", at, "ip6[1] & 0x30 = 0x30"))
	if c.Selection == Flows {
		udp = or(udp, and(fmt.Sprintf("ip6[4:2] + 40 >= %s", at.plus(0)), fmt.Sprintf("ip6[%s] >= 0", at.plus(-1)),
			tunnelled(next)))
	}
	if more == 0 {
		return udp
	}
	then := offset{at.octets + 8, fmt.Sprintf("%s + ip6[%s] * 8", at.headers, at.plus(1))}
	return or(udp, and(or(next+" = 0", next+" = 43", next+" = 60"),
		c.expressionNext("ip6["+at.plus(0)+"]", then, more-1)))
}

// tunnelled is the expression for a protocol of a tunnel.
func tunnelled(protocol string) string {
	var terms []string
	for _, p := range tunnelProtocols {
		terms = append(terms, fmt.Sprintf("%s = %d", protocol, p))
	}
	return or(terms...)
}

// expressionUDP is the part of Expression for the UDP header at an offset in an
// IP packet of this length; ce is the expression for a packet marked CE.
func (c *Capture) expressionUDP(ip, length string, at offset, ce string) string {
	// The IP packet is that long, and so is the capture, or else the load
	// fails.
	whole := func(octets int) string {
		return and(fmt.Sprintf("%s >= %s", length, at.plus(octets)), fmt.Sprintf("%s[%s] >= 0", ip, at.plus(octets-1)))
	}
	field := func(from, size int) string { return fmt.Sprintf("%s[%s:%d]", ip, at.plus(from), size) }
	port := func(p uint32) string { return fmt.Sprintf("%s = %d", field(atPort, 2), p) }
	var ports []string
	for _, p := range c.messagePorts() {
		ports = append(ports, port(p))
	}
	switch roce := port(rocev2.Port); c.Selection {
	case RoCEv2:
		ports = append(ports, roce)
	case Flows:
		ports = append(ports, roce)
		for _, p := range tunnelPorts {
			ports = append(ports, port(p))
		}
	case Notifications:
		ports = append(ports, and(roce, whole(wholeBTH), fmt.Sprintf("%s = %#x", field(atOpcode, 1), uint8(bth.CNP))))
	case QueuePair:
		ports = append(ports, and(roce, whole(wholeBTH),
			fmt.Sprintf("%s & 0xffffff = %d", field(atDestQP, 4), c.DestQP)))
	case Pairs:
		none := func(bits int, values []uint32) string {
			var terms []string
			for _, v := range values {
				terms = append(terms, fmt.Sprintf("%s & %#x != %#x", field(atOpcode, 1), bits, v))
			}
			return and(terms...)
		}
		ports = append(ports, and(roce, whole(wholeBTH), or(none(transportBits, inPackets),
			none(operationBits, notLast), fmt.Sprintf("%s & %#x != 0", field(atAckReq, 1), ackReqBit))))
	case CE:
		ports = append(ports, and(roce, ce))
	}
	return and(whole(udpHeader), or(ports...))
}
