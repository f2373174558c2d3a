// Proxyreceiver is what a proxy does with the messages of congested nodes, by
// hand: it receives them over UDP, finds the flow in the invoking packet and
// makes a CNP for its sender. Package node/proxy does all of it, and learns the
// queue pairs.
package main

import (
	"flag"
	"fmt"
	"log"
	"net"
	"net/netip"

	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocev2"
)

type proxy struct {
	senderQP map[rocev2.FlowKey]uint32 // learned elsewhere
}

// translate returns the CNP for the data of a message, in the receiver's name.
func (p *proxy) translate(b, data []byte) ([]byte, error) {
	var m proxymsg.Message
	if err := m.Decode(data, 0); err != nil { // 0: the family is inferred
		return b, err
	}
	h, err := m.BTH()
	if err != nil {
		return b, err
	}
	key := rocev2.FlowKey{Src: m.Src, Dst: m.Dst, DestQP: h.DestQP}
	qp, ok := p.senderQP[key]
	if !ok {
		return b, fmt.Errorf("%v: no queue pair known", key)
	}
	c := cnp.New(qp, h.PKey)
	return c.AppendPacket(b, m.Dst, m.Src, rocev2.Carriage{})
}

func main() {
	listen := flag.String("listen", fmt.Sprintf("[::]:%d", proxymsg.ExperimentalPort), "address")
	flag.Parse()
	p := proxy{map[rocev2.FlowKey]uint32{
		{Src: netip.MustParseAddr("fd77::1"), Dst: netip.MustParseAddr("fd77::2"), DestQP: 0x11}: 0x22,
	}}
	addr, err := net.ResolveUDPAddr("udp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	conn, err := net.ListenUDP("udp", addr)
	if err != nil {
		log.Fatal(err)
	}
	buf := make([]byte, 1<<16)
	for {
		n, from, err := conn.ReadFromUDPAddrPort(buf)
		if err != nil {
			log.Fatal(err)
		}
		if packet, err := p.translate(nil, buf[:n]); err != nil {
			log.Printf("%v: %v", from, err)
		} else {
			fmt.Printf("%x\n", packet) // to a raw socket
		}
	}
}
