package bpf

import (
	"errors"
	"os"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// A Ring reads a BPF ring buffer in place, without copying or allocating. It is for one goroutine.
type Ring struct {
	fd       int
	size     uint64 // size of the ring in bytes, a power of two
	consumer []byte // page with the reader's position
	producer []byte // page with the kernel's position, and the ring twice in a row
	data     []byte
	read     uint64 // position after the records returned by Next
	given    uint64 // position after the records released by Free
}

// NewRing maps a ring buffer. Close unmaps it.
func NewRing(m *ebpf.Map) (*Ring, error) {
	page, size := os.Getpagesize(), int(m.MaxEntries())
	r := &Ring{fd: m.FD(), size: uint64(size)}
	var err error
	if r.consumer, err = unix.Mmap(r.fd, 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	if r.producer, err = unix.Mmap(r.fd, int64(page), page+2*size, unix.PROT_READ, unix.MAP_SHARED); err != nil {
		return nil, errors.Join(os.NewSyscallError("mmap", err), r.Close())
	}
	r.data = r.producer[page:]
	r.read = atomic.LoadUint64(ringPosition(r.consumer))
	return r, nil
}

// ringPosition returns the position at the beginning of a page. A 32-bit kernel uses 32 bits of it; the others are
// 0.
func ringPosition(page []byte) *uint64 { return (*uint64)(unsafe.Pointer(&page[0])) }

const (
	ringHeader = 8 // length 32, page 32
	busy       = 1 << 31
	discarded  = 1 << 30
)

// Next returns the next record, valid until Free is called, or nil.
func (r *Ring) Next() []byte {
	for r.read < atomic.LoadUint64(ringPosition(r.producer)) {
		at := r.read & (r.size - 1)
		length := atomic.LoadUint32((*uint32)(unsafe.Pointer(&r.data[at])))
		if length&busy != 0 { // the kernel is still writing it
			return nil
		}
		n := uint64(length &^ discarded)
		r.read += (ringHeader + n + 7) &^ 7
		if length&discarded == 0 {
			return r.data[at+ringHeader:][:n:n]
		}
	}
	return nil
}

// Free releases the records that Next has returned.
func (r *Ring) Free() {
	if r.given != r.read {
		atomic.StoreUint64(ringPosition(r.consumer), r.read)
		r.given = r.read
	}
}

// FD returns the file descriptor of the map. It is readable while there are records that are not released.
func (r *Ring) FD() int { return r.fd }

// Close unmaps the ring.
func (r *Ring) Close() (err error) {
	for _, m := range [][]byte{r.consumer, r.producer} {
		if m != nil {
			err = errors.Join(err, unix.Munmap(m))
		}
	}
	r.consumer, r.producer, r.data = nil, nil, nil
	return err
}

// Monotonic returns the clock of the programs, in nanoseconds since boot.
func Monotonic() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
	return t.Nano()
}
