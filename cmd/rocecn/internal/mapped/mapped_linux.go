package mapped

import (
	"math/bits"
	"os"
	"syscall"
)

// Map maps the first n octets of a file, which must remain open; n must not be 0. A system with addresses of 32 bits
// has no space for it.
func Map(f *os.File, n int64) (*File, error) {
	if bits.UintSize < 64 {
		return nil, errUnsupported
	}
	octets, err := syscall.Mmap(int(f.Fd()), 0, int(n), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	return &File{Octets: octets, file: f}, nil
}

// size returns the size of the file. It does not allocate, as os.File.Stat would.
func (f *File) size() (int64, error) {
	var info syscall.Stat_t
	for {
		err := syscall.Fstat(int(f.file.Fd()), &info)
		if err != syscall.EINTR {
			return info.Size, os.NewSyscallError("fstat", err)
		}
	}
}

// Close ends the mapping. The octets must not be read any more.
func (f *File) Close() error { return os.NewSyscallError("munmap", syscall.Munmap(f.Octets)) }

// discard unmaps pages. The kernel maps them again if they are read.
func discard(octets []byte) { syscall.Madvise(octets, syscall.MADV_DONTNEED) }
