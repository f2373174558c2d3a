package rocelayers_test

import (
	"slices"
	"testing"

	"github.com/google/gopacket"
	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/rocelayers"
)

// Routing headers of every type are walked and come out as they went in.
func TestRouting(t *testing.T) {
	address := dst6far.As16()
	srh := slices.Concat([]byte{17, 2, 4, 1, 0, 0, 0, 0}, address[:])
	behind := slices.Concat([]byte{60, 2, 4, 1, 0, 0, 0, 0}, address[:], options(t, 17, type1, address[:]))
	var s rocelayers.Stack
	buf := gopacket.NewSerializeBuffer()
	for _, c := range []struct {
		frame []byte
		want  gopacket.LayerType
	}{
		{message0x81(t, 0, 43, srh, make([]byte, 16)), rocelayers.LayerTypeCNP},
		{message0x81(t, 0, 43, with(srh, 2, 253), make([]byte, 16)), rocelayers.LayerTypeCNP},
		{message0x81(t, 0, 43, behind, make([]byte, 16)), rocelayers.LayerTypeFastCNP},
	} {
		require.NoError(t, s.Decode(c.frame))
		require.NotNil(t, s.Layer(c.want))
		require.Equal(t, c.frame[54:78], s.Routing.LayerContents())
		require.EqualValues(t, 1, s.Routing.SegmentsLeft)
		require.Equal(t, c.frame[56], s.Routing.RoutingType)
		_, err := s.BTH.VerifyICRC()
		require.NoError(t, err)
		var ls []gopacket.SerializableLayer
		for _, typ := range s.Decoded {
			ls = append(ls, s.Layer(typ).(gopacket.SerializableLayer))
		}
		s.BTH.ICRC.Value = 0
		require.NoError(t, rocelayers.SerializeLayers(buf, complete, ls...))
		require.Equal(t, c.frame, buf.Bytes())
	}

	l := s.Routing
	for n := range 24 {
		require.ErrorIs(t, l.DecodeFromBytes(srh[:n:n], gopacket.NilDecodeFeedback), rocelayers.ErrRoutingCut)
	}
	require.Equal(t, s.Routing, l)
	for _, n := range []int{0, 3, 8, 4 + 8*256} {
		require.ErrorIs(t, gopacket.SerializeLayers(buf, fix, &rocelayers.Routing{Data: make([]byte, n)}),
			rocelayers.ErrRoutingData)
	}
	require.NoError(t, gopacket.SerializeLayers(dirty(t), fix, &rocelayers.Routing{Data: make([]byte, 4+8*255)}))
}
