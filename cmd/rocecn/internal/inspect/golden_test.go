package inspect

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// TestPackets prints the packets of testdata/packets.golden. The first lines of the file explain its format.
func TestPackets(t *testing.T) {
	golden := filepath.Join("testdata", "packets.golden")
	cases := strings.Split(string(wiretest.Must(os.ReadFile(golden))(t)), "\n== ")
	for i, c := range cases[1:] {
		rows := append(strings.Split(strings.TrimRight(c, "\n"), "\n"), "", "")
		t.Run(rows[0], func(t *testing.T) {
			link, octets := uint32(capture.Raw), []byte(nil)
			switch source, digits, _ := strings.Cut(rows[1], " "); source {
			case "options":
				octets = withOptions(t, digits)
			case "frame":
				link, octets = capture.Ethernet, wiretest.Hex(t, digits)
			default:
				require.Equal(t, "packet", source)
				octets = wiretest.Hex(t, digits)
			}
			file := capturing(link, octets)
			object, _, status := inspect(file, "-json", "-")
			require.Zero(t, status)
			text, _, status := inspect(file, "-all", "-")
			require.Zero(t, status)
			if *update {
				cases[i+1] = rows[0] + "\n" + rows[1] + "\n" + object + text
				return
			}
			require.Equal(t, rows[2]+"\n", object)
			require.Equal(t, rows[3]+"\n", text)
		})
	}
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(strings.Join(cases, "\n== ")), 0o644))
	}
}
