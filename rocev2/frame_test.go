package rocev2

import (
	"bytes"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// Both views of one Frame: the outer view has a VXLAN packet, the inner view the RoCEv2 packet inside.
func TestFrameViews(t *testing.T) {
	frame := wiretest.Hex(t, macs+`81006007 0800`+toVTEP+send)
	var f Frame
	var p Packet
	f.Decode(frame, DecodeOptions{})
	require.Equal(t, ErrPort, f.Outer().Packet(&p))
	require.NoError(t, f.Inner().Packet(&p))
	require.Equal(t, addr("fd77::2"), p.Src)
	require.Equal(t, frame[18:], append(p.Outer, p.IP...))
	id, priority, ok := f.VLAN()
	require.Equal(t, []any{uint16(7), uint8(3), true}, []any{id, priority, ok})
	src, dst, ok := f.MACs()
	require.Equal(t, []any{[6]byte{2, 0, 0, 0, 0, 2}, [6]byte{2, 0, 0, 0, 0, 1}, true}, []any{src, dst, ok})
	require.Equal(t, addr("192.0.2.1"), f.Outer().Src())
	require.True(t, f.Tunnelled())
	require.False(t, f.Inner().Mirrored())

	marked := bytes.Clone(frame)
	marked[18+1] |= uint8(CE)                   // outside: TOS of IPv4
	marked[len(frame)-64+1] |= uint8(ECT1) << 4 // inside: Traffic Class of IPv6
	f.Decode(marked, DecodeOptions{})
	require.Equal(t, []ECN{CE, ECT1}, []ECN{f.Outer().ECN(), f.Inner().ECN()})
	f.Decode(marked[len(frame)-64:], DecodeOptions{Link: LinkIP})
	require.Equal(t, []ECN{ECT1, ECT1}, []ECN{f.Outer().ECN(), f.Inner().ECN()}, "without a tunnel")

	// With Outer the tunnel is not entered, and no result of the previous frame remains.
	f.Decode(frame, DecodeOptions{Outer: true})
	require.Equal(t, ErrPort, f.Inner().Packet(&p))
	require.Zero(t, f.Tunnels().Len())
	broken := wiretest.Hex(t, macs+`0800`+toVTEP[:len(toVTEP)-4]+`0806`+send)
	f.Decode(broken, DecodeOptions{})
	require.Equal(t, errNotIP, f.Inner().Packet(&p))
	f.Decode(broken, DecodeOptions{Outer: true})
	require.Equal(t, ErrPort, f.Inner().Packet(&p))
	wiretest.NoAllocs(t, "Decode", func() { f.Decode(frame, DecodeOptions{}); _ = f.Inner().Packet(&p) })
}

// The results of a Frame do not depend on the methods called before, for the packet in a tunnel and the packet around
// it, also if a method is called between two extension headers. If the tunnel is malformed, the results are those of a
// Frame that does not enter tunnels.
func TestFrameViewsInTurn(t *testing.T) {
	type answers struct {
		datagram, inner Datagram
		err, innerErr   error
		tunnels         Tunnels
		outermost, ip   []byte
		innermost, link []byte
		flow            FiveTuple
		flowErr         error
		truncated, ipv6 bool
		etherType       uint16
		extensions      []byte
		between         []byte // extensions, with a call of another method after each
		snap            int
	}
	questions := []func(f *Frame, a *answers){
		func(f *Frame, a *answers) { a.innerErr = f.Inner().Datagram(&a.inner) },
		func(f *Frame, a *answers) { a.err = f.Outer().Datagram(&a.datagram) },
		func(f *Frame, a *answers) { a.tunnels = f.Tunnels() },
		func(f *Frame, a *answers) { a.link, a.etherType = f.Link(), f.EtherType() },
		func(f *Frame, a *answers) { a.ip = f.Inner().IP() },
		func(f *Frame, a *answers) { a.innermost = f.BorderPacket() },
		func(f *Frame, a *answers) { a.flow, a.flowErr = f.FiveTuple() },
		func(f *Frame, a *answers) { _, a.ipv6 = f.ICMPv6() },
		func(f *Frame, a *answers) { a.outermost, a.truncated = outermost(f), f.Truncated() },
		func(f *Frame, a *answers) {
			a.extensions = nil
			for _, header := range f.Extensions() {
				a.extensions = append(a.extensions, header...)
			}
		},
		func(f *Frame, a *answers) {
			a.between = nil
			for _, header := range f.Extensions() {
				var d Datagram
				_ = f.Outer().Datagram(&d)
				a.between = append(a.between, header...)
			}
		},
		func(f *Frame, a *answers) { a.snap = f.SnapLength(Port) },
	}
	// Extension headers before and after a tunnel: the Geneve header of the last frame, with 40 octets more inside.
	routed, geneve := flows[4], flows[len(flows)-1]
	lengths := strings.NewReplacer(`602beef50076`, `602beef5009e`, `005e0000`, `00860000`)
	routed.link, routed.tunnel = geneve.link, lengths.Replace(geneve.tunnel)
	broken := 0
	for _, c := range append(slices.Clone(flows), routed) {
		whole := wiretest.Hex(t, c.link+c.tunnel+c.flow)
		tunnel := len(wiretest.Hex(t, c.link+c.tunnel))
		for i, b := range [][]byte{whole, whole[:tunnel], whole[:max(tunnel-3, 0)], whole[:len(whole)-1],
			whole[:tunnel], whole[:max(tunnel-3, 0)], whole[:len(whole)-1]} {
			o := DecodeOptions{AllowTruncated: i >= 4}
			var alone, turned, outside answers
			for _, ask := range questions {
				var f, outer Frame
				f.Decode(b, o)
				ask(&f, &alone)
				outer.Decode(b, DecodeOptions{AllowTruncated: o.AllowTruncated, Outer: true})
				ask(&outer, &outside)
			}
			var f Frame
			f.Decode(b, o)
			for range 2 {
				for _, ask := range questions {
					ask(&f, &turned)
				}
			}
			require.Equal(t, alone, turned, "%s %x", c.name, b)
			require.Equal(t, alone.extensions, alone.between, "%s %x", c.name, b)
			if f.broken != nil {
				broken++
				if f.Mirror() != nil { // the outer view begins inside the mirror's packet
					require.Equal(t, outside.innermost, alone.innermost, "%s %x", c.name, b)
					require.Equal(t, f.Outer().IP(), alone.ip, "%s %x", c.name, b)
					require.Equal(t, f.broken, alone.innerErr, "%s %x", c.name, b)
					require.Equal(t, f.broken, alone.flowErr, "%s %x", c.name, b)
					continue
				}
				outside.inner, outside.innerErr = Datagram{}, f.broken
				outside.flow, outside.flowErr = FiveTuple{}, f.broken
				outside.snap = alone.snap // see TestSnapLengthOfTunnels
				require.Equal(t, outside, alone, "%s %x", c.name, b)
			}
		}
	}
	require.Greater(t, broken, 20)
}

// A frame with a tunnelled packet is truncated at any octet before the end of the UDP header. Repeated calls of
// SnapLength, each after truncation to the previous result, lead to a length with which the datagram is found.
func TestSnapLengthOfTunnels(t *testing.T) {
	for _, c := range flows {
		whole := wiretest.Hex(t, c.link+c.tunnel+c.flow)
		var f Frame
		var d Datagram
		found := func(n int) bool {
			f.Decode(whole[:min(n, len(whole))], DecodeOptions{AllowTruncated: true})
			return f.Inner().Datagram(&d, Port) == nil
		}
		if !found(len(whole)) {
			continue
		}
		for i := 1; i < len(whole); i++ {
			for n := i; !found(n); {
				need := f.SnapLength(Port)
				require.Greater(t, need, n, "%s, %d octets", c.name, i)
				n = need
			}
		}
	}

	// SnapLength returns 0 for octets that exclude a RoCEv2 packet.
	vxlan := wiretest.Hex(t, macs+`0800 450000b400000000401100000a0000010a000002 c00012b500a00000`)
	var f Frame
	f.Decode(vxlan[:38], DecodeOptions{AllowTruncated: true})
	require.NotZero(t, f.SnapLength(Port))
	f.Decode(vxlan[:38], DecodeOptions{AllowTruncated: true, Outer: true})
	require.Zero(t, f.SnapLength(Port))
	f.Decode(append(vxlan, wiretest.Hex(t, `0800000000000700`+macs+`0800 70`)...), DecodeOptions{AllowTruncated: true})
	require.Zero(t, f.SnapLength(Port))
}

// The getters of the outer view need the complete outermost IP header. Its length field may be wrong.
func TestFrameOuterHeader(t *testing.T) {
	const (
		v4 = ` 00000000 40040000 c0000201 c00002`                 // to 192.0.2.2, without the last octet
		v6 = ` 20010db8000000000000000000000001 20010db8000000` + // to 2001:db8::2, without the last octet
			`0000000000000000`
	)
	for _, c := range []struct {
		name, packet string
		src, dst     string // none if empty
		label        uint32
		ecn          ECN
		outermost    int // octets
	}{
		{"IPv4", `45030014` + v4 + `02`, "192.0.2.1", "192.0.2.2", 0, CE, 20},
		{"Total Length 19", `45030013` + v4 + `02`, "192.0.2.1", "192.0.2.2", 0, CE, 0},
		{"Total Length 0 of a tunnel", `45020000` + v4 + `02` + cnp4, "192.0.2.1", "192.0.2.2", 0, ECT0, 0},
		{"Header Length 16", `44030014` + v4 + `02`, "192.0.2.1", "192.0.2.2", 0, CE, 0},
		{"options", `46030018` + v4 + `02 01010100`, "192.0.2.1", "192.0.2.2", 0, CE, 24},
		{"options that are not all there", `46030018` + v4 + `02 010101`, "192.0.2.1", "192.0.2.2", 0, CE, 0},
		{"Total Length 23 with options", `46030017` + v4 + `02 01010100`, "192.0.2.1", "192.0.2.2", 0, CE, 0},
		{"19 octets of IPv4", `45030014` + v4, "", "", 0, NotECT, 0},
		{"Payload Length 0 of a tunnel", `60112345 00000440` + v6 + `02` + cnp4,
			"2001:db8::1", "2001:db8::2", 0x12345, ECT1, 40},
		{"39 octets of IPv6", `60112345 00000440` + v6, "", "", 0, NotECT, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var src, dst netip.Addr
			if c.src != "" {
				src, dst = addr(c.src), addr(c.dst)
			}
			var f Frame
			f.Decode(wiretest.Hex(t, c.packet), DecodeOptions{Link: LinkIP}) // the contents may be malformed
			require.Equal(t, []netip.Addr{src, dst}, []netip.Addr{f.Outer().Src(), f.Outer().Dst()})
			require.Equal(t, c.label, f.Outer().FlowLabel())
			require.Equal(t, c.ecn, f.Outer().ECN())
			require.Len(t, f.Outer().IP(), c.outermost)
		})
	}
}

