package fastcnp_test

import (
	"encoding/hex"
	"fmt"
	"net/netip"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/rocev2"
)

// dataPacket is an RC RDMA WRITE Middle of 4 octets over IPv6.
const dataPacket = "60020000001c1140" + "20010db8000100000000000000000001" + "20010db800040000000000000000000e" +
	"c00112b7001c0000" + "0700ffff0011111100000005" + "01020304" + "00000000"

// A congested switch notifies the sender, and the sender decodes the notification.
func ExampleAppendFor() {
	octets, _ := hex.DecodeString(dataPacket)
	var congested rocev2.Packet
	if err := congested.DecodeIP(octets); err != nil {
		fmt.Println(err)
		return
	}
	loopback := netip.MustParseAddr("2001:db8:ffff::5")
	packet, _, err := fastcnp.AppendFor(nil, &congested, loopback, nil, fastcnp.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}

	var p rocev2.Packet
	if err := p.DecodeIP(packet); err != nil {
		fmt.Println(err)
		return
	}
	n, err := fastcnp.FromPacket(&p, fastcnp.CodePoints{})
	if err != nil {
		fmt.Println(err) // fastcnp.ErrNotFastCNP for a CNP of a receiver; otherwise an invalid packet
		return
	}
	fmt.Printf("%v (%v) to %v: flow to %v, queue pair %#x\n",
		n.Src, n.Origin(), n.Dst, n.Option.OriginalDst, n.CNP.DestQP)
	for node := range n.Option.Trace.Nodes() { // none: the congested packet had no trace
		if depth, ok := node.QueueDepth(); ok {
			fmt.Println(depth)
		}
	}
	// Output: 2001:db8:ffff::5 (network) to 2001:db8:1::1: flow to 2001:db8:4::e, queue pair 0x111111
}

// A switch takes batches of frames from a congested port and answers each that is not a
// CNP. It reuses one Packet and one buffer for each core, and does not allocate.
func Example_batch() {
	frame, _ := hex.DecodeString("020000000001" + "020000000002" + "86dd" + dataPacket)
	frames := make([][]byte, 64)
	for i := range frames {
		frames[i] = frame
	}
	loopback := netip.MustParseAddr("2001:db8:ffff::5")

	var p rocev2.Packet
	buf, answers := make([]byte, 0, 64<<10), make([][]byte, 0, 64)
	for range 3 { // batches
		buf, answers = buf[:0], answers[:0]
		for _, frame := range frames {
			if p.DecodeEthernet(frame) != nil || p.BTH.Opcode == bth.CNP {
				continue
			}
			start := len(buf)
			var err error
			if buf, _, err = fastcnp.AppendFor(buf, &p, loopback, nil, fastcnp.Config{}); err == nil {
				answers = append(answers, buf[start:])
			}
		}
		fmt.Println(len(answers), "answers,", len(buf), "octets")
	}
	// Output:
	// 64 answers, 6656 octets
	// 64 answers, 6656 octets
	// 64 answers, 6656 octets
}

// A host that does not know the option answers with an ICMPv6 Parameter Problem, from
// which the switch learns that this sender does not support Fast CNPs.
func ExampleFromICMP() {
	octets, _ := hex.DecodeString(dataPacket)
	var congested rocev2.Packet
	if err := congested.DecodeIP(octets); err != nil {
		fmt.Println(err)
		return
	}
	sent, _, _ := fastcnp.AppendFor(nil, &congested, netip.MustParseAddr("2001:db8:ffff::5"), nil, fastcnp.Config{})
	message := append([]byte{4, 2, 0, 0, 0, 0, 0, 42}, sent...) // type 4, code 2, pointer 42

	n, err := fastcnp.FromICMP(message, fastcnp.CodePoints{})
	fmt.Println("not capable:", n.Dst, err)
	// Output: not capable: 2001:db8:1::1 <nil>
}
