package ioam

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
)

func TestOption(t *testing.T) {
	for _, c := range []struct {
		octets string
		want   Option
		text   string
	}{
		{"00 00 aabb", Option{0, OptTypePreallocated, []byte{0xAA, 0xBB}}, "pre-allocated trace"},
		{"00 01", Option{0, OptTypeIncremental, []byte{}}, "incremental trace"},
		{"00 02 aa", Option{0, OptTypeProofOfTransit, []byte{0xAA}}, "proof of transit"},
		{"00 03 aa", Option{0, OptTypeEdgeToEdge, []byte{0xAA}}, "edge-to-edge"},
		{"7f 04 aa", Option{0x7F, OptTypeDirectExport, []byte{0xAA}}, "direct export"},
		{"00 05 aa", Option{0, 5, []byte{0xAA}}, "OptType(5)"},
		{"ff ff aa", Option{0xFF, 0xFF, []byte{0xAA}}, "OptType(255)"},
	} {
		t.Run(c.octets, func(t *testing.T) {
			b := wiretest.Hex(t, c.octets)
			var o Option
			require.NoError(t, o.Decode(b))
			require.Equal(t, c.want, o)
			require.Equal(t, c.text, o.Type.String())
			wiretest.Encodes(t, b, o.AppendBinary)
		})
	}

	o := Option{Reserved: 1, Data: []byte{2}}
	wiretest.Prefixes(t, []byte{0, 0}, o.Decode)
	require.Equal(t, Option{Reserved: 1, Data: []byte{2}}, o, "unchanged on error")
}

func TestOptionIsAtMost255Octets(t *testing.T) {
	b, err := Option{Data: make([]byte, 253)}.AppendBinary(nil)
	require.NoError(t, err)
	require.Len(t, b, 255)
	b, err = Option{Data: make([]byte, 254)}.AppendBinary([]byte{0xA5})
	require.Equal(t, errOptionLen, err)
	require.Equal(t, []byte{0xA5}, b)
}

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

func TestEdgeToEdge(t *testing.T) {
	for _, c := range []struct {
		name   string
		octets string
		want   EdgeToEdge
	}{
		{"nothing", "007b 0000", EdgeToEdge{Namespace: 123, Rest: []byte{}}},
		{"sequence of 64 bits", "007b 8000 0102030405060708",
			EdgeToEdge{Namespace: 123, Type: E2ESequence64, Sequence64: 0x0102030405060708, Rest: []byte{}}},
		{"sequence of 32 bits", "007b 4000 01020304",
			EdgeToEdge{Namespace: 123, Type: E2ESequence32, Sequence32: 0x01020304, Rest: []byte{}}},
		{"time", "007b 3000 6b016366 000ac170",
			EdgeToEdge{Namespace: 123, Type: E2ESeconds | E2EFraction, Seconds: 0x6B016366, Fraction: 704880,
				Rest: []byte{}}},
		{"all four", "007b f000 0102030405060708 01020304 6b016366 000ac170",
			EdgeToEdge{Namespace: 123, Type: 0xF000, Sequence64: 0x0102030405060708, Sequence32: 0x01020304,
				Seconds: 0x6B016366, Fraction: 704880, Rest: []byte{}}},
		{"an undefined bit with its field", "007b 4001 01020304 aabbccdd",
			EdgeToEdge{Namespace: 123, Type: 0x4001, Sequence32: 0x01020304, Rest: []byte{0xAA, 0xBB, 0xCC, 0xDD}}},
		{"an undefined bit without one", "007b 4800 01020304",
			EdgeToEdge{Namespace: 123, Type: 0x4800, Sequence32: 0x01020304, Rest: []byte{}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := wiretest.Hex(t, c.octets)
			o := Option{Type: OptTypeEdgeToEdge, Data: b}
			var e EdgeToEdge
			require.NoError(t, e.Decode(o))
			require.Equal(t, c.want, e)
			wiretest.Encodes(t, b, e.AppendBinary)
			wiretest.Prefixes(t, b[:len(b)-len(e.Rest)],
				func(b []byte) error { return e.Decode(Option{Type: OptTypeEdgeToEdge, Data: b}) })
			require.Equal(t, errNotEdgeToEdge, e.Decode(Option{Type: OptTypeDirectExport, Data: b}))
			if e.Type&0x0FFF == 0 {
				o.Data = append(b, 0, 0, 0, 0)
				require.Equal(t, errEdgeToEdgeLen, e.Decode(o))
			}
			require.Equal(t, c.want, e, "%s: unchanged on error", c.name)
		})
	}
	require.Equal(t, "0x3000", (E2ESeconds | E2EFraction).String())
	e := EdgeToEdge{Type: E2ESequence32, Rest: []byte{1}}
	b, err := e.AppendBinary([]byte{0xA5})
	require.Equal(t, errEdgeToEdgeLen, err)
	require.Equal(t, []byte{0xA5}, b)
}

func TestProofOfTransit(t *testing.T) {
	for _, c := range []struct {
		name   string
		octets string
		want   ProofOfTransit
		fixed  int // minimum length in octets
	}{
		{"type 0", "007b 00 80 0102030405060708 1112131415161718",
			ProofOfTransit{Namespace: 123, Flags: 0x80, PktID: 0x0102030405060708, Cumulative: 0x1112131415161718}, 20},
		{"another type", "007b 01 ff 010203",
			ProofOfTransit{Namespace: 123, Type: 1, Flags: 0xFF, Data: []byte{1, 2, 3}}, 4},
		{"another type, empty", "007b ff 00", ProofOfTransit{Namespace: 123, Type: 0xFF, Data: []byte{}}, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := wiretest.Hex(t, c.octets)
			o := Option{Type: OptTypeProofOfTransit, Data: b}
			var p ProofOfTransit
			require.NoError(t, p.Decode(o))
			require.Equal(t, c.want, p)
			wiretest.Encodes(t, b, p.AppendBinary)
			wiretest.Prefixes(t, b[:c.fixed], func(b []byte) error {
				return p.Decode(Option{Type: OptTypeProofOfTransit,
					Data: b})
			})
			require.Equal(t, errNotProofOfTransit, p.Decode(Option{Type: OptTypeEdgeToEdge, Data: b}))
			if p.Type == 0 {
				o.Data = append(b, 0)
				require.Equal(t, errProofOfTransitLen, p.Decode(o))
			}
			require.Equal(t, c.want, p, "%s: unchanged on error", c.name)
		})
	}
}

func TestProofOfTransitWithData(t *testing.T) {
	p := ProofOfTransit{Data: []byte{1}}
	out, err := p.AppendBinary([]byte{9})
	require.ErrorIs(t, err, errProofOfTransitLen)
	require.Equal(t, []byte{9}, out)
}

func TestValidate(t *testing.T) {
	good := Trace{Namespace: 1, Type: BitNode, Data: make([]byte, 4)}
	require.NoError(t, good.Validate())
	bad := Trace{ReservedFlag: true, Type: BitNode | BitReserved, Reserved: 1, Data: make([]byte, 3)}
	for _, err := range []error{errReservedFlag, errReservedBit, errReservedTrace, errTruncatedNode} {
		require.ErrorIs(t, bad.Validate(), err)
	}
	require.NoError(t, Option{}.Validate())
	require.ErrorIs(t, Option{Reserved: 1}.Validate(), errReservedOption)
}
