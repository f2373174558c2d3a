// Receiver answers the packets of a capture that arrived with CE: a CNP for each
// flow, at most one every 50 microseconds. Which queue pair sends a flow it learns
// from the capture itself.
//
//	go run ./examples/receiver -self 2001:db8:4::e <IN.pcap >OUT.pcap
package main

import (
	"cmp"
	"flag"
	"log"
	"net/netip"
	"os"
	"time"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/receiver"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// run answers what is marked, and says why where it does not.
func run(in capture.Reader, out *capture.Writer, host *receiver.Receiver) error {
	var f rocev2.Frame
	var from rocev2.Datagram
	for r, err := range capture.All(in) {
		if err != nil {
			return err
		}
		f.Decode(r.Data, r.Options())
		ip, d := host.Receive(nil, &f, 0, r.Time)
		if d.Action == node.Refused {
			log.Printf("%v: %v", d.Flow, d.Reason)
		}
		if d.Action != node.Sent || f.Datagram(&from) != nil {
			continue
		}
		version := uint8(6)
		if d.To.Is4() {
			version = 4
		}
		answer := append(from.AppendReplyLink(nil, version), ip...)
		if err := out.Write(&capture.Record{Data: answer, Time: r.Time}); err != nil {
			return err
		}
	}
	return nil
}

func main() {
	cfg := receiver.Config{Enabled: true, QPs: qpmap.New(qpmap.Config{}), PerFlow: 50 * time.Microsecond}
	flag.Func("self", "own `address`; once for each family", func(s string) error {
		a, err := netip.ParseAddr(s)
		if a.Is4() {
			cfg.Self4 = a
		} else {
			cfg.Self6 = a
		}
		return err
	})
	flag.Parse()
	host, wrong := receiver.New(cfg)
	in, unreadable := capture.Open(os.Stdin)
	out, unwritable := capture.NewWriter(os.Stdout, capture.Ethernet, time.Microsecond)
	if err := cmp.Or(wrong, unreadable, unwritable); err != nil {
		log.Fatal(err)
	}
	if err := run(in, out, host); err != nil {
		log.Fatal(err)
	}
}
