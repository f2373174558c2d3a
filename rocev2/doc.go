// Package rocev2 decodes an Ethernet frame or an IP packet down to the RoCEv2 packet in it, and builds packets.
// Where to begin:
//
//   - [Packet.Decode], for a host that needs RoCEv2 packets only: addresses, BTH, payload, ICRC.
//   - [Datagram.Decode], for a host that receives FCN or proxy messages: the same up to the UDP data.
//   - [Frame.Outer], for a host, a router or a role of package node, which decode a frame once: the packet that the
//     frame is addressed to, through IP in IP. A copy from a mirror is reported by [View.Mirrored].
//   - [Frame.Inner] and [Frame.FiveTuple], for a switch or a monitor: the flow inside every [Tunnel].
//   - [Frame.BorderPacket], for a border: a packet that may be malformed.
//
// Packet and Datagram also build packets, by AppendBinary. Package message distinguishes all kinds of messages, in
// octets or in a Frame.
//
// A first program:
//
//	var p rocev2.Packet // reusable, no allocation
//	if err := p.DecodeEthernet(frame); errors.Is(err, rocev2.ErrNotRoCEv2) {
//		// other traffic
//	} else if err != nil {
//		// a malformed RoCEv2 packet
//	}
package rocev2
