package pnc

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

var (
	routerV2 = Originator{Protocol: ProtocolOSPFv2, ID: [8]byte{192, 0, 2, 1}}
	routerV3 = Originator{Protocol: ProtocolOSPFv3, ID: [8]byte{192, 0, 2, 1}}
)

// The octets were composed by hand from RFC 7684, 9792, 9084 and 3630.
func TestReadOSPFv2(t *testing.T) {
	te := opaqueLSA(opaqueTE, wiretest.Hex(t, "0001 0004 c6336401"))
	for _, c := range wiretest.Cases(t, "ospfv2.txt", "(none)", "") {
		t.Run(c[0], func(t *testing.T) {
			pdu := opaqueLSA(opaqueExtendedPrefix, wiretest.Hex(t, c[1]))
			var want []Advertisement
			network, proxies, _ := strings.Cut(c[2], " ")
			for proxy := range strings.FieldsSeq(proxies) {
				want = append(want, advertised(t, network+" 0 "+proxy, routerV2))
			}
			for _, lsas := range [][][]byte{{pdu, te}, {te, pdu}} {
				all, errs := collect(Codes{}.ReadOSPFv2(lsas...))
				require.Empty(t, errs)
				require.Equal(t, want, all)
			}
			truncations(t, pdu, Codes{}.ReadOSPFv2)
			lengths(t, pdu, Codes{}.ReadOSPFv2)
			wiretest.NoAllocs(t, "ReadOSPFv2", func() {
				for _, err := range (Codes{}).ReadOSPFv2(te, pdu) {
					_ = err
				}
			})
			all, _ := collect(Codes{OSPFv2: 5}.ReadOSPFv2(pdu[:len(pdu):len(pdu)]))
			if c[0] != "all bits but 2" {
				require.Empty(t, all, "another bit")
			}
		})
	}
}

// The octets were composed by hand from RFC 8362, 9792, 9084 and 5329.
func TestReadOSPFv3(t *testing.T) {
	const reference = "0000 a029 00000000 c0000201" // of an E-Intra-Area-Prefix-LSA
	te := extendedLSA(0xA00A, wiretest.Hex(t, "0003 0010 20010db8ffff00000000000000000001"))
	for _, c := range wiretest.Cases(t, "ospfv3.txt", "$reference", reference) {
		t.Run(c[0], func(t *testing.T) {
			typ := wiretest.Must(strconv.ParseUint(c[1], 16, 16))(t)
			pdu := extendedLSA(uint16(typ), wiretest.Hex(t, c[2]))
			var want []Advertisement
			if c[3] != "nothing" {
				want = append(want, advertised(t, c[3], routerV3))
			}
			for _, lsas := range [][][]byte{{pdu, te}, {te, pdu}} {
				all, errs := collect(Codes{}.ReadOSPFv3(lsas...))
				require.Empty(t, errs)
				require.Equal(t, want, all)
			}
			truncations(t, pdu, Codes{}.ReadOSPFv3)
			lengths(t, pdu, Codes{}.ReadOSPFv3)
			wiretest.NoAllocs(t, "ReadOSPFv3", func() {
				for _, err := range (Codes{}).ReadOSPFv3(te, pdu) {
					_ = err
				}
			})
		})
	}
}

