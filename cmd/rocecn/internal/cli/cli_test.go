package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
)

func TestFlags(t *testing.T) {
	for _, c := range []struct {
		arg, stderr string
		status      int
	}{
		{"-h", "usage: rocecn test\n  -all\n    \tall of them\n", 0},
		{"-some", "rocecn test: flag provided but not defined: -some\nrocecn test -h lists the flags\n", 2},
	} {
		t.Run(c.arg, func(t *testing.T) {
			var stderr bytes.Buffer
			flags := Flags("test", "usage: rocecn test\n", &stderr)
			flags.Bool("all", false, "all of them")
			_, err := Parse(flags, []string{c.arg})
			require.Error(t, err)
			require.Equal(t, c.status, Unparsed(err), c.arg)
			require.Equal(t, c.stderr, stderr.String())
		})
	}
}

// Flags stand anywhere, up to --.
func TestParse(t *testing.T) {
	for _, c := range []struct {
		name string
		want []string
	}{
		{"", nil}, {"a b", []string{"a", "b"}}, {"-all a", []string{"a"}}, {"a -all", []string{"a"}},
		{"a -all b", []string{"a", "b"}}, {"- -all", []string{"-"}},
		{"-all -- -b", []string{"-b"}}, {"a -all -- -b --", []string{"a", "-b", "--"}}, {"-- a", []string{"a"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			flags := Flags("test", "", io.Discard)
			all := flags.Bool("all", false, "all of them")
			others := wiretest.Must(Parse(flags, strings.Fields(c.name)))(t)
			require.Equal(t, c.want, others)
			require.Equal(t, strings.Contains(c.name, "-all"), *all)
		})
	}
	_, err := Parse(Flags("test", "", io.Discard), []string{"a", "-some"})
	require.Error(t, err)
}

// A name that stands before the error does not stand in it once more.
func TestPrint(t *testing.T) {
	var stderr bytes.Buffer
	PrintError(&stderr, "test", "a.pcap", errors.New("no capture"))
	PrintError(&stderr, "test", "a.pcap", &fs.PathError{Op: "open", Path: "a.pcap", Err: fs.ErrNotExist})
	require.Equal(t, "rocecn test: a.pcap: no capture\nrocecn test: a.pcap: file does not exist\n", stderr.String())
}

func TestEnd(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
		stderr string
	}{
		{nil, 0, ""},
		{io.ErrClosedPipe, 0, ""},
		{&fs.PathError{Op: "write", Path: "|1", Err: syscall.EPIPE}, 0, ""},
		{fmt.Errorf("first line: %w", syscall.EPIPE), 0, ""},
		{errors.New("disk full"), 1, "rocecn test: disk full\n"},
	} {
		var stderr bytes.Buffer
		require.Equal(t, c.status, End(&stderr, "test", c.err), c.err)
		require.Equal(t, c.stderr, stderr.String())
	}
}

// Only a long run has a progress line, and only a terminal.
func TestProgress(t *testing.T) {
	for _, c := range []struct {
		packets      int
		octets, size int64
		line         string
	}{
		{5120, 2 << 20, 8 << 20, "\ra.pcap: 5120 packets, 2 MiB, 25 %\x1b[K"},
		{0, 2<<20 - 1, 8 << 20, "\ra.pcap: 1 MiB, 24 %\x1b[K"},
		{7, 9 << 20, 8 << 20, "\ra.pcap: 7 packets, 9 MiB, 100 %\x1b[K"}, // it grew
		{0, 1 << 30, 0, "\ra.pcap: 1024 MiB\x1b[K"},
	} {
		var terminal bytes.Buffer
		p := Progress{Name: "a.pcap", terminal: &terminal, last: time.Now()}
		p.Update(c.packets, c.octets, c.size)
		p.Clear()
		require.Empty(t, terminal.String())
		p.last = time.Now().Add(-time.Hour)
		p.Update(c.packets, c.octets, c.size)
		p.Update(c.packets, c.octets, c.size) // too soon
		p.Clear()
		p.Clear()
		require.Equal(t, c.line+"\r\x1b[K", terminal.String())
	}
}

func TestNoTerminal(t *testing.T) {
	null := wiretest.Must(os.OpenFile(os.DevNull, os.O_WRONLY, 0))(t)
	defer null.Close()
	file := wiretest.Must(os.Create(t.TempDir() + "/file"))(t)
	defer file.Close()
	require.False(t, IsTerminal(null))
	require.False(t, IsTerminal(file))
	require.False(t, IsTerminal(new(bytes.Buffer)))

	p := NewProgress(null, file)
	p.last = time.Time{}
	p.Update(1, 1, 1)
	p.Clear()
	info := wiretest.Must(file.Stat())(t)
	require.Zero(t, info.Size())
}
