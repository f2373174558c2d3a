package wiretest

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// FullDevice returns the name of a device that accepts no octet, as a disk that is full. As root it makes one of its
// own, so that a program that replaces or removes it does not do so to that of the machine.
func FullDevice(t testing.TB) string {
	t.Helper()
	if os.Geteuid() != 0 {
		return "/dev/full"
	}
	name := filepath.Join(t.TempDir(), "full")
	// major number 1, minor number 7
	if err := syscall.Mknod(name, syscall.S_IFCHR|0o600, 1<<8|7); err != nil {
		Missing(t, "a device cannot be made: "+err.Error())
	}
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		Missing(t, "devices cannot be used in the temporary folder: "+err.Error())
	}
	f.Close()
	return name
}
