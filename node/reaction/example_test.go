package reaction_test

import (
	"fmt"
	"time"

	"github.com/rocecn/rocecn/node/reaction"
)

// A port of 100 Gbit/s has a flow that is notified once, and that asks when to
// look again.
func Example() {
	dcqcn, err := reaction.NewDCQCN(reaction.PaperDCQCN(100e9))
	if err != nil {
		fmt.Println(err)
		return
	}
	flow := dcqcn.Start()
	now := time.Unix(1795254649, 0)
	flow.Notified(now)
	fmt.Println(flow.Rate())
	for range 3 {
		next, _ := flow.Next()
		flow.Advance(next)
		fmt.Println(flow.Rate(), "after", next.Sub(now))
	}
	// Output:
	// 50000000000
	// 75000000000 after 55µs
	// 87500000000 after 110µs
	// 93750000000 after 165µs
}
