// Sender prints the queue pairs of a host that have to slow down or stop, or may
// resume, because of notifications from accepted sources in a capture, and a UDP
// source port that avoids the switch that sent a Fast CNP. It learns its own queue
// pairs from the capture itself.
//
//	go run ./examples/sender -self 2001:db8:1::1 -accept 2001:db8:ffff::/48 <testdata/tour.pcap
package main

import (
	"cmp"
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

// printRequests prints a line for each notification.
func printRequests(in capture.Reader, out io.Writer, s *sender.Role) error {
	detour := sender.NewDetour(sender.DetourConfig{Hold: time.Second, Seed: 1})
	var f rocev2.Frame
	for r, err := range capture.All(in) {
		if err != nil {
			return err
		}
		now := r.Time
		f.Decode(r.Data, r.Options())
		_, d := s.Receive(nil, &f, node.Event{Now: now})
		if d.Action == node.ActionRefused && d.Reason != node.ReasonNotOurs { // not for this host
			fmt.Fprintf(out, "refused: %v\n", d.Reason)
		}
		switch d.Request { // node.ActionAccepted alone tells only that the notification is genuine
		case node.RequestSlowDown:
			fmt.Fprintf(out, "queue pair %#x: slow down, by %v from %v (%v)\n", d.SrcQP, d.Message, d.From, d.Origin)
		case node.RequestStop, node.RequestHold:
			fmt.Fprintf(out, "queue pair %#x: %v for %v, by %v\n", d.SrcQP, d.Request, d.Pause, d.From)
		case node.RequestResume, node.RequestAlarm:
			fmt.Fprintf(out, "queue pair %#x: %v, by %v\n", d.SrcQP, d.Request, d.From)
		case node.NoRequest: // nothing to do, such as for a report of the same congestion as before
			continue
		}
		if d.Message == message.KindFastCNP && d.Origin == fastcnp.OriginNetwork {
			detour.Report(d.Flow.FlowKey, d.SrcPort, d.From, now)
			fmt.Fprintf(out, "  from now on: UDP source port %d\n", detour.SrcPort(d.Flow.FlowKey, d.SrcPort, now))
		}
		if d.Trace != nil {
			for hop := range d.Trace.Nodes() {
				id, known := hop.ID()
				if depth, ok := hop.QueueDepth(); ok && known {
					fmt.Fprintf(out, "  node %d: queue %d\n", id, depth)
				}
			}
		}
	}
	return nil
}

func main() {
	cfg := sender.Config{Enabled: true, QPs: qpmap.New(qpmap.Config{}), Window: 100 * time.Microsecond}
	flag.TextVar(&cfg.Self6, "self", netip.Addr{}, "own IPv6 `address`")
	var accept netip.Prefix
	flag.TextVar(&accept, "accept", netip.Prefix{}, "accepted `prefix` of switches")
	flag.Parse()
	cfg.Accept = acl.New(accept)
	s, wrong := sender.New(cfg)
	in, err := capture.Open(os.Stdin)
	if err := cmp.Or(wrong, err); err != nil {
		log.Fatal(err)
	}
	if err := printRequests(in, os.Stdout, s); err != nil {
		log.Fatal(err)
	}
}
