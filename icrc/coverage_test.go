package icrc_test

import (
	"bytes"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wiretest"
)

// cnp is a CNP from the UDP header up to the ICRC.
const cnp = `c00112b700280000 8100ffff400000d200000000 00000000000000000000000000000000`

const (
	src6 = `20010db8000100000000000000000001`
	dst6 = `20010db8000200000000000000000002`
	src4 = `c0000201`
	dst4 = `c0000202`
)

// A covered is a packet with options or extension headers, as sent, and the fixed IP headers that replace its own in
// the other two coverages, which leave options and extension headers out (D1).
type covered struct{ name, header, ext, without, skipped string }

// coverages returns the packets of testdata/coverages.txt.
func coverages(t testing.TB) (all []covered) {
	for _, c := range wiretest.Cases(t, "coverages.txt", "$src6", src6, "$dst6", dst6, "$src4", src4, "$dst4", dst4) {
		all = append(all, covered{c[0], c[1], c[2], c[3], c[4]})
	}
	return all
}

func TestCoverages(t *testing.T) {
	eachImplementation(t, func() {
		udp := wiretest.Hex(t, cnp)
		for _, v := range coverages(t) {
			header, ext := wiretest.Hex(t, v.header), wiretest.Hex(t, v.ext)
			sent := bytes.Join([][]byte{header, ext, udp, {0xA5, 0xA5, 0xA5, 0xA5}}, nil)
			for _, row := range []struct {
				c    icrc.Coverage
				want uint32
			}{
				{icrc.AsSent, reference(masked(header, ext, udp))},
				{icrc.Without, reference(masked(wiretest.Hex(t, v.without), nil, udp))},
				{icrc.Skipped, reference(masked(wiretest.Hex(t, v.skipped), nil, udp))},
			} {
				got, err := icrc.Sum(sent, row.c)
				require.NoError(t, err, "%s, %v", v.name, row.c)
				require.Equal(t, row.want, got, "%s, %v", v.name, row.c)

				ip := bytes.Clone(sent)
				require.NoError(t, icrc.Write(ip, row.c))
				octets := []byte{byte(row.want), byte(row.want >> 8), byte(row.want >> 16), byte(row.want >> 24)}
				require.Equal(t, append(bytes.Clone(sent[:len(sent)-4]), octets...), ip, "%s, %v: Write", v.name, row.c)
				matched, err := icrc.Verify(ip)
				require.NoError(t, err, "%s, %v", v.name, row.c)
				require.Equal(t, row.c, matched, v.name)
			}
			_, err := icrc.Verify(sent)
			require.ErrorIs(t, err, icrc.ErrMismatch, v.name)
		}
	})
}

// Without options and extension headers, the three coverages give the same ICRC.
func TestCoveragesAreOne(t *testing.T) {
	for _, version := range []int{4, 6} {
		ip := plain(version, 100)
		want := wiretest.Must(icrc.Sum(ip, icrc.AsSent))(t)
		for _, c := range []icrc.Coverage{icrc.Without, icrc.Skipped} {
			got := wiretest.Must(icrc.Sum(ip, c))(t)
			require.Equal(t, want, got)
		}
		require.NoError(t, icrc.Write(ip, icrc.Skipped))
		c := wiretest.Must(icrc.Verify(ip))(t)
		require.Equal(t, icrc.AsSent, c)
	}
}

// A type 4 Routing header with Segments Left above 0 and without a segment list: coverage Without is an error, and the
// other coverages have an ICRC.
func TestNoSegmentList(t *testing.T) {
	ip := wiretest.Hex(t, `60000000 0030 2b 40`+src6+dst6+`11 00 04 01 00000000`+cnp+`00000000`)
	_, err := icrc.Sum(ip, icrc.Without)
	require.ErrorIs(t, err, icrc.ErrSegmentList)
	require.ErrorIs(t, icrc.Write(ip, icrc.Without), icrc.ErrSegmentList)
	for _, c := range []icrc.Coverage{icrc.AsSent, icrc.Skipped} {
		require.NoError(t, icrc.Write(ip, c))
		matched := wiretest.Must(icrc.Verify(ip))(t)
		require.Equal(t, c, matched)
	}
}

// eachImplementation runs f with each implementation that this CPU supports.
func eachImplementation(t testing.TB, f func()) {
	for i := range icrc.Implementations() {
		func() {
			defer icrc.Force(i)()
			f()
		}()
	}
}

// The implementations are those for the CPU features that Linux lists. Without this test, an implementation that is not
// detected would never be tested.
func TestImplementations(t *testing.T) {
	implementations := icrc.Implementations()
	t.Log(implementations)
	all := []string{"tables", "folding", "folding of 256 bits", "wide folding"}
	if runtime.GOARCH == "arm64" {
		all = []string{"tables", "CRC32 instructions"}
	}
	require.Equal(t, all[:len(implementations)], implementations)

	features := cpuFeatures()
	if features == nil { // not Linux, or Linux lists the features of another architecture
		return
	}
	want := []string{"tables"}
	for _, needs := range map[string][][]string{
		"amd64": {{"sse4_1", "pclmulqdq"}, {"avx2", "vpclmulqdq"},
			{"avx512f", "avx512bw", "avx512_vbmi2"}},
		"arm64": {{"crc32"}},
	}[runtime.GOARCH] {
		if slices.ContainsFunc(needs, func(f string) bool { return !slices.Contains(features, f) }) {
			break
		}
		want = append(want, all[len(want)])
	}
	require.Equal(t, want, implementations)
}

// cpuFeatures returns the CPU features that Linux lists, or nil if it lists none for this architecture.
func cpuFeatures() []string {
	b, _ := os.ReadFile("/proc/cpuinfo")
	line := map[string]string{"amd64": "flags", "arm64": "Features"}[runtime.GOARCH]
	if found := regexp.MustCompile(`(?m)^` + line + `\s*: (.*)$`).FindSubmatch(b); found != nil && line != "" {
		return strings.Fields(string(found[1]))
	}
	return nil
}
