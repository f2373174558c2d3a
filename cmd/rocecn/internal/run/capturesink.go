package run

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rocecn/rocecn/capture"
	"github.com/rocecn/rocecn/netio"
)

// captureSink is a capture file, for tests of a configuration.
type captureSink struct {
	File   string `json:"file"`
	shared *sharedCapture
}

func (s *captureSink) check() error                   { return requireText("file", s.File) }
func (s *captureSink) requiredCapabilities() []string { return nil }
func (s *captureSink) deviceName() string             { return "" }
func (s *captureSink) canWrite() bool                 { return s.shared == nil || !s.shared.broken.Load() }
func (s *captureSink) open(now *time.Time) (netio.Sink, error) {
	return &captureOut{shared: s.shared, now: now}, nil
}

// A sharedCapture is the capture file of all roles that write to it.
type sharedCapture struct {
	file    *os.File
	existed bool // existed before it was opened
	log     func() *slog.Logger
	broken  atomic.Bool // the last write failed

	mu   sync.Mutex
	out  *capture.Writer // nil until the file header is written
	end  int64           // length of the complete records
	torn bool            // an incomplete record follows end
}

// openCapture opens a file by its full name, and leaves its content alone until startFile is called. O_EXCL
// follows no link. A pipe must already have a reader.
func openCapture(name string, log func() *slog.Logger) (*sharedCapture, error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	was := errors.Is(err, fs.ErrExist)
	if was {
		f, err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE|syscall.O_NONBLOCK, 0o666)
	}
	if err == nil {
		err = checkNotSymlink(name, f)
	}
	if err != nil {
		return nil, err
	}
	return &sharedCapture{file: f, existed: was, log: log}, nil
}

// checkNotSymlink closes a file and returns an error if its name is a symbolic link, by which the owner of a directory
// could direct the agent to another file.
func checkNotSymlink(name string, f *os.File) error {
	opened, err := f.Stat()
	if err == nil {
		var named fs.FileInfo
		if named, err = os.Lstat(name); err == nil && !os.SameFile(opened, named) {
			err = &fs.PathError{Op: "open", Path: name, Err: errSymlink}
		}
	}
	if err != nil {
		f.Close()
	}
	return err
}

var errSymlink = errors.New("a symbolic link: want a file")

// startFile makes the file a capture without packets.
func (c *sharedCapture) startFile() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.recordResult(c.writeHeader())
}

func (c *sharedCapture) writeHeader() error {
	info, err := c.file.Stat()
	if err == nil && info.Mode().IsRegular() { // a pipe cannot be truncated
		err = c.file.Truncate(0)
	}
	if err != nil {
		return err
	}
	out, err := capture.NewWriter((*recordWriter)(c), capture.Raw, time.Nanosecond)
	if err == nil {
		c.out = out
	}
	return err
}

// writeRecord writes a packet.
func (c *sharedCapture) writeRecord(r *capture.Record) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.out == nil {
		err = c.writeHeader()
	}
	if err == nil {
		err = c.out.Write(r)
	}
	c.recordResult(err)
	return err
}

// recordResult records whether a write succeeded, and logs changes.
func (c *sharedCapture) recordResult(err error) {
	switch was := c.broken.Swap(err != nil); {
	case err != nil && !was:
		c.log().Warn("sink: its file cannot be written", "file", c.file.Name(), "error", err)
	case err == nil && was:
		c.log().Info("sink: its file can be written again", "file", c.file.Name())
	}
}

// A recordWriter writes a record completely or not at all. On a full disk a write may be partial, and no reader
// could find the records after it.
type recordWriter sharedCapture

func (w *recordWriter) Write(b []byte) (n int, err error) {
	if err = w.truncatePartial(); err != nil {
		return 0, err
	}
	if n, err = w.file.Write(b); err != nil {
		w.torn = n > 0
		return 0, errors.Join(err, w.truncatePartial())
	}
	w.end += int64(n)
	return n, nil
}

// truncatePartial removes an incomplete record.
func (w *recordWriter) truncatePartial() error {
	if !w.torn {
		return nil
	}
	err := w.file.Truncate(w.end)
	if err == nil {
		_, err = w.file.Seek(w.end, 0)
	}
	w.torn = err != nil
	return err
}

// Close closes the file.
func (c *sharedCapture) Close() error { return c.file.Close() }

// closeAndRemove closes the file, and removes it if it did not exist before.
func (c *sharedCapture) closeAndRemove() {
	c.file.Close()
	if !c.existed {
		os.Remove(c.file.Name())
	}
}

// captureOut writes the packets of one role to a capture.
type captureOut struct {
	shared *sharedCapture
	now    *time.Time
	failed uint64
	unsent func(packet []byte, err error)
}

func (c *captureOut) Send(packet []byte) error {
	err := c.shared.writeRecord(&capture.Record{Data: packet, OrigLen: uint32(len(packet)), Time: *c.now})
	if err != nil {
		c.failed++
		c.unsent(packet, err)
	}
	return err
}

func (c *captureOut) OnUnsent(f func(packet []byte, err error)) { c.unsent = f }

func (c *captureOut) Close() error   { return nil } // all roles share the file
func (c *captureOut) Flush() error   { return nil }
func (c *captureOut) Failed() uint64 { return c.failed }
