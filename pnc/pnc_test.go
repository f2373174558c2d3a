package pnc

import (
	"encoding/binary"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/internal/wiretest"
)

// collect returns the advertisements and errors of an iterator.
func collect(seq iter.Seq2[Advertisement, error]) (all []Advertisement, errs []error) {
	for a, err := range seq {
		if err != nil {
			errs = append(errs, err)
			continue
		}
		all = append(all, a)
	}
	return all, errs
}

func prefix(s string) netip.Prefix {
	if s == "" {
		return netip.Prefix{}
	}
	return netip.MustParsePrefix(s)
}

func addr(s string) netip.Addr {
	if s == "" {
		return netip.Addr{}
	}
	return netip.MustParseAddr(s)
}

// Bit 0 is the most significant bit of the first octet, in all three fields.
func TestFlags(t *testing.T) {
	for _, c := range []struct {
		bit, unit uint
		octets    string
	}{
		{SuggestedISIS, 1, "01"},
		{SuggestedOSPFv2, 4, "20000000"},
		{SuggestedOSPFv3, 4, "20000000"},
		{1, 1, "40"},
		{8, 1, "0080"},
		{31, 4, "00000001"},
		{32, 4, "0000000080000000"},
		{255, 4, "0000000000000000000000000000000000000000000000000000000000000001"},
	} {
		flags := wiretest.Hex(t, c.octets)
		require.Equal(t, flags, appendFlag(nil, c.bit, c.unit))
		require.True(t, hasFlag(flags, c.bit))
		require.False(t, hasFlag(flags, c.bit^1))
		require.False(t, hasFlag(flags[:c.bit/8], c.bit), "a flag after the end of the field is 0")
		wiretest.NoAllocs(t, "flagSet", func() { _ = hasFlag(flags, c.bit) })
	}
	require.EqualValues(t, 7, Codes{}.isisBit())
	require.EqualValues(t, 2, Codes{}.ospfv2Bit())
	require.EqualValues(t, 2, Codes{}.ospfv3Bit())
	other := Codes{ISIS: 6, OSPFv2: 3, OSPFv3: 4}
	require.EqualValues(t, 6, other.isisBit())
	require.EqualValues(t, 3, other.ospfv2Bit())
	require.EqualValues(t, 4, other.ospfv3Bit())
}

func TestProtocolNames(t *testing.T) {
	for _, c := range []struct {
		p    Protocol
		name string
	}{
		{ProtocolConfigured, "configured"}, {ProtocolISIS, "IS-IS"}, {ProtocolOSPFv2, "OSPFv2"},
		{ProtocolOSPFv3, "OSPFv3"}, {ProtocolBGP, "BGP"},
		{9, "Protocol(9)"},
	} {
		t.Run(fmt.Sprint(c.p), func(t *testing.T) { require.Equal(t, c.name, c.p.String()) })
	}
}

// An advertisement that cannot be encoded leaves the slice unchanged.
func TestAppendRejects(t *testing.T) {
	v4, v6 := prefix("192.0.2.0/24"), prefix("2001:db8::/64")
	p4, p6 := addr("198.51.100.1"), addr("2001:db8:ffff::1")
	codes := Codes{NHC: 4242}
	isis := func(b []byte, a Advertisement) ([]byte, error) { return codes.AppendISIS(b, a, 0) }
	for _, c := range []struct {
		appendTo func([]byte, Advertisement) ([]byte, error)
		a        Advertisement
		err      error
	}{
		{isis, Advertisement{Proxy: p4}, errPrefix},
		{isis, Advertisement{Prefix: netip.PrefixFrom(addr("::ffff:192.0.2.0"), 120), Proxy: p4}, errPrefix},
		{isis, Advertisement{Prefix: v4}, errProxy},
		{codes.AppendOSPFv2, Advertisement{Prefix: v6, Proxy: p6}, errPrefix},
		{codes.AppendOSPFv2, Advertisement{Prefix: v4, Proxy: p6}, errProxy},
		{codes.AppendOSPFv2, Advertisement{Prefix: v4}, errProxy},
		{codes.AppendOSPFv3, Advertisement{Prefix: v4, Proxy: p4}, errPrefix},
		{codes.AppendOSPFv3, Advertisement{Prefix: v6, Proxy: p4}, errProxy},
		{codes.AppendOSPFv3, Advertisement{Prefix: v6, Proxy: p6, Metric: 1 << 24}, errMetric},
		{codes.AppendOSPFv3, Advertisement{Proxy: p6}, errPrefix},
	} {
		b, err := c.appendTo([]byte{0xA5}, c.a)
		require.ErrorIs(t, err, c.err)
		require.ErrorIs(t, err, wireerr.Range)
		require.Equal(t, []byte{0xA5}, b)
	}
}

