// Package rocelayers has the library's codecs as layers of [github.com/google/gopacket], for programs that read or
// write packets with gopacket. Other programs need only the codecs: package message recognizes the message in a frame.
//
//	Ethernet | VLAN tags | IPv4 or IPv6 | HopByHop, Routing, DestinationOptions | UDP
//	UDP | BTH | CNP, FastCNP, PPFC, CM or Payload | ICRC
//	UDP | FCN
//	UDP | Proxy | the packet that experienced congestion
//	Ethernet | FlowControl
//
// There are two ways to decode, with the same layers: gopacket.NewPacket, which
// allocates a packet with all its layers, and a [Stack], which sets its own layers
// and allocates nothing.
//
// # Basic decoding
//
// [Register] tells gopacket that UDP port 4791 leads to a BTH; [RegisterFCN] and
// [RegisterProxy] claim the ports of these messages, [RegisterFlowControl] the
// EtherType of PFC and PAUSE. Importing the package claims none. After these calls
// NewPacket decodes all messages, with any of gopacket's options, and returns them
// as layers of the packet:
//
//	rocelayers.Register() // once, before decoding starts
//
//	packet := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default)
//	for _, l := range packet.Layers() {
//		switch l := l.(type) {
//		case *rocelayers.CNP:
//			l.DestQP // the queue pair that is to slow down
//		case *rocelayers.FastCNP:
//			l.Option.OriginalDst // destination of the congested packet
//			l.Option.Trace.Nodes() // records of the nodes on its path
//		case *rocelayers.BTH:
//			l.DestQP             // the fields of the BTH
//			l.RETH.DMALength     // the extended headers that l.Present has
//			l.VerifyICRC()
//		case *rocelayers.IOAM:
//			l.Trace.Nodes() // of the data packet itself
//		case *rocelayers.Proxy:
//			return // the layers after it are those of the invoking packet
//		}
//	}
//	if err := packet.ErrorLayer(); err != nil {
//		err.Error() // a malformed message, a malformed header before it, or an undecoded invoking packet
//	}
//
// # Decoding with a Stack
//
// A [Stack] is gopacket's DecodingLayerParser with every layer that a message
// may have, and knows the ports by itself. It decodes one frame after another
// into the same layers:
//
//	var s rocelayers.Stack
//
//	err := s.Decode(frame)
//	for _, t := range s.Decoded {
//		switch t {
//		case rocelayers.LayerTypeCNP:
//			s.CNP.DestQP
//		case rocelayers.LayerTypeFastCNP:
//			s.FastCNP.Option.OriginalDst
//		case rocelayers.LayerTypeBTH:
//			s.BTH.VerifyICRC()
//		}
//	}
//
// Stack.Layers returns these layers for another parser, which may begin with another layer than Ethernet or have more
// layers. Always take them from a Stack, because they refer to each other. A BTH without the other layers returns an
// error: it cannot distinguish a Fast CNP from a CNP, nor find the headers that its ICRC covers.
//
// A Stack ends at the payload, so the trailer is in the BTH layer: Padding and
// ICRC. It also ends at a proxy message; the packet that this is about is a
// Payload. Stack.Packet is the same packet to the rest of the library:
//
//	pairs.Observe(s.Packet(), 0, now)
//
// # Creating packets
//
// [SerializeLayers] takes the place of gopacket's function of that name,
// because the ICRC of a packet covers headers that gopacket writes after it:
//
//	notification := cnp.New(0x118, 0xFFFF)
//	var bth rocelayers.BTH
//	bth.Header = notification.Header
//	opts := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
//	err := rocelayers.SerializeLayers(buf, opts,
//		&eth, &ip6, &udp, &bth, &rocelayers.CNP{CNP: notification})
//
// [CNP], [FastCNP] and [PPFC] repeat the Header of the BTH, and a FastCNP the option before UDP, but only the BTH and
// the options header are written. To change a field of a decoded packet, set it in both layers, or set the repeated
// Header to zero: SerializeLayers rejects layers that contradict each other.
//
// gopacket's own function returns an error instead of computing an ICRC. It is enough if no checksum is to be computed.
//
// # IPv6 options and IOAM
//
// [HopByHop] and [DestinationOptions] are options headers with the parsing of
// package ipv6opt. [OptionsOf] and [IOAMOf] read the options, and the IOAM among
// them, out of these and of gopacket's own layers; NewPacket and Stack.Decode add
// an [IOAM] layer for each option of a RoCEv2 packet. gopacket decodes Hop-by-Hop headers
// inside its IPv6 layer, and allocates for each option; [IPv6] takes the place
// of that in a Stack. [OverrideDestinationOptions] replaces gopacket's layer in
// NewPacket.
//
// # Where packets end
//
// The UDP length determines the end of a packet: Ethernet padding is in no layer. A packet that the capture truncated
// decodes as far as it goes, if its headers are complete; the BTH then is Truncated and there is no ICRC. A packet that
// a switch trimmed is Trimmed as well, and only its BTH has to be complete.
//
// The packet's Truncated is set by gopacket. google/gopacket sets it falsely if there is a Hop-by-Hop header, and does
// not set it if that header is truncated: there is only an ErrorLayer then. Both versions of gopacket set it for a
// complete [Proxy] message if its invoking packet was shortened to fit (D9), and add an ErrorLayer for the part of that
// packet that they cannot decode. A message is complete if Contents and Payload of the Proxy layer have together the
// length in the UDP header.
//
// # Limits of gopacket
//
// The layers below UDP are those of gopacket, with its limits. VLAN tags of type 0x9100 end a packet. In NewPacket an
// option that overruns its Hop-by-Hop header also ends it, and with google/gopacket a Routing header of another type
// than 0; no decoder is called for a UDP message without any data. google/gopacket writes each Pad1 of an IPv6HopByHop
// or IPv6Destination as two octets, which mostly causes an error of its length, sometimes another header: replace it by
// a [HopByHop] or [DestinationOptions] with the header that [OptionsOf] returns. gopacket sets Truncated for a packet
// with a wrong IP length. Package rocev2 has none of these limits.
//
// # The two gopackets
//
// The package exists twice, made from one source: rocecn/rocelayers is for google/gopacket, last released in 2020, and
// rocecn/rocelayers/fork/rocelayers is for gopacket/gopacket, the maintained fork.
package rocelayers

//go:generate go run ./genfork
