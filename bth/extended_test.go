package bth_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/internal/wiretest"
)

// extended has one of each extended header, in wire order, with octets computed by
// hand. Adjacent fields have different values.
var extended = []struct {
	bit    bth.HeaderSet
	octets string
	header fmt.Stringer
	text   string
	size   string
}{
	{bth.HasRDETH, "a1 b2c3d4", &bth.RDETH{Reserved: 0xa1, EEContext: 0xb2c3d4},
		"EEContext 0xb2c3d4 Reserved 0xa1", "4 octets"},
	{bth.HasDETH, "80010000 a1 000012", &bth.DETH{QKey: 0x80010000, Reserved: 0xa1, SrcQP: 0x12},
		"QKey 0x80010000 SrcQP 0x000012 Reserved 0xa1", "8 octets"},
	{bth.HasXRCETH, "a1 b2c3d4", &bth.XRCETH{Reserved: 0xa1, SRQ: 0xb2c3d4},
		"SRQ 0xb2c3d4 Reserved 0xa1", "4 octets"},
	{bth.HasFETH, "80000052", &bth.FETH{Reserved: 0x2000001, Selectivity: bth.SelectivityRegion,
		Placement: bth.PlacementPersistent},
		"Selectivity 1 Placement 2 Reserved 0x2000001", "4 octets"},
	{bth.HasRETH, "00007ff81c36b000 0000028e 00000064",
		&bth.RETH{VirtualAddress: 0x7ff81c36b000, RKey: 0x28e, DMALength: 100},
		"VirtualAddress 0x00007ff81c36b000 RKey 0x0000028e DMALength 100", "16 octets"},
	{bth.HasAtomicETH, "00007ff81c36f000 0000028e 99aa000000000001 1122334455667788",
		&bth.AtomicETH{VirtualAddress: 0x7ff81c36f000, RKey: 0x28e, SwapAdd: 0x99aa000000000001,
			Compare: 0x1122334455667788},
		"VirtualAddress 0x00007ff81c36f000 RKey 0x0000028e SwapAdd 0x99aa000000000001 Compare 0x1122334455667788",
		"28 octets"},
	{bth.HasAETH, "62 b2c3d4", &bth.AETH{Syndrome: 0x62, MSN: 0xb2c3d4},
		"NAK remote access MSN 11715540", "4 octets"},
	{bth.HasAtomicAckETH, "1122334455667788", &bth.AtomicAckETH{Original: 0x1122334455667788},
		"Original 0x1122334455667788", "8 octets"},
	{bth.HasImmDt, "cafe0006", &bth.ImmDt{Data: 0xcafe0006},
		"Data 0xcafe0006", "4 octets"},
	{bth.HasIETH, "08000140", &bth.IETH{RKey: 0x08000140},
		"RKey 0x08000140", "4 octets"},
}

// one is one extended header without the BTH.
type one struct {
	bth.Headers
	bit bth.HeaderSet
}

func (h *one) Decode(b []byte) ([]byte, error)       { return h.DecodeOne(h.bit, b) }
func (h *one) AppendBinary(b []byte) ([]byte, error) { return h.AppendOne(h.bit, b) }

// header returns the header, a pointer to its type.
func (h *one) header() fmt.Stringer {
	return reflect.ValueOf(&h.Headers).Elem().FieldByName(h.bit.String()).Addr().Interface().(fmt.Stringer)
}

func (h *one) String() string { return h.header().String() }

func TestExtendedHeaders(t *testing.T) {
	for _, tt := range extended {
		t.Run(tt.bit.String(), func(t *testing.T) {
			octets := wiretest.Hex(t, tt.octets)
			h := &one{bit: tt.bit}
			rest := wiretest.Must(h.Decode(append(octets, 1, 2)))(t)
			require.Equal(t, tt.header, h.header())
			require.Equal(t, []byte{1, 2}, rest)
			wiretest.Encodes(t, octets, h.AppendBinary)
			require.Equal(t, tt.text, h.String())
			require.NotContains(t, (&one{bit: tt.bit}).String(), "Reserved", "it is zero")

			wiretest.Prefixes(t, octets, func(b []byte) error {
				rest, err := h.Decode(b)
				require.Nil(t, rest)
				require.Equal(t, tt.header, h.header())
				require.Equal(t, bth.ErrTruncatedOf(tt.bit), err)
				return err
			})
			require.EqualError(t, bth.ErrTruncatedOf(tt.bit),
				"bth: "+tt.bit.String()+": truncated: shorter than "+tt.size)
		})
	}
}

