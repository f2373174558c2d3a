package rocelayers_test

import (
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/pfc"
	"github.com/rocecn/rocecn/rocelayers"
)

func TestFlowControl(t *testing.T) {
	rocelayers.RegisterFlowControl()
	const header = `0180c2000001 001122334455 8808`
	var again rocelayers.FlowControl // has the frame before
	for _, c := range []struct {
		octets string
		want   rocelayers.FlowControl
	}{
		{`0101 0018 0000 0000 0000 ffff 0000 0000 0000 0000`,
			rocelayers.FlowControl{Opcode: pfc.OpcodePFC, PFC: pfc.PFC{Enabled: 0x18, Quanta: [8]uint16{3: 0xFFFF}}}},
		{`0001 1234`, rocelayers.FlowControl{Opcode: pfc.OpcodePause, Pause: pfc.Pause{Quanta: 0x1234}}},
	} {
		t.Run(c.octets, func(t *testing.T) {
			control := wiretest.Hex(t, c.octets)
			frame := append(wiretest.Hex(t, header), control...)
			frame = append(frame, make([]byte, 60-len(frame))...)
			p := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default)
			require.Nil(t, p.ErrorLayer())
			l, ok := p.Layer(rocelayers.LayerTypeFlowControl).(*rocelayers.FlowControl)
			require.True(t, ok)
			require.Equal(t, control, l.Contents)
			require.Len(t, l.Payload, 46-len(control))
			l.BaseLayer = layers.BaseLayer{}
			require.Equal(t, c.want, *l)

			buf := dirty(t)
			ethernet := p.Layer(layers.LayerTypeEthernet).(*layers.Ethernet)
			require.NoError(t, gopacket.SerializeLayers(buf, complete, ethernet, l))
			require.Equal(t, frame, buf.Bytes())

			var eth layers.Ethernet
			parser := gopacket.NewDecodingLayerParser(layers.LayerTypeEthernet, &eth, &again)
			var decoded []gopacket.LayerType
			require.NoError(t, parser.DecodeLayers(frame, &decoded))
			require.Equal(t, []gopacket.LayerType{layers.LayerTypeEthernet, rocelayers.LayerTypeFlowControl}, decoded)
			wiretest.NoAllocs(t, "parser", func() { _ = parser.DecodeLayers(frame, &decoded) })

			again.BaseLayer = layers.BaseLayer{}
			require.Equal(t, c.want, again)

			was := again
			wiretest.Prefixes(t, control, func(b []byte) error {
				return again.DecodeFromBytes(b,
					gopacket.NilDecodeFeedback)
			})
			require.Equal(t, was, again)
			for n := 1; n < len(control); n++ {
				p := gopacket.NewPacket(frame[:14+n], layers.LayerTypeEthernet, gopacket.Default)
				require.NotNil(t, p.ErrorLayer(), n)
				require.ErrorIs(t, p.ErrorLayer().Error(), wireerr.Truncated)
				require.True(t, p.Metadata().Truncated)
			}
		})
	}
	other := wiretest.Hex(t, header+`0002 1234`)
	p := gopacket.NewPacket(other, layers.LayerTypeEthernet, gopacket.Default)
	require.Nil(t, p.ErrorLayer())
	require.Nil(t, p.Layer(rocelayers.LayerTypeFlowControl))
	require.Equal(t, other[14:], p.ApplicationLayer().Payload())
	require.ErrorIs(t, (&rocelayers.FlowControl{Opcode: 2}).SerializeTo(dirty(t), complete), rocecn.ErrRange)
	require.Equal(t, "FlowControl", rocelayers.LayerTypeFlowControl.String())
	require.EqualValues(t, 1801, rocelayers.LayerTypeFlowControl)
}
