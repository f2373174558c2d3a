package qpmap

import (
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

func TestText(t *testing.T) {
	for i, text := range []string{"unknown", "cm", "votes", "ud", "given"} {
		got := wiretest.Must(Basis(i).MarshalText())(t)
		require.Equal(t, text, string(got))
		v := Basis(0xFF)
		require.NoError(t, v.UnmarshalText(got))
		require.Equal(t, Basis(i), v)
		require.Error(t, v.UnmarshalText([]byte("none of them")))
		require.Equal(t, Basis(i), v, "unchanged")
	}
}
