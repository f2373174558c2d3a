package triage_test

import (
	"fmt"
	"log"
	"os"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/flows"
	"github.com/rocecn/rocecn/flows/triage"
)

// Print the findings in a capture, and the frames that show them.
func ExampleExplain() {
	f, err := os.Open("../../testdata/rxe-verbs6.pcap")
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	in, err := capture.Open(f)
	if err != nil {
		log.Fatal(err)
	}
	table := flows.New(flows.Config{Evidence: true})
	var d flows.Decoder
	var p flows.Packet
	var r capture.Record
	for number := uint64(1); in.Next(&r) == nil; number++ {
		d.Decode(&p, r.Data, r.Options())
		table.Observe(&p, number, r.Time)
	}
	for _, v := range triage.Explain(table.Snapshot()) {
		if !v.Cause.IsSymptom() {
			fmt.Println(v.Cause, v.Party)
			fmt.Println(v.Frames)
			fmt.Println(v.Filter)
		}
	}
	// Output:
	// receiver not ready fd77::1
	// [{242 RNR NAK} {248 RNR NAK}]
	// ipv6.src == fd77::1 && infiniband.aeth.syndrome.opcode == 1
}
