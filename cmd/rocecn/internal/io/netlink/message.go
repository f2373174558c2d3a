// Package netlink implements the part of netlink that packet sources need. It reads messages in batches without
// allocating.
package netlink

import "encoding/binary"

var ne = binary.NativeEndian

// A Message is struct nlmsghdr with its data.
type Message struct {
	Type, Flags uint16
	Sequence    uint32
	Data        []byte
}

const (
	headerSize    = 16 // length 32, type 16, flags 16, sequence 32, port 32
	attributeSize = 4  // length 16, type 16
)

// SplitMessage returns the first message of a datagram and the rest. It returns false at the end, and if the octets are
// not a message.
func SplitMessage(b []byte) (m Message, rest []byte, ok bool) {
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

// SplitAttribute returns the first attribute of b, which are attributes after the header of a message, and the rest.
// Kind has no flags. It returns false at the end, and if the octets are not an attribute.
func SplitAttribute(b []byte) (kind uint16, data, rest []byte, ok bool) {
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

// alignUp rounds up to the beginning of the next message or attribute.
func alignUp(n int) int { return (n + 3) &^ 3 }

// AppendMessage appends a message. Its data are the header of the protocol and attributes.
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
