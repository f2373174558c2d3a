package qpmap

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestText(t *testing.T) {
	for i, text := range []string{"unknown", "cm", "votes", "ud", "given"} {
		got, err := Basis(i).MarshalText()
		require.NoError(t, err)
		require.Equal(t, text, string(got))
		v := Basis(0xFF)
		require.NoError(t, v.UnmarshalText(got))
		require.Equal(t, Basis(i), v)
		require.Error(t, v.UnmarshalText([]byte("none of them")))
		require.Equal(t, Basis(i), v, "unchanged")
	}
}
