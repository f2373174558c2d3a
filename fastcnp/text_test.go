package fastcnp

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Every value is read back from its text; other texts are errors.
func TestText(t *testing.T) {
	for v := range 256 {
		text, err := Origin(v).MarshalText()
		require.NoError(t, err)
		var got Origin
		require.NoError(t, got.UnmarshalText(text))
		require.Equal(t, Origin(v).String(), got.String())
		require.Error(t, got.UnmarshalText([]byte("no origin")))
		require.Equal(t, Origin(v).String(), got.String(), "unchanged")
	}
}
