// Package rocev2 is the one walk from an Ethernet frame or an IP packet to what RoCEv2 carries, and the
// builder that goes the other way. Which type is for whom:
//
//   - [Packet]: for who wants RoCEv2 and nothing else. DecodeFrame gives it down to its ICRC.
//   - [Datagram]: the part of it below the BTH, which FCN and proxy messages share. Both build packets, too.
//   - [Frame]: for all others, whatever the frame carries: link layer, tunnels, fragments,
//     flow. Monitors, and the roles of package node, work on it. A frame is walked once, then asked.
//   - [Frame.Packet] and [Frame.Datagram] see what a host that is addressed would: IP in IP is opened, no
//     other tunnel (D12). InnerPacket, InnerDatagram, FiveTuple and Flow see below every [Tunnel].
//   - [Flow]: what a congested node tells others about the packet below the tunnels.
//   - message.Message tells all kinds of messages apart, out of octets or out of a Frame.
//
// A first program:
//
//	var p rocev2.Packet // reusable, no allocation
//	if err := p.DecodeFrame(frame); errors.Is(err, rocev2.ErrNotRoCEv2) {
//		// other traffic
//	} else if err != nil {
//		// a broken RoCEv2 packet
//	}
package rocev2
