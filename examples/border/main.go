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
	"io"
	"log"
	"os"

	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
	"github.com/rocecn/rocecn/node/border"
	"github.com/rocecn/rocecn/rocev2"
)

// run forwards frames.
func run(in *pcapgo.Reader, out *pcapgo.Writer, b *border.Border) error {
	for {
		frame, info, err := in.ReadPacketData()
		if err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if b.Judge(frame, rocev2.DecodeOptions{}).Drop {
			continue
		}
		if err := out.WritePacket(info, frame); err != nil {
			return err
		}
	}
}

func main() {
	cfg := border.Config{Enabled: true}
	flag.BoolVar(&cfg.CNP, "cnp", false, "CNPs do not cross either")
	flag.BoolVar(&cfg.PPFC, "ppfc", false, "PPFC notifications do not cross either")
	flag.Parse()
	in, err := pcapgo.NewReader(os.Stdin)
	if err != nil {
		log.Fatal(err)
	}
	out := pcapgo.NewWriterNanos(os.Stdout)
	if err := out.WriteFileHeader(1<<18, layers.LinkTypeEthernet); err != nil {
		log.Fatal(err)
	}
	b := border.New(cfg)
	if err := run(in, out, b); err != nil {
		log.Fatal(err)
	}
	fmt.Fprintf(os.Stderr, "%+v\n", b.Stats())
}