// Missing octets of a datagram to another port are an error. With AllowTruncated in the View, they make it Truncated
// instead.
func TestFrameCut(t *testing.T) {
	frame := wiretest.Hex(t, macs+`86dd`+send)
	be.PutUint16(frame[14+40+2:], 1021)
	frame = frame[:len(frame)-2]
	var f Frame
	var d Datagram
	f.Decode(frame, DecodeOptions{})
	require.True(t, f.Truncated())
	require.Equal(t, errIPLength, f.Outer().Datagram(&d))
	v := f.Outer()
	v.AllowTruncated = true
	require.NoError(t, v.Datagram(&d))
	require.True(t, d.Truncated)
}

// ICMPv6 returns a message from its type field on. MayAnswer accepts an ICMPv6 packet and rejects a CNP.
func TestFrameICMPv6(t *testing.T) {
	var f Frame
	f.Decode(wiretest.Hex(t, macs+`86dd`+echo), DecodeOptions{})
	require.ErrorIs(t, f.Outer().Datagram(new(Datagram)), ErrNotRoCEv2)
	message, ok := f.ICMPv6()
	require.True(t, ok)
	require.Equal(t, wiretest.Hex(t, `80006e4b00010001`), message)
	require.Nil(t, f.MayAnswer())
	f.Decode(wiretest.Hex(t, macs+`86dd`+echo+`eeeeeeee`), DecodeOptions{}) // with Ethernet padding
	message, ok = f.ICMPv6()
	require.True(t, ok)
	require.Equal(t, wiretest.Hex(t, `80006e4b00010001`), message)
	f.Decode(wiretest.Hex(t, macs+`0800`+cnp4), DecodeOptions{})
	_, ok = f.ICMPv6()
	require.False(t, ok)
	require.Equal(t, ErrNotification, f.MayAnswer())
}

