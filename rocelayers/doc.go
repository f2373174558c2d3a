// Package rocelayers has the library's codecs as layers of
// [github.com/google/gopacket].
//
//	Ethernet | VLAN tags | IPv4 or IPv6 | HopByHop, DestinationOptions | UDP
//	UDP | BTH | CNP, FastCNP, PPFC or Payload | ICRC
//	UDP | FCN
//	UDP | Proxy | IPv4 or IPv6 | … the packet that met congestion
//
// Importing it registers the types of the layers and nothing else. [Register],
// [RegisterFCN] and [RegisterProxy] claim UDP ports; call those you want once,
// before decoding starts.
//
// # Basic decoding
//
// NewPacket decodes all of it, with any of gopacket's options:
//
//	rocelayers.Register()
//	packet := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default)
//	if l, ok := packet.Layer(rocelayers.LayerTypeBTH).(*rocelayers.BTH); ok {
//		l.DestQP             // the fields of the BTH
//		l.RETH.DMALength     // the extended headers that l.Present has
//		l.ICRC.Value         // also a layer of its own, behind the payload
//		coverage, err := rocelayers.VerifyICRC(packet)
//	}
//	if l, ok := packet.Layer(rocelayers.LayerTypeFastCNP).(*rocelayers.FastCNP); ok {
//		l.Option.OriginalDst
//		l.Option.Trace.Nodes()
//	}
//
// # Decoding with a parser
//
// A DecodingLayerParser decodes into layers that are there already, and
// allocates nothing:
//
//	var udp layers.UDP
//	bth := rocelayers.BTH{UDP: &udp, IPv6: &ip6} // to know a cut packet, and a Fast CNP
//	fast := rocelayers.FastCNP{BTH: &bth}
//	var options rocelayers.DestinationOptions
//	var cnp rocelayers.CNP
//	var payload gopacket.Payload
//	parser := gopacket.NewDecodingLayerParser(layers.LayerTypeEthernet,
//		&eth, &vlan, &ip4, &ip6, &options, &udp, &bth, &cnp, &fast, &payload)
//	err := parser.DecodeLayers(frame, &decoded)
//	coverage, err := rocelayers.VerifyNetworkLayer(&ip6)
//
// A parser ends at the payload, so the trailer is in the BTH layer: Padding
// and ICRC. Layers that need to know one that carries them have a field for
// it, to be set once. For Routing headers put a layers.IPv6ExtensionSkipper
// before our options in the list. With more than eight layers gopacket's
// DecodingLayerArray is a faster container than its map.
//
// # IPv6 options and IOAM
//
// [DestinationOptions] and [HopByHop] are options headers with the parsing of
// package ipv6opt. [OptionsOf] and [IOAMOf] read the options, and the IOAM among
// them, out of these and of gopacket's own layers; NewPacket adds an [IOAM]
// layer for each option of a RoCEv2 packet. gopacket decodes Hop-by-Hop headers
// inside its IPv6 layer, and allocates for each option; [IPv6] takes the place
// of that in a parser. [OverrideDestinationOptions] replaces gopacket's layer in
// NewPacket.
//
// # What NewPacket cannot do
//
// The layers below UDP are gopacket's, and so are their limits: Routing headers
// of other types than 0 end the packet there, as does an option that overruns its
// Hop-by-Hop header; a UDP message without any data is called no decoder for. An
// IPv6HopByHop of gopacket's is not written again without FixLengths: put a
// [HopByHop] of [OptionsOf] in its place. Package rocev2 has none of these.
//
// # Creating packets
//
// [SerializeLayers] takes the place of gopacket's function of that name,
// because the ICRC of a packet covers headers that gopacket writes after it:
//
//	opts := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
//	err := rocelayers.SerializeLayers(buf, opts, &eth, &ip6, &udp, &bth, &cnp)
//
// gopacket's own function refuses to compute an ICRC, with an error that says
// so. It is as good where nothing is to be computed.
//
// # Where packets end
//
// The UDP length says where a packet ends: Ethernet padding is in no layer. A
// packet that the capture cut decodes as far as it goes, if its headers are
// whole; the BTH then is Truncated and there is no ICRC. gopacket 1.1.19 sets
// its own Truncated falsely on packets with a Hop-by-Hop header.
package rocelayers
