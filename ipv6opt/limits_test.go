package ipv6opt

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
)

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
