// Ingress is an ingress PE: it sends the packets of a capture into the WAN, those
// of each RoCEv2 flow in an IPv6 tunnel under a flow label of its own. When a node
// of the WAN says in an FCN that the flow of a label meets congestion, it tells the
// flow's sender with a CNP. Queue pairs it learns from the capture itself.
//
//	go run ./examples/ingress -self 2001:db8:fe::1 -egress 2001:db8:fe::9 -cnp 2001:db8:1::fe \
//		-accept 2001:db8:fe::/48 <IN.pcap >OUT.pcap
package main

import (
	"flag"
	"log"
	"net/netip"
	"os"
	"time"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/encap"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/ingress"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// run forwards what comes without a tunnel, learns from what comes out of one, and
// turns FCN into CNPs. What it sends is IP.
func run(in capture.Reader, out *capture.Writer, pe *ingress.PE, via *encap.IPInIPv6) error {
	var datagram rocev2.Datagram
	var flow rocev2.Flow
	var packet rocev2.Packet
	var sent []byte
	for r, err := range capture.All(in) {
		if err != nil {
			return err
		}
		now := r.Time
		switch {
		case datagram.Decode(r.Data, r.Options(), fcn.ExperimentalPort) == nil:
			var n ingress.Notice
			var reason node.Reason
			if sent, n, reason = pe.ReceivePacket(sent[:0], &datagram, now); reason == node.Accepted {
				log.Printf("label %05x is congested: CNP to queue pair %d of %v", n.Label, n.SrcQP, n.Flow.Src)
			} else {
				log.Printf("%v: %v", datagram.Src, reason)
			}
		case flow.Decode(r.Data, r.Options()) == nil && flow.Tunnelled():
			if sent = sent[:0]; flow.OuterDst() == via.Src && packet.DecodeIP(flow.IP) == nil {
				pe.Observe(&packet, 0, now)
			}
		default:
			_, ip, notIP := rocev2.Split(r.Data, r.Options())
			if notIP != nil {
				continue
			}
			var f ingress.Forwarded
			if sent, f, err = pe.Forward(sent[:0], ip, 0, via, now); err == nil && f.Reason != node.Accepted {
				log.Print("label 0: ", f.Reason)
			}
		}
		if err != nil {
			log.Print(err)
		} else if len(sent) > 0 {
			if err := out.Write(&capture.Record{Data: sent, Time: now}); err != nil {
				return err
			}
		}
	}
	return nil
}

func main() {
	cfg := ingress.Config{Enabled: true, QPs: qpmap.New(qpmap.Config{})} // off is the default
	var via encap.IPInIPv6
	flag.TextVar(&cfg.Self, "self", netip.Addr{}, "`address` in the WAN")
	flag.TextVar(&via.Dst, "egress", netip.Addr{}, "`address` of the egress PE")
	flag.TextVar(&cfg.CNP6, "cnp", netip.Addr{}, "`address` towards the senders")
	var accept netip.Prefix
	flag.TextVar(&accept, "accept", netip.Prefix{}, "`prefix` of the nodes of the WAN")
	flag.Parse()
	cfg.Accept, via.Src = acl.New(accept), cfg.Self
	pe, err := ingress.New(cfg)
	if err != nil {
		log.Fatal(err)
	}
	in, err := capture.Open(os.Stdin)
	if err != nil {
		log.Fatal(err)
	}
	out, err := capture.NewWriter(os.Stdout, capture.Raw, time.Microsecond)
	if err != nil {
		log.Fatal(err)
	}
	if err := run(in, out, pe, &via); err != nil {
		log.Fatal(err)
	}
}
