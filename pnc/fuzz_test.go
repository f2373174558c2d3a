package pnc

import (
	"bytes"
	"errors"
	"net/netip"
	"slices"
	"testing"

	"github.com/rocecn/rocecn/internal/wireerr"
	"github.com/rocecn/rocecn/internal/wiretest"
)

// same fails the test unless the advertisements that were read can be encoded, and
// decode to the same advertisements.
func same(t *testing.T, read []Advertisement, appendTo func(Advertisement) ([]byte, error),
	again func([]byte) ([]Advertisement, []error)) {
	t.Helper()
	for _, a := range read {
		if a.Prefix != a.Prefix.Masked() || !a.Prefix.IsValid() {
			t.Fatalf("prefix %v", a.Prefix)
		}
		b, err := appendTo(a)
		if err != nil {
			if !errors.Is(err, wireerr.Range) { // no proxy, or an IPv4-mapped prefix
				t.Fatal(err)
			}
			continue
		}
		all, errs := again(b)
		if len(errs) != 0 || len(all) != 1 || all[0].Prefix != a.Prefix || all[0].Proxy != a.Proxy.Unmap() {
			t.Fatalf("read %v, written %x, read again %v, errors %v", a, b, all, errs)
		}
	}
}

func known(t *testing.T, errs []error) {
	t.Helper()
	for _, err := range errs {
		if !errors.Is(err, wireerr.Truncated) && !errors.Is(err, wireerr.Malformed) && !errors.Is(err, wireerr.Other) {
			t.Fatal(err)
		}
	}
}

func FuzzReadISIS(f *testing.F) {
	f.Fuzz(func(t *testing.T, first, second []byte) {
		all, errs := collect(Codes{}.ReadISIS(first, second))
		known(t, errs)
		same(t, all, func(a Advertisement) ([]byte, error) { return Codes{}.AppendISIS(nil, a, 0) },
			func(b []byte) ([]Advertisement, []error) { return collect(Codes{}.ReadISIS(lspOf(b))) })
	})
}

func FuzzReadOSPFv2(f *testing.F) {
	f.Fuzz(func(t *testing.T, first, second []byte) {
		all, errs := collect(Codes{}.ReadOSPFv2(first, second))
		known(t, errs)
		same(t, all, func(a Advertisement) ([]byte, error) { return Codes{}.AppendOSPFv2(nil, a) },
			func(b []byte) ([]Advertisement, []error) {
				return collect(Codes{}.ReadOSPFv2(opaqueLSA(opaqueExtendedPrefix, b)))
			})
	})
}

func FuzzReadOSPFv3(f *testing.F) {
	f.Fuzz(func(t *testing.T, first, second []byte) {
		all, errs := collect(Codes{}.ReadOSPFv3(first, second))
		known(t, errs)
		same(t, all, func(a Advertisement) ([]byte, error) { return Codes{}.AppendOSPFv3(nil, a) },
			func(b []byte) ([]Advertisement, []error) {
				return collect(Codes{}.ReadOSPFv3(extendedLSA(0xA029, make([]byte, referenceLen), b)))
			})
	})
}

func FuzzReadNHC(f *testing.F) {
	f.Fuzz(func(t *testing.T, value []byte) {
		h, _, err := decodeNHC(value)
		if err != nil {
			if err != errNHC {
				t.Fatal(err)
			}
			return
		}
		proxy, ok, err := bgp.ReadNHC(value, h.Addr)
		if err != nil || !ok {
			return
		}
		b, err := bgp.PropagateNHC(nil, value, h.Addr, NextHop{AFI: 2, SAFI: 1, Addr: addr4})
		if err != nil {
			t.Fatal(err)
		}
		again, ok, err := bgp.ReadNHC(b, addr4)
		if err != nil || !ok || again != proxy.Unmap() {
			t.Fatalf("%v: written %x, read again %v %v %v", proxy, b, again, ok, err)
		}
	})
}

