package icrc

import (
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// Every value is read back from its text; other texts are errors.
func TestText(t *testing.T) {
	for v := range 256 {
		text := wiretest.Must(Coverage(v).MarshalText())(t)
		var got Coverage
		require.NoError(t, got.UnmarshalText(text))
		require.Equal(t, Coverage(v).String(), got.String())
		require.Error(t, got.UnmarshalText([]byte("no coverage")))
		require.Equal(t, Coverage(v).String(), got.String(), "unchanged")
	}
}
