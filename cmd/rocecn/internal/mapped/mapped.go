// Package mapped maps files into memory, where they are read without a copy.
//
// Reading a mapped file that another program truncates is a fault, which ends a Go program unless it expects it: see
// [File.Guard].
package mapped

import (
	"errors"
	"runtime/debug"
	"unsafe"
)

// A File is a file in memory. Its octets must not be written.
type File struct {
	Octets    []byte
	discarded int  // octets at the beginning that were discarded
	sum       byte // of octets that Load read, so that the compiler cannot omit reading them
}

// errShorter is the error of reading a mapped file where it has no octets any more.
var errShorter = errors.New("the file became shorter while it was read, or its disk failed")

// discardSize is the number of octets that are discarded together. The kernel maps aligned groups of pages, and
// discardSize is a multiple of their size, so that reading the octets after the discarded ones does not map these
// again.
const discardSize = 4 << 20

// cacheLine is the number of octets that a CPU reads together.
const cacheLine = 64

// Load reads the octets between two positions, at most to the end of the file, to get them into the cache of the CPU.
// Without it, the CPU waits for memory at each packet, because only the header of a packet tells where the next one is.
func (f *File) Load(from, to int64) {
	size := int64(len(f.Octets))
	octets := f.Octets[min(from, size):min(to, size)]
	for i := 0; i < len(octets); i += cacheLine {
		f.sum += octets[i]
	}
}

// Discard says that the first n octets are not read any more, so that they do not count as memory of this process. On a
// nil File it does nothing.
func (f *File) Discard(n int) {
	if f == nil {
		return
	}
	if n -= n % discardSize; n > f.discarded {
		discard(f.Octets[f.discarded:n])
		f.discarded = n
	}
}

// Guard calls a function that reads octets of the file. It returns an error if the file has no octets any more where
// the function read; the function has then not returned. On a nil File it only calls the function.
func (f *File) Guard(read func()) (err error) {
	if f == nil {
		read()
		return nil
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		cause := recover()
		if cause == nil {
			return
		}
		fault, ok := cause.(interface{ Addr() uintptr })
		if !ok || !f.contains(fault.Addr()) {
			panic(cause)
		}
		err = errShorter
	}()
	read()
	return nil
}

// contains reports whether an address is that of an octet of the file.
func (f *File) contains(address uintptr) bool {
	return address-uintptr(unsafe.Pointer(unsafe.SliceData(f.Octets))) < uintptr(len(f.Octets))
}
