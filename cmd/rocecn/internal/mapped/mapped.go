// Package mapped maps files into memory, where they are read without a copy.
//
// Another program may change the file meanwhile. If it truncates the file, reading a missing octet is a fault, which
// ends a Go program that does not expect it: see [File.Guard]. If it overwrites the file, two reads of one octet may
// differ, and a decoder that read a length twice would panic.
package mapped

import (
	"errors"
	"os"
	"runtime/debug"
	"unsafe"
)

// A File is a file in memory. Its octets must not be written.
type File struct {
	Octets    []byte
	file      *os.File
	discarded int  // number of discarded octets at the beginning
	sum       byte // of octets that Load read, so that the compiler cannot omit reading them
}

// errShorter is returned if a mapped file no longer has all its octets.
var errShorter = errors.New("the file became shorter while it was read, or its disk failed")

// errUnsupported is the error of a system on which files are not mapped.
var errUnsupported = errors.New("files are not mapped on this system")

// discardSize is the number of octets that are discarded together. It is large, as the other CPUs are interrupted each
// time.
const discardSize = 4 << 20

// cacheLine is the number of octets that a CPU reads together.
const cacheLine = 64

// Load reads the octets between two positions, at most to the end of the file, to get them into the cache of the CPU.
// Without it, the CPU waits for memory at each packet, because only the header of a packet tells where the next one is.
func (f *File) Load(from, to int64) {
	size := int64(len(f.Octets))
	octets := f.Octets[min(from, size):min(to, size)]
	var sum byte
	for i := 0; i < len(octets); i += cacheLine {
		sum += octets[i]
	}
	f.sum = sum
}

// Discard says that the first n octets are no longer needed. Those in whole parts of discardSize do not count as memory
// of this process any more. On a nil File it does nothing.
func (f *File) Discard(n int) {
	if f == nil {
		return
	}
	if n -= n % discardSize; n > f.discarded {
		again := max(f.discarded-discardSize, 0) // the kernel also maps pages before the one that is read
		discard(f.Octets[again:n])
		f.discarded = n
	}
}

// Guard calls a function that reads octets of the file. It returns an error if the file has become shorter: it stops
// the function where that reads a missing octet. The function may also have read zeros, instead of missing octets in a
// page of which others remain. Guard does not notice a file that became shorter and has its size again. On a nil File,
// Guard only calls the function.
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
	size, err := f.size()
	if err == nil && size < int64(len(f.Octets)) {
		err = errShorter
	}
	return err
}

// contains reports whether an address is that of an octet of the file.
func (f *File) contains(address uintptr) bool {
	return address-uintptr(unsafe.Pointer(unsafe.SliceData(f.Octets))) < uintptr(len(f.Octets))
}
