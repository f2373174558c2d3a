// Package fastcnp encodes and decodes the Fast CNP (FAST section 4,
// draft-xiao-rtgwg-rocev2-fast-cnp-02, with the format of -01): a CNP over IPv6 that
// a congested switch sends directly to the sender, with a Destination Option that
// identifies the congested flow. The option has the original destination of the
// congested packet (option 1), or its IOAM trace and the original destination (option
// 2). Decoding does not verify the ICRC: call rocev2.Packet.VerifyICRC, or use
// package message. See the examples.
//
//   - A switch calls [AppendFor] with a congested packet.
//   - A sender calls [FromPacket] with a received packet. It finds its queue pair by
//     the original destination and DestQP, see [Notification.FlowKey]: DestQP of a
//     Fast CNP is the one of the congested packet, not the sender's own.
//   - A switch that receives an ICMPv6 error from a host that does not know the option
//     calls [FromICMP].
//   - [Notification.AppendPacket] encodes a Fast CNP from its fields.
//
// The draft has more requirements, which a deployment must meet (packages below node
// do):
//
//   - The feature is off by default.
//   - Generation is rate-limited.
//   - Hosts check the source address against an access list.
//   - Borders drop Fast CNPs in both directions.
//   - A switch does not mark ECN if it knows that the sender supports Fast CNPs.
//
// Experimental: this package may change in a minor release.
package fastcnp