// A prefix must be one of host addresses, and a proxy reachable.
func TestValidate(t *testing.T) {
	p4, p6 := addr("198.51.100.1"), addr("2001:db8:ffff::1")
	for _, s := range []string{"192.0.2.0/24", "192.0.2.7/32", "10.0.0.0/8", "1.0.0.0/8", "128.0.0.0/3", "126.0.0.0/8",
		"169.253.0.0/16", "223.0.0.0/8", "255.255.255.254/32"} {
		require.NoError(t, (&Advertisement{Prefix: prefix(s), Proxy: p4}).Validate(), s)
	}
	for _, s := range []string{"2001:db8::/64", "2001:db8::7/128", "2000::/3", "fc00::/7", "::2/128", "fec0::/10"} {
		require.NoError(t, (&Advertisement{Prefix: prefix(s), Proxy: p6}).Validate(), s)
	}
	for _, s := range []string{
		"0.0.0.0/0", "0.0.0.0/1", "128.0.0.0/1", "192.0.0.0/2", "0.0.0.0/32", "127.0.0.1/32", "64.0.0.0/2",
		"169.254.7.0/24", "224.0.0.0/8", "255.255.255.255/32",
		"::/0", "::/128", "::1/128", "8000::/1", "fe80::/64", "ff00::/8", "ff02::1/128", "::/80", "",
	} {
		a := Advertisement{Prefix: prefix(s), Proxy: p6}
		require.Equal(t, errPrefix, a.Validate(), s)
		for _, appendTo := range []func([]byte, Advertisement) ([]byte, error){
			func(b []byte, a Advertisement) ([]byte, error) { return Codes{}.AppendISIS(b, a, 0) },
			Codes{}.AppendOSPFv3,
			Codes{}.AppendOSPFv2,
		} {
			b, err := appendTo([]byte{7}, a)
			require.Equal(t, errPrefix, err, s)
			require.Equal(t, []byte{7}, b)
		}
		wiretest.NoAllocs(t, s, func() { _ = a.Validate() })
	}
	for _, s := range []string{"", "0.0.0.0", "127.0.0.1", "169.254.0.1", "224.0.0.1", "255.255.255.255", "::", "::1",
		"fe80::1", "fe80::1%eth0", "ff02::1", "::ffff:127.0.0.1"} {
		require.Equal(t, errProxy, (&Advertisement{Prefix: prefix("192.0.2.0/24"), Proxy: addr(s)}).Validate(), s)
		_, err := Codes{NHC: 7}.AppendNHC(nil, NextHop{AFI: 1, SAFI: 1, Addr: p4}, addr(s))
		require.Equal(t, errProxy, err, s)
	}
	require.NoError(t, (&Advertisement{Prefix: prefix("192.0.2.0/24"), Proxy: addr("::ffff:198.51.100.1")}).Validate(),
		"as sockets show it")
}

// lspOf returns an LSP of level 2 of the system 0000.0000.0001.
func lspOf(tlvs ...[]byte) []byte { return fragment(2, 1, 0, 1200, tlvs...) }

func fragment(level, system, number uint8, lifetime uint16, tlvs ...[]byte) []byte {
	b := []byte{
		0x83, 27, 1, 0, 16 + 2*level, 1, 0, 0,
		0, 0, uint8(lifetime >> 8), uint8(lifetime),
		0, 0, 0, 0, 0, system, 0, number,
		0, 0, 0, 1, 0, 0, 3,
	}
	b = append(b, slices.Concat(tlvs...)...)
	binary.BigEndian.PutUint16(b[8:], uint16(len(b)))
	return b
}

// opaqueLSA returns an OSPFv2 LSA of area scope of the router 192.0.2.1.
func opaqueLSA(opaqueType uint8, body ...[]byte) []byte {
	b := []byte{0, 1, 2, 10, opaqueType, 0, 0, 1, 192, 0, 2, 1, 0x80, 0, 0, 1, 0, 0, 0, 0}
	return withLength(append(b, slices.Concat(body...)...))
}

// extendedLSA returns an OSPFv3 LSA of the router 192.0.2.1.
func extendedLSA(typ uint16, body ...[]byte) []byte {
	b := []byte{0, 1, uint8(typ >> 8), uint8(typ), 0, 0, 0, 1, 192, 0, 2, 1, 0x80, 0, 0, 1, 0, 0, 0, 0}
	return withLength(append(b, slices.Concat(body...)...))
}

func withLength(lsa []byte) []byte {
	binary.BigEndian.PutUint16(lsa[18:], uint16(len(lsa)))
	return lsa
}

// truncations checks that a reader yields only a truncation error for each prefix of a
// PDU.
func truncations(t *testing.T, pdu []byte, read func(...[]byte) iter.Seq2[Advertisement, error]) {
	t.Helper()
	for n := range pdu {
		all, errs := collect(read(slices.Clone(pdu[:n:n])))
		require.Empty(t, all)
		require.Len(t, errs, 1)
		require.ErrorIs(t, errs[0], wireerr.Truncated, "%d of %d octets", n, len(pdu))
	}
}

// lengths checks that a reader terminates and yields no invalid prefix if any octet of
// a PDU has any other value.
func lengths(t *testing.T, pdu []byte, read func(...[]byte) iter.Seq2[Advertisement, error]) {
	t.Helper()
	for i := range pdu {
		lying := slices.Clone(pdu)
		for _, v := range []byte{0, 1, pdu[i] - 1, pdu[i] + 1, 0x7F, 0xFF} {
			lying[i] = v
			for a, err := range read(lying) {
				require.True(t, err != nil || a.Prefix.IsValid() && a.Prefix == a.Prefix.Masked())
			}
		}
	}
}

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
