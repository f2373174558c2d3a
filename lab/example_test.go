package lab_test

import (
	"fmt"
	"log"
	"time"

	"github.com/rocecn/rocecn/lab"
	"github.com/rocecn/rocecn/lab/sim"
	"github.com/rocecn/rocecn/node/reaction"
)

// Eight hosts send to a ninth: by Fast CNPs the queue stays shorter than by CNPs.
func Example() {
	for _, v := range []lab.Variant{lab.CNP, lab.FastCNP} {
		n, err := lab.New(lab.Config{
			Seed: 1, Variant: v, RED: lab.RED{Min: 100_000, Max: 400_000, Probability: 0.2},
			Reaction: reaction.PaperDCQCN, Interval: 50 * time.Microsecond,
			ReceiverDelay: sim.Microsecond, SwitchDelay: sim.Microsecond, SenderDelay: sim.Microsecond,
			DataPriority: 3, AckPriority: 3, NotificationPriority: 6, AckEvery: 16,
		})
		if err != nil {
			log.Fatal(err)
		}
		leaf, receiver := n.Switch(), n.Host()
		_, out := n.Link(receiver, leaf, 100*sim.Gbps, 5*sim.Microsecond)
		for i := range 8 {
			host := n.Host()
			n.Link(host, leaf, 100*sim.Gbps, sim.Microsecond)
			f, err := n.Flow(host, receiver, 0)
			if err != nil {
				log.Fatal(err)
			}
			n.RunAt(sim.Time(i)*100*sim.Nanosecond, f.Endless)
		}
		n.Until(sim.Millisecond)
		if err := n.Check(); err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%v: %d KB at most, the first cut after %v\n", v, out.Most()/1000,
			n.Flows()[0].FirstCut()-n.Counts().Onset)
	}
	// Output:
	// cnp: 4127 KB at most, the first cut after 13.91968µs
	// fastcnp: 3258 KB at most, the first cut after 3.82208µs
}
