//go:build linux

package kerneltest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/filter"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/ioam"
	"github.com/rocecn/rocecn/ipv6opt"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocev2"
)

var (
	peAddr   = netip.MustParseAddr("2001:db8:2::2")
	coreAddr = netip.MustParseAddr("2001:db8:2::3")
)

// An edge is a network with tunnels that begin at pe.
//
//	sender ── pe ── core
type edge struct {
	sender, pe, core *host
	start, startPE   *tap // the two ends of the first cable
	pePort, corePort *tap // of the second
}

func newEdge(t *testing.T) *edge {
	t.Helper()
	e := &edge{sender: newHost(t, "sender"), pe: newHost(t, "pe"), core: newHost(t, "core")}
	connect(t, e.sender, "eth0", e.pe, "in")
	connect(t, e.pe, "out", e.core, "eth0")
	e.pe.set(t, "ipv4/conf/all/forwarding", 1)
	e.pe.set(t, "ipv6/conf/all/forwarding", 1)
	e.sender.address(t, "eth0", "2001:db8:1::1/64")
	e.pe.address(t, "in", "10.0.1.2/24")
	e.pe.address(t, "in", "2001:db8:1::2/64")
	e.pe.address(t, "out", "192.0.2.2/24")
	e.pe.address(t, "out", "2001:db8:2::2/64")
	e.core.address(t, "eth0", "192.0.2.3/24")
	e.core.address(t, "eth0", "2001:db8:2::3/64")
	e.pe.ip(t, "route add 2001:db8:c::/64 via 2001:db8:2::3")
	e.start, e.startPE = e.sender.tap(t, "eth0"), e.pe.tap(t, "in")
	e.pePort, e.corePort = e.pe.tap(t, "out"), e.core.tap(t, "eth0")
	return e
}

// inners are the RoCEv2 packets in the tunnels: IPv6 with a flow label, and IPv4. Both are ECN-capable.
func inners() map[string]rocev2.Packet {
	six, four := dataPacket(6, nil), dataPacket(4, nil)
	four.Src, four.Dst, four.FlowLabel = netip.MustParseAddr("10.0.1.1"), netip.MustParseAddr("10.0.4.1"), 0
	return map[string]rocev2.Packet{"IPv6": six, "IPv4": four}
}

// Linux encapsulates Ethernet frames, tagged and untagged, in VXLAN.
func TestLinuxVXLAN(t *testing.T) {
	e := newEdge(t)
	if err := e.pe.tryIP(`link add vx4 type vxlan id 44 local 192.0.2.2 remote 192.0.2.3 dstport 4789
		link add vx6 type vxlan id 46 local 2001:db8:2::2 remote 2001:db8:2::3 dstport 4789 flowlabel 0xbeef5
		link set vx4 up
		link set vx6 up`); err != nil {
		wiretest.Missing(t, "no VXLAN: "+err.Error())
	}
	for _, device := range []string{"vx4", "vx6"} {
		overlay := e.pe.tap(t, device)
		for family, inner := range inners() {
			for _, tags := range [][]uint16{nil, {0x8100, 0x2007}, {0x88A8, 9, 0x8100, 7}} {
				t.Run(fmt.Sprintf("%s in %s, tags %x", family, device, tags), func(t *testing.T) {
					ip := whole(t, &inner)
					overlay.send(t, ethernet(e.corePort.mac, e.startPE.mac, ip, tags...))
					frame := e.encapsulated(t, ip)
					f := requireFlow(t, frame, &inner, icrc.AsSent)
					e.requireProxyMessage(t, f, &inner)
					if device == "vx6" {
						e.requireFCN(t, f, e.pe, peAddr, 0xBEEF5)
					} else {
						_, err := fcn.AppendFor(nil, f, coreAddr, 1, fcn.Config{})
						require.ErrorIs(t, err, fcn.ErrNotTunnelled)
					}
					var p rocev2.Packet // D12 does not go into VXLAN
					require.ErrorIs(t, p.DecodeEthernet(frame), rocev2.ErrNotRoCEv2)
				})
			}
		}
	}
}

