package ioam

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
)

func TestEdgeToEdge(t *testing.T) {
	for _, c := range []struct {
		name   string
		octets string
		want   EdgeToEdge
	}{
		{"nothing", "007b 0000", EdgeToEdge{Namespace: 123, Rest: []byte{}}},
		{"sequence of 64 bits", "007b 8000 0102030405060708",
			EdgeToEdge{Namespace: 123, Type: E2ESequence64, Sequence64: 0x0102030405060708, Rest: []byte{}}},
		{"sequence of 32 bits", "007b 4000 01020304",
			EdgeToEdge{Namespace: 123, Type: E2ESequence32, Sequence32: 0x01020304, Rest: []byte{}}},
		{"time", "007b 3000 6b016366 000ac170",
			EdgeToEdge{Namespace: 123, Type: E2ESeconds | E2EFraction, Seconds: 0x6B016366, Fraction: 704880,
				Rest: []byte{}}},
		{"all four", "007b f000 0102030405060708 01020304 6b016366 000ac170",
			EdgeToEdge{Namespace: 123, Type: 0xF000, Sequence64: 0x0102030405060708, Sequence32: 0x01020304,
				Seconds: 0x6B016366, Fraction: 704880, Rest: []byte{}}},
		{"an undefined bit with its field", "007b 4001 01020304 aabbccdd",
			EdgeToEdge{Namespace: 123, Type: 0x4001, Sequence32: 0x01020304, Rest: []byte{0xAA, 0xBB, 0xCC, 0xDD}}},
		{"an undefined bit without one", "007b 4800 01020304",
			EdgeToEdge{Namespace: 123, Type: 0x4800, Sequence32: 0x01020304, Rest: []byte{}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := wiretest.Hex(t, c.octets)
			o := Option{Type: OptTypeEdgeToEdge, Data: b}
			var e EdgeToEdge
			require.NoError(t, e.Decode(o))
			require.Equal(t, c.want, e)
			wiretest.Encodes(t, b, e.AppendBinary)
			wiretest.Prefixes(t, b[:len(b)-len(e.Rest)],
				func(b []byte) error { return e.Decode(Option{Type: OptTypeEdgeToEdge, Data: b}) })
			require.Equal(t, errNotEdgeToEdge, e.Decode(Option{Type: OptTypeDirectExport, Data: b}))
			if e.Type&0x0FFF == 0 {
				o.Data = append(b, 0, 0, 0, 0)
				require.Equal(t, errEdgeToEdgeLen, e.Decode(o))
			}
			require.Equal(t, c.want, e, "%s: unchanged on error", c.name)
		})
	}
	require.Equal(t, "0x3000", (E2ESeconds | E2EFraction).String())
	e := EdgeToEdge{Type: E2ESequence32, Rest: []byte{1}}
	b, err := e.AppendBinary([]byte{0xA5})
	require.Equal(t, errEdgeToEdgeLen, err)
	require.Equal(t, []byte{0xA5}, b)
}
