package rocelayers_test

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/fcn"
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
		message.Data: rocelayers.LayerTypeBTH, message.Ack: rocelayers.LayerTypeBTH,
		message.CNP:     rocelayers.LayerTypeCNP,
		message.FastCNP: rocelayers.LayerTypeFastCNP, message.PPFC: rocelayers.LayerTypePPFC,
		message.UnknownOption: gopacket.LayerTypePayload,
		message.FCN:           rocelayers.LayerTypeFCN, message.Proxy: rocelayers.LayerTypeProxy,
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
			case message.Other:
				require.NoError(t, err, "%s, frame %d", name, c.Number)
				require.Nil(t, s.Layer(rocelayers.LayerTypeBTH))
			case message.Broken:
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
		{"nothing behind a BTH with P", message0x81(t, 0x20, 0, nil, nil)},
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
				if m.Kind == message.Other {
					want = nil
					require.Equal(t, gopacket.LayerTypePayload, s.Decoded[len(s.Decoded)-1])
				}
				requireSameFault(t, want, err)
				if typ := kindOf(m.Kind); want == nil && m.Kind != message.Other {
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
	require.True(t, s.Frame().Options().Cut)
	require.NoError(t, s.Decode(datagram(t, 5000, []byte("data"))))
	require.False(t, s.Frame().Options().Cut)
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