// Linux sends packets through two segments in every mode that it supports.
func TestLinuxSRv6(t *testing.T) {
	e := newEdge(t)
	e.segmentRouting(t)
	e.pe.set(t, "ipv6/seg6_flowlabel", 1) // a label of its own for the outer header
	for _, c := range []struct {
		mode, family string
		direct       bool // rocev2.Packet finds it as well: D12 includes IP in IP, but not Ethernet
		fcn          error
	}{
		{mode: "encap", family: "IPv6", direct: true},
		{mode: "encap.red", family: "IPv6", direct: true},
		{mode: "inline", family: "IPv6", direct: true, fcn: fcn.ErrNotTunnelled}, // a header in the packet itself
		{mode: "l2encap", family: "IPv6"},
		{mode: "l2encap.red", family: "IPv6"},
		// Linux leaves the outer traffic class 0
		{mode: "encap", family: "IPv4", direct: true, fcn: fcn.ErrNotECNCapable},
		{mode: "encap.red", family: "IPv4", direct: true, fcn: fcn.ErrNotECNCapable},
		{mode: "l2encap", family: "IPv4", fcn: fcn.ErrNotECNCapable},
	} {
		t.Run(c.family+" "+c.mode, func(t *testing.T) {
			inner := inners()[c.family]
			if err := e.pe.tryIP(fmt.Sprintf("route replace %v/%d encap seg6 mode %s segs "+
				"2001:db8:c::1,2001:db8:c::2 dev out",
				inner.Dst, inner.Dst.BitLen(), c.mode)); err != nil {
				wiretest.NotInKernel(t, "CONFIG_IPV6_SEG6_LWTUNNEL", "SRv6 mode "+c.mode+": "+err.Error())
			}
			ip := whole(t, &inner)
			e.start.sendIP(t, e.startPE, ip)
			frame := e.encapsulated(t, ip)

			coverage := icrc.AsSent
			if c.mode == "inline" {
				coverage = icrc.Without
			}
			f := requireFlow(t, frame, &inner, coverage)
			e.requireProxyMessage(t, f, &inner)
			if c.fcn == nil {
				e.requireFCN(t, f, e.pe, peAddr, binary.BigEndian.Uint32(frame[14:])&0xFFFFF)
			} else {
				_, err := fcn.AppendFor(nil, f, coreAddr, 1, fcn.Config{})
				require.ErrorIs(t, err, c.fcn)
			}
			var p rocev2.Packet
			if !c.direct {
				require.ErrorIs(t, p.DecodeEthernet(frame), rocev2.ErrNotRoCEv2)
				return
			}
			require.NoError(t, p.DecodeEthernet(frame))
			require.Equal(t, f.Inner().IP(), p.IP)
			require.Equal(t, inner.BTH.Header, p.BTH.Header)
			require.Equal(t, inner.FlowLabel, p.FlowLabel)
		})
	}
}

// A packet with our Segment Routing header passes a Linux segment and reaches an ordinary socket at the end: the
// checksum, and the ICRC computed without extension headers, are those of the final destination.
func TestLinuxForwardsOurSegments(t *testing.T) {
	e := newEdge(t)
	e.segmentRouting(t)
	for _, variable := range []string{"ipv6/conf/all/seg6_enabled", "ipv6/conf/in/seg6_enabled"} {
		e.pe.set(t, variable, 1)
	}
	for _, variable := range []string{"ipv6/conf/all/seg6_enabled", "ipv6/conf/eth0/seg6_enabled"} {
		e.core.set(t, variable, 1)
	}
	socket := e.core.listen(t, coreAddr, rocev2.Port)

	p := dataPacket(1, nil)
	p.Dst, p.Checksum, p.Coverage = netip.MustParseAddr("2001:db8:1::2"), 1, icrc.Without
	final, segment := coreAddr.As16(), p.Dst.As16()
	p.NextHeader = 43
	p.Ext = slices.Concat([]byte{17, 4, 4, 1, 1, 0, 0, 0}, final[:], segment[:]) // type 4, Segments Left 1
	ip := whole(t, &p)
	e.start.sendIP(t, e.startPE, ip)
	require.Equal(t, ip[40+40+8:], receive(t, socket))

	frame := e.encapsulated(t, ip)
	var arrived rocev2.Packet
	require.NoError(t, arrived.DecodeEthernet(frame))
	require.Equal(t, coreAddr, arrived.Dst)
	require.Zero(t, arrived.Ext[3], "Segments Left")
	coverage := wiretest.Must(icrc.Verify(arrived.IP))(t)
	require.Equal(t, icrc.Without, coverage)
}