// A malformed LSA is ignored completely; the others are read.
func TestReadOSPFBroken(t *testing.T) {
	const goodV2 = "0001 0018 01180000 c0000200 000b0004 20000000 00050004 c6336402"
	wantV2 := []Advertisement{{Prefix: prefix("192.0.2.0/24"), Proxy: addr("198.51.100.2"), Originator: routerV2}}
	for _, c := range []struct {
		name, body string
		err        error
	}{
		{"flags of 1 octet", "0001 0010 01180000 c0000200 000b0001 20000000", errFlagsLength},
		{"flags of 6 octets", "0001 0014 01180000 c0000200 000b0006 2000000000000000", errFlagsLength},
		{"second flags of 1 octet", "0001 0018 01180000 c0000200 000b0004 20000000 000b0001 20000000", errFlagsLength},
		{"TLV shorter than its fixed fields", "0001 0004 01180000", errOSPFFixed},
		{"33 bits", "0001 0010 01210000 c0000200 000b0004 20000000", errPrefixLength},
		{"sub-TLV beyond its TLV", "0001 0010 01180000 c0000200 000b0008 20000000", errSubTLV},
		{"half a sub-TLV", "0001 000a 01180000 c0000200 000b0000", errSubTLV},
		{"TLV beyond the LSA", "0001 0020 01180000 c0000200 000b0004 20000000", errOSPFTLV},
		{"half a TLV", "0001", errOSPFTLV},
	} {
		t.Run(c.name, func(t *testing.T) {
			bad := opaqueLSA(opaqueExtendedPrefix, wiretest.Hex(t, goodV2), wiretest.Hex(t, c.body))
			good := opaqueLSA(opaqueExtendedPrefix, wiretest.Hex(t, goodV2))
			all, errs := collect(Codes{}.ReadOSPFv2(bad, good))
			require.Equal(t, []error{c.err}, errs)
			require.ErrorIs(t, errs[0], wireerr.Malformed)
			require.Equal(t, wantV2, all)
			wiretest.NoAllocs(t, c.name, func() {
				for _, err := range (Codes{}).ReadOSPFv2(bad) {
					_ = err
				}
			})
		})
	}

	const goodV3 = "0003 002c 0000000b 40000000 20010db800010000 00250004 20000000 001c0010 " +
		"20010db8ffff00000000000000000002"
	wantV3 := []Advertisement{{Prefix: prefix("2001:db8:1::/64"), Proxy: addr("2001:db8:ffff::2"), Metric: 11,
		Originator: routerV3}}
	for _, c := range []struct {
		name, body string
		err        error
	}{
		{"flags of 2 octets", "0003 0018 0000000b 40000000 20010db800010000 00250002 20000000", errFlagsLength},
		{"TLV shorter than its fixed fields", "0003 0004 0000000b", errOSPFFixed},
		{"prefix beyond its TLV", "0003 000c 0000000b 40000000 20010db8", errOSPFFixed},
		{"129 bits", "0003 001c 0000000b 81000000 20010db800010000000000000000000080000000", errPrefixLength},
		{"sub-TLV beyond its TLV", "0003 0018 0000000b 40000000 20010db800010000 00250005 20000000", errSubTLV},
		{"TLV beyond the LSA", "0003 0018 0000000b 40000000", errOSPFTLV},
	} {
		t.Run(c.name, func(t *testing.T) {
			bad := extendedLSA(0xA023, wiretest.Hex(t, goodV3), wiretest.Hex(t, c.body))
			good := extendedLSA(0xA023, wiretest.Hex(t, goodV3))
			all, errs := collect(Codes{}.ReadOSPFv3(bad, good))
			require.Equal(t, []error{c.err}, errs)
			require.ErrorIs(t, errs[0], wireerr.Malformed)
			require.Equal(t, wantV3, all)
		})
	}
	_, errs := collect(Codes{}.ReadOSPFv3(extendedLSA(0xA029, make([]byte, 11))))
	require.Equal(t, []error{errOSPFFixed}, errs)

	for _, age := range []uint16{maxAge, doNotAge | maxAge, 0xFFFF} {
		gone := opaqueLSA(opaqueExtendedPrefix, wiretest.Hex(t, goodV2))
		gone[0], gone[1] = uint8(age>>8), uint8(age)
		all, errs := collect(Codes{}.ReadOSPFv2(gone))
		require.Empty(t, errs)
		require.Empty(t, all, "age %#x", age)
	}
	old := opaqueLSA(opaqueExtendedPrefix, wiretest.Hex(t, goodV2))
	old[0], old[1] = 0x8E, 0x0F // 3599, DoNotAge
	all, _ := collect(Codes{}.ReadOSPFv2(old))
	require.Equal(t, wantV2, all)

	for _, c := range []struct {
		typ    uint8
		opaque bool
	}{{8, false}, {9, true}, {11, true}, {12, false}} {
		t.Run(fmt.Sprint(c.typ), func(t *testing.T) {
			scoped := opaqueLSA(opaqueExtendedPrefix, wiretest.Hex(t, goodV2))
			scoped[3] = c.typ
			all, errs := collect(Codes{}.ReadOSPFv2(scoped))
			require.Empty(t, errs)
			require.Equal(t, c.opaque, len(all) == 1, "LSA type %d", c.typ)
		})
	}

	other := slices.Clone(old)
	other[8]++
	all, errs = collect(Codes{}.ReadOSPFv2(old, other))
	require.Equal(t, []error{errRouter}, errs)
	require.Equal(t, wantV2, all)

	old[18], old[19] = 0, 19
	_, errs = collect(Codes{}.ReadOSPFv2(old))
	require.Equal(t, []error{errLSALength}, errs)

	for _, seq := range []func(...[]byte) func(func(Advertisement, error) bool){
		func(l ...[]byte) func(func(Advertisement, error) bool) { return Codes{}.ReadOSPFv2(l...) },
		func(l ...[]byte) func(func(Advertisement, error) bool) { return Codes{}.ReadOSPFv3(l...) },
	} {
		n := 0
		for range seq([]byte{1}, []byte{2}) {
			n++
			break
		}
		require.Equal(t, 1, n)
	}
}