func TestExtendedHeadersAppendRejectsLargeValues(t *testing.T) {
	for _, tt := range []struct {
		in  bth.Headers
		err error
	}{
		{bth.Headers{Header: bth.Header{Opcode: bth.TransportRD.Opcode(bth.OpAcknowledge)},
			RDETH: bth.RDETH{EEContext: 1 << 24}}, bth.ErrEEContextRange},
		{bth.Headers{Header: bth.Header{Opcode: bth.UDSendOnly},
			DETH: bth.DETH{SrcQP: 1 << 24}}, bth.ErrSrcQPRange},
		{bth.Headers{Header: bth.Header{Opcode: bth.TransportXRC.Opcode(bth.OpSendOnly)},
			XRCETH: bth.XRCETH{SRQ: 1 << 24}}, bth.ErrSRQRange},
		{bth.Headers{Header: bth.Header{Opcode: bth.RCFlush},
			FETH: bth.FETH{Reserved: 1 << 26}}, bth.ErrFETHReservedRange},
		{bth.Headers{Header: bth.Header{Opcode: bth.RCFlush},
			FETH: bth.FETH{Selectivity: 4}}, bth.ErrSelectivityRange},
		{bth.Headers{Header: bth.Header{Opcode: bth.RCFlush},
			FETH: bth.FETH{Placement: 16}}, bth.ErrPlacementRange},
		{bth.Headers{Header: bth.Header{Opcode: bth.RCAcknowledge},
			AETH: bth.AETH{MSN: 1 << 24}}, bth.ErrMSNRange},
	} {
		b, err := tt.in.AppendBinary([]byte{1})
		require.ErrorIs(t, err, tt.err)
		require.ErrorIs(t, err, wireerr.Range)
		require.Equal(t, []byte{1}, b)
		require.ErrorIs(t, tt.in.Validate(), tt.err)
	}
}

// validate validates a packet with an extended header and no other deviation.
func validate(header any) error {
	h := bth.Headers{Header: bth.Header{PKey: 0xFFFF, DestQP: 1}}
	switch x := header.(type) {
	case *bth.RDETH:
		h.Opcode, h.RDETH = bth.TransportRD.Opcode(bth.OpAcknowledge), *x
	case *bth.DETH:
		h.Opcode, h.DETH = bth.UDSendOnly, *x
	case *bth.XRCETH:
		h.Opcode, h.XRCETH = bth.TransportXRC.Opcode(bth.OpSendOnly), *x
	case *bth.FETH:
		h.Opcode, h.FETH = bth.RCFlush, *x
	case *bth.AETH:
		h.Opcode, h.AETH = bth.RCAcknowledge, *x
	}
	return h.Validate()
}

func TestExtendedHeadersValidate(t *testing.T) {
	for _, tt := range []struct {
		header any
		err    error
	}{
		{&bth.RDETH{EEContext: 0xffffff}, nil},
		{&bth.RDETH{Reserved: 1}, bth.ErrReservedRDETH},
		{&bth.DETH{QKey: 0xffffffff, SrcQP: 0xffffff}, nil},
		{&bth.DETH{Reserved: 1}, bth.ErrReservedDETH},
		{&bth.XRCETH{SRQ: 0xffffff}, nil},
		{&bth.XRCETH{Reserved: 1}, bth.ErrReservedXRCETH},
		{&bth.FETH{Selectivity: bth.SelectivityRegion, Placement: bth.PlacementGlobal | bth.PlacementPersistent}, nil},
		{&bth.FETH{Reserved: 1, Placement: bth.PlacementGlobal}, bth.ErrReservedFETH},
		{&bth.FETH{Selectivity: 2, Placement: bth.PlacementGlobal}, bth.ErrSelectivity},
		{&bth.FETH{Selectivity: bth.SelectivityRange}, bth.ErrPlacement},
		{&bth.FETH{Placement: 4}, bth.ErrPlacement},
		{&bth.AETH{Syndrome: 0x1f, MSN: 0xffffff}, nil},
		{&bth.AETH{Syndrome: 0x64}, nil},
		{&bth.AETH{Syndrome: 0x65}, bth.ErrSyndrome},
		{&bth.AETH{Syndrome: 0x40}, bth.ErrSyndrome},
		{&bth.AETH{Syndrome: 0x80}, bth.ErrSyndrome},
	} {
		require.ErrorIs(t, validate(tt.header), tt.err, "%T %v", tt.header, tt.header)
		if tt.err != nil {
			require.ErrorIs(t, tt.err, wireerr.Malformed)
		}
	}
}

