package cnp_test

import (
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/rocecn/rocecn"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/rocev2"
)

// A receiver answers a packet that arrived with Congestion Experienced.
func ExampleAppendFor() {
	frame, _ := hex.DecodeString("020000000001020000000002" + "86dd" +
		"60300000001c113f20010db800010000000000000000000120010db8000200000000000000000002" +
		"c00112b7001c0000" + "0400ffff0000001180fffff0" + "01020304" + "00000000")
	var data rocev2.Packet
	if err := data.DecodeEthernet(frame); err != nil {
		fmt.Println(err)
		return
	}
	const senderQP = 0x118 // the receiver knows it from connection set-up
	if data.ECN() == rocev2.CE {
		packet, err := cnp.AppendFor(nil, &data, data.FinalDst(), senderQP, cnp.Config{})
		fmt.Println(len(packet), err)
	}
	// Output: 80 <nil>
}

// A sender decodes a CNP. It must not act on a Fast CNP as on a CNP, because that names
// another queue pair.
func ExampleFromPacket() {
	packet, _ := hex.DecodeString("6c00000000281140" + "20010db8000200000000000000000002" +
		"20010db8000100000000000000000001" +
		"c00112b700280000" + "8100ffff4000011800000000" + "00000000000000000000000000000000" + "8515a965")
	var p rocev2.Packet
	if err := p.DecodeIP(packet); err != nil {
		fmt.Println(err)
		return
	}
	c, err := cnp.FromPacket(&p)
	switch {
	case errors.Is(err, rocecn.ErrOther):
		fmt.Println("another message:", err)
	case err != nil:
		fmt.Println("broken:", err)
	default:
		fmt.Printf("slow down queue pair %#x towards %v\n", c.DestQP, p.Src)
	}
	// Output: slow down queue pair 0x118 towards 2001:db8:2::2
}
