package rocev2

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLinkTypeText(t *testing.T) {
	for v, want := range []string{"ethernet", "ip", "sll", "sll2", "null", "loop", "LinkType(6)"} {
		require.Equal(t, want, LinkType(v).String())
	}
}

// The names of RFC 3168, by the values of the field.
func TestECNText(t *testing.T) {
	for v, want := range []string{"not_ect", "ect1", "ect0", "ce", "ECN(4)"} {
		require.Equal(t, want, ECN(v).String())
	}
}