// The zero Frame is a frame without octets.
func TestZeroFrame(t *testing.T) {
	var p Packet
	var d Datagram
	for _, c := range []struct {
		name string
		ask  func(f *Frame) error
	}{
		{"Packet", func(f *Frame) error { return f.Outer().Packet(&p) }},
		{"InnerPacket", func(f *Frame) error { return f.Inner().Packet(&p) }},
		{"Datagram", func(f *Frame) error { return f.Outer().Datagram(&d) }},
		{"InnerDatagram", func(f *Frame) error { return f.Inner().Datagram(&d, Port) }},
		{"FiveTuple", func(f *Frame) error { _, err := f.FiveTuple(); return err }},
		{"MayAnswer", func(f *Frame) error { return f.MayAnswer() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, errFrame, c.ask(new(Frame)))
		})
	}
	for _, c := range []struct {
		name string
		ask  func(f *Frame) any
	}{
		{"Outermost", func(f *Frame) any { return f.Outer().IP() }},
		{"Innermost", func(f *Frame) any { return f.BorderPacket() }},
		{"IP", func(f *Frame) any { return f.Inner().IP() }},
		{"Mirror", func(f *Frame) any { return f.Mirror() }},
		{"Link", func(f *Frame) any { return f.Link() }},
		{"LinkPayload", func(f *Frame) any { return f.LinkPayload() }},
		{"EtherType", func(f *Frame) any { return f.EtherType() }},
		{"MACs", func(f *Frame) any { _, _, ok := f.MACs(); return ok }},
		{"VLAN", func(f *Frame) any { _, _, ok := f.VLAN(); return ok }},
		{"ICMPv6", func(f *Frame) any { _, ok := f.ICMPv6(); return ok }},
		{"Fragment", func(f *Frame) any { _, ok := f.Fragment(); return ok }},
		{"Truncated", func(f *Frame) any { return f.Truncated() }},
		{"Tunnelled", func(f *Frame) any { return f.Tunnelled() }},
		{"OuterSrc", func(f *Frame) any { return f.Outer().Src().IsValid() }},
		{"FlowLabel", func(f *Frame) any { return f.Inner().FlowLabel() }},
		{"SnapLength", func(f *Frame) any { return f.SnapLength(Port) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Empty(t, c.ask(new(Frame)))
		})
	}
	for range new(Frame).Extensions() {
		t.Error("an extension header")
	}
}

