// Congested is a switch with one slow port: it forwards the packets of a capture,
// and when its queue fills it tells the senders, with Fast CNPs, with CE marks, or
// with both while it does not know what a sender understands.
//
//	go run ./examples/congested -self 2001:db8:ffff::5 -rate 1000000 <IN.pcap >OUT.pcap
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
	"github.com/rocecn/rocecn/node/congested"
	"github.com/rocecn/rocecn/node/level"
	"github.com/rocecn/rocecn/rocev2"
)

// A port is the egress that is too slow, and its queue.
type port struct {
	rate  float64 // octets a second
	queue float64 // octets that wait
	last  time.Time
	level uint8
}

var thresholds = level.Thresholds{Up: []uint64{2000, 10_000, 50_000}, Down: []uint64{1000, 5000, 25_000}}

// enqueue puts a packet into the queue and returns how congested the port is.
func (p *port) enqueue(octets int, now time.Time) uint8 {
	if !p.last.IsZero() {
		p.queue = max(0, p.queue-p.rate*now.Sub(p.last).Seconds())
	}
	p.queue, p.last = p.queue+float64(octets), now
	p.level = thresholds.Of(uint64(p.queue), p.level)
	return p.level
}

// run forwards every packet, and sends every notification back.
func run(in capture.Reader, out *capture.Writer, agent *congested.Agent, p *port) error {
	var f rocev2.Frame
	var from rocev2.Datagram
	for r, err := range capture.All(in) {
		if err != nil {
			return err
		}
		if level := p.enqueue(int(r.OrigLen), r.Time); level > 0 {
			f.Decode(r.Data, r.Options())
			ip, d := agent.Congested(nil, &f, 0, congested.Event{Level: level}, r.Time)
			if d.Action == node.Sent && f.Datagram(&from) == nil {
				answer := append(from.AppendReplyLink(nil, 6), ip...)
				if err := out.Write(&capture.Record{Data: answer, Time: r.Time}); err != nil {
					return err
				}
			}
			if d.MarkECN {
				rocev2.SetECN(f.Outermost(), rocev2.CE)
			}
		}
		if err := out.Write(r); err != nil {
			return err
		}
	}
	return nil
}

func main() {
	cfg := congested.Config{Enabled: true} // off is the default
	flag.TextVar(&cfg.Self6, "self", netip.Addr{}, "IPv6 `address` of the switch")
	rate := flag.Float64("rate", 1e9, "`octets` a second that the port sends")
	flag.Parse()
	cfg.PerFlow = [8]time.Duration{1: time.Millisecond, 2: 100 * time.Microsecond, 3: 50 * time.Microsecond}
	cfg.Methods = acl.NewMap(acl.Entry[congested.Method]{Prefix: netip.MustParsePrefix("::/0"),
		Value: congested.FastCNP})

	agent, wrong := congested.New(cfg)
	in, unreadable := capture.Open(os.Stdin)
	out, unwritable := capture.NewWriter(os.Stdout, capture.Ethernet, time.Nanosecond)
	if err := cmp.Or(wrong, unreadable, unwritable); err != nil {
		log.Fatal(err)
	}
	if err := run(in, out, agent, &port{rate: *rate}); err != nil {
		log.Fatal(err)
	}
}
