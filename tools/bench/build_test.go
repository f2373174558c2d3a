package bench

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/encap"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocev2"
)

// BenchmarkBuild builds every message as a whole IPv6 packet, from the congested packet that it
// answers, which is decoded already. The lower bounds are the ICRC of the packet built, if it has
// one, and a copy of that packet.
func BenchmarkBuild(b *testing.B) {
	data, traced := congested(b, 0), congested(b, 4)

	cnpFor := func(b *testing.B, name string, data *rocev2.Packet) {
		packet, err := cnp.AppendFor(nil, data, data.FinalDst(), 0x118, cnp.Config{})
		require.NoError(b, err)
		buildFloors(b, name, packet, true)
		run(b, name+"AppendFor", func(b *testing.B) {
			out := make([]byte, 0, 128)
			for b.Loop() {
				out, err = cnp.AppendFor(out[:0], data, data.FinalDst(), 0x118, cnp.Config{})
				check(b, err)
			}
		})
		if data.Src.Is6() {
			buildLayers(b, name, packet)
		}
	}
	cnpFor(b, "CNP/", data)
	over4 := *data // as far as an answer needs it
	over4.Src, over4.Dst = netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	cnpFor(b, "CNP over IPv4/", &over4)

	fastFor := func(b *testing.B, name string, data *rocev2.Packet) {
		packet, _, err := fastcnp.AppendFor(nil, data, loopback, nil, fastcnp.Config{})
		require.NoError(b, err)
		buildFloors(b, name, packet, true)
		run(b, name+"AppendFor", func(b *testing.B) {
			out := make([]byte, 0, 512)
			for b.Loop() {
				out, _, err = fastcnp.AppendFor(out[:0], data, loopback, nil, fastcnp.Config{})
				check(b, err)
			}
		})
		buildLayers(b, name, packet)
	}
	fastFor(b, "Fast CNP 1/", data)
	fastFor(b, "Fast CNP 2/", traced)

	packet, err := ppfc.AppendFor(nil, data, loopback, ppfc.Extension{}, ppfc.Config{})
	require.NoError(b, err)
	buildFloors(b, "PPFC/", packet, true)
	run(b, "PPFC/AppendFor", func(b *testing.B) {
		out := make([]byte, 0, 128)
		for b.Loop() {
			out, err = ppfc.AppendFor(out[:0], data, loopback, ppfc.Extension{}, ppfc.Config{})
			check(b, err)
		}
	})
	buildLayers(b, "PPFC/", packet)

	tunnelled := tunnel(b, data.IP)
	packet = wiretest.Must(fcn.AppendFor(nil, tunnelled, loopback, 7, fcn.Config{}))(b)
	buildFloors(b, "FCN/", packet, false)
	run(b, "FCN/AppendFor", func(b *testing.B) {
		out := make([]byte, 0, 128)
		for b.Loop() {
			out, err = fcn.AppendFor(out[:0], tunnelled, loopback, 7, fcn.Config{})
			check(b, err)
		}
	})
	buildLayers(b, "FCN/", packet)

	f := flow(b)
	packet = wiretest.Must(proxymsg.AppendFor(nil, f, loopback, sender, 5, proxymsg.Config{}))(b)
	buildFloors(b, "proxy/", packet, false)
	run(b, "proxy/AppendFor", func(b *testing.B) {
		out := make([]byte, 0, 2048)
		for b.Loop() {
			out, err = proxymsg.AppendFor(out[:0], f, loopback, sender, 5, proxymsg.Config{})
			check(b, err)
		}
	})
}

func buildFloors(b *testing.B, name string, packet []byte, withICRC bool) {
	if withICRC {
		run(b, name+"ICRC", func(b *testing.B) {
			for b.Loop() {
				icrc.Sum(packet, icrc.AsSent)
			}
		})
	}
	run(b, name+"copy", func(b *testing.B) {
		to := make([]byte, len(packet))
		for b.Loop() {
			copy(to, packet)
		}
	})
	var d rocev2.Datagram
	err := d.DecodeIP(packet)
	require.NoError(b, err)
	run(b, name+"IP and UDP", func(b *testing.B) { // around UDP data that is there
		out := make([]byte, 0, 2048)
		for b.Loop() {
			out, err = d.AppendBinary(out[:0])
			check(b, err)
		}
	})
}

// tunnel returns the flow of an IPv6 packet in an ECN-capable tunnel.
func tunnel(b *testing.B, ip []byte) *rocev2.Frame {
	outer := wiretest.Must((&encap.IPInIPv6{Src: sender, Dst: receiver}).Append(nil, ip, 0xBEEF5))(b)
	outer[1] |= uint8(rocev2.ECT0) << 4
	var f rocev2.Frame
	f.Decode(outer, rocev2.DecodeOptions{Link: rocev2.LinkIP})
	return &f
}
