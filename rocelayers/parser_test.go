package rocelayers_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/proxymsg"
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

// stack is a Stack with a parser, for tests that look at the state of the parser.
type stack struct {
	rocelayers.Stack
	ipv6   gopacket.NetworkLayer // the parser's
	parser *gopacket.DecodingLayerParser
}

// newStack returns a stack with a parser for gopacket's IPv6 and UDP layers.
func newStack() *stack {
	s := new(stack)
	s.ipv6 = &s.IPv6.IPv6
	s.parser = gopacket.NewDecodingLayerParser(layers.LayerTypeEthernet,
		append(s.Layers(), &s.IPv6.IPv6, &s.UDP.UDP)...)
	return s
}

// newOwnStack returns a stack with a parser for our IPv6 and UDP layers.
func newOwnStack() *stack {
	s := new(stack)
	s.ipv6 = &s.IPv6
	s.parser = gopacket.NewDecodingLayerParser(layers.LayerTypeEthernet, s.Layers()...)
	return s
}

func (s *stack) decode(frame []byte) error { return s.parser.DecodeLayers(frame, &s.Decoded) }

func (s *stack) has(t gopacket.LayerType) bool { return s.Layer(t) != nil }

// ip returns the IP layer decoded last.
func (s *stack) ip() (ip gopacket.NetworkLayer) {
	for _, t := range s.Decoded {
		switch t {
		case layers.LayerTypeIPv4:
			ip = &s.IPv4
		case layers.LayerTypeIPv6:
			ip = s.ipv6
		}
	}
	return ip
}

// layer returns the layer of a type if it was decoded, otherwise nil.
func (s *stack) layer(t gopacket.LayerType) gopacket.Layer {
	if l := s.Layer(t); l == nil || t != layers.LayerTypeIPv6 {
		return l
	}
	return s.ipv6
}