// segmentRouting sets the source address of SRv6 tunnels, which the kernel must
// know.
func (e *edge) segmentRouting(t *testing.T) {
	t.Helper()
	if err := e.pe.tryIP("sr tunsrc set " + peAddr.String()); err != nil {
		wiretest.NotInKernel(t, "CONFIG_IPV6_SEG6_LWTUNNEL", "SRv6: "+err.Error())
	}
}

// encapsulated returns the frame with an IP packet that arrives at the core with unchanged data.
func (e *edge) encapsulated(t *testing.T, ip []byte) []byte {
	t.Helper()
	return e.corePort.receive(t, "encapsulated packet", func(frame []byte) bool {
		return bytes.Equal(frame[:6], e.corePort.mac) && bytes.HasSuffix(frame, ip[len(ip)-40:])
	})
}

// requireFlow checks that the flow of a packet is found in a frame with tunnels.
func requireFlow(t *testing.T, frame []byte, inner *rocev2.Packet, coverage icrc.Coverage) *rocev2.Frame {
	t.Helper()
	var f rocev2.Frame
	f.Decode(frame, rocev2.DecodeOptions{})
	flow := wiretest.Must(f.FiveTuple())(t)
	require.Equal(t, rocev2.FiveTuple{Src: inner.Src, Dst: inner.Dst, Protocol: 17, SrcPort: inner.SrcPort,
		DstPort: rocev2.Port}, flow)
	require.Equal(t, inner.FlowLabel, f.Inner().FlowLabel())
	require.Equal(t, frame[14:], f.Outer().IP())
	got := wiretest.Must(icrc.Verify(f.Inner().IP()))(t)
	require.Equal(t, coverage, got)
	return &f
}

// requireFCN sends the FCN about a flow from the core, and checks that an ordinary socket at the beginning of the
// tunnel receives this label.
func (e *edge) requireFCN(t *testing.T, f *rocev2.Frame, begin *host, addr netip.Addr, label uint32) {
	t.Helper()
	b := wiretest.Must(fcn.AppendFor(nil, f, coreAddr, 5, fcn.Config{}))(t)
	socket := begin.listen(t, addr, fcn.Port)
	e.corePort.sendIP(t, e.pePort, b)
	var m fcn.Message
	require.NoError(t, m.Decode(receive(t, socket)))
	require.Equal(t, fcn.Message{FlowLabel: label, Level: 5}, m)
}

// requireProxyMessage sends the proxy message about a flow from the core, and checks that an ordinary socket on
// pe, the proxy, receives it over IPv4 and IPv6.
func (e *edge) requireProxyMessage(t *testing.T, f *rocev2.Frame, inner *rocev2.Packet) {
	t.Helper()
	for _, c := range []struct{ core, proxy netip.Addr }{
		{coreAddr, peAddr},
		{netip.MustParseAddr("192.0.2.3"), netip.MustParseAddr("192.0.2.2")},
	} {
		t.Run(fmt.Sprint(c.core), func(t *testing.T) {
			b := wiretest.Must(proxymsg.AppendFor(nil, f, c.core, c.proxy, 3, proxymsg.Config{}))(t)
			socket := e.pe.listen(t, c.proxy, proxymsg.Port)
			e.corePort.sendIP(t, e.pePort, b)
			var m proxymsg.Message
			require.NoError(t, m.Decode(receive(t, socket), 0))
			flow := wiretest.Must(f.FiveTuple())(t)
			require.Equal(t, proxymsg.Message{FiveTuple: flow, Level: 3, Invoking: f.Outer().IP()}, m)
			h := wiretest.Must(m.BTH())(t)
			require.Equal(t, inner.BTH.Header, h)
		})
	}
}

