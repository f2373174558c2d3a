// Border writes the frames of a capture that may cross the border of a domain, in
// either direction, and prints the number of frames that it dropped.
//
//	go run ./examples/border <testdata/tour.pcap | go run ./cmd/rocecn -
//
// A router does the same in the kernel: rocecn filter border | nft -f -
package main

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/border"
	"github.com/rocecn/rocecn/rocev2"
)

// forwardFrames writes the frames that b lets through.
func forwardFrames(in capture.Reader, out *capture.Writer, b *border.Role) error {
	var f rocev2.Frame
	for r, err := range capture.All(in) {
		if err != nil {
			return err
		}
		f.Decode(r.Data, r.Options())
		if _, d := b.Receive(nil, &f, node.Event{Now: r.Time}); d.Action == node.ActionDropped {
			continue
		}
		if err := out.Write(r); err != nil {
			return err
		}
	}
	return nil
}

// printCounters prints the number of frames for each decision.
func printCounters(w io.Writer, b *border.Role) {
	for count, n := range b.Counters().All() {
		fmt.Fprintln(w, count, n)
	}
}

func main() {
	cfg := border.Config{Enabled: true}
	flag.BoolVar(&cfg.CNP, "cnp", false, "drop CNPs as well")
	flag.BoolVar(&cfg.PPFC, "ppfc", false, "drop PPFC notifications as well")
	flag.Parse()
	b, wrong := border.New(cfg)
	in, unreadable := capture.Open(os.Stdin)
	out, unwritable := capture.NewWriter(os.Stdout, capture.Ethernet, time.Nanosecond)
	if err := cmp.Or(wrong, unreadable, unwritable); err != nil {
		log.Fatal(err)
	}
	if err := forwardFrames(in, out, b); err != nil {
		log.Fatal(err)
	}
	printCounters(os.Stderr, b)
}
