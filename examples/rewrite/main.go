// Rewrite takes the first RoCEv2 packet of a capture, marks it CE, changes its
// PSN and writes it again with the ICRC that this calls for. Then it makes the
// PPFC notification that asks the packet's sender to stop for 100 µs.
//
//	go run ./examples/rewrite testdata/tour.pcap
package main

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net/netip"
	"os"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/rocev2"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: rewrite FILE")
	}
	if err := rewrite(os.Args[1], os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func rewrite(file string, out io.Writer) error {
	var p rocev2.Packet
	for r, err := range capture.File(file) {
		if err != nil {
			return err
		}
		if p.Decode(bytes.Clone(r.Data), r.Options()) == nil {
			break // p aliases the clone
		}
	}
	if _, err := p.VerifyICRC(); err != nil { // keeps the coverage
		return err
	}
	p.TrafficClass |= uint8(rocev2.CE)
	p.BTH.PSN = bth.AddPSN(p.BTH.PSN, 1)
	changed, err := p.AppendBinary(append([]byte(nil), p.Link...))
	if err != nil {
		return err
	}
	var q rocev2.Packet
	if err := q.DecodeEthernet(changed); err != nil {
		return err
	}
	coverage, err := q.VerifyICRC()
	fmt.Fprintln(out, "ECN", q.ECN(), "PSN", q.BTH.PSN, "ICRC", coverage, err)

	stop := ppfc.Extension{Type: ppfc.Stop, Port: 7, Pause: 100 * time.Microsecond}
	packet, err := ppfc.AppendFor(nil, &p, netip.MustParseAddr("2001:db8:ffff::5"), stop, ppfc.Config{})
	fmt.Fprintf(out, "PPFC %x\n", packet)
	return err
}
