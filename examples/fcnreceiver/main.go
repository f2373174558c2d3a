// Fcnreceiver is what an ingress PE does with FCN, by hand: it receives them
// over UDP, maps the flow label to the flow and makes a CNP for its sender.
// Package node/ingress does all of it, and makes the labels.
package main

import (
	"flag"
	"fmt"
	"log"
	"net"
	"net/netip"

	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/fcn"
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

// answer returns the CNP for the data of an FCN.
func (p *pe) answer(b, data []byte) ([]byte, error) {
	var m fcn.Message
	if err := m.UnmarshalBinary(data); err != nil {
		return b, err
	}
	f, ok := p.flows[m.FlowLabel]
	if !ok {
		return b, fmt.Errorf("no flow of label %#05x", m.FlowLabel)
	}
	c := cnp.New(f.senderQP, f.pKey)
	return c.AppendPacket(b, p.self, f.Src, rocev2.Carriage{})
}

func main() {
	listen := flag.String("listen", fmt.Sprintf("[::]:%d", fcn.ExperimentalPort), "address")
	flag.Parse()
	p := pe{netip.MustParseAddr("192.0.2.9"), map[uint32]flow{
		0xBEEF5: {rocev2.FlowKey{Src: netip.MustParseAddr("192.0.2.1"), Dst: netip.MustParseAddr("192.0.2.2"), DestQP: 0x12}, 0x11, 0xFFFF},
	}}
	addr, err := net.ResolveUDPAddr("udp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	conn, err := net.ListenUDP("udp", addr)
	if err != nil {
		log.Fatal(err)
	}
	var data [fcn.Size + 1]byte // one more shows what is too long
	for {
		n, from, err := conn.ReadFromUDPAddrPort(data[:])
		if err != nil {
			log.Fatal(err)
		}
		if packet, err := p.answer(nil, data[:n]); err != nil {
			log.Printf("%v: %v", from, err)
		} else {
			fmt.Printf("%x\n", packet) // to a raw socket
		}
	}
}
