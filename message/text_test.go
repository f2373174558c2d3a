package message

import (
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// Every value is read back from its text; other texts are errors.
func TestText(t *testing.T) {
	for v := range 256 {
		text := wiretest.Must(Kind(v).MarshalText())(t)
		var got Kind
		require.NoError(t, got.UnmarshalText(text))
		require.Equal(t, Kind(v).String(), got.String())
		require.Error(t, got.UnmarshalText([]byte("no kind")))
		require.Equal(t, Kind(v).String(), got.String(), "unchanged")
	}
}

func TestReachText(t *testing.T) {
	for v, want := range []string{"nothing", "UDP", "transport", "Reach(3)"} {
		require.Equal(t, want, Reach(v).String())
	}
}
