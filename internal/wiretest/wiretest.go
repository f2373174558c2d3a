// Package wiretest has the common parts of the tests of several packages: octets from hex, packets
// from captures, and the checks that every codec must pass.
package wiretest

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rocecn/rocecn/internal/wireerr"
)

// Hex returns the octets written in s, in which white space is free.
func Hex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatalf("bad hex in the test itself: %v", err)
	}
	return b
}

// separate are the folders of testdata that are modules of their own, so that importers do not download them.
var separate = []string{"encapsulations", "real", "tshark", "vectors"}

// OwnPath returns the path of a file in the testdata folder of the tested package, if that folder is a module of its
// own. The test is skipped if the folder is absent, as in a module from a proxy.
func OwnPath(t testing.TB, name string) string {
	t.Helper()
	if _, err := os.Stat("testdata"); err != nil {
		Missing(t, "the package's testdata is only in a clone of the repository, not in the module")
	}
	return filepath.Join("testdata", name)
}

// Path returns the path of a file in the repository's testdata folder, also for the tests of nested modules. If the
// file is in a separate folder, which every clone has but the module that a proxy serves has not, the test is skipped.
func Path(t testing.TB, name ...string) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "internal", "wiretest")); err == nil {
			break
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("no internal/wiretest above the test's folder")
		}
		dir = up
	}
	testdata := filepath.Join(dir, "testdata")
	path := filepath.Join(append([]string{testdata}, name...)...)
	for _, folder := range separate {
		below := filepath.Join(testdata, folder)
		if _, err := os.Stat(below); err != nil && strings.HasPrefix(path+string(filepath.Separator), below) {
			Missing(t, "testdata/"+folder+" is only in a clone of the repository, not in the module")
		}
	}
	return path
}

// Root returns the folder of the repository, for tests of its documents and of its API. The test is skipped if the
// folder docs is absent, as in a module from a proxy.
func Root(t testing.TB) string {
	t.Helper()
	root := filepath.Dir(Path(t))
	if _, err := os.Stat(filepath.Join(root, "docs")); err != nil {
		Missing(t, "api, docs and packaging are only in a clone of the repository, not in the module")
	}
	return root
}

// Packet is one record of a capture.
type Packet struct {
	Number  int // from 1
	Time    time.Time
	Data    []byte
	OrigLen int // octets on the wire; more than len(Data) when the capture cut it
}

// Capture returns all packets of a capture in testdata. It reads the one
// format that the project's captures have, little-endian microsecond pcap of
// Ethernet, packed with gzip or not, so that the codecs' tests need no other
// library.
func Capture(t testing.TB, name string) []Packet {
	t.Helper()
	b, err := os.ReadFile(Path(t, name))
	if err == nil && strings.HasSuffix(name, ".gz") {
		b, err = unpack(b)
	}
	if err != nil {
		t.Fatal(err)
	}
	le := binary.LittleEndian
	if len(b) < 24 || le.Uint32(b) != 0xA1B2C3D4 || le.Uint32(b[20:]) != 1 {
		t.Fatalf("%s: not a little-endian microsecond Ethernet pcap", name)
	}
	var packets []Packet
	for b = b[24:]; len(b) > 0; {
		if len(b) < 16 || len(b) < 16+int(le.Uint32(b[8:])) {
			t.Fatalf("%s: cut in the middle of record %d", name, len(packets)+1)
		}
		n := int(le.Uint32(b[8:]))
		packets = append(packets, Packet{
			Number:  len(packets) + 1,
			Time:    time.Unix(int64(le.Uint32(b)), int64(le.Uint32(b[4:]))*1000).UTC(),
			Data:    b[16 : 16+n : 16+n],
			OrigLen: int(le.Uint32(b[12:])),
		})
		b = b[16+n:]
	}
	if len(packets) == 0 {
		t.Fatalf("%s: no packets", name)
	}
	return packets
}

func unpack(b []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

// Captures returns the names of the captures in testdata that match a glob
// pattern, at least one.
// The tour of the README is left out: it leads through tunnels, mirrors and flow
// control, where the other readers of these tests do not follow.
func Captures(t testing.TB, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(Path(t, pattern))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no captures %s (%v)", pattern, err)
	}
	for i, p := range paths {
		paths[i] = filepath.Base(p)
	}
	return slices.DeleteFunc(paths, func(name string) bool { return name == "tour.pcap" })
}

// NoAllocs fails the test if f allocates.
func NoAllocs(t *testing.T, name string, f func()) {
	t.Helper()
	if n := testing.AllocsPerRun(100, f); n != 0 {
		t.Errorf("%s: %v allocations, want none", name, n)
	}
}

// Allocated returns the number of octets that f allocates.
func Allocated(f func()) uint64 {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // nothing else runs meanwhile
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// OneAlloc fails the test unless an append to nil allocates as much as one
// [slices.Grow] does, which is more than once under the race detector.
func OneAlloc(t *testing.T, name string, appendTo func([]byte) ([]byte, error)) {
	t.Helper()
	got := appendAllocs(appendTo)
	n := cap(appended)
	want := appendAllocs(func(b []byte) ([]byte, error) { return slices.Grow(b, n), nil })
	if got != want || n == 0 {
		t.Errorf("%s: %v allocations for %d octets, want %v", name, got, n, want)
	}
}

func appendAllocs(appendTo func([]byte) ([]byte, error)) float64 {
	return testing.AllocsPerRun(100, func() { appended, _ = appendTo(nil) })
}

// appended is no local variable, so that it is allocated.
var appended []byte

// Prefixes hands every proper prefix of msg to decode, each in a slice with no octets after it, and
// fails the test unless every one is rejected as truncated.
func Prefixes(t *testing.T, msg []byte, decode func([]byte) error) {
	t.Helper()
	for n := range msg {
		if err := decode(bytes.Clone(msg[:n:n])); !errors.Is(err, wireerr.Truncated) {
			t.Errorf("%d of %d octets: error %v, want one that is truncated", n, len(msg), err)
		}
	}
}

// Encodes checks an AppendBinary: it must append want, after any octets that the buffer holds
// already and over any octets in its free capacity, and must not change the rest of that capacity.
func Encodes(t *testing.T, want []byte, appendTo func([]byte) ([]byte, error)) {
	t.Helper()
	for _, spare := range []int{0, len(want) + 2048} {
		buf := bytes.Repeat([]byte{0xA5}, 3+spare)[:3]
		got, err := appendTo(buf)
		if err != nil {
			t.Errorf("append: %v", err)
			return
		}
		if !bytes.Equal(got[:3], []byte{0xA5, 0xA5, 0xA5}) {
			t.Errorf("append changed the content of the buffer: %x", got[:3])
		}
		if !bytes.Equal(got[3:], want) {
			t.Errorf("append with %d octets of room\n got %x\nwant %x", spare, got[3:], want)
		}
		if rest := bytes.Trim(buf[:cap(buf)][min(len(got), cap(buf)):], "\xa5"); len(rest) > 0 {
			t.Errorf("append changed octets after its own: %x", rest)
		}
	}
}

// Alone skips a test under the race detector: one with one goroutine, or one with goroutines that a
// shorter test has as well. The detector sees nothing new in it, and makes simulated networks ten
// times slower.
func Alone(t *testing.T) {
	t.Helper()
	if Race {
		t.Skip("nothing for the race detector to see")
	}
}

// File writes a file into a temporary folder of the test, and returns its path.
func File[T string | []byte](t testing.TB, name string, content T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}
