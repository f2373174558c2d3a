// Package rocecn documents the module and defines the base errors of its packages.
// It contains no protocol code: the packages below decode, encode and act on the
// messages of RoCEv2 congestion signalling. See the examples.
//
// # Headers and their packages
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
// # Packages
//
// Packets:
//
//   - rocev2: decodes Ethernet frames and IP packets to BTH, extended headers,
//     payload and ICRC, and encodes them. Most programs begin here.
//   - message: decodes messages of all kinds.
//   - capture: reads and writes pcap and pcapng files.
//   - netio: receives and sends packets on interfaces and sockets of Linux.
//   - rocelayers: layers of gopacket; the only package that imports gopacket.
//
// Messages:
//
//   - fastcnp: the CNP of a switch to the sender.
//   - cnp: the CNP of a receiver.
//   - ppfc: the notification with the states stop, resume, alarm and hold.
//   - fcn: the message to the ingress PE of a wide area network.
//   - proxymsg: the message to a proxy, which translates it.
//
// Headers and other formats:
//
//   - bth: the Base Transport Header and the extended headers.
//   - icrc: the invariant CRC.
//   - ipv6opt and ioam: IPv6 options headers and In Situ OAM.
//   - cm: the messages that set up connections of queue pairs.
//   - pfc: Ethernet flow control of priorities and of whole links.
//   - encap: the tunnels of flows across a wide area network.
//   - pnc: the advertisements of proxies in IS-IS, OSPF and BGP.
//
// Nodes, as state machines without I/O:
//
//   - node: the API of all roles. The roles are node/congested (switch), node/receiver
//     and node/sender (hosts), node/proxy, node/ingress (ingress PE), node/border and
//     node/pause (PPFC). They use node/acl, node/level, node/proxies and node/reaction
//     (rate control of a sender).
//   - qpmap: learns pairs of queue pairs from packets.
//   - flows: statistics of each flow; flows/triage: causes of problems.
//   - filter: filters for captures and borders.
//
// # Conventions of the codecs
//
// Decode sets a receiver, which can be reused. It returns the octets after the
// format, or decodes all of its input if the format has no length. AppendBinary
// appends the octets of the format to a slice, AppendPacket an IP packet, and
// AppendFor the IP packet that answers another. To send a frame, append the Ethernet
// header first.
//
//   - They do not allocate, on success and on error, except to grow the slice.
//   - They do not panic on any input.
//   - On error the receiver of Decode (except message.Message) and the slice are
//     unchanged.
//   - Types with variable parts alias their input. The slice must not overlap the
//     octets that an argument aliases.
//   - Reserved bits are fields: a decoded header is encoded to the same octets.
//   - Decode accepts deviations that the specifications tell receivers to ignore.
//     Validate rejects them and in most packages names all of them.
//
// # Stability
//
// A program that compiles with 1.0 compiles with every 1.x, with the same meaning.
// There are two exceptions, see docs/stability.md:
//
//   - fastcnp, proxymsg, fcn, ppfc and pnc follow their drafts: a new revision changes
//     them in a minor release.
//   - The results of qpmap, flows, filter, netio and node may improve.
//
// D1, D2 and so on in the documentation refer to the decisions in docs/decisions.md
// about questions that the specifications leave open.
package rocecn
