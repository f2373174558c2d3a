package bth_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/internal/wiretest"
)

func TestHeader(t *testing.T) {
	for _, row := range []struct {
		name, octets string
		header       bth.Header
	}{
		{"a published CNP", "81 00 ffff 40 0000d2 00 000000",
			bth.Header{Opcode: bth.CNP, PKey: 0xffff, BECN: true, DestQP: 0xd2}},
		{"a WRITE from soft-RoCE", "0a 00 ffff 00 000011 80 fffffc",
			bth.Header{Opcode: bth.RCRDMAWriteOnly, PKey: 0xffff, DestQP: 0x11, AckReq: true, PSN: 0xfffffc}},
		{"nothing", "00 00 0000 00 000000 00 000000", bth.Header{}},
		{"opcode", "ff 00 0000 00 000000 00 000000", bth.Header{Opcode: 0xff}},
		{"solicited", "00 80 0000 00 000000 00 000000", bth.Header{Solicited: true}},
		{"migreq", "00 40 0000 00 000000 00 000000", bth.Header{MigReq: true}},
		{"pad", "00 30 0000 00 000000 00 000000", bth.Header{Pad: 3}},
		{"tver", "00 0f 0000 00 000000 00 000000", bth.Header{TVer: 15}},
		{"pkey", "00 00 ff01 00 000000 00 000000", bth.Header{PKey: 0xff01}},
		{"fecn", "00 00 0000 80 000000 00 000000", bth.Header{FECN: true}},
		{"becn", "00 00 0000 40 000000 00 000000", bth.Header{BECN: true}},
		{"resv6", "00 00 0000 3f 000000 00 000000", bth.Header{Resv6: 63}},
		{"destqp", "00 00 0000 00 ff0001 00 000000", bth.Header{DestQP: 0xff0001}},
		{"ackreq", "00 00 0000 00 000000 80 000000", bth.Header{AckReq: true}},
		{"resv7", "00 00 0000 00 000000 7f 000000", bth.Header{Resv7: 127}},
		{"psn", "00 00 0000 00 000000 00 ff0001", bth.Header{PSN: 0xff0001}},
		{"everything", "ff ff ffff ff ffffff ff ffffff",
			bth.Header{0xff, true, true, 3, 15, 0xffff, true, true, 63, 0xffffff, true, 127, 0xffffff}},
	} {
		t.Run(row.name, func(t *testing.T) {
			octets := wiretest.Hex(t, row.octets)
			var h bth.Header
			rest := wiretest.Must(h.Decode(append(octets, 1, 2)))(t)
			require.Equal(t, row.header, h)
			require.Equal(t, []byte{1, 2}, rest)
			wiretest.Encodes(t, octets, h.AppendBinary)
		})
	}
}

func TestHeaderTruncated(t *testing.T) {
	want := bth.Header{Opcode: bth.CNP, PSN: 7}
	wiretest.Prefixes(t, make([]byte, bth.Size), func(b []byte) error {
		h := want
		rest, err := h.Decode(b)
		require.Nil(t, rest)
		require.Equal(t, want, h)
		return err
	})
	require.EqualError(t, bth.ErrTruncated, "bth: BTH: truncated: shorter than 12 octets")
}

// misfits are headers with one value out of range, and the error that names it.
var misfits = []struct {
	header bth.Header
	err    error
}{
	{bth.Header{Pad: 4}, bth.ErrPadRange},
	{bth.Header{TVer: 16}, bth.ErrTVerRange},
	{bth.Header{Resv6: 64}, bth.ErrResv6Range},
	{bth.Header{DestQP: 1 << 24}, wireerr.DestQP},
	{bth.Header{Resv7: 128}, bth.ErrResv7Range},
	{bth.Header{PSN: 1 << 24}, bth.ErrPSNRange},
}

