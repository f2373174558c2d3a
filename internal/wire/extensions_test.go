package wire

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func octets(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	require.NoError(t, err)
	return b
}

// Hop-by-Hop, a Routing header of 24 octets, Destination Options, UDP: the lengths are 8 and 8 for each unit.
const chain = "2b00 010400000000" +
	"3c02 0401 00000000 20010db8000000000000000000000009" +
	"1100 010400000000"

func TestSkipExtensions(t *testing.T) {
	b := octets(t, chain+"c001")
	next, end, _, whole := SkipExtensions(b, 0, ProtoHopByHop)
	require.Equal(t, []any{uint8(17), 40, true}, []any{next, end, whole})
	for n := range 40 {
		next, end, _, whole := SkipExtensions(b[:n:n], 0, ProtoHopByHop)
		require.False(t, whole, n)
		switch { // by the incomplete header
		case n < 8:
			require.Equal(t, []any{uint8(ProtoHopByHop), 0}, []any{next, end}, n)
		case n < 32:
			require.Equal(t, []any{uint8(ProtoRouting), 8}, []any{next, end}, n)
		default:
			require.Equal(t, []any{uint8(ProtoDestinationOptions), 32}, []any{next, end}, n)
		}
	}
	for _, other := range []uint8{17, 6, ProtoFragment, 50, 51, 59, 135} {
		next, end, _, whole := SkipExtensions(b, 3, other)
		require.Equal(t, []any{other, 3, true}, []any{next, end, whole})
	}
}

func TestExtensions(t *testing.T) {
	b := octets(t, chain)
	var types, lengths []int
	for next, header := range Extensions(ProtoHopByHop, b) {
		types, lengths = append(types, int(next)), append(lengths, len(header))
		require.Equal(t, len(header), cap(header))
	}
	require.Equal(t, []int{ProtoHopByHop, ProtoRouting, ProtoDestinationOptions}, types)
	require.Equal(t, []int{8, 24, 8}, lengths)
	n := 0
	for range Extensions(ProtoHopByHop, b[:39]) {
		n++
	}
	require.Equal(t, 2, n)
}

func TestFinalSegment(t *testing.T) {
	b := octets(t, chain)
	final, short := FinalSegment(ProtoHopByHop, b)
	require.Equal(t, octets(t, "20010db8000000000000000000000009"), final)
	require.False(t, short)
	for _, c := range []struct {
		name  string
		at    int
		value byte
	}{
		{"no Segments Left", 8 + 3, 0},
		{"another Routing Type", 8 + 2, 0},
		{"another header", 0, ProtoDestinationOptions},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := octets(t, chain)
			b[c.at] = c.value
			final, short := FinalSegment(ProtoHopByHop, b)
			require.Nil(t, final)
			require.False(t, short)
		})
	}
	final, short = FinalSegment(ProtoRouting, octets(t, "1100 0401 00000000"))
	require.Nil(t, final)
	require.True(t, short)
	require.Zero(t, testing.AllocsPerRun(10, func() { FinalSegment(ProtoHopByHop, b) }))
}

func TestRouted(t *testing.T) {
	routed := func(next uint8, b []byte) bool {
		_, _, routed, _ := SkipExtensions(b, 0, next)
		return routed
	}
	b := octets(t, chain)
	require.True(t, routed(ProtoHopByHop, b))
	require.False(t, routed(ProtoHopByHop, b[:8]), "in front of it")
	require.False(t, routed(ProtoHopByHop, b[:31]), "not all there")
	require.False(t, routed(ProtoDestinationOptions, b[32:]), "behind it")
	b[8+3] = 0
	require.True(t, routed(ProtoHopByHop, b), "without Segments Left")
	b[8+2] = 0
	require.False(t, routed(ProtoHopByHop, b), "another Routing Type")
	require.False(t, routed(ProtoRouting, nil))
	require.True(t, routed(ProtoRouting, octets(t, "2b000400 00000000 11000000 00000000")),
		"another Routing Type behind it")
	limit := octets(t, "1100 040104 010100") // option 4: Tunnel Encapsulation Limit (RFC 2473)
	require.False(t, routed(ProtoDestinationOptions, limit))
	require.False(t, routed(ProtoHopByHop, limit))
}
