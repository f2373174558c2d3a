package pnc

import "encoding/binary"

// A tlvs walks TLVs or sub-TLVs of IS-IS: 8 bits of type, 8 of length, the
// value. What is left in rest at the end of the walk is broken.
type tlvs struct {
	rest  []byte // behind the present one
	typ   uint8
	value []byte
}

// next goes to the next TLV, at first to the first one.
func (t *tlvs) next() bool {
	b := t.rest
	if len(b) < 2 || len(b) < 2+int(b[1]) {
		return false
	}
	end := 2 + int(b[1])
	t.typ, t.value, t.rest = b[0], b[2:end], b[end:]
	return true
}

// A wideTLVs is a tlvs with 16 bits of type and 16 of length: of BGP, and of
// OSPF, where zeros follow the value, to a multiple of 4 octets (RFC 3630
// section 2.3.2). They may be missing at the end.
type wideTLVs struct {
	rest  []byte
	typ   uint16
	value []byte
	pad   int // 3 in OSPF
}

func ospfTLVs(b []byte) wideTLVs { return wideTLVs{rest: b, pad: 3} }

func (t *wideTLVs) next() bool { return t.find(-1, -1) != nil }

// find goes to the next TLV of this type and length, -1 for any. It returns the
// value, nil when there is none.
func (t *wideTLVs) find(typ, size int) (value []byte) {
	b := t.rest
	for len(b) >= 4 {
		is, end := binary.BigEndian.Uint16(b), 4+int(binary.BigEndian.Uint16(b[2:]))
		if end > len(b) {
			break
		}
		value, b = b[4:end], b[min((end+t.pad)&^t.pad, len(b)):]
		if (typ < 0 || typ == int(is)) && (size < 0 || size == len(value)) {
			t.rest, t.typ, t.value = b, is, value
			return value
		}
	}
	t.rest = b
	return nil
}
