package flows_test

import (
	"fmt"
	"os"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/flows"
)

// Print the flows of a capture with retransmissions, and their cause.
func Example() {
	file, err := os.Open("../testdata/rxe-verbs6.pcap")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer file.Close()
	packets, err := capture.Open(file)
	if err != nil {
		fmt.Println(err)
		return
	}
	table := flows.New(flows.Config{})
	var decoder flows.Decoder
	var packet flows.Packet
	number := uint64(0)
	for record, err := range capture.All(packets) {
		if err != nil { // the capture is truncated in the middle of a packet
			fmt.Println(err)
			break
		}
		number++
		decoder.Decode(&packet, record.Data, record.Options())
		table.Observe(&packet, number, record.Time)
	}
	for _, f := range table.Snapshot().Flows {
		if f.PSN.Retransmitted > 0 {
			fmt.Printf("%v: %d packets, %d retransmitted, %d as the receiver was not ready, since frame %d\n",
				f.FlowKey, f.Packets, f.PSN.Retransmitted, f.Causes.RNR, f.FirstTrouble)
		}
	}
	// Output:
	// fd77::2 > fd77::1 qp 0x000017: 4 packets, 3 retransmitted, 3 as the receiver was not ready, since frame 243
}
