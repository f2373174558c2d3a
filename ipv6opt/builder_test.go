package ipv6opt

import (
	"bytes"
	"cmp"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
)

func TestBuiltHeaders(t *testing.T) {
	address := wiretest.Hex(t, "20010db800040000000000000000000e")
	for _, c := range []struct {
		name string
		add  func(w *Builder) error
		want string
	}{
		{"no option", func(*Builder) error { return nil },
			"11 00 01 04 00000000"},
		{"an address at 4n+2", func(w *Builder) error { return w.Add(0x9E, 4, 2, address) },
			"11 02 9e 10 20010db800040000000000000000000e 01 02 0000"},
		{"one octet to pad", func(w *Builder) error { return w.Add(0x1E, 1, 0, []byte{1, 2, 3}) },
			"11 00 1e 03 010203 00"},
		{"nothing to pad", func(w *Builder) error { return w.Add(0x1E, 2, 0, []byte{1, 2, 3, 4}) },
			"11 00 1e 04 01020304"},
		{"seven octets to pad", func(w *Builder) error { return w.Add(0x1E, 2, 0, []byte{1, 2, 3, 4, 5}) },
			"11 01 1e 05 0102030405 01 05 0000000000"},
		{"jumbo payload, 4n+2, after router alert, 2n", func(w *Builder) error {
			return cmp.Or(w.Add(0x05, 2, 0, []byte{0, 0}), w.Add(0xC2, 4, 2, []byte{0, 1, 0, 0}))
		}, "11 01 05 02 0000 c2 04 00010000 01 02 0000"},
		{"one octet in front", func(w *Builder) error {
			return cmp.Or(w.Add(0x1E, 1, 0, []byte{7}), w.Add(0x3E, 2, 0, nil))
		}, "11 00 1e 01 07 00 3e 00"},
		{"reserved and filled in place", func(w *Builder) error {
			data, err := w.Reserve(0x1E, 8, 4, 6)
			copy(data, "abc")
			return err
		}, "11 01 01 00 1e 06 616263000000 01 02 0000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			wiretest.Encodes(t, wiretest.Hex(t, c.want), func(b []byte) ([]byte, error) {
				w := Begin(b, 17)
				err := c.add(&w)
				return w.Finish(), err
			})
		})
	}
}

// Two options of each relevant length and alignment are at their places, and the
// padding follows the rules.
func TestEveryLengthAndAlignment(t *testing.T) {
	data := bytes.Repeat([]byte{0xDA}, 255)
	for first := range 9 {
		for second := range 18 {
			for _, x := range []int{1, 2, 4, 8} {
				for y := range x {
					w := Begin([]byte{0xA5}, 60)
					require.NoError(t, w.Add(0x1E, 1, 0, data[:first]))
					require.NoError(t, w.Add(0x3E, x, y, data[:second]))
					b := w.Finish()
					at := fmt.Sprintf("%d and %d octets, %dn+%d: %x", first, second, x, y, b)

					var h Header
					rest, err := h.Decode(b[1:])
					require.NoError(t, err, at)
					require.Empty(t, rest, at)
					require.NoError(t, Limits{}.Check(&h), at)
					var found []Type
					for o, err := range h.All() {
						require.NoError(t, err, at)
						if o.Type.IsPadding() {
							require.Equal(t, make([]byte, len(o.Data)), append([]byte{}, o.Data...), at)
							continue
						}
						found = append(found, o.Type)
						if o.Type == 0x3E {
							require.Equal(t, y, int(o.Offset)%x, at)
							require.Equal(t, data[:second], o.Data, at)
							end := int(o.Offset) + 2 + second
							require.Less(t, len(b)-1-end, 8, "%s: no more padding than needed", at)
						}
					}
					require.Equal(t, []Type{0x1E, 0x3E}, found, at)
				}
			}
		}
	}
}

func TestBuilderRejects(t *testing.T) {
	full := func() Builder { // 2042 octets: space for an option with 4 octets of data
		w := Begin(nil, 17)
		for range 7 {
			require.NoError(t, w.Add(0x1E, 1, 0, make([]byte, 255)))
		}
		require.NoError(t, w.Add(0x1E, 1, 0, make([]byte, 239)))
		return w
	}
	for _, c := range []struct {
		name string
		w    Builder
		typ  Type
		x, y int
		n    int
		err  error
	}{
		{"255 octets", Begin(nil, 17), 0x1E, 1, 0, 255, nil},
		{"256 octets", Begin(nil, 17), 0x1E, 1, 0, 256, errDataLen},
		{"a full header", full(), 0x1E, 1, 0, 4, nil},
		{"one octet too many", full(), 0x1E, 1, 0, 5, errTooLong},
		{"one octet of lead padding too many", full(), 0x1E, 4, 3, 4, errTooLong},
		{"Pad1", Begin(nil, 17), Pad1, 1, 0, 0, errPadding},
		{"PadN", Begin(nil, 17), PadN, 1, 0, 2, errPadding},
		{"3n", Begin(nil, 17), 0x1E, 3, 0, 1, errAlignment},
		{"0n", Begin(nil, 17), 0x1E, 0, 0, 1, errAlignment},
		{"16n", Begin(nil, 17), 0x1E, 16, 0, 1, errAlignment},
		{"4n+4", Begin(nil, 17), 0x1E, 4, 4, 1, errAlignment},
		{"4n-1", Begin(nil, 17), 0x1E, 4, -1, 1, errAlignment},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := c.w
			before := len(w.b)
			require.Equal(t, c.err, w.Add(c.typ, c.x, c.y, make([]byte, c.n)))
			if c.err != nil {
				require.Len(t, w.b, before, "%s: nothing is added", c.name)
				data, err := w.Reserve(c.typ, c.x, c.y, c.n)
				require.Equal(t, c.err, err)
				require.Nil(t, data)
			}
			require.Zero(t, len(w.Finish())%8)
			require.LessOrEqual(t, len(w.b), MaxLen)
		})
	}
	w := Begin(nil, 17)
	_, err := w.Reserve(0x1E, 1, 0, -1)
	require.Equal(t, errDataLen, err)
}

func TestBuildingDoesNotAllocate(t *testing.T) {
	buf, data := make([]byte, 0, 512), make([]byte, 256)
	wiretest.NoAllocs(t, "building a header", func() {
		w := Begin(buf, 17)
		w.Add(0x1E, 4, 2, data[:16])
		w.Add(0x1E, 3, 2, data[:16])
		w.Add(0x1E, 4, 2, data)
		into, _ := w.Reserve(0x31, 8, 7, 20)
		into[0] = 1
		w.Finish()
	})
}

// The zero value begins a header.
func TestZeroBuilder(t *testing.T) {
	var w Builder
	require.Equal(t, wiretest.Hex(t, "0000 0104 00000000"), w.Finish())
	w = Builder{}
	require.NoError(t, w.Add(0x1E, 4, 2, []byte{7}))
	require.Equal(t, wiretest.Hex(t, "0000 1e01 07 0101 00"), w.Finish())
}

// The octets before the header do not affect it.
func TestBuilderAfterOctets(t *testing.T) {
	for _, n := range []int{0, 1, 7, 8, 20, 100} {
		w := Begin(make([]byte, n), 17)
		require.NoError(t, w.Add(0x1E, 4, 2, []byte{7}))
		require.Equal(t, wiretest.Hex(t, "1100 1e01 07 0101 00"), w.Finish()[n:], n)
	}
}