var (
	senderAddr   = netip.MustParseAddr("2001:db8:1::1")
	receiverAddr = netip.MustParseAddr("2001:db8:4::e")
	switchAddr   = netip.MustParseAddr("2001:db8:ffff::c3") // the loopback address of c3
)

// A road is a path through two routers, transit nodes of one IOAM namespace.
//
//	sender ── b2 ── c3 ── receiver
type tunnelPath struct {
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

func newTunnelPath(t *testing.T) *tunnelPath {
	t.Helper()
	if _, err := os.Stat("/proc/sys/net/ipv6/ioam6_id"); err != nil {
		wiretest.Missing(t, "no IOAM in this kernel: "+err.Error())
	}
	r := &tunnelPath{sender: newHost(t, "sender"), b2: newHost(t, "b2"), c3: newHost(t, "c3"),
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
func (r *tunnelPath) cross(t *testing.T, sent *rocev2.Packet) (frame []byte, arrived rocev2.Packet) {
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
	n := wiretest.Must(fastcnp.FromPacket(&p, cfg.CodePoints))(t)
	return b, n
}

// The first of two fragments does not identify the message. Without rules both cross, and Linux reassembles them
// for a socket, unless it finds headers missing itself. The rules drop them (RFC 7112), but let fragments of other
// packets cross.
func TestLinuxBorderFragments(t *testing.T) {
	requireRules(t)
	f := newFrontier(t)
	outside, inside := &f.sides[0], &f.sides[1]

	const (
		fcn  = `c000 03fd 000c 0000  beef5400`
		cnp  = `c000 12b7 0028 0000  8100ffff 40000011 00000000 00000000000000000000000000000000 01020304`
		data = `c000 12b7 0018 0000  0400ffff 00000011 00000000 01020304`
	)
	all := filter.Border{CNP: true, PPFC: true}
	id := byte(0) // of the last fragmented packet; after a drop, the remaining fragments wait for it
	for _, c := range []struct {
		name    string
		border  filter.Border
		version int
		ext     string // extension headers of the fragmentable part
		udp     string
		first   int  // octets of that part in the first fragment
		linux   bool // Linux reassembles it
		crosses bool // it crosses with the rules
	}{
		// Fragment, Routing (next 60) | Destination Options, UDP 1021.
		{"FCN after Routing and Destination Options", filter.Border{}, 6, `2b: 3c00fd00 00000000 1100 0104 00000000`,
			fcn,
			8, true, false},
		{"FCN after Destination Options", filter.Border{}, 6, `3c: 1100 0104 00000000`, fcn, 8, false, false},
		{"half of the Destination Options", filter.Border{}, 6, `3c: 1101 010c 000000000000000000000000`, fcn, 8, false,
			false},
		{"FCN", filter.Border{}, 6, `11:`, fcn, 8, true, false},
		{"CNP without its opcode", all, 6, `11:`, cnp, 8, true, false},
		{"CNP without its opcode, IPv4", all, 4, ``, cnp, 8, true, false},
		{"CNP alone kept in, IPv4", filter.Border{CNP: true}, 4, ``, cnp, 8, true, false},
		{"CNP that may cross", filter.Border{}, 6, `11:`, cnp, 8, true, true},
		{"CNP that may cross, IPv4", filter.Border{}, 4, ``, cnp, 8, true, true},
		{"data after Routing", filter.Border{}, 6, `2b: 1100fd00 00000000`, data, 16, true, true},
		{"data and its opcode, IPv4", filter.Border{PPFC: true}, 4, ``, data, 16, true, true},
		{"other UDP", filter.Border{}, 6, `11:`, `c000 0035 000c 0000 01020304`, 8, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			next, ext, _ := strings.Cut(c.ext, ":")
			udp := wiretest.Hex(t, c.udp)
			from, to := outside.addr6.AsSlice(), inside.addr6.AsSlice()
			if c.version == 4 {
				from, to = outside.addr4.AsSlice(), inside.addr4.AsSlice()
			}
			pseudo := slices.Concat(from, to, []byte{0, protoUDP, 0, byte(len(udp))}, udp)
			binary.BigEndian.PutUint16(udp[6:], checksum(pseudo))
			whole := slices.Concat(wiretest.Hex(t, ext), udp)

			fragments := func() [2][]byte {
				if c.version == 4 {
					return [2][]byte{ipv4Fragment(0x2000, whole[:c.first]),
						ipv4Fragment(uint16(c.first/8), whole[c.first:])}
				}
				of := func(offset byte, part []byte) []byte {
					return ipv6Packet(44, slices.Concat(wiretest.Hex(t, next), []byte{0, 0, offset, 0, 0, 0, id}, part))
				}
				return [2][]byte{of(1, whole[:c.first]), of(byte(c.first), whole[c.first:])}
			}
			addr := inside.addr6
			if c.version == 4 {
				addr = inside.addr4
			}
			socket := inside.host.listen(t, addr, binary.BigEndian.Uint16(udp[2:]))
			listener := inside.host.listen(t, inside.addr6, 9)
			// arrives sends the fragments, and reports whether the first one crosses and whether the socket receives
			// the reassembled message.
			arrives := func() (first, message bool) {
				id++
				parts := fragments()
				for _, ip := range parts {
					address(ip, int(id), outside, inside)
				}
				first = f.cross(t, outside, inside, parts[:1])[int(id)]
				outside.end.sendIP(t, outside.router, parts[1])
				end := slices.Concat(outside.addr6.AsSlice(), inside.addr6.AsSlice(), []byte{0, protoUDP, 0, 9},
					[]byte{1, 1, 0,
						9, 0, 9, 0, 0, id, 0})
				binary.BigEndian.PutUint16(end[42:], checksum(end))
				ip := ipv6Packet(protoUDP, end[36:45])
				address(ip, lastPacket, outside, inside)
				outside.end.sendIP(t, outside.router, ip)
				var b [2]byte
				require.NoError(t, listener.SetReadDeadline(time.Now().Add(packetTimeout)))
				_, _, err := listener.ReadFromUDP(b[:])
				require.NoError(t, err)
				require.Equal(t, id, b[0])
				got, message := waiting(t, socket)
				if message {
					require.Equal(t, udp[8:], got)
				}
				return first, message
			}

			first, message := arrives()
			require.True(t, first, "without rules")
			require.Equal(t, c.linux, message, "without rules")
			c.border.FCNPort = 0x03FD // the port in these octets
			_, drop := c.border.Match(framed(fragments()[0]))
			require.Equal(t, !c.crosses, drop, "Match")
			for _, r := range rulesOf(t, &c.border) {
				f.border.Run(t, r.load, "sh", "-e")
				first, message := arrives()
				require.Equal(t, c.crosses, first, r.name)
				require.Equal(t, c.crosses, message, r.name)
				f.border.Run(t, r.undo, "sh", "-e")
			}
		})
	}
}

// ipv4Fragment returns a UDP packet or fragment without addresses.
func ipv4Fragment(fragment uint16, payload []byte) []byte {
	b := make([]byte, 20, 20+len(payload))
	b[0], b[9] = 0x45, protoUDP
	binary.BigEndian.PutUint16(b[2:], uint16(20+len(payload)))
	binary.BigEndian.PutUint16(b[6:], fragment)
	return append(b, payload...)
}

// ipv6Packet returns a packet without addresses.
func ipv6Packet(next uint8, payload []byte) []byte {
	b := make([]byte, 40, 40+len(payload))
	b[0], b[6] = 6<<4, next
	binary.BigEndian.PutUint16(b[4:], uint16(len(payload)))
	return append(b, payload...)
}

// waiting returns the datagram that waits at a socket, if any.
func waiting(t *testing.T, c *net.UDPConn) (data []byte, ok bool) {
	t.Helper()
	raw, err := c.SyscallConn()
	require.NoError(t, err)
	b := make([]byte, 2048)
	var n int
	require.NoError(t, raw.Control(func(fd uintptr) {
		n, _, err = syscall.Recvfrom(int(fd), b, syscall.MSG_DONTWAIT)
	}))
	if err == syscall.EAGAIN {
		return nil, false
	}
	require.NoError(t, err)
	return b[:n], true
}
