package bth_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/wiretest"
)

// table is testdata/opcodes.json: the properties of each opcode, from a source other
// than this package.
type table struct {
	Sizes   map[string]int `json:"eth_bytes"`
	Opcodes []struct {
		Opcode, Name, Note string
		Headers            []string
		HeaderBytes        int `json:"header_bytes"`
		Payload            bool
	}
}

func readTable(t *testing.T) (tab table) {
	b := wiretest.Must(os.ReadFile(wiretest.Path(t, "opcodes.json")))(t)
	require.NoError(t, json.Unmarshal(b, &tab))
	require.Len(t, tab.Opcodes, 88)
	return tab
}

// The table and the package agree about every opcode, known and unknown.
func TestOpcodesAreThoseOfTheTable(t *testing.T) {
	listed := map[bth.Opcode]bool{}
	for _, row := range readTable(t).Opcodes {
		n := wiretest.Must(strconv.ParseUint(row.Opcode, 0, 8))(t)
		o := bth.Opcode(n)
		listed[o] = true
		t.Run(row.Name, func(t *testing.T) {
			require.True(t, o.IsKnown())
			require.Equal(t, row.Name, tableName(o))
			require.Equal(t, row.HeaderBytes, bth.Size+o.HeaderLen())
			var headers []string
			for x := range o.Headers().All() {
				headers = append(headers, x.String())
			}
			require.Equal(t, strings.Join(row.Headers, " "), strings.Join(headers, " "))

			want := bth.PayloadNone
			switch {
			case o == bth.CNP:
				require.Contains(t, row.Note, "16 reserved octets")
				want = bth.PayloadReserved
			case strings.HasSuffix(row.Name, "ATOMIC_WRITE"): // RC has the note, XRC is by analogy
				want = bth.PayloadEight
			case row.Payload:
				want = bth.PayloadAny
			}
			require.Equal(t, want, o.Payload())
			require.Equal(t, strings.HasSuffix(row.Name, "_ACKNOWLEDGE"), o.IsAcknowledge())
		})
	}
	for i := range 256 {
		o := bth.Opcode(i)
		if listed[o] {
			continue
		}
		require.False(t, o.IsKnown(), o)
		require.False(t, o.IsAcknowledge(), o)
		require.Zero(t, o.Headers(), o)
		require.Zero(t, o.HeaderLen(), o)
		require.Equal(t, bth.PayloadUnknown, o.Payload(), o)
		require.Contains(t, o.String(), "unknown")
	}
}

// tableName returns the name of an opcode in the table, such as RC_RDMA_WRITE_ONLY_IMM
// for "RC RDMA WRITE Only with Immediate".
func tableName(o bth.Opcode) string {
	return strings.NewReplacer(" WITH", "", "IMMEDIATE", "IMM", "INVALIDATE", "INV",
		"CMPSWAP", "COMPARE_SWAP", "FETCHADD", "FETCH_ADD", " ", "_").Replace(strings.ToUpper(o.String()))
}

// The name of each constant is its String without spaces.
func TestConstantsAreNamedAfterTheirStrings(t *testing.T) {
	for _, row := range []struct {
		name    string
		count   int
		pattern string
		text    func(n uint8) string
	}{
		{"opcode.go", 40, `(\w+)\s+Opcode = (0x..)`, func(n uint8) string { return bth.Opcode(n).String() }},
		{"operation.go", 26, `Op(\w+)\s+Operation = (0x..)`, func(n uint8) string { return bth.Operation(n).String() }},
	} {
		t.Run(row.name, func(t *testing.T) {
			source := wiretest.Must(os.ReadFile(row.name))(t)
			constants := regexp.MustCompile(row.pattern).FindAllStringSubmatch(string(source), -1)
			require.Len(t, constants, row.count)
			for _, c := range constants {
				n := wiretest.Must(strconv.ParseUint(c[2], 0, 8))(t)
				require.Equal(t, strings.ToLower(strings.ReplaceAll(row.text(uint8(n)), " ", "")),
					strings.ToLower(c[1]))
			}
		})
	}
}

func TestExtendedHeaderSizesAreThoseOfTheTable(t *testing.T) {
	sizes := readTable(t).Sizes
	require.Equal(t, sizes["BTH"], bth.Size)
	for _, tt := range extended {
		require.Len(t, wiretest.Hex(t, tt.octets), sizes[tt.bit.String()], tt.bit)
	}
}

