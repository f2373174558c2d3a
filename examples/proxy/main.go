// Proxy is a proxy node: it watches the traffic of its senders in a capture, and
// when a congested node tells it of one of their flows, it tells the sender with a
// CNP. Who is whose it learns from the traffic.
//
//	go run ./examples/proxy -self 10.77.0.254 -accept 192.0.2.0/24 -senders 10.77.0.0/24 <IN.pcap >OUT.pcap
package main

import (
	"flag"
	"log"
	"net/netip"
	"os"
	"time"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/limit"
	"github.com/rocecn/rocecn/node/proxy"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// run answers the messages, and learns from everything else. What it sends is IP.
func run(in capture.Reader, out *capture.Writer, p *proxy.Proxy) error {
	var datagram rocev2.Datagram
	var packet rocev2.Packet
	var sent []byte
	for r, err := range capture.All(in) {
		if err != nil {
			return err
		}
		if datagram.Decode(r.Data, r.Options(), proxymsg.ExperimentalPort) != nil {
			if packet.Decode(r.Data, r.Options()) == nil {
				p.Observe(&packet, r.Time)
			}
			continue
		}
		var a proxy.Answer
		var reason node.Reason
		if sent, a, reason = p.ReceivePacket(sent[:0], &datagram, r.Time); reason != node.Accepted {
			log.Printf("%v: %v", datagram.Src, reason)
			continue
		}
		log.Printf("%v is congested: %v to queue pair %d", a.Flow, a.Method, a.SrcQP)
		if err := out.Write(&capture.Record{Data: sent, Time: r.Time}); err != nil {
			return err
		}
	}
	return nil
}

func main() {
	cfg := proxy.Config{
		Enabled: true, // off is the default
		QPs:     qpmap.New(qpmap.Config{}),
		PerFlow: 50 * time.Microsecond, Out: limit.Rate{PerSecond: 10_000, Burst: 100},
	}
	var self netip.Addr
	var accept, senders netip.Prefix
	flag.TextVar(&self, "self", netip.Addr{}, "own `address`")
	flag.TextVar(&accept, "accept", netip.Prefix{}, "`prefix` of congested nodes")
	flag.TextVar(&senders, "senders", netip.Prefix{}, "`prefix` of the senders behind the proxy")
	flag.Parse()
	if self.Is4() {
		cfg.Self4 = self
	} else {
		cfg.Self6 = self
	}
	cfg.Accept = acl.New(accept)
	cfg.Senders = acl.NewMap(acl.Entry[proxy.Method]{Prefix: senders, Value: proxy.CNP})
	p, err := proxy.New(cfg)
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
	if err := run(in, out, p); err != nil {
		log.Fatal(err)
	}
}
