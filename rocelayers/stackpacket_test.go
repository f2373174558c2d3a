package rocelayers_test

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/message"
	"github.com/rocecn/rocecn/rocelayers"
	"github.com/rocecn/rocecn/rocev2"
)

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
		{"PFC", mac + pause}, {"PFC behind a tag", mac + "8100 6000" + pause}, {"PAUSE", mac + "8808 0001 ffff"},
		{"cut PFC", mac + "8808 0101 0018"}, {"another opcode", mac + "8808 0007 0000"}, {"nothing", mac + "8808"},
		{"half an opcode", mac + "8808 01"},
	} {
		t.Run(c.name, func(t *testing.T) {
			frame := wiretest.Hex(t, c.octets)
			if c.name != "cut PFC" && c.name != "nothing" && c.name != "half an opcode" {
				frame = append(frame, make([]byte, 60-len(frame))...)
			}
			var m message.Message
			want := m.Decode(frame, rocev2.DecodeOptions{}, message.Config{SkipVerify: true})
			err := s.Decode(frame)
			is := m.Kind == message.PFC || m.Kind == message.Pause
			require.Equal(t, is, s.Layer(rocelayers.LayerTypeFlowControl) != nil)
			require.Equal(t, m.Kind == message.Broken, err != nil, "%v, %v", want, err)
			switch m.Kind {
			case message.PFC:
				require.Equal(t, m.PFC, s.FlowControl.PFC)
			case message.Pause:
				require.Equal(t, m.Pause, s.FlowControl.Pause)
			}
			wiretest.NoAllocs(t, c.name, func() { _ = s.Decode(frame) })
		})
	}
}