// The flag on the default route is an error; other prefixes in the LSA are read, and a
// default route without the flag is ignored.
func TestReadOSPFDefaultRoute(t *testing.T) {
	all, errs := collect(Codes{}.ReadOSPFv2(opaqueLSA(opaqueExtendedPrefix, wiretest.Hex(t,
		"0001 0010 01000000 00000000 000b0004 20000000"+
			"0001 0010 01000000 00000000 000b0004 40000000"+
			"0001 0018 01180000 c0000200 000b0004 20000000 00050004 c6336402"))))
	require.Equal(t, []error{errNotHosts}, errs)
	require.Equal(t, []Advertisement{{Prefix: prefix("192.0.2.0/24"), Proxy: addr("198.51.100.2"),
		Originator: routerV2}},
		all)

	all, errs = collect(Codes{}.ReadOSPFv3(extendedLSA(0xA023, wiretest.Hex(t,
		"0003 0010 00000001 00000000 00250004 20000000"+
			"0003 0010 00000001 00000000 00250004 40000000"+
			"0003 0018 0000000b 40000000 20010db800010000 00250004 20000000"))))
	require.Equal(t, []error{errNotHosts}, errs)
	require.Equal(t, []Advertisement{{Prefix: prefix("2001:db8:1::/64"), Metric: 11, Originator: routerV3}}, all)
}

