// Fcnreceiver is what an ingress PE does with FCN, by hand: it receives them
// over UDP, maps the flow label to the flow and sends its sender a CNP.
// Package node/ingress does all of it, and makes the labels.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"log"
	"net/netip"

	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/netio"
	"github.com/rocecn/rocecn/rocev2"
)

// flow is what the PE learned of a flow when it put the label on.
type flow struct {
	rocev2.FlowKey
	senderQP uint32
	pKey     uint16
}

type pe struct {
	self  netip.Addr
	flows map[uint32]flow // by flow label
}

// answer appends the CNP for the data of an FCN.
func (p *pe) answer(b, data []byte) ([]byte, error) {
	var m fcn.Message
	if err := m.Decode(data); err != nil {
		return b, err
	}
	f, ok := p.flows[m.FlowLabel]
	if !ok {
		return b, fmt.Errorf("no flow of label %#05x", m.FlowLabel)
	}
	c := cnp.New(f.senderQP, f.pKey)
	return c.AppendPacket(b, p.self, f.Src, cnp.Config{})
}

func main() {
	listen := flag.String("listen", fmt.Sprintf("[::]:%d", fcn.Port), "address")
	flag.Parse()
	known := rocev2.FlowKey{Src: netip.MustParseAddr("192.0.2.1"), Dst: netip.MustParseAddr("192.0.2.2"), DestQP: 0x12}
	p := pe{self: netip.MustParseAddr("192.0.2.9"), flows: map[uint32]flow{0xBEEF5: {known, 0x11, 0xFFFF}}}
	in, err := netio.ListenUDP(*listen)
	out, failed := netio.OpenRaw("")
	if err = cmp.Or(err, failed); err != nil {
		log.Fatal(err)
	}
	log.Fatal(netio.Run(context.Background(), out, func(b []byte, _ int, packet *netio.Packet) []byte {
		var d rocev2.Datagram
		_ = d.DecodeIP(packet.Data) // as ListenUDP has made it
		b, err := p.answer(b, d.Data)
		if err != nil {
			log.Printf("%v: %v", d.Src, err)
		}
		return b
	}, in))
}