// A slice with the length of the header is long enough; one octet less is not.
func TestExtendedHeadersOfExactLength(t *testing.T) {
	for _, tt := range extended {
		b := wiretest.Hex(t, tt.octets)
		h := &one{bit: tt.bit}
		rest, err := h.Decode(b[:len(b):len(b)])
		require.NoError(t, err, tt.bit)
		require.Empty(t, rest)
		require.Equal(t, tt.header, h.header())
		h = &one{bit: tt.bit}
		_, err = h.Decode(b[: len(b)-1 : len(b)-1])
		require.ErrorIs(t, err, bth.ErrTruncatedOf(tt.bit))
		require.Zero(t, h.Headers)
	}
}

// The RNR NAK timers in units of 10 µs, by code (IBTA table 45).
var timers = [32]time.Duration{
	65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192,
	256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
}

// The credits of an ACK, by code; code 31 means no end-to-end flow control.
var credits = [31]int{
	0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192,
	256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768,
}

// Each of the 256 syndromes has one type, and only the values of that type.
func TestSyndrome(t *testing.T) {
	for i := range 256 {
		s := bth.Syndrome(i)
		kind := bth.SyndromeReserved
		var count int
		var counted, nak bool
		var timer time.Duration
		var code bth.NAKCode
		switch {
		case i < 0x1f:
			kind, count, counted = bth.SyndromeACK, credits[i], true
		case i == 0x1f:
			kind = bth.SyndromeACK
		case 0x20 <= i && i < 0x40:
			kind, timer = bth.SyndromeRNRNAK, timers[i-0x20]*10*time.Microsecond
		case 0x60 <= i && i < 0x80:
			kind, code, nak = bth.SyndromeNAK, bth.NAKCode(i-0x60), true
		}
		require.Equal(t, kind, s.Type(), "%#x", i)
		n, ok := s.Credits()
		require.Equal(t, count, n, "%#x", i)
		require.Equal(t, counted, ok, "%#x", i)
		require.Equal(t, timer, s.Timer(), "%#x", i)
		c, ok := s.Code()
		require.Equal(t, code, c, "%#x", i)
		require.Equal(t, nak, ok, "%#x", i)
	}
}

func TestSyndromeString(t *testing.T) {
	for _, c := range []struct {
		s    bth.Syndrome
		want string
	}{
		{0x00, "ACK credits 0"},
		{0x1e, "ACK credits 32768"},
		{0x1f, "ACK"},
		{0x20, "RNR NAK 655.36ms"},
		{0x21, "RNR NAK 10µs"},
		{0x3f, "RNR NAK 491.52ms"},
		{0x40, "reserved 0x40"},
		{0x60, "NAK PSN sequence"},
		{0x61, "NAK invalid request"},
		{0x62, "NAK remote access"},
		{0x63, "NAK remote operational"},
		{0x64, "NAK invalid RD request"},
		{0x65, "NAK NAKCode(5)"},
		{0x80, "reserved 0x80"},
		{0xe0, "reserved 0xe0"},
	} {
		t.Run(fmt.Sprint(c.s), func(t *testing.T) { require.Equal(t, c.want, c.s.String()) })
	}
	require.Equal(t, "NAK", bth.SyndromeNAK.String())
	require.Equal(t, "SyndromeType(4)", bth.SyndromeType(4).String())
}
