package ioam

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
)

func TestDirectExport(t *testing.T) {
	for _, c := range []struct {
		name   string
		octets string
		want   DirectExport
	}{
		{"no extension", "007b 00 00 f00000 00", DirectExport{Namespace: 123, Type: 0xF00000}},
		{"flow id", "007b 00 80 f00000 00 00abcdef",
			DirectExport{Namespace: 123, ExtensionFlags: ExtensionFlowID, Type: 0xF00000, FlowID: 0xABCDEF}},
		{"sequence", "007b 00 40 f00000 00 00000007",
			DirectExport{Namespace: 123, ExtensionFlags: ExtensionSequence, Type: 0xF00000, Sequence: 7}},
		{"both", "007b 00 c0 f00000 00 00abcdef 00000007",
			DirectExport{Namespace: 123, ExtensionFlags: 0xC0, Type: 0xF00000, FlowID: 0xABCDEF, Sequence: 7}},
		{"unknown extensions", "007b 00 61 f00000 00 00000007 00000020 00000001",
			DirectExport{Namespace: 123, ExtensionFlags: 0x61, Type: 0xF00000, Sequence: 7,
				Extensions: [6]uint32{0: 0x20, 5: 1}}},
		{"every bit", "ffff ff ff ffffff ff 00000080 00000040 00000020 00000010 00000008 00000004 00000002 00000001",
			DirectExport{Namespace: 0xFFFF, Flags: 0xFF, ExtensionFlags: 0xFF, Type: 0xFFFFFF, Reserved: 0xFF,
				FlowID: 0x80, Sequence: 0x40, Extensions: [6]uint32{0x20, 0x10, 8, 4, 2, 1}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := wiretest.Hex(t, c.octets)
			var d DirectExport
			require.NoError(t, d.Decode(Option{Type: OptTypeDirectExport, Data: b}))
			require.Equal(t, c.want, d)
			wiretest.Encodes(t, b, d.AppendBinary)
			wiretest.Prefixes(t, b, func(b []byte) error {
				return d.Decode(Option{Type: OptTypeDirectExport, Data: b})
			})
			require.Equal(t, errDirectExportLen, d.Decode(Option{Type: OptTypeDirectExport, Data: append(b, 0)}))
			require.Equal(t, errNotDirectExport, d.Decode(Option{Type: OptTypeEdgeToEdge, Data: b}))
			require.Equal(t, c.want, d, "%s: unchanged on error", c.name)
		})
	}
	d := DirectExport{Type: 0x1000000}
	b, err := d.AppendBinary([]byte{0xA5})
	require.Equal(t, errTraceTypeRange, err)
	require.Equal(t, []byte{0xA5}, b)
}

// The words of undefined flags are distinguished from those of the defined ones.
func TestUndefinedExtensions(t *testing.T) {
	for _, c := range []struct {
		octets string
		want   []uint32
	}{
		{"007b 00 00 f00000 00", nil},
		{"007b 00 c0 f00000 00 00000001 00000002", nil},
		{"007b 00 03 f00000 00 00abcdef 00000007", []uint32{0xABCDEF, 7}},
		{"007b 00 a1 f00000 00 00000001 00000002 00000003", []uint32{2, 3}},
		{"007b 00 3f f00000 00 00000001 00000002 00000003 00000004 00000005 00000006", []uint32{1, 2, 3, 4, 5, 6}},
	} {
		t.Run(c.octets, func(t *testing.T) {
			var d DirectExport
			require.NoError(t, d.Decode(Option{Type: OptTypeDirectExport, Data: wiretest.Hex(t, c.octets)}))
			words, n := d.UndefinedExtensions()
			require.Equal(t, c.want, append([]uint32(nil), words[:n]...))
		})
	}
}
