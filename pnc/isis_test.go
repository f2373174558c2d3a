package pnc

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

var systemOne = Originator{Protocol: ProtocolISIS, ID: [8]byte{0, 0, 0, 0, 0, 1, 0, 2}} // at level 2

// advertised returns the advertisement of a prefix, a metric and a proxy, which may be "unknown".
func advertised(t *testing.T, text string, originator Originator) Advertisement {
	t.Helper()
	a := Advertisement{Originator: originator}
	var network, proxy string
	_, err := fmt.Sscan(text, &network, &a.Metric, &proxy)
	require.NoError(t, err)
	a.Prefix = prefix(network)
	if proxy != "unknown" {
		a.Proxy = addr(proxy)
	}
	return a
}

// The octets were composed by hand from RFC 5305, 5308, 5120 and 7794.
func TestReadISIS(t *testing.T) {
	const (
		id4 = "86 04 c6336401"                          // TLV 134: 198.51.100.1
		id6 = "8c 10 20010db8ffff00000000000000000001 " // TLV 140: 2001:db8:ffff::1
	)
	for _, c := range wiretest.Cases(t, "isis.txt", "$id4", id4, "$id6", id6, "(none)", "") {
		t.Run(c[0], func(t *testing.T) {
			pdu := lspOf(wiretest.Hex(t, c[1]))
			all, errs := collect(Codes{}.ReadISIS(pdu))
			require.Empty(t, errs)
			if c[2] == "nothing" {
				require.Empty(t, all)
				return
			}
			require.Equal(t, []Advertisement{advertised(t, c[2], systemOne)}, all)
			truncations(t, pdu, Codes{}.ReadISIS)
			lengths(t, pdu, Codes{}.ReadISIS)
			isisNoAllocs(t, pdu)

			all, errs = collect(Codes{ISIS: 6}.ReadISIS(pdu))
			require.Empty(t, all, "another bit")
			require.Empty(t, errs)
		})
	}
}

func TestReadISISFragments(t *testing.T) {
	id := wiretest.Hex(t, "86 04 c6336401")
	p1 := wiretest.Hex(t, "87 0c 0000000a 58 c00002 03 0401 01")
	p2 := wiretest.Hex(t, "87 0c 0000000b 58 c00003 03 0401 01")
	one := Advertisement{Prefix: prefix("192.0.2.0/24"), Proxy: addr("198.51.100.1"), Metric: 10, Originator: systemOne}
	two := Advertisement{Prefix: prefix("192.0.3.0/24"), Proxy: addr("198.51.100.1"), Metric: 11, Originator: systemOne}

	all, errs := collect(Codes{}.ReadISIS(fragment(2, 1, 1, 1200, p1), fragment(2, 1, 2, 1200, p2),
		fragment(2, 1, 0, 1200, id)))
	require.Empty(t, errs)
	require.Equal(t, []Advertisement{one, two}, all)

	all, errs = collect(Codes{}.ReadISIS(fragment(2, 1, 0, 1200, id, p1), fragment(2, 1, 1, 0, p2)))
	require.Empty(t, errs)
	require.Equal(t, []Advertisement{one}, all, "an expired fragment")

	all, errs = collect(Codes{}.ReadISIS(fragment(2, 1, 0, 0, id, p1), fragment(2, 1, 1, 1200, p2)))
	require.Empty(t, errs)
	require.Empty(t, all, "fragment 0 has expired")
	all, errs = collect(Codes{}.ReadISIS(fragment(2, 1, 0, 0, id, p1), fragment(2, 1, 2, 0, p1), fragment(2, 1, 1, 1200,
		p2)))
	require.Empty(t, errs)
	require.Empty(t, all, "and another one after it")

	all, errs = collect(Codes{}.ReadISIS(fragment(2, 1, 0, 1200, id, p1), fragment(2, 2, 0, 1200, p2),
		fragment(1, 1, 1, 1200, p2)))
	require.Equal(t, []error{errSystem, errSystem}, errs)
	require.Equal(t, []Advertisement{one}, all, "other systems and levels")

	level1, _ := collect(Codes{}.ReadISIS(fragment(1, 1, 0, 1200, id, p1)))
	require.Equal(t, Originator{Protocol: ProtocolISIS, ID: [8]byte{0, 0, 0, 0, 0, 1, 0, 1}}, level1[0].Originator)

	pseudonode := lspOf(id, p1)
	pseudonode[18] = 1
	all, errs = collect(Codes{}.ReadISIS(pseudonode))
	require.Empty(t, errs)
	require.Empty(t, all)

	// The TE router ids of a pseudonode, of another system and of the system at another
	// level are not used.
	anonymous := one
	anonymous.Proxy = netip.Addr{}
	pseudonode = fragment(2, 1, 0, 1200, id)
	pseudonode[18] = 1
	for _, other := range [][]byte{pseudonode, fragment(2, 2, 0, 1200, id), fragment(1, 1, 0, 1200, id)} {
		all, _ = collect(Codes{}.ReadISIS(fragment(2, 1, 0, 1200, p1), other))
		require.Equal(t, []Advertisement{anonymous}, all)
		if other[18] == 0 {
			all, _ = collect(Codes{}.ReadISIS(other, fragment(2, 1, 0, 1200, p1)))
			require.Empty(t, all, "the first fragment determines the system")
		}
	}
	expired := fragment(2, 1, 1, 0, id)
	all, errs = collect(Codes{}.ReadISIS(fragment(2, 1, 0, 1200, p1), expired))
	require.Empty(t, errs)
	require.Equal(t, []Advertisement{anonymous}, all, "nor that of a fragment that has expired")

	for range (Codes{}).ReadISIS(lspOf(id, p1, p2)) {
		break // the loop may end at any time
	}
	all, errs = collect(Codes{}.ReadISIS())
	require.Empty(t, errs)
	require.Empty(t, all)
}

