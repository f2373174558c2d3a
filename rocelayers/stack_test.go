package rocelayers_test

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/cm"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocelayers"
	"github.com/rocecn/rocecn/rocev2"
)

// kindOf returns the type of the layer that a kind of message has.
func kindOf(k message.Kind) gopacket.LayerType {
	return map[message.Kind]gopacket.LayerType{
		message.KindData: rocelayers.LayerTypeBTH, message.KindAck: rocelayers.LayerTypeBTH,
		message.KindCNP:     rocelayers.LayerTypeCNP,
		message.KindFastCNP: rocelayers.LayerTypeFastCNP, message.KindPPFC: rocelayers.LayerTypePPFC,
		message.KindUnknownOption: gopacket.LayerTypePayload,
		message.KindFCN:           rocelayers.LayerTypeFCN, message.KindProxy: rocelayers.LayerTypeProxy,
	}[k]
}

// A Stack agrees with package message about every packet of every capture. Other traffic is no error.
func TestStackCaptures(t *testing.T) {
	var s rocelayers.Stack
	kinds := make(map[message.Kind]int)
	for _, name := range wiretest.Captures(t, "*.pcap") {
		for _, c := range wiretest.Capture(t, name) {
			var m message.Message
			want := m.Decode(c.Data, rocev2.DecodeOptions{}, s.Config)
			err := s.Decode(c.Data)
			kinds[m.Kind]++
			switch typ := kindOf(m.Kind); m.Kind {
			case message.KindOther:
				require.NoError(t, err, "%s, frame %d", name, c.Number)
				require.Nil(t, s.Layer(rocelayers.LayerTypeBTH))
			case message.KindError:
				requireSameFault(t, want, err, name, c.Number)
			default:
				require.NoError(t, err, "%s, frame %d", name, c.Number)
				require.NotNil(t, s.Layer(typ), "%s, frame %d: %v", name, c.Number, typ)
			}
		}
	}
	require.Len(t, kinds, 10) // all of them
}

// A copy has layers of its own.
func TestStackCopied(t *testing.T) {
	var s rocelayers.Stack
	require.NoError(t, s.Decode(built(t)[0].frame))
	other := s
	require.NoError(t, other.Decode(wiretest.Hex(t, cnp4)))
	require.NotNil(t, other.Layer(rocelayers.LayerTypeCNP))
	require.Same(t, &other.CNP, other.Layer(rocelayers.LayerTypeCNP))
	require.EqualValues(t, 0x118, other.CNP.DestQP)
	_, err := other.BTH.VerifyICRC()
	require.NoError(t, err)
	require.Zero(t, s.CNP.CNP)
	require.EqualValues(t, 0x111111, s.FastCNP.CNP.DestQP)
}

// The configuration sets the message of each port, as in package message, and may change from one frame to the next.
func TestStackConfig(t *testing.T) {
	address := dst6far.As16()
	frames := []named{
		{"FCN", datagram(t, fcn.Port, []byte{0xBE, 0xEF, 0x5E, 0})},
		{"FCN at 7777", datagram(t, 7777, []byte{0xBE, 0xEF, 0x5E, 0})},
		{"proxy at 7778", datagram(t, 7778, make([]byte, 16))},
		{"PPFC", message0x81(t, 0x20, 0, nil, make([]byte, 24))},
		{"CNP with P", message0x81(t, 0x20, 0, nil, make([]byte, 16))},
		{"nothing after a BTH with P", message0x81(t, 0x20, 0, nil, nil)},
		{"Fast CNP of type 0x8E", message0x81(t, 0, 60, options(t, 17, 0x8E, address[:]), make([]byte, 16))},
	}
	var s rocelayers.Stack
	others := message.Config{FCNPort: 7777, ProxyPort: 7778}
	others.CodePoints.Option1, others.CodePoints.Option2 = 0x8E, 0x8E
	for _, s.Config = range []message.Config{
		{}, others, {NoFCN: true, NoProxy: true, NoPPFC: true},
		{FCNPort: 7777, NoFCN: true, ProxyPort: 7778, NoProxy: true}, {},
	} {
		for _, c := range frames {
			t.Run(c.name, func(t *testing.T) {
				var m message.Message
				want := m.Decode(c.frame, rocev2.DecodeOptions{}, s.Config)
				err := s.Decode(c.frame)
				if m.Kind == message.KindOther {
					want = nil
					require.Equal(t, gopacket.LayerTypePayload, s.Decoded[len(s.Decoded)-1])
				}
				requireSameFault(t, want, err)
				if typ := kindOf(m.Kind); want == nil && m.Kind != message.KindOther {
					require.NotNil(t, s.Layer(typ), "%s: %v", c.name, s.Decoded)
				}
			})
		}
	}
}

