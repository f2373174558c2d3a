// Tour writes a capture in which one congested flow meets every kind of message.
//
//	go run ./examples/tour >/tmp/tour.pcap; go run ./cmd/rocecn /tmp/tour.pcap
package main

import (
	"cmp"
	"encoding/hex"
	"io"
	"log"
	"net/netip"
	"os"
	"time"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/encap"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/pfc"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocev2"
)

var (
	sender, receiver = netip.MustParseAddr("2001:db8:1::1"), netip.MustParseAddr("2001:db8:4::e")
	leaf, spine      = netip.MustParseAddr("2001:db8:ffff::1"), netip.MustParseAddr("2001:db8:ffff::5")
	ingress, egress  = netip.MustParseAddr("2001:db8:ffff::a"), netip.MustParseAddr("2001:db8:ffff::b")
	mac, ethernet    = [6]byte{2, 0, 0, 0, 0, 1}, []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0xDD}
)

// trace is a Hop-by-Hop header: queues of 0, 1448 and 87040 octets at three nodes.
const trace = "1104010031220000007b100082000000" + "3d0000d400015400" + "3e0000c3000005a8" + "3f0000b200000000"

// data is a packet of the flow.
func data(op bth.Opcode, psn uint32, ecn rocev2.ECN) *rocev2.Packet {
	p := &rocev2.Packet{Payload: make([]byte, 256)}
	p.Src, p.Dst, p.SrcPort, p.DstPort, p.HopLimit = sender, receiver, 49152, rocev2.Port, 61
	p.TrafficClass = 26<<2 | uint8(ecn)
	p.BTH.Header = bth.Header{Opcode: op, PKey: 0xFFFF, DestQP: 0x12, PSN: psn}
	p.BTH.RETH = bth.RETH{VirtualAddress: 0x7F0000001000, RKey: 0x1234, DMALength: 512}
	return p
}

func write(to io.Writer) (err error) {
	now := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	w, err := capture.NewWriter(to, capture.Ethernet, time.Microsecond)
	frame := func(b []byte) {
		now = now.Add(25 * time.Microsecond)
		err = cmp.Or(err, w.Write(&capture.Record{Data: b, Time: now}))
	}
	packet := func(ip []byte, failure error) []byte {
		err = cmp.Or(err, failure)
		frame(append(ethernet[:14:14], ip...))
		return ip
	}

	first, second := data(bth.RCRDMAWriteFirst, 42, rocev2.ECT0), data(bth.RCRDMAWriteLast, 43, rocev2.CE)
	second.Coverage = icrc.Without // the nodes changed the header after the sender computed the ICRC
	second.Ext, _ = hex.DecodeString(trace)
	octets := packet(first.AppendBinary(nil))
	packet(second.AppendBinary(nil))
	frame(pfc.PFC{Enabled: 1 << 3, Quanta: [8]uint16{3: 0xFFFF}}.AppendFrame(nil, mac)) // to the switch before it
	// with the trace, and without one
	for _, p := range []*rocev2.Packet{second, first} {
		octets, _, err := fastcnp.AppendFor(nil, p, spine, nil, fastcnp.Config{})
		packet(octets, err)
	}
	packet(cnp.AppendFor(nil, second, second.FinalDst(), 0x11, cnp.Config{}))
	packet(ppfc.AppendFor(nil, second, spine, ppfc.Extension{Pause: 100 * time.Microsecond}, ppfc.Config{}))
	packet(ppfc.AppendFor(nil, second, spine, ppfc.Extension{Type: ppfc.Resume}, ppfc.Config{}))

	// Through a WAN, in a tunnel with a flow label; then the sender's proxy helps.
	var tunnelled rocev2.Frame
	outer := packet((&encap.IPInIPv6{Src: ingress, Dst: egress}).Append(nil, octets, 0xBEEF5))
	tunnelled.Decode(outer, rocev2.DecodeOptions{Link: rocev2.LinkIP})
	packet(fcn.AppendFor(nil, &tunnelled, spine, 7, fcn.Config{}))
	packet(proxymsg.AppendFor(nil, &tunnelled, spine, leaf, 3, proxymsg.Config{}))
	packet(cnp.AppendFor(nil, first, leaf, 0x11, cnp.Config{})) // the proxy's

	overlay := encap.VXLAN{Src: ingress, Dst: egress, VNI: 42, Ethernet: ethernet}
	ack := data(bth.RCAcknowledge, 43, rocev2.NotECT)
	ack.Src, ack.Dst, ack.Payload, ack.BTH.DestQP, ack.BTH.AETH = receiver, sender, nil, 0x11,
		bth.AETH{Syndrome: 0x1F, MSN: 7}
	packet(overlay.Append(nil, packet(ack.AppendBinary(nil)), 0xBEEF5))
	frame(pfc.PFC{Enabled: 1 << 3}.AppendFrame(nil, mac)) // go on
	frame(pfc.Pause{Quanta: 0x1000}.AppendFrame(nil, mac))
	ack.BTH.Opcode, ack.Payload = bth.CNP, make([]byte, 15) // one octet too few
	packet(ack.AppendBinary(nil))
	frame(append(ethernet[:12:12], 0x08, 0x06)) // ARP: neither RoCEv2 nor a message of the drafts
	return err
}

func main() {
	if err := write(os.Stdout); err != nil {
		log.Fatal(err)
	}
}
