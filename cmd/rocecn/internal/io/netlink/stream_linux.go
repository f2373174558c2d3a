package netlink

import (
	"io"

	"golang.org/x/sys/unix"
)

// A Stream is a socket with numbered messages, as packet sources use it.
type Stream struct {
	*Socket
	Losses
	Stopped bool // end after the messages that have arrived
}

// Next returns the available datagrams, or nil. At the end the error is io.EOF.
func (s *Stream) Next() ([][]byte, error) {
	for {
		datagrams, err := s.Receive()
		switch {
		case err == unix.EINTR:
		case err == unix.ENOBUFS: // reported once, before the messages that came earlier
			s.Overrun()
		case err == unix.EAGAIN && s.Stopped:
			return nil, io.EOF
		case err == unix.EAGAIN:
			return nil, nil
		default:
			return datagrams, err
		}
	}
}

// Lost implements netio.Source.
func (s *Stream) Lost() uint64 { return s.Total() }
