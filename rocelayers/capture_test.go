package rocelayers_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocelayers"
	"github.com/rocecn/rocecn/rocev2"
)

// eachPacket hands every RoCEv2 packet of the captures to f, and everything
// else to other.
func eachPacket(t *testing.T, pattern string, f func(t *testing.T, frame []byte, p *rocev2.Packet), other func(frame []byte)) {
	for _, name := range wiretest.Captures(t, pattern) {
		t.Run(name, func(t *testing.T) {
			for _, c := range wiretest.Capture(t, name) {
				var p rocev2.Packet
				switch err := p.DecodeFrame(c.Data); {
				case errors.Is(err, rocev2.ErrNotRoCEv2):
					if other != nil {
						other(c.Data)
					}
				default:
					require.NoError(t, err, "frame %d", c.Number)
					f(t, c.Data, &p)
				}
				if t.Failed() {
					t.Fatalf("frame %d", c.Number)
				}
			}
		})
	}
}

// ourTypes returns the layer types from the BTH on that a packet must have.
func ourTypes(p *rocev2.Packet) []gopacket.LayerType {
	types := []gopacket.LayerType{rocelayers.LayerTypeBTH}
	switch {
	case p.BTH.Opcode == bth.CNP:
		types = append(types, rocelayers.LayerTypeCNP)
	case len(p.Payload) > 0:
		types = append(types, gopacket.LayerTypePayload)
	}
	return types
}

func typesFrom(first gopacket.LayerType, p gopacket.Packet) (types []gopacket.LayerType) {
	for _, l := range p.Layers() {
		if l.LayerType() == first || len(types) > 0 {
			types = append(types, l.LayerType())
		}
	}
	return types
}

// Every packet of every capture, the IOAM ones with their extension headers
// included, is to the layers what it is to package rocev2.
func TestCaptures(t *testing.T) {
	s := newStack()
	eachPacket(t, "*.pcap", func(t *testing.T, frame []byte, p *rocev2.Packet) {
		coverage, verdict := icrc.Verify(p.IP)
		for mode, options := range modes {
			packet := gopacket.NewPacket(frame, layers.LayerTypeEthernet, options)
			requireSame(t, p, bthOf(packet))
			require.Nil(t, packet.ErrorLayer(), mode)
			require.Equal(t, append(ourTypes(p), rocelayers.LayerTypeICRC), typesFrom(rocelayers.LayerTypeBTH, packet), mode)
			got, err := rocelayers.VerifyICRC(packet)
			require.Equal(t, verdict, err)
			require.Equal(t, coverage, got)
		}

		require.NoError(t, s.decode(frame))
		requireSame(t, p, &s.bth)
		require.Equal(t, ourTypes(p), s.decoded[len(s.decoded)-len(ourTypes(p)):])
		got, err := rocelayers.VerifyNetworkLayer(s.ip())
		require.Equal(t, verdict, err)
		require.Equal(t, coverage, got)
	}, func(frame []byte) {
		packet := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default)
		require.Nil(t, bthOf(packet))
		_, err := rocelayers.VerifyICRC(packet)
		require.ErrorIs(t, err, rocelayers.ErrNoBTH)
	})
}

// Other traffic has the layers that it has without the port being claimed.
func TestOtherTraffic(t *testing.T) {
	var frames [][]byte
	eachPacket(t, "*.pcap", func(*testing.T, []byte, *rocev2.Packet) {}, func(frame []byte) { frames = append(frames, frame) })
	fromPort := wiretest.Hex(t, send6)
	copy(fromPort[54:], []byte{4791 >> 8, 4791 & 0xFF, 0x13, 0x88}) // 4791 is the source port
	frames = append(frames, fromPort)
	for _, frame := range frames {
		with := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default).String()
		layers.RegisterUDPPortLayerType(4791, gopacket.LayerTypeZero)
		without := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default).String()
		layers.RegisterUDPPortLayerType(4791, rocelayers.LayerTypeBTH)
		require.Equal(t, without, with)
	}

	s := newStack()
	require.ErrorIs(t, s.decode(fromPort), rocev2.ErrNotRoCEv2)
	require.False(t, s.has(rocelayers.LayerTypeBTH))
}

// What NewPacket decodes, and what the parser decodes, comes out of
// SerializeLayers as it went in: computed where the ICRC is right, as given in
// any case.
func TestCapturesSerialize(t *testing.T) {
	s, buf := newStack(), gopacket.NewSerializeBuffer()
	eachPacket(t, "rxe-*.pcap", func(t *testing.T, frame []byte, p *rocev2.Packet) {
		frame = frame[:len(p.Link)+len(p.IP)] // without padding
		compare := func(opts gopacket.SerializeOptions, ls []gopacket.SerializableLayer) {
			require.NoError(t, rocelayers.SerializeLayers(buf, opts, ls...))
			require.Equal(t, frame, buf.Bytes()[:len(frame)])
			require.Empty(t, bytes.Trim(buf.Bytes()[len(frame):], "\x00")) // Ethernet padding
		}

		var all []gopacket.SerializableLayer
		packet := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default)
		for _, l := range packet.Layers() {
			all = append(all, l.(gopacket.SerializableLayer))
		}
		require.NoError(t, s.decode(frame))
		parsed := s.layers()
		for _, ls := range [][]gopacket.SerializableLayer{all, parsed} {
			compare(gopacket.SerializeOptions{}, ls)
			compare(gopacket.SerializeOptions{FixLengths: true}, ls)
		}
		if _, err := icrc.Verify(p.IP); err != nil {
			require.Equal(t, bth.RCFlush, p.BTH.Opcode) // soft-RoCE's known mistake
			return
		}
		bthOf(packet).ICRC.Value, s.bth.ICRC.Value = 0, 0
		for _, ls := range [][]gopacket.SerializableLayer{all, parsed} {
			compare(gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, ls)
		}
		require.Equal(t, p.ICRC, bthOf(packet).ICRC.Value)
		require.Equal(t, p.ICRC, s.bth.ICRC.Value)
	}, nil)
}
