// Count prints how many CNPs and Fast CNPs a capture has, by flow: a CNP by the
// way that it took itself, from the receiver to the sender's queue pair, a Fast
// CNP by the data that it is about.
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
	"github.com/rocecn/rocecn/rocev2"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: count FILE")
	}
	if err := count(os.Args[1], os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func count(file string, out io.Writer) error {
	cnps, fast, broken := map[rocev2.FlowKey]int{}, map[rocev2.FlowKey]int{}, 0
	var m message.Message // reusable
	for r, err := range capture.File(file) {
		if err != nil {
			return err
		}
		switch err := m.Decode(r.Data, r.Options(), message.Config{}); {
		case m.Kind == message.Other: // neither RoCEv2 nor a message
		case err != nil: // broken, or a wrong ICRC
			broken++
		case m.Kind == message.CNP:
			cnps[m.Packet.FlowKey()]++
		case m.Kind == message.FastCNP:
			fast[m.FastCNP.FlowKey()]++
		}
	}
	print(out, "CNP", cnps)
	print(out, "Fast CNP", fast)
	_, err := fmt.Fprintln(out, "broken", broken)
	return err
}

func print(out io.Writer, what string, counts map[rocev2.FlowKey]int) {
	for _, k := range slices.SortedFunc(maps.Keys(counts), rocev2.FlowKey.Compare) {
		fmt.Fprintln(out, what, k, counts[k])
	}
}
