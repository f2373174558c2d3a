package flows

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The check that files are readable does not open pipes, as that would wait for a writer.
func TestMissingOpensNoPipe(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(name, 0o600))
	result := make(chan error, 1)
	go func() { result <- checkReadable(name) }()
	select {
	case err := <-result:
		require.NoError(t, err)
	case <-time.After(30 * time.Second):
		t.Fatal("it was opened")
	}
}
