package rocelayers_test

import (
	"hash/crc32"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/cnp"
	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/ioam"
	"github.com/rocecn/rocecn/ipv6opt"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocelayers"
	"github.com/rocecn/rocecn/rocev2"
)

// BenchmarkLayers decodes a frame of every message, over Ethernet, IPv6 and UDP, with each way to read it: the codecs,
// parsers and NewPacket.
func BenchmarkLayers(b *testing.B) {
	var p rocev2.Packet
	var d rocev2.Datagram
	packet := func(frame []byte) error { return p.DecodeEthernet(frame) }
	c, n := cnp.New(0x118, 0xFFFF), ppfc.New(0x118, 0xFFFF, ppfc.Extension{Congested: dst6})
	plain := congested(b, 0, nil)
	traced := congested(b, ipv6opt.HopByHop, options(b, 17, ioam.IPv6MayChange, ioamData(b, trace(b, 4))))
	var flow rocev2.Frame
	flow.Decode(plain.IP, rocev2.DecodeOptions{Link: rocev2.LinkIP})
	frame := func(ip []byte, err error) []byte {
		require.NoError(b, err)
		return append(append(make([]byte, 0, 14+len(ip)), ether6...), ip...)
	}

	for _, m := range []struct {
		name  string
		typ   gopacket.LayerType
		frame []byte
		codec func(frame []byte) error
	}{
		{"CNP", rocelayers.LayerTypeCNP, frame(c.AppendPacket(nil, src6, dst6, cnp.Config{})), func(f []byte) error {
			_ = packet(f)
			_, err := cnp.FromPacket(&p)
			return err
		}},
		{"FastCNP-option1", rocelayers.LayerTypeFastCNP, frame(fastCNPFor(plain, fastcnp.Config{})),
			func(frame []byte) error {
				_ = packet(frame)
				_, err := fastcnp.FromPacket(&p, fastcnp.CodePoints{})
				return err
			}},
		{"FastCNP-option2", rocelayers.LayerTypeFastCNP, frame(fastCNPFor(traced, fastcnp.Config{})),
			func(frame []byte) error {
				_ = packet(frame)
				_, err := fastcnp.FromPacket(&p, fastcnp.CodePoints{})
				return err
			}},
		{"PPFC", rocelayers.LayerTypePPFC, frame(n.AppendPacket(nil, src6, dst6, ppfc.Config{})), func(f []byte) error {
			_ = packet(f)
			_, err := ppfc.FromPacket(&p)
			return err
		}},
		{"FCN", rocelayers.LayerTypeFCN, frame(fcn.Message{FlowLabel: 0xBEEF5, Level: 7}.AppendPacket(nil, src6, dst6,
			fcn.Config{})), func(frame []byte) error {
			_ = d.Decode(frame, rocev2.DecodeOptions{})
			_, err := fcn.FromDatagram(&d)
			return err
		}},
		// The layers, in contrast to the codec, decode the invoking packet, too.
		{"proxy", rocelayers.LayerTypeProxy, frame(proxymsg.AppendFor(nil, &flow, src6, dst6, 5, proxymsg.Config{})),
			func(frame []byte) error {
				_ = d.Decode(frame, rocev2.DecodeOptions{})
				_, err := proxymsg.FromDatagram(&d, 0)
				return err
			}},
	} {
		b.Run(m.name, func(b *testing.B) { benchmark(b, m.typ, m.frame, m.codec) })
	}
}

func benchmark(b *testing.B, typ gopacket.LayerType, frame []byte, codec func([]byte) error) {
	run := func(name string, f func() error) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := f(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	s := newStack()
	require.NoError(b, s.decode(frame))
	require.True(b, s.has(typ))
	theirs := gopacket.NewDecodingLayerParser(layers.LayerTypeEthernet,
		&s.Ethernet, &s.IPv6.IPv6, new(layers.IPv6ExtensionSkipper), &s.UDP.UDP)
	theirs.IgnoreUnsupported = true
	few := gopacket.NewDecodingLayerParser(layers.LayerTypeEthernet) // those that the frame has
	for _, t := range s.Decoded {
		few.AddDecodingLayer(s.layer(t).(gopacket.DecodingLayer))
	}
	ip, ls, buf := frame[14:], s.layers(), gopacket.NewSerializeBuffer()

	var p rocev2.Packet
	var d rocev2.Datagram
	walk := func() error { return p.DecodeEthernet(frame) }
	if walk() != nil { // a UDP message
		walk = func() error { return d.Decode(frame, rocev2.DecodeOptions{}) }
	}
	run("walk", walk)
	run("codec", func() error { return codec(frame) })
	run("gopacket-own-layers", func() error { return theirs.DecodeLayers(frame, &s.Decoded) })
	run("parser", func() error { return few.DecodeLayers(frame, &s.Decoded) })
	run("parser-all-layers", func() error { return s.decode(frame) })
	run("Stack", func() error { return s.Decode(frame) })
	run("NewPacket-lazy", func() error {
		packet := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.DecodeOptions{Lazy: true, NoCopy: true})
		packet.Layer(typ)
		return nil
	})
	run("NewPacket", func() error {
		gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default)
		return nil
	})
	if typ == rocelayers.LayerTypeProxy {
		return // its layers are the invoking packet's
	}
	run("SerializeLayers", func() error { return rocelayers.SerializeLayers(buf, complete, ls...) })
	if _, err := s.BTH.VerifyICRC(); err == nil {
		run("parser+verify", func() error {
			_ = few.DecodeLayers(frame, &s.Decoded)
			_, err := s.BTH.VerifyICRC()
			return err
		})
		run("codec+verify", func() error {
			_ = codec(frame)
			_, err := icrc.Verify(ip)
			return err
		})
		run("crc32", func() error {
			sum = crc32.ChecksumIEEE(ip[:len(ip)-4])
			return nil
		})
	}
}

var sum uint32
