package rocelayers_test

import (
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocelayers"
	"github.com/rocecn/rocecn/rocev2"
)

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