// A Stack holds the layers of one packet: those of the one that a proxy
// message is about are for another Stack.
func TestStackProxy(t *testing.T) {
	var s, invoking rocelayers.Stack
	for _, c := range built(t) {
		t.Run(c.name, func(t *testing.T) {
			require.NoError(t, s.Decode(c.frame))
			if s.Layer(rocelayers.LayerTypeProxy) == nil {
				return
			}
			require.Nil(t, s.Layer(rocelayers.LayerTypeBTH))
			require.Nil(t, s.Layer(rocelayers.LayerTypeCNP))
			if len(s.Proxy.Invoking) > 0 {
				require.Equal(t, s.Proxy.Invoking, []byte(s.Payload))
				require.NoError(t, invoking.Decode(slices.Concat(ether(s.Proxy.Invoking), s.Proxy.Invoking)))
				require.NotNil(t, invoking.Layer(rocelayers.LayerTypeBTH))
			}
		})
	}
}

// ether returns an Ethernet header for an IP packet.
func ether(ip []byte) []byte {
	if ip[0]>>4 == 4 {
		return ether4
	}
	return ether6
}

// Traffic from our ports to others is not ours, with a Stack neither; nor is a
// fragment.
func TestStackOtherTraffic(t *testing.T) {
	var s rocelayers.Stack
	for _, port := range []uint16{rocev2.Port, fcn.Port, proxymsg.Port} {
		frame := datagram(t, 5000, []byte("data"))
		binary.BigEndian.PutUint16(frame[54:], port)
		require.NoError(t, s.Decode(frame))
		require.Equal(t, []gopacket.LayerType{layers.LayerTypeEthernet, layers.LayerTypeIPv6, layers.LayerTypeUDP,
			gopacket.LayerTypePayload}, s.Decoded)
	}
	require.NoError(t, s.Decode(with(wiretest.Hex(t, cnp4), 20, 0x20))) // More Fragments
	require.Nil(t, s.Layer(rocelayers.LayerTypeBTH))
	fragment := slices.Concat([]byte{17, 0, 0, 0, 0, 0, 0, 7}, wiretest.Hex(t, send6)[54:])
	require.NoError(t, s.Decode(wrap(44, fragment)))
	require.Nil(t, s.Layer(rocelayers.LayerTypeBTH))
	require.NoError(t, s.Decode(bytes.Repeat([]byte{0}, 60)))

	// That the packet before was cut says nothing of it.
	cut := wiretest.Hex(t, send6)
	require.NoError(t, s.Decode(cut[:len(cut)-4]))
	require.True(t, s.Frame().Options().AllowTruncated)
	require.NoError(t, s.Decode(datagram(t, 5000, []byte("data"))))
	require.False(t, s.Frame().Options().AllowTruncated)
}

// An IP packet given in place of a frame is an error, and not other traffic.
func TestStackRawIP(t *testing.T) {
	for _, c := range []struct{ name, frame string }{{"IPv6", send6}, {"IPv4", cnp4}} {
		t.Run(c.name, func(t *testing.T) {
			frame := wiretest.Hex(t, c.frame)
			var s rocelayers.Stack
			require.NoError(t, s.Decode(frame))
			require.ErrorIs(t, s.Decode(frame[14:]), wireerr.Malformed)
		})
	}
}

