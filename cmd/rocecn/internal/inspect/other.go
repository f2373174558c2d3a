package inspect

import (
	"errors"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/rocecn/rocecn/internal/capture"
	"github.com/rocecn/rocecn/rocev2"
)

// otherNamer names packets in which the walk did not get to UDP, as far as a
// person wants to know: addresses, and what comes behind the IP header.
type otherNamer struct {
	ethernet layers.Ethernet
	vlan     layers.Dot1Q
	ip4      layers.IPv4
	ip6      layers.IPv6
	parsers  map[gopacket.LayerType]*gopacket.DecodingLayerParser
	decoded  []gopacket.LayerType
}

func newOtherNamer() *otherNamer {
	n := &otherNamer{parsers: map[gopacket.LayerType]*gopacket.DecodingLayerParser{}}
	for _, first := range []gopacket.LayerType{layers.LayerTypeEthernet, layers.LayerTypeIPv4, layers.LayerTypeIPv6} {
		n.parsers[first] = gopacket.NewDecodingLayerParser(first, &n.ethernet, &n.vlan, &n.ip4, &n.ip6)
	}
	return n
}

// name returns the addresses of a packet, - when it has none, and its
// protocol. A fragment, or what gopacket cannot read, is named by why it is
// none of ours.
func (n *otherNamer) name(r *capture.Record, why error) (flow, protocol string) {
	flow = "-"
	first := layers.LayerTypeEthernet
	switch {
	case !r.Supported():
		return flow, reason(why)
	case r.IP() && len(r.Data) > 0 && r.Data[0]>>4 == 4:
		first = layers.LayerTypeIPv4
	case r.IP():
		first = layers.LayerTypeIPv6
	}
	err := n.parsers[first].DecodeLayers(r.Data, &n.decoded)
	for _, l := range n.decoded {
		switch l {
		case layers.LayerTypeIPv4:
			flow = n.ip4.SrcIP.String() + " > " + n.ip4.DstIP.String()
		case layers.LayerTypeIPv6:
			flow = n.ip6.SrcIP.String() + " > " + n.ip6.DstIP.String()
		}
	}
	var next gopacket.UnsupportedLayerType
	if errors.As(err, &next) && why != rocev2.ErrFragment {
		return flow, gopacket.LayerType(next).String()
	}
	return flow, reason(why)
}
