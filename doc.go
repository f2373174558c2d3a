// Package rocecn is the map of a library for RoCEv2 congestion signalling; the
// work is done by the packages below it, and this one holds the roots of their
// errors.
//
// # What is on the wire
//
//	            Ethernet, VLAN tags                  rocev2
//	            [outer IP headers]                   rocev2
//	            IPv4, IPv6                           rocev2
//	            options headers                      ipv6opt
//	              IOAM option                        ioam
//	              Fast CNP option                    fastcnp
//	            UDP                                  rocev2
//	    ┌───────────────┼──────────────┐
//	port 4791       FCN port       proxy port
//	   BTH            fcn           proxymsg         bth
//	extended headers                                 bth
//	payload, CNP, PPFC                               cnp, ppfc
//	  ICRC                                           icrc
//
// # Which package for which job
//
//   - rocev2: from an Ethernet frame or an IP packet to BTH, extended headers,
//     payload and ICRC, and back. Most programs begin here.
//   - message: what kind of message a packet is, all kinds in one call.
//   - fastcnp: the CNP that a switch sends straight to the sender.
//   - cnp: the CNP that a receiver sends.
//   - ppfc: the notification that says stop, resume, alarm or hold.
//   - fcn: the message to the ingress PE of a wide area network.
//   - proxymsg: the message to a proxy that translates it.
//   - icrc: the invariant CRC, alone.
//   - bth: the Base Transport Header and the extended headers, alone.
//   - ipv6opt and ioam: IPv6 options headers and In Situ OAM, alone.
//   - netio: packets from interfaces and sockets on Linux, and into them.
//   - rocelayers: all of it as gopacket layers; the only package that imports
//     gopacket.
//
// # How they are used
//
// Decode sets a receiver that can be used again and again. It returns the rest
// of its input where the format tells its own length, and takes all of it where
// it does not. AppendBinary appends the format's octets to a slice, AppendPacket
// a whole IP packet, AppendFor the packet that answers another; to send a frame,
// append the Ethernet header first. None of them allocates (but to grow the
// slice), neither where it succeeds nor where it fails, and no input makes them
// panic. On error a receiver of Decode is as it was before (message.Message
// apart), and the slice comes back as it was. Types with variable parts alias
// their input, and say so; what is appended to must not overlap it.
//
// Reserved bits are fields: what was decoded is encoded to the same octets.
// Decoding is lenient where the specifications say "ignored on receipt";
// Validate is strict and names what deviates, in most packages everything at
// once.
//
// D1 to D13 in the documentation are the choices that README.md lists, made
// where the specifications are silent or leave one.
package rocecn
