package fastcnp

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOriginText(t *testing.T) {
	for v, want := range []string{"network", "receiver", "Origin(2)"} {
		require.Equal(t, want, Origin(v).String())
	}
}
