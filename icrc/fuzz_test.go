package icrc_test

import (
	"bytes"
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
