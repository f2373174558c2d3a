package cli

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"math/bits"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/internal/wiretest"
)

func octetsOf(t *testing.T) []byte {
	t.Helper()
	b, err := os.ReadFile(wiretest.Path(t, "ioam-linux618-hpcc.pcap")) // 3 packets
	require.NoError(t, err)
	return b
}

func goOn(int64) error { return nil }

// count reads to the end.
func count(t *testing.T, in *Input) (packets int) {
	t.Helper()
	var r capture.Record
	for {
		err := in.Next(&r)
		if err == io.EOF {
			return packets
		}
		require.NoError(t, err)
		packets++
	}
}

// Data that a pipe receives shortly after an interrupt is read: tcpdump writes its last packets then.
func TestWriterInterruptedToo(t *testing.T) {
	defer func(was time.Duration) { grace = was }(grace)
	file := octetsOf(t)
	for _, c := range []struct {
		grace time.Duration
		want  int
	}{{time.Hour, 3}, {0, 1}} {
		grace = c.grace
		ctx, interrupt := context.WithCancel(t.Context())
		r, w := io.Pipe()
		go w.Write(file[:24+(len(file)-24)/3])
		in := wiretest.Must(Open(ctx, "-", r, goOn))(t)
		require.NoError(t, in.Next(new(capture.Record)))
		interrupt()
		if c.grace > 0 {
			go func() {
				w.Write(file[24+(len(file)-24)/3:])
				w.Close()
			}()
		}
		require.Equal(t, c.want, 1+count(t, in))
		require.NoError(t, in.Close())
	}
}

func TestInterruptedFile(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	in, err := Open(ctx, wiretest.Path(t, "rxe-perf4.pcap"), nil, goOn) // longer than the buffer
	require.NoError(t, err)
	defer in.Close()
	interrupt()
	require.Positive(t, count(t, in))
	in = wiretest.Must(Open(ctx, wiretest.Path(t, "rxe-perf4.pcap"), nil, goOn))(t)
	defer in.Close()
	require.Zero(t, count(t, in))
}

// A named file is mapped for a caller that has blocks of memory, unless it is compressed.
func TestMappedFile(t *testing.T) {
	path := wiretest.Path(t, "rxe-perf4.pcap")
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	wiretest.Must(z.Write(wiretest.Must(os.ReadFile(path))(t)))(t)
	require.NoError(t, z.Close())
	block := func() []byte { return make([]byte, 128<<10) }
	for _, row := range []struct {
		name, input string
		block       func() []byte
		want        bool
	}{
		{"file", path, block, bits.UintSize == 64 && runtime.GOOS == "linux"},
		{"file without blocks", path, nil, false},
		{"standard input", "-", block, false},
		{"compressed file", wiretest.File(t, "capture.gz", zipped.Bytes()), block, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			ctx, interrupt := context.WithCancel(t.Context())
			stdin := wiretest.Must(os.Open(path))(t)
			defer stdin.Close()
			reads := 0
			in := wiretest.Must((&Inputs{Stdin: stdin}).Open(ctx, row.input, func(int64) error {
				reads++
				return nil
			}, row.block))(t)
			require.Equal(t, row.want, in.File() != nil)
			require.Equal(t, row.want, reads == 0)
			var r capture.Record
			require.NoError(t, in.Next(&r))
			interrupt()
			if row.want {
				require.EqualValues(t, 24+16+len(r.Data), in.Position())
				require.Equal(t, io.EOF, in.Next(&r))
			}
			require.NoError(t, in.Close())
		})
	}
}

// The errors of a file do not depend on whether it is mapped.
func TestMappedFileErrors(t *testing.T) {
	block := func() []byte { return make([]byte, 128<<10) }
	for _, row := range []struct{ file, want string }{
		{"neither pcap nor pcapng", "neither a pcap nor a pcapng capture"},
		{"\xD4\xC3\xB2\xA1", "file header: the file ends early"},
		{"", "empty file"},
	} {
		t.Run(row.want, func(t *testing.T) {
			_, err := new(Inputs).Open(t.Context(), wiretest.File(t, "capture", []byte(row.file)), goOn, block)
			require.EqualError(t, err, row.want)
		})
	}
}

