package rocelayers_test

import (
	"encoding/hex"
	"fmt"
	"net"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/rocecn/rocecn/bth"
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
	// CNP	Reserved 0
	// ICRC	0x2a00fd82
}

func Example_decodingLayerParser() {
	rocelayers.Register()

	var (
		eth     layers.Ethernet
		vlan    layers.Dot1Q
		ip4     layers.IPv4
		ip6     layers.IPv6
		udp     layers.UDP
		bth     = rocelayers.BTH{UDP: &udp}
		cnp     rocelayers.CNP
		payload gopacket.Payload
	)
	parser := gopacket.NewDecodingLayerParser(layers.LayerTypeEthernet,
		&eth, &vlan, &ip4, &ip6, &udp, &bth, &cnp, &payload)
	var decoded []gopacket.LayerType

	// For every frame; nothing below allocates.
	if err := parser.DecodeLayers(frame, &decoded); err != nil {
		fmt.Println(err)
		return
	}
	var ip gopacket.NetworkLayer // the innermost
	for _, t := range decoded {
		switch t {
		case layers.LayerTypeIPv4:
			ip = &ip4
		case layers.LayerTypeIPv6:
			ip = &ip6
		case rocelayers.LayerTypeBTH:
			_, err := rocelayers.VerifyNetworkLayer(ip)
			fmt.Printf("%v, ICRC 0x%08x, wrong: %v\n", bth.Headers, bth.ICRC.Value, err)
		case rocelayers.LayerTypeCNP:
			fmt.Printf("slow down queue pair %#x\n", bth.DestQP)
		}
	}
	// Output:
	// CNP DestQP 0x000118 PSN 0 PKey 0xffff BECN 1, ICRC 0x2a00fd82, wrong: <nil>
	// slow down queue pair 0x118
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
