package bench

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
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/ppfc"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocelayers"
	"github.com/rocecn/rocecn/rocev2"
)

// BenchmarkRead reads the frame of every message, Ethernet/IPv6/UDP, with each available Go
// decoder. The ICRC is verified only in rows with that name. The lower bounds are hash/crc32 over
// the octets that the ICRC covers, or over the IP packet if it has none, and a copy of the frame.
func BenchmarkRead(b *testing.B) {
	as := rocev2.Carriage{SrcPort: 49152}

	c := cnp.New(0x118, 0xFFFF)
	ip, err := c.AppendPacket(nil, receiver, sender, cnp.Config{Carriage: as})
	f := frame(b, ip, err)
	readFloors(b, "CNP/", f, f[14:len(f)-4])
	run(b, "CNP/by hand", func(b *testing.B) {
		var h byHand
		for b.Loop() {
			if !h.read(f) {
				b.Fatal("not read")
			}
		}
	})
	readPacket(b, "CNP/", f, func(p *rocev2.Packet) error { _, err := cnp.FromPacket(p); return err })
	readLayers(b, "CNP/", f, rocelayers.LayerTypeCNP)

	for i, nodes := range []int{0, 4} {
		name := []string{"Fast CNP 1/", "Fast CNP 2/"}[i]
		ip, _, err = fastcnp.AppendFor(nil, congested(b, nodes), loopback, nil, fastcnp.Config{})
		f := frame(b, ip, err)
		readFloors(b, name, f, f[14:len(f)-4])
		readPacket(b, name, f,
			func(p *rocev2.Packet) error { _, err := fastcnp.FromPacket(p, fastcnp.CodePoints{}); return err })
		readLayers(b, name, f, rocelayers.LayerTypeFastCNP)
	}

	ip, err = ppfc.AppendFor(nil, congested(b, 0), loopback, ppfc.Extension{}, ppfc.Config{})
	f = frame(b, ip, err)
	readFloors(b, "PPFC/", f, f[14:len(f)-4])
	readPacket(b, "PPFC/", f, func(p *rocev2.Packet) error { _, err := ppfc.FromPacket(p); return err })
	readLayers(b, "PPFC/", f, rocelayers.LayerTypePPFC)

	ip, err = fcn.Message{FlowLabel: 0xBEEF5, Level: 7}.AppendPacket(nil, loopback, sender, fcn.Config{})
	f = frame(b, ip, err)
	readFloors(b, "FCN/", f, f[14:])
	readDatagram(b, "FCN/", f, fcn.Port,
		func(d *rocev2.Datagram) error { _, err := fcn.FromDatagram(d); return err })
	readLayers(b, "FCN/", f, rocelayers.LayerTypeFCN)

	ip, err = proxymsg.AppendFor(nil, flow(b), loopback, sender, 5, proxymsg.Config{})
	f = frame(b, ip, err)
	readFloors(b, "proxy/", f, f[14:])
	readDatagram(b, "proxy/", f, proxymsg.Port,
		func(d *rocev2.Datagram) error { _, err := proxymsg.FromDatagram(d, 0); return err })
	readLayers(b, "proxy/", f, rocelayers.LayerTypeProxy)
}

func readFloors(b *testing.B, name string, frame, covered []byte) {
	run(b, name+"hash/crc32", func(b *testing.B) {
		for b.Loop() {
			crc32.ChecksumIEEE(covered)
		}
	})
	run(b, name+"copy", func(b *testing.B) {
		to := make([]byte, len(frame))
		for b.Loop() {
			copy(to, frame)
		}
	})
}

// readPacket reads a message that is a RoCEv2 packet.
func readPacket(b *testing.B, name string, frame []byte, fromPacket func(*rocev2.Packet) error) {
	var p rocev2.Packet
	run(b, name+"walk", func(b *testing.B) {
		for b.Loop() {
			check(b, p.DecodeEthernet(frame))
		}
	})
	run(b, name+"walk, ICRC verified", func(b *testing.B) {
		for b.Loop() {
			check(b, p.DecodeEthernet(frame))
			_, err := icrc.Verify(p.IP)
			check(b, err)
		}
	})
	run(b, name+"walk and message", func(b *testing.B) {
		for b.Loop() {
			check(b, p.DecodeEthernet(frame))
			check(b, fromPacket(&p))
		}
	})
	run(b, name+"message alone", func(b *testing.B) {
		check(b, p.DecodeEthernet(frame))
		for b.Loop() {
			check(b, fromPacket(&p))
		}
	})
	readMessage(b, name, frame)
}

// readDatagram reads a message to another UDP port.
func readDatagram(b *testing.B, name string, frame []byte, port uint16, fromDatagram func(*rocev2.Datagram) error) {
	var d rocev2.Datagram
	run(b, name+"walk", func(b *testing.B) {
		for b.Loop() {
			check(b, d.Decode(frame, rocev2.DecodeOptions{}, port))
		}
	})
	run(b, name+"walk and message", func(b *testing.B) {
		for b.Loop() {
			check(b, d.Decode(frame, rocev2.DecodeOptions{}, port))
			check(b, fromDatagram(&d))
		}
	})
	run(b, name+"message alone", func(b *testing.B) {
		check(b, d.Decode(frame, rocev2.DecodeOptions{}, port))
		for b.Loop() {
			check(b, fromDatagram(&d))
		}
	})
	readMessage(b, name, frame)
}

// readMessage reads a message of a kind that only package message recognizes.
func readMessage(b *testing.B, name string, frame []byte) {
	run(b, name+"message.Decode", func(b *testing.B) {
		var m message.Message
		for b.Loop() {
			check(b, m.Decode(frame, rocev2.DecodeOptions{}, message.Config{}))
		}
	})
}

// flow is that of the congested packet.
func flow(b testing.TB) *rocev2.Frame {
	var f rocev2.Frame
	f.Decode(dataFrame(b, 0), rocev2.DecodeOptions{})
	return &f
}

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
