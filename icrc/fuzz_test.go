package icrc_test

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wiretest"
)

// On any octets Sum, Write and Verify agree with the bit-serial reference.
func FuzzSum(f *testing.F) {
	for _, p := range packets(f) {
		f.Add(p.ip)
	}
	f.Fuzz(func(t *testing.T, ip []byte) {
		before := bytes.Clone(ip)
		sums := referenceSums(ip)
		eachImplementation(t, func() {
			for c := icrc.AsSent; c <= icrc.Skipped; c++ {
				want, ok := sums[c]
				got, err := icrc.Sum(ip, c)
				require.Equal(t, ok, err == nil, "%v: %v", c, err)
				require.Equal(t, want, got, c)

				written := bytes.Clone(ip)
				require.Equal(t, err, icrc.Write(written, c))
				if !ok {
					require.Equal(t, ip, written)
					continue
				}
				_, end := transport(ip)
				require.Equal(t, append(le.AppendUint32(ip[:end:end], want), ip[end+4:]...), written)
				matched := wiretest.Must(icrc.Verify(written))(t)
				require.Equal(t, want, sums[matched])
				require.LessOrEqual(t, matched, c)
			}
			matched, err := icrc.Verify(ip)
			require.Equal(t, sums == nil, err != nil && err != icrc.ErrMismatch)
			if err == nil {
				require.Contains(t, sums, matched)
			}
			require.Equal(t, before, ip)
		})
	})
}

// BenchmarkSum compares the implementations that this CPU supports with hash/crc32 over the same number of octets. The
// ICRC of a CNP covers 56 octets in IPv4 and 76 in IPv6.
func BenchmarkSum(b *testing.B) {
	for _, p := range []struct{ version, n int }{
		{4, 56}, {4, 256}, {4, 1024}, {4, 4096}, {6, 76}, {6, 256}, {6, 1024}, {6, 4096},
	} {
		ip := plain(p.version, p.n)
		covered := ip[:p.n]
		name := fmt.Sprintf("ip=%d/octets=%d/by=", p.version, p.n)
		for i, implementation := range icrc.Implementations() {
			b.Run(name+implementation, func(b *testing.B) {
				defer icrc.Force(i)()
				b.ReportAllocs()
				for b.Loop() {
					icrc.Sum(ip, icrc.AsSent)
				}
			})
		}
		b.Run(name+"crc32", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				crc32.ChecksumIEEE(covered)
			}
		})
	}
}

// BenchmarkVerify verifies a CNP, and a Fast CNP of 100 octets with a Destination Options header, with each coverage.
func BenchmarkVerify(b *testing.B) {
	for _, p := range packets(b) {
		if p.name != "IPv6 CNP" && p.name != "IPv6 Destination Options, a Fast CNP's" {
			continue
		}
		for c := icrc.AsSent; c <= icrc.Skipped; c++ {
			icrc.Write(p.ip, c)
			b.Run(fmt.Sprintf("octets=%d/carries=%v", len(p.ip)-4, c), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					icrc.Verify(p.ip)
				}
			})
		}
	}
}

func BenchmarkWrite(b *testing.B) {
	ip := plain(6, 76)
	b.ReportAllocs()
	for b.Loop() {
		icrc.Write(ip, icrc.AsSent)
	}
}
