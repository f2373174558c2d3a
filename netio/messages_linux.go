package netio

import (
	"encoding/binary"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// atOnce is the maximum number of packets of one read or send.
const maxBatch = 64

// A mmsghdr is the struct of recvmmsg(2) and sendmmsg(2).
type mmsghdr struct {
	msg unix.Msghdr
	n   uint32 // octets received
}

// mmsg calls recvmmsg or sendmmsg. It does not wait.
func mmsg(call uintptr, fd int, m []mmsghdr) (n int, err error) {
	for {
		r, _, errno := unix.Syscall6(call, uintptr(fd), uintptr(unsafe.Pointer(&m[0])), uintptr(len(m)),
			unix.MSG_DONTWAIT, 0, 0)
		switch errno {
		case 0:
			return int(r), nil
		case unix.EINTR:
			continue
		}
		return 0, errno
	}
}

// A receiver reads messages of a socket, with the control messages of the kernel.
type receiver struct {
	fd       int
	messages [maxBatch]mmsghdr
	iovecs   [maxBatch]unix.Iovec
	froms    [maxBatch][unix.SizeofSockaddrAny]byte
	controls [maxBatch][256]byte
	memory   []byte
	headroom int // octets that stay free in front of each message
	slot     int // octets for each message: the free ones and the longest message
}

// newReceiver returns a receiver of messages up to a length.
func newReceiver(fd, headroom, length int) *receiver {
	slot := headroom + length
	r := &receiver{fd: fd, headroom: headroom, slot: slot, memory: make([]byte, maxBatch*slot)}
	for i := range r.messages {
		r.iovecs[i].Base = &r.memory[i*r.slot+headroom]
		r.iovecs[i].SetLen(length)
		m := &r.messages[i].msg
		m.Name, m.Iov, m.Control = &r.froms[i][0], &r.iovecs[i], &r.controls[i][0]
		m.SetIovlen(1)
	}
	return r
}

// receive reads the available messages and returns their number.
func (r *receiver) receive() (int, error) {
	for i := range r.messages {
		r.messages[i].msg.Namelen = uint32(len(r.froms[i]))
		r.messages[i].msg.SetControllen(len(r.controls[i]))
	}
	n, err := mmsg(unix.SYS_RECVMMSG, r.fd, r.messages[:])
	if err == unix.EAGAIN {
		return 0, nil
	}
	return n, err
}

// message returns the octets of a message, with the room in front of them.
func (r *receiver) message(i int) []byte {
	return r.memory[i*r.slot:][:r.headroom+int(r.messages[i].n)]
}

// forEachControl calls f with each thing that the kernel says beside a message.
func (r *receiver) forEachControl(i int, f func(level, kind int32, data []byte)) {
	for b := r.controls[i][:r.messages[i].msg.Controllen]; len(b) > 0; {
		header, data, rest, err := unix.ParseOneSocketControlMessage(b)
		if err != nil {
			return
		}
		f(header.Level, header.Type, data)
		b = rest
	}
}

var ne = binary.NativeEndian

// timeOf returns the time in a struct timespec of two words, each of 32 or 64 bits.
func timeOf(timespec []byte) time.Time {
	switch len(timespec) {
	case 8:
		return time.Unix(int64(ne.Uint32(timespec)), int64(ne.Uint32(timespec[4:]))).UTC()
	case 16:
		return time.Unix(int64(ne.Uint64(timespec)), int64(ne.Uint64(timespec[8:]))).UTC()
	}
	return time.Time{}
}

// roomInKernel is the size of a socket's buffer in the kernel, in bytes.
const socketBufferSize = 8 << 20

// growSocketBuffer gives a socket a buffer of socketBufferSize, or without CAP_NET_ADMIN of the maximum size allowed.
func growSocketBuffer(fd int) {
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, socketBufferSize) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, socketBufferSize)
	}
}

// An option is one of a socket that is set to 1.
type option struct{ level, name int }

func setOptions(fd int, options ...option) error {
	for _, o := range options {
		if err := unix.SetsockoptInt(fd, o.level, o.name, 1); err != nil {
			return err
		}
	}
	return nil
}
