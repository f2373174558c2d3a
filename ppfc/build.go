package ppfc

import (
	"net/netip"

	"github.com/rocecn/rocecn/icrc"
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
	var d rocev2.Datagram
	if err := as.Apply(&d); err != nil {
		return b, err
	}
	d.Src, d.Dst, d.DstPort = src, dst, rocev2.Port
	return d.AppendRoCEv2(b, &n.Header, extension, icrc.AsSent)
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
