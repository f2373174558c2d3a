package cnp_test

import (
	"encoding/hex"
	"fmt"
	"net/netip"

	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/rocev2"
)

// A receiver answers a packet that arrived with Congestion Experienced.
func ExampleAppendFor() {
	frame, _ := hex.DecodeString("020000000001020000000002" + "86dd" +
		"60300000001c113f20010db800010000000000000000000120010db8000200000000000000000002" +
		"c00112b7001c0000" + "0400ffff0000001180fffff0" + "01020304" + "00000000")
	var data rocev2.Packet
	if err := data.DecodeFrame(frame); err != nil {
		fmt.Println(err)
		return
	}
	const senderQP = 0x118 // the receiver knows it from connection set-up
	if data.ECN() == 3 {
		packet, err := cnp.AppendFor(nil, &data, senderQP, cnp.Config{})
		fmt.Println(len(packet), err)
	}
	// Output: 80 <nil>
}

// A receiver that answers one sender again and again keeps a template: only
// the queue pair changes.
func ExampleTemplate() {
	receiver, sender := netip.MustParseAddr("2001:db8:2::2"), netip.MustParseAddr("2001:db8:1::1")
	template, err := cnp.NewTemplate(sender, 0xFFFF, cnp.Config{Src: receiver})
	if err != nil {
		fmt.Println(err)
		return
	}
	packet := make([]byte, 0, 80)
	for _, senderQP := range []uint32{0x118, 0x119} {
		packet, err = template.AppendPacket(packet[:0], senderQP, 0)
		coverage, wrong := icrc.Verify(packet)
		fmt.Println(err, len(packet), coverage, wrong)
	}
	// Output:
	// <nil> 80 as-sent <nil>
	// <nil> 80 as-sent <nil>
}
