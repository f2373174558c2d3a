package proxymsg

import (
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// Every value is read back from its text; other texts are errors.
func TestText(t *testing.T) {
	for v := range 256 {
		text := wiretest.Must(Family(v).MarshalText())(t)
		var got Family
		require.NoError(t, got.UnmarshalText(text))
		require.Equal(t, Family(v).String(), got.String())
		require.Error(t, got.UnmarshalText([]byte("no family")))
		require.Equal(t, Family(v).String(), got.String(), "unchanged")
	}
}
