package proxy_test

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/proxy"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// A congested node tells the proxy of a flow, and the proxy tells the flow's sender
// with a CNP, which is all that this one understands.
func Example() {
	sender, receiver := netip.MustParseAddr("2001:db8:1::a"), netip.MustParseAddr("2001:db8:4::e")
	now := time.Unix(1795254649, 0)

	// The sender to queue pair 17 is learned from the traffic that Receive sees.
	pairs := qpmap.New(qpmap.Config{})
	pairs.Add(qpmap.Key{FlowKey: rocev2.FlowKey{Src: sender, Dst: receiver, DestQP: 17}},
		qpmap.Pair{SrcQP: 34, Seen: now})
	p, err := proxy.New(proxy.Config{
		Enabled: true, Self6: netip.MustParseAddr("2001:db8:ffff::9"),
		Accept: acl.New(netip.MustParsePrefix("2001:db8:ffff::/48")),
		Senders: acl.NewMap(acl.Entry[proxy.Answer]{Prefix: netip.MustParsePrefix("2001:db8:1::/48"),
			Value: proxy.AnswerCNP}),
		QPs: pairs,
	})
	if err != nil {
		panic(err)
	}

	data := rocev2.Packet{BTH: bth.Headers{Header: bth.Header{Opcode: bth.RCSendOnly, PKey: 0xFFFF, DestQP: 17}}}
	data.Src, data.Dst = sender, receiver
	data.SrcPort, data.DstPort, data.HopLimit = 49152, rocev2.Port, 61
	packet, _ := data.AppendBinary(nil)
	message := proxymsg.Message{
		FiveTuple: rocev2.FiveTuple{Src: sender, Dst: receiver, Protocol: 17, SrcPort: 49152, DstPort: rocev2.Port},
		Level:     3,
		Invoking:  packet,
	}
	octets, _ := message.AppendPacket(nil, netip.MustParseAddr("2001:db8:ffff::5"),
		netip.MustParseAddr("2001:db8:ffff::9"), proxymsg.Config{})

	var f rocev2.Frame
	f.Decode(octets, rocev2.DecodeOptions{Link: rocev2.LinkIP})
	cnp, d := p.Receive(nil, &f, node.Event{Now: now})
	fmt.Println(d.Message, "of", len(cnp), "octets to queue pair", d.SrcQP, "of", d.To)
	// Output:
	// cnp of 80 octets to queue pair 34 of 2001:db8:1::a
}
