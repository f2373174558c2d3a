package acl_test

import (
	"fmt"
	"net/netip"

	"github.com/rocecn/rocecn/node/acl"
)

func ExampleList() {
	switches := acl.New(netip.MustParsePrefix("2001:db8:ffff::/48"), netip.MustParsePrefix("192.0.2.0/24"))
	fmt.Println(switches.Contains(netip.MustParseAddr("2001:db8:ffff::5")))
	fmt.Println(switches.Contains(netip.MustParseAddr("2001:db8:1::5")))
	// Output:
	// true
	// false
}

func ExampleMap() {
	methods := acl.NewMap(
		acl.Entry[string]{netip.MustParsePrefix("2001:db8::/32"), "fastcnp"},
		acl.Entry[string]{netip.MustParsePrefix("2001:db8:1::/48"), "proxy"},
	)
	method, known := methods.Lookup(netip.MustParseAddr("2001:db8:1::a"))
	fmt.Println(method, known)
	_, known = methods.Lookup(netip.MustParseAddr("10.0.0.1"))
	fmt.Println(known)
	// Output:
	// proxy true
	// false
}
