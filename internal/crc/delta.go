package crc

import "hash/crc32"

// A Delta carries a change of four octets over to the ICRC without looking at
// the rest of the packet: CRC-32 is affine, so a change of certain octets at
// a certain distance from the end always changes it by the same value,
// whatever the packet, its length and its coverage.
//
// It serves packets that are made from a template. The sender of CNPs keeps
// for each flow a finished packet, and for all flows one Delta for the word
// with the destination queue pair; a CNP is then a copy, the queue pair, and
// the template's ICRC XORed with the Delta of it. A template needs no memory
// beside its octets; a Delta has 4 KB and may be used by any number of
// goroutines. Several places change by one Delta each, all of them XORed.
type Delta struct {
	table [4][256]uint32 // by the octet's place and value
}

// NewDelta returns the Delta of four octets with this many octets between
// them and the ICRC: 20 for octets 4 to 7 of a CNP's BTH. Its time grows with
// the distance, 2 µs for a CNP.
func NewDelta(behind uint16) *Delta {
	d := new(Delta)
	for place := range d.table {
		row := &d.table[place]
		for bit := 1; bit < 256; bit <<= 1 {
			r := crc32.IEEETable[bit]
			for range 3 - place + int(behind) {
				r = r>>8 ^ crc32.IEEETable[uint8(r)]
			}
			row[bit] = r
		}
		for v := range row {
			row[v] = row[v&-v] ^ row[v&(v-1)]
		}
	}
	return d
}

// Of returns what the ICRC, as icrc.Sum returns it, is to be XORed with when the
// octets change by diff: old XOR new, both read big-endian. Bits that the
// ICRC masks must be 0 in diff, in the CNP's word the upper eight.
func (d *Delta) Of(diff uint32) uint32 {
	return d.table[0][diff>>24] ^ d.table[1][uint8(diff>>16)] ^ d.table[2][uint8(diff>>8)] ^ d.table[3][uint8(diff)]
}
