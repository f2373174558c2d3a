package ppfc

import (
	"net/netip"

	"github.com/rocecn/rocecn/rocev2"
)

// AppendPacket appends n as a whole IP packet, IPv4 or IPv6 as src and dst
// are, with its ICRC. The family of n.Congested may be the other one.
func (n *Notification) AppendPacket(b []byte, src, dst netip.Addr, as rocev2.Carriage) ([]byte, error) {
	var buf [SizeIPv6]byte
	extension, err := n.appendExtension(buf[:0])
	if err != nil {
		return b, err
	}
	var p rocev2.Packet
	if err := as.Apply(&p.Datagram); err != nil {
		return b, err
	}
	p.Src, p.Dst, p.DstPort = src, dst, rocev2.Port
	p.BTH.Header = n.Header
	p.Payload = extension
	return p.AppendBinary(b)
}

// AppendFor appends the notification that the node at src sends to the source
// of a congested packet: n with the BTH that New gives for the packet's queue
// pair and P_Key. The draft names the address in the extension after the
// congested destination and explains it as the congested node's; where
// n.Congested is not set, it is src, as the explanation has it.
func AppendFor(b []byte, congested *rocev2.Packet, src netip.Addr, n Notification, as rocev2.Carriage) ([]byte, error) {
	n.Header = New(congested.BTH.DestQP, congested.BTH.PKey).Header
	if !n.Congested.IsValid() {
		n.Congested = src
	}
	return n.AppendPacket(b, src, congested.Src, as)
}
