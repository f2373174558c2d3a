package rocev2_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/rocev2"
)

// An RC RDMA WRITE Middle over IPv6, marked CE.
const written = "020000000001020000000002" + "86dd" +
	"60300000001c113f20010db800010000000000000000000120010db8000200000000000000000002" +
	"c00112b7001c0000" + "0700ffff0000001180fffff0" + "01020304" + "baa09668"

// Most programs decode all frames into one Packet.
func Example() {
	frame, _ := hex.DecodeString(written)
	var p rocev2.Packet
	err := p.DecodeEthernet(frame)
	if errors.Is(err, rocev2.ErrNotRoCEv2) {
		return // other traffic
	} else if err != nil {
		fmt.Println("a broken RoCEv2 packet:", err)
		return
	}
	flow, _ := p.FlowKey() // false for notifications
	fmt.Println(flow, p.BTH.Opcode, "PSN", p.BTH.PSN, "marked CE:", p.ECN() == rocev2.CE)
	coverage, err := p.VerifyICRC()
	fmt.Println("ICRC", coverage, err)
	// Output:
	// 2001:db8:1::1 > 2001:db8:2::2 qp 0x000011 RC RDMA WRITE Middle PSN 16777200 marked CE: true
	// ICRC as-sent <nil>
}

// A packet is built from fields; lengths, checksums and the ICRC are computed.
func ExamplePacket_AppendBinary() {
	p := rocev2.Packet{
		Datagram: rocev2.Datagram{
			Src: netip.MustParseAddr("192.0.2.1"), Dst: netip.MustParseAddr("192.0.2.2"), HopLimit: 64,
			Flags:   2, // Don't Fragment; without it Linux sets ID, and the ICRC would be wrong
			SrcPort: 0xC001, DstPort: rocev2.Port, TrafficClass: 26<<2 | uint8(rocev2.ECT0),
		},
		Payload: []byte("hello"),
	}
	p.BTH.Header = bth.Header{Opcode: bth.RCSendOnly, PKey: 0xFFFF, DestQP: 0x11, PSN: 7, Pad: 3}
	packet, err := p.AppendBinary(nil)
	fmt.Println(len(packet), err)

	var q rocev2.Packet
	fmt.Println(q.DecodeIP(packet), string(q.Payload))
	// Output:
	// 52 <nil>
	// <nil> hello
}

// A switch marks a packet in place if the transport of the packet supports ECN. Neither the ICRC nor the UDP checksum
// covers the field. SetECN updates the IPv4 header checksum.
func ExampleView_SetECN() {
	frame, _ := hex.DecodeString(strings.Replace(written, "86dd603", "86dd602", 1)) // not marked yet
	var p rocev2.Packet
	if err := p.DecodeEthernet(frame); err != nil {
		fmt.Println(err)
		return
	}
	if p.ECN() == rocev2.NotECT {
		return // the switch drops such a packet instead
	}
	var f rocev2.Frame
	f.Decode(frame, rocev2.DecodeOptions{})
	was, err := f.Outer().SetECN(rocev2.CE)
	fmt.Println(was, err)
	_, err = p.VerifyICRC()
	fmt.Println(err)
	// Output:
	// ect0 <nil>
	// <nil>
}

// A Frame decodes the packets in tunnels, here a packet in an IPv6 tunnel with a flow label.
func ExampleFrame() {
	inner, _ := hex.DecodeString(written[28:])
	outer, _ := hex.DecodeString("603beef50044" + "2940" + "20010db8ffff00000000000000000001" +
		"20010db8ffff00000000000000000009")
	var f rocev2.Frame
	f.Decode(append(outer, inner...), rocev2.DecodeOptions{Link: rocev2.LinkIP})
	flow, err := f.FiveTuple()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(flow.Src, "to", flow.Dst)
	fmt.Printf("ingress %v, label %#x, ECN %v\n", f.Outer().Src(), f.Outer().FlowLabel(), f.Outer().ECN())
	// Output:
	// 2001:db8:1::1 to 2001:db8:2::2
	// ingress 2001:db8:ffff::1, label 0xbeef5, ECN ce
}
