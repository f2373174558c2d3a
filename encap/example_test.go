package encap_test

import (
	"fmt"
	"net/netip"

	"github.com/rocecn/rocecn/encap"
	"github.com/rocecn/rocecn/rocev2"
)

// A packet goes into an SRv6 tunnel; a node on the way sees the outer label, and
// the flow below the tunnel.
func Example() {
	inner := rocev2.Datagram{
		Src: netip.MustParseAddr("10.0.1.1"), Dst: netip.MustParseAddr("10.0.4.1"),
		TrafficClass: 26<<2 | 1, HopLimit: 64, Flags: 2, DstPort: rocev2.Port, Data: make([]byte, 28),
	}
	packet, err := inner.AppendBinary(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	tunnel := encap.SRv6{
		Src:      netip.MustParseAddr("2001:db8:fe::1"),
		Segments: []netip.Addr{netip.MustParseAddr("fc00:5::"), netip.MustParseAddr("fc00:9::d4")},
		Reduced:  true,
	}
	outer, err := tunnel.Append(nil, packet, 0xBEEF5)
	if err != nil {
		fmt.Println(err)
		return
	}
	var f rocev2.Frame
	f.Decode(outer, rocev2.DecodeOptions{Link: rocev2.LinkIP})
	flow, err := f.FiveTuple()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d octets around %d\n", tunnel.Overhead(), len(packet))
	fmt.Printf("outer label %05x, ECN %d\n", uint32(outer[1]&0xF)<<16|uint32(outer[2])<<8|uint32(outer[3]),
		outer[1]>>4&3)
	fmt.Println("inside", flow.Src, "to", flow.Dst)
	// Output:
	// 64 octets around 56
	// outer label beef5, ECN 1
	// inside 10.0.1.1 to 10.0.4.1
}
