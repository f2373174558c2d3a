// Switch is a live switch agent. It watches the packets that leave by an interface of
// a Linux router. While the queue there is long, it sends Fast CNPs to their senders, or
// stops them by PPFC and resumes them when the queue is short. Its counters are at
// /metrics.
//
//	go run ./examples/switch -i eth1 -self 2001:db8:ffff::5 -senders 2001:db8:1::/48
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net/http"
	"net/netip"
	"os/exec"
	"sync/atomic"
	"time"

	"github.com/rocecn/rocecn/filter"
	"github.com/rocecn/rocecn/netio"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/congested"
	"github.com/rocecn/rocecn/node/level"
	"github.com/rocecn/rocecn/rocev2"
)

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

// watchQueue stores the number of octets in the queue of an interface, every 20 ms.
func watchQueue(name string, depth *atomic.Uint64) {
	for ; ; time.Sleep(20 * time.Millisecond) {
		var queues []struct{ Backlog uint64 }
		out, err := exec.Command("tc", "-s", "-j", "qdisc", "show", "dev", name).Output()
		if err == nil && json.Unmarshal(out, &queues) == nil && len(queues) > 0 {
			depth.Store(queues[0].Backlog)
		}
	}
}

func main() {
	var self netip.Addr
	var senders, paused netip.Prefix
	name := flag.String("i", "", "congested `interface`")
	address := flag.String("http", "localhost:9099", "`address` of /metrics")
	flag.TextVar(&self, "self", netip.Addr{}, "own IPv6 `address`")
	flag.TextVar(&senders, "senders", netip.Prefix{}, "`prefix` of the senders that are told by Fast CNP")
	flag.TextVar(&paused, "pause", netip.Prefix{}, "`prefix` of those that are stopped by PPFC")
	flag.Parse()
	agent := must(congested.New(congested.Config{
		Enabled: true, CannotMark: true, Self6: self,
		Methods: acl.NewMap(acl.Entry[congested.Method]{Prefix: senders, Value: congested.MethodFastCNP},
			acl.Entry[congested.Method]{Prefix: paused, Value: congested.MethodPPFC}),
		PerFlow: [8]time.Duration{1: 10 * time.Millisecond, 2: time.Millisecond, 3: 100 * time.Microsecond},
		Out:     node.Rate{PerSecond: 1000, Burst: 100},
	}))
	roce := &filter.Capture{Selection: filter.RoCEv2}
	leaving := must(netio.OpenPackets(netio.PacketConfig{Interface: *name, Direction: netio.Out, Filter: roce}))
	icmp := must(netio.ListenICMPv6(self, 4)) // parameter problems: hosts that do not understand Fast CNPs
	out := must(netio.OpenRaw(""))
	var depth atomic.Uint64
	go watchQueue(*name, &depth)

	http.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "rocecn_queue_octets %d\nrocecn_lost_total %d\nrocecn_send_failed_total %d\n",
			depth.Load(), leaving.Lost(), out.Failed())
		for what, n := range agent.Counters().All() {
			fmt.Fprintf(w, "rocecn_switch_total{what=%q} %d\n", what, n)
		}
	})
	go func() { log.Fatal(http.ListenAndServe(*address, nil)) }()

	thresholds := level.Thresholds{Up: []uint64{3000, 30_000, 100_000}, Down: []uint64{1000, 10_000, 50_000}}
	var now uint8
	var frame rocev2.Frame
	receive := func(b []byte, source int, p *netio.Packet) []byte {
		frame.Decode(p.Data, p.Options())
		now = thresholds.Level(depth.Load(), now)
		b, _ = agent.Receive(b, &frame, node.Event{Level: now, Observe: source == 1 || now == 0, Now: p.Time})
		return b
	}
	var run []byte
	resume := func(at time.Time) { // resumes stopped senders, even if no packet leaves
		now = thresholds.Level(depth.Load(), now)
		agent.Receive(nil, nil, node.Event{Level: now, Now: at})
		for {
			var d node.Decision
			if run, d = agent.Due(run[:0], at); d.Action == node.NoAction {
				return
			}
			_ = out.Send(run)
		}
	}
	loop := netio.Loop{Out: out, Receive: receive, Every: 20 * time.Millisecond, Tick: resume}
	log.Fatal(loop.Run(context.Background(), leaving, icmp))
}
