//go:build linux

package kerneltest

import (
	"fmt"
	"net/netip"
	"os"
	"testing"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/ioam"
	"github.com/rocecn/rocecn/ipv6opt"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

var (
	senderAddr   = netip.MustParseAddr("2001:db8:1::1")
	receiverAddr = netip.MustParseAddr("2001:db8:4::e")
	switchAddr   = netip.MustParseAddr("2001:db8:ffff::c3") // the loopback address of c3
)

// A road is a path through two routers, transit nodes of one IOAM namespace.
//
//	sender ── b2 ── c3 ── receiver
type road struct {
	sender, b2, c3, receiver *host
	start, startB2           *tap // the two ends of the first cable
	middle, middleC3         *tap // b2's and c3's end of the second
	end                      *tap // the receiver's device
}

const namespace = 123

// A transit is the configuration of a transit node.
type transit struct {
	node                    uint32 // 24 bits
	ingress, egress         uint16
	data                    uint32
	wideNode                uint64 // 56 bits
	wideIngress, wideEgress uint32
	wideData                uint64
	schema                  uint32 // 24 bits
	snapshot                string // a multiple of 4 octets
}

// The transit nodes c3 and b2, newest first as in a trace.
var transits = [...]transit{
	{
		node: 0xC3C30C, ingress: 0xC301, egress: 0xC302, data: 0xC3DA7A00,
		wideNode: 0xC3_00000000000C, wideIngress: 0xC3000001, wideEgress: 0xC3000002, wideData: 0xC3DA7A00_0000000C,
		schema: 0xC35C0C, snapshot: "the state of c3!",
	},
	{
		node: 0xB2B20B, ingress: 0xB201, egress: 0xB202, data: 0xB2DA7A00,
		wideNode: 0xB2_00000000000B, wideIngress: 0xB2000001, wideEgress: 0xB2000002, wideData: 0xB2DA7A00_0000000B,
		schema: 0xB25C0B, snapshot: "and b2's",
	},
}

func newRoad(t *testing.T) *road {
	t.Helper()
	if _, err := os.Stat("/proc/sys/net/ipv6/ioam6_id"); err != nil {
		wiretest.Missing(t, "no IOAM in this kernel: "+err.Error())
	}
	r := &road{sender: newHost(t, "sender"), b2: newHost(t, "b2"), c3: newHost(t, "c3"),
		receiver: newHost(t, "receiver")}
	connect(t, r.sender, "eth0", r.b2, "in")
	connect(t, r.b2, "out", r.c3, "in")
	connect(t, r.c3, "out", r.receiver, "eth0")
	r.sender.address(t, "eth0", "2001:db8:1::1/64")
	r.b2.address(t, "in", "2001:db8:1::2/64")
	r.b2.address(t, "out", "2001:db8:2::2/64")
	r.c3.address(t, "in", "2001:db8:2::3/64")
	r.c3.address(t, "out", "2001:db8:4::3/64")
	r.c3.address(t, "lo", "2001:db8:ffff::c3/128")
	r.receiver.address(t, "eth0", "2001:db8:4::e/64")
	r.sender.ip(t, "route add default via 2001:db8:1::2")
	r.b2.ip(t, "route add default via 2001:db8:2::3")
	r.c3.ip(t, "route add default via 2001:db8:2::2")
	r.receiver.ip(t, "route add default via 2001:db8:4::3")
	r.c3.transit(t, &transits[0])
	r.b2.transit(t, &transits[1])
	r.start, r.startB2 = r.sender.tap(t, "eth0"), r.b2.tap(t, "in")
	r.middle, r.middleC3 = r.b2.tap(t, "out"), r.c3.tap(t, "in")
	r.end = r.receiver.tap(t, "eth0")
	return r
}

// transit makes a host a router and a transit node.
func (h *host) transit(t *testing.T, n *transit) {
	t.Helper()
	h.set(t, "ipv6/conf/all/forwarding", 1)
	h.set(t, "ipv6/ioam6_id", uint64(n.node))
	h.set(t, "ipv6/ioam6_id_wide", n.wideNode)
	h.set(t, "ipv6/conf/in/ioam6_enabled", 1)
	h.set(t, "ipv6/conf/in/ioam6_id", uint64(n.ingress))
	h.set(t, "ipv6/conf/in/ioam6_id_wide", uint64(n.wideIngress))
	h.set(t, "ipv6/conf/out/ioam6_id", uint64(n.egress))
	h.set(t, "ipv6/conf/out/ioam6_id_wide", uint64(n.wideEgress))
	h.ip(t, fmt.Sprintf(`ioam namespace add %d data %#x wide %#x
		ioam schema add %d "%s"
		ioam namespace set %[1]d schema %[4]d`, namespace, n.data, n.wideData, n.schema, n.snapshot))
}

// dataPacket is an RC RDMA WRITE Only of 5 octets from sender to receiver with
// these extension headers, Hop-by-Hop Options first.
func dataPacket(psn uint32, ext []byte) rocev2.Packet {
	var p rocev2.Packet
	p.Src, p.Dst = senderAddr, receiverAddr
	p.TrafficClass, p.HopLimit, p.FlowLabel = 26<<2|1, 64, 0xABCDE
	p.NextHeader, p.Ext = ipv6opt.HopByHop, ext
	p.SrcPort, p.DstPort = 0xC0DE, rocev2.Port
	p.BTH.Header = bth.Header{Opcode: bth.RCRDMAWriteOnly, Pad: 3, PKey: 0xFFFF, DestQP: 0x123456, AckReq: true,
		PSN: psn}
	p.BTH.RETH = bth.RETH{VirtualAddress: 0x7F00_0000_1000, RKey: 0x1234, DMALength: 5}
	p.Payload = []byte("hello")
	return p
}

// hopByHop returns a Hop-by-Hop Options header with a fresh trace that has room for this number of words.
func hopByHop(t *testing.T, fresh ioam.Trace, words int) []byte {
	t.Helper()
	data := wiretest.Must(fresh.AppendFresh([]byte{0, uint8(fresh.OptType)}, words))(t)
	w := ipv6opt.Begin(nil, 17)
	require.NoError(t, w.Add(ioam.IPv6MayChange, 4, 0, data))
	return w.Finish()
}

// traceIn returns the IOAM option in the Hop-by-Hop Options header of a packet, and its trace.
func traceIn(t *testing.T, p *rocev2.Packet) (option ioam.Option, trace ioam.Trace) {
	t.Helper()
	require.EqualValues(t, ipv6opt.HopByHop, p.NextHeader)
	var h ipv6opt.Header
	_, err := h.Decode(p.Ext)
	require.NoError(t, err)
	require.NoError(t, ipv6opt.Limits{}.Check(&h))
	o, found, err := h.Find(ioam.IPv6MayChange)
	require.NoError(t, err)
	require.True(t, found)
	require.NoError(t, option.Decode(o.Data))
	require.NoError(t, trace.Decode(option))
	return option, trace
}

// cross sends a packet along the road, and returns the frame with its PSN that arrives, and the packet in it.
func (r *road) cross(t *testing.T, sent *rocev2.Packet) (frame []byte, arrived rocev2.Packet) {
	t.Helper()
	r.start.sendIP(t, r.startB2, whole(t, sent))
	frame = r.end.receive(t, "data packet", func(frame []byte) bool {
		return arrived.DecodeEthernet(frame) == nil && arrived.BTH.Opcode == sent.BTH.Opcode &&
			arrived.BTH.PSN == sent.BTH.PSN
	})
	return frame, arrived
}

// whole returns the IP packet that p describes.
func whole(t *testing.T, p *rocev2.Packet) []byte {
	t.Helper()
	return wiretest.Must(p.AppendBinary(nil))(t)
}

// fastCNP returns the Fast CNP of the switch about a packet, encoded and decoded.
func fastCNP(t *testing.T, congested *rocev2.Packet, cfg fastcnp.Config) ([]byte, fastcnp.Notification) {
	t.Helper()
	b, _, err := fastcnp.AppendFor(nil, congested, switchAddr, nil, cfg)
	require.NoError(t, err)
	_, err = icrc.Verify(b)
	require.NoError(t, err)
	var p rocev2.Packet
	require.NoError(t, p.DecodeIP(b))
	n := wiretest.Must(cfg.CodePoints.FromPacket(&p))(t)
	return b, n
}
