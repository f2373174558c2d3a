// Package rocecn is the map of a library for RoCEv2 congestion signalling; the
// work is done by the packages below it, and this one holds the roots of their
// errors.
//
// # What is on the wire
//
//	            Ethernet, VLAN tags                  rocev2
//	            [outer IP headers]                   rocev2, encap
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
// Packets, read and written:
//
//   - rocev2: from an Ethernet frame or an IP packet to BTH, extended headers,
//     payload and ICRC, and back. Most programs begin here.
//   - message: what kind of message a packet is, all kinds in one call.
//   - capture: the packets of pcap and pcapng files.
//   - netio: the packets of an interface or a socket, on Linux.
//   - rocelayers: all of it as gopacket layers; the only package that imports
//     gopacket.
//
// The messages:
//
//   - fastcnp: the CNP that a switch sends straight to the sender.
//   - cnp: the CNP that a receiver sends.
//   - ppfc: the notification that says stop, resume, alarm or hold.
//   - fcn: the message to the ingress PE of a wide area network.
//   - proxymsg: the message to a proxy that translates it.
//
// What they are made of, alone:
//
//   - bth: the Base Transport Header and the extended headers.
//   - icrc: the invariant CRC.
//   - ipv6opt and ioam: IPv6 options headers and In Situ OAM.
//   - cm: the messages that set up connections of queue pairs.
//   - pfc: Ethernet flow control, of priorities and of whole links.
//   - encap: tunnels in which a flow crosses a wide area network.
//   - pnc: who is whose proxy, in IS-IS, OSPF and BGP.
//
// What a node does, as state machines without input and output:
//
//   - node: what they all share. node/congested is the switch, node/receiver and
//     node/sender are the hosts, node/proxy the proxy, node/ingress the ingress PE,
//     node/border the border, node/pause who obeys PPFC, node/reaction how a sender
//     slows down. node/acl, node/level and node/proxies are their parts.
//   - qpmap: whose queue pair sends to whose, learned from packets.
//   - flows: what became of each flow, in captures and live; flows/triage: what was the matter, in sentences.
//   - filter: filters for captures and for borders.
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
// # What is promised
//
// What compiles with 1.0 compiles with every 1.x and means the same. But fastcnp,
// proxymsg, fcn, ppfc and pnc follow their drafts: a new revision of one changes
// them in a minor release. And what qpmap, flows, filter, netio and node conclude
// gets better. docs/stability.md has the rules.
//
// D1 and so on in the documentation are the decisions in docs/decisions.md, taken
// where the specifications are silent or leave a choice.
package rocecn