// Invalid entries are errors; the valid ones are yielded as well.
func TestReadISISBroken(t *testing.T) {
	good := wiretest.Hex(t, "87 12 0000000a 58 c00002 09 0401 01 0b04 c6336402")
	want := []Advertisement{{Prefix: prefix("192.0.2.0/24"), Proxy: addr("198.51.100.2"), Metric: 10,
		Originator: systemOne}}
	for _, c := range []struct {
		name, tlvs string
		err        error
	}{
		{"reachability without prefix length", "87 04 0000000a", errReach},
		{"prefix longer than its TLV", "87 07 0000000a 18 c000", errReach},
		{"33 bits of IPv4", "87 0a 0000000a 21 c000020080", errPrefixLength},
		{"129 bits of IPv6", "ec 17 0000000a 00 81 20010db8000000000000000000000000 80", errPrefixLength},
		{"sub-TLVs without length", "87 08 0000000a 58 c00002", errReach},
		{"sub-TLVs longer than the TLV", "87 0a 0000000a 58 c00002 03 04", errReach},
		{"sub-TLV longer than the sub-TLVs", "87 0c 0000000a 58 c00002 03 0402 01", errSubTLV},
		{"half a sub-TLV", "87 0a 0000000a 58 c00002 01 04", errSubTLV},
		{"half a topology", "eb 01 00", errReach},
		{"half an IPv6 reachability", "ec 05 0000000a 00", errReach},
		{"the flag on the default route", "87 0f 00000000 40 09 0401 01 0b04 c6336402", errNotHosts},
		{"the flag on the IPv6 default route", "ec 0f 00000000 20 00 08 0401 01 0303 000000", errNotHosts},
	} {
		t.Run(c.name, func(t *testing.T) {
			bad := wiretest.Hex(t, c.tlvs)
			for _, pdu := range [][]byte{lspOf(bad, good), lspOf(good, bad)} {
				all, errs := collect(Codes{}.ReadISIS(pdu))
				require.Equal(t, []error{c.err}, errs)
				require.ErrorIs(t, errs[0], wireerr.Malformed)
				require.Equal(t, want, all)
				isisNoAllocs(t, pdu)
			}
		})
	}
	// After an invalid entry the next one is read.
	all, errs := collect(Codes{}.ReadISIS(lspOf(wiretest.Hex(t,
		"87 1e 0000000a 58 c00002 03 0402 01 0000000a 58 c00002 09 0401 01 0b04 c6336402"))))
	require.Equal(t, []error{errSubTLV}, errs)
	require.Equal(t, want, all)

	all, errs = collect(Codes{}.ReadISIS(lspOf(good, wiretest.Hex(t, "87 ff 00"))))
	require.Equal(t, []error{errTLV}, errs)
	require.Equal(t, want, all)

	for _, c := range []struct {
		at int
		v  byte
	}{{0, 0x82}, {2, 2}, {3, 8}, {4, 15}} {
		t.Run(fmt.Sprint(c.at), func(t *testing.T) {
			pdu := lspOf(good)
			pdu[c.at] = c.v
			_, errs := collect(Codes{}.ReadISIS(pdu))
			require.Equal(t, []error{errNotLSP}, errs)
			require.ErrorIs(t, errs[0], wireerr.Other)
		})
	}
	short := lspOf(good)
	short[8], short[9] = 0, 26
	_, errs = collect(Codes{}.ReadISIS(short))
	require.Equal(t, []error{errPDULength}, errs)
}

