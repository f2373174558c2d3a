package reaction_test

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/reaction"
)

// A host keeps the rates of its flows. A decision of the sender slows one down, and the table returns the time of the
// next update.
func ExampleTable() {
	table, err := reaction.NewTable(reaction.TableConfig{Enabled: true, DCQCN: reaction.PaperDCQCN(100e9)})
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Unix(1795254649, 0)
	flow := reaction.FlowID{Dst: netip.MustParseAddr("2001:db8:4::e"), DestQP: 0x17}
	d := node.Decision{Action: node.ActionAccepted, Message: message.KindCNP, Request: node.RequestSlowDown,
		KnownQP: true}
	table.React(&d, flow, now)
	for range 3 {
		for order := range table.Changes(now) {
			fmt.Println(order.Flow.Dst, order.Flow.DestQP, order.Rate)
		}
		now, _ = table.Next(now)
		table.Advance(now)
	}
	// Output:
	// 2001:db8:4::e 23 50000000000
	// 2001:db8:4::e 23 75000000000
	// 2001:db8:4::e 23 87500000000
}
