package rocelayers_test

import (
	"bytes"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cm"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/rocelayers"
	"github.com/rocecn/rocecn/rocev2"
)

// eachPacket hands every RoCEv2 packet of the captures to f, and everything
// else to other.
func eachPacket(t *testing.T, pattern string, f func(t *testing.T, frame []byte, p *rocev2.Packet),
	other func(frame []byte)) {
	for _, name := range wiretest.Captures(t, pattern) {
		t.Run(name, func(t *testing.T) {
			for _, c := range wiretest.Capture(t, name) {
				var p rocev2.Packet
				if p.DecodeEthernet(c.Data) == nil {
					f(t, c.Data, &p)
				} else if other != nil {
					other(c.Data)
				}
				if t.Failed() {
					t.Fatalf("frame %d", c.Number)
				}
			}
		})
	}
}

// ourTypes returns the layer types from the BTH on that a packet must have, without the ICRC, and the error that ends
// its decoding.
func ourTypes(frame []byte) ([]gopacket.LayerType, error) {
	var m message.Message
	err := m.Decode(frame, rocev2.DecodeOptions{}, message.Config{SkipVerify: true})
	types := []gopacket.LayerType{rocelayers.LayerTypeBTH}
	switch m.Kind {
	case message.KindCNP:
		types = append(types, rocelayers.LayerTypeCNP)
	case message.KindFastCNP:
		types = append(types, rocelayers.LayerTypeFastCNP)
	case message.KindPPFC:
		types = append(types, rocelayers.LayerTypePPFC)
	case message.KindUnknownOption:
		types = append(types, gopacket.LayerTypePayload)
	case message.KindData, message.KindAck:
		payload := m.Packet.Payload
		_, _, isCM := cm.DecodePayload(&m.Packet.BTH, payload, len(payload))
		switch {
		case isCM:
			types = append(types, rocelayers.LayerTypeCM)
		case len(payload) > 0:
			types = append(types, gopacket.LayerTypePayload)
		}
	}
	return types, err
}

func typesFrom(first gopacket.LayerType, p gopacket.Packet) (types []gopacket.LayerType) {
	for _, l := range p.Layers() {
		if l.LayerType() == first || len(types) > 0 {
			types = append(types, l.LayerType())
		}
	}
	return types
}

// The layers agree with package rocev2 about every packet of every capture, including the IOAM captures with their
// extension headers.
func TestCaptures(t *testing.T) {
	s, own := newStack(), newOwnStack()
	eachPacket(t, "*.pcap", func(t *testing.T, frame []byte, p *rocev2.Packet) {
		types, failure := ourTypes(frame)
		coverage, verdict := icrc.Verify(p.IP)
		for mode, options := range modes {
			packet := gopacket.NewPacket(frame, layers.LayerTypeEthernet, options)
			requireSame(t, p, bthOf(packet))
			requireSameFault(t, failure, failureOf(packet), mode)
			last := rocelayers.LayerTypeICRC
			if failure != nil {
				last = gopacket.LayerTypeDecodeFailure
			}
			require.Equal(t, append(types, last), typesFrom(rocelayers.LayerTypeBTH, packet), mode)
			got, err := rocelayers.VerifyICRC(packet)
			require.Equal(t, verdict, err)
			require.Equal(t, coverage, got)
		}

		for _, s := range []*stack{s, own} {
			requireSameFault(t, failure, s.decode(frame))
			requireSame(t, p, &s.BTH)
			require.Equal(t, types, s.Decoded[len(s.Decoded)-len(types):])
			got, err := s.BTH.VerifyICRC()
			require.Equal(t, verdict, err)
			require.Equal(t, coverage, got)
		}
		requireMessage(t, "", frame)
	}, func(frame []byte) {
		requireMessage(t, "", frame)
		packet := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default)
		if _, err := rocelayers.VerifyICRC(packet); packet.Layer(rocelayers.LayerTypeProxy) == nil {
			require.ErrorIs(t, err, rocelayers.ErrNoBTH)
		}
	})
}

// Other traffic has the layers that it has without the port being claimed.
func TestOtherTraffic(t *testing.T) {
	var frames [][]byte
	eachPacket(t, "*.pcap", func(*testing.T, []byte, *rocev2.Packet) {}, func(frame []byte) {
		var m message.Message
		if _ = m.Decode(frame, rocev2.DecodeOptions{}, message.Config{SkipVerify: true}); m.Kind == message.KindOther {
			frames = append(frames, frame)
		}
	})
	fromPort := wiretest.Hex(t, send6)
	copy(fromPort[54:], []byte{4791 >> 8, 4791 & 0xFF, 0x13, 0x88}) // 4791 is the source port
	frames = append(frames, fromPort)
	for _, frame := range frames {
		with := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default).String()
		layers.RegisterUDPPortLayerType(4791, gopacket.LayerTypePayload)
		without := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default).String()
		layers.RegisterUDPPortLayerType(4791, rocelayers.LayerTypeBTH)
		require.Equal(t, without, with)
	}

	s := newStack()
	require.ErrorIs(t, s.decode(fromPort), rocev2.ErrPort)
	require.False(t, s.has(rocelayers.LayerTypeBTH))
}

// SerializeLayers writes each packet that NewPacket or the parser decoded, unchanged: always with the given ICRC, and
// with a computed one if the ICRC is right.
func TestCapturesSerialize(t *testing.T) {
	s, buf := newOwnStack(), gopacket.NewSerializeBuffer()
	eachPacket(t, "*.pcap", func(t *testing.T, frame []byte, p *rocev2.Packet) {
		frame = frame[:len(p.Link)+len(p.IP)] // without padding
		compare := func(opts gopacket.SerializeOptions, ls []gopacket.SerializableLayer) {
			require.NoError(t, rocelayers.SerializeLayers(buf, opts, ls...))
			require.Equal(t, frame, buf.Bytes()[:len(frame)])
			require.Empty(t, bytes.Trim(buf.Bytes()[len(frame):], "\x00")) // Ethernet padding
		}

		if s.decode(frame) != nil {
			return // a Fast CNP with another option type
		}
		var packet gopacket.Packet
		override(func() { packet = gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default) })
		all, parsed := serializable(packet), s.layers()
		for _, ls := range [][]gopacket.SerializableLayer{all, parsed} {
			compare(gopacket.SerializeOptions{}, ls)
			compare(gopacket.SerializeOptions{FixLengths: true}, ls)
		}
		coverage, err := icrc.Verify(p.IP)
		if err != nil { // soft-RoCE's known mistake, and placeholders
			require.True(t, p.BTH.Opcode == bth.RCFlush || len(p.Ext) > 0 || p.ICRC == 0)
			return
		}
		require.Equal(t, icrc.AsSent, coverage)
		bthOf(packet).ICRC.Value, s.BTH.ICRC.Value = 0, 0
		for _, ls := range [][]gopacket.SerializableLayer{all, parsed} {
			compare(gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, ls)
		}
		require.Equal(t, p.ICRC, bthOf(packet).ICRC.Value)
		require.Equal(t, p.ICRC, s.BTH.ICRC.Value)
	}, nil)
}

// serializable returns the layers of a packet.
func serializable(p gopacket.Packet) (ls []gopacket.SerializableLayer) {
	for _, l := range p.Layers() {
		ls = append(ls, l.(gopacket.SerializableLayer))
	}
	return ls
}
