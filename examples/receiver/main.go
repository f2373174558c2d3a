// Receiver answers the packets of a capture that arrived with CE: a CNP for each
// flow, at most one every 50 microseconds. Which queue pair sends a flow it learns
// from the capture itself.
//
//	go run ./examples/receiver -self 2001:db8:4::e <IN.pcap >OUT.pcap
package main

import (
	"flag"
	"log"
	"net/netip"
	"os"
	"time"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/receiver"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// run answers what is marked, and says why where it does not.
func run(in capture.Reader, out *capture.Writer, host *receiver.Receiver, pairs *qpmap.Map) error {
	var packet rocev2.Packet
	for r, err := range capture.All(in) {
		if err != nil {
			return err
		}
		if packet.Decode(r.Data, r.Options()) != nil {
			continue // other traffic
		}
		pairs.Observe(&packet, 0, r.Time)
		ip, d := host.Receive(nil, &packet, r.Time)
		switch {
		case d.Reason != node.Accepted:
			log.Printf("%v: %v", packet.FlowKey(), d.Reason)
			continue
		case d.Kind == message.Other:
			continue // not marked
		}
		version := uint8(6)
		if d.To.Is4() {
			version = 4
		}
		answer := append(packet.AppendReplyLink(nil, version), ip...)
		if err := out.Write(&capture.Record{Data: answer, Time: r.Time}); err != nil {
			return err
		}
	}
	return nil
}

func main() {
	pairs := qpmap.New(qpmap.Config{})
	cfg := receiver.Config{Enabled: true, QPs: pairs, Interval: 50 * time.Microsecond}
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
	in, err := capture.Open(os.Stdin)
	if err != nil {
		log.Fatal(err)
	}
	out, err := capture.NewWriter(os.Stdout, capture.Ethernet, time.Microsecond)
	if err != nil {
		log.Fatal(err)
	}
	if err := run(in, out, receiver.New(cfg), pairs); err != nil {
		log.Fatal(err)
	}
}
