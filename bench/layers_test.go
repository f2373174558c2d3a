package main

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
	rocelayers.RegisterFCN(fcn.ExperimentalPort)
	rocelayers.RegisterProxy(proxymsg.ExperimentalPort)
}

// readLayers reads a frame with gopacket, down to the layer of this type: by a
// DecodingLayerParser with gopacket's own layers, which ends at UDP, with those
// of the frame, with all of ours; and by NewPacket.
func readLayers(b *testing.B, name string, frame []byte, typ gopacket.LayerType) {
	s := newStack()
	require.NoError(b, s.parser.DecodeLayers(frame, &s.decoded))
	require.Contains(b, s.decoded, typ)
	theirs := gopacket.NewDecodingLayerParser(layers.LayerTypeEthernet, &s.eth, &s.ip6, &s.skipper, &s.udp)
	theirs.IgnoreUnsupported = true
	for _, parser := range []struct {
		name string
		*gopacket.DecodingLayerParser
	}{
		{"gopacket's own layers", theirs},
		{"DecodingLayerParser", s.only(s.decoded)},
		{"DecodingLayerParser, all layers", s.parser},
	} {
		run(b, name+parser.name, func(b *testing.B) {
			for b.Loop() {
				check(b, parser.DecodeLayers(frame, &s.decoded))
			}
		})
	}
	run(b, name+"NewPacket, lazy", func(b *testing.B) {
		for b.Loop() {
			packet := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.DecodeOptions{Lazy: true, NoCopy: true})
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
	s := newStack()
	require.NoError(b, s.parser.DecodeLayers(frame(b, packet, nil), &s.decoded))
	var all []gopacket.SerializableLayer
	for _, t := range s.decoded {
		for _, l := range s.layers() {
			if l.CanDecode().Contains(t) {
				all = append(all, l.(gopacket.SerializableLayer))
			}
		}
	}
	s.udp.SetNetworkLayerForChecksum(&s.ip6)
	buf, opts := gopacket.NewSerializeBuffer(), gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	run(b, name+"SerializeLayers", func(b *testing.B) {
		for b.Loop() {
			check(b, rocelayers.SerializeLayers(buf, opts, all...))
		}
	})
	require.Len(b, buf.Bytes(), 14+len(packet))
}

// stack has the layers that our messages have over IPv6, and a parser of all.
type stack struct {
	eth     layers.Ethernet
	ip6     layers.IPv6
	skipper layers.IPv6ExtensionSkipper // gopacket's, where our options layer is not there
	options rocelayers.DestinationOptions
	udp     layers.UDP
	bth     rocelayers.BTH
	cnp     rocelayers.CNP
	fast    rocelayers.FastCNP
	ppfc    rocelayers.PPFC
	fcn     rocelayers.FCN
	proxy   rocelayers.Proxy
	payload gopacket.Payload

	parser  *gopacket.DecodingLayerParser
	decoded []gopacket.LayerType
}

func newStack() *stack {
	s := new(stack)
	s.bth.UDP, s.bth.IPv6 = &s.udp, &s.ip6
	s.fast.BTH, s.ppfc.BTH = &s.bth, &s.bth
	s.fcn.UDP, s.proxy.UDP = &s.udp, &s.udp
	s.parser = gopacket.NewDecodingLayerParser(layers.LayerTypeEthernet, s.layers()...)
	return s
}

func (s *stack) layers() []gopacket.DecodingLayer {
	return []gopacket.DecodingLayer{&s.eth, &s.ip6, &s.options, &s.udp, &s.bth, &s.cnp, &s.fast, &s.ppfc, &s.fcn, &s.proxy, &s.payload}
}

// only returns a parser of the layers of these types.
func (s *stack) only(types []gopacket.LayerType) *gopacket.DecodingLayerParser {
	parser := gopacket.NewDecodingLayerParser(layers.LayerTypeEthernet)
	for _, l := range s.layers() {
		for _, t := range types {
			if l.CanDecode().Contains(t) {
				parser.AddDecodingLayer(l)
			}
		}
	}
	return parser
}
