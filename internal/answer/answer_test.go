package answer

import (
	"bytes"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
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

func TestAppendRejects(t *testing.T) {
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

// The CNP that hardware sent, without a Packet, and with extension headers that
// stand where they go.
func TestAppendRoCEv2(t *testing.T) {
	const hardwareCNP = `45c2003c718c400040119161 0a001101 0a001201
		000012b700280000
		8100ffff 40000118 00000000 00000000000000000000000000000000 82fd002a`
	addr := netip.MustParseAddr
	d := rocev2.Datagram{Src: addr("10.0.17.1"), Dst: addr("10.0.18.1"), TrafficClass: 0xC2, HopLimit: 64, ID: 0x718C,
		Flags: 2}
	d.Data = wiretest.Hex(t, "8100ffff 40000118 00000000"+strings.Repeat("00", 16)+"a5a5a5a5")
	wiretest.Encodes(t, wiretest.Hex(t, hardwareCNP), func(b []byte) ([]byte, error) {
		return AppendRoCEv2(b, &d, icrc.AsSent)
	})

	d.Src, d.Dst, d.NextHeader = addr("2001:db8::1"), addr("2001:db8::2"), wire.ProtoDestinationOptions
	d.Ext = wiretest.Hex(t, "1100 0104 00000000")
	want := wiretest.Must(AppendRoCEv2(nil, &d, icrc.AsSent))(t)
	buf := bytes.Repeat([]byte{0xA5}, 100)
	d.Ext = buf[3+40:][:copy(buf[3+40:], d.Ext)]
	got := wiretest.Must(AppendRoCEv2(buf[:3], &d, icrc.AsSent))(t)
	require.Equal(t, want, got[3:])
	require.Same(t, &buf[0], &got[0])
	coverage, err := icrc.Verify(got[3:])
	require.NoError(t, err)
	require.Equal(t, icrc.AsSent, coverage)

	d.Data = make([]byte, 65540)
	got, err = AppendRoCEv2(buf[:3], &d, icrc.AsSent)
	require.ErrorIs(t, err, wireerr.TooLong)
	require.Equal(t, buf[:3], got)
}

// Without a configured source port the messages between two addresses have always the same one; those between many
// pairs of addresses spread over the range, evenly as far as 5 standard deviations tell.
func TestSourcePort(t *testing.T) {
	const pairs, bins = 1 << 14, 16
	for _, family := range []string{"10.0.0.0", "2001:db8::", "2001:db8:0:1::"} {
		t.Run(family, func(t *testing.T) {
			base, counts := netip.MustParseAddr(family).AsSlice(), [bins]int{}
			at := func(i int) netip.Addr {
				octets := slices.Clone(base)
				octets[len(octets)-2], octets[len(octets)-1] = 1, byte(i)
				a, _ := netip.AddrFromSlice(octets)
				return a
			}
			for i := range pairs {
				var d, again rocev2.Datagram
				src, dst := at(i%128), at(128+i/128)
				require.NoError(t, Carry(&d, src, dst, new(rocev2.Carriage)))
				require.NoError(t, Carry(&again, src, dst, new(rocev2.Carriage)))
				require.Equal(t, d.SrcPort, again.SrcPort)
				require.GreaterOrEqual(t, d.SrcPort, uint16(0xC000))
				counts[d.SrcPort>>10&(bins-1)]++
			}
			for _, n := range counts {
				require.InDelta(t, pairs/bins, n, 5*31) // sqrt(1024 * 15/16)
			}
		})
	}
}

func TestCarriage(t *testing.T) {
	v4 := netip.MustParseAddr("192.0.2.1")
	for _, c := range []struct {
		carriage rocev2.Carriage
		want     rocev2.Datagram
		err      error
	}{
		{rocev2.Carriage{}, rocev2.Datagram{TrafficClass: 0xC0, HopLimit: 64, Flags: 2}, nil},
		{rocev2.Carriage{ID: 7}, rocev2.Datagram{TrafficClass: 0xC0, HopLimit: 64, ID: 7, Flags: 2}, nil},
		{rocev2.Carriage{ID: 7, MayFragment: true}, rocev2.Datagram{TrafficClass: 0xC0, HopLimit: 64, ID: 7}, nil},
		{rocev2.Carriage{DSCP: rocev2.BestEffort, ECN: 2, HopLimit: 255, FlowLabel: 0xBEEF5},
			rocev2.Datagram{TrafficClass: 2, HopLimit: 255, Flags: 2, FlowLabel: 0xBEEF5}, nil},
		{rocev2.Carriage{DSCP: 63, ECN: 3, HopLimit: 1, SrcPort: 7, Checksum: true},
			rocev2.Datagram{TrafficClass: 0xFF, HopLimit: 1, Flags: 2, SrcPort: 7, Checksum: 0xFFFF}, nil},
		{rocev2.Carriage{DSCP: 64}, rocev2.Datagram{}, errTrafficClassRange},
		{rocev2.Carriage{ECN: 4}, rocev2.Datagram{}, errTrafficClassRange},
		{rocev2.Carriage{FlowLabel: 1 << 20}, rocev2.Datagram{}, wireerr.FlowLabel},
	} {
		var d rocev2.Datagram
		require.ErrorIs(t, Carry(&d, v4, v4, &c.carriage), c.err)
		if c.err == nil {
			c.want.Src, c.want.Dst = v4, v4
		}
		if c.err == nil && c.carriage.SrcPort == 0 {
			require.GreaterOrEqual(t, d.SrcPort, uint16(0xC000))
			c.want.SrcPort = d.SrcPort
		}
		require.Equal(t, c.want, d)
	}
	var d rocev2.Datagram
	mapped := netip.MustParseAddr("::ffff:192.0.2.1")
	require.NoError(t, Carry(&d, v4, v4, new(rocev2.Carriage)))
	require.Equal(t, []netip.Addr{v4, v4}, []netip.Addr{d.Src, d.Dst})
	was := d
	require.ErrorIs(t, Carry(&d, mapped, v4, new(rocev2.Carriage)), rocev2.ErrNotReachable)
	require.ErrorIs(t, Carry(&d, v4, mapped, new(rocev2.Carriage)), rocev2.ErrNotReachable)
	require.Equal(t, was, d)
}
