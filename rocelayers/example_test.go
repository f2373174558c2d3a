package rocelayers_test

import (
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/ioam"
	"github.com/rocecn/rocecn/ipv6opt"
	"github.com/rocecn/rocecn/rocelayers"
)

// frame is a CNP over IPv4 that a network adapter sent.
var frame, _ = hex.DecodeString("e41d2dab2bc27cfe90643b320800" +
	"45c2003c718c4000401191610a0011010a001201" + "000012b700280000" +
	"8100ffff4000011800000000" + "00000000000000000000000000000000" + "82fd002a")

func Example_newPacket() {
	rocelayers.Register() // once, before decoding starts

	packet := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default)
	if l, ok := packet.Layer(rocelayers.LayerTypeBTH).(*rocelayers.BTH); ok {
		fmt.Printf("%v for queue pair %#x\n", l.Opcode, l.DestQP)
		coverage, err := rocelayers.VerifyICRC(packet)
		fmt.Printf("ICRC %v: %v, %v\n", &l.ICRC, coverage, err)
	}
	for _, l := range packet.Layers()[3:] {
		fmt.Println(gopacket.LayerString(l))
	}
	// Output:
	// CNP for queue pair 0x118
	// ICRC 0x2a00fd82: as-sent, <nil>
	// BTH	CNP DestQP 0x000118 PSN 0 PKey 0xffff BECN 1
	// CNP	CNP DestQP 0x000118 PSN 0 PKey 0xffff BECN 1
	// ICRC	0x2a00fd82
}

func ExampleStack() {
	var s rocelayers.Stack // ready for use, for any number of frames

	// For every frame; nothing below allocates.
	if err := s.Decode(frame); err != nil {
		fmt.Println(err)
		return
	}
	for _, t := range s.Decoded {
		switch t {
		case rocelayers.LayerTypeBTH:
			coverage, err := s.BTH.VerifyICRC()
			fmt.Printf("ICRC 0x%08x: %v, %v\n", s.BTH.ICRC.Value, coverage, err)
		case rocelayers.LayerTypeCNP:
			fmt.Printf("the receiver %v: slow down queue pair %#x\n", s.IPv4.SrcIP, s.CNP.DestQP)
		case rocelayers.LayerTypeFastCNP:
			fmt.Printf("the %v: slow down what goes to %v, queue pair %#x\n",
				s.FastCNP.Origin(), s.FastCNP.Option.OriginalDst, s.FastCNP.CNP.DestQP)
		}
	}
	// Output:
	// ICRC 0x2a00fd82: as-sent, <nil>
	// the receiver 10.0.17.1: slow down queue pair 0x118
}

// A parser of one's own with the layers of a Stack: here one that begins with
// an IP packet.
func ExampleStack_Layers() {
	var s rocelayers.Stack
	parser := gopacket.NewDecodingLayerParser(layers.LayerTypeIPv4, s.Layers()...)

	packet := frame[14:]
	if err := parser.DecodeLayers(packet, &s.Decoded); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.Decoded)
	if s.Layer(rocelayers.LayerTypeCNP) != nil {
		fmt.Println(&s.CNP)
	}
	// Output:
	// [IPv4 UDP BTH CNP]
	// CNP DestQP 0x000118 PSN 0 PKey 0xffff BECN 1
}

