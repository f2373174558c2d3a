// Agent is a switch agent, by hand: it takes the frames that wait in a congested
// queue, here those that arrive at an interface or stand in a capture, and sends
// the Fast CNP for each back to where it came from, with the IOAM trace that it
// carries. Package node/congested does more: it limits, and learns who understands
// Fast CNPs.
//
//	go run ./examples/agent -src 2001:db8:ffff::5 <IN.pcap >OUT.pcap
//	go run ./examples/agent -src 2001:db8:ffff::5 -i eth1
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"log"
	"net/netip"
	"os"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/netio"
)

type agent struct {
	received message.Message // large, so kept
	self     netip.Addr
}

// answer appends the frame to send for a packet, if there is one to send. What cannot
// be answered is shown and passed over.
func (a *agent) answer(b []byte, _ int, p *netio.Packet) []byte {
	m := &a.received
	err := m.Decode(p.Data, p.Options(), message.Config{})
	if m.Kind == message.Data {
		header := m.Packet.AppendReplyLink(b, 6)
		var frame []byte
		if frame, _, err = fastcnp.AppendFor(header, &m.Packet, a.self, nil,
			fastcnp.Config{Long: fastcnp.LongTraceFallBack}); err == nil {
			return frame
		}
	}
	if m.Kind != message.Other && err != nil && !errors.Is(err, fastcnp.ErrIPv4) {
		log.Print(err)
	}
	return b
}

// open returns where frames come from and go to: captures, or an interface both
// ways.
func open(name string) (netio.Source, netio.Sink, error) {
	if name == "" {
		in, err := netio.OpenFile(os.Stdin)
		out, failed := in.Sink(os.Stdout, capture.Ethernet)
		return in, out, cmp.Or(err, failed)
	}
	in, err := netio.OpenPackets(netio.PacketConfig{Interface: name, Direction: netio.In})
	out, failed := netio.OpenPort(name, nil)
	return in, out, cmp.Or(err, failed)
}

func main() {
	name := flag.String("i", "", "`interface` instead of a capture")
	var a agent
	flag.TextVar(&a.self, "src", netip.Addr{}, "`address` of the switch")
	flag.Parse()
	in, out, err := open(*name)
	if err == nil {
		err = netio.Run(context.Background(), out, a.answer, in)
	}
	if err != nil {
		log.Fatal(err)
	}
}
