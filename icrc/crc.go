package icrc

import "hash/crc32"

// prefixed is the CRC register after the eight octets of 0xFF.
const prefixed = 0xDEBB20E3

// table[n][v] is the register, from 0, after octet v and n octets of zero.
// Building it at start-up takes some 10 µs; it has 16 KB.
var table = func() (t [16][256]uint32) {
	for v := range t[0] {
		r := uint32(v)
		for range 8 {
			r = r>>1 ^ crc32.IEEE&-(r&1)
		}
		t[0][v] = r
	}
	for n := 1; n < len(t); n++ {
		for v, r := range t[n-1] {
			t[n][v] = r>>8 ^ t[0][r&0xFF]
		}
	}
	return t
}()

// update advances the register r over b, by the tables alone.
func update(r uint32, b []byte) uint32 {
	for _, v := range b {
		r = r>>8 ^ table[0][uint8(r)^v]
	}
	return r
}

// updateLong advances the register r over b, which escapes to the heap.
func updateLong(r uint32, b []byte) uint32 {
	return ^crc32.Update(^r, crc32.IEEETable, b)
}
