package icrc_test

import (
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/rocecn/rocecn/icrc"
	"github.com/stretchr/testify/require"
)

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
