// Package rocev2 is the one walk from an Ethernet frame or an IP packet to what RoCEv2 carries, and
// the builder that goes the other way. Which type is for whom:
//
//   - A [Packet] is for those who want RoCEv2 and nothing else: p.DecodeFrame(frame) gives it down to its ICRC.
//   - A [Datagram] is the part of it below the BTH; FCN and proxy messages come in one. Both build packets, too.
//   - A [Frame] is for all others: what a frame carries whatever it is, what a socket gave, what tunnels it came in, what flow
//     it belongs to. Switches, monitors and the roles of package node work on it. A frame is walked once, then asked.
//   - [Frame.Packet] and [Frame.Datagram] see what a host that the frame is addressed to would see: IP in IP is opened, no
//     other tunnel (D12). [Frame.InnerPacket], [Frame.InnerDatagram] and [Frame.FiveTuple] see below every [Tunnel].
//   - message.Message tells all kinds of messages apart; m.DecodeFrame(&f) takes a Frame that was decoded before.
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
