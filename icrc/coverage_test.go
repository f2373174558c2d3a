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

// coverages has packets with options or extension headers, as sent, and the fixed IP headers that replace theirs in the
// other two coverages, which leave options and extension headers out (D1).
var coverages = []struct{ name, header, ext, without, skipped string }{
	{
		name:    "IPv6 Hop-by-Hop",
		header:  `6cabcdef 0030 00 40` + src6 + dst6,
		ext:     `11 00 010400000000`,
		without: `6cabcdef 0028 11 40` + src6 + dst6,
		skipped: `6cabcdef 0030 00 40` + src6 + dst6,
	},
	{
		name:    "IPv6 Destination Options, a Fast CNP's",
		header:  `60000000 0040 3c 40` + src6 + dst6,
		ext:     `11 02 9e10 20010db800040000000000000000000e 01020000`,
		without: `60000000 0028 11 40` + src6 + dst6,
		skipped: `60000000 0040 3c 40` + src6 + dst6,
	},
	{
		name:    "IPv6 Routing type 4, Segments Left 1",
		header:  `60000000 0050 2b 40` + src6 + dst6,
		ext:     `11 04 04 01 01000000 20010db8005500000000000000000001` + dst6,
		without: `60000000 0028 11 40` + src6 + `20010db8005500000000000000000001`,
		skipped: `60000000 0050 2b 40` + src6 + dst6,
	},
	{
		name:    "IPv6 Routing type 4, Segments Left 0",
		header:  `60000000 0040 2b 40` + src6 + dst6,
		ext:     `11 02 04 00 00000000 20010db8005500000000000000000001`,
		without: `60000000 0028 11 40` + src6 + dst6,
		skipped: `60000000 0040 2b 40` + src6 + dst6,
	},
	{
		name:    "IPv6 Routing of another type",
		header:  `60000000 0040 2b 40` + src6 + dst6,
		ext:     `11 02 02 01 00000000 20010db8005500000000000000000001`,
		without: `60000000 0028 11 40` + src6 + dst6,
		skipped: `60000000 0040 2b 40` + src6 + dst6,
	},
	{
		name:   "IPv6 Hop-by-Hop with IOAM, Routing, Destination Options",
		header: `60012345 0068 00 3f` + src6 + dst6,
		ext: `2b 03 0100 3114 0000 007b 1803 800000 00 000000000000000000000000 0104 0000` +
			`3c 02 04 02 01000000 20010db8005500000000000000000001` +
			`11 00 010400000000`,
		without: `60012345 0028 11 3f` + src6 + `20010db8005500000000000000000001`,
		skipped: `60012345 0068 00 3f` + src6 + dst6,
	},
	{
		name:   "IPv6 two Routing headers: the last one's destination",
		header: `60000000 0058 2b 40` + src6 + dst6,
		ext: `2b 02 04 01 00000000 20010db8005500000000000000000001` +
			`11 02 04 01 00000000 20010db8005600000000000000000001`,
		without: `60000000 0028 11 40` + src6 + `20010db8005600000000000000000001`,
		skipped: `60000000 0058 2b 40` + src6 + dst6,
	},
	{
		name:    "IPv4 Router Alert",
		header:  `46c2 0040 718c 4000 40 11 9161` + src4 + dst4,
		ext:     `94040000`,
		without: `45c2 003c 718c 4000 40 11 9161` + src4 + dst4,
		skipped: `46c2 0040 718c 4000 40 11 9161` + src4 + dst4,
	},
	{
		name:    "IPv4 40 octets of options",
		header:  `4f00 0064 0000 4000 ff 11 0000` + src4 + dst4,
		ext:     `072704` + strings.Repeat(`00`, 37),
		without: `4500 003c 0000 4000 ff 11 0000` + src4 + dst4,
		skipped: `4f00 0064 0000 4000 ff 11 0000` + src4 + dst4,
	},
}

func TestCoverages(t *testing.T) {
	eachWay(t, func() {
		udp := wiretest.Hex(t, cnp)
		for _, v := range coverages {
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

// eachWay runs f with each implementation that this CPU supports.
func eachWay(t testing.TB, f func()) {
	for i := range icrc.Ways() {
		func() {
			defer icrc.Force(i)()
			f()
		}()
	}
}

// The implementations are those for the CPU features that Linux lists. Without this test, an implementation that is not
// detected would never be tested.
func TestWays(t *testing.T) {
	ways := icrc.Ways()
	t.Log(ways)
	all := []string{"tables", "folding", "wide folding"}
	if runtime.GOARCH == "arm64" {
		all = []string{"tables", "CRC32 instructions"}
	}
	require.Equal(t, all[:len(ways)], ways)

	features := cpuFeatures()
	if features == nil { // not Linux, or Linux lists the features of another architecture
		return
	}
	want := []string{"tables"}
	for _, needs := range map[string][][]string{
		"amd64": {{"sse4_1", "pclmulqdq"}, {"avx2", "avx512f", "avx512bw", "avx512_vbmi2", "vpclmulqdq"}},
		"arm64": {{"crc32"}},
	}[runtime.GOARCH] {
		if slices.ContainsFunc(needs, func(f string) bool { return !slices.Contains(features, f) }) {
			break
		}
		want = append(want, all[len(want)])
	}
	require.Equal(t, want, ways)
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
