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
	"github.com/rocecn/rocecn/proxymsg"
	"github.com/rocecn/rocecn/rocelayers"
	"github.com/rocecn/rocecn/rocev2"
)

func TestMain(m *testing.M) {
	for _, port := range []layers.UDPPort{rocev2.Port, fcn.ExperimentalPort, proxymsg.ExperimentalPort} {
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
	rocelayers.RegisterFCN(fcn.ExperimentalPort)
	rocelayers.RegisterProxy(proxymsg.ExperimentalPort)
	os.Exit(m.Run())
}

func TestLayerTypes(t *testing.T) {
	require.Equal(t, rocelayers.LayerTypeBTH, layers.UDPPort(4791).LayerType())
	require.Equal(t, rocelayers.LayerTypeFCN, layers.UDPPort(1021).LayerType())
	require.Equal(t, rocelayers.LayerTypeProxy, layers.UDPPort(1022).LayerType())
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
		{int(layers.LayerTypeIPv6), "IPv6", layers.LayerTypeIPv6, new(rocelayers.IPv6)},
		{int(layers.LayerTypeIPv6HopByHop), "IPv6HopByHop", layers.LayerTypeIPv6HopByHop, new(rocelayers.HopByHop)},
		{int(layers.LayerTypeIPv6Destination), "IPv6Destination", layers.LayerTypeIPv6Destination, new(rocelayers.DestinationOptions)},
	} {
		require.EqualValues(t, c.number, c.typ)
		require.Equal(t, c.name, c.typ.String())
		require.Equal(t, c.typ, c.layer.LayerType())
		require.Equal(t, []gopacket.LayerType{c.typ}, c.layer.CanDecode().LayerTypes())
		require.Contains(t, gopacket.DecodersByLayerName, c.name)
	}
}
