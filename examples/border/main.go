// Border writes those frames of a capture that may cross the border of a domain,
// in either direction, and says what it kept from crossing.
//
//	go run ./examples/border <IN.pcap >OUT.pcap
//
// A router does the same in the kernel: rocecn filter border | nft -f -
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/node/border"
)

// run forwards frames.
func run(in capture.Reader, out *capture.Writer, b *border.Border) error {
	for r, err := range capture.All(in) {
		if err != nil {
			return err
		}
		if b.Judge(r.Data, r.Options()).Drop {
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
	in, err := capture.Open(os.Stdin)
	if err != nil {
		log.Fatal(err)
	}
	out, err := capture.NewWriter(os.Stdout, capture.Ethernet, time.Nanosecond)
	if err != nil {
		log.Fatal(err)
	}
	b := border.New(cfg)
	if err := run(in, out, b); err != nil {
		log.Fatal(err)
	}
	fmt.Fprintf(os.Stderr, "%+v\n", b.Stats())
}
