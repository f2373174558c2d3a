package netlink

import (
	"io"

	"golang.org/x/sys/unix"
)

// A Stream is what the sources of packets have in common: a socket whose messages are
// numbered.
type Stream struct {
	*Socket
	Losses
	Stopped bool // it ends when all is read that came before
}

// Next returns the datagrams that are there now, nil for none. At the end the error is
// io.EOF.
func (s *Stream) Next() ([][]byte, error) {
	for {
		datagrams, err := s.Receive()
		switch {
		case err == unix.EINTR:
		case err == unix.ENOBUFS: // is told once, ahead of the messages that came before
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

// Lost is that of netio.Source.
func (s *Stream) Lost() uint64 { return s.Total() }
