package fcn_test

import (
	"fmt"
	"net/netip"

	"github.com/rocecn/rocecn/fcn"
)

func ExampleMessage_AppendBinary() {
	b, err := fcn.Message{FlowLabel: 0xBEEF5, Level: 7}.AppendBinary(nil)
	fmt.Printf("%x %v\n", b, err)
	// Output: beef5e00 <nil>
}

func ExampleMessage_Decode() {
	var m fcn.Message
	_, err := m.Decode([]byte{0xBE, 0xEF, 0x5E, 0x00})
	fmt.Printf("%#x level %d %v\n", m.FlowLabel, m.Level, err)
	// Output: 0xbeef5 level 7 <nil>
}

// A congested node in the WAN answers a packet that an ingress PE
// encapsulated: outer flow label BEEF5, ECN 10.
func ExampleAppendFor() {
	congested := make([]byte, 40) // outer IPv6 header; what it carries does not matter
	copy(congested, []byte{0x60, 0x2B, 0xEE, 0xF5})
	copy(congested[8:], netip.MustParseAddr("2001:db8:ffff::1").AsSlice())
	self := netip.MustParseAddr("2001:db8:ffff::5")

	packet, err := fcn.AppendFor(nil, congested, self, 7, fcn.Config{CopyLabel: true})
	fmt.Printf("%d octets to %v: %x %v\n", len(packet), netip.AddrFrom16([16]byte(packet[24:40])), packet[48:], err)
	// Output: 52 octets to 2001:db8:ffff::1: beef5e00 <nil>
}
