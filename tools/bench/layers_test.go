package bench

import (
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocelayers"
)

func init() {
	rocelayers.Register()
	rocelayers.RegisterFCN(fcn.Port)
	rocelayers.RegisterProxy(proxymsg.Port)
}

// readLayers reads a frame with gopacket, down to the layer of this type: by a
// DecodingLayerParser with gopacket's own layers, which ends at UDP, with those
// of the frame, with all of ours; and by NewPacket.
func readLayers(b *testing.B, name string, frame []byte, typ gopacket.LayerType) {
	var s rocelayers.Stack
	require.NoError(b, s.Decode(frame))
	require.Contains(b, s.Decoded, typ)
	theirs := gopacket.NewDecodingLayerParser(layers.LayerTypeEthernet,
		&s.Ethernet, &s.IPv6.IPv6, new(layers.IPv6ExtensionSkipper), &s.UDP.UDP)
	theirs.IgnoreUnsupported = true
	few := gopacket.NewDecodingLayerParser(layers.LayerTypeEthernet) // those that the frame has
	for _, t := range s.Decoded {
		few.AddDecodingLayer(s.Layer(t).(gopacket.DecodingLayer))
	}
	for _, parser := range []struct {
		name string
		*gopacket.DecodingLayerParser
	}{
		{"gopacket's own layers", theirs},
		{"DecodingLayerParser", few},
		{"DecodingLayerParser, all layers", gopacket.NewDecodingLayerParser(layers.LayerTypeEthernet, s.Layers()...)},
	} {
		run(b, name+parser.name, func(b *testing.B) {
			for b.Loop() {
				check(b, parser.DecodeLayers(frame, &s.Decoded))
			}
		})
	}
	run(b, name+"Stack", func(b *testing.B) {
		for b.Loop() {
			check(b, s.Decode(frame))
		}
	})
	run(b, name+"NewPacket, lazy", func(b *testing.B) {
		for b.Loop() {
			packet := gopacket.NewPacket(frame, layers.LayerTypeEthernet,
				gopacket.DecodeOptions{Lazy: true, NoCopy: true})
			if packet.Layer(typ) == nil {
				b.Fatal("layer not found")
			}
		}
	})
	run(b, name+"NewPacket", func(b *testing.B) {
		for b.Loop() {
			gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default)
		}
	})
}

// buildLayers builds the frame of a packet out of its layers, with a UDP checksum.
func buildLayers(b *testing.B, name string, packet []byte) {
	var s rocelayers.Stack
	require.NoError(b, s.Decode(frame(b, packet, nil)))
	var all []gopacket.SerializableLayer
	for _, t := range s.Decoded {
		all = append(all, s.Layer(t).(gopacket.SerializableLayer))
	}
	require.NoError(b, s.UDP.SetNetworkLayerForChecksum(&s.IPv6.IPv6))
	buf, opts := gopacket.NewSerializeBuffer(), gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	run(b, name+"SerializeLayers", func(b *testing.B) {
		for b.Loop() {
			check(b, rocelayers.SerializeLayers(buf, opts, all...))
		}
		require.Len(b, buf.Bytes(), 14+len(packet))
	})
}
