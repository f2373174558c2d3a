package netio

import (
	"io"
	"time"

	"github.com/rocecn/rocecn/capture"
)

// A File is a capture as a Source: for rehearsals and tests.
type File struct {
	in      capture.Reader
	packet  [1]Packet
	stopped bool
}

// NewFile returns the packets of a capture, one at a time.
func NewFile(in capture.Reader) *File { return &File{in: in} }

// Read is that of Source.
func (f *File) Read() ([]Packet, error) {
	if f.stopped {
		return nil, io.EOF
	}
	if err := f.in.Next(&f.packet[0].Record); err != nil {
		return nil, err
	}
	return f.packet[:], nil
}

// Stop is that of Source.
func (f *File) Stop() error {
	f.stopped = true
	return nil
}

// FD returns -1: there always is something to read.
func (f *File) FD() int { return -1 }

// Lost returns 0.
func (f *File) Lost() uint64 { return 0 }

// Close does nothing: who opened the capture closes it.
func (f *File) Close() error { return nil }

// A FileSink writes packets into a capture.
type FileSink struct {
	// Now is the time stamp of the packets that come next.
	Now time.Time

	out    *capture.Writer
	failed uint64
}

// NewFileSink returns a Sink that writes into a capture, whose link type says what
// the packets are.
func NewFileSink(out *capture.Writer) *FileSink { return &FileSink{out: out} }

// Send is that of Sink.
func (f *FileSink) Send(packet []byte) error {
	err := f.out.Write(&capture.Record{Data: packet, OrigLen: uint32(len(packet)), Time: f.Now})
	if err != nil {
		f.failed++
	}
	return err
}

// Flush does nothing.
func (f *FileSink) Flush() error { return nil }

// Failed is that of Sink.
func (f *FileSink) Failed() uint64 { return f.failed }

// Close does nothing.
func (f *FileSink) Close() error { return nil }