// A prefix is encoded in as many words as its bits need.
func TestPrefixesOfOSPFv3(t *testing.T) {
	for _, c := range []struct{ prefix, octets string }{
		{"2000::/3", "0003 001c 00000007 03000000 20000000"},
		{"2001:db8::/31", "0003 001c 00000007 1f000000 20010db8"},
		{"2001:db8::/32", "0003 001c 00000007 20000000 20010db8"},
		{"2001:db8:8000::/33", "0003 0020 00000007 21000000 20010db8 80000000"},
		{"2001:db8:1:2::/64", "0003 0020 00000007 40000000 20010db8 00010002"},
		{"2001:db8:1:2:8000::/65", "0003 0024 00000007 41000000 20010db8 00010002 80000000"},
		{"2001:db8:1:2:3:4::/96", "0003 0024 00000007 60000000 20010db8 00010002 00030004"},
		{"2001:db8:1:2:3:4:8000:0/97", "0003 0028 00000007 61000000 20010db8 00010002 00030004 80000000"},
		{"2001:db8:1:2:3:4:5:6/128", "0003 0028 00000007 80000000 20010db8 00010002 00030004 00050006"},
	} {
		t.Run(c.prefix, func(t *testing.T) {
			tail := wiretest.Hex(t, "00250004 20000000 001b0004 c0000207")
			out := append(wiretest.Hex(t, c.octets), tail...)
			out[3] = uint8(len(out) - 4)
			in := slices.Clone(out)
			in[1], in[9], in[10], in[11] = 6, 0xFF, 0xAB, 0xCD // Intra-Area-Prefix, all options, the reserved octets
			out[9] = 0xFD                                      // all but LA
			got := wiretest.Must(LeakOSPFv3(nil, in, 7, PrefixSource{Router: [4]byte{192, 0, 2, 7}}))(t)
			require.Equal(t, out, got)
			all, errs := collect(Codes{}.ReadOSPFv3(extendedLSA(0xA023, got)))
			require.Empty(t, errs)
			require.Equal(t, []Advertisement{{Prefix: prefix(c.prefix), Metric: 7, Originator: routerV3}}, all)
		})
	}
}

func TestAppendOSPF(t *testing.T) {
	v2 := wiretest.Hex(t, "0001 0018 01180000 c0000200 000b0004 20000000 00050004 c6336402")
	a := Advertisement{Prefix: prefix("192.0.2.0/24"), Proxy: addr("198.51.100.2")}
	wiretest.Encodes(t, v2, func(b []byte) ([]byte, error) { return Codes{}.AppendOSPFv2(b, a) })
	other := wiretest.Hex(t, "0001 001c 01180000 c0000200 000b0008 00000000 40000000 00050004 c6336402")
	wiretest.Encodes(t, other, func(b []byte) ([]byte, error) { return Codes{OSPFv2: 33}.AppendOSPFv2(b, a) })

	v3 := wiretest.Hex(t,
		"0006 002c 0000000a 40000000 20010db800010000 00250004 20000000 001c0010 20010db8ffff00000000000000000002")
	a6 := Advertisement{Prefix: prefix("2001:db8:1::9/64"), Proxy: addr("2001:db8:ffff::2"), Metric: 10}
	wiretest.Encodes(t, v3, func(b []byte) ([]byte, error) { return Codes{}.AppendOSPFv3(b, a6) })
	host := wiretest.Hex(t,
		"0006 0034 00ffffff 80000000 20010db8000100000000000000000009 00250004 04000000 001c0010 "+
			"20010db8ffff00000000000000000002")
	a6.Prefix, a6.Metric = prefix("2001:db8:1::9/128"), 1<<24-1
	wiretest.Encodes(t, host, func(b []byte) ([]byte, error) { return Codes{OSPFv3: 5}.AppendOSPFv3(b, a6) })

	buf := make([]byte, 0, 128)
	wiretest.NoAllocs(t, "AppendOSPFv2", func() { _, _ = Codes{}.AppendOSPFv2(buf, a) })
	wiretest.NoAllocs(t, "AppendOSPFv3", func() { _, _ = Codes{}.AppendOSPFv3(buf, a6) })
}

