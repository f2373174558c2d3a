package fastcnp_test

import (
	"encoding/hex"
	"fmt"
	"net/netip"

	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/rocev2"
)

// dataPacket is an RC RDMA WRITE Middle of 4 octets over IPv6.
const dataPacket = "60020000001c1140" + "20010db8000100000000000000000001" + "20010db800040000000000000000000e" +
	"c00112b7001c0000" + "0700ffff0011111100000005" + "01020304" + "00000000"

// A congested switch tells the sender, and the sender reads who says what
// about which flow.
func ExampleAppendFor() {
	octets, _ := hex.DecodeString(dataPacket)
	var congested rocev2.Packet
	if err := congested.DecodeIP(octets); err != nil {
		fmt.Println(err)
		return
	}
	loopback := netip.MustParseAddr("2001:db8:ffff::5")
	packet, err := fastcnp.AppendFor(nil, &congested, fastcnp.Config{Source: loopback})
	if err != nil {
		fmt.Println(err)
		return
	}

	var p rocev2.Packet
	if err := p.DecodeIP(packet); err != nil {
		fmt.Println(err)
		return
	}
	n, err := fastcnp.FromPacket(&p)
	if err != nil {
		fmt.Println(err) // fastcnp.ErrNotFastCNP: a CNP of the receiver's; others: broken
		return
	}
	fmt.Printf("%v (%v) to %v: flow to %v, queue pair %#x\n",
		n.Source, n.Origin(), n.Destination, n.Option.OriginalDestination, n.CNP.DestQP)
	for node := range n.Option.Trace.Nodes() { // none here: the packet carried no trace
		fmt.Println(node.NodeID, node.QueueDepth)
	}
	// Output: 2001:db8:ffff::5 (network) to 2001:db8:1::1: flow to 2001:db8:4::e, queue pair 0x111111
}

// A host that does not know the option answers with an ICMPv6 Parameter
// Problem: the switch learns that this sender is not capable.
func ExampleFromICMP() {
	octets, _ := hex.DecodeString(dataPacket)
	var congested rocev2.Packet
	if err := congested.DecodeIP(octets); err != nil {
		fmt.Println(err)
		return
	}
	sent, _ := fastcnp.AppendFor(nil, &congested, fastcnp.Config{Source: netip.MustParseAddr("2001:db8:ffff::5")})
	message := append([]byte{4, 2, 0, 0, 0, 0, 0, 42}, sent...) // type 4, code 2, pointer 42

	n, err := fastcnp.FromICMP(message)
	fmt.Println("not capable:", n.Destination, err)
	// Output: not capable: 2001:db8:1::1 <nil>
}
