//go:build linux

package kerneltest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
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
