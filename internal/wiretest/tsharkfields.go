package wiretest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TsharkFields is [Tshark] with fields that are not in the lists, for a test of
// its own kind of frame.
func TsharkFields(t testing.TB, fields []string, frames ...[]byte) []Row {
	t.Helper()
	return TsharkAs(t, nil, fields, frames...)
}

// TsharkAs is [TsharkFields] with rules, as in "mpls.label==16,pwethcw", for
// what no frame says of itself.
func TsharkAs(t testing.TB, rules, fields []string, frames ...[]byte) []Row {
	t.Helper()
	tshark := Tool(t, "tshark")
	capture := written(t, frames)
	args := []string{"-n", "-r", capture, "-o", "infiniband.rroce.port:4791",
		"-T", "fields", "-E", "header=y", "-E", "separator=/t", "-E", "occurrence=a", "-E", "aggregator=,"}
	for _, rule := range rules {
		args = append(args, "-d", rule)
	}
	for _, field := range fields {
		args = append(args, "-e", field)
	}
	cmd := exec.Command(tshark, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "TZ=UTC", "WIRESHARK_CONFIG_DIR="+filepath.Dir(capture))
	return rowsOf(t, cmd, len(frames))
}
