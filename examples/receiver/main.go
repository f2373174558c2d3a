// Receiver answers the packets of a capture that arrived with CE: a CNP for each
// flow, at most one every 50 microseconds. Which queue pair sends a flow it learns
// from the capture itself. What it sends is IP.
//
//	go run ./examples/receiver -self6 2001:db8:4::e <IN.pcap >OUT.pcap
package main

import (
	"cmp"
	"context"
	"flag"
	"log"
	"net/netip"
	"os"
	"time"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/netio"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/receiver"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// run answers what is marked, and says why where it does not.
func run(in netio.Source, out netio.Sink, host *receiver.Role) error {
	var f rocev2.Frame
	return netio.Run(context.Background(), out, func(b []byte, _ int, p *netio.Packet) []byte {
		f.Decode(p.Data, p.Options()) // the receiver says what it is
		b, d := host.Receive(b, &f, node.Event{Now: p.Time})
		if d.Action == node.ActionRefused {
			log.Printf("%v: %v", d.Flow, d.Reason)
		}
		return b
	}, in)
}

func main() {
	cfg := receiver.Config{Enabled: true, QPs: qpmap.New(qpmap.Config{}), PerFlow: 50 * time.Microsecond}
	flag.TextVar(&cfg.Self4, "self4", netip.Addr{}, "own IPv4 `address`")
	flag.TextVar(&cfg.Self6, "self6", netip.Addr{}, "own IPv6 `address`")
	flag.Parse()
	host, wrong := receiver.New(cfg)
	in, unreadable := netio.OpenFile(os.Stdin)
	out, unwritable := in.Sink(os.Stdout, capture.Raw)
	if err := cmp.Or(wrong, unreadable, unwritable); err != nil {
		log.Fatal(err)
	}
	if err := run(in, out, host); err != nil {
		log.Fatal(err)
	}
}
