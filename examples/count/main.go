// Count prints the number of CNPs and Fast CNPs in a capture: CNPs by the queue
// pair of the sender that they name, Fast CNPs by the flow that they name.
//
//	go run ./examples/count testdata/tour.pcap
package main

import (
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"slices"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/message"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: count FILE")
	}
	if err := count(os.Args[1], os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// count prints the counts of a file.
func count(file string, out io.Writer) error {
	counts, broken := map[string]int{}, 0
	var m message.Message // reusable
	for r, err := range capture.File(file) {
		if err != nil {
			return err
		}
		switch err := m.Decode(r.Data, r.Options(), message.Config{}); {
		case m.Kind == message.KindOther: // neither RoCEv2 nor a message
		case err != nil: // broken, or a wrong ICRC
			broken++
		case m.Kind == message.KindCNP: // it names no flow
			counts[fmt.Sprintf("CNP to %v qp 0x%06x", m.Packet.Dst, m.CNP.DestQP)]++
		case m.Kind == message.KindFastCNP:
			counts[fmt.Sprintf("Fast CNP about %v", m.FastCNP.FlowKey())]++
		}
	}
	for _, key := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(out, "%s: %d\n", key, counts[key])
	}
	_, err := fmt.Fprintln(out, "broken:", broken)
	return err
}