func TestBeforeRead(t *testing.T) {
	file := octetsOf(t)
	var read []int64
	in, err := Open(t.Context(), "-", bytes.NewReader(file), func(octets int64) error {
		read = append(read, octets)
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, 3, count(t, in))
	require.Equal(t, []int64{0, int64(len(file))}, read[:2])

	enough := errors.New("enough")
	_, err = Open(t.Context(), "-", bytes.NewReader(file), func(int64) error { return enough })
	require.ErrorIs(t, err, enough)
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	_, err := Open(t.Context(), dir, nil, goOn)
	require.EqualError(t, err, "is a directory")
	_, err = Open(t.Context(), filepath.Join(dir, "missing"), nil, goOn)
	require.EqualError(t, err, "no such file or directory")
	_, err = Open(t.Context(), "-", bytes.NewReader(nil), goOn)
	require.EqualError(t, err, "empty file")
	failing := errors.New("cable cut")
	r, w := io.Pipe()
	w.CloseWithError(failing)
	_, err = Open(t.Context(), "-", r, goOn)
	require.ErrorIs(t, err, failing)
}

// The seed for files is fixed, so that their output is always the same. The seed for interfaces is random, so that a
// remote host cannot predict the layout of a table.
func TestSeed(t *testing.T) {
	require.EqualValues(t, FileSeed, (&Inputs{}).Seed())
	require.Zero(t, (&Inputs{Live: true}).Seed())
}

func TestReplace(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "page")
	content := func() string {
		b := wiretest.Must(os.ReadFile(name))(t)
		return string(b)
	}
	alone := func() {
		all := wiretest.Must(os.ReadDir(dir))(t)
		require.Len(t, all, 1, "%v", all)
	}
	write := func(text string) *Replacement {
		r, err := Replace(name)
		require.NoError(t, err)
		_, err = r.WriteString(text)
		require.NoError(t, err)
		return r
	}

	r := write("one")
	require.NoFileExists(t, name)
	require.NoError(t, r.Commit())
	r.Abandon() // too late
	require.Equal(t, "one", content())
	require.NoError(t, os.Chmod(name, 0o666))

	r = write("two")
	require.Equal(t, "one", content())
	r.Abandon()
	require.Equal(t, "one", content())
	alone()

	require.NoError(t, write("three").Commit())
	require.Equal(t, "three", content())
	info, err := os.Stat(name)
	require.NoError(t, err)
	require.EqualValues(t, 0o666, info.Mode())
	alone()

	r = write("four")
	require.NoError(t, r.Close()) // Commit cannot make sure that the data is stored
	require.Error(t, r.Commit())
	require.Equal(t, "three", content())
	alone()

	// A link stays one.
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(name, link))
	r = wiretest.Must(Replace(link))(t)
	_, err = r.WriteString("five")
	require.NoError(t, err)
	require.NoError(t, r.Commit())
	require.Equal(t, "five", content())
	to := wiretest.Must(os.Readlink(link))(t)
	require.Equal(t, name, to)

	for _, bad := range []string{filepath.Join(dir, "none", "page"), dir} {
		_, err = Replace(bad)
		require.ErrorContains(t, err, bad)
	}
	alone()
}

func TestPrintable(t *testing.T) {
	for _, c := range []struct{ name, want string }{
		{"a.pcap", "a.pcap"}, {"größe 一.pcap", "größe 一.pcap"}, {`C:\a".pcap`, `C:\a".pcap`}, {"", ""},
		{"\x1b[31m", `\x1b[31m`}, {"a\nb", `a\nb`},
		{"\"\r", `"\r`}, {"\x9b", `\x9b`}, {"\u009b", `\u009b`}, {"\u202e", `\u202e`}, {"\x7f", `\x7f`},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, Printable(c.name))
		})
	}
}
