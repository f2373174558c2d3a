package answer

import (
	"bytes"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wire"
	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
)

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