// layers returns the layers decoded, in wire order.
func (s *stack) layers() (ls []gopacket.SerializableLayer) {
	for _, t := range s.Decoded {
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

// requireSameFault checks that two errors say the same, each in its words.
func requireSameFault(t *testing.T, want, got error, name ...any) {
	t.Helper()
	require.Equal(t, want == nil, got == nil, append(name, want, got))
	for _, root := range []error{wireerr.Truncated, wireerr.Range, wireerr.Malformed, wireerr.ICRC, wireerr.Other} {
		require.Equal(t, errors.Is(want, root), errors.Is(got, root), append(name, want, got))
	}
}

// requireSame checks a BTH layer against the same packet decoded by package
// rocev2.
func requireSame(t *testing.T, p *rocev2.Packet, l *rocelayers.BTH) {
	t.Helper()
	require.NotNil(t, l)
	require.Equal(t, p.BTH, l.Headers)
	require.Equal(t, p.Data[:min(p.BTH.Len(), len(p.Data))], l.LayerContents())
	require.Equal(t, p.Payload, l.LayerPayload())
	require.Equal(t, p.Padding, l.Padding)
	require.Equal(t, p.PayloadLen(), l.PayloadLen)
	require.Equal(t, []bool{p.Truncated, p.Trimmed}, []bool{l.Truncated, l.Trimmed})
	require.Equal(t, p.ICRC, l.ICRC.Value)
	require.Equal(t, p.SrcPort, uint16(l.UDP.SrcPort))
	if !p.Truncated {
		require.Equal(t, p.Data[len(p.Data)-4:], l.ICRC.LayerContents())
	}
}

func TestMain(m *testing.M) {
	for _, port := range []layers.UDPPort{rocev2.Port, fcn.Port, proxymsg.Port} {
		if t := port.LayerType(); t != gopacket.LayerTypePayload {
			fmt.Printf("the import alone claims port %d for %v\n", port, t)
			os.Exit(1)
		}
	}
	var s rocelayers.Stack // needs no Register
	data, _ := hex.DecodeString(strings.Join(strings.Fields(cnp4), ""))
	if err := s.Decode(data); err != nil || s.Layer(rocelayers.LayerTypeCNP) == nil {
		fmt.Println("a Stack without Register:", s.Decoded, err)
		os.Exit(1)
	}
	rocelayers.Register()
	rocelayers.Register()
	rocelayers.RegisterFCN(fcn.Port)
	rocelayers.RegisterProxy(proxymsg.Port)
	os.Exit(m.Run())
}

func TestLayerTypes(t *testing.T) {
	require.Equal(t, rocelayers.LayerTypeBTH, layers.UDPPort(4791).LayerType())
	require.Equal(t, rocelayers.LayerTypeFCN, layers.UDPPort(fcn.Port).LayerType())
	require.Equal(t, rocelayers.LayerTypeProxy, layers.UDPPort(proxymsg.Port).LayerType())
	for _, c := range []struct {
		number int
		name   string
		typ    gopacket.LayerType
		layer  interface {
			gopacket.Layer
			gopacket.DecodingLayer
			gopacket.SerializableLayer
		}
	}{
		{1791, "BTH", rocelayers.LayerTypeBTH, new(rocelayers.BTH)},
		{1792, "CNP", rocelayers.LayerTypeCNP, new(rocelayers.CNP)},
		{1793, "ICRC", rocelayers.LayerTypeICRC, new(rocelayers.ICRC)},
		{1794, "FastCNP", rocelayers.LayerTypeFastCNP, new(rocelayers.FastCNP)},
		{1795, "IOAM", rocelayers.LayerTypeIOAM, new(rocelayers.IOAM)},
		{1796, "FCN", rocelayers.LayerTypeFCN, new(rocelayers.FCN)},
		{1797, "ProxyNotification", rocelayers.LayerTypeProxy, new(rocelayers.Proxy)},
		{1798, "PPFC", rocelayers.LayerTypePPFC, new(rocelayers.PPFC)},
		{1799, "CM", rocelayers.LayerTypeCM, new(rocelayers.CM)},
		{int(layers.LayerTypeIPv6), "IPv6", layers.LayerTypeIPv6, new(rocelayers.IPv6)},
		{int(layers.LayerTypeIPv6HopByHop), "IPv6HopByHop", layers.LayerTypeIPv6HopByHop, new(rocelayers.HopByHop)},
		{int(layers.LayerTypeIPv6Destination), "IPv6Destination", layers.LayerTypeIPv6Destination,
			new(rocelayers.DestinationOptions)},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.EqualValues(t, c.number, c.typ)
			require.Equal(t, c.name, c.typ.String())
			require.Equal(t, c.typ, c.layer.LayerType())
			require.Equal(t, []gopacket.LayerType{c.typ}, c.layer.CanDecode().LayerTypes())
			require.Contains(t, gopacket.DecodersByLayerName, c.name)
		})
	}
}

// Our layers are one allocation of NewPacket for each message: BTH, message and ICRC together. gopacket converts the
// number of a layer type to an interface, which is one more, and has space for six layers, beyond which it allocates
// again. Without our layers it allocates a Payload instead.
func TestNewPacketAllocations(t *testing.T) {
	claim := func(bth, fcns, proxies gopacket.LayerType) {
		layers.RegisterUDPPortLayerType(rocev2.Port, bth)
		layers.RegisterUDPPortLayerType(fcn.Port, fcns)
		layers.RegisterUDPPortLayerType(proxymsg.Port, proxies)
	}
	for _, c := range append(built(t), named{"SEND", wiretest.Hex(t, send6)}) {
		packet := gopacket.NewPacket(c.frame, layers.LayerTypeEthernet, gopacket.Default)
		l, _ := packet.Layer(rocelayers.LayerTypeProxy).(*rocelayers.Proxy)
		if packet.Layer(rocelayers.LayerTypeIOAM) != nil || l != nil && len(l.Invoking) > 0 {
			continue // an object for each option, the layers of another packet
		}
		count := func() float64 {
			return testing.AllocsPerRun(100, func() {
				gopacket.NewPacket(c.frame, layers.LayerTypeEthernet, gopacket.DecodeOptions{NoCopy: true})
			})
		}
		with := count()
		claim(gopacket.LayerTypePayload, gopacket.LayerTypePayload, gopacket.LayerTypePayload)
		without := count()
		claim(rocelayers.LayerTypeBTH, rocelayers.LayerTypeFCN, rocelayers.LayerTypeProxy)
		more := 1.0
		if len(packet.Layers()) > 6 {
			more = 2
		}
		require.LessOrEqual(t, with-without, more, c.name)
	}
}
