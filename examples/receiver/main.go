// Receiver answers the packets of a capture that arrived with CE: it sends a CNP
// for each flow, at most one every 50 microseconds. It learns the queue pairs of
// the senders from the capture itself. It writes IP packets without a link-layer
// header.
//
//	go run ./examples/receiver -self6 fd77::1 <examples/receiver/testdata/marked.pcap | go run ./cmd/rocecn -
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

// answerPackets answers packets marked CE, and logs the reason if it cannot.
func answerPackets(in netio.Source, out netio.Sink, host *receiver.Role) error {
	var f rocev2.Frame
	return netio.Run(context.Background(), out, func(b []byte, _ int, p *netio.Packet) []byte {
		f.Decode(p.Data, p.Options())
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
	if err := answerPackets(in, out, host); err != nil {
		log.Fatal(err)
	}
}
