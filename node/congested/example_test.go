package congested_test

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/congested"
	"github.com/rocecn/rocecn/rocev2"
)

// A packet meets a queue that has filled: its sender gets a Fast CNP, and a mark
// on the packet as well, as nobody knows whether it understands Fast CNPs.
func Example() {
	senders := netip.MustParsePrefix("2001:db8:1::/48")
	agent := congested.New(congested.Config{
		Enabled: true,
		Self6:   netip.MustParseAddr("2001:db8:ffff::5"),
		Methods: acl.NewMap(acl.Entry[congested.Method]{Prefix: senders, Value: congested.FastCNP}),
		PerFlow: [8]time.Duration{3: time.Millisecond},
	})

	data := rocev2.Packet{BTH: bth.Headers{Header: bth.Header{Opcode: bth.RCSendOnly, PKey: 0xFFFF, DestQP: 17}}}
	data.Src, data.Dst = netip.MustParseAddr("2001:db8:1::a"), netip.MustParseAddr("2001:db8:4::e")
	data.SrcPort, data.DstPort, data.HopLimit, data.TrafficClass = 49152, rocev2.Port, 61, rocev2.ECT0
	frame, _ := data.AppendBinary(nil)

	now := time.Unix(1795254649, 0)
	event := &congested.Event{Frame: frame, Options: rocev2.DecodeOptions{Link: rocev2.LinkIP}, Level: 3}
	ip, d := agent.Congested(nil, event, now)
	fmt.Printf("%v with option %d to %v, %d octets; mark: %v\n", d.Kind, d.Option, d.To, len(ip), d.MarkECN)
	_, d = agent.Congested(nil, event, now.Add(time.Microsecond))
	fmt.Println(d.Reason)
	// Output:
	// fastcnp with option 1 to 2001:db8:1::a, 104 octets; mark: true
	// limited
}
