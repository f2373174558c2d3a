package receiver_test

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/receiver"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// A packet with CE arrives, and the receiver sends a CNP to the sender.
func Example() {
	sender, self := netip.MustParseAddr("2001:db8:1::a"), netip.MustParseAddr("2001:db8:4::e")
	now := time.Unix(1795254649, 0)

	// The sender to queue pair 17 is learned from other packets that Receive sees.
	pairs := qpmap.New(qpmap.Config{})
	pairs.Add(qpmap.Key{FlowKey: rocev2.FlowKey{Src: sender, Dst: self, DestQP: 17}}, qpmap.Pair{SrcQP: 34, Seen: now})
	r, err := receiver.New(receiver.Config{Enabled: true, Self6: self, QPs: pairs, PerFlow: 50 * time.Microsecond})
	if err != nil {
		panic(err)
	}

	data := rocev2.Packet{BTH: bth.Headers{Header: bth.Header{Opcode: bth.RCSendOnly, PKey: 0xFFFF, DestQP: 17}}}
	data.Src, data.Dst, data.TrafficClass = sender, self, uint8(rocev2.CE)
	data.SrcPort, data.DstPort, data.HopLimit = 49152, rocev2.Port, 61
	octets, _ := data.AppendBinary(nil)

	var marked rocev2.Frame
	marked.Decode(octets, rocev2.DecodeOptions{Link: rocev2.LinkIP})
	ip, d := r.Receive(nil, &marked, node.Event{Now: now})
	fmt.Println(d.Message, "to", d.To, "of", len(ip), "octets")
	_, d = r.Receive(nil, &marked, node.Event{Now: now.Add(10 * time.Microsecond)})
	fmt.Println(d.Reason)
	// Output:
	// cnp to 2001:db8:1::a of 80 octets
	// limited
}
