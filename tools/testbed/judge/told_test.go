package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// fastcnp.pcap has Fast CNPs to 2001:db8:1::a, which tshark shows, and no CNP.
func TestTold(t *testing.T) {
	pcap, err := os.ReadFile("../../../testdata/fastcnp.pcap")
	require.NoError(t, err)
	for told, want := range map[string]string{
		"":                                     "",
		"2001:db8:1::a fastcnp\n":              "",
		"2001:db8:1::a cnp\n":                  "2001:db8:1::a got no cnp",
		"2001:db8:1::a fastcnp\n::b fastcnp\n": "::b got no fastcnp",
		"2001:db8:1::a letter\n":               `message: kind: there is none that is called "letter"`,
	} {
		c := testCase{folder: t.TempDir()}
		require.NoError(t, os.WriteFile(filepath.Join(c.folder, "before.pcap"), pcap, 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(c.folder, "told"), []byte(told), 0o600))
		err := c.checkTold()
		if want == "" {
			require.NoError(t, err, told)
		} else {
			require.EqualError(t, err, want, told)
		}
	}
}
