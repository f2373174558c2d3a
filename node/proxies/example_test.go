package proxies_test

import (
	"fmt"
	"net/netip"

	"github.com/rocecn/rocecn/node/proxies"
	"github.com/rocecn/rocecn/pnc"
)

// An operator names the proxy of a rack, and a leaf names the proxy of one of its hosts.
func Example() {
	table := proxies.New(proxies.Config{})
	_ = table.Insert(pnc.Advertisement{
		Prefix: netip.MustParsePrefix("2001:db8:1::/48"),
		Proxy:  netip.MustParseAddr("2001:db8::1"),
	})
	leaf := pnc.Originator{Protocol: pnc.ProtocolBGP, ID: [8]byte{192, 0, 2, 1}}
	_ = table.Insert(pnc.Advertisement{
		Prefix:     netip.MustParsePrefix("2001:db8:1::7/128"),
		Proxy:      netip.MustParseAddr("2001:db8::2"),
		Originator: leaf,
	})
	fmt.Println(table.Lookup(netip.MustParseAddr("2001:db8:1::7")))
	table.Replace(leaf, nil) // the session is down
	fmt.Println(table.Lookup(netip.MustParseAddr("2001:db8:1::7")))
	// Output:
	// 2001:db8::2 true
	// 2001:db8::1 true
}
