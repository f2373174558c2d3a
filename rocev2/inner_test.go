package rocev2

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/ipv6opt"
	"github.com/stretchr/testify/require"
)

// An Inner has the same tunnels and packets as a Flow.
func TestInner(t *testing.T) {
	for _, c := range flows {
		t.Run(c.name, func(t *testing.T) {
			link, flow := wiretest.Hex(t, c.link), wiretest.Hex(t, c.flow)
			frame := slices.Concat(link, wiretest.Hex(t, c.tunnel), flow, []byte{0xEE, 0xEE}) // Ethernet padding
			var in Inner
			require.NoError(t, in.Decode(frame, DecodeOptions{}))
			require.Equal(t, c.tunnels, in.Tunnels.String())
			require.Equal(t, frame[len(link):], in.Outermost)
			require.Equal(t, flow, in.IP[:len(flow)])
			require.LessOrEqual(t, len(in.IP), len(flow)+2)
			require.Equal(t, DecodeOptions{Link: LinkIP}, in.Options())
			var f Flow
			require.NoError(t, f.Decode(in.IP, in.Options()))
			require.Equal(t, c.want.FiveTuple, f.FiveTuple)
			wiretest.NoAllocs(t, "Decode", func() { _ = in.Decode(frame, DecodeOptions{}) })

			// Truncated frames.
			for n := range len(frame) - 2 {
				err := in.Decode(frame[:n:n], DecodeOptions{AllowTruncated: true})
				if f.Decode(frame[:n:n], DecodeOptions{AllowTruncated: true}) == nil {
					require.NoError(t, err, n)
					require.Equal(t, c.tunnels, in.Tunnels.String())
					require.Equal(t, frame[len(frame)-2-len(flow):n], in.IP)
					require.Equal(t, DecodeOptions{Link: LinkIP, AllowTruncated: true}, in.Options())
				}
			}
		})
	}
}

func TestTunnelNames(t *testing.T) {
	require.Equal(t, "ipip", IPIP.String())
	require.Equal(t, "Tunnel(14)", Tunnel(14).String())
	var all Tunnels
	require.Zero(t, all.Len())
	require.Empty(t, all.String())
	for range maxTunnels {
		require.NoError(t, all.add(GRE))
	}
	require.Equal(t, errTunnels, all.add(GRE))
	require.Equal(t, maxTunnels, all.Len())
	for first := range all.All() {
		require.Equal(t, GRE, first)
		break
	}
}

// A malformed innermost packet is found. Packet.Decode returns its error.
func TestInnerBroken(t *testing.T) {
	const inUDP = `450000600000000040110000` + sites + `c00117c1004c0000 0000080000002a00` // Geneve
	for _, c := range []struct {
		name   string
		at     int // in cnp4
		octets []byte
		err    error
	}{
		{"UDP length beyond IP", 24, []byte{0, 41}, errUDPBeyondIP},
		{"UDP length 7", 24, []byte{0, 7}, errUDPLength},
		{"fragment", 6, []byte{0x20, 0}, ErrFragment},
		{"IHL 4", 0, []byte{0x44}, errIHL},
		{"ICMP", 9, []byte{1}, errNotUDP},
	} {
		t.Run(c.name, func(t *testing.T) {
			ip := wiretest.Hex(t, cnp4)
			copy(ip[c.at:], c.octets)
			var in Inner
			require.NoError(t, in.Decode(append(wiretest.Hex(t, inUDP), ip...), DecodeOptions{Link: LinkIP}))
			require.Equal(t, "geneve", in.Tunnels.String())
			require.Equal(t, ip, in.IP)
			var p Packet
			require.Equal(t, c.err, p.Decode(in.IP, in.Options()))
		})
	}
}

// A malformed tunnel gives an error that matches ErrNotRoCEv2.
func TestNoInner(t *testing.T) {
	in := Inner{AllowTruncated: true}
	for _, frame := range []string{
		``,
		macs + `0806` + cnp4,
		macs + `8847 3e801040`,
		macs + `0800` + strings.Replace(toVTEP, `08000000`, `00000000`, 1) + send, // no VNI
	} {
		b := wiretest.Hex(t, frame)
		require.ErrorIs(t, in.Decode(b, DecodeOptions{}), ErrNotRoCEv2)
		require.Equal(t, Inner{AllowTruncated: true}, in)
		wiretest.NoAllocs(t, "refusing", func() { _ = in.Decode(b, DecodeOptions{}) })
	}
	// A tunnel with a wrong UDP length is not entered.
	lying := wiretest.Hex(t, toVTEP+send)
	lying[25]++ // the UDP length
	require.NoError(t, in.Decode(lying, DecodeOptions{Link: LinkIP}))
	require.Zero(t, in.Tunnels.Len())
	require.Equal(t, lying, in.IP)
}

