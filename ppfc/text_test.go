package ppfc

import (
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// Every value is read back from its text; other texts are errors.
func TestText(t *testing.T) {
	for v := range 256 {
		text := wiretest.Must(Type(v).MarshalText())(t)
		var got Type
		require.NoError(t, got.UnmarshalText(text))
		require.Equal(t, Type(v).String(), got.String())
		require.Error(t, got.UnmarshalText([]byte("no type")))
		require.Equal(t, Type(v).String(), got.String(), "unchanged")
	}
}
