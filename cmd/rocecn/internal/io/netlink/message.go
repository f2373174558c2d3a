// Package netlink has as much of netlink as sources of packets need: messages are
// read many at once, and nothing is allocated for them.
package netlink

import "encoding/binary"

var ne = binary.NativeEndian

// A Message is one of a datagram: struct nlmsghdr and what follows it.
type Message struct {
	Type, Flags uint16
	Sequence    uint32
	Data        []byte
}

const (
	headerSize    = 16 // length 32, type 16, flags 16, sequence 32, port 32
	attributeSize = 4  // length 16, type 16
)

// Cut cuts the first message off a datagram. It returns false at the end, and where
// the octets are no message.
func Cut(b []byte) (m Message, rest []byte, ok bool) {
	if len(b) < headerSize {
		return m, nil, false
	}
	n := uint64(ne.Uint32(b))
	if n < headerSize || n > uint64(len(b)) {
		return m, nil, false
	}
	m = Message{
		Type: ne.Uint16(b[4:]), Flags: ne.Uint16(b[6:]), Sequence: ne.Uint32(b[8:]),
		Data: b[headerSize:n:n],
	}
	return m, b[min(alignUp(int(n)), len(b)):], true
}

// CutAttribute cuts the first attribute off a message's data, whose own header is
// cut off already. Its kind is without the bits that say how its data is made. It
// returns false at the end, and where the octets are no attribute.
func CutAttribute(b []byte) (kind uint16, data, rest []byte, ok bool) {
	const flags = 0xC000 // NLA_F_NESTED, NLA_F_NET_BYTEORDER
	if len(b) < attributeSize {
		return 0, nil, nil, false
	}
	n := int(ne.Uint16(b))
	if n < attributeSize || n > len(b) {
		return 0, nil, nil, false
	}
	return ne.Uint16(b[2:]) &^ flags, b[attributeSize:n:n], b[min(alignUp(n), len(b)):], true
}

// alignUp rounds up to where the next message or attribute begins.
func alignUp(n int) int { return (n + 3) &^ 3 }

// AppendMessage appends a message that has this data: a header of the protocol, and
// attributes.
func AppendMessage(b []byte, m Message) []byte {
	b = ne.AppendUint32(b, uint32(headerSize+len(m.Data)))
	b = ne.AppendUint16(b, m.Type)
	b = ne.AppendUint16(b, m.Flags)
	b = ne.AppendUint32(b, m.Sequence)
	b = append(ne.AppendUint32(b, 0), m.Data...) // the kernel's port is 0
	return append(b, make([]byte, alignUp(len(m.Data))-len(m.Data))...)
}

// AppendAttribute appends an attribute.
func AppendAttribute(b []byte, kind uint16, data ...byte) []byte {
	b = ne.AppendUint16(b, uint16(attributeSize+len(data)))
	b = ne.AppendUint16(b, kind)
	b = append(b, data...)
	return append(b, make([]byte, alignUp(len(data))-len(data))...)
}
