package ingress_test

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/encap"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/ingress"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/rocecn/rocecn/rocev2"
)

// A flow enters the WAN under a label, a node of the WAN complains about the
// label, and the flow's sender gets a CNP.
func Example() {
	sender, receiver := netip.MustParseAddr("2001:db8:1::a"), netip.MustParseAddr("2001:db8:4::e")
	self, congested := netip.MustParseAddr("2001:db8:fe::1"), netip.MustParseAddr("2001:db8:fe::7")
	now := time.Unix(1795254649, 0)

	// The queue pair that sends to queue pair 17 would be learned from the traffic.
	pairs := qpmap.New(qpmap.Config{})
	pairs.Add(qpmap.Key{FlowKey: rocev2.FlowKey{Src: sender, Dst: receiver, DestQP: 17}},
		qpmap.Pair{SrcQP: 34, Seen: now})
	pe, err := ingress.New(ingress.Config{
		Enabled: true, WAN: self, Self6: netip.MustParseAddr("2001:db8:1::fe"),
		Accept: acl.New(netip.MustParsePrefix("2001:db8:fe::/48")), QPs: pairs,
		Tunnel: &encap.IPInIPv6{Src: self, Dst: netip.MustParseAddr("2001:db8:fe::9")},
	})
	if err != nil {
		panic(err)
	}

	data := rocev2.Packet{BTH: bth.Headers{Header: bth.Header{Opcode: bth.RCSendOnly, PKey: 0xFFFF, DestQP: 17}}}
	data.Src, data.Dst = sender, receiver
	data.SrcPort, data.DstPort, data.HopLimit = 49152, rocev2.Port, 61
	packet, _ := data.AppendBinary(nil)

	var f rocev2.Frame
	f.Decode(packet, rocev2.DecodeOptions{Link: rocev2.LinkIP})
	outer, d := pe.Receive(nil, &f, node.Event{Now: now})
	fmt.Println(d.Action, len(outer)-len(packet), "octets more,", d.Label != 0)

	message, _ := fcn.Message{FlowLabel: d.Label, Level: 3}.AppendPacket(nil, congested, self, fcn.Config{})
	f.Decode(message, rocev2.DecodeOptions{Link: rocev2.LinkIP})
	cnp, d := pe.Receive(nil, &f, node.Event{Now: now})
	fmt.Println(d.Message, "of", len(cnp), "octets to queue pair", d.SrcQP, "of", d.To)
	// Output:
	// forwarded 40 octets more, true
	// cnp of 80 octets to queue pair 34 of 2001:db8:1::a
}
