package scenario_test

import (
	"context"
	"fmt"
	"log"

	"github.com/rocecn/rocecn/lab/scenario"
)

// Two senders send a message of 64 KB each to one host.
func ExampleScenario_Run() {
	s, err := scenario.Read([]byte(`{
		"variants": ["cnp", "fastcnp"], "seeds": [1], "duration": "100us",
		"topology": {"kind": "star", "hosts": 3},
		"traffic": [{"kind": "incast", "senders": 2, "size": "64KB"}]
	}`))
	if err != nil {
		log.Fatal(err)
	}
	results, err := s.Run(context.Background(), func(float64) {})
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range results {
		fmt.Println(r.Variant, r.Finished, "messages finished,", r.Counts.Lost, "packets lost")
	}
	// Output:
	// cnp 2 messages finished, 0 packets lost
	// fastcnp 2 messages finished, 0 packets lost
}
