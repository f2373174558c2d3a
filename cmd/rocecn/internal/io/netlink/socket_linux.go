package netlink

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	batchSize    = 16       // datagrams of one system call
	datagramSize = 68 << 10 // size of a datagram: the longest attribute, with a packet in it, and others

	// receiveBuffer is the size in bytes of the socket's receive buffer. The default of 208 KiB is too small for
	// the first burst.
	receiveBuffer = 8 << 20
)

// ErrNoRights matches fs.ErrPermission.
var ErrNoRights = fmt.Errorf("%w: CAP_NET_ADMIN is needed", fs.ErrPermission)

// A mmsghdr is struct mmsghdr of recvmmsg(2).
type mmsghdr struct {
	msg unix.Msghdr
	n   uint32 // bytes received
}

// A Socket is a netlink socket. It is for one goroutine.
type Socket struct {
	fd        int
	admin     bool // the process has CAP_NET_ADMIN
	sequence  uint32
	messages  [batchSize]mmsghdr
	iovecs    [batchSize]unix.Iovec
	froms     [batchSize]unix.RawSockaddrNetlink
	memory    []byte
	datagrams [batchSize][]byte
}

// Open opens a socket of a protocol NETLINK_….
func Open(protocol int) (*Socket, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		unix.Close(fd)
		return nil, os.NewSyscallError("bind", err)
	}
	s := &Socket{fd: fd, memory: make([]byte, batchSize*datagramSize)}
	if s.admin = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer) == nil; !s.admin {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer)
	}
	for i := range s.messages {
		s.iovecs[i].Base = &s.memory[i*datagramSize]
		s.iovecs[i].SetLen(datagramSize)
		m := &s.messages[i].msg
		m.Name, m.Iov = (*byte)(unsafe.Pointer(&s.froms[i])), &s.iovecs[i]
		m.SetIovlen(1)
	}
	return s, nil
}

// Receive returns the available datagrams of the kernel, valid until the next call. It skips datagrams of other
// processes, so the result may be empty. If datagrams were lost, the error is unix.ENOBUFS once, before the
// datagrams that came earlier. If none is available, it is unix.EAGAIN.
func (s *Socket) Receive() ([][]byte, error) {
	for i := range s.messages {
		s.messages[i].msg.Namelen = unix.SizeofSockaddrNetlink
	}
	n, _, errno := unix.Syscall6(unix.SYS_RECVMMSG, uintptr(s.fd), uintptr(unsafe.Pointer(&s.messages[0])), batchSize,
		unix.MSG_DONTWAIT, 0, 0)
	if errno != 0 {
		return nil, errno
	}
	datagrams := s.datagrams[:0]
	for i := range int(n) {
		if m := &s.messages[i]; s.froms[i].Pid == 0 && m.msg.Flags&unix.MSG_TRUNC == 0 {
			datagrams = append(datagrams, s.memory[i*datagramSize:][:m.n])
		}
	}
	return datagrams, nil
}

// Send sends a request of a kind. The kernel has processed it when Send returns.
func (s *Socket) Send(kind, flags uint16, data []byte) error {
	s.sequence++
	m := Message{Type: kind, Flags: flags | unix.NLM_F_REQUEST, Sequence: s.sequence, Data: data}
	to := &unix.SockaddrNetlink{Family: unix.AF_NETLINK}
	return os.NewSyscallError("sendto", unix.Sendto(s.fd, AppendMessage(nil, m), 0, to))
}

// Request sends a request and returns the kernel's error. It calls f, unless it is nil, for each message of the
// answer, and drops other messages.
func (s *Socket) Request(kind, flags uint16, data []byte, f func(Message)) error {
	if err := s.Send(kind, flags|unix.NLM_F_ACK, data); err != nil {
		return err
	}
	return s.readAnswers(f)
}

// Dump is like Request for a request that lists all objects.
func (s *Socket) Dump(kind uint16, data []byte, f func(Message)) error {
	if err := s.Send(kind, unix.NLM_F_DUMP, data); err != nil {
		return err
	}
	return s.readAnswers(f)
}

// readAnswers calls f for each message of the answer to the last request, and returns the error that ends the
// answer.
func (s *Socket) readAnswers(f func(Message)) error {
	for {
		datagrams, err := s.Receive()
		switch {
		case err == unix.EINTR, err == unix.ENOBUFS:
			continue
		case err == unix.EAGAIN: // the kernel answers before sendto returns, unless the buffer overran
			return errNoAnswer
		case err != nil:
			return os.NewSyscallError("recvmmsg", err)
		}
		for _, b := range datagrams {
			for m, b, ok := SplitMessage(b); ok; m, b, ok = SplitMessage(b) {
				switch {
				case m.Sequence != s.sequence:
				case m.Type == unix.NLMSG_DONE: // end of a dump
					return nil
				case m.Type == unix.NLMSG_ERROR && len(m.Data) >= 4:
					return s.requestError(unix.Errno(-int32(ne.Uint32(m.Data))))
				case f != nil:
					f(m)
				}
			}
		}
	}
}

var errNoAnswer = errors.New("netlink: the kernel has not answered")

// requestError returns the meaning of a kernel error, nil for 0. EPERM stays as it is if the process has
// CAP_NET_ADMIN.
func (s *Socket) requestError(errno unix.Errno) error {
	switch {
	case errno == 0:
		return nil
	case errno == unix.EPERM && !s.admin:
		return ErrNoRights
	}
	return errno
}

// Join joins a multicast group. Some groups need CAP_NET_ADMIN.
func (s *Socket) Join(group uint32) error {
	err := unix.SetsockoptInt(s.fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, int(group))
	if err == unix.EPERM {
		return ErrNoRights
	}
	return os.NewSyscallError("setsockopt", err)
}

// Leave leaves a multicast group. Messages that have arrived can still be received.
func (s *Socket) Leave(group uint32) error {
	return unix.SetsockoptInt(s.fd, unix.SOL_NETLINK, unix.NETLINK_DROP_MEMBERSHIP, int(group))
}

// FD returns the file descriptor.
func (s *Socket) FD() int { return s.fd }

// Close closes the socket.
func (s *Socket) Close() error { return unix.Close(s.fd) }
