package host

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// A recorded folder cannot make the command wait, nor lead it out of the folder, nor fill the memory.
func TestHostileFolder(t *testing.T) {
	files := maps.Clone(rxe)
	hw := "sys/class/infiniband/rxe0/ports/1/hw_counters/"
	files[hw+"long"] = strings.Repeat("1", 100000)
	for i := range 2000 {
		files[fmt.Sprintf("%sz%04d", hw, i)] = "1"
	}
	secret := wiretest.File(t, "secret", "4711")
	dir := folder(t, files)
	require.NoError(t, os.Symlink(secret, filepath.Join(dir, hw, "a_link")))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, hw, "a_pipe"), 0o644))
	status, out, stderr := run(t, "-root", dir)
	require.Zero(t, status, stderr)
	got := parseOne(t, out).Ports[0].HW
	require.Len(t, got, maxCounters-5, "without a_link, a_pipe, completer_retry_err, lifespan and long")
	require.NotContains(t, got, "a_link")
	require.NotContains(t, got, "long")
}
