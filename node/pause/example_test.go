package pause_test

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/pause"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/rocev2"
)

// An ingress takes the notifications of its network's nodes, and asks before it
// forwards a packet of a flow.
func ExampleRole() {
	self, congested := netip.MustParseAddr("2001:db8:1::1"), netip.MustParseAddr("2001:db8:ffff::5")
	receiver := netip.MustParseAddr("2001:db8:4::e")
	table, err := pause.New(pause.Config{
		Enabled: true, Self6: self,
		Accept:   acl.New(netip.MustParsePrefix("2001:db8:ffff::/48")),
		MaxPause: 10 * time.Millisecond,
	})
	if err != nil {
		panic(err)
	}

	stop := ppfc.New(17, 0xFFFF, ppfc.Extension{Congested: receiver, Type: ppfc.Stop, Pause: 50 * time.Microsecond})
	packet, err := stop.AppendPacket(nil, congested, self, ppfc.Config{})
	if err != nil {
		panic(err)
	}
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	var f rocev2.Frame
	f.Decode(packet, rocev2.DecodeOptions{Link: rocev2.LinkIP})
	_, d := table.Receive(nil, &f, node.Event{Now: now})
	fmt.Println(d.Request, "for", d.Pause)

	for _, after := range []time.Duration{0, 49 * time.Microsecond, 50 * time.Microsecond} {
		state, _ := table.State(pause.FlowTarget(receiver, 17), now.Add(after))
		fmt.Println(after, state)
	}
	// Output:
	// stop for 50µs
	// 0s stopped
	// 49µs stopped
	// 50µs running
}
