package rocev2

import (
	"bytes"
	"iter"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
)

// Functions that decode a frame and call one method of it, and types that hold several results.

func walked(b []byte, o DecodeOptions) *Frame {
	var f Frame
	f.Decode(b, o)
	return &f
}

// decode implements Decode by the walk, even for plain frames.
func (p *Packet) decode(b []byte, o DecodeOptions) error {
	var w walk
	if err := w.from(b, o); err != nil {
		return err
	}
	return p.fromWalk(b, &w, o.AllowTruncated)
}

func Extensions(b []byte, o DecodeOptions) iter.Seq2[uint8, []byte] {
	return func(yield func(uint8, []byte) bool) {
		var f Frame
		o.Outer = true
		f.Decode(b, o)
		f.Extensions()(yield)
	}
}

func OptionsError(b []byte, o DecodeOptions) error {
	var f Frame
	o.Outer = true
	f.Decode(b, o)
	return f.OptionsError()
}

func IOAMOptions(b []byte, o DecodeOptions) iter.Seq2[IOAMOption, error] {
	return func(yield func(IOAMOption, error) bool) {
		var f Frame
		o.Outer = true
		f.Decode(b, o)
		f.IOAM()(yield)
	}
}

func (in *Inner) IOAM() iter.Seq2[IOAMOption, error] { return in.frame.IOAM() }

func (in *Inner) OptionsError() error { return in.frame.OptionsError() }

// A Flow holds the results of a Frame about its innermost flow.
type Flow struct {
	FiveTuple
	FlowLabel     uint32
	Tunnels       Tunnels
	Outermost, IP []byte
}

func (f *Flow) DecodeEthernet(b []byte) error { return f.Decode(b, DecodeOptions{}) }

func (f *Flow) DecodeIP(b []byte) error { return f.Decode(b, DecodeOptions{Link: LinkIP}) }

func (f *Flow) Decode(b []byte, o DecodeOptions) error { return walked(b, o).Flow(f) }

func (f *Frame) Flow(to *Flow) error {
	t, err := f.FiveTuple()
	if err != nil {
		return err
	}
	to.FiveTuple, to.FlowLabel, to.Tunnels = t, f.Inner().FlowLabel(), f.Tunnels()
	to.Outermost, to.IP = outermost(f), f.Inner().IP()
	return nil
}

// outermost returns the outermost packet: the packet of the mirror, or that of the outer view.
func outermost(f *Frame) []byte {
	if mirror := f.Mirror(); mirror != nil {
		return mirror
	}
	return f.Outer().IP()
}

// An Inner is the innermost packet, which may be malformed.
type Inner struct {
	Tunnels   Tunnels // tunnels around the packet, without IP in IP
	Outermost []byte  // octets from the outermost IP header to the end of the input
	IP        []byte  // octets from the innermost IP header to the end of the packet or frame around it

	AllowTruncated bool // the capture or a mirroring switch may have truncated IP

	octets []byte
	frame  Frame
}

func (in *Inner) Decode(b []byte, o DecodeOptions) error {
	var f Frame
	f.Decode(b, o)
	w := f.inner()
	switch {
	case f.broken != nil:
		return f.broken
	}
	if !w.begins(b) {
		return w.err
	}
	in.Tunnels, in.IP, in.AllowTruncated = f.Tunnels(), b[w.ip:w.stop:w.stop], w.allowTruncated
	in.Outermost, in.octets, in.frame = b[w.outer:len(b):len(b)], b, f
	return nil
}
func (in *Inner) Options() DecodeOptions {
	return DecodeOptions{Link: LinkIP, AllowTruncated: in.AllowTruncated}
}
func (in *Inner) Extensions() iter.Seq2[uint8, []byte] {
	return func(yield func(uint8, []byte) bool) {
		in.frame.Extensions()(yield)
	}
}

func Innermost(b []byte, o DecodeOptions) []byte { return walked(b, o).BorderPacket() }

func FirstFragmentPort(b []byte, o DecodeOptions) (port uint16, ok bool) {
	return walked(b, o).Fragment()
}

func LinkPayload(b []byte, o DecodeOptions) (etherType uint16, payload []byte) {
	f := walked(b, o)
	if etherType = f.EtherType(); etherType != 0 {
		payload = f.LinkPayload()
	}
	return etherType, payload
}

// Split returns the link-layer header and the outermost IP packet.
func Split(b []byte, o DecodeOptions) (link, ip []byte, err error) {
	f := walked(b, o)
	switch ip = outermost(f); {
	case ip == nil:
		return nil, nil, f.outer().err
	case f.Truncated() && !o.AllowTruncated:
		return nil, nil, errIPLength
	}
	return f.Link(), ip, nil
}

