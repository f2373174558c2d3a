package ipv6opt

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
)

// list returns the options of a header as "type@offset:data", in the order of All.
func list(h *Header) (options []string, err error) {
	for o, err := range h.All() {
		if err != nil {
			return append(options, fmt.Sprintf("%v@%d", o.Type, o.Offset)), err
		}
		options = append(options, fmt.Sprintf("%v@%d:%x", o.Type, o.Offset, o.Data))
	}
	return options, nil
}

func TestOptionsInTheirOrder(t *testing.T) {
	for _, c := range []struct {
		header  string
		next    uint8
		options []string
	}{
		{"3b 00 01 04 00000000", 59, []string{"PadN@2:00000000"}},
		{"11 00 00 00 00 00 00 00", 17, []string{"Pad1@2:", "Pad1@3:", "Pad1@4:", "Pad1@5:", "Pad1@6:", "Pad1@7:"}},
		{"3a 00 05 02 0000 01 00", 58, []string{"0x05@2:0000", "PadN@6:"}},
		{"11 00 1e 03 a1a2a3 00", 17, []string{"0x1e@2:a1a2a3", "Pad1@7:"}},
		{"06 01 c2 04 00010000 9e 05 a1a2a3a4a5 00", 6, []string{"0xc2@2:00010000", "0x9e@8:a1a2a3a4a5", "Pad1@15:"}},
		{"11 02 9e 10 20010db800040000000000000000000e 01 02 00 00", 17,
			[]string{"0x9e@2:20010db800040000000000000000000e", "PadN@20:0000"}},
	} {
		b := wiretest.Hex(t, c.header)
		var h Header
		rest, err := h.Decode(append(b, 0xEE))
		require.NoError(t, err, c.header)
		require.Equal(t, []byte{0xEE}, rest, c.header)
		require.Equal(t, c.next, h.NextHeader, c.header)
		options, err := list(&h)
		require.NoError(t, err, c.header)
		require.Equal(t, c.options, options, c.header)
		wiretest.Encodes(t, b, h.AppendBinary)
		wiretest.Prefixes(t, b, func(b []byte) error { _, err := h.Decode(b); return err })
	}
}

func TestOptionThatOverrunsItsHeader(t *testing.T) {
	for _, c := range []struct {
		header  string
		options []string
	}{
		{"11 00 1e 05 a1a2a3a4", []string{"0x1e@2"}},
		{"11 00 01 05 00000000", []string{"PadN@2"}},
		{"11 00 1e 03 a1a2a3 1e", []string{"0x1e@2:a1a2a3", "0x1e@7"}},
		{"11 00 05 02 0000 9e ff", []string{"0x05@2:0000", "0x9e@6"}},
	} {
		var h Header
		_, err := h.Decode(wiretest.Hex(t, c.header+"ffff"))
		require.NoError(t, err, "%s: decoding checks only the length of the header", c.header)
		options, err := list(&h)
		require.Equal(t, ErrOverrun, err, c.header)
		require.Equal(t, c.options, options, c.header)
		_, _, err = h.Find(0x99)
		require.Equal(t, ErrOverrun, err, c.header)
	}
}

func TestFind(t *testing.T) {
	h := Header{Options: wiretest.Hex(t, "00 1e 01 a1  9e 02 b1b2 1e 01 c1 00 00 77 09")}
	o, ok, err := h.Find(0x1E)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, Option{Type: 0x1E, Offset: 3, Data: []byte{0xA1}}, o, "the first of two")

	o, ok, err = h.Find(0x9E)
	require.NoError(t, err)
	require.True(t, ok)
	require.EqualValues(t, 2, o.Offset%4)

	_, ok, err = h.Find(0x42)
	require.Equal(t, ErrOverrun, err, "the last option is invalid and could be the wanted one")
	require.False(t, ok)

	h.Options = h.Options[:11]
	_, ok, err = h.Find(0x42)
	require.NoError(t, err)
	require.False(t, ok)
}

func TestDecodeLeavesTheReceiverAloneOnError(t *testing.T) {
	want := Header{NextHeader: 6, Options: []byte{1, 4, 0, 0, 0, 0}}
	for _, b := range [][]byte{nil, {17, 0, 1, 4, 0, 0, 0}, {17, 1, 1, 4, 0, 0, 0, 0}, make([]byte, 7)} {
		h := want
		rest, err := h.Decode(b)
		require.Error(t, err)
		require.Nil(t, rest)
		require.Equal(t, want, h)
	}
}

func TestHeaderLengthMustFitHdrExtLen(t *testing.T) {
	for n := range MaxLen + 16 {
		h := Header{Options: make([]byte, n)}
		b, err := h.AppendBinary([]byte{0xA5})
		if (n+2)%8 == 0 && n+2 <= MaxLen {
			require.NoError(t, err)
			require.Equal(t, int(b[2])*8+8, n+2)
		} else {
			require.Equal(t, errHeaderLen, err, n)
			require.Equal(t, []byte{0xA5}, b)
		}
	}
}

