// Pause prints the times at which PPFC notifications in a capture stop and resume
// the flows of a host or an ingress.
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

// A host prints the changes of its flows.
type host struct {
	table *pause.Role
	last  map[pause.Target]pause.State // last printed states other than running
	now   time.Time
	out   io.Writer
}

// readCapture gives the frames to the role, and checks the states in between when the role asks for it.
func (h *host) readCapture(in capture.Reader) error {
	var f rocev2.Frame
	for r, err := range capture.All(in) {
		if err != nil {
			return err
		}
		for due, ok := h.table.Next(h.now); ok && !due.After(r.Time); due, ok = h.table.Next(h.now) {
			h.now = due
			for target := range h.last {
				h.printChange(target)
			}
		}
		h.now = r.Time
		f.Decode(r.Data, r.Options())
		switch _, d := h.table.Receive(nil, &f, node.Event{Now: h.now}); {
		case d.Action == node.ActionAccepted:
			h.printChange(h.table.Target())
		case d.Action == node.ActionRefused && d.Reason != node.ReasonNotOurs: // for this host
			fmt.Fprintf(h.out, "refused: %v\n", d.Reason)
		}
	}
	return nil
}

// printChange prints the state of a target if it has changed.
func (h *host) printChange(target pause.Target) {
	state, _ := h.table.State(target, h.now)
	if state == h.last[target] {
		return
	}
	fmt.Fprintf(h.out, "%v %v queue pair %#x: %v\n", h.now.UTC().Format("15:04:05.000000"), target.Addr, target.DestQP,
		state)
	h.last[target] = state
	if state == pause.StateRunning {
		delete(h.last, target)
	}
}

func main() {
	cfg := pause.Config{Enabled: true, MaxPause: 10 * time.Millisecond}
	flag.TextVar(&cfg.Self6, "self", netip.Addr{}, "own IPv6 `address`")
	var accept netip.Prefix
	flag.TextVar(&accept, "accept", netip.Prefix{}, "accepted `prefix` of nodes")
	flag.Parse()
	cfg.Accept = acl.New(accept)
	table, wrong := pause.New(cfg)
	in, err := capture.Open(os.Stdin)
	if err := cmp.Or(wrong, err); err != nil {
		log.Fatal(err)
	}
	h := host{table: table, last: map[pause.Target]pause.State{}, out: os.Stdout}
	if err := h.readCapture(in); err != nil {
		log.Fatal(err)
	}
}
