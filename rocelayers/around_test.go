package rocelayers_test

import (
	"bytes"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn"
	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/ioam"
	"github.com/rocecn/rocecn/ipv6opt"
	"github.com/rocecn/rocecn/rocelayers"
)

// oneBuffer returns a function that decodes frames one after another, all in
// the same buffer as a socket's reader does, and one that does so with a parser
// that does not forget the frame before.
func oneBuffer(s *rocelayers.Stack) (stack, parser func(frame []byte) error) {
	buffer := make([]byte, 2048)
	p := gopacket.NewDecodingLayerParser(layers.LayerTypeEthernet, s.Layers()...)
	p.IgnoreUnsupported = true
	into := func(frame []byte) []byte {
		clear(buffer)
		return buffer[:copy(buffer, frame)]
	}
	return func(frame []byte) error { return s.Decode(into(frame)) },
		func(frame []byte) error { return p.DecodeLayers(into(frame), &s.Decoded) }
}

// A damaged packet is reported as damaged even if an IP layer still holds the packet before it.
func TestVerifyICRCOfThisPacket(t *testing.T) {
	ip4, ip6 := wiretest.Hex(t, cnp4), built(t)[5].frame
	damaged4, damaged6 := with(ip4, 60, 1), with(ip6, 80, 1)
	var s rocelayers.Stack
	stack, parser := oneBuffer(&s)
	apart := gopacket.NewDecodingLayerParser(layers.LayerTypeEthernet, s.Layers()...)
	for _, decode := range []func([]byte) error{stack, parser,
		func(frame []byte) error { return apart.DecodeLayers(bytes.Clone(frame), &s.Decoded) }} {
		for _, c := range []struct {
			frame []byte
			err   error
		}{
			{ip6, nil}, {damaged4, rocecn.ErrICRC}, {ip4, nil}, {damaged6, rocecn.ErrICRC}, {ip4, nil},
			{vlan(damaged4, 1), rocecn.ErrICRC}, {vlan(ip6, 2), nil}, {damaged4, rocecn.ErrICRC},
			{wrap(4, damaged4[14:]), rocecn.ErrICRC}, {wrap(41, ip6[14:]), nil},
		} {
			require.NoError(t, decode(c.frame))
			_, err := s.BTH.VerifyICRC()
			require.ErrorIs(t, err, c.err)
			got := wiretest.Must(s.BTH.CNP())(t)
			require.Equal(t, s.CNP.CNP, got)
		}
	}
	// A packet without a BTH has none from before.
	require.NoError(t, stack(ip4))
	require.NoError(t, stack(with(ip4, 36, 0, 53)))
	_, err := s.BTH.VerifyICRC()
	require.ErrorIs(t, err, rocelayers.ErrNoIP)
	require.Error(t, stack(ip4[:20]))
	_, err = s.BTH.VerifyICRC()
	require.ErrorIs(t, err, rocelayers.ErrNoIP)
}

// If the ICRC of a packet leaves out an option that a node on the way inserted, the packet is serialized unchanged
// after its ICRC is verified. Verification does not write to a packet that goroutines share.
func TestVerifyICRCKeepsCoverage(t *testing.T) {
	inserted := options(t, 17, ioam.IPv6MayChange, ioamData(t, trace(t, 3)))
	frame := withICRC(t, message0x81(t, 0, 0, inserted, make([]byte, 16)), icrc.Without)
	packet := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default)
	s := newOwnStack()
	require.NoError(t, s.decode(frame))
	for _, c := range []struct {
		bth *rocelayers.BTH
		all []gopacket.SerializableLayer
	}{{bthOf(packet), serializable(packet)}, {&s.BTH, s.layers()}} {
		got := wiretest.Must(rocelayers.VerifyICRC(packet))(t)
		require.Equal(t, icrc.Without, got)
		require.Equal(t, icrc.AsSent, c.bth.ICRC.Coverage)

		got = wiretest.Must(c.bth.VerifyICRC())(t)
		require.Equal(t, icrc.Without, got)
		require.Equal(t, icrc.Without, c.bth.ICRC.Coverage)
		buf := gopacket.NewSerializeBuffer()
		require.NoError(t, rocelayers.SerializeLayers(buf, complete, c.all...))
		require.Equal(t, frame, buf.Bytes())
	}

	require.NoError(t, s.decode(frame[:len(frame)-1])) // cut
	s.BTH.ICRC.Coverage = icrc.Skipped
	_, err := s.BTH.VerifyICRC()
	require.Error(t, err)
	require.Equal(t, icrc.Skipped, s.BTH.ICRC.Coverage)
}

