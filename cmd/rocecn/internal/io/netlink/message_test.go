package netlink

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// A handmade datagram: two messages. The first has two attributes, one of one octet and an empty nested one.
func TestCut(t *testing.T) {
	var b []byte
	b = ne.AppendUint32(b, 32)
	b = ne.AppendUint16(b, 0x401)
	b = ne.AppendUint16(b, 5)
	b = ne.AppendUint32(b, 7)
	b = ne.AppendUint32(b, 0)
	b = append(b, 10, 0, 0, 3) // of the protocol
	b = ne.AppendUint16(b, 5)
	b = ne.AppendUint16(b, 9)
	b = append(b, 0xFF, 0, 0, 0)
	b = ne.AppendUint16(b, 4)
	b = ne.AppendUint16(b, 0x8002)
	first := len(b)
	b = ne.AppendUint32(b, 17)
	b = ne.AppendUint16(b, 3)
	b = append(b, make([]byte, 10)...)
	b = append(b, 1) // and no padding

	m, rest, ok := SplitMessage(b)
	require.True(t, ok)
	require.Equal(t, Message{Type: 0x401, Flags: 5, Sequence: 7, Data: b[16:32]}, m)
	require.Equal(t, b[first:], rest)
	kind, data, attributes, ok := SplitAttribute(m.Data[4:])
	require.True(t, ok)
	require.Equal(t, []any{uint16(9), []byte{0xFF}}, []any{kind, data})
	kind, data, attributes, ok = SplitAttribute(attributes)
	require.True(t, ok)
	require.Equal(t, []any{uint16(2), 0, 0}, []any{kind, len(data), len(attributes)})
	_, _, _, ok = SplitAttribute(attributes)
	require.False(t, ok)
	m, rest, ok = SplitMessage(rest)
	require.True(t, ok)
	require.Equal(t, []any{uint16(3), []byte{1}, 0}, []any{m.Type, m.Data, len(rest)})

	for n := range first {
		_, _, ok = SplitMessage(b[:n])
		require.Equal(t, n >= 32, ok, n)
	}
	ne.PutUint32(b, 15) // shorter than its header: no message, and no endless loop
	_, _, ok = SplitMessage(b)
	require.False(t, ok)
	for _, n := range []uint16{0, 3, 6, 0xFFFF} {
		_, _, _, ok = SplitAttribute(append(ne.AppendUint16(nil, n), 0, 0, 1))
		require.False(t, ok, n)
	}
}

// Cut returns the appended message.
func TestAppend(t *testing.T) {
	data := AppendAttribute(AppendAttribute(nil, 3, 1, 2, 3, 4, 5), 4)
	require.Len(t, data, 16)
	b := AppendMessage(nil, Message{Type: 9, Flags: 5, Sequence: 3, Data: data})
	m, rest, ok := SplitMessage(b)
	require.True(t, ok)
	require.Empty(t, rest)
	require.Equal(t, Message{Type: 9, Flags: 5, Sequence: 3, Data: data}, m)
	kind, value, data, ok := SplitAttribute(data)
	require.True(t, ok)
	require.Equal(t, []any{uint16(3), []byte{1, 2, 3, 4, 5}}, []any{kind, value})
	kind, value, data, ok = SplitAttribute(data)
	require.Equal(t, []any{true, uint16(4), 0, 0}, []any{ok, kind, len(value), len(data)})
}

// For any octets, Cut ends and returns parts of them.
func FuzzCut(f *testing.F) {
	inner := AppendAttribute(AppendAttribute([]byte{10, 0, 0, 3}, 3, 1, 2, 3, 4, 5), 4)
	f.Add(AppendMessage(AppendMessage(nil, Message{Type: 9, Data: inner}), Message{Type: 3, Data: []byte{1}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		octets := 0
		for m, rest, ok := SplitMessage(b); ok; m, rest, ok = SplitMessage(rest) {
			octets += headerSize + len(m.Data)
			attributes := 0
			for _, data, rest, ok := SplitAttribute(m.Data); ok; _, data, rest, ok = SplitAttribute(rest) {
				attributes += attributeSize + len(data)
				require.True(t, bytes.Contains(m.Data, data))
			}
			require.LessOrEqual(t, attributes, len(m.Data))
		}
		require.LessOrEqual(t, octets, len(b))
	})
}

// Losses by number and overrun: the loss that an overrun has counted is part of the next gap.
func TestLosses(t *testing.T) {
	var l Losses
	for _, c := range []struct {
		number int64 // -1: an overrun
		total  uint64
	}{
		{7, 0}, {8, 0}, {10, 1}, {11, 1}, // one missing
		{-1, 2}, {-1, 2}, {12, 2}, {13, 2}, {16, 3}, // two missing, one of them already counted
		{-1, 4}, {18, 4}, {19, 4}, // the one that was counted
		{22, 6}, {20, 5}, {21, 4}, {23, 4}, // late
		{1000, 980}, {5, 980}, {6, 980}, {8, 981}, // begun again
		{0xFFFFFF00, 981}, {0xFFFFFF01, 981}, // and again
		{0xFFFFFF00, 981}, {0xFFFFFF01, 981}, {0xFFFFFF03, 982}, // and soon again
	} {
		if c.number < 0 {
			l.Overrun()
		} else {
			l.Number(uint32(c.number))
		}
		require.Equal(t, c.total, l.Total(), c.number)
	}
	l = Losses{}
	for _, c := range []struct {
		number uint32
		total  uint64
	}{
		{0xFFFFFFFF, 0}, {0, 0}, {2, 1}, {1, 0}, {0xFFFFFFF0, 0}, {3, 0}, // around the end
	} {
		l.Number(c.number)
		require.Equal(t, c.total, l.Total(), c.number)
	}
}
