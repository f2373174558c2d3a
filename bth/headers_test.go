package bth_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/internal/wiretest"
)

// full has one of each extended header, those of the table extended.
var full = bth.Headers{
	RDETH:        *extended[0].header.(*bth.RDETH),
	DETH:         *extended[1].header.(*bth.DETH),
	XRCETH:       *extended[2].header.(*bth.XRCETH),
	FETH:         *extended[3].header.(*bth.FETH),
	RETH:         *extended[4].header.(*bth.RETH),
	AtomicETH:    *extended[5].header.(*bth.AtomicETH),
	AETH:         *extended[6].header.(*bth.AETH),
	AtomicAckETH: *extended[7].header.(*bth.AtomicAckETH),
	ImmDt:        *extended[8].header.(*bth.ImmDt),
	IETH:         *extended[9].header.(*bth.IETH),
}

// packet returns the octets of a packet with this opcode, composed of the octets in
// the table extended, and the expected headers.
func packet(t testing.TB, o bth.Opcode) ([]byte, bth.Headers) {
	b := append([]byte{byte(o)}, wiretest.Hex(t, "40 ffff 00 000011 80 00002a")...)
	want := bth.Headers{
		Header:  bth.Header{Opcode: o, MigReq: true, PKey: 0xffff, DestQP: 0x11, AckReq: true, PSN: 42},
		Present: o.Headers(),
	}
	for _, x := range extended {
		if !o.Headers().Has(x.bit) {
			continue
		}
		b = append(b, wiretest.Hex(t, x.octets)...)
		switch x.bit {
		case bth.HasRDETH:
			want.RDETH = full.RDETH
		case bth.HasDETH:
			want.DETH = full.DETH
		case bth.HasXRCETH:
			want.XRCETH = full.XRCETH
		case bth.HasFETH:
			want.FETH = full.FETH
		case bth.HasRETH:
			want.RETH = full.RETH
		case bth.HasAtomicETH:
			want.AtomicETH = full.AtomicETH
		case bth.HasAETH:
			want.AETH = full.AETH
		case bth.HasAtomicAckETH:
			want.AtomicAckETH = full.AtomicAckETH
		case bth.HasImmDt:
			want.ImmDt = full.ImmDt
		case bth.HasIETH:
			want.IETH = full.IETH
		}
	}
	return b, want
}

// Packets of all opcodes are decoded into the same value: nothing of an earlier packet
// is left.
func TestHeaders(t *testing.T) {
	var h bth.Headers
	for i := range 256 {
		octets, want := packet(t, bth.Opcode(i))
		rest := wiretest.Must(h.Decode(append(octets, 1, 2)))(t)
		require.Equal(t, want, h)
		require.Equal(t, []byte{1, 2}, rest)
		require.Equal(t, len(octets), h.Len())
		wiretest.Encodes(t, octets, h.AppendBinary)

		var again bth.Headers
		rest = wiretest.Must(again.Decode(octets))(t)
		require.Empty(t, rest)
		require.Equal(t, want, again)

		wiretest.Prefixes(t, octets, func(b []byte) error {
			rest, err := h.Decode(b)
			require.Nil(t, rest)
			require.Equal(t, want, h)
			return err
		})
	}
}

// Two packets of any opcodes, decoded into the same value, give the same headers as
// with a new value.
func TestHeadersAfterOneAnother(t *testing.T) {
	for i := range 256 {
		for j := range 256 {
			var h bth.Headers
			first, _ := packet(t, bth.Opcode(i))
			second, want := packet(t, bth.Opcode(j))
			_, err := h.Decode(first)
			require.NoError(t, err)
			_, err = h.Decode(second)
			require.NoError(t, err)
			if h != want {
				t.Fatalf("%v after %v: %v", bth.Opcode(j), bth.Opcode(i), h)
			}
		}
	}
}

// The error names the first incomplete header.
func TestHeadersTruncated(t *testing.T) {
	octets, _ := packet(t, bth.TransportRD.Opcode(bth.OpRDMAWriteOnlyWithImmediate))
	for _, tt := range []struct {
		from, to int // lengths
		err      error
	}{
		{0, 11, bth.ErrTruncated},
		{12, 15, bth.ErrTruncatedOf(bth.HasRDETH)},
		{16, 23, bth.ErrTruncatedOf(bth.HasDETH)},
		{24, 39, bth.ErrTruncatedOf(bth.HasRETH)},
		{40, 43, bth.ErrTruncatedOf(bth.HasImmDt)},
	} {
		for n := tt.from; n <= tt.to; n++ {
			var h bth.Headers
			_, err := h.Decode(octets[:n])
			require.Equal(t, tt.err, err, "%d octets", n)
			require.ErrorIs(t, err, wireerr.Truncated)
			require.Zero(t, h)
		}
	}
}

