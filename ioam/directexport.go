package ioam

import (
	"math/bits"
	"slices"
)

// Extension flags of a direct export (RFC 9326 section 3.2).
const (
	ExtensionFlowID   = 0x80
	ExtensionSequence = 0x40
)

// DirectExport requests that the nodes on the path export their data instead of
// recording it in the packet (RFC 9326 section 3.2).
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|         Namespace-ID          |     Flags     |Extension-Flags|
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                IOAM-Trace-Type                |    Reserved   |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                      Flow ID (optional)                       |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                  Sequence Number (optional)                   |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//
// Each extension flag announces one word of 4 octets after the header. The words
// are in the order of the flags.
type DirectExport struct {
	Namespace      uint16
	Flags          uint8     // none defined
	ExtensionFlags uint8     // set of the words below that are present
	Type           TraceType // the fields to export
	Reserved       uint8     // ignored on receipt
	FlowID         uint32    // present with ExtensionFlowID
	Sequence       uint32    // present with ExtensionSequence
	Extensions     [6]uint32 // words of the undefined flags 0x20 to 0x01
}

// Decode reads a direct export from all of o.Data. On error d is unchanged.
func (d *DirectExport) Decode(o Option) error {
	if o.Type != OptTypeDirectExport {
		return errNotDirectExport
	}
	b := o.Data
	if len(b) < 8 || len(b) < 8+4*bits.OnesCount8(b[3]) {
		return errTruncatedDirectExport
	}
	if len(b) > 8+4*bits.OnesCount8(b[3]) {
		return errDirectExportLen
	}
	*d = DirectExport{
		Namespace:      be.Uint16(b),
		Flags:          b[2],
		ExtensionFlags: b[3],
		Type:           TraceType(be.Uint32(b[4:]) >> 8),
		Reserved:       b[7],
	}
	b = b[8:]
	for i := range 8 {
		if d.ExtensionFlags&(ExtensionFlowID>>i) != 0 {
			*d.extensionWord(i) = be.Uint32(b)
			b = b[4:]
		}
	}
	return nil
}

// AppendBinary appends the option data to b. It returns an error that matches
// rocecn.ErrRange if Type has more than 24 bits.
func (d *DirectExport) AppendBinary(b []byte) ([]byte, error) {
	if d.Type > 0xFFFFFF {
		return b, errTraceTypeRange
	}
	b = slices.Grow(b, 8+4*8)
	b = be.AppendUint16(b, d.Namespace)
	b = append(b, d.Flags, d.ExtensionFlags)
	b = be.AppendUint32(b, uint32(d.Type)<<8|uint32(d.Reserved))
	for i := range 8 {
		if d.ExtensionFlags&(ExtensionFlowID>>i) != 0 {
			b = be.AppendUint32(b, *d.extensionWord(i))
		}
	}
	return b, nil
}

// UndefinedExtensions returns the words of the undefined extension flags that are
// set, in the order of the flags, and their number n.
func (d *DirectExport) UndefinedExtensions() (words [6]uint32, n int) {
	for i := range d.Extensions {
		if d.ExtensionFlags&(ExtensionSequence>>(i+1)) != 0 {
			words[n] = d.Extensions[i]
			n++
		}
	}
	return words, n
}

// extensionWord returns the word of extension flag i, counted from the most
// significant bit.
func (d *DirectExport) extensionWord(i int) *uint32 {
	switch i {
	case 0:
		return &d.FlowID
	case 1:
		return &d.Sequence
	}
	return &d.Extensions[i-2]
}
