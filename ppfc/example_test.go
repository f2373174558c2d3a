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
	var congested rocev2.Packet // as DecodeEthernet leaves it
	congested.Src, congested.Dst = netip.MustParseAddr("2001:db8:1::1"), netip.MustParseAddr("2001:db8:2::2")
	congested.BTH.Header = bth.Header{Opcode: bth.RCRDMAWriteMiddle, PKey: 0xFFFF, DestQP: 0x11}
	self := netip.MustParseAddr("2001:db8:ffff::5")

	packet, err := ppfc.AppendFor(nil, &congested, self,
		ppfc.Extension{Type: ppfc.Stop, Port: 7, Pause: time.Millisecond}, ppfc.Config{})
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
	// Output: 2001:db8:1::1 stop 2001:db8:2::2 7 1ms <nil>
}

// A host that receives a notification looks its queue pair up both ways: the
// address may be the flow's destination or the congested node's own.
func ExampleFromPacket() {
	own := map[rocev2.FlowKey]uint32{
		{Src: netip.MustParseAddr("192.0.2.1"), Dst: netip.MustParseAddr("192.0.2.2"), DestQP: 0x11}: 0x22,
	}
	n := ppfc.New(0x11, 0xFFFF, ppfc.Extension{Congested: netip.MustParseAddr("192.0.2.2"), Type: ppfc.Stop,
		Pause: time.Millisecond})
	packet, err := n.AppendPacket(nil, netip.MustParseAddr("198.51.100.5"), netip.MustParseAddr("192.0.2.1"),
		ppfc.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	var p rocev2.Packet
	if err := p.DecodeIP(packet); err != nil {
		fmt.Println(err)
		return
	}
	got, err := ppfc.FromPacket(&p)
	if err != nil {
		fmt.Println(err)
		return
	}
	if qp, ok := own[rocev2.FlowKey{Src: p.Dst, Dst: got.Congested, DestQP: got.DestQP}]; ok {
		fmt.Printf("%v queue pair %#x for %v\n", got.Type, qp, got.Pause)
	}
	// Output: stop queue pair 0x22 for 1ms
}
