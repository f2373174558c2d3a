package rocev2

import (
	"math"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wiretest"
)

// AppendAnswer and a Datagram with the same in it give the same octets, and
// refuse the same.
func TestAppendAnswer(t *testing.T) {
	random := rand.New(rand.NewPCG(19, 64))
	addresses := [][2]netip.Addr{
		{netip.MustParseAddr("2001:db8:1::1"), netip.MustParseAddr("2001:db8:2::2")},
		{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("198.51.100.255")},
	}
	buf := make([]byte, 512)
	for i := range 2000 {
		src, dst := addresses[i%2][0], addresses[i%2][1]
		c := Carriage{
			DSCP: uint8(random.UintN(66)), ECN: ECN(random.UintN(5)), HopLimit: uint8(random.Uint32()),
			FlowLabel: random.Uint32N(0x100100), SrcPort: uint16(random.Uint32()), Checksum: i%3 == 0,
		}
		h := bth.Header{Opcode: bth.CNP, PKey: uint16(random.Uint32()), BECN: true, DestQP: random.Uint32N(1 << 24)}
		coverage := icrc.Coverage(random.UintN(4))
		ext, n := 0, []int{24, 28, 36}[random.UintN(3)]
		if src.Is6() {
			ext = 8 * int(random.UintN(40))
		}
		data := make([]byte, n-bth.Size)
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		octets, err := h.AppendBinary(nil)
		require.NoError(t, err)
		octets = append(octets, append(data, 0, 0, 0, 0)...)
		a := Answer{Len: n}
		for w := range (n + 4) / 8 {
			a.Octets[w] = be.Uint64(octets[8*w:])
		}
		at := 3 + int(random.UintN(8))
		for i := range buf {
			buf[i] = 0xA5
		}
		d := Datagram{Src: src, Dst: dst, DstPort: Port}
		wantErr := c.Apply(&d)
		if ext > 0 {
			d.NextHeader, d.Ext = protoDestOpts, buf[at+40:at+40+ext]
			clear(d.Ext)
			d.Ext[0], d.Ext[1], d.Ext[2], d.Ext[3] = protoUDP, byte(ext/8-1), 0x1E, 0
		}
		var want []byte
		if wantErr == nil {
			if src.Is4() {
				d.FlowLabel = 0
			}
			want, wantErr = d.AppendRoCEv2(nil, &h, data, coverage)
		}
		got, err := c.AppendAnswer(buf[:at], &src, &dst, ext, &a, coverage)
		require.Equal(t, wantErr, err)
		if err != nil {
			require.Len(t, got, at)
			continue
		}
		require.Equal(t, want, got[at:])
		wiretest.NoAllocs(t, "AppendAnswer", func() { c.AppendAnswer(buf[:at], &src, &dst, ext, &a, coverage) })
	}
}

func TestAppendAnswerRefuses(t *testing.T) {
	good := netip.MustParseAddr("2001:db8::1")
	for n := -9; n < 60; n++ { // whatever the length, nothing panics
		_, err := new(Carriage).AppendAnswer(nil, &good, &good, 0, &Answer{Len: n}, icrc.AsSent)
		require.Equal(t, n == 24 || n == 28 || n == 36, err == nil, n)
	}
	for _, ext := range []int{-8, math.MinInt, 8*256 + 1, math.MaxInt} {
		_, err := new(Carriage).AppendAnswer(nil, &good, &good, ext, &Answer{Len: 28}, icrc.AsSent)
		require.Equal(t, errAnswer, err)
	}
	for bad, want := range map[string]error{
		"::": ErrNotReachable, "::1": ErrNotReachable, "ff02::1": ErrNotReachable, "fe80::1": ErrNotReachable,
		"::ffff:192.0.2.1": ErrNotReachable, "192.0.2.1": ErrAddress,
	} {
		t.Run(bad, func(t *testing.T) {
			a, bad := Answer{Len: 28}, netip.MustParseAddr(bad)
			for _, p := range [][2]netip.Addr{{good, bad}, {bad, good}} {
				out, err := new(Carriage).AppendAnswer([]byte{1}, &p[0], &p[1], 0, &a, icrc.AsSent)
				require.ErrorIs(t, err, want, "%v")
				require.Equal(t, []byte{1}, out)
			}
		})
	}
	for _, bad := range []string{"0.0.0.0", "127.0.0.1", "169.254.0.1", "224.0.0.1", "255.255.255.255"} {
		a, four, bad := Answer{Len: 28}, netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr(bad)
		_, err := new(Carriage).AppendAnswer(nil, &four, &bad, 0, &a, icrc.AsSent)
		require.ErrorIs(t, err, ErrNotReachable)
	}
	var none netip.Addr
	_, err := new(Carriage).AppendAnswer(nil, &none, &good, 0, &Answer{Len: 28}, icrc.AsSent)
	require.ErrorIs(t, err, ErrNotReachable)
}