// The result of BTH.FastCNP for an IPv4 packet does not depend on the packet before it in the buffer.
func TestFastCNPOfThisPacket(t *testing.T) {
	fast, plain6 := built(t)[0].frame, built(t)[5].frame
	var s rocelayers.Stack
	stack, parser := oneBuffer(&s)
	for _, decode := range []func([]byte) error{stack, parser} {
		for _, before := range [][]byte{nil, fast, plain6, wiretest.Hex(t, send6)} {
			_ = decode(before)
			require.NoError(t, decode(wiretest.Hex(t, cnp4)))
			_, err := s.BTH.FastCNP(fastcnp.CodePoints{})
			require.ErrorIs(t, err, fastcnp.ErrNotFastCNP)
			require.NotNil(t, s.Layer(rocelayers.LayerTypeCNP))
			require.Nil(t, s.Layer(rocelayers.LayerTypeFastCNP))

			_ = decode(before)
			require.NoError(t, decode(with(wiretest.Hex(t, cnp4), 42, uint8(bth.RCSendOnly))))
			_, err = s.BTH.FastCNP(fastcnp.CodePoints{})
			require.ErrorIs(t, err, wireerr.NotCNP)
		}
	}
}

// Octets lead to the BTH only from an IP header that it is in.
func TestLayersThatLeadElsewhere(t *testing.T) {
	ip4, ip6 := wiretest.Hex(t, cnp4), wiretest.Hex(t, send6)
	var s rocelayers.Stack
	require.NoError(t, s.Decode(ip6))
	l := s.BTH
	for _, c := range []struct {
		name   string
		change func()
	}{
		{"no layers", func() { l.IPv4, l.IPv6 = nil, nil }},
		{"layers not decoded", func() { l.IPv4, l.IPv6 = new(layers.IPv4), new(layers.IPv6) }},
		{"another frame's", func() { l.IPv6 = layerOf(t, bytes.Clone(ip6), layers.LayerTypeIPv6).(*layers.IPv6) }},
		{"another frame's, IPv4", func() {
			l.IPv6, l.IPv4 = nil,
				layerOf(t, ip4, layers.LayerTypeIPv4).(*layers.IPv4)
		}},
		{"octets apart", func() {
			l.IPv6 = &layers.IPv6{BaseLayer: layers.BaseLayer{Contents: bytes.Clone(ip6[14:54]), Payload: ip6[54:]}}
		}},
		{"nothing decoded", func() { l.Contents = nil }},
	} {
		t.Run(c.name, func(t *testing.T) {
			l = s.BTH
			_, err := l.VerifyICRC()
			require.NoError(t, err)
			c.change()
			_, err = l.VerifyICRC()
			require.ErrorIs(t, err, rocelayers.ErrNoIP)
			_, err = l.CNP()
			require.ErrorIs(t, err, rocelayers.ErrNoIP)
		})
	}
}

func layerOf(t *testing.T, frame []byte, typ gopacket.LayerType) gopacket.Layer {
	l := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default).Layer(typ)
	require.NotNil(t, l)
	return l
}

// A CNP with an option that must not be skipped is none: its octets are a
// payload.
func TestCNPToActOn(t *testing.T) {
	reserved := make([]byte, 16)
	for _, c := range []struct {
		typ int
		err error
	}{{0x1E, nil}, {0x5E, cnp.ErrOption}, {0x8E, cnp.ErrOption}, {0xDE, cnp.ErrOption}} {
		frame := message0x81(t, 0, ipv6opt.DestinationOptions, options(t, 17, c.typ, reserved), reserved)
		eachDecoder(frame, func(decoder string, get func(gopacket.LayerType) gopacket.Layer, failure error) {
			require.NoError(t, failure, decoder)
			require.Equal(t, c.err == nil, get(rocelayers.LayerTypeCNP) != nil, decoder)
			require.Equal(t, c.err != nil, get(gopacket.LayerTypePayload) != nil, decoder)
			_, err := get(rocelayers.LayerTypeBTH).(*rocelayers.BTH).CNP()
			require.ErrorIs(t, err, c.err, decoder)
		})
	}
	_, err := bthOf(gopacket.NewPacket(wiretest.Hex(t, send6), layers.LayerTypeEthernet, gopacket.Default)).CNP()
	require.ErrorIs(t, err, wireerr.NotCNP)

	// D19: an option that overruns is an error, never a CNP.
	overrun := options(t, 17, 0x1E, reserved)
	overrun[3] = 200
	eachDecoder(message0x81(t, 0, ipv6opt.DestinationOptions, overrun, reserved),
		func(decoder string, get func(gopacket.LayerType) gopacket.Layer, failure error) {
			require.ErrorIs(t, failure, wireerr.Malformed, decoder)
			require.Nil(t, get(rocelayers.LayerTypeCNP), decoder)
		})
}
