package congested_test

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/congested"
	"github.com/rocecn/rocecn/node/level"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/rocev2"
)

// A packet arrives at a full queue. Its sender gets a Fast CNP, and the packet is marked as well, because the sender
// may not support Fast CNP.
func Example() {
	senders := netip.MustParsePrefix("2001:db8:1::/48")
	agent, err := congested.New(congested.Config{
		Enabled: true,
		Self6:   netip.MustParseAddr("2001:db8:ffff::5"),
		Methods: acl.NewMap(acl.Entry[congested.Method]{Prefix: senders, Value: congested.MethodFastCNP}),
		PerFlow: [8]time.Duration{3: time.Millisecond},
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	data := rocev2.Packet{BTH: bth.Headers{Header: bth.Header{Opcode: bth.RCSendOnly, PKey: 0xFFFF, DestQP: 17}}}
	data.Src, data.Dst = netip.MustParseAddr("2001:db8:1::a"), netip.MustParseAddr("2001:db8:4::e")
	data.SrcPort, data.DstPort, data.HopLimit, data.TrafficClass = 49152, rocev2.Port, 61, uint8(rocev2.ECT0)
	frame, _ := data.AppendBinary(nil)

	var f rocev2.Frame
	f.Decode(frame, rocev2.DecodeOptions{Link: rocev2.LinkIP})
	event := node.Event{Level: 3, Now: time.Unix(1795254649, 0)}
	ip, d := agent.Receive(nil, &f, event)
	fmt.Printf("%v with option %d to %v, %d octets; mark: %v\n", d.Message, d.Option, d.To, len(ip), d.MarkECN)
	event.Now = event.Now.Add(time.Microsecond)
	_, d = agent.Receive(nil, &f, event)
	fmt.Printf("%v; mark: %v\n", d.Reason, d.MarkECN)
	// Output:
	// fastcnp with option 1 to 2001:db8:1::a, 104 octets; mark: true
	// limited; mark: true
}

// A queue fills and drains: a PPFC asks the sender to stop, and a second one to resume.
func ExampleRole_Due() {
	queue := level.Thresholds{Up: []uint64{64 << 10, 256 << 10}, Down: []uint64{32 << 10, 128 << 10}}
	senders := netip.MustParsePrefix("2001:db8:1::/48")
	agent, err := congested.New(congested.Config{
		Enabled:   true,
		Self6:     netip.MustParseAddr("2001:db8:ffff::5"),
		Methods:   acl.NewMap(acl.Entry[congested.Method]{Prefix: senders, Value: congested.MethodPPFC}),
		PauseFrom: congested.PauseFrom{Alarm: 1, Stop: 2},
		Pause:     time.Millisecond,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	data := rocev2.Packet{BTH: bth.Headers{Header: bth.Header{Opcode: bth.RCSendOnly, PKey: 0xFFFF, DestQP: 17}}}
	data.Src, data.Dst = netip.MustParseAddr("2001:db8:1::a"), netip.MustParseAddr("2001:db8:4::e")
	data.DstPort, data.HopLimit = rocev2.Port, 61
	frame, _ := data.AppendBinary(nil)
	var f rocev2.Frame
	f.Decode(frame, rocev2.DecodeOptions{Link: rocev2.LinkIP})
	event := node.Event{Port: 7, Now: time.Unix(1795254649, 0)}
	printDecision := func(ip []byte, d node.Decision) {
		var p rocev2.Packet
		if d.Message == message.KindPPFC && p.DecodeIP(ip) == nil {
			n, _ := ppfc.FromPacket(&p)
			fmt.Println(n.Type, "for", n.Congested, "to", d.To)
		}
	}

	for _, kib := range []uint64{10, 70, 300, 200, 60, 10} { // the queue, packet by packet
		was := event.Level
		event.Level = queue.Level(kib<<10, was)
		if event.Level > 0 {
			printDecision(agent.Receive(nil, &f, event))
		} else if was > 0 {
			agent.Receive(nil, nil, event)
			for {
				ip, d := agent.Due(nil, event.Now)
				if d.Action != node.ActionSent {
					break
				}
				printDecision(ip, d)
			}
		}
	}
	// Output:
	// alarm for 2001:db8:4::e to 2001:db8:1::a
	// stop for 2001:db8:4::e to 2001:db8:1::a
	// stop for 2001:db8:4::e to 2001:db8:1::a
	// alarm for 2001:db8:4::e to 2001:db8:1::a
	// resume for 2001:db8:4::e to 2001:db8:1::a
}
