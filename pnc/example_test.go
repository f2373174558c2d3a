package pnc_test

import (
	"encoding/hex"
	"fmt"
	"net/netip"

	"github.com/rocecn/rocecn/pnc"
)

// A congested switch reads the LSP of a leaf that is the proxy of its hosts.
func ExampleCodes_ReadISIS() {
	lsp, _ := hex.DecodeString("831b010014010000002f04b000000000000100000000000100000387" + "12" +
		"0000000a58c0000209040101" + "0b04c6336402")
	for a, err := range (pnc.Codes{}).ReadISIS(lsp) {
		fmt.Println(a.Prefix, "proxy", a.Proxy, "metric", a.Metric, a.Originator.Protocol, err)
	}
	// Output: 192.0.2.0/24 proxy 198.51.100.2 metric 10 IS-IS <nil>
}

// A proxy that runs OSPF advertises a prefix of senders: this is the body of its
// Extended Prefix Opaque LSA.
func ExampleCodes_AppendOSPFv2() {
	b, err := pnc.Codes{}.AppendOSPFv2(nil, pnc.Advertisement{
		Prefix: netip.MustParsePrefix("192.0.2.0/24"),
		Proxy:  netip.MustParseAddr("198.51.100.2"),
	})
	fmt.Printf("%x %v\n", b, err)
	// Output: 0001001801180000c0000200000b00042000000000050004c6336402 <nil>
}

// The value of BGP path attribute 39 is encoded and decoded. The code of the
// characteristic is not assigned yet: both ends must be configured with the same one.
func ExampleCodes_ReadNHC() {
	codes := pnc.Codes{NHC: 0xFF00}
	nextHop := netip.MustParseAddr("198.51.100.7")
	value, err := codes.AppendNHC(nil, pnc.NextHop{AFI: 1, SAFI: 1, Addr: nextHop}, netip.MustParseAddr("198.51.100.2"))
	fmt.Printf("%x %v\n", value, err)

	fmt.Println(codes.ReadNHC(value, nextHop))
	fmt.Println(codes.ReadNHC(value, netip.MustParseAddr("198.51.100.8"))) // the next hop of another router
	// Output:
	// 00010104c6336407ff000004c6336402 <nil>
	// 198.51.100.2 true <nil>
	// invalid IP false <nil>
}
