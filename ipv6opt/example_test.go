package ipv6opt_test

import (
	"fmt"

	"github.com/rocecn/rocecn/ipv6opt"
)

func ExampleHeader_All() {
	b := []byte{17, 1, 0x05, 0x02, 0, 0, 0xC2, 0x04, 0, 1, 0, 0, 0x01, 0x02, 0, 0}

	var h ipv6opt.Header
	if _, err := h.Decode(b); err != nil {
		fmt.Println(err)
		return
	}
	for o, err := range h.All() {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%v at %d: % x (%v)\n", o.Type, o.Offset, o.Data, o.Type.Action())
	}
	// Output:
	// 0x05 at 2: 00 00 (skip)
	// 0xc2 at 6: 00 01 00 00 (discard, send ICMP unless multicast)
	// PadN at 12: 00 00 (skip)
}

func ExampleBuilder() {
	w := ipv6opt.Begin(nil, 17) // UDP follows
	if err := w.Add(0x1E, 4, 2, []byte("rocecn")); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("% x\n", w.Finish())
	// Output: 11 01 1e 06 72 6f 63 65 63 6e 01 04 00 00 00 00
}

func ExampleLimits_Check() {
	h := ipv6opt.Header{Options: make([]byte, 14)} // 14 times Pad1
	fmt.Println(ipv6opt.Limits{}.Check(&h))
	fmt.Println(ipv6opt.Limits{MaxPadding: 14}.Check(&h))
	// Output:
	// ipv6opt: header: more octets of padding in a row than MaxPadding
	// <nil>
}