// PROXY section 5.2: an area border router MUST keep the capability and MUST originate
// an Extended Prefix Opaque LSA that includes it.
func TestLeakOSPFv2(t *testing.T) {
	from := PrefixSource{Router: [4]byte{192, 0, 2, 1}, Address: addr("198.51.100.1")}
	for _, c := range []struct {
		name string
		in   string
		from PrefixSource
		out  string
	}{
		{"P kept, source kept", "0001 0018 01180040 c0000200 000b0004 20000000 00050004 c6336402", from,
			"0001 0018 03180040 c0000200 000b0004 20000000 00050004 c6336402"},
		{"source added", "0001 0010 01180000 c0000200 000b0004 20000000", from,
			"0001 0020 03180000 c0000200 000b0004 20000000 00040004 c0000201 00050004 c6336401"},
		{"source not known", "0001 0010 03180000 c0000200 000b0004 20000000", PrefixSource{},
			"0001 0010 03180000 c0000200 000b0004 20000000"},
		{"not set stays not set", "0001 0010 01180000 c0000200 000b0004 40000000", PrefixSource{},
			"0001 0010 03180000 c0000200 000b0004 40000000"},
		{"no flags", "0001 0008 01180000 c0000200", PrefixSource{}, "0001 0008 03180000 c0000200"},
		{"all flags kept", "0001 0014 01180000 c0000200 000b0008 2000000100000001", PrefixSource{},
			"0001 0014 03180000 c0000200 000b0008 2000000100000001"},
		{"several sources kept, others not copied",
			"0001 0034 03180000 c0000200 000b0004 20000000 00040004 c0000207 00050004 c6336402 00020008 " +
				"0000000000000001 00050004 c6336403", from,
			"0001 0028 03180000 c0000200 000b0004 20000000 00040004 c0000207 00050004 c6336402 00050004 c6336403"},
		{"another router's id in an area is invalid, 0 everywhere",
			"0001 0020 01180000 c0000200 000b0004 20000000 00040004 c0000207 00040004 00000000", from,
			"0001 0020 03180000 c0000200 000b0004 20000000 00040004 c0000201 00050004 c6336401"},
		{"source of the other family", "0001 0010 01180000 c0000200 000b0004 20000000",
			PrefixSource{Address: addr("2001:db8::1")},
			"0001 0010 03180000 c0000200 000b0004 20000000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := wiretest.Hex(t, c.in)
			wiretest.Encodes(t, wiretest.Hex(t, c.out),
				func(b []byte) ([]byte, error) { return LeakOSPFv2(b, in, c.from) })
			buf := make([]byte, 0, 128)
			wiretest.NoAllocs(t, c.name, func() { _, _ = LeakOSPFv2(buf, in, c.from) })
		})
	}
	for _, c := range []struct {
		name string
		want error
	}{
		{"", errOSPFTLV},
		{"0001 0008 01180000", errOSPFTLV},
		{"0002 0008 01180000 c0000200", errNotPrefixTLV},
		{"0001 0004 01180000", errOSPFFixed},
		{"0001 0008 01180100 c0000200", errPrefix},
		{"0001 000c 01180000 c0000200 000b0001", errSubTLV},
		{"0001 0010 01180000 c0000200 000b0001 20000000", errFlagsLength},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, err := LeakOSPFv2([]byte{7}, wiretest.Hex(t, c.name), from)
			require.Equal(t, c.want, err)
			require.Equal(t, []byte{7}, b)
		})
	}
	huge := slices.Concat(wiretest.Hex(t, "0001 fffc 01180000 c0000200 000b fff0"), make([]byte, 0xFFF0))
	b, err := LeakOSPFv2([]byte{7}, huge, PrefixSource{})
	require.NoError(t, err, "65536 octets")
	require.Equal(t, wiretest.Hex(t, "07 0001 fffc 03180000"), b[:9])
	require.Len(t, b, 1+0x10000)
	b, err = LeakOSPFv2([]byte{7}, huge, from)
	require.Equal(t, errTLVLen, err)
	require.Equal(t, []byte{7}, b)
}

