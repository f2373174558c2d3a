// Border writes those frames of a capture that may cross the border of a domain,
// in either direction, and says what it kept from crossing.
//
//	go run ./examples/border <IN.pcap >OUT.pcap
//
// A router does the same in the kernel: rocecn filter border | nft -f -
package main

import (
	"cmp"
	"flag"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/border"
	"github.com/rocecn/rocecn/rocev2"
)

// run forwards frames.
func run(in capture.Reader, out *capture.Writer, b *border.Role) error {
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

func main() {
	cfg := border.Config{Enabled: true}
	flag.BoolVar(&cfg.CNP, "cnp", false, "CNPs do not cross either")
	flag.BoolVar(&cfg.PPFC, "ppfc", false, "PPFC notifications do not cross either")
	flag.Parse()
	b, wrong := border.New(cfg)
	in, unreadable := capture.Open(os.Stdin)
	out, unwritable := capture.NewWriter(os.Stdout, capture.Ethernet, time.Nanosecond)
	if err := cmp.Or(wrong, unreadable, unwritable); err != nil {
		log.Fatal(err)
	}
	if err := run(in, out, b); err != nil {
		log.Fatal(err)
	}
	for what, n := range b.Counters().All() {
		fmt.Fprintln(os.Stderr, what, n)
	}
}
