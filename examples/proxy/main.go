// Proxy is a proxy node. It watches the traffic of its senders, on an interface or
// in a capture, and learns their queue pairs. When a congested node sends it a
// message about one of their flows, it sends a CNP to the sender.
//
//	go run ./examples/proxy -self 10.77.0.254 -accept 192.0.2.0/24 -senders 10.77.0.0/24 \
//		<examples/proxy/testdata/messages.pcap | go run ./cmd/rocecn -
//	go run ./examples/proxy -self 10.77.0.254 -accept 192.0.2.0/24 -senders 10.77.0.0/24 -i eth1
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net/netip"
	"os"
	"os/signal"
	"time"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/filter"
	"github.com/rocecn/rocecn/netio"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/proxy"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

// answerMessages answers the messages, and learns from all other packets. It sends IP packets without a link-layer
// header.
func answerMessages(ctx context.Context, p *proxy.Role, out netio.Sink, sources ...netio.Source) error {
	var f rocev2.Frame
	return netio.Run(ctx, out, func(b []byte, _ int, packet *netio.Packet) []byte {
		f.Decode(packet.Data, packet.Options())
		b, d := p.Receive(b, &f, node.Event{Now: packet.Time})
		switch d.Action {
		case node.ActionRefused:
			log.Printf("%v: %v", d.From, d.Reason)
		case node.ActionSent:
			log.Printf("%v is congested: %v to queue pair %d", d.Flow, d.Message, d.SrcQP)
		}
		return b
	}, sources...)
}

func main() {
	var self netip.Addr
	var accept, senders netip.Prefix
	name := flag.String("i", "", "`interface` that sees both directions, instead of a capture")
	flag.TextVar(&self, "self", netip.Addr{}, "own `address`")
	flag.TextVar(&accept, "accept", netip.Prefix{}, "`prefix` of congested nodes")
	flag.TextVar(&senders, "senders", netip.Prefix{}, "`prefix` of the senders that use the proxy")
	flag.Parse()
	cfg := proxy.Config{
		Enabled: true, QPs: qpmap.New(qpmap.Config{}), Accept: acl.New(accept), // off is the default
		Senders: acl.NewMap(acl.Entry[proxy.Answer]{Prefix: senders, Value: proxy.AnswerCNP}),
		PerFlow: 50 * time.Microsecond, Out: node.Rate{PerSecond: 10_000, Burst: 100},
	}
	if cfg.Self6 = self; self.Is4() {
		cfg.Self4, cfg.Self6 = self, netip.Addr{}
	}
	p := must(proxy.New(cfg))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	if *name == "" {
		in := must(netio.OpenFile(os.Stdin))
		err = answerMessages(ctx, p, must(in.Sink(os.Stdout, capture.Raw)), in)
	} else {
		roce := &filter.Capture{Selection: filter.RoCEv2}
		traffic := must(netio.OpenPackets(netio.PacketConfig{Interface: *name, Filter: roce}))
		messages := must(netio.ListenUDP(fmt.Sprint(":", proxymsg.Port)))
		err = answerMessages(ctx, p, must(netio.OpenRaw("")), traffic, messages)
	}
	for count, n := range p.Counters().All() {
		log.Print(count, " ", n)
	}
	if err != nil {
		log.Fatal(err)
	}
}
