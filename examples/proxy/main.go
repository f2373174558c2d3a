// Proxy is a proxy node: it watches the traffic of its senders in a capture, and
// when a congested node tells it of one of their flows, it tells the sender with a
// CNP. Who is whose it learns from the traffic.
//
//	go run ./examples/proxy -self 10.77.0.254 -accept 192.0.2.0/24 -senders 10.77.0.0/24 <IN.pcap >OUT.pcap
package main

import (
	"cmp"
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
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// run answers the messages, and learns from everything else. What it sends is IP.
func run(in capture.Reader, out *capture.Writer, p *proxy.Proxy) error {
	var f rocev2.Frame
	var sent []byte
	for r, err := range capture.All(in) {
		if err != nil {
			return err
		}
		var d proxy.Decision
		f.Decode(r.Data, r.Options())
		switch sent, d = p.Receive(sent[:0], &f, 0, r.Time); d.Action {
		case node.Refused:
			log.Printf("%v: %v", d.From, d.Reason)
			continue
		case node.Sent:
			log.Printf("%v is congested: %v to queue pair %d", d.Flow, d.Kind, d.SrcQP)
		default: // other traffic
			continue
		}
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
	p, wrong := proxy.New(cfg)
	in, unreadable := capture.Open(os.Stdin)
	out, unwritable := capture.NewWriter(os.Stdout, capture.Raw, time.Microsecond)
	if err := cmp.Or(wrong, unreadable, unwritable); err != nil {
		log.Fatal(err)
	}
	if err := run(in, out, p); err != nil {
		log.Fatal(err)
	}
}
