package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
)

func TestCount(t *testing.T) {
	for _, c := range []struct {
		n    int
		want string
	}{{0, "0 packets"}, {1, "1 packet"}, {2, "2 packets"}} {
		t.Run(fmt.Sprint(c.n), func(t *testing.T) {
			require.Equal(t, c.want, Count(c.n, "packet"))
			require.Equal(t, c.want, Count(uint64(c.n), "packet"))
		})
	}
}

// Same recognizes a file under each of its names. It never matches a file that is not regular, because such a file
// can be read and written at the same time.
func TestSame(t *testing.T) {
	dir := t.TempDir()
	a, b, link := filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "link")
	for _, name := range []string{a, b} {
		require.NoError(t, os.WriteFile(name, []byte("the same"), 0o600))
	}
	require.NoError(t, os.Symlink(a, link))
	f := wiretest.Must(os.Open(a))(t)
	defer f.Close()
	pipe, w, err := os.Pipe()
	require.NoError(t, err)
	defer pipe.Close()
	defer w.Close()
	none := filepath.Join(dir, "none")
	for _, c := range []struct {
		from  string
		stdin io.Reader
		to    string
		want  bool
	}{
		{a, nil, a, true}, {a, nil, link, true}, {link, nil, a, true}, {a, nil, b, false}, {a, f, b, false},
		{b, f, a, false},
		{"-", f, a, true}, {"-", f, link, true}, {"-", f, b, false}, {"-", pipe, a, false},
		{"-", new(bytes.Buffer), a, false},
		{"-", nil, a, false}, {none, nil, none, false}, {a, nil, none, false}, {none, nil, a, false},
		{os.DevNull, nil, os.DevNull, false}, {dir, nil, dir, false},
	} {
		require.Equal(t, c.want, Same(c.from, c.stdin, c.to), "%+v", c)
	}
}

// A progress line is shown where people look at stderr, unless they see the output
// there, too.
func TestTerminal(t *testing.T) {
	terminal := wiretest.Must(os.OpenFile("/dev/ptmx", os.O_RDWR, 0))(t)
	defer terminal.Close()
	require.True(t, IsTerminal(terminal))
	file := wiretest.Must(os.Create(filepath.Join(t.TempDir(), "file")))(t)
	require.False(t, IsTerminal(file))
	for _, c := range []struct {
		stdout, stderr io.Writer
		want           bool
	}{{terminal, terminal, false}, {file, terminal, true}, {new(bytes.Buffer), terminal, true}, {terminal, file, false},
		{file, file, false}} {
		require.Equal(t, c.want, NewProgress(c.stdout, c.stderr).terminal != nil)
	}
	require.NoError(t, file.Close())
	require.False(t, IsTerminal(file))
	p := NewProgress(file, terminal)
	require.WithinDuration(t, time.Now(), p.last, time.Minute)
}

// The length of a file is known, under its name and as standard input; that of a
// pipe is not.
func TestSize(t *testing.T) {
	name := wiretest.Path(t, "ioam-linux618-hpcc.pcap")
	octets := octetsOf(t)
	in := wiretest.Must(Open(t.Context(), name, nil, goOn))(t)
	require.EqualValues(t, len(octets), in.Size)
	require.NoError(t, in.Close())
	require.ErrorIs(t, in.Close(), fs.ErrClosed)

	f, err := os.Open(name)
	require.NoError(t, err)
	defer f.Close()
	in = wiretest.Must(Open(t.Context(), "-", f, goOn))(t)
	require.EqualValues(t, len(octets), in.Size)
	require.Equal(t, 3, count(t, in))
	require.NoError(t, in.Close())
	_, err = f.Stat()
	require.NoError(t, err, "standard input stays open")

	r, w, err := os.Pipe()
	require.NoError(t, err)
	go func() {
		w.Write(octets)
		w.Close()
	}()
	in = wiretest.Must(Open(t.Context(), "-", r, goOn))(t)
	require.Zero(t, in.Size)
	require.Equal(t, 3, count(t, in))
	require.NoError(t, in.Close())
}

// A file that replaces another one keeps its mode. A new file has the usual mode, without permission to execute.
func TestReplaceKeepsMode(t *testing.T) {
	name := filepath.Join(t.TempDir(), "page")
	replace := func() fs.FileMode {
		r := wiretest.Must(Replace(name))(t)
		require.NoError(t, r.Commit())
		info := wiretest.Must(os.Stat(name))(t)
		return info.Mode()
	}
	mode := replace()
	require.Zero(t, mode&0o111)
	require.NotZero(t, mode&0o400)
	for _, mode := range []fs.FileMode{0o600, 0o604, 0o666, 0o755} {
		require.NoError(t, os.Chmod(name, mode))
		require.Equal(t, mode, replace())
	}
	// A pipe is written itself.
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	reader := wiretest.Must(os.OpenFile(pipe, os.O_RDWR, 0))(t)
	defer reader.Close()
	r, err := Replace(pipe)
	require.NoError(t, err)
	_, err = r.WriteString("page")
	require.NoError(t, err)
	require.NoError(t, r.Commit())
	r.Abandon()
	info := wiretest.Must(os.Stat(pipe))(t)
	require.Equal(t, fs.ModeNamedPipe, info.Mode().Type())
	got := make([]byte, 4)
	_, err = io.ReadFull(reader, got)
	require.NoError(t, err)
	require.Equal(t, "page", string(got))
}

// Output classifies its errors, and recognizes those of a closed pipe.
func TestOutputErrors(t *testing.T) {
	require.NoError(t, Output(nil))
	full := errors.New("disk full")
	var out OutputError
	require.ErrorAs(t, Output(full), &out)
	require.ErrorIs(t, out, full)
	require.False(t, errors.As(full, &out))
	require.True(t, Closed(Output(syscall.EPIPE)))
	require.False(t, Closed(Output(full)))
}

// No line of an error reaches a terminal as it is.
func TestErrorIsPrintable(t *testing.T) {
	var stderr bytes.Buffer
	PrintError(&stderr, "test", "a\x1b[31m", errors.New("one\x1b[32m\ntwo\x07"))
	require.Equal(t, `rocecn test: a\x1b[31m: one\x1b[32m`+"\n"+`two\a`+"\n", stderr.String())
	stderr.Reset()
	require.Equal(t, 1, End(&stderr, "test", errors.New(strings.Repeat("x\x1b", 2))))
	require.Equal(t, `rocecn test: x\x1bx\x1b`+"\n", stderr.String())
}