// An entry or TLV that decodes is encoded to the same octets.
func FuzzPrefixes(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, tlv := range []uint8{tlvReach4, tlvReach6} {
			var r reach
			rest, err := r.decodeEntry(tlv, b)
			if err != nil {
				continue
			}
			if again := r.appendEntry(nil); !bytes.Equal(again, b[:len(b)-len(rest)]) {
				t.Fatalf("TLV %d\nread    %x\nwritten %x", tlv, b[:len(b)-len(rest)], again)
			}
		}
		var p extendedPrefix
		if p.decodeValue(b) == nil && p.family == 0 {
			if again := append(p.appendFixed(nil), p.subTLVs...); !bytes.Equal(again, b) {
				t.Fatalf("OSPFv2\nread    %x\nwritten %x", b, again)
			}
		}
		var q prefixV3
		if q.decodeValue(b) == nil {
			if again := append(q.appendFixed(nil), q.subTLVs...); !bytes.Equal(again, b) {
				t.Fatalf("OSPFv3\nread    %x\nwritten %x", b, again)
			}
		}
	})
}

// A prefix that is advertised to another level or area has the same flag and proxy.
func FuzzLeak(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		var before prefixAttributes
		if before.decodeSubTLVs(b) == nil {
			if kept, err := LeakISIS(nil, b, netip.Addr{}, netip.Addr{}); err == nil {
				var after prefixAttributes
				if err := after.decodeSubTLVs(kept); err != nil {
					t.Fatal(err)
				}
				if hasFlag(before.flags, SuggestedISIS) != hasFlag(after.flags, SuggestedISIS) ||
					!hasFlag(after.flags, bitReAdvertised) ||
					before.source4 != after.source4 || before.source6 != after.source6 {
					t.Fatalf("read %x, kept %x", b, kept)
				}
			}
		}
		if kept, err := LeakOSPFv2(nil, b, PrefixSource{}); err == nil {
			value, valueKept := firstValue(b), firstValue(kept)
			keeps(t, &subTLVsV2, value[extendedPrefixLen:], valueKept[extendedPrefixLen:])
		}
		if kept, err := LeakOSPFv3(nil, b, 1, PrefixSource{}); err == nil {
			var p, q prefixV3
			value, valueKept := firstValue(b), firstValue(kept)
			if p.decodeValue(value) != nil || q.decodeValue(valueKept) != nil || p.prefix != q.prefix {
				t.Fatalf("read %x, kept %x", b, kept)
			}
			keeps(t, &subTLVsV3, p.subTLVs, q.subTLVs)
		}
	})
}

func keeps(t *testing.T, c *subTLVCodes, before, after []byte) {
	t.Helper()
	if !bytes.Equal(c.flagField(before), c.flagField(after)) {
		t.Fatalf("flags of %x, kept %x", before, after)
	}
	was, is := ospfTLVs(before), ospfTLVs(after)
	for {
		a, okA := c.nextSource(&was)
		b, okB := c.nextSource(&is)
		if a != b || okA != okB {
			t.Fatalf("source %v, kept %v", a, b)
		}
		if !okA {
			return
		}
	}
}

func firstValue(b []byte) []byte {
	t := ospfTLVs(b)
	t.next()
	return t.value
}

// Decoding of an LSP with 50 prefixes, each with the P-flag and its source.
func BenchmarkReadISIS(b *testing.B) {
	one := wiretest.Hex(b, "87 12 0000000a 58 c00002 09 0401 01 0b04 c6336402")
	lsp := lspOf(slices.Repeat(one, 50))
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		for _, err := range (Codes{}).ReadISIS(lsp) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/prefix")
}

func BenchmarkReadOSPFv2(b *testing.B) {
	one := wiretest.Hex(b, "0001 0018 01180000 c0000200 000b0004 20000000 00050004 c6336402")
	lsa := opaqueLSA(opaqueExtendedPrefix, slices.Repeat(one, 50))
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		for _, err := range (Codes{}).ReadOSPFv2(lsa) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/prefix")
}

func BenchmarkReadNHC(b *testing.B) {
	value := wiretest.Hex(b, "0001 01 04 c6336407 1092 0004 c6336402")
	b.ReportAllocs()
	for b.Loop() {
		if _, ok, err := bgp.ReadNHC(value, addr4); !ok || err != nil {
			b.Fatal(err)
		}
	}
}
