package rocev2

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Every value is read back from its text; other texts are errors.
func TestText(t *testing.T) {
	for v := range 256 {
		text, err := LinkType(v).MarshalText()
		require.NoError(t, err)
		var got LinkType
		require.NoError(t, got.UnmarshalText(text))
		require.Equal(t, LinkType(v).String(), got.String())
		require.Error(t, got.UnmarshalText([]byte("no link type")))
		require.Equal(t, LinkType(v).String(), got.String(), "unchanged")
	}
}

// The names of RFC 3168, by the values of the field.
func TestECNText(t *testing.T) {
	for v, want := range []string{"not_ect", "ect1", "ect0", "ce", "ECN(4)"} {
		require.Equal(t, want, ECN(v).String())
	}
}
