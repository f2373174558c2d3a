package answer

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/ipudp"
	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
)

// An Answer and a Datagram with the same octets append the same octets and return the same errors.
func TestAppend(t *testing.T) {
	random := rand.New(rand.NewPCG(19, 64))
	addresses := [][2]netip.Addr{
		{netip.MustParseAddr("2001:db8:1::1"), netip.MustParseAddr("2001:db8:2::2")},
		{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("198.51.100.255")},
	}
	buf := make([]byte, 512)
	for i := range 2000 {
		src, dst := addresses[i%2][0], addresses[i%2][1]
		c := rocev2.Carriage{
			DSCP: uint8(random.UintN(66)), ECN: rocev2.ECN(random.UintN(5)), HopLimit: uint8(random.Uint32()),
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
		octets := wiretest.Must(h.AppendBinary(nil))(t)
		octets = append(octets, append(data, 0, 0, 0, 0)...)
		a := Answer{Len: n}
		for w := range (n + 4) / 8 {
			a.Octets[w] = be.Uint64(octets[8*w:])
		}
		at := 3 + int(random.UintN(8))
		for i := range buf {
			buf[i] = 0xA5
		}
		var d rocev2.Datagram
		wantErr := Carry(&d, src, dst, &c)
		if ext > 0 {
			d.NextHeader, d.Ext = wire.ProtoDestinationOptions, buf[at+40:at+40+ext]
			clear(d.Ext)
			d.Ext[0], d.Ext[1], d.Ext[2], d.Ext[3] = wire.ProtoUDP, byte(ext/8-1), 0x1E, 0
		}
		var want []byte
		if wantErr == nil {
			d.Data = octets
			if want, wantErr = AppendRoCEv2(nil, &d, icrc.AsSent); wantErr == nil {
				wantErr = icrc.Write(want, coverage)
			}
			if wantErr == nil && c.Checksum {
				udp := len(want) - 8 - len(octets)
				clear(want[udp+6 : udp+8])
				ipudp.PutChecksum(want, udp)
			}
		}
		got, err := a.Append(buf[:at], &src, &dst, ext, &c, coverage)
		require.Equal(t, wantErr, err)
		if err != nil {
			require.Len(t, got, at)
			continue
		}
		require.Equal(t, want, got[at:])
		wiretest.NoAllocs(t, "Append", func() { _, _ = a.Append(buf[:at], &src, &dst, ext, &c, coverage) })
	}
}

func TestAppendRefuses(t *testing.T) {
	good := netip.MustParseAddr("2001:db8::1")
	for _, c := range []struct {
		name string
		want error
	}{
		{"::", rocev2.ErrNotReachable}, {"::1", rocev2.ErrNotReachable}, {"ff02::1", rocev2.ErrNotReachable},
		{"fe80::1", rocev2.ErrNotReachable},
		{"::ffff:192.0.2.1", rocev2.ErrNotReachable}, {"192.0.2.1", wireerr.Addresses},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, bad := Answer{Len: 28}, netip.MustParseAddr(c.name)
			for _, p := range [][2]netip.Addr{{good, bad}, {bad, good}} {
				out, err := a.Append([]byte{1}, &p[0], &p[1], 0, new(rocev2.Carriage), icrc.AsSent)
				require.ErrorIs(t, err, c.want, "%v")
				require.Equal(t, []byte{1}, out)
			}
		})
	}
	for _, bad := range []string{"0.0.0.0", "127.0.0.1", "169.254.0.1", "224.0.0.1", "255.255.255.255"} {
		a, four, bad := Answer{Len: 28}, netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr(bad)
		_, err := a.Append(nil, &four, &bad, 0, new(rocev2.Carriage), icrc.AsSent)
		require.ErrorIs(t, err, rocev2.ErrNotReachable)
	}
	var none netip.Addr
	_, err := (&Answer{Len: 28}).Append(nil, &none, &good, 0, new(rocev2.Carriage), icrc.AsSent)
	require.ErrorIs(t, err, rocev2.ErrNotReachable)
}
