// Sender prints which of a host's queue pairs have to slow down, from the
// notifications in a capture that are to be believed, and which UDP source port
// leads around the switch that complains. Its own queue pairs it learns from the
// capture itself.
//
//	go run ./examples/sender -self 2001:db8:1::a -accept 2001:db8:ffff::/48 <IN.pcap
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"net/netip"
	"os"
	"time"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/sender"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// run prints a line for each notification.
func run(in capture.Reader, out io.Writer, s *sender.Sender, pairs *qpmap.Map) error {
	detour := sender.NewDetour(4096, time.Second, 1)
	var packet rocev2.Packet
	for r, err := range capture.All(in) {
		if err != nil {
			return err
		}
		now := r.Time
		if packet.Decode(r.Data, r.Options()) == nil {
			pairs.Observe(&packet, 0, now) // connections
			s.Observe(&packet, now)        // datagrams
		}
		e, reason := s.Receive(r.Data, r.Options(), now)
		switch {
		case reason == node.NotOurs: // not for this host, or no notification
			continue
		case reason != node.Accepted:
			fmt.Fprintf(out, "refused: %v\n", reason)
			continue
		case e.Again: // the same congestion as before
			continue
		}
		fmt.Fprintf(out, "queue pair %#x: %v from %v (%v)\n", e.QP, e.Kind, e.From, e.Origin)
		if e.Kind == message.FastCNP && e.Origin == fastcnp.Network {
			detour.Report(e.Flow, e.SrcPort, e.From, now)
			fmt.Fprintf(out, "  from now on: UDP source port %d\n", detour.SrcPort(e.Flow, e.SrcPort, now))
		}
		if e.Trace != nil {
			for hop := range e.Trace.Nodes() {
				fmt.Fprintf(out, "  node %d: queue %d\n", hop.NodeID, hop.QueueDepth)
			}
		}
	}
	return nil
}

func main() {
	pairs := qpmap.New(qpmap.Config{})
	cfg := sender.Config{Enabled: true, QPs: pairs, Window: 100 * time.Microsecond}
	flag.TextVar(&cfg.Self6, "self", netip.Addr{}, "own IPv6 `address`")
	var accept []netip.Prefix
	flag.Func("accept", "`prefix` of switches to believe; may be given again", func(s string) error {
		p, err := netip.ParsePrefix(s)
		accept = append(accept, p)
		return err
	})
	flag.Parse()
	cfg.Accept = acl.New(accept...)
	in, err := capture.Open(os.Stdin)
	if err != nil {
		log.Fatal(err)
	}
	if err := run(in, os.Stdout, sender.New(cfg), pairs); err != nil {
		log.Fatal(err)
	}
}