// The results of a Frame do not depend on the methods called before, and plain frames need no walk.
func TestFrameOrderOfQuestions(t *testing.T) {
	for _, c := range wiretest.Capture(t, "rxe-rping6.pcap") {
		var f Frame
		f.Decode(c.Data, DecodeOptions{})
		if f.udp == 0 {
			continue
		}
		ip, udp := c.Data[14:f.end:f.end], c.Data[54:f.end:f.end]
		for _, v := range []View{f.Outer(), f.Inner()} {
			require.Equal(t, ip, v.IP())
			require.Equal(t, c.Data[:14:14], v.EthernetHeader())
			require.False(t, v.Mirrored())
		}
		require.False(t, f.Truncated())
		_, ok := f.ICMPv6()
		require.False(t, ok)
		var first, second Packet
		cut := f.Outer()
		cut.AllowTruncated = true
		require.Equal(t, f.Outer().Packet(&first), cut.Packet(&second))
		require.Equal(t, first, second)
		require.False(t, f.near)

		_, ok = f.Fragment() // walks
		require.False(t, ok)
		require.True(t, f.near)
		require.Equal(t, ip, f.Inner().IP())
		require.Equal(t, ip, f.Outer().IP())
		var d Datagram
		require.NoError(t, f.Outer().Datagram(&d))
		require.Equal(t, ip, d.IP)
		require.Equal(t, udp[8:len(d.Data)+8], d.Data)
	}
}
