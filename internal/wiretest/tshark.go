package wiretest

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Row is the result of tshark for one packet. testdata/tshark/README.md lists the fields and the
// meaning of their values. A field that the row does not have, not even empty, is a mistake in the
// test, and panics.
type Row struct {
	columns map[string]int
	values  []string
}

// Has reports whether the packet has the field.
func (r Row) Has(field string) bool { return r.value(field) != "" }

// All returns the values of a field that stands more than once, in the order
// of the octets; none when the packet does not have it.
func (r Row) All(field string) []string {
	v := r.value(field)
	if v == "" {
		return nil
	}
	return strings.Split(v, ",")
}

// Get returns the first value of the field, empty when the packet does not
// have it.
func (r Row) Get(field string) string {
	first, _, _ := strings.Cut(r.value(field), ",")
	return first
}

// Uint returns the first value of the field as a number. It panics when there
// is none. Fields that are octets are no numbers, however short: see [Row.Octets].
func (r Row) Uint(field string) uint64 {
	n, err := strconv.ParseUint(r.Get(field), 0, 64)
	if err != nil {
		panic(fmt.Sprintf("tshark field %s: %v", field, err))
	}
	return n
}

// Bool returns the first value of the field as a flag. It panics when there is
// none.
func (r Row) Bool(field string) bool { return r.Uint(field) != 0 }

// Octets returns the first value of a field that tshark prints as hex without
// 0x. It panics when there is none.
func (r Row) Octets(field string) []byte {
	b, err := hex.DecodeString(r.Get(field))
	if err != nil || len(b) == 0 {
		panic(fmt.Sprintf("tshark field %s: octets %q (%v)", field, r.Get(field), err))
	}
	return b
}

func (r Row) value(field string) string {
	i, ok := r.columns[field]
	if !ok {
		panic("no tshark field " + field + " in this file")
	}
	return r.values[i]
}

// Golden returns the rows of tshark for a capture of testdata, one for each packet, from the file
// that is committed for it.
func Golden(t testing.TB, capture string) []Row {
	t.Helper()
	b, err := os.ReadFile(Path(t, "tshark", strings.TrimSuffix(capture, ".pcap")+".tsv"))
	if err != nil {
		t.Fatal(err)
	}
	return rows(t, b)
}

// Tshark returns the rows of tshark for these Ethernet frames, one for each, with the fields of all
// lists. Without tshark the test ends as [Missing] describes.
func Tshark(t testing.TB, frames ...[]byte) []Row {
	t.Helper()
	Tool(t, "tshark")
	return rowsOf(t, exec.Command("sh", Path(t, "tshark", "decode.sh"), written(t, frames)), len(frames))
}

// TsharkFields is [Tshark] with fields that are not in the lists, for a test of
// its own kind of frame.
func TsharkFields(t testing.TB, fields []string, frames ...[]byte) []Row {
	t.Helper()
	return TsharkAs(t, nil, fields, frames...)
}

// TsharkAs is [TsharkFields] with rules, as in "mpls.label==16,pwethcw", for properties that no
// frame carries itself.
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

// rowsOf returns the rows that tshark prints for this number of frames.
func rowsOf(t testing.TB, cmd *exec.Cmd, frames int) []Row {
	t.Helper()
	var stderr strings.Builder
	cmd.Stderr = &stderr
	b, err := cmd.Output()
	if err != nil {
		t.Fatalf("tshark: %v\n%s", err, &stderr)
	}
	r := rows(t, b)
	if len(r) != frames {
		t.Fatalf("tshark read %d of %d frames", len(r), frames)
	}
	return r
}

// Tool returns the path of a program that the test runs. Without it the test
// ends as [Missing] says.
func Tool(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Missing(t, name+" is not installed")
	}
	return path
}

// Missing ends a test that cannot run here, for the reason given: it is
// skipped, but in CI, where the variable ROCECN_CI is set, it fails.
func Missing(t testing.TB, reason string) {
	t.Helper()
	if os.Getenv("ROCECN_CI") != "" {
		t.Fatal(reason)
	}
	t.Skip(reason)
}

func rows(t testing.TB, tsv []byte) []Row {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(string(tsv), "\n"), "\n")
	columns := make(map[string]int)
	for i, field := range strings.Split(lines[0], "\t") {
		columns[field] = i
	}
	var all []Row
	for _, line := range lines[1:] {
		values := strings.Split(line, "\t")
		if len(values) != len(columns) {
			t.Fatalf("tshark printed %d values for %d fields: %s", len(values), len(columns), line)
		}
		all = append(all, Row{columns, values})
	}
	return all
}

// written writes frames to a capture such as [Capture] reads, and returns its name.
func written(t testing.TB, frames [][]byte) string {
	t.Helper()
	var b bytes.Buffer
	write := func(words ...uint32) { binary.Write(&b, binary.LittleEndian, words) }
	write(0xA1B2C3D4, 4<<16|2, 0, 0, 1<<16, 1)
	for i, f := range frames {
		write(uint32(i), 0, uint32(len(f)), uint32(len(f)))
		b.Write(f)
	}
	name := filepath.Join(t.TempDir(), "frames.pcap")
	if err := os.WriteFile(name, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}