// A mirror's packet from 192.0.2.1 to 192.0.2.2 with a copied frame in ERSPAN type II, up to the copy's EtherType.
const mirror = `4500006e 00000000 402f0000 c0000201 c0000202 100088be 00000001 12c86005 000000a2` +
	`020000000003 020000000004 0800`

// The outer view of a mirrored frame is that of the copied frame, and Mirrored reports the copy. Frame.Mirror returns
// the packet of the mirror itself.
func TestViewsOfMirror(t *testing.T) {
	frame := wiretest.Hex(t, macs+`0800`+mirror+cnp4)
	copied := wiretest.Hex(t, cnp4)
	var f Frame
	f.Decode(frame, DecodeOptions{})
	for _, c := range []struct {
		name string
		view View
	}{{"outer", f.Outer()}, {"inner", f.Inner()}} {
		t.Run(c.name, func(t *testing.T) {
			v := c.view
			require.True(t, v.Mirrored())
			require.Equal(t, copied, v.IP())
			require.Equal(t, addr("10.0.17.1"), v.Src())
			require.Equal(t, addr("10.0.18.1"), v.Dst())
			require.Equal(t, wiretest.Hex(t, `020000000003 020000000004 0800`), v.EthernetHeader())
			var p Packet
			require.NoError(t, v.Packet(&p))
			require.Equal(t, uint32(0x118), p.BTH.DestQP)
			require.Equal(t, ErrTunnelled, answerable(&p))
			var d Datagram
			require.NoError(t, v.Datagram(&d, Port))
			require.Equal(t, p.Datagram, d)
		})
	}
	require.Equal(t, frame[14:], f.Mirror())
	require.Equal(t, frame[14:], f.BorderPacket(), "a border does not look into mirrors")
	wiretest.NoAllocs(t, "Outer", func() {
		f.Decode(frame, DecodeOptions{})
		var p Packet
		_ = f.Outer().Packet(&p)
	})

	// With Outer, neither the mirror's packet nor the copied frame is entered.
	f.Decode(frame, DecodeOptions{Outer: true})
	require.False(t, f.Outer().Mirrored())
	require.Nil(t, f.Mirror())
	require.Equal(t, frame[14:], f.Outer().IP())

	// Packet.Decode does not find the copy, because it enters only IP in IP.
	require.ErrorIs(t, new(Packet).DecodeEthernet(frame), ErrNotRoCEv2)

	// A mirror that carries no IP is the outer packet.
	arp := wiretest.Hex(t, macs+`0800`+strings.Replace(mirror, `020000000004 0800`, `020000000004 0806`, 1)+cnp4)
	f.Decode(arp, DecodeOptions{})
	require.False(t, f.Outer().Mirrored())
	require.Equal(t, arp[14:], f.Outer().IP())
}

// The outer view begins below the headers of each kind of mirror, and a border does not look into them.
func TestViewsOfEachMirror(t *testing.T) {
	for _, c := range []struct{ name, packet string }{
		{"erspan1", `45000062 00000000 402f0000` + sites + `000088be`},
		{"erspan2", `4500006e 00000000 402f0000` + sites + `100088be 00000001 12c86005 000000a2`},
		{"erspan3", `45000072 00000000 402f0000` + sites + `100022eb 00000001 22c86005 01020304 00078008`},
		{"gre-8949", `45000078 00000000 402f0000` + sites + `00008949` + strings.Repeat(`00`, 22)},
	} {
		t.Run(c.name, func(t *testing.T) {
			frame := wiretest.Hex(t, macs+`0800`+c.packet+macs+`0800`+cnp4)
			f := walked(frame, DecodeOptions{})
			require.Equal(t, c.name, f.Tunnels().String())
			for _, v := range []View{f.Outer(), f.Inner()} {
				require.True(t, v.Mirrored())
				require.Equal(t, wiretest.Hex(t, cnp4), v.IP())
			}
			require.Equal(t, frame[14:], f.Mirror())
			require.Equal(t, frame[14:], f.BorderPacket())
		})
	}
}

// answerable returns ErrTunnelled for a tunnelled packet.
func answerable(p *Packet) error {
	if len(p.Outer) > 0 {
		return ErrTunnelled
	}
	return nil
}

