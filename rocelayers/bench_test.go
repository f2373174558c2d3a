package rocelayers_test

import (
	"hash/crc32"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/rocelayers"
	"github.com/rocecn/rocecn/rocev2"
)

// BenchmarkCNP takes one frame, Ethernet/IPv6/UDP/CNP, through what a Go
// program may read it with.
func BenchmarkCNP(b *testing.B) {
	c := cnp.New(0x118, 0xFFFF)
	ip, err := c.AppendPacket(nil, src6, dst6, rocev2.Carriage{SrcPort: 49152})
	require.NoError(b, err)
	frame := append(append(make([]byte, 12), 0x86, 0xDD), ip...)

	ours := newStack()
	array := gopacket.DecodingLayerContainer(gopacket.DecodingLayerArray(nil))
	for _, l := range ours.all() {
		array = array.Put(l)
	}
	inArray := gopacket.NewDecodingLayerParser(layers.LayerTypeEthernet)
	inArray.SetDecodingLayerContainer(array)
	inMap := gopacket.NewDecodingLayerParser(layers.LayerTypeEthernet, &ours.eth, &ours.ip6, &ours.udp, &ours.bth, &ours.cnp)
	theirs := gopacket.NewDecodingLayerParser(layers.LayerTypeEthernet, &ours.eth, &ours.ip6, &ours.udp)
	theirs.IgnoreUnsupported = true
	require.NoError(b, theirs.DecodeLayers(frame, &ours.decoded))
	require.Len(b, ours.decoded, 3)
	require.NoError(b, ours.decode(frame))
	require.Len(b, ours.decoded, 5)
	var p rocev2.Packet
	require.NoError(b, p.DecodeFrame(frame))

	buf := gopacket.NewSerializeBuffer()
	ls := ours.layers()

	for _, bench := range []struct {
		name string
		f    func() error
	}{
		{"walk", func() error { return p.DecodeFrame(frame) }},
		{"walk+verify", func() error {
			_ = p.DecodeFrame(frame)
			_, err := icrc.Verify(p.IP)
			return err
		}},
		{"gopacket-own-layers", func() error { return theirs.DecodeLayers(frame, &ours.decoded) }},
		{"parser", func() error { return inMap.DecodeLayers(frame, &ours.decoded) }},
		{"parser-all-layers", func() error { return ours.decode(frame) }},
		{"parser-all-layers-array", func() error { return inArray.DecodeLayers(frame, &ours.decoded) }},
		{"parser+verify", func() error {
			_ = inMap.DecodeLayers(frame, &ours.decoded)
			_, err := rocelayers.VerifyNetworkLayer(&ours.ip6)
			return err
		}},
		{"NewPacket-lazy", func() error {
			packet := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.DecodeOptions{Lazy: true, NoCopy: true})
			packet.Layer(rocelayers.LayerTypeBTH)
			return nil
		}},
		{"NewPacket", func() error {
			gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default)
			return nil
		}},
		{"SerializeLayers", func() error {
			return rocelayers.SerializeLayers(buf, complete, ls...)
		}},
		{"crc32", func() error {
			sum = crc32.ChecksumIEEE(ip[:len(ip)-4])
			return nil
		}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := bench.f(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

var sum uint32
