// Rawcnp sends a CNP with the address of the receiver as its source. Linux does not
// change it, so its ICRC stays right.
package main

import (
	"cmp"
	"flag"
	"log"
	"net/netip"

	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/netio"
	"github.com/rocecn/rocecn/rocev2"
)

func sendCNP(out netio.Sink, qp uint32, receiver, sender netip.Addr, as rocev2.Carriage) error {
	c := cnp.New(qp, 0xFFFF)
	packet, err := c.AppendPacket(nil, receiver, sender, cnp.Config{Carriage: as})
	if err != nil {
		return err
	}
	return cmp.Or(out.Send(packet), out.Flush())
}

func main() {
	var sender, receiver netip.Addr
	flag.TextVar(&sender, "sender", netip.Addr{}, "`address` of the sender")
	flag.TextVar(&receiver, "receiver", netip.Addr{}, "`address` of the receiver")
	qp := flag.Uint("qp", 0, "queue `pair` of the sender")
	flag.Parse()
	out, err := netio.OpenRaw("")
	if err == nil {
		err = sendCNP(out, uint32(*qp), receiver, sender, rocev2.Carriage{})
	}
	if err != nil {
		log.Fatal(err)
	}
}
