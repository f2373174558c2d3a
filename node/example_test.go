package node_test

import (
	"fmt"
	"log"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/border"
	"github.com/rocecn/rocecn/rocev2"
)

// Run a role over the frames of a capture. The role of a border sends nothing; for others, out is the packet to send.
func ExampleRole() {
	var role node.Role
	role, err := border.New(border.Config{Enabled: true})
	if err != nil {
		log.Fatal(err)
	}

	var frame rocev2.Frame
	var out []byte
	for r, err := range capture.File("../testdata/fastcnp.pcap") {
		if err != nil {
			log.Fatal(err)
		}
		frame.Decode(r.Data, r.Options())
		var d node.Decision
		if out, d = role.Receive(out[:0], &frame, node.Event{Now: r.Time}); d.Action != node.ActionDropped {
			fmt.Println(d.Action, d.Reason)
		}
	}
	for count, n := range role.Counters().All() {
		fmt.Println(count, n)
	}
	// Output: dropped_fastcnp 18
}
