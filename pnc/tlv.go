package pnc

import "encoding/binary"

// tlvs iterates over TLVs or sub-TLVs of IS-IS: 8 bits of type, 8 bits of length, the
// value. If rest is not empty at the end of the iteration, it is malformed.
type tlvs struct {
	rest  []byte // octets after the current TLV
	typ   uint8
	value []byte
}

// next advances to the next TLV, initially the first, and reports whether there is
// one.
func (t *tlvs) next() bool {
	b := t.rest
	if len(b) < 2 || len(b) < 2+int(b[1]) {
		return false
	}
	end := 2 + int(b[1])
	t.typ, t.value, t.rest = b[0], b[2:end], b[end:]
	return true
}

// wideTLVs is tlvs with 16 bits of type and 16 bits of length, for BGP and OSPF. In
// OSPF each value is padded with zeros to a multiple of 4 octets (RFC 3630 section
// 2.3.2); the padding of the last value may be missing.
type wideTLVs struct {
	rest  []byte
	typ   uint16
	value []byte
	pad   int // longest padding in octets: 3 in OSPF, 0 in BGP
}

func ospfTLVs(b []byte) wideTLVs { return wideTLVs{rest: b, pad: 3} }

func (t *wideTLVs) next() bool { return t.find(-1, -1) != nil }

// find advances to the next TLV of this type and length; -1 stands for any. It returns
// its value, or nil if there is none.
func (t *wideTLVs) find(typ, size int) (value []byte) {
	b := t.rest
	for len(b) >= 4 {
		current, end := binary.BigEndian.Uint16(b), 4+int(binary.BigEndian.Uint16(b[2:]))
		if end > len(b) {
			break
		}
		value, b = b[4:end], b[min((end+t.pad)&^t.pad, len(b)):]
		if (typ < 0 || typ == int(current)) && (size < 0 || size == len(value)) {
			t.rest, t.typ, t.value = b, current, value
			return value
		}
	}
	t.rest = b
	return nil
}
