package ioam

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
)

func TestOption(t *testing.T) {
	for _, c := range []struct {
		octets string
		want   Option
		text   string
	}{
		{"00 00 aabb", Option{0, OptTypePreallocated, []byte{0xAA, 0xBB}}, "pre-allocated trace"},
		{"00 01", Option{0, OptTypeIncremental, []byte{}}, "incremental trace"},
		{"00 02 aa", Option{0, OptTypeProofOfTransit, []byte{0xAA}}, "proof of transit"},
		{"00 03 aa", Option{0, OptTypeEdgeToEdge, []byte{0xAA}}, "edge-to-edge"},
		{"7f 04 aa", Option{0x7F, OptTypeDirectExport, []byte{0xAA}}, "direct export"},
		{"00 05 aa", Option{0, 5, []byte{0xAA}}, "OptType(5)"},
		{"ff ff aa", Option{0xFF, 0xFF, []byte{0xAA}}, "OptType(255)"},
	} {
		t.Run(c.octets, func(t *testing.T) {
			b := wiretest.Hex(t, c.octets)
			var o Option
			require.NoError(t, o.Decode(b))
			require.Equal(t, c.want, o)
			require.Equal(t, c.text, o.Type.String())
			wiretest.Encodes(t, b, o.AppendBinary)
		})
	}

	o := Option{Reserved: 1, Data: []byte{2}}
	wiretest.Prefixes(t, []byte{0, 0}, o.Decode)
	require.Equal(t, Option{Reserved: 1, Data: []byte{2}}, o, "unchanged on error")
}

func TestOptionIsAtMost255Octets(t *testing.T) {
	b, err := Option{Data: make([]byte, 253)}.AppendBinary(nil)
	require.NoError(t, err)
	require.Len(t, b, 255)
	b, err = Option{Data: make([]byte, 254)}.AppendBinary([]byte{0xA5})
	require.Equal(t, errOptionLen, err)
	require.Equal(t, []byte{0xA5}, b)
}
