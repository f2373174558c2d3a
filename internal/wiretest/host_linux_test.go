package wiretest

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestHostEnds ends the goroutine of a host as t.Fatal does. The callers must get an error instead of waiting.
func TestHostEnds(t *testing.T) {
	h := NewHost(t, "host")
	require.ErrorIs(t, h.Try(func() error { runtime.Goexit(); return nil }), errHostEnded)
	require.ErrorIs(t, h.Try(func() error { return nil }), errHostEnded)
}
