// Host is the sender's side of Fast CNP: it checks who sends one, finds its own
// queue pair by the flow that it is about, and prints the hops with the deepest
// queues first.
//
//	go run ./examples/host testdata/messages.pcap
package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log"
	"net/netip"
	"os"
	"slices"

	"github.com/rocecn/rocecn"
	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/ioam"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/rocev2"
)

type host struct {
	switches *acl.List
	own      map[rocev2.FlowKey]uint32 // queue pairs
}

// receive handles a frame. Package node/sender does more: it also checks that
// the frame is for this host, limits, and joins two reports of one congestion.
func (h *host) receive(frame []byte, out io.Writer) error {
	var p rocev2.Packet
	if err := p.DecodeEthernet(frame); errors.Is(err, rocev2.ErrNotRoCEv2) {
		return nil
	} else if err != nil {
		return err
	}
	n, err := fastcnp.FromPacket(&p)
	switch {
	case errors.Is(err, rocecn.ErrOther):
		return nil // another message
	case err != nil:
		return err
	case len(p.Outer) > 0:
		return node.ReasonTunnelled.Err() // the list and the border saw another source
	case !h.switches.Contains(n.Src):
		return fmt.Errorf("%v: %w", n.Src, node.ReasonDenied.Err())
	}
	if _, err := p.VerifyICRC(); err != nil {
		return err
	}
	qp, ok := h.own[n.FlowKey()]
	if !ok {
		return fmt.Errorf("%v: %w", n.FlowKey(), node.ReasonUnknownQP.Err())
	}
	fmt.Fprintf(out, "slow down %#x, says %v (%v)\n", qp, n.Src, n.Origin())
	hops := slices.SortedFunc(n.Option.Trace.Nodes(), func(a, b ioam.Node) int {
		deep, _ := a.QueueDepth()
		deeper, _ := b.QueueDepth()
		return cmp.Compare(deeper, deep)
	})
	for _, hop := range hops {
		id, known := hop.ID()
		if depth, ok := hop.QueueDepth(); ok && known {
			fmt.Fprintf(out, "  node %#x queue depth %d\n", id, depth)
		}
	}
	return nil
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: host FILE")
	}
	h := host{acl.New(netip.MustParsePrefix("2001:db8:ffff::/48")), map[rocev2.FlowKey]uint32{
		{Src: netip.MustParseAddr("2001:db8:1::1"), Dst: netip.MustParseAddr("2001:db8:4::e"), DestQP: 0x11}: 0x22,
	}}
	for r, err := range capture.File(os.Args[1]) {
		if err != nil {
			log.Fatal(err)
		}
		if err := h.receive(r.Data, os.Stdout); err != nil {
			fmt.Println(err)
		}
	}
}
