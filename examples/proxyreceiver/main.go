// Proxyreceiver is what a proxy does with the messages of congested nodes, by
// hand: it receives them over UDP, finds the flow in the invoking packet and
// sends its sender a CNP. Package node/proxy does all of it, and learns the queue
// pairs.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"log"
	"net/netip"

	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/netio"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocev2"
)

type proxy struct {
	senderQP map[rocev2.FlowKey]uint32 // learned elsewhere
}

// translate appends the CNP for the data of a message, in the receiver's name.
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
	return c.AppendPacket(b, m.Dst, m.Src, cnp.Config{})
}

func main() {
	listen := flag.String("listen", fmt.Sprintf("[::]:%d", proxymsg.Port), "address")
	flag.Parse()
	p := proxy{senderQP: map[rocev2.FlowKey]uint32{
		{Src: netip.MustParseAddr("fd77::1"), Dst: netip.MustParseAddr("fd77::2"), DestQP: 0x11}: 0x22,
	}}
	in, err := netio.ListenUDP(*listen)
	out, failed := netio.OpenRaw("")
	if err = cmp.Or(err, failed); err != nil {
		log.Fatal(err)
	}
	log.Fatal(netio.Run(context.Background(), out, func(b []byte, _ int, packet *netio.Packet) []byte {
		var d rocev2.Datagram
		_ = d.DecodeIP(packet.Data) // as ListenUDP has made it
		b, err := p.translate(b, d.Data)
		if err != nil {
			log.Printf("%v: %v", d.Src, err)
		}
		return b
	}, in))
}
