//go:build !linux

package wiretest

import "testing"

// FullDevice returns the name of a device that accepts no octet; only Linux has one.
func FullDevice(t testing.TB) string {
	t.Helper()
	Missing(t, "there is no device that is always full")
	return ""
}