// The packet of a Stack is the one that package rocev2 finds in the frame, with
// its link header and outer IP headers.
func TestStackPacket(t *testing.T) {
	var s rocelayers.Stack
	require.Nil(t, s.Packet())
	eachPacket(t, "*.pcap", func(t *testing.T, frame []byte, p *rocev2.Packet) {
		_ = s.Decode(frame)
		require.Equal(t, p, s.Packet())
		require.Same(t, s.Packet(), s.Packet())
	}, func(frame []byte) {
		_ = s.Decode(frame)
		if s.Layer(rocelayers.LayerTypeBTH) == nil {
			require.Nil(t, s.Packet())
		}
	})
	inner := wiretest.Hex(t, cnp4)
	for _, frame := range [][]byte{inner, vlan(inner, 2), wrap(4, inner[14:]), wiretest.Hex(t, send6)} {
		var want rocev2.Packet
		require.NoError(t, want.DecodeEthernet(frame))
		require.NoError(t, s.Decode(frame))
		require.Equal(t, &want, s.Packet())
		wiretest.NoAllocs(t, "Packet", func() {
			_ = s.Decode(frame)
			_ = s.Packet()
		})
	}
	// A capture that cut the payload is no error to a Stack, and no packet that
	// is whole.
	cut := send(t, 100)
	require.NoError(t, s.Decode(cut[:len(cut)-50]))
	require.True(t, s.Packet().Truncated)
	require.EqualValues(t, 100, s.Packet().PayloadLen())
	require.NoError(t, s.Decode(datagram(t, 53, nil)))
	require.Nil(t, s.Packet())
}

// send returns the frame of a SEND Only with so many octets of payload.
func send(t *testing.T, payload int) []byte {
	t.Helper()
	var p rocev2.Packet
	require.NoError(t, p.DecodeEthernet(wiretest.Hex(t, send6)))
	p.Payload = make([]byte, payload)
	return wiretest.Must(p.AppendBinary(bytes.Clone(ether6)))(t)
}

// The IP layer of a frame is its innermost one, regardless of the contents of the other one.
func TestStackIP(t *testing.T) {
	var s rocelayers.Stack
	require.Nil(t, s.IP())
	four, six := wiretest.Hex(t, cnp4), wiretest.Hex(t, send6)
	for _, c := range []struct {
		frame []byte
		want  gopacket.NetworkLayer
	}{
		{four, &s.IPv4}, {six, &s.IPv6.IPv6}, {four, &s.IPv4},
		{wrap(4, four[14:]), &s.IPv4}, {wrap(41, six[14:]), &s.IPv6.IPv6},
		{make([]byte, 60), nil}, {six, &s.IPv6.IPv6}, {nil, nil},
	} {
		_ = s.Decode(c.frame)
		require.Equal(t, c.want, s.IP())
		if c.want != nil {
			require.Same(t, c.want, s.IP())
		}
	}
}

// A Stack has the IOAM layers that NewPacket has, in the same places.
func TestStackIOAM(t *testing.T) {
	var s rocelayers.Stack
	seen := 0
	eachPacket(t, "ioam-*.pcap", func(t *testing.T, frame []byte, _ *rocev2.Packet) {
		packet := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default)
		if s.Decode(frame) != nil || failureOf(packet) != nil {
			return
		}
		var want []rocelayers.IOAM
		for _, l := range packet.Layers() {
			if l, ok := l.(*rocelayers.IOAM); ok {
				want = append(want, *l)
			}
		}
		if len(want) > 0 {
			require.Equal(t, want, s.IOAM)
			require.Equal(t, &want[len(want)-1], s.Layer(rocelayers.LayerTypeIOAM))
			wiretest.NoAllocs(t, "Decode", func() { _ = s.Decode(frame) })

			parser := gopacket.NewDecodingLayerParser(layers.LayerTypeEthernet, s.Layers()...)
			var decoded []gopacket.LayerType
			require.NoError(t, parser.DecodeLayers(frame, &decoded))
			require.Equal(t, want, s.IOAM, "a parser of one's own adds none")
		}
		types := typesFrom(layers.LayerTypeUDP, packet)
		require.Equal(t, types[:1+len(want)+1], tail(s.Decoded, layers.LayerTypeUDP)[:1+len(want)+1],
			"UDP, the options, BTH")
		seen += len(want)
	}, nil)
	require.Equal(t, 19, seen)
	require.NoError(t, s.Decode(wiretest.Hex(t, send6)))
	require.Empty(t, s.IOAM)
	require.Nil(t, s.Layer(rocelayers.LayerTypeIOAM))
}

