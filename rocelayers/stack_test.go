package rocelayers_test

import (
	"slices"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocelayers"
	"github.com/rocecn/rocecn/rocev2"
)

const (
	// A CNP that a ConnectX-4 Lx sent.
	cnp4 = `e41d2dab2bc2 7cfe90643b32 0800
		45c2003c718c400040119161 0a001101 0a001201
		000012b700280000
		8100ffff 40000118 00000000 00000000000000000000000000000000 82fd002a`
	// A zero-length SEND Only that soft-RoCE sent.
	send6 = `525400770001 525400770002 86dd
		6680000000181140 fd770000000000000000000000000002 fd770000000000000000000000000001
		e34112b700180000 0400ffff 00000011 80fffff0 4b69f6c2`
)

// capturedFrame returns the first frame of a capture with this opcode in the
// octet where the BTH begins.
func capturedFrame(t testing.TB, capture string, at int, opcode uint8) []byte {
	for _, c := range wiretest.Capture(t, capture) {
		if len(c.Data) > at+12 && c.Data[at] == opcode && c.Data[at-6] == 4791>>8 && c.Data[at-5] == 4791&0xFF {
			return c.Data
		}
	}
	t.Fatalf("%s: no opcode %#x", capture, opcode)
	return nil
}

// stack is a parser with all layers that may stand around our messages, and
// these.
type stack struct {
	eth     layers.Ethernet
	vlan    layers.Dot1Q
	ip4     layers.IPv4
	ip6     rocelayers.IPv6 // in some stacks gopacket's inside
	ext     layers.IPv6ExtensionSkipper
	hbh     rocelayers.HopByHop
	options rocelayers.DestinationOptions
	udp     layers.UDP
	bth     rocelayers.BTH
	cnp     rocelayers.CNP
	fast    rocelayers.FastCNP
	ppfc    rocelayers.PPFC
	fcn     rocelayers.FCN
	proxy   rocelayers.Proxy
	payload gopacket.Payload

	ipv6    gopacket.NetworkLayer // &ip6 or &ip6.IPv6
	parser  *gopacket.DecodingLayerParser
	decoded []gopacket.LayerType
}

// newStack returns a stack with gopacket's IPv6 layer.
func newStack() *stack {
	s := new(stack)
	s.ipv6 = &s.ip6.IPv6
	return s.init()
}

// newOwnStack returns a stack with our IPv6 layer.
func newOwnStack() *stack {
	s := new(stack)
	s.ipv6 = &s.ip6
	return s.init()
}

func (s *stack) init() *stack {
	s.bth.UDP, s.bth.IPv6 = &s.udp, &s.ip6.IPv6
	s.fast.BTH, s.ppfc.BTH = &s.bth, &s.bth
	s.fcn.UDP, s.proxy.UDP = &s.udp, &s.udp
	s.parser = gopacket.NewDecodingLayerParser(layers.LayerTypeEthernet, s.all()...)
	s.decoded = make([]gopacket.LayerType, 0, 16)
	return s
}

func (s *stack) all() []gopacket.DecodingLayer {
	return []gopacket.DecodingLayer{&s.eth, &s.vlan, &s.ip4, s.ipv6.(gopacket.DecodingLayer), &s.ext, &s.hbh, &s.options,
		&s.udp, &s.bth, &s.cnp, &s.fast, &s.ppfc, &s.fcn, &s.proxy, &s.payload}
}

func (s *stack) decode(frame []byte) error { return s.parser.DecodeLayers(frame, &s.decoded) }

func (s *stack) has(t gopacket.LayerType) bool { return slices.Contains(s.decoded, t) }

// ip returns the IP layer decoded last.
func (s *stack) ip() (ip gopacket.NetworkLayer) {
	for _, t := range s.decoded {
		switch t {
		case layers.LayerTypeIPv4:
			ip = &s.ip4
		case layers.LayerTypeIPv6:
			ip = s.ipv6
		}
	}
	return ip
}

// layer returns the layer of a type if it was decoded, otherwise nil.
func (s *stack) layer(t gopacket.LayerType) gopacket.Layer {
	if !s.has(t) {
		return nil
	}
	return map[gopacket.LayerType]gopacket.Layer{
		layers.LayerTypeEthernet:        &s.eth,
		layers.LayerTypeDot1Q:           &s.vlan,
		layers.LayerTypeIPv4:            &s.ip4,
		layers.LayerTypeIPv6:            s.ipv6,
		layers.LayerTypeIPv6HopByHop:    &s.hbh,
		layers.LayerTypeIPv6Destination: &s.options,
		layers.LayerTypeUDP:             &s.udp,
		rocelayers.LayerTypeBTH:         &s.bth,
		rocelayers.LayerTypeCNP:         &s.cnp,
		rocelayers.LayerTypeFastCNP:     &s.fast,
		rocelayers.LayerTypePPFC:        &s.ppfc,
		rocelayers.LayerTypeFCN:         &s.fcn,
		rocelayers.LayerTypeProxy:       &s.proxy,
		gopacket.LayerTypePayload:       s.payload,
	}[t]
}

// decoding is layer for a DecodingLayer.
func (s *stack) decoding(t gopacket.LayerType) gopacket.DecodingLayer {
	if t == gopacket.LayerTypePayload {
		return &s.payload
	}
	return s.layer(t).(gopacket.DecodingLayer)
}

// layers returns the layers decoded, in wire order.
func (s *stack) layers() (ls []gopacket.SerializableLayer) {
	for _, t := range s.decoded {
		ls = append(ls, s.layer(t).(gopacket.SerializableLayer))
	}
	return ls
}

// modes are the ways in which NewPacket decodes. A panic is not hidden.
var modes = map[string]gopacket.DecodeOptions{
	"Default":     {SkipDecodeRecovery: true},
	"Lazy":        {SkipDecodeRecovery: true, Lazy: true},
	"NoCopy":      {SkipDecodeRecovery: true, NoCopy: true},
	"Lazy NoCopy": {SkipDecodeRecovery: true, Lazy: true, NoCopy: true},
}

// bthOf returns the BTH layer of a packet, nil when it has none.
func bthOf(p gopacket.Packet) *rocelayers.BTH {
	l, _ := p.Layer(rocelayers.LayerTypeBTH).(*rocelayers.BTH)
	return l
}

// requireSame checks a BTH layer against the same packet decoded by package
// rocev2.
func requireSame(t *testing.T, p *rocev2.Packet, l *rocelayers.BTH) {
	t.Helper()
	require.NotNil(t, l)
	require.Equal(t, p.BTH, l.Headers)
	require.Equal(t, p.Data[:p.BTH.Len()], l.LayerContents())
	require.Equal(t, p.Payload, l.LayerPayload())
	require.Equal(t, p.Padding, l.Padding)
	require.Equal(t, p.PayloadLen(), l.PayloadLen)
	require.Equal(t, p.Truncated, l.Truncated)
	require.Equal(t, p.ICRC, l.ICRC.Value)
	require.Equal(t, p.SrcPort, uint16(l.UDP.SrcPort))
	if !p.Truncated {
		require.Equal(t, p.Data[len(p.Data)-4:], l.ICRC.LayerContents())
	}
}
