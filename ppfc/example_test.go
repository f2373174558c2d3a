package ppfc_test

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/rocev2"
)

// A switch asks the sender of a congested packet to pause for a millisecond.
func ExampleAppendFor() {
	var congested rocev2.Packet // as DecodeFrame leaves it
	congested.Src, congested.Dst = netip.MustParseAddr("2001:db8:1::1"), netip.MustParseAddr("2001:db8:2::2")
	congested.BTH.Header = bth.Header{Opcode: bth.RCRDMAWriteMiddle, PKey: 0xFFFF, DestQP: 0x11}
	self := netip.MustParseAddr("2001:db8:ffff::5")

	packet, err := ppfc.AppendFor(nil, &congested, ppfc.Extension{Type: ppfc.Stop, Port: 7, Pause: time.Millisecond}, ppfc.Config{Src: self})
	if err != nil {
		fmt.Println(err)
		return
	}
	var p rocev2.Packet
	if err := p.DecodeIP(packet); err != nil {
		fmt.Println(err)
		return
	}
	n, err := ppfc.FromPacket(&p)
	fmt.Println(p.Dst, n.Type, n.Congested, n.Port, n.Pause, err)
	// Output: 2001:db8:1::1 stop 2001:db8:ffff::5 7 1ms <nil>
}