// Thousands of options, in many headers.
func TestStackIOAMMany(t *testing.T) {
	frame := wiretest.Hex(t, send6)
	header := append([]byte{60, 255}, bytes.Repeat([]byte{0x31, 0}, 1023)...)
	all := bytes.Repeat(header, 20)
	all[19*len(header)] = 17
	length := binary.BigEndian.Uint16(frame[18:]) + uint16(len(all))
	frame = slices.Concat(frame[:54], all, frame[54:])
	frame[20] = 60
	binary.BigEndian.PutUint16(frame[18:], length)
	var s rocelayers.Stack
	require.NoError(t, s.Decode(frame))
	require.Len(t, s.IOAM, 20*1023)
	types := tail(s.Decoded, layers.LayerTypeUDP)
	require.Equal(t, slices.Repeat([]gopacket.LayerType{rocelayers.LayerTypeIOAM}, 20*1023), types[1:len(s.IOAM)+1])
	require.Equal(t, []gopacket.LayerType{rocelayers.LayerTypeBTH}, types[len(s.IOAM)+1:])
}

// tail returns the types from one on.
func tail(types []gopacket.LayerType, from gopacket.LayerType) []gopacket.LayerType {
	for i, t := range types {
		if t == from {
			return types[i:]
		}
	}
	return nil
}

// A Stack agrees with package message about flow control, with and without VLAN tags, and without RegisterFlowControl.
func TestStackFlowControl(t *testing.T) {
	const mac = "0180c2000001 001122334455"
	pause := "8808 0101 0018 0000 0000 0000 ffff 0000 0000 0000 0000"
	var s rocelayers.Stack
	for _, c := range []struct{ name, octets string }{
		{"PFC", mac + pause}, {"PFC after a tag", mac + "8100 6000" + pause}, {"PAUSE", mac + "8808 0001 ffff"},
		{"short PFC", mac + "8808 0101 0018"}, {"another opcode", mac + "8808 0007 0000"}, {"nothing", mac + "8808"},
		{"half an opcode", mac + "8808 01"},
	} {
		t.Run(c.name, func(t *testing.T) {
			frame := wiretest.Hex(t, c.octets)
			if c.name != "short PFC" && c.name != "nothing" && c.name != "half an opcode" {
				frame = append(frame, make([]byte, 60-len(frame))...)
			}
			var m message.Message
			want := m.Decode(frame, rocev2.DecodeOptions{}, message.Config{SkipVerify: true})
			err := s.Decode(frame)
			is := m.Kind == message.KindPFC || m.Kind == message.KindPause
			require.Equal(t, is, s.Layer(rocelayers.LayerTypeFlowControl) != nil)
			require.Equal(t, m.Kind == message.KindError, err != nil, "%v, %v", want, err)
			switch m.Kind {
			case message.KindPFC:
				require.Equal(t, m.PFC, s.FlowControl.PFC)
			case message.KindPause:
				require.Equal(t, m.Pause, s.FlowControl.Pause)
			}
			wiretest.NoAllocs(t, c.name, func() { _ = s.Decode(frame) })
		})
	}
}

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