// PROXY section 5.3: the flag MUST have the value that it has in the source
// area.
func TestLeakOSPFv3(t *testing.T) {
	from := PrefixSource{Router: [4]byte{192, 0, 2, 1}, Address: addr("2001:db8:ffff::1")}
	for _, c := range []struct {
		name   string
		in     string
		metric uint32
		from   PrefixSource
		out    string
	}{
		{"P kept, source kept, N kept, LA not",
			"0006 002c 0000000a 40220000 20010db800010000 00250004 20000000 001c0010 20010db8ffff00000000000000000002",
			30, from,
			"0003 002c 0000001e 40200000 20010db800010000 00250004 20000000 001c0010 20010db8ffff00000000000000000002"},
		{"source added", "0006 0018 0000000a 40000000 20010db800010000 00250004 20000000", 30, from,
			"0003 0034 0000001e 40000000 20010db800010000 00250004 20000000 001b0004 c0000201 001c0010 " +
				"20010db8ffff00000000000000000001"},
		{"from area to area",
			"0003 002c 0000000a 40000000 20010db800010000 00250004 20000000 001c0010 20010db8ffff00000000000000000002",
			30, PrefixSource{},
			"0003 002c 0000001e 40000000 20010db800010000 00250004 20000000 001c0010 20010db8ffff00000000000000000002"},
		{"not set stays not set", "0006 0010 0000000a 40000000 20010db800010000", 30, PrefixSource{},
			"0003 0010 0000001e 40000000 20010db800010000"},
		{"another router's id in an area is invalid",
			"0006 0020 0000000a 40000000 20010db800010000 00250004 20000000 001b0004 c0000207", 30, from,
			"0003 0034 0000001e 40000000 20010db800010000 00250004 20000000 001b0004 c0000201 001c0010 " +
				"20010db8ffff00000000000000000001"},
		{"from another area it is kept",
			"0003 0020 0000000a 40000000 20010db800010000 00250004 20000000 001b0004 c0000207", 30, from,
			"0003 0020 0000001e 40000000 20010db800010000 00250004 20000000 001b0004 c0000207"},
		{"the highest metric", "0006 0010 0000000a 40000000 20010db800010000", 1<<24 - 1, PrefixSource{},
			"0003 0010 00ffffff 40000000 20010db800010000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := wiretest.Hex(t, c.in)
			wiretest.Encodes(t, wiretest.Hex(t, c.out),
				func(b []byte) ([]byte, error) { return LeakOSPFv3(b, in, c.metric, c.from) })
			buf := make([]byte, 0, 128)
			wiretest.NoAllocs(t, c.name, func() { _, _ = LeakOSPFv3(buf, in, c.metric, c.from) })
		})
	}
	for _, c := range []struct {
		name string
		want error
	}{
		{"", errOSPFTLV},
		{"0005 0008 0000000a 00000000", errNotPrefixTLV},
		{"0006 0004 0000000a", errOSPFFixed},
		{"0006 000c 0000000a 00000000 00250004", errSubTLV},
		{"0006 0010 0000000a 00000000 00250002 20000000", errFlagsLength},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, err := LeakOSPFv3([]byte{7}, wiretest.Hex(t, c.name), 1, from)
			require.Equal(t, c.want, err)
			require.Equal(t, []byte{7}, b)
		})
	}
	_, err := LeakOSPFv3(nil, wiretest.Hex(t, "0006 0008 0000000a 00000000"), 1<<24, from)
	require.Equal(t, errMetric, err)
	huge := slices.Concat(wiretest.Hex(t, "0006 fffc 0000000a 00000000 0025 fff0"), make([]byte, 0xFFF0))
	b, err := LeakOSPFv3([]byte{7}, huge, 1, PrefixSource{})
	require.NoError(t, err, "65536 octets")
	require.Equal(t, wiretest.Hex(t, "07 0003 fffc 00000001"), b[:9])
	require.Len(t, b, 1+0x10000)
	b, err = LeakOSPFv3([]byte{7}, huge, 1, from)
	require.Equal(t, errTLVLen, err)
	require.Equal(t, []byte{7}, b)
}

