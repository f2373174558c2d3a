package bpf

import (
	"errors"
	"os"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// A Ring is a BPF ring buffer, read in place: nothing is copied nor allocated. It is
// for one goroutine.
type Ring struct {
	fd       int
	size     uint64 // octets of the ring, a power of two
	consumer []byte // the page with how far it is read
	producer []byte // the page with how far it is written, and the ring, twice in a row
	data     []byte
	read     uint64 // by Next
	given    uint64 // by Free
}

// NewRing maps a ring buffer, which Close unmaps.
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

// ringPosition is where the kernel's and the reader's position in the ring are: at the
// beginning of a page. A kernel of 32 bits uses 32 of them; the others are 0.
func ringPosition(page []byte) *uint64 { return (*uint64)(unsafe.Pointer(&page[0])) }

const (
	ringHeader = 8 // length 32, page 32
	busy       = 1 << 31
	discarded  = 1 << 30
)

// Next returns the next record, valid until Free is called, nil if there is none.
func (r *Ring) Next() []byte {
	for r.read < atomic.LoadUint64(ringPosition(r.producer)) {
		at := r.read & (r.size - 1)
		length := atomic.LoadUint32((*uint32)(unsafe.Pointer(&r.data[at])))
		if length&busy != 0 { // is being written
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

// Free gives the room of the records that Next has returned back to the kernel.
func (r *Ring) Free() {
	if r.given != r.read {
		atomic.StoreUint64(ringPosition(r.consumer), r.read)
		r.given = r.read
	}
}

// FD returns the file descriptor, that of the map, which is readable when there are
// records that are not freed.
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

// Monotonic returns the clock by which programs stamp: nanoseconds since the start.
func Monotonic() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
	return t.Nano()
}
