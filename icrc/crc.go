package icrc

import "hash/crc32"

// prefixed is the CRC register after the eight octets of 0xFF.
const prefixed = 0xDEBB20E3

// slicing[n][v] is the register, from 0, after octet v and n octets of zero:
// 16 KB, built at start-up in some 10 µs. It is a pointer because indexed
// loads from a register take one instruction less than from a symbol.
var slicing = newTables()

type tables [16][256]uint32

func newTables() *tables {
	t := new(tables)
	for v := range t[0] {
		r := uint32(v)
		for range 8 {
			r = r>>1 ^ crc32.IEEE&-(r&1)
		}
		t[0][v] = r
	}
	for n := 1; n < len(t); n++ {
		for v, r := range t[n-1] {
			t[n][v] = r>>8 ^ t[0][uint8(r)]
		}
	}
	return t
}

// A mask has the bits that read as ones in the first 64 of some octets,
// between 64 octets of zero: loads at any shift against the octets stay inside.
type mask [3 * 64]byte

// updateTables returns the register r after b, masked: by the tables up to
// 128 octets, beyond that the front by the tables and the rest, a multiple of
// 16 that hash/crc32 is fast with, by it.
func updateTables(r uint32, b []byte, m *mask) uint32 {
	r, i := slicing.update(r, b, m)
	if i < len(b) {
		r = ^crc32.Update(^r, crc32.IEEETable, b[i:])
	}
	return r
}

// update returns the register r after b[:i], masked: all of b if that is
// below 128 octets, otherwise the first 64 to 79.
func (t *tables) update(r uint32, b []byte, m *mask) (_ uint32, i int) {
	for ; (len(b)-i)&3 != 0; i++ {
		r = r>>8 ^ t[0][uint8(r)^(b[i]|m[64+i])]
	}
	if (len(b)-i)&4 != 0 {
		r ^= le.Uint32(b[i:]) | le.Uint32(m[64+i:])
		r = t[3][uint8(r)] ^ t[2][uint8(r>>8)] ^ t[1][uint8(r>>16)] ^ t[0][r>>24]
		i += 4
	}
	if (len(b)-i)&8 != 0 {
		r = t.step(0, 0, (le.Uint64(b[i:])|le.Uint64(m[64+i:]))^uint64(r))
		i += 8
	}
	for ; i < len(b) && (i < 64 || len(b)-i < 64); i += 16 {
		r = t.step(r, le.Uint64(b[i:])|le.Uint64(m[64+i:]), le.Uint64(b[i+8:])|le.Uint64(m[72+i:]))
	}
	return r, i
}

// step returns the register r after the 16 octets v and w. What depends on r
// comes last: the other look-ups need not wait for the step before.
func (t *tables) step(r uint32, v, w uint64) uint32 {
	s := t[0][w>>56] ^ t[1][uint8(w>>48)] ^ t[2][uint8(w>>40)] ^ t[3][uint8(w>>32)] ^
		t[4][uint8(w>>24)] ^ t[5][uint8(w>>16)] ^ t[6][uint8(w>>8)] ^ t[7][uint8(w)]
	s ^= t[8][v>>56] ^ t[9][uint8(v>>48)] ^ t[10][uint8(v>>40)] ^ t[11][uint8(v>>32)]
	r ^= uint32(v)
	return s ^ t[12][r>>24] ^ t[13][uint8(r>>16)] ^ t[14][uint8(r>>8)] ^ t[15][uint8(r)]
}
