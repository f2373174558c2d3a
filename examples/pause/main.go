// Pause prints when a host, or an ingress, stops the flows that PPFC
// notifications in a capture are about, and when it lets them run again.
//
//	go run ./examples/pause -self 2001:db8:1::1 -accept 2001:db8:ffff::/48 <testdata/tour.pcap
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
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/pause"
	"github.com/rocecn/rocecn/rocev2"
)

// A host knows what it has told its queues.
type host struct {
	table *pause.Role
	told  map[pause.Target]pause.State // those that were told to do other than run
	now   time.Time
	out   io.Writer
}

// run takes frames, and between them looks again whenever the table says so.
func (h *host) run(in capture.Reader) error {
	var f rocev2.Frame
	for r, err := range capture.All(in) {
		if err != nil {
			return err
		}
		for due, ok := h.table.Next(h.now); ok && !due.After(r.Time); due, ok = h.table.Next(h.now) {
			h.now = due
			for target := range h.told {
				h.tell(target)
			}
		}
		h.now = r.Time
		f.Decode(r.Data, r.Options())
		switch _, d := h.table.Receive(nil, &f, node.Event{Now: h.now}); {
		case d.Action == node.ActionAccepted:
			h.tell(h.table.Target())
		case d.Action == node.ActionRefused && d.Reason != node.ReasonNotOurs: // for this host
			fmt.Fprintf(h.out, "refused: %v\n", d.Reason)
		}
	}
	return nil
}

// tell tells the queue of a target what state that is in, if it is news.
func (h *host) tell(target pause.Target) {
	state, _ := h.table.State(target, h.now)
	if state == h.told[target] {
		return
	}
	fmt.Fprintf(h.out, "%v %v queue pair %#x: %v\n", h.now.UTC().Format("15:04:05.000000"), target.Addr, target.DestQP,
		state)
	h.told[target] = state
	if state == pause.StateRunning {
		delete(h.told, target)
	}
}

func main() {
	cfg := pause.Config{Enabled: true, MaxPause: 10 * time.Millisecond}
	flag.TextVar(&cfg.Self6, "self", netip.Addr{}, "own IPv6 `address`")
	var accept netip.Prefix
	flag.TextVar(&accept, "accept", netip.Prefix{}, "`prefix` of nodes to believe")
	flag.Parse()
	cfg.Accept = acl.New(accept)
	table, wrong := pause.New(cfg)
	in, err := capture.Open(os.Stdin)
	if err := cmp.Or(wrong, err); err != nil {
		log.Fatal(err)
	}
	h := host{table: table, told: map[pause.Target]pause.State{}, out: os.Stdout}
	if err := h.run(in); err != nil {
		log.Fatal(err)
	}
}
