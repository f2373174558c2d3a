package mapped

import (
	"bytes"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
)

// mapOctets maps a file with these octets. The function truncates it.
func mapOctets(t *testing.T, octets []byte) (m *File, truncate func(size int)) {
	f := wiretest.Must(os.OpenFile(wiretest.File(t, "file", octets), os.O_RDWR, 0))(t)
	t.Cleanup(func() { f.Close() })
	m, err := Map(f, int64(len(octets)))
	if bits.UintSize < 64 {
		require.ErrorIs(t, err, errUnsupported)
		t.Skip("files are not mapped where addresses have 32 bits")
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m, func(size int) { require.NoError(t, f.Truncate(int64(size))) }
}

// resident returns the kilobytes of a mapped file in the memory of this process.
func resident(t *testing.T, m *File) (kilobytes int) {
	begin := fmt.Sprintf("\n%x-", unsafe.Pointer(&m.Octets[0]))
	_, mapping, found := strings.Cut(string(wiretest.Must(os.ReadFile("/proc/self/smaps"))(t)), begin)
	require.True(t, found)
	_, rss, _ := strings.Cut(mapping, "\nRss:")
	_, err := fmt.Sscan(rss, &kilobytes)
	require.NoError(t, err)
	return kilobytes
}

func TestMap(t *testing.T) {
	octets := bytes.Repeat([]byte("0123456789abcde"), 1<<20)
	m, _ := mapOctets(t, octets)
	require.True(t, bytes.Equal(octets, m.Octets))
	for _, row := range []struct{ from, to int64 }{{0, 1}, {1, 1 << 40}, {5, 5}, {1 << 40, 1 << 41}} {
		m.Load(row.from, row.to)
	}
	m.Discard(discardSize - 1) // too few
	require.Greater(t, resident(t, m), 7<<10)
	m.Discard(10<<20 + 1) // twice as many as are discarded together, and some more
	require.LessOrEqual(t, resident(t, m), 7<<10)
	require.True(t, bytes.Equal(octets, m.Octets), "the kernel still has the octets")
	m.Discard(5 << 20) // less than before
	require.Greater(t, resident(t, m), 11<<10)
	m.Discard(len(octets))
	require.LessOrEqual(t, resident(t, m), 7<<10, "also of the part before, which was read again")
}

func TestMapErrors(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	_, err = Map(r, 1)
	require.Error(t, err)
}

// Reading a file that was truncated meanwhile is an error.
func TestTruncatedFile(t *testing.T) {
	octets := bytes.Repeat([]byte{7}, 4*os.Getpagesize())
	m, truncate := mapOctets(t, octets)
	sum := func() int { return bytes.Count(m.Octets, []byte{7}) }
	count := 0
	require.NoError(t, m.Guard(func() { count = sum() }))
	require.Zero(t, testing.AllocsPerRun(100, func() { _ = m.Guard(func() { count = len(m.Octets) }) }))
	require.Equal(t, len(octets), count)
	truncate(2*os.Getpagesize() - 1)
	returned := false
	err := m.Guard(func() { count, returned = sum(), true })
	require.ErrorIs(t, err, errShorter)
	require.False(t, returned)
	err = m.Guard(func() { count = bytes.Count(m.Octets[:2*os.Getpagesize()], []byte{7}) })
	require.ErrorIs(t, err, errShorter)
	require.Equal(t, 2*os.Getpagesize()-1, count, "the rest of the page is 0")
	require.ErrorIs(t, m.Guard(func() { m.Load(0, 1<<20) }), errShorter)
	require.ErrorIs(t, m.Guard(func() {}), errShorter)
	truncate(len(octets))
	require.NoError(t, m.Guard(func() {}))
}

// Guard returns no error for other panics.
func TestOtherPanics(t *testing.T) {
	m, truncate := mapOctets(t, make([]byte, 100))
	other, _ := mapOctets(t, make([]byte, 100))
	failed := errors.New("failed")
	require.PanicsWithError(t, "failed", func() { _ = m.Guard(func() { panic(failed) }) })
	require.PanicsWithError(t, "runtime error: index out of range [100] with length 100", func() {
		_ = m.Guard(func() { _ = m.Octets[len(m.Octets)] })
	})
	truncate(0)
	read := func() { _ = bytes.Count(m.Octets, []byte{1}) }
	require.Panics(t, func() { _ = other.Guard(read) }, "a fault of another file")
	require.ErrorIs(t, m.Guard(read), errShorter)
}

// An input that is not mapped has a nil File.
func TestNilFile(t *testing.T) {
	var none *File
	called := false
	require.NoError(t, none.Guard(func() { called = true }))
	require.True(t, called)
	none.Discard(1 << 30)
}
