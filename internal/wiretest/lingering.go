package wiretest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Lingering returns lines of a shell script that waits until the test has ended. If the shell ends
// earlier, the programs that it started run until then, and keep its output open.
func Lingering(t testing.TB) string {
	t.Helper()
	hold := filepath.Join(t.TempDir(), "hold")
	if err := exec.Command("mkfifo", hold).Run(); err != nil {
		t.Fatal(err)
	}
	held, err := os.OpenFile(hold, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { held.Close() })
	return "cat " + hold + "\n:\n"
}
