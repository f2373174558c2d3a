package inspect

import (
	"net/netip"
	"strconv"

	"github.com/google/gopacket/layers"
	"github.com/rocecn/rocecn/rocev2"
)

// otherName names an IP packet in which the walk did not get to UDP, as far as
// a person wants to know: addresses, - without any, and what comes behind the IP
// headers. A fragment, or what cannot be read so far, is named by why it is none
// of ours.
func otherName(ip []byte, why error) (flow, protocol string) {
	switch {
	case len(ip) >= 20 && ip[0]>>4 == 4:
		flow = netip.AddrFrom4([4]byte(ip[12:16])).String() + " > " + netip.AddrFrom4([4]byte(ip[16:20])).String()
		protocol = protocolName(ip[9])
	case len(ip) >= 40 && ip[0]>>4 == 6:
		flow = netip.AddrFrom16([16]byte(ip[8:24])).String() + " > " + netip.AddrFrom16([16]byte(ip[24:40])).String()
		next := ip[6]
		for _, extension := range rocev2.Extensions(ip, rocev2.DecodeOptions{Link: rocev2.LinkIP, Cut: true}) {
			next = extension[0]
		}
		protocol = protocolName(next)
	default:
		return "-", reason(why)
	}
	if why == rocev2.ErrFragment {
		protocol = reason(why)
	}
	return flow, protocol
}

func protocolName(number uint8) string {
	if name := layers.IPProtocol(number).String(); name != "UnknownIPProtocol" {
		return name
	}
	return "protocol " + strconv.Itoa(int(number))
}
