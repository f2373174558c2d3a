package fcn_test

import (
	"encoding/hex"
	"fmt"
	"net/netip"

	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/rocev2"
)

func ExampleMessage_AppendBinary() {
	b, err := fcn.Message{FlowLabel: 0xBEEF5, Level: 7}.AppendBinary(nil)
	fmt.Printf("%x %v\n", b, err)
	// Output: beef5e00 <nil>
}

func ExampleMessage_Decode() {
	var m fcn.Message
	err := m.Decode([]byte{0xBE, 0xEF, 0x5E, 0x00})
	fmt.Printf("%#x level %d %v\n", m.FlowLabel, m.Level, err)
	// Output: 0xbeef5 level 7 <nil>
}

// A congested node in the WAN answers a packet that an ingress PE put into an
// IPv6 tunnel: outer flow label BEEF5, ECN 10.
func ExampleAppendFor() {
	congested, _ := hex.DecodeString("602beef50020043f" + "20010db8ffff00000000000000000001" +
		"20010db8ffff00000000000000000009" +
		"450200200000000040110000" + "c6336401c6336402" + "c00112b7000c000000000000")
	var flow rocev2.Frame
	flow.Decode(congested, rocev2.DecodeOptions{Link: rocev2.LinkIP})
	self := netip.MustParseAddr("2001:db8:ffff::5")

	packet, err := fcn.AppendFor(nil, &flow, self, 7, fcn.Config{CopyLabel: true})
	fmt.Printf("%d octets to %v: %x %v\n", len(packet), flow.Outer().Src(), packet[48:], err)
	// Output: 52 octets to 2001:db8:ffff::1: beef5e00 <nil>
}
