// Package rocev2 decodes Ethernet frames and IP packets down to the RoCEv2 packet that they carry, and builds RoCEv2
// packets and other UDP datagrams.
//
// The entry point depends on the program:
//
//   - A host that needs only RoCEv2 packets uses [Packet.Decode]. It sets addresses, BTH, payload and ICRC.
//   - A host that receives FCN or proxy messages uses [Datagram.Decode]. It sets addresses, ports and UDP data.
//   - A host, a router or a role of package node that decodes each frame once uses [Frame.Outer]. It is the view of
//     the packet that the frame is addressed to, also in IP in IP. [View.Mirrored] reports whether that packet is a
//     copy from a mirror.
//   - A switch or a monitor uses [Frame.Inner] and [Frame.FiveTuple], which find the flow inside every [Tunnel].
//   - A border router uses [Frame.BorderPacket], which also returns malformed packets.
//
// AppendBinary of Packet and of Datagram builds an IP packet. Package message distinguishes all kinds of messages, in
// octets or in a Frame.
//
// A minimal program decodes frames into one Packet:
//
//	var p rocev2.Packet // reusable, no allocation
//	if err := p.DecodeEthernet(frame); errors.Is(err, rocev2.ErrNotRoCEv2) {
//		// other traffic
//	} else if err != nil {
//		// a malformed RoCEv2 packet
//	}
package rocev2
