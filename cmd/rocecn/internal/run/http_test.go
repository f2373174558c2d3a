package run

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// Errors of the HTTP server are logged to the current log, also after a reload has changed it.
func TestAnswersLog(t *testing.T) {
	s := prepared(t, "")
	var out bytes.Buffer
	s.log = slog.New(slog.NewTextHandler(&out, nil))
	log := s.newHTTPServer().ErrorLog
	log.Print("http: Accept error")
	require.Contains(t, out.String(), ` level=WARN msg="http: Accept error"`)
	s.log = slog.New(slog.NewJSONHandler(&out, nil))
	log.Print("http: Accept error")
	require.Contains(t, out.String(), `"level":"WARN","msg":"http: Accept error"}`)
}

// The documentation's table of metrics is complete.
func TestMetricsTable(t *testing.T) {
	names := func(text, pattern string) map[string]bool {
		all := map[string]bool{}
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
			all[m[1]] = true
		}
		return all
	}
	page := string(octetsOf(t, filepath.Join(filepath.Dir(wiretest.Path(t)), "docs", "running.md")))
	_, table, found := strings.Cut(page, "| metric | |\n")
	require.True(t, found)
	has := names(string(prepared(t, "").formatMetrics()), `(?m)^# TYPE (\w+) `)
	require.Greater(t, len(has), 20)
	require.Equal(t, has, names(table, "`(rocecn_\\w+)`"))
	require.Len(t, regexp.MustCompile("`rocecn_\\w+`").FindAllString(table, -1), len(has), "each once")
}

// A dry run reports no sent packets in its status.
func TestStatusOfRehearsal(t *testing.T) {
	s := prepared(t, `
[source.in]
type = "psample"
group = 1
[sink.out]
type = "raw"
[role.receiver]
enabled = true
sources = ["in"]
sink = "out"
`+everyRole["receiver"])
	var out bytes.Buffer
	s.log = slog.New(slog.NewTextHandler(&out, nil))
	s.logStatus()
	require.Contains(t, out.String(), " msg=status role=receiver ")
	require.NotContains(t, out.String(), "sink=")
}
