package wiretest

import (
	"os"
	"strings"
	"testing"
)

// NotInKernel ends a test after the kernel rejected an operation for lack of an option of its
// configuration, as in CONFIG_GENEVE. The test is skipped, in CI too, if the configuration shows
// that the kernel was built without the option: no installable tool could provide it. Otherwise the
// test ends as [Missing] describes.
func NotInKernel(t testing.TB, option, reason string) {
	t.Helper()
	if config, ok := kernelConfig(); ok && !builtWith(config, option) {
		t.Skipf("this kernel was built without %s: %s", option, reason)
	}
	Missing(t, reason+"; the kernel's configuration does not say that it lacks "+option)
}

// builtWith reports whether a kernel's configuration has an option, built in or as a module.
func builtWith(config, option string) bool {
	for line := range strings.Lines(config) {
		if line = strings.TrimSpace(line); line == option+"=y" || line == option+"=m" {
			return true
		}
	}
	return false
}

// kernelConfig returns the configuration of the running kernel, from where Linux
// or its distribution keeps it.
func kernelConfig() (config string, ok bool) {
	if b, err := os.ReadFile("/proc/config.gz"); err == nil {
		b, err = unpack(b)
		return string(b), err == nil
	}
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return "", false
	}
	b, err := os.ReadFile("/boot/config-" + strings.TrimSpace(string(release)))
	return string(b), err == nil
}