func ExampleSerializeLayers() {
	eth := layers.Ethernet{
		SrcMAC:       net.HardwareAddr{0x02, 0, 0, 0, 0, 0x01},
		DstMAC:       net.HardwareAddr{0x02, 0, 0, 0, 0, 0x02},
		EthernetType: layers.EthernetTypeIPv6,
	}
	ip := layers.IPv6{
		Version: 6, TrafficClass: 48 << 2, HopLimit: 64, NextHeader: layers.IPProtocolUDP,
		SrcIP: net.ParseIP("2001:db8::1"), DstIP: net.ParseIP("2001:db8::2"),
	}
	udp := layers.UDP{SrcPort: 49152, DstPort: 4791}
	var l rocelayers.BTH
	l.Opcode, l.BECN, l.PKey, l.DestQP = bth.CNP, true, 0xFFFF, 0x118

	buf := gopacket.NewSerializeBuffer()
	opts := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	if err := rocelayers.SerializeLayers(buf, opts, &eth, &ip, &udp, &l, &rocelayers.CNP{}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d octets, ICRC 0x%08x\n", len(buf.Bytes()), l.ICRC.Value)
	// Output: 94 octets, ICRC 0xbb203333
}

// fastCNP is a Fast CNP that a switch sent: option 2, with a trace of two
// nodes.
var fastCNP, _ = hex.DecodeString("02000000000102000000000286dd" +
	"6c00000000703c40" + "20010db8ffff00000000000000000005" + "20010db8000100000000000000000001" +
	"11080100" + "9e420000" + "007b2800f2000000" +
	"3e0000c3012d012e6b016389000989b80000c350" + "3f0000b200c900ca6b016389000989af000004b0" +
	"20010db800040000000000000000000e" +
	"c00012b700280000" + "8100ffff4011111100000000" + "00000000000000000000000000000000" + "6e980b79")

func ExampleFastCNP() {
	rocelayers.Register() // once, before decoding starts

	packet := gopacket.NewPacket(fastCNP, layers.LayerTypeEthernet, gopacket.Default)
	if l, ok := packet.Layer(rocelayers.LayerTypeFastCNP).(*rocelayers.FastCNP); ok {
		fmt.Printf("%v of the %v, to %v\n", l.Src, l.Origin(), l.Dst)
		fmt.Printf("about queue pair %#x at %v\n", l.CNP.DestQP, l.Option.OriginalDst)
		for node := range l.Option.Trace.Nodes() { // newest first
			id, known := node.ID()
			if depth, ok := node.QueueDepth(); ok && known {
				fmt.Printf("node %#x: queue %d\n", id, depth)
			}
		}
		fmt.Println(rocelayers.VerifyICRC(packet))
	}
	// Output:
	// 2001:db8:ffff::5 of the network, to 2001:db8:1::1
	// about queue pair 0x111111 at 2001:db8:4::e
	// node 0xc3: queue 50000
	// node 0xb2: queue 1200
	// as-sent <nil>
}

// Put a Fast CNP together from layers.
func ExampleFastCNP_DestinationOptions() {
	eth := layers.Ethernet{
		SrcMAC:       net.HardwareAddr{0x02, 0, 0, 0, 0, 0x02},
		DstMAC:       net.HardwareAddr{0x02, 0, 0, 0, 0, 0x01},
		EthernetType: layers.EthernetTypeIPv6,
	}
	ip := layers.IPv6{
		Version: 6, TrafficClass: 48 << 2, HopLimit: 64, NextHeader: layers.IPProtocolIPv6Destination,
		SrcIP: net.ParseIP("2001:db8:ffff::5"), DstIP: net.ParseIP("2001:db8:1::1"),
	}
	udp := layers.UDP{SrcPort: 49152, DstPort: 4791}
	var fast rocelayers.FastCNP
	fast.CNP = cnp.New(0x111111, 0xFFFF)
	fast.Option = fastcnp.Option{Number: 1, OriginalDst: netip.MustParseAddr("2001:db8:4::e")}
	var l rocelayers.BTH
	l.Header = fast.CNP.Header
	options, err := fast.DestinationOptions()
	if err != nil {
		fmt.Println(err)
		return
	}

	buf := gopacket.NewSerializeBuffer()
	opts := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	if err := rocelayers.SerializeLayers(buf, opts, &eth, &ip, options, &udp, &l, &fast); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%x\n%d octets, ICRC 0x%08x\n", options.Options, len(buf.Bytes()), l.ICRC.Value)
	// Output:
	// 9e1020010db800040000000000000000000e01020000
	// 118 octets, ICRC 0x96c090ef
}

// A Hop-by-Hop header with room for a trace: written, and read again.
func ExampleIOAMOf() {
	trace := ioam.Trace{OptType: ioam.OptTypePreallocated, Namespace: 123, Type: ioam.BitNode | ioam.BitQueueDepth}
	data, err := trace.AppendFresh([]byte{0, uint8(trace.OptType)}, 3*trace.Type.NodeLen())
	if err != nil {
		fmt.Println(err)
		return
	}
	w := ipv6opt.Begin(nil, uint8(layers.IPProtocolUDP))
	if err := w.Add(ioam.IPv6MayChange, 4, 0, data); err != nil {
		fmt.Println(err)
		return
	}
	var header rocelayers.HopByHop
	if _, err := header.Decode(w.Finish()); err != nil {
		fmt.Println(err)
		return
	}
	ip := layers.IPv6{
		Version: 6, HopLimit: 64, NextHeader: layers.IPProtocolIPv6HopByHop,
		SrcIP: net.ParseIP("2001:db8:1::1"), DstIP: net.ParseIP("2001:db8:4::e"),
	}
	udp := layers.UDP{SrcPort: 49152, DstPort: 4791}
	var l rocelayers.BTH
	l.Opcode, l.PKey, l.DestQP = bth.RCSendOnly, 0xFFFF, 0x11

	buf := gopacket.NewSerializeBuffer()
	opts := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	if err := rocelayers.SerializeLayers(buf, opts, &ip, &header, &udp, &l, gopacket.Payload("data")); err != nil {
		fmt.Println(err)
		return
	}

	// The IPv6 layer of this package leaves the header to HopByHop. Nothing
	// below allocates.
	var (
		ip6     rocelayers.IPv6
		hbh     rocelayers.HopByHop
		decoded []gopacket.LayerType
	)
	parser := gopacket.NewDecodingLayerParser(layers.LayerTypeIPv6, &ip6, &hbh)
	parser.IgnoreUnsupported = true
	if err := parser.DecodeLayers(buf.Bytes(), &decoded); err != nil {
		fmt.Println(err)
		return
	}
	for o := range rocelayers.IOAMOf(&hbh) {
		fmt.Println(o.Option.Type, "of namespace", o.Trace.Namespace, "with room for", o.Trace.RemainingLen, "words,",
			o.Err)
	}
	// Output: pre-allocated trace of namespace 123 with room for 6 words, <nil>
}

// Messages over UDP: written, and read again.
func ExampleRegisterFCN() {
	rocelayers.RegisterFCN(fcn.Port) // once, before decoding starts

	ip := layers.IPv6{
		Version: 6, TrafficClass: 48 << 2, HopLimit: 64, NextHeader: layers.IPProtocolUDP,
		SrcIP: net.ParseIP("2001:db8:ffff::5"), DstIP: net.ParseIP("2001:db8:ffff::1"),
	}
	udp := layers.UDP{SrcPort: 49152, DstPort: fcn.Port}
	congested := rocelayers.FCN{Message: fcn.Message{FlowLabel: 0xBEEF5, Level: 7}}
	buf := gopacket.NewSerializeBuffer()
	opts := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	if err := rocelayers.SerializeLayers(buf, opts, &ip, &udp, &congested); err != nil {
		fmt.Println(err)
		return
	}

	packet := gopacket.NewPacket(buf.Bytes(), layers.LayerTypeIPv6, gopacket.Default)
	if l, ok := packet.Layer(rocelayers.LayerTypeFCN).(*rocelayers.FCN); ok {
		fmt.Printf("flow label %#x, level %d\n", l.FlowLabel, l.Level)
	}
	// Output: flow label 0xbeef5, level 7
}
