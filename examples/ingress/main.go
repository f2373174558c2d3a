// Ingress is an ingress PE: it sends the packets of a capture into the WAN, each
// RoCEv2 flow in an IPv6 tunnel with a flow label of its own. When a node of the
// WAN reports congestion of a label in an FCN, it sends a CNP to the sender of the
// flow. It learns the queue pairs from the capture itself.
//
//	go run ./examples/ingress -self 2001:db8:fe::1 -egress 2001:db8:fe::9 -cnp 2001:db8:1::fe \
//		-accept 2001:db8:fe::/48 <testdata/rxe-ucmatose4.pcap | go run ./cmd/rocecn -outer -all -
package main

import (
	"cmp"
	"context"
	"flag"
	"log"
	"net/netip"
	"os"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/encap"
	"github.com/rocecn/rocecn/netio"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/ingress"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// forwardPackets forwards packets without a tunnel, learns from packets that leave a tunnel, and translates FCNs to
// CNPs. It sends IP packets without a link-layer header.
func forwardPackets(in netio.Source, out netio.Sink, pe *ingress.Role) error {
	var f rocev2.Frame
	return netio.Run(context.Background(), out, func(b []byte, _ int, p *netio.Packet) []byte {
		f.Decode(p.Data, p.Options())
		b, d := pe.Receive(b, &f, node.Event{Now: p.Time})
		switch {
		case d.Action == node.ActionSent:
			log.Printf("label %05x is congested: CNP to queue pair %d of %v", d.Label, d.SrcQP, d.To)
		case d.Action == node.ActionForwarded && d.Reason != node.NoReason:
			log.Print("label 0: ", d.Reason)
		case d.Action == node.ActionRefused:
			log.Printf("%v: %v", d.From, d.Reason)
		}
		return b
	}, in)
}

func main() {
	cfg := ingress.Config{Enabled: true, QPs: qpmap.New(qpmap.Config{}), IgnoreTunnels: true} // off is the default
	var via encap.IPInIPv6
	flag.TextVar(&cfg.WAN, "self", netip.Addr{}, "`address` in the WAN")
	flag.TextVar(&via.Dst, "egress", netip.Addr{}, "`address` of the egress PE")
	flag.TextVar(&cfg.Self6, "cnp", netip.Addr{}, "`address` towards the senders")
	var accept netip.Prefix
	flag.TextVar(&accept, "accept", netip.Prefix{}, "`prefix` of the nodes of the WAN")
	flag.Parse()
	via.Src = cfg.WAN
	cfg.Accept, cfg.Tunnel = acl.New(accept), &via
	pe, wrong := ingress.New(cfg)
	in, unreadable := netio.OpenFile(os.Stdin)
	out, unwritable := in.Sink(os.Stdout, capture.Raw)
	if err := cmp.Or(wrong, unreadable, unwritable); err != nil {
		log.Fatal(err)
	}
	if err := forwardPackets(in, out, pe); err != nil {
		log.Fatal(err)
	}
}
