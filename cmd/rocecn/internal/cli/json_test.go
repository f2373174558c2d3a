package cli

import (
	"bytes"
	"encoding/json"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Characters that a terminal may interpret are escaped, and the values stay.
func TestNewJSON(t *testing.T) {
	for _, row := range []struct{ name, value, want string }{
		{"ASCII", "a\x1b", `"a\u001b"`},
		{"printable", "Zürich 東京", `"Zürich 東京"`},
		{"C1", "a\u009b31m", `"a\u009b31m"`},
		{"bidirectional", "ab\u202ecd\u2066\u200f", `"ab\u202ecd\u2066\u200f"`},
		{"above 16 bits", "\U000e0041é", `"\udb40\udc41é"`},
		{"octets that are no text", "a\xff", `"a\ufffd"`},
	} {
		t.Run(row.name, func(t *testing.T) {
			var out bytes.Buffer
			require.NoError(t, NewJSON(&out).Encode(row.value))
			require.Equal(t, row.want+"\n", out.String())
			var got, plain string
			require.NoError(t, json.Unmarshal(out.Bytes(), &got))
			octets, err := json.Marshal(row.value)
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(octets, &plain))
			require.Equal(t, plain, got)
		})
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// Encode returns the error of the writer.
func TestJSONNotWritten(t *testing.T) {
	require.ErrorIs(t, NewJSON(fullDisk{}).Encode("a"), syscall.ENOSPC)
	require.ErrorIs(t, NewJSON(fullDisk{}).Encode("a\u009b"), syscall.ENOSPC)
}
