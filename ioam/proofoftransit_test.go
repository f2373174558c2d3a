package ioam

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
)

func TestProofOfTransit(t *testing.T) {
	for _, c := range []struct {
		name   string
		octets string
		want   ProofOfTransit
		fixed  int // minimum length in octets
	}{
		{"type 0", "007b 00 80 0102030405060708 1112131415161718",
			ProofOfTransit{Namespace: 123, Flags: 0x80, PktID: 0x0102030405060708, Cumulative: 0x1112131415161718}, 20},
		{"another type", "007b 01 ff 010203",
			ProofOfTransit{Namespace: 123, Type: 1, Flags: 0xFF, Data: []byte{1, 2, 3}}, 4},
		{"another type, empty", "007b ff 00", ProofOfTransit{Namespace: 123, Type: 0xFF, Data: []byte{}}, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := wiretest.Hex(t, c.octets)
			o := Option{Type: OptTypeProofOfTransit, Data: b}
			var p ProofOfTransit
			require.NoError(t, p.Decode(o))
			require.Equal(t, c.want, p)
			wiretest.Encodes(t, b, p.AppendBinary)
			wiretest.Prefixes(t, b[:c.fixed], func(b []byte) error {
				return p.Decode(Option{Type: OptTypeProofOfTransit,
					Data: b})
			})
			require.Equal(t, errNotProofOfTransit, p.Decode(Option{Type: OptTypeEdgeToEdge, Data: b}))
			if p.Type == 0 {
				o.Data = append(b, 0)
				require.Equal(t, errProofOfTransitLen, p.Decode(o))
			}
			require.Equal(t, c.want, p, "%s: unchanged on error", c.name)
		})
	}
}

func TestProofOfTransitWithData(t *testing.T) {
	p := ProofOfTransit{Data: []byte{1}}
	out, err := p.AppendBinary([]byte{9})
	require.ErrorIs(t, err, errProofOfTransitLen)
	require.Equal(t, []byte{9}, out)
}
