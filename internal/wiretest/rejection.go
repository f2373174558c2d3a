package wiretest

import (
	"encoding/binary"
	"net/netip"
	"slices"
)

// Rejection returns the Parameter Problem by which a host rejects a Fast CNP with an option at
// octet 42 that the host does not know (RFC 4443 section 3.4).
func Rejection(src, dst netip.Addr, quoted []byte) []byte {
	const next, hopLimit = 58, 64
	b := binary.BigEndian.AppendUint16([]byte{0x60, 0, 0, 0}, uint16(8+len(quoted)))
	b = slices.Concat(b, []byte{next, hopLimit}, src.AsSlice(), dst.AsSlice(), []byte{4, 2, 0, 0, 0, 0, 0, 42}, quoted)
	sum := uint32(next + 8 + len(quoted))
	for i, octet := range b[8:] {
		sum += uint32(octet) << (8 * (1 - i%2))
	}
	for sum > 0xFFFF {
		sum = sum>>16 + sum&0xFFFF
	}
	binary.BigEndian.PutUint16(b[42:], ^uint16(sum))
	return b
}
