package pause

import (
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

func TestText(t *testing.T) {
	for i, text := range []string{"running", "stopped", "held", "alarmed"} {
		got := wiretest.Must(State(i).MarshalText())(t)
		require.Equal(t, text, string(got))
		v := State(0xFF)
		require.NoError(t, v.UnmarshalText(got))
		require.Equal(t, State(i), v)
		require.Error(t, v.UnmarshalText([]byte("none of them")))
		require.Equal(t, State(i), v, "unchanged")
	}
}