func TestHeaderAppendRejectsLargeValues(t *testing.T) {
	for _, tt := range misfits {
		b, err := tt.header.AppendBinary([]byte{1})
		require.ErrorIs(t, err, tt.err)
		require.ErrorIs(t, err, wireerr.Range)
		require.Equal(t, []byte{1}, b)
		require.ErrorIs(t, tt.header.Validate(), tt.err)

		all := bth.Headers{Header: tt.header}
		b, err = all.AppendBinary([]byte{1})
		require.ErrorIs(t, err, tt.err)
		require.Equal(t, []byte{1}, b)
		require.ErrorIs(t, all.Validate(), tt.err)
	}
}

func TestHeaderValidate(t *testing.T) {
	for _, tt := range []struct {
		header bth.Header
		err    error
	}{
		{bth.Header{TVer: 1}, bth.ErrTVer},
		{bth.Header{Resv6: 0x20}, bth.ErrResv6},
		{bth.Header{Resv7: 1}, bth.ErrResv7},
	} {
		require.ErrorIs(t, tt.header.Validate(), tt.err)
		require.ErrorIs(t, tt.err, wireerr.Malformed)
		_, err := tt.header.AppendBinary(nil)
		require.NoError(t, err, "a deviation can be encoded")
	}
	// All other values are valid, including unknown opcodes.
	require.NoError(t, (&bth.Header{0xff, true, true, 3, 0, 0xffff, true, true, 0, 0xffffff, true, 0,
		0xffffff}).Validate())
}

// The largest values are in range, also in a header with another deviation.
func TestHeaderValidateNamesNoMore(t *testing.T) {
	h := bth.Header{Pad: 3, TVer: 15, Resv6: 63, DestQP: 0xffffff, Resv7: 127, PSN: 0xffffff}
	require.ErrorIs(t, h.Validate(), bth.ErrTVer)
	require.ErrorIs(t, h.Validate(), bth.ErrResv6)
	require.ErrorIs(t, h.Validate(), bth.ErrResv7)
	require.NotErrorIs(t, h.Validate(), wireerr.Range)
	h = bth.Header{Pad: 4, TVer: 16, Resv6: 64, DestQP: 1 << 24, Resv7: 128, PSN: 1 << 24}
	for _, field := range []string{"Pad", "TVer", "Resv6", "DestQP", "Resv7", "PSN"} {
		require.True(t, wiretest.Names(h.Validate(), "bth", field), field)
	}
}

func TestHeaderString(t *testing.T) {
	require.Equal(t, "CNP DestQP 0x0000d2 PSN 0 PKey 0xffff BECN 1",
		bth.Header{Opcode: bth.CNP, PKey: 0xffff, BECN: true, DestQP: 0xd2}.String())
	require.Equal(t, "unknown 0xff DestQP 0xffffff PSN 16777215 PKey 0xffff "+
		"Solicited 1 MigReq 1 Pad 3 TVer 15 FECN 1 BECN 1 Resv6 63 AckReq 1 Resv7 127",
		bth.Header{0xff, true, true, 3, 15, 0xffff, true, true, 63, 0xffffff, true, 127, 0xffffff}.String())
}

func TestPSN(t *testing.T) {
	for _, c := range []struct {
		a, b uint32
		want int
	}{
		{0, 0, 0}, {1, 0, 1}, {0, 1, -1}, {0, bth.MaxPSN, 1}, {bth.MaxPSN, 0, -1},
		{0x800000, 0, -0x800000}, {0x7FFFFF, 0, 0x7FFFFF}, {5, 0xFFFFF0, 21},
	} {
		require.Equal(t, c.want, bth.ComparePSN(c.a, c.b), "%#x %#x", c.a, c.b)
		require.Equal(t, c.a, bth.AddPSN(c.b, uint32(c.want)), "%#x %#x", c.a, c.b)
	}
	for _, c := range [][3]uint32{
		{0, 1024, 1}, {1, 1024, 1}, {1024, 1024, 1}, {1025, 1024, 2}, {4096, 1024, 4}, {1<<32 - 1, 256, 1 << 24},
		{1025, 0, 5},
	} {
		require.Equal(t, c[2], bth.ReadPSNs(c[0], uint16(c[1])), c)
	}
}
