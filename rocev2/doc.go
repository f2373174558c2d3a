// Package rocev2 is the one walk from an Ethernet frame or an IP packet to
// what RoCEv2 carries, and the builder that goes the other way.
//
// A [Packet] is a RoCEv2 packet down to its ICRC:
//
//	var p rocev2.Packet // reusable, no allocation
//	if err := p.DecodeFrame(frame); errors.Is(err, rocev2.ErrNotRoCEv2) {
//		// other traffic
//	} else if err != nil {
//		// a broken RoCEv2 packet
//	}
//
// A [Datagram] is the part of it below the Base Transport Header, which
// serves every other UDP message as well. A [Flow] is the five-tuple of a
// packet below its tunnels, with what a congested node tells others about.
package rocev2
