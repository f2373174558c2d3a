package rocecn_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"log"
	"net/netip"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/rocev2"
)

// A probe decodes a frame.
func Example_read() {
	frame, _ := hex.DecodeString("020000000001020000000002" + "86dd" +
		"6c00000000403c40" + "20010db8ffff00000000000000000005" + "20010db8000100000000000000000001" +
		"11029e10" + "20010db800040000000000000000000e" + "01020000" +
		"c00112b700280000" + "8100ffff4011111100000000" + "00000000000000000000000000000000" + "27875e59")

	var m message.Message // to be reused
	switch err := m.Decode(frame, rocev2.DecodeOptions{}, message.Config{}); {
	case m.Kind == message.KindOther: // neither RoCEv2 nor one of the messages
	case err != nil: // not valid, or with a wrong ICRC
		fmt.Println(m.Kind, err)
	case m.Kind == message.KindFastCNP:
		n := &m.FastCNP
		fmt.Println(n.Src, n.Origin(), n.Option.OriginalDst, n.CNP.DestQP)
		for node := range n.Option.Trace.Nodes() { // newest first; none in this Fast CNP
			id, known := node.ID()
			if depth, ok := node.QueueDepth(); ok && known { // a node may record only one of them
				fmt.Println(id, depth)
			}
		}
	case m.Kind == message.KindCNP:
		fmt.Println(m.Packet.Src, m.CNP.DestQP)
	}
	fmt.Println(m.Verified)
	// Output:
	// 2001:db8:ffff::5 network 2001:db8:4::e 1118481
	// true
}

// A program prints the CNPs of a capture.
func Example_capture() {
	var m message.Message
	for r, err := range capture.File("testdata/tour.pcap") {
		if err != nil {
			log.Fatal(err) // names the record
		}
		if err := m.Decode(r.Data, r.Options(), message.Config{}); err == nil && m.Kind == message.KindCNP {
			fmt.Println(m.Packet.Src, m.CNP.DestQP)
		}
	}
	// Output:
	// 2001:db8:4::e 17
	// 2001:db8:ffff::1 17
}

// A congested switch answers a frame with a Fast CNP.
func Example_answer() {
	frame, _ := hex.DecodeString("020000000001020000000002" + "86dd" +
		"60320000001c1140" + "20010db8000100000000000000000001" + "20010db800040000000000000000000e" +
		"c00112b7001c0000" + "0700ffff0011111100000005" + "01020304" + "00000000")
	loopback := netip.MustParseAddr("2001:db8:ffff::5")

	// answer is called for a packet in a long queue of this switch. The ECN field does
	// not matter: other nodes set a CE mark that is in the packet already.
	answer := func(packet, frame []byte) ([]byte, error) {
		var congested rocev2.Packet
		err := congested.DecodeEthernet(frame)
		if errors.Is(err, rocev2.ErrNotRoCEv2) {
			return packet, nil // other traffic
		} else if err != nil {
			return packet, err // an invalid RoCEv2 packet
		}
		packet, _, err = fastcnp.AppendFor(packet, &congested, loopback, nil, fastcnp.Config{})
		if errors.Is(err, rocev2.ErrNotification) {
			return packet, nil // notifications are not answered
		}
		return packet, err
	}
	packet, err := answer(nil, frame)
	fmt.Println(len(packet), err)
	// Output: 104 <nil>
}