// SetECN of a view marks an IP header, even if the frame begins with an octet that could begin an IPv6 or IPv4 header.
func TestViewSetECN(t *testing.T) {
	for _, c := range []struct{ name, mac string }{
		{"like IPv6", `600000000001 020000000002`},
		{"like IPv4", `4500000e0001 020000000002`},
	} {
		t.Run(c.name, func(t *testing.T) {
			frame := wiretest.Hex(t, c.mac+`86dd`+send) // Traffic Class 0x68: ECN 0
			before := bytes.Clone(frame)
			var f Frame
			f.Decode(frame, DecodeOptions{})
			was, err := f.Outer().SetECN(CE)
			require.NoError(t, err)
			require.Equal(t, ECN(before[15]>>4&3), was)
			before[15] |= 0x30
			require.Equal(t, before, frame, "only two bits of the Traffic Class")
			_, err = f.Outer().SetECN(4)
			require.Equal(t, errECNRange, err)
			f.Decode(frame[:50], DecodeOptions{})
			_, err = f.Outer().SetECN(CE)
			require.Equal(t, errNoHeader, err)
			require.Equal(t, before, frame)
		})
	}
}

// A tunnel that carries no IP header has no inner packet. SetECN does not write outside the packet of the view.
func TestViewWithoutHeader(t *testing.T) {
	const (
		tunnel = macs + `0800 45000020 00000000 40%s0000` + sites
		copied = macs + `0800 4500002c 00000000 402f0000` + sites + `000088be 020000000003 020000000004 0800`
	)
	for _, c := range []struct {
		name, frame string
		outer       bool // the outer view has no complete header either
	}{
		{"protocol 4 before other octets", strings.Replace(tunnel, "%s", "04", 1) + `0102030405060708090a0b0c`, false},
		{"protocol 41 before other octets", strings.Replace(tunnel, "%s", "29", 1) + `0102030405060708090a0b0c`, false},
		{"protocol 4 before 12 octets of IPv4", strings.Replace(tunnel, "%s", "04", 1) + `45000030 00004000 40110000`,
			false},
		{"10 octets of a copied IPv4 header, padding", strings.Replace(copied, "2c", "30", 1) +
			`4500003c 00004000 4011` + `eeeeeeeeeeeeeeeeeeee`, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			frame := wiretest.Hex(t, c.frame)
			before := bytes.Clone(frame)
			var f Frame
			f.Decode(frame, DecodeOptions{})
			views := []View{f.Inner()}
			if c.outer {
				views = append(views, f.Outer())
				require.Len(t, f.Mirror(), 48)
			} else {
				require.Equal(t, before[14:], f.Outer().IP())
				require.Equal(t, addr("192.0.2.1"), f.Outer().Src())
			}
			for _, v := range views {
				require.Nil(t, v.IP())
				require.False(t, v.Src().IsValid())
				require.False(t, v.Dst().IsValid())
				_, err := v.SetECN(CE)
				require.Equal(t, errNoHeader, err)
			}
			require.Equal(t, before, frame)
		})
	}
}

// The two views have the same packet unless a tunnel with an IP header of its own is around it: below labels, in
// pseudowires, and in the copies of mirrors, however few octets are there.
func TestViewsAgree(t *testing.T) {
	rows := 0
	for _, c := range flows {
		if c.tunnel != "" && !strings.HasPrefix(c.name, "ERSPAN") {
			continue
		}
		rows++
		t.Run(c.name, func(t *testing.T) {
			frame := wiretest.Hex(t, c.link+c.tunnel+c.flow)
			for n := range len(frame) + 1 {
				var f Frame
				f.Decode(frame[:n:n], DecodeOptions{AllowTruncated: true})
				outer, inner := f.Outer(), f.Inner()
				require.Equal(t, outer.IP(), inner.IP(), n)
				require.Equal(t, []netip.Addr{outer.Src(), outer.Dst()}, []netip.Addr{inner.Src(), inner.Dst()}, n)
				require.Equal(t, outer.ECN(), inner.ECN(), n)
				require.Equal(t, outer.EthernetHeader(), inner.EthernetHeader(), n)
			}
			var f Frame
			f.Decode(frame, DecodeOptions{})
			require.Equal(t, wiretest.Hex(t, c.flow), f.Outer().IP())
		})
	}
	require.Equal(t, 28, rows)
}

// Flows yields the name and the octets of each flow, and whether it is RoCEv2 and in a tunnel or below labels.
func Flows(t testing.TB, yield func(name string, frame []byte, roce, tunnelled bool)) {
	for _, c := range flows {
		frame := wiretest.Hex(t, c.link+c.tunnel+c.flow)
		yield(c.name, frame, c.want.DstPort == 4791, c.tunnels+c.tunnel != "")
	}
}
