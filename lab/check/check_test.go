package check

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// The quick checks are within their bounds.
func TestQuick(t *testing.T) {
	for _, c := range All() {
		if !c.Quick {
			continue
		}
		t.Run(c.ID, func(t *testing.T) {
			t.Parallel()
			rows, err := c.Run()
			require.NoError(t, err)
			require.NotEmpty(t, rows)
			for _, r := range rows {
				if !r.OK() {
					var table bytes.Buffer
					require.NoError(t, Print(&table, rows))
					t.Fatalf("%s: %s\n%s", r.Check, r.What, &table)
				}
			}
		})
	}
}