func TestOpcodeString(t *testing.T) {
	for _, c := range []struct {
		o    bth.Opcode
		want string
	}{
		{bth.RCSendFirst, "RC SEND First"},
		{bth.UCSendLastWithImmediate, "UC SEND Last with Immediate"},
		{bth.RCRDMAWriteOnly, "RC RDMA WRITE Only"},
		{bth.TransportXRC.Opcode(bth.OpRDMAWriteOnlyWithImmediate), "XRC RDMA WRITE Only with Immediate"},
		{bth.RCRDMAReadRequest, "RC RDMA READ Request"},
		{bth.TransportRD.Opcode(bth.OpRDMAReadResponseFirst), "RD RDMA READ response First"},
		{bth.RCAcknowledge, "RC Acknowledge"},
		{bth.RCAtomicAcknowledge, "RC ATOMIC Acknowledge"},
		{bth.RCCmpSwap, "RC CmpSwap"},
		{bth.RCFetchAdd, "RC FetchAdd"},
		{bth.TransportRD.Opcode(bth.OpResync), "RD Resync"},
		{bth.RCSendLastWithInvalidate, "RC SEND Last with Invalidate"},
		{bth.RCFlush, "RC FLUSH"},
		{bth.TransportXRC.Opcode(bth.OpAtomicWrite), "XRC ATOMIC WRITE"},
		{bth.UDSendOnly, "UD SEND Only"},
		{bth.CNP, "CNP"},
		{0x1e, "RC unknown 0x1e"},
		{0x66, "UD unknown 0x66"},
		{0x80, "CNP unknown 0x80"}, // not the CNP
		{0xc3, "unknown 0xc3"},
	} {
		t.Run(fmt.Sprint(c.o), func(t *testing.T) { require.Equal(t, c.want, c.o.String()) })
	}
	require.Equal(t, "Operation(30)", bth.Operation(0x1e).String())
	require.Equal(t, "Operation(255)", bth.Operation(0xff).String())
}

func TestOpcodeParts(t *testing.T) {
	require.Equal(t, bth.Opcode(0xbd), bth.TransportXRC.Opcode(bth.OpAtomicWrite))
	require.Equal(t, bth.Opcode(0x40), bth.TransportRD.Opcode(bth.OpSendFirst))
	require.Equal(t, bth.TransportXRC, bth.Opcode(0xbd).Transport())
	require.Equal(t, bth.OpAtomicWrite, bth.Opcode(0xbd).Operation())
	require.Equal(t, bth.TransportCNP, bth.CNP.Transport())
}

func TestHeaderSet(t *testing.T) {
	s := bth.HasImmDt | bth.HasRETH | bth.HasRDETH
	require.True(t, s.Has(bth.HasRETH))
	require.True(t, s.Has(bth.HasRETH|bth.HasImmDt))
	require.False(t, s.Has(bth.HasRETH|bth.HasAETH))
	require.False(t, s.Has(bth.HasAETH))
	require.Equal(t, "RDETH RETH ImmDt", s.String())
	require.Equal(t, "none", bth.HeaderSet(0).String())
	require.Equal(t, "IETH unknown 0x400 unknown 0x8000", (bth.HasIETH | 0x8400).String())

	wireOrder := []bth.HeaderSet{bth.HasRDETH, bth.HasRETH, bth.HasImmDt}
	all := s.All()
	require.Equal(t, wireOrder, slices.Collect(all))
	require.Equal(t, wireOrder, slices.Collect(all), "iterated again")
	for x := range all {
		require.Equal(t, bth.HasRDETH, x)
		break
	}
}

// The payload length of First and Middle packets is the path MTU, if it is a valid one.
func TestPathMTU(t *testing.T) {
	for _, c := range []struct {
		octets uint32
		mtu    uint16
	}{
		{0, 0}, {128, 0}, {255, 0}, {256, 256}, {257, 0}, {384, 0}, {512, 512}, {768, 0}, {1024, 1024}, {2048, 2048},
		{3072, 0},
		{4095, 0}, {4096, 4096}, {8192, 0}, {1 << 16, 0},
	} {
		t.Run(fmt.Sprint(c.octets), func(t *testing.T) {
			for op := range 256 {
				want := uint16(0)
				switch bth.Opcode(op) {
				case bth.RCSendFirst, bth.RCSendMiddle, bth.RCRDMAWriteFirst, bth.RCRDMAWriteMiddle,
					bth.RCRDMAReadResponseFirst, bth.RCRDMAReadResponseMiddle,
					bth.UCSendFirst, bth.UCSendMiddle, bth.UCRDMAWriteFirst, bth.UCRDMAWriteMiddle:
					want = c.mtu
				}
				if t := bth.Opcode(op).Transport(); t == bth.TransportRD || t == bth.TransportXRC {
					want = bth.Opcode(op & 0x1F).PathMTU(c.octets) // like RC
				}
				require.Equal(t, want, bth.Opcode(op).PathMTU(c.octets), "%v, %d octets", bth.Opcode(op), c.octets)
			}
		})
	}
}
