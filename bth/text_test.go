package bth

import (
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// Every value is read back from its text; other texts are errors.
func TestText(t *testing.T) {
	for v := range 256 {
		text := wiretest.Must(Opcode(v).MarshalText())(t)
		var got Opcode
		require.NoError(t, got.UnmarshalText(text))
		require.Equal(t, Opcode(v).String(), got.String())
		require.Error(t, got.UnmarshalText([]byte("no opcode")))
		require.Equal(t, Opcode(v).String(), got.String(), "unchanged")
	}
}

func TestTransportText(t *testing.T) {
	for v, want := range []string{"RC", "UC", "RD", "UD", "CNP", "XRC", "Transport(6)"} {
		require.Equal(t, want, Transport(v).String())
	}
}
