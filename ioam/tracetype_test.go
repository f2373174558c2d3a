package ioam

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTraceTypeBits(t *testing.T) {
	for _, c := range []struct {
		bit   int
		typ   TraceType
		words int
		text  string
	}{
		{0, BitNode, 1, "0x800000 (node)"},
		{1, BitInterfaces, 1, "0x400000 (interfaces)"},
		{2, BitSeconds, 1, "0x200000 (seconds)"},
		{3, BitFraction, 1, "0x100000 (fraction)"},
		{4, BitTransitDelay, 1, "0x080000 (transit delay)"},
		{5, BitNamespaceData, 1, "0x040000 (namespace data)"},
		{6, BitQueueDepth, 1, "0x020000 (queue depth)"},
		{7, BitChecksum, 1, "0x010000 (checksum complement)"},
		{8, BitWideNode, 2, "0x008000 (wide node)"},
		{9, BitWideInterfaces, 2, "0x004000 (wide interfaces)"},
		{10, BitWideNamespaceData, 2, "0x002000 (wide namespace data)"},
		{11, BitBufferOccupancy, 1, "0x001000 (buffer occupancy)"},
		{12, BitUndefined, 1, "0x000800 (bit 12)"},
		{21, BitUndefined >> 9, 1, "0x000004 (bit 21)"},
		{22, BitSnapshot, 0, "0x000002 (snapshot)"},
		{23, BitReserved, 0, "0x000001 (reserved)"},
	} {
		require.Equal(t, TraceType(1<<23)>>c.bit, c.typ, c.text)
		require.Equal(t, c.words, c.typ.NodeLen(), c.text)
		require.Equal(t, c.text, c.typ.String())
	}
	for bit := 12; bit <= 21; bit++ {
		require.True(t, UndefinedBits.Has(BitNode>>bit), bit)
	}
	for _, c := range []struct {
		typ   TraceType
		words int
		text  string
	}{
		{0, 0, "0x000000"},
		{0x1800000, 1, "0x1800000 (node)"}, // 25 bits: printed, not encoded
		{0xD40000, 4, "0xd40000 (node, interfaces, fraction, namespace data)"},
		{0xF20000, 5, "0xf20000 (node, interfaces, seconds, fraction, queue depth)"},
		{0x308002, 4, "0x308002 (seconds, fraction, wide node, snapshot)"},
		{0xFFF002, 15, "0xfff002 (node, interfaces, seconds, fraction, transit delay, namespace data, queue depth, " +
			"checksum complement, wide node, wide interfaces, wide namespace data, buffer occupancy, snapshot)"},
	} {
		require.Equal(t, c.words, c.typ.NodeLen(), c.text)
		require.Equal(t, c.text, c.typ.String())
	}
	require.Equal(t, 25, TraceType(0xFFFFFF).NodeLen())
	require.True(t, TraceType(0xF20000).Has(BitNode|BitQueueDepth))
	require.False(t, TraceType(0xF20000).Has(BitNode|BitTransitDelay))
}