// isisNoAllocs checks that ranging over ReadISIS does not allocate.
func isisNoAllocs(t *testing.T, pdu []byte) {
	t.Helper()
	wiretest.NoAllocs(t, "ReadISIS", func() {
		for _, err := range (Codes{}).ReadISIS(pdu) {
			_ = err
		}
	})
}

func TestAppendISIS(t *testing.T) {
	for _, c := range []struct {
		codes    Codes
		a        Advertisement
		topology uint16
		octets   string
	}{
		{Codes{}, Advertisement{Prefix: prefix("192.0.2.0/24"), Proxy: addr("198.51.100.2"), Metric: 10}, 0,
			"87 12 0000000a 58 c00002 09 0401 01 0b04 c6336402"},
		{Codes{}, Advertisement{Prefix: prefix("192.0.2.9/24"), Proxy: addr("::ffff:198.51.100.2"), Metric: 10}, 3,
			"eb 14 0003 0000000a 58 c00002 09 0401 01 0b04 c6336402"},
		{Codes{}, Advertisement{Prefix: prefix("2001:db8:1::/64"), Proxy: addr("2001:db8:ffff::1%eth0"), Metric: 20}, 0,
			"ec 24 00000014 20 40 20010db800010000 15 0401 01 0c10 20010db8ffff00000000000000000001"},
		{Codes{ISIS: 9}, Advertisement{Prefix: prefix("2001:db8:1::7/128"), Proxy: addr("198.51.100.2")}, 2,
			"ed 23 0002 00000000 20 80 20010db8000100000000000000000007 0a 0402 0040 0b04 c6336402"},
		{Codes{}, Advertisement{Prefix: prefix("192.0.2.0/24"), Proxy: addr("198.51.100.2"), Metric: 10}, 0xFFF,
			"eb 14 0fff 0000000a 58 c00002 09 0401 01 0b04 c6336402"},
		{Codes{}, Advertisement{Prefix: prefix("10.0.0.0/7"), Proxy: addr("198.51.100.2")}, 0,
			"87 10 00000000 47 0a 09 0401 01 0b04 c6336402"},
	} {
		wire := wiretest.Hex(t, c.octets)
		wiretest.Encodes(t, wire, func(b []byte) ([]byte, error) { return c.codes.AppendISIS(b, c.a, c.topology) })
		all, errs := collect(c.codes.ReadISIS(lspOf(wire)))
		require.Empty(t, errs)
		c.a.Prefix, c.a.Proxy, c.a.Originator = c.a.Prefix.Masked(), wireAddr(c.a.Proxy), systemOne
		require.Equal(t, []Advertisement{c.a}, all)
		buf := make([]byte, 0, 64)
		wiretest.NoAllocs(t, "AppendISIS", func() { _, _ = c.codes.AppendISIS(buf, c.a, c.topology) })
		out, err := c.codes.AppendISIS(buf[:1], c.a, 0x1000|c.topology)
		require.Equal(t, errTopology, err)
		require.Len(t, out, 1)
	}
}

