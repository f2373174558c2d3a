package netio

import (
	"io"
	"sync/atomic"
	"time"

	"github.com/rocecn/rocecn/capture"
)

// fileSource implements [FileSource].
type fileSource struct {
	in      capture.Reader
	packet  [1]Packet
	stopped bool
}

// OpenFile returns a source of the packets of a pcap or pcapng capture. Each
// Read returns one packet.
func OpenFile(r io.Reader) (FileSource, error) {
	in, err := capture.Open(r)
	if err != nil {
		return nil, err
	}
	return &fileSource{in: in}, nil
}

// Read implements [Source]. A damaged capture ends with its error; the next call returns io.EOF.
func (f *fileSource) Read() ([]Packet, error) {
	if f.stopped {
		return nil, io.EOF
	}
	if err := f.in.Next(&f.packet[0].Record); err != nil {
		f.stopped = true
		return nil, err
	}
	return f.packet[:], nil
}

// Stop implements [Source].
func (f *fileSource) Stop() error {
	f.stopped = true
	return nil
}

// FD returns -1: there always is something to read.
func (f *fileSource) FD() int { return -1 }

// Lost returns 0.
func (f *fileSource) Lost() uint64 { return 0 }

// Close does nothing.
func (f *fileSource) Close() error { return nil }

// A fileSink is a [Sink] that writes a capture.
type fileSink struct {
	out    *capture.Writer
	now    *time.Time
	failed atomic.Uint64
}

// Sink implements [FileSource].
func (f *fileSource) Sink(w io.Writer, link uint32) (Sink, error) {
	out, err := capture.NewWriter(w, link, time.Nanosecond)
	if err != nil {
		return nil, err
	}
	return &fileSink{out: out, now: &f.packet[0].Time}, nil
}

// Send implements [Sink].
func (f *fileSink) Send(packet []byte) error {
	err := f.out.Write(&capture.Record{Data: packet, OrigLen: uint32(len(packet)), Time: *f.now})
	if err != nil {
		f.failed.Add(1)
	}
	return err
}

// Flush does nothing.
func (f *fileSink) Flush() error { return nil }

// Failed implements [Sink].
func (f *fileSink) Failed() uint64 { return f.failed.Load() }

// Close does nothing.
func (f *fileSink) Close() error { return nil }
