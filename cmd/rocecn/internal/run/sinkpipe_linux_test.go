package run

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A pipe without a reader is rejected immediately.
func TestSinkPipe(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(name, 0o600))
	require.ErrorIs(t, trySink(&captureSink{File: name}), syscall.ENXIO)
	_, err := openCapture(name, nil)
	require.ErrorIs(t, err, syscall.ENXIO)
}