// PROXY section 5.1: the capability MUST be kept between levels; the proxy is kept as
// well.
func TestLeakISIS(t *testing.T) {
	v4, v6 := addr("198.51.100.1"), addr("2001:db8:ffff::1")
	for _, c := range []struct {
		name     string
		in       string
		id4, id6 netip.Addr
		out      string
	}{
		{"P kept, R set, id kept", "0401 01 0b04 c6336402", v4, v6, "0401 41 0b04 c6336402"},
		{"X and N kept, and unknown flags", "0402 a180 0b04 c6336402", v4, v6, "0402 e180 0b04 c6336402"},
		{"id added", "0401 01", v4, netip.Addr{}, "0401 41 0b04 c6336401"},
		{"both ids added", "0401 01", v4, v6, "0401 41 0b04 c6336401 0c10 20010db8ffff00000000000000000001"},
		{"leaked before: the leaking router's id is not the source's", "0401 41", v4, v6, "0401 41"},
		{"no flags", "", v4, netip.Addr{}, "0401 40 0b04 c6336401"},
		{"flags of no octets", "0400", netip.Addr{}, netip.Addr{}, "0401 40"},
		{"other sub-TLVs are not copied", "0104 00000007 0401 01 0306 000000000001 0b04 c6336402", v4, v6,
			"0401 41 0b04 c6336402"},
		{"ids in the wrong places", "0401 01", v6, v4, "0401 41"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := wiretest.Hex(t, c.in)
			wiretest.Encodes(t, wiretest.Hex(t, c.out),
				func(b []byte) ([]byte, error) { return LeakISIS(b, in, c.id4, c.id6) })
			buf := make([]byte, 0, 64)
			wiretest.NoAllocs(t, c.name, func() { _, _ = LeakISIS(buf, in, c.id4, c.id6) })
		})
	}
	b, err := LeakISIS([]byte{1}, wiretest.Hex(t, "0402 01"), v4, v6)
	require.Equal(t, errSubTLV, err)
	require.Equal(t, []byte{1}, b)
	b, err = LeakISIS([]byte{1}, append([]byte{4, 253}, make([]byte, 253)...), netip.Addr{}, netip.Addr{})
	require.NoError(t, err, "255 octets")
	require.Equal(t, []byte{1, 4, 253, 0x40, 0}, b[:5])
	require.Len(t, b, 256)
	b, err = LeakISIS([]byte{1}, append([]byte{4, 253}, make([]byte, 253)...), v4, v6)
	require.Equal(t, errSubTLVsLen, err)
	require.Equal(t, []byte{1}, b)
}

// A prefix that is leaked to another level and back keeps proxy and capability.
func TestLeakISISTwice(t *testing.T) {
	origin := wiretest.Hex(t, "0401 01")
	first := wiretest.Must(LeakISIS(nil, origin, addr("198.51.100.1"), netip.Addr{}))(t)
	second := wiretest.Must(LeakISIS(nil, first, addr("198.51.100.99"), addr("2001:db8::99")))(t)
	require.Equal(t, first, second)
	r := reach{metric: 10, control: controlDown | controlSubTLVs4, prefix: prefix("192.0.2.0/24"), subTLVs: second}
	entry := r.appendEntry(nil)
	all, errs := collect(Codes{}.ReadISIS(lspOf(slices.Concat([]byte{tlvReach4, uint8(len(entry))}, entry))))
	require.Empty(t, errs)
	require.Equal(t, addr("198.51.100.1"), all[0].Proxy)
}