// A prefix that is leaked from an area over the backbone to a third area keeps its
// proxy, independent of the area border routers.
func TestLeakOSPFTwice(t *testing.T) {
	origin, err := Codes{}.AppendOSPFv2(nil, Advertisement{Prefix: prefix("192.0.2.0/24"), Proxy: addr("198.51.100.2")})
	require.NoError(t, err)
	backbone, err := LeakOSPFv2(nil, origin, PrefixSource{Router: [4]byte{192, 0, 2, 1}, Address: addr("198.51.100.1")})
	require.NoError(t, err)
	third := wiretest.Must(LeakOSPFv2(nil, backbone, PrefixSource{}))(t)
	require.Equal(t, backbone, third)
	all, errs := collect(Codes{}.ReadOSPFv2(opaqueLSA(opaqueExtendedPrefix, third)))
	require.Empty(t, errs)
	require.Equal(t, addr("198.51.100.2"), all[0].Proxy)
	require.Equal(t, netip.MustParsePrefix("192.0.2.0/24"), all[0].Prefix)
}

// OSPFv3 extended LSAs of another implementation, Holo (holo-routing/holo): its tests
// have these octets and their values. tshark 4.0 does not decode such LSAs.
func TestExtendedLSAsOfHolo(t *testing.T) {
	for _, c := range []struct {
		name, octets string
		tlvs         int // offset of the TLVs
		tlv          uint16
		prefix       string
		metric       uint32
		options      uint8
		subTLVs      string
	}{
		{"E-Inter-Area-Prefix-LSA",
			"0001 a023 00000002 06060606 80000001 2d9d 0030 0003 0018 0000000a 80020000 " +
				"20010db8100000000000000000000007",
			20, tlvInterAreaPrefix, "2001:db8:1000::7/128", 10, optionLA, ""},
		{"E-AS-External-LSA",
			"0001 c025 00000002 06060606 80000001 4e6b 004c 0005 0034 0000000a 80000000 " +
				"20010db8100000000000000000000010" +
				"0001 0010 30000000000000000000000000000001 0003 0004 00000064",
			20, tlvExternalPrefix, "2001:db8:1000::10/128", 10, 0,
			"0001 0010 30000000000000000000000000000001 0003 0004 00000064"},
		{"E-Intra-Area-Prefix-LSA", "0001 a029 00000000 00000002 80000001 930d 0054 0000 a021 00000000 00000002" +
			"0006 0030 00000000 80220000 fc000000000000000000000000000001 002a 0014 00000002 00000000 002a 0008 " +
			"80000000 30000000",
			32, tlvIntraAreaPrefix, "fc00::1/128", 0, 0x20 | optionLA,
			"002a 0014 00000002 00000000 002a 0008 80000000 30000000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			lsa := wiretest.Hex(t, c.octets)
			tlvs := ospfTLVs(lsa[c.tlvs:])
			require.True(t, tlvs.next())
			require.Empty(t, tlvs.rest)
			require.Equal(t, c.tlv, tlvs.typ)
			var p prefixV3
			require.NoError(t, p.decodeValue(tlvs.value))
			require.Equal(t, prefix(c.prefix), p.prefix)
			require.Equal(t, c.metric, p.metric)
			require.Equal(t, c.options, p.options)
			require.Equal(t, wiretest.Hex(t, c.subTLVs), append([]byte{}, p.subTLVs...))
			require.Equal(t, tlvs.value, append(p.appendFixed(nil), p.subTLVs...))

			all, errs := collect(Codes{}.ReadOSPFv3(lsa))
			require.Empty(t, errs)
			require.Empty(t, all, "no P-flag")

			// The same with the capability.
			pnc := subTLVsV3.appendPNC(nil, SuggestedOSPFv3, addr("2001:db8:ffff::2"))
			lsa = append(lsa, pnc...)
			lsa[19] += uint8(len(pnc))
			lsa[c.tlvs+3] += uint8(len(pnc))
			all, errs = collect(Codes{}.ReadOSPFv3(lsa))
			require.Empty(t, errs)
			require.Len(t, all, 1)
			require.Equal(t, prefix(c.prefix), all[0].Prefix)
			require.Equal(t, addr("2001:db8:ffff::2"), all[0].Proxy)
			require.Equal(t, c.metric, all[0].Metric)
		})
	}
}
