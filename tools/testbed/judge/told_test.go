package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// fastcnp.pcap has Fast CNPs to 2001:db8:1::a, which tshark shows, and no CNP.
func TestTold(t *testing.T) {
	pcap := wiretest.Must(os.ReadFile("../../../testdata/fastcnp.pcap"))(t)
	for _, row := range []struct{ name, want string }{
		{"", ""},
		{"2001:db8:1::a fastcnp\n", ""},
		{"2001:db8:1::a cnp\n", "2001:db8:1::a got no cnp"},
		{"2001:db8:1::a fastcnp\n::b fastcnp\n", "::b got no fastcnp"},
		{"2001:db8:1::a letter\n", `message: kind: "letter": want other, error, data, ack, cnp, ` +
			`fastcnp, ppfc, fcn, proxy, pfc, pause or unknown_option`},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := testCase{folder: t.TempDir()}
			require.NoError(t, os.WriteFile(filepath.Join(c.folder, "before.pcap"), pcap, 0o600))
			require.NoError(t, os.WriteFile(filepath.Join(c.folder, "told"), []byte(row.name), 0o600))
			err := c.checkTold()
			if row.want == "" {
				require.NoError(t, err)
			} else {
				require.EqualError(t, err, row.want)
			}
		})
	}
}
