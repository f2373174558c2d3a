package pnc

import (
	"net/netip"
	"testing"

	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

var bgp = Codes{NHC: 0x1092}

// The octets were composed by hand from draft-ietf-idr-nhc section 2.1 and PROXY
// figure 9.
func TestReadNHC(t *testing.T) {
	const (
		header4 = "0001 01 04 c6336407 "                         // next hop 198.51.100.7
		header6 = "0002 01 10 20010db8ffff00000000000000000007 " // 2001:db8:ffff::7
	)
	for _, c := range wiretest.Cases(t, "nhc.txt", "$header4", header4, "$header6", header6, "none", "") {
		t.Run(c[0], func(t *testing.T) {
			value, nextHop := wiretest.Hex(t, c[1]), addr(c[2])
			proxy, ok, err := bgp.ReadNHC(value, nextHop)
			require.NoError(t, err)
			require.Equal(t, addr(c[3]), proxy)
			require.Equal(t, c[3] != "", ok)
			wiretest.NoAllocs(t, "ReadNHC", func() { _, _, _ = bgp.ReadNHC(value, nextHop) })
			for n := range value { // a prefix yields no other proxy
				if proxy, ok, err := bgp.ReadNHC(value[:n:n], nextHop); ok {
					require.NoError(t, err)
					require.Equal(t, addr(c[3]), proxy)
				}
			}
		})
	}
	_, _, err := Codes{}.ReadNHC(wiretest.Hex(t, header4+"0000 0004 c6336402"), addr("198.51.100.7"))
	require.Equal(t, errNoCode, err)
}

// A malformed attribute is discarded, even if it has a proxy.
func TestReadNHCBroken(t *testing.T) {
	for _, octets := range []string{
		"", "00", "000101", "0001 01 04 c63364",
		"0001 01 04 c6336407 1092 0004 c63364",
		"0001 01 04 c6336407 1092 0004 c6336402 00",
		"0001 01 04 c6336407 1092 0004 c6336402 0001 ffff 00",
		"0001 01 ff c6336407 1092 0004 c6336402",
	} {
		value := wiretest.Hex(t, octets)
		proxy, ok, err := bgp.ReadNHC(value, addr("198.51.100.7"))
		require.Equal(t, errNHC, err)
		require.ErrorIs(t, err, wireerr.Malformed)
		require.False(t, ok)
		require.Equal(t, netip.Addr{}, proxy)
		wiretest.NoAllocs(t, "ReadNHC", func() { _, _, _ = bgp.ReadNHC(value, addr4) })
	}
}

var addr4 = netip.MustParseAddr("198.51.100.7")

func TestAppendNHC(t *testing.T) {
	v4 := NextHop{AFI: 1, SAFI: 1, Addr: addr4}
	v6 := NextHop{AFI: 2, SAFI: 1, Addr: addr("2001:db8:ffff::7")}
	proxy := addr("198.51.100.2")
	one, two, last := Characteristic{1, nil}, Characteristic{2, []byte{1, 2, 3}}, Characteristic{0xFFFF, []byte{4}}
	for _, c := range []struct {
		routes NextHop
		proxy  netip.Addr
		others []Characteristic
		octets string
	}{
		{v4, proxy, nil, "0001 01 04 c6336407 1092 0004 c6336402"},
		{v6, addr("2001:db8:ffff::2"), nil,
			"0002 01 10 20010db8ffff00000000000000000007 1092 0010 20010db8ffff00000000000000000002"},
		{NextHop{1, 128, addr4}, proxy, nil, "0001 80 0c 0000000000000000 c6336407 1092 0004 c6336402"},
		{v4, addr("::ffff:198.51.100.2"), []Characteristic{one, two, last},
			"0001 01 04 c6336407 0001 0000 0002 0003 010203 1092 0004 c6336402 ffff 0001 04"},
		{v4, proxy, []Characteristic{last}, "0001 01 04 c6336407 1092 0004 c6336402 ffff 0001 04"},
		{v4, proxy, []Characteristic{one}, "0001 01 04 c6336407 0001 0000 1092 0004 c6336402"},
		{v4, proxy, []Characteristic{two, {2, nil}},
			"0001 01 04 c6336407 0002 0003 010203 0002 0000 1092 0004 c6336402"},
	} {
		wire := wiretest.Hex(t, c.octets)
		wiretest.Encodes(t, wire, func(b []byte) ([]byte,
			error) {
			return bgp.AppendNHC(b, c.routes, c.proxy, c.others...)
		})
		got, ok, err := bgp.ReadNHC(wire, c.routes.Addr)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, wireAddr(c.proxy), got)
		buf := make([]byte, 0, 128)
		wiretest.NoAllocs(t, "AppendNHC", func() { _, _ = bgp.AppendNHC(buf, c.routes, c.proxy, c.others...) })
	}
	long := make([]byte, 0xFFFF)
	b := wiretest.Must(bgp.AppendNHC(nil, v4, proxy, Characteristic{1, long}))(t)
	require.Equal(t, wiretest.Hex(t, "0001 ffff 00"), b[8:13])
	require.Len(t, b, 8+4+len(long)+8)
	for _, c := range []struct {
		codes  Codes
		routes NextHop
		proxy  netip.Addr
		others []Characteristic
		err    error
	}{
		{Codes{}, v4, proxy, nil, errNoCode},
		{bgp, v4, netip.Addr{}, nil, errProxy},
		{bgp, NextHop{AFI: 1, SAFI: 1}, proxy, nil, errNextHop},
		{bgp, v4, proxy, []Characteristic{two, one}, errOrder},
		{bgp, v4, proxy, []Characteristic{one, one}, errOrder},
		{bgp, v4, proxy, []Characteristic{one, {1, []byte{1}}, one}, errOrder},
		{bgp, v4, proxy, []Characteristic{{bgp.NHC, nil}}, errOrder},
		{bgp, v4, proxy, []Characteristic{{1, make([]byte, 0x10000)}}, errValue},
	} {
		b, err := c.codes.AppendNHC([]byte{7}, c.routes, c.proxy, c.others...)
		require.Equal(t, c.err, err)
		require.ErrorIs(t, err, wireerr.Range)
		require.Equal(t, []byte{7}, b)
	}
}

func TestPropagateNHC(t *testing.T) {
	value := wiretest.Hex(t, "0001 01 04 c6336407 0001 0000 1092 0004 c6336402 ffff 0001 04")
	self := NextHop{AFI: 1, SAFI: 1, Addr: addr("198.51.100.9")}
	wiretest.Encodes(t, wiretest.Hex(t, "0001 01 04 c6336409 1092 0004 c6336402"),
		func(b []byte) ([]byte, error) { return bgp.PropagateNHC(b, value, addr4, self) })
	buf := make([]byte, 0, 64)
	wiretest.NoAllocs(t, "PropagateNHC", func() { _, _ = bgp.PropagateNHC(buf, value, addr4, self) })

	b, err := bgp.PropagateNHC([]byte{7}, value, addr("198.51.100.8"), self)
	require.NoError(t, err, "another next hop")
	require.Equal(t, []byte{7}, b)
	b, err = bgp.PropagateNHC([]byte{7}, value[:len(value)-1], addr4, self)
	require.Equal(t, errNHC, err)
	require.Equal(t, []byte{7}, b)
}
