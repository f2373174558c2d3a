package mapped

import (
	"errors"
	"math/bits"
	"os"
	"syscall"
)

// errUnsupported is the error of a system on which files are not mapped.
var errUnsupported = errors.New("files are not mapped on this system")

// Map maps the first n octets of a file; n must not be 0. A system with addresses of 32 bits has no space for it.
func Map(f *os.File, n int64) (*File, error) {
	if bits.UintSize < 64 {
		return nil, errUnsupported
	}
	octets, err := syscall.Mmap(int(f.Fd()), 0, int(n), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	return &File{Octets: octets}, nil
}

// Close ends the mapping. The octets must not be read any more.
func (f *File) Close() error { return os.NewSyscallError("munmap", syscall.Munmap(f.Octets)) }

// discard lets the kernel take pages away.
func discard(octets []byte) { syscall.Madvise(octets, syscall.MADV_DONTNEED) }
