package crc

import (
	"encoding/binary"
	"os"
)

// hasCRC32 asks the auxiliary vector that the kernel gives to every process.
// Where it cannot be read the answer is no.
func hasCRC32() bool {
	const (
		atHWCAP    = 16
		hwcapCRC32 = 1 << 7
	)
	b, _ := os.ReadFile("/proc/self/auxv") // pairs of a type and a value
	for ; len(b) >= 16; b = b[16:] {
		if binary.NativeEndian.Uint64(b) == atHWCAP {
			return binary.NativeEndian.Uint64(b[8:])&hwcapCRC32 != 0
		}
	}
	return false
}