// A packet truncated by a mirroring switch, with T set or not, gives the same results as a packet truncated by the
// capture.
func TestTruncatedMirror(t *testing.T) {
	whole := wiretest.Hex(t, cnp4)
	for _, c := range []struct{ name, header string }{
		{"erspan2", `100088be 00000001 12c8%s05 000000a2`},
		{"erspan3", `100022eb 00000001 22c8%s05 01020304 0007 8008`},
	} {
		for _, row := range []struct {
			name string
			cut  bool
		}{{"60", false}, {"64", true}} {
			t.Run(row.name, func(t *testing.T) {
				mirrored := slices.Concat(wiretest.Hex(t, fmt.Sprintf(c.header, row.name)),
					wiretest.Hex(t, macs+`0800`),
					whole[:48])
				b := slices.Concat(wiretest.Hex(t, `4500000000000000402f0000`+sites), mirrored, make([]byte, 10))
				be.PutUint16(b[2:], uint16(20+len(mirrored)))
				var in Inner
				require.NoError(t, in.Decode(b, DecodeOptions{Link: LinkIP}))
				require.Equal(t, c.name, in.Tunnels.String())
				require.Equal(t, whole[:48], in.IP)
				require.Equal(t, row.cut, in.AllowTruncated)
				var p Packet
				var f Flow
				require.NoError(t, p.Decode(in.IP, in.Options()))
				require.True(t, p.Truncated)
				// Octets after the packet of the mirror are not part of the data.
				var frame Frame
				var below Packet
				require.ErrorIs(t, below.DecodeIP(b), ErrNotRoCEv2, "not through a mirror")
				frame.Decode(b, DecodeOptions{Link: LinkIP})
				require.NoError(t, frame.Inner().Packet(&below))
				require.True(t, below.Truncated)
				require.Equal(t, whole[:48], below.IP)
				require.Equal(t, whole[28:48], below.Data)
				var datagram Datagram
				require.NoError(t, frame.Inner().Datagram(&datagram, Port))
				require.Equal(t, below.Datagram, datagram)
				require.NoError(t, f.Decode(b, DecodeOptions{Link: LinkIP}))
				require.Equal(t, cnp4Flow.FiveTuple, f.FiveTuple)
			})
		}
	}
}

// IOAM yields the options of all IPv6 headers, the outermost first.
func TestInnerOptions(t *testing.T) {
	const (
		outer = `602beef500761140` + nodes // a Hop-by-Hop header is inserted between this header and VXLAN
		vxlan = `c00112b500660000` + vni42 + macs + `86dd`
	)
	inner := wiretest.Hex(t, send)
	withOption := func(ip []byte, next string, option string) []byte {
		header := wiretest.Hex(t, next+`00`+option)
		b := slices.Concat(ip[:40], header, ip[40:])
		b[6] = 0
		be.PutUint16(b[4:], uint16(len(b)-40))
		return b
	}
	inner = withOption(inner, `11`, `110400050002`)
	tunnel := slices.Concat(wiretest.Hex(t, vxlan), inner)
	packet := withOption(slices.Concat(wiretest.Hex(t, outer), tunnel), `11`, `310400060001`)
	for n := range len(packet) {
		var in Inner
		if in.Decode(packet[:n], DecodeOptions{Link: LinkIP, AllowTruncated: true}) == nil {
			for range in.IOAM() { // no panic
				break
			}
			_ = in.OptionsError()
		}
	}
	var in Inner
	require.NoError(t, in.Decode(packet, DecodeOptions{Link: LinkIP}))
	var got []string
	for o, err := range in.IOAM() {
		require.NoError(t, err)
		got = append(got, fmt.Sprintf("%d %#x %x", o.Header, uint8(o.Type), o.Data))
	}
	require.Equal(t, []string{"0 0x31 00060001", "0 0x11 00050002"}, got)
	require.NoError(t, in.OptionsError())
	wiretest.NoAllocs(t, "options", func() {
		for range in.IOAM() {
			continue
		}
		_ = in.OptionsError()
	})
	packet[43] = 5 // the outer option overruns
	require.NoError(t, in.Decode(packet, DecodeOptions{Link: LinkIP}))
	require.ErrorIs(t, in.OptionsError(), ipv6opt.ErrOverrun)
	packet[43] = 4
	packet[len(packet)-24-5] = 5 // the inner option overruns
	require.NoError(t, in.Decode(packet, DecodeOptions{Link: LinkIP}))
	require.ErrorIs(t, in.OptionsError(), ipv6opt.ErrOverrun)
}

// FuzzInner decodes any octets. If there is a Flow, Inner has the same tunnels and packets. The packets of an Inner are
// part of the octets.
func FuzzInner(f *testing.F) {
	for _, c := range flows {
		f.Add(wiretest.Hex(f, c.link+c.tunnel+c.flow), uint8(LinkEthernet), false)
	}
	f.Fuzz(func(t *testing.T, b []byte, link uint8, cut bool) {
		o := DecodeOptions{Link: LinkType(link % 7), AllowTruncated: cut}
		var in Inner
		var flow Flow
		err, flowErr := in.Decode(b, o), flow.Decode(b, o)
		if err != nil {
			require.Equal(t, Inner{}, in)
			require.Error(t, flowErr)
			return
		}
		require.GreaterOrEqual(t, offset(b, in.Outermost), 0)
		require.GreaterOrEqual(t, offset(in.Outermost, in.IP), 0)
		if flowErr == nil {
			require.Equal(t, flow.Tunnels, in.Tunnels)
			require.Equal(t, flow.IP, in.IP[:len(flow.IP)])
			require.NoError(t, flow.Decode(in.IP, in.Options()))
		} else if !cut {
			// The error may be in an IP header around the innermost packet.
			alone := in.Tunnels.Len() == 0 && offset(in.Outermost, in.IP) == 0
			require.False(t, alone && flow.Decode(in.IP, in.Options()) == nil)
		}
		for _, err := range in.IOAM() {
			_ = err
		}
		if err := in.OptionsError(); err != nil {
			require.ErrorIs(t, err, wireerr.Malformed)
		}
	})
}

func BenchmarkInner(b *testing.B) {
	for _, i := range []int{0, 11, 14, len(flows) - 1} {
		b.Run(flows[i].name, func(b *testing.B) {
			frame := wiretest.Hex(b, flows[i].link+flows[i].tunnel+flows[i].flow)
			var f Frame
			b.ReportAllocs()
			for b.Loop() {
				f.Decode(frame, DecodeOptions{})
				_, _, _ = f.Inner().IP(), f.Outer().IP(), f.Tunnels()
			}
		})
	}
}
