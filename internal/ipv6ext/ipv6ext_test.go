package ipv6ext

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func octets(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	require.NoError(t, err)
	return b
}

// Hop-by-Hop, a Routing header of 24 octets, Destination Options, UDP: the lengths are 8 and 8 for each unit.
const chain = "2b00 010400000000" +
	"3c02 0401 00000000 20010db8000000000000000000000009" +
	"1100 010400000000"

func TestSkip(t *testing.T) {
	b := octets(t, chain+"c001")
	next, end, _, whole := Skip(b, 0, HopByHop)
	require.Equal(t, []any{uint8(17), 40, true}, []any{next, end, whole})
	for n := range 40 {
		next, end, _, whole := Skip(b[:n:n], 0, HopByHop)
		require.False(t, whole, n)
		switch { // the header that is not all there
		case n < 8:
			require.Equal(t, []any{uint8(HopByHop), 0}, []any{next, end}, n)
		case n < 32:
			require.Equal(t, []any{uint8(Routing), 8}, []any{next, end}, n)
		default:
			require.Equal(t, []any{uint8(DestinationOptions), 32}, []any{next, end}, n)
		}
	}
	for _, other := range []uint8{17, 6, Fragment, 50, 51, 59, 135} {
		next, end, _, whole := Skip(b, 3, other)
		require.Equal(t, []any{other, 3, true}, []any{next, end, whole})
	}
}

func TestAll(t *testing.T) {
	b := octets(t, chain)
	var types, lengths []int
	for next, header := range All(HopByHop, b) {
		types, lengths = append(types, int(next)), append(lengths, len(header))
		require.Equal(t, len(header), cap(header))
	}
	require.Equal(t, []int{HopByHop, Routing, DestinationOptions}, types)
	require.Equal(t, []int{8, 24, 8}, lengths)
	n := 0
	for range All(HopByHop, b[:39]) {
		n++
	}
	require.Equal(t, 2, n)
}

func TestFinal(t *testing.T) {
	b := octets(t, chain)
	final, short := Final(HopByHop, b)
	require.Equal(t, octets(t, "20010db8000000000000000000000009"), final)
	require.False(t, short)
	for _, c := range []struct {
		name  string
		at    int
		value byte
	}{{"no Segments Left", 8 + 3, 0}, {"another Routing Type", 8 + 2, 0}, {"another header", 0, DestinationOptions}} {
		t.Run(c.name, func(t *testing.T) {
			b := octets(t, chain)
			b[c.at] = c.value
			final, short := Final(HopByHop, b)
			require.Nil(t, final)
			require.False(t, short)
		})
	}
	final, short = Final(Routing, octets(t, "1100 0401 00000000"))
	require.Nil(t, final)
	require.True(t, short)
	require.Zero(t, testing.AllocsPerRun(10, func() { Final(HopByHop, b) }))
}

func TestRouted(t *testing.T) {
	routed := func(next uint8, b []byte) bool {
		_, _, routed, _ := Skip(b, 0, next)
		return routed
	}
	b := octets(t, chain)
	require.True(t, routed(HopByHop, b))
	require.False(t, routed(HopByHop, b[:8]), "in front of it")
	require.False(t, routed(HopByHop, b[:31]), "not all there")
	require.False(t, routed(DestinationOptions, b[32:]), "behind it")
	b[8+3] = 0
	require.True(t, routed(HopByHop, b), "without Segments Left")
	b[8+2] = 0
	require.False(t, routed(HopByHop, b), "another Routing Type")
	require.False(t, routed(Routing, nil))
	require.True(t, routed(Routing, octets(t, "2b000400 00000000 11000000 00000000")), "another Routing Type behind it")
	limit := octets(t, "1100 040104 010100") // option 4: Tunnel Encapsulation Limit (RFC 2473)
	require.False(t, routed(DestinationOptions, limit))
	require.False(t, routed(HopByHop, limit))
}
