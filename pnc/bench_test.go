package pnc

import (
	"slices"
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
)

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
