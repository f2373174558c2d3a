package run

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// disk returns files on a disk of 64 KiB, which is invisible to others and ends with the files.
func disk(t *testing.T, names ...string) (files []*os.File) {
	t.Helper()
	if os.Geteuid() != 0 {
		wiretest.Missing(t, "a disk of its own needs root")
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for ever: the thread ends with this function, and its mounts with it
		done <- func() error {
			if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
				return err
			}
			if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
				return err
			}
			if err := unix.Mount("none", os.TempDir(), "tmpfs", 0, "size=64k"); err != nil {
				return err
			}
			for _, name := range names {
				f, err := os.Create(filepath.Join(os.TempDir(), name))
				if err != nil {
					return err
				}
				files = append(files, f)
			}
			return nil
		}()
	}()
	require.NoError(t, <-done)
	return files
}

// On a full disk no part of a packet stays in the file. The error is logged once, and the sink is not up until
// there is space again.
func TestFullDisk(t *testing.T) {
	files := disk(t, "sent.pcap", "filler")
	var output bytes.Buffer
	log := slog.New(slog.NewTextHandler(&output, nil))
	to := &sharedCapture{file: files[0], log: func() *slog.Logger { return log }}
	defer to.Close()
	filler := files[1]
	defer filler.Close()
	fill := func() {
		_, err := io.Copy(filler, io.LimitReader(zeros{}, 1<<20))
		require.ErrorIs(t, err, unix.ENOSPC)
	}
	entry := &sinkEntry{sink: &captureSink{shared: to}}
	o := &outlet{entry: entry, now: time.Unix(1, 0)}
	require.NoError(t, o.open())
	sends := func(n int) (sent, failed uint64) {
		before, beforeFailed := o.packets.Load(), o.errors[otherFailure].Load()
		for range n {
			o.sendPacket(make([]byte, 300), o.now)
			o.flush()
		}
		return o.packets.Load() - before, o.errors[otherFailure].Load() - beforeFailed
	}

	fill() // no space for the file header
	to.startFile()
	sent, failed := sends(2)
	require.Equal(t, []uint64{0, 2}, []uint64{sent, failed})
	require.False(t, o.canSend())
	require.NoError(t, filler.Truncate(0))
	_, err := filler.Seek(0, io.SeekStart)
	require.NoError(t, err)
	sent, failed = sends(10)
	require.Equal(t, []uint64{10, 0}, []uint64{sent, failed})
	require.True(t, o.canSend())

	fill() // the rest of the page has space for a part of a packet
	sent, failed = sends(100)
	require.Equal(t, uint64(100), sent+failed)
	require.Less(t, sent, uint64(100))
	require.False(t, o.canSend())
	require.NoError(t, filler.Truncate(0))
	more, failed := sends(5)
	require.Equal(t, []uint64{5, 0}, []uint64{more, failed})
	require.True(t, o.canSend())
	require.Equal(t, 2, strings.Count(output.String(), "its file cannot be written"))
	require.Equal(t, 2, strings.Count(output.String(), "its file can be written again"))

	octets := make([]byte, 1<<16)
	n, _ := files[0].ReadAt(octets, 0)
	in := wiretest.Must(capture.Open(bytes.NewReader(octets[:n])))(t)
	var r capture.Record
	for range 10 + sent + 5 {
		require.NoError(t, in.Next(&r))
		require.Len(t, r.Data, 300)
	}
	require.Equal(t, io.EOF, in.Next(&r))
}

// zeros reads as zeros without end.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// A failed start or reload leaves the files of its sinks as they were: with their content, or missing.
func TestRefusedLeavesFiles(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer busy.Close()
	folder := t.TempDir()
	keep, fresh := filepath.Join(folder, "keep.pcap"), filepath.Join(folder, "new.pcap")
	require.NoError(t, os.WriteFile(keep, []byte("kept"), 0o600))
	config := "[agent]\nhttp = \"" + busy.Addr().String() + "\"\n" +
		"[source.a]\ntype = \"capture\"\nfile = \"" + wiretest.Path(t, "messages.pcap") + "\"\n"
	for _, c := range []struct{ name, file string }{{"keep", keep}, {"new", fresh}} {
		t.Run(c.name, func(t *testing.T) {
			config += "[sink." + c.name + "]\ntype = \"capture\"\nfile = \"" + c.file + "\"\n" +
				"[[role.receiver]]\nenabled = true\nsources = [\"a\"]\nsink = \"" + c.name + "\"\n" +
				"self = [\"2001:db8::5\"]\nlearn = true\n"
		})
	}
	var stderr bytes.Buffer
	status := Run(t.Context(), []string{"-config", written(t, "agent.toml", config)}, nil, io.Discard, &stderr)
	require.Equal(t, 1, status)
	require.Contains(t, stderr.String(), "agent.http: ")
	require.Equal(t, "kept", string(octetsOf(t, keep)))
	require.NoFileExists(t, fresh)

	s := &server{name: written(t, "other.toml", config), log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	s.file = wiretest.Must(parseFile([]byte("[agent]\n")))(t)
	_, err = s.replaceFile(t.Context())
	require.ErrorContains(t, err, "agent.http: ")
	require.Equal(t, "kept", string(octetsOf(t, keep)))
	require.NoFileExists(t, fresh)
}
