// Rewrite takes the first RoCEv2 packet of a capture, marks it CE, changes its
// PSN and writes it again with the ICRC that this calls for. Then it makes the
// PPFC notification that asks the packet's sender to stop for 100 µs.
package main

import (
	"fmt"
	"io"
	"log"
	"net/netip"
	"os"
	"time"

	"github.com/google/gopacket/pcapgo"
	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/rocev2"
)

func main() {
	f, err := os.Open(os.Args[1])
	if err == nil {
		err = rewrite(f, os.Stdout)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func rewrite(in io.Reader, out io.Writer) error {
	r, err := pcapgo.NewReader(in)
	if err != nil {
		return err
	}
	var p rocev2.Packet
	for p.Length == 0 {
		frame, _, err := r.ReadPacketData()
		if err != nil {
			return err
		}
		_ = p.DecodeFrame(frame) // on error p stays as it is
	}
	if _, err := p.VerifyICRC(); err != nil { // keeps the coverage
		return err
	}
	p.TrafficClass |= rocev2.CE
	p.BTH.PSN = bth.AddPSN(p.BTH.PSN, 1)
	changed, err := p.AppendBinary(append([]byte(nil), p.Link...))
	if err != nil {
		return err
	}
	var q rocev2.Packet
	if err := q.DecodeFrame(changed); err != nil {
		return err
	}
	coverage, err := q.VerifyICRC()
	fmt.Fprintln(out, "ECN", q.ECN(), "PSN", q.BTH.PSN, "ICRC", coverage, err)

	stop := ppfc.Extension{Type: ppfc.Stop, Port: 7, Pause: 100 * time.Microsecond}
	packet, err := ppfc.AppendFor(nil, &p, netip.MustParseAddr("2001:db8:ffff::5"), stop, ppfc.Config{})
	fmt.Fprintf(out, "PPFC %x\n", packet)
	return err
}
