// Package fastcnp encodes and decodes the Fast CNP (FAST section 4,
// draft-xiao-rtgwg-rocev2-fast-cnp-02, whose format is that of -01): a CNP over
// IPv6 that a congested switch sends straight to the sender, with a Destination
// Option that identifies the congested flow. Decoding does not verify the ICRC:
// rocev2.Packet.VerifyICRC or package message does.
//
// The option holds the original destination of the congested packet (option
// 1), or its IOAM trace and the original destination (option 2).
//
// A switch calls [AppendFor] on a congested packet, or fills a [Notification]
// and calls its AppendPacket. A sender calls [FromPacket] on a received packet,
// and finds its queue pair by the original destination and DestQP: DestQP of a
// Fast CNP is the one of the congested packet, not the sender's own. A switch
// whose Fast CNP is returned by a host that does not know the option calls
// [FromICMP].
//
// The draft asks more of a deployment than a codec can do: the feature is off
// by default, generation is rate-limited, hosts check the source address
// against an access list, borders drop Fast CNPs in both directions, and a
// switch that knows that the sender understands Fast CNP does not mark ECN.
//
// Experimental: this package may change in a minor release.
package fastcnp
