// Package rocev2 decodes an Ethernet frame or an IP packet down to what RoCEv2 carries, and builds packets.
// Decoding verifies neither the ICRC nor the UDP checksum: [Packet.VerifyICRC] and [Datagram.VerifyChecksum] do.
// Where to begin:
//
//   - [Packet.Decode], for a host that wants RoCEv2 and nothing else: addresses, BTH, payload, ICRC.
//   - [Datagram.Decode], for a host that waits for FCN or proxy messages: the same below the BTH.
//     Packet and Datagram also build packets, by AppendBinary.
//   - [Frame], for all others: monitors, switches, the roles of package node. It is decoded once, then asked
//     for link layer, tunnels, fragment, flow.
//   - [Frame.Packet] and [Frame.Datagram], for what Packet.Decode and Datagram.Decode would find: they open
//     IP in IP and no other tunnel (D12). The methods Outer… are about the outermost IP header.
//   - [Frame.InnerPacket], [Frame.InnerDatagram], [Frame.FiveTuple], FlowLabel, ECN and IP, for the packet
//     below every [Tunnel]: the flow that a congested node tells others about.
//   - [Frame.Innermost], for a border: a packet that need not parse.
//
// Package message tells all kinds of messages apart, in octets or in a Frame.
//
// A first program:
//
//	var p rocev2.Packet // reusable, no allocation
//	if err := p.DecodeEthernet(frame); errors.Is(err, rocev2.ErrNotRoCEv2) {
//		// other traffic
//	} else if err != nil {
//		// a broken RoCEv2 packet
//	}
package rocev2
