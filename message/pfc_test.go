package message

import (
	"testing"

	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/pfc"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

func TestFlowControl(t *testing.T) {
	const macs = `0180c2000001 001122334455 `
	for _, c := range []struct {
		octets string
		kind   Kind
	}{
		{macs + `8808 0101 0018 0000 0000 0000 ffff 0000 0000 0000 0000`, KindPFC},
		{macs + `8100e000 8808 0101 0018 0000 0000 0000 ffff 0000 0000 0000 0000`, KindPFC},
		{macs + `8808 0001 1234`, KindPause},
		{macs + `8808 0101 0018 0000 0000 0000 ffff 0000 0000 0000 00`, KindError},
		{macs + `8808 0001 12`, KindError},
		{macs + `8808 0002 1234`, KindOther},
		{macs + `8808 01`, KindOther},
		{macs + `8808`, KindOther},
		{macs + `8809 0101 0018 0000 0000 0000 ffff 0000 0000 0000 0000`, KindOther},
	} {
		t.Run(c.octets, func(t *testing.T) {
			b := wiretest.Hex(t, c.octets)
			var m Message
			err := m.Decode(append(b, 0)[:len(b):len(b)], rocev2.DecodeOptions{}, Config{})
			require.Equal(t, c.kind, m.Kind)
			require.Equal(t, ReachNothing, m.Reach)
			switch c.kind {
			case KindPFC:
				require.NoError(t, err)
				require.Equal(t, pfc.PFC{Enabled: 0x18, Quanta: [8]uint16{3: 65535}}, m.PFC)
				require.Equal(t, "pfc", m.Kind.String())
			case KindPause:
				require.NoError(t, err)
				require.Equal(t, pfc.Pause{Quanta: 0x1234}, m.Pause)
				require.Equal(t, "pause", m.Kind.String())
			case KindError:
				require.ErrorIs(t, err, wireerr.Truncated)
				require.NotErrorIs(t, err, rocev2.ErrNotRoCEv2)
			default:
				require.ErrorIs(t, err, rocev2.ErrNotRoCEv2)
			}
			wiretest.NoAllocs(t, c.kind.String(), func() { _ = m.Decode(b, rocev2.DecodeOptions{}, Config{}) })
		})
	}
}
