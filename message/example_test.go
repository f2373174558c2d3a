package message_test

import (
	"encoding/hex"
	"fmt"

	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/rocev2"
)

func ExampleMessage_Decode() {
	frame, _ := hex.DecodeString("020000000001020000000002" + "86dd" +
		"6c00000000403c40" + "20010db8ffff00000000000000000005" + "20010db8000100000000000000000001" +
		"11029e10" + "20010db800040000000000000000000e" + "01020000" +
		"c00112b700280000" + "8100ffff4011111100000000" + "00000000000000000000000000000000" + "27875e59")

	var m message.Message // to be reused
	switch err := m.Decode(frame, rocev2.DecodeOptions{}, message.Config{}); {
	case m.Kind == message.KindOther: // neither RoCEv2 nor one of the messages
	case err != nil: // invalid, or with a wrong ICRC
		fmt.Println(m.Kind, err)
	case m.Kind == message.KindFastCNP:
		n := &m.FastCNP
		fmt.Println("Fast CNP of the", n.Origin(), n.Src, "to", n.Dst)
		fmt.Printf("about queue pair %#x at %v\n", n.CNP.DestQP, n.Option.OriginalDst)
		fmt.Println("ICRC", m.Packet.Coverage, m.Verified)
	case m.Kind == message.KindCNP:
		fmt.Printf("CNP of %v for queue pair %#x\n", m.Packet.Src, m.CNP.DestQP)
	}

	frame[len(frame)-1] ^= 1
	fmt.Println(m.Decode(frame, rocev2.DecodeOptions{}, message.Config{}))
	fmt.Println(m.Kind, m.Verified)
	// Output:
	// Fast CNP of the network 2001:db8:ffff::5 to 2001:db8:1::1
	// about queue pair 0x111111 at 2001:db8:4::e
	// ICRC as-sent true
	// icrc: ICRC: does not match in any coverage
	// fastcnp false
}
