package rocelayers_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/rocelayers"
)

func TestMain(m *testing.M) {
	if t := layers.UDPPort(4791).LayerType(); t != gopacket.LayerTypePayload {
		fmt.Println("the import alone claims port 4791 for", t)
		os.Exit(1)
	}
	rocelayers.Register()
	rocelayers.Register()
	os.Exit(m.Run())
}

func TestLayerTypes(t *testing.T) {
	require.Equal(t, rocelayers.LayerTypeBTH, layers.UDPPort(4791).LayerType())
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
	} {
		require.EqualValues(t, c.number, c.typ)
		require.Equal(t, c.name, c.typ.String())
		require.Equal(t, c.typ, c.layer.LayerType())
		require.Equal(t, []gopacket.LayerType{c.typ}, c.layer.CanDecode().LayerTypes())
		require.Contains(t, gopacket.DecodersByLayerName, c.name)
	}
}