// The opcode determines the encoded headers, not Present.
func TestHeadersAppendGoesByOpcode(t *testing.T) {
	h := full
	h.Present = bth.HasAETH
	h.Opcode = bth.UDSendOnly
	wiretest.Encodes(t, wiretest.Hex(t, "64 00 0000 00 000000 00 000000 80010000 a1 000012"), h.AppendBinary)

	h.Opcode = 0xff
	h.DETH.SrcQP = 1 << 24 // not encoded
	wiretest.Encodes(t, wiretest.Hex(t, "ff 00 0000 00 000000 00 000000"), h.AppendBinary)
}

// A packet with an unknown opcode has no extended headers, also with a known
// transport.
func TestHeadersOfUnknownOpcode(t *testing.T) {
	for _, o := range []byte{0x15, 0x1e, 0x56, 0x66, 0x80, 0xb5, 0xc3, 0xff} {
		b := append([]byte{o, 0x30}, make([]byte, 10)...) // pad 3 without a payload
		var h bth.Headers
		rest := wiretest.Must(h.Decode(b))(t)
		require.Empty(t, rest)
		require.Zero(t, h.Present)

		rest = wiretest.Must(h.Decode(append(b, 9, 8, 7, 6, 5)))(t)
		require.Equal(t, []byte{9, 8, 7, 6, 5}, rest)
	}
}

func TestHeadersValidate(t *testing.T) {
	valid := full
	valid.PKey = bth.DefaultPKey
	valid.RDETH.Reserved, valid.DETH.Reserved, valid.XRCETH.Reserved, valid.FETH.Reserved = 0, 0, 0, 0
	for i := range 256 {
		h := valid
		h.Opcode = bth.Opcode(i)
		require.NoError(t, h.Validate(), h)
	}
	for _, tt := range []struct {
		opcode bth.Opcode
		spoil  func(*bth.Headers)
		err    error
	}{
		{bth.RCSendOnly, func(h *bth.Headers) { h.TVer = 1 }, bth.ErrTVer},
		{bth.RCSendOnly, func(h *bth.Headers) { h.Resv6 = 1 }, bth.ErrResv6},
		{bth.RCSendOnly, func(h *bth.Headers) { h.Resv7 = 1 }, bth.ErrResv7},
		{bth.TransportRD.Opcode(bth.OpFlush), func(h *bth.Headers) { h.RDETH.Reserved = 1 }, bth.ErrReservedRDETH},
		{bth.TransportRD.Opcode(bth.OpResync), func(h *bth.Headers) { h.DETH.Reserved = 1 }, bth.ErrReservedDETH},
		{bth.TransportXRC.Opcode(bth.OpFlush), func(h *bth.Headers) { h.XRCETH.Reserved = 1 }, bth.ErrReservedXRCETH},
		{bth.TransportXRC.Opcode(bth.OpFlush), func(h *bth.Headers) { h.FETH.Reserved = 1 }, bth.ErrReservedFETH},
		{bth.RCAcknowledge, func(h *bth.Headers) { h.AETH.Syndrome = 0x45 }, bth.ErrSyndrome},
	} {
		h := valid
		tt.spoil(&h)
		h.Opcode = tt.opcode
		require.ErrorIs(t, h.Validate(), tt.err)
	}
	h := full // has reserved bits in headers that are not in the packet
	h.Opcode, h.PKey = bth.CNP, bth.DefaultPKey
	require.NoError(t, h.Validate())
}

// Decode reads only the headers of the opcode.
func TestHeadersDecodeExactly(t *testing.T) {
	for i := range 256 {
		b := append([]byte{byte(i)}, make([]byte, bth.Size-1+bth.Opcode(i).HeaderLen())...)
		var h bth.Headers
		rest, err := h.Decode(b)
		require.NoError(t, err, "%#x", i)
		require.Empty(t, rest)
		_, err = h.Decode(b[:len(b)-1])
		require.Error(t, err, "%#x", i)
		rest = wiretest.Must(h.Decode(append(b, 0)))(t)
		require.Len(t, rest, 1)
	}
}

func TestHeadersString(t *testing.T) {
	h := full
	h.Header = bth.Header{Opcode: 0xc3, DestQP: 0x11, PSN: 42, PKey: 0xffff}
	want := "unknown 0xc3 DestQP 0x000011 PSN 42 PKey 0xffff"
	require.Equal(t, want, h.String())
	for _, x := range extended {
		h.Present |= x.bit
		want += "; " + x.bit.String() + " " + x.text
		require.Equal(t, want, h.String())
	}
}