// The options of the captures are those of tshark.
func TestOptionsInCaptures(t *testing.T) {
	for _, c := range []struct {
		capture string
		packet  int
		types   []string
	}{
		{"ioam-linux618-hpcc.pcap", 1, []string{"PadN@2 0", "0x31@4 70", "PadN@76 2"}},
		{"ioam-linux618-overflow.pcap", 1, []string{"PadN@2 0", "0x31@4 50"}},
		{"ioam-linux618-two.pcap", 1, []string{"PadN@2 0", "0x11@4 10", "0x31@16 34", "PadN@52 2"}},
		{"ioam-linux618-dex.pcap", 1, []string{"PadN@2 0", "0x11@4 18"}},
		{"ioam-linux618-dstopt-unknown-actions.pcap", 1, []string{"PadN@2 0", "0x9e@4 18"}},
	} {
		t.Run(c.capture, func(t *testing.T) {
			p := wiretest.Capture(t, c.capture)[c.packet-1]
			var h Header
			_, err := h.Decode(p.Data[14+40:])
			require.NoError(t, err)
			var types []string
			for o, err := range h.All() {
				require.NoError(t, err)
				types = append(types, fmt.Sprintf("%v@%d %d", o.Type, o.Offset, len(o.Data)))
			}
			require.Equal(t, c.types, types)
		})
	}
}

func TestReadingDoesNotAllocate(t *testing.T) {
	good := wiretest.Hex(t, "11 02 9e 10 20010db800040000000000000000000e 01 02 00 00")
	broken := wiretest.Hex(t, "11 00 1e 05 a1a2a3a4")
	buf := make([]byte, 0, 64)
	for _, b := range [][]byte{good, broken, good[:23], nil} {
		wiretest.NoAllocs(t, fmt.Sprintf("reading %x", b), func() {
			var h Header
			h.Decode(b)
			for o, err := range h.All() {
				sink += len(o.Data)
				_ = err
			}
			h.Find(0x31)
			Limits{}.Check(&h)
			h.AppendBinary(buf)
		})
	}
}

var sink int

func TestLimits(t *testing.T) {
	option := "1e 00 "
	for _, c := range []struct {
		name    string
		options string
		limits  Limits
		err     error
	}{
		{"8 options", strings.Repeat(option, 8), Limits{}, nil},
		{"9 options", strings.Repeat(option, 9), Limits{}, errOptionLimit},
		{"9 options allowed", strings.Repeat(option, 9), Limits{MaxOptions: 9}, nil},
		{"padding is not counted as options", strings.Repeat(option+"00", 8), Limits{}, nil},
		{"7 Pad1", strings.Repeat("00", 7), Limits{}, nil},
		{"8 Pad1", strings.Repeat("00", 8), Limits{}, errPaddingLimit},
		{"PadN of 7", "01 05 0000000000", Limits{}, nil},
		{"PadN of 8", "01 06 000000000000", Limits{}, errPaddingLimit},
		{"8 octets in a row, Pad1 and PadN", "00 01 03 000000 01 00", Limits{}, errPaddingLimit},
		{"8 octets in two runs", "01 02 0000 1e 00 01 02 0000", Limits{}, nil},
		{"smaller limit", "01 02 0000", Limits{MaxPadding: 3}, errPaddingLimit},
		{"broken option", "1e 01", Limits{}, ErrOverrun},
		{"no options at all", "", Limits{}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := Header{Options: wiretest.Hex(t, c.options)}
			require.Equal(t, c.err, c.limits.Check(&h))
		})
	}
}

func TestTypeBits(t *testing.T) {
	for _, c := range []struct {
		typ       Type
		action    Action
		mayChange bool
		text      string
		meaning   string
	}{
		{0x00, ActionSkip, false, "Pad1", "skip"},
		{0x01, ActionSkip, false, "PadN", "skip"},
		{0x11, ActionSkip, false, "0x11", "skip"},
		{0x31, ActionSkip, true, "0x31", "skip"},
		{0x5E, ActionDiscard, false, "0x5e", "discard"},
		{0x9E, ActionDiscardICMP, false, "0x9e", "discard, send ICMP"},
		{0xC2, ActionDiscardICMPUnlessMulticast, false, "0xc2", "discard, send ICMP unless multicast"},
		{0xFE, ActionDiscardICMPUnlessMulticast, true, "0xfe", "discard, send ICMP unless multicast"},
	} {
		require.Equal(t, c.action, c.typ.Action(), c.text)
		require.Equal(t, c.mayChange, c.typ.MayChange(), c.text)
		require.Equal(t, c.typ < 2, c.typ.IsPadding(), c.text)
		require.Equal(t, c.text, c.typ.String())
		require.Equal(t, c.meaning, c.typ.Action().String())
	}
	require.Equal(t, "Action(4)", Action(4).String())
}
