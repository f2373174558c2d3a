package proxymsg_test

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"

	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocev2"
)

// A packet that meets congestion inside a VPN: RC SEND Only over IPv6, in an
// SRv6 tunnel.
const congested = "020000000001 020000000002 86dd" +
	"602beef500582b40 20010db8000000000000000000000001 20010db8000000000000000000000002" +
	"2902040000000000 20010db8000000000000000000000002" +
	"6000000000181140 fd770000000000000000000000000002 fd770000000000000000000000000001" +
	"e34112b700180000 0400ffff 00000011 80fffff0 4b69f6c2"

// The congested node tells the proxy; the proxy finds the flow and its queue
// pair, and sends the sender a standard CNP in the receiver's name.
func Example() {
	frame, _ := hex.DecodeString(strings.ReplaceAll(congested, " ", ""))
	self, proxy := netip.MustParseAddr("2001:db8:ffff::5"), netip.MustParseAddr("2001:db8:ffff::1")

	var flow rocev2.Frame
	flow.Decode(frame, rocev2.DecodeOptions{})
	packet, err := proxymsg.AppendFor(nil, &flow, self, proxy, 3, proxymsg.Config{})
	fmt.Println(len(packet), err)

	var d rocev2.Datagram
	if err := d.Decode(packet, rocev2.DecodeOptions{Link: rocev2.LinkIP}, proxymsg.Port); err != nil {
		fmt.Println(err)
		return
	}
	m, err := proxymsg.FromDatagram(&d, 0)
	fmt.Println(m, err)
	h, err := m.BTH()
	fmt.Println(h.Opcode, h.DestQP, err)

	// h.DestQP is the receiver's queue pair; the proxy has learned which one of
	// the sender's goes with it.
	const senderQP = 0x12
	c := cnp.New(senderQP, h.PKey)
	answer, err := c.AppendPacket(nil, m.Dst, m.Src, cnp.Config{})
	fmt.Println(len(answer), err)
	// Output:
	// 216 <nil>
	// [fd77::2]:58177 to [fd77::1]:4791, protocol 17, level 3, reserved 0x0, 128 octets of invoking packet <nil>
	// RC SEND Only 17 <nil>
	// 80 <nil>
}
