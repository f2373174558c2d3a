package inspect

import (
	"strconv"

	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/rocev2"
)

// otherName returns addresses and upper protocol of an IP packet without UDP, or "-" for frames without IP addresses.
// For fragments and undecodable packets, the name is the reason why it is neither RoCEv2 nor a congestion message.
func otherName(f *finding) (flow, name string) {
	ip := f.innermostIP()
	var protocol string
	switch version := wire.Version(ip); {
	case version == wire.IPv4:
		protocol = protocolName(wire.Protocol(ip))
	case version == wire.IPv6:
		next := wire.Protocol(ip)
		var inside rocev2.Frame
		inside.Decode(ip, rocev2.DecodeOptions{Link: rocev2.LinkIP, AllowTruncated: true, Outer: true})
		for _, extension := range inside.Extensions() {
			next = extension[0]
		}
		protocol = protocolName(next)
	case f.walked != nil && f.walked.EtherType() == wire.EtherRoCEv1:
		return "-", "other: RoCEv1"
	case f.needed != 0:
		return "-", "other"
	default:
		return "-", "other: " + errorReason(f.err)
	}
	src, dst := wire.Addresses(ip)
	flow = src.String() + " > " + dst.String()
	if f.err == rocev2.ErrFragment {
		protocol = errorReason(f.err)
	}
	return flow, "other: " + protocol
}

// protocols are the names of the most frequent upper protocols.
var protocols = map[uint8]string{
	0: "IPv6HopByHop", 1: "ICMPv4", 2: "IGMP", 4: "IPv4", 6: "TCP", 17: "UDP", 41: "IPv6", 43: "IPv6Routing",
	44: "IPv6Fragment",
	47: "GRE", 50: "ESP", 51: "AH", 58: "ICMPv6", 59: "NoNextHeader", 60: "IPv6Destination", 89: "OSPF", 97: "EtherIP",
	103: "PIM",
	112: "VRRP", 132: "SCTP", 136: "UDPLite", 137: "MPLS",
}

func protocolName(number uint8) string {
	if name, ok := protocols[number]; ok {
		return name
	}
	return "protocol " + strconv.Itoa(int(number))
}
