package run

import (
	"bytes"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/config"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/roles"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// The uncommented keys of the reference file have the values of their defaults. Only keys that a source or sink
// requires are examples.
func TestReferenceHasDefaults(t *testing.T) {
	f := wiretest.Must(parseFile([]byte(reference)))(t)
	require.Empty(t, f.roles)

	ten := agentConfig{}
	decisions := ten.decisionLimit()
	ten.Log.Level, ten.Log.Format, ten.Log.Decisions = "info", "text", &decisions
	require.Equal(t, ten, f.agent)
	for name, s := range f.sources {
		least := []byte("type = \"" + s.Type + "\"\n")
		for _, key := range []string{"interfaces", "listen", "group", "file", "levels"} {
			if !slices.Contains(config.Keys(s.source), key) && (key != "levels" || s.Type != "qdisc") {
				continue
			}
			line := regexp.MustCompile(`(?s)\[source\.` + name + `\].*?\n(` + key + ` = [^\n]*)`)
			least = append(least, line.FindStringSubmatch(reference)[1]+"\n"...)
		}
		other, err := parseFile(append([]byte("[source.x]\n"), least...))
		require.NoError(t, err, "%s: %s", name, least)
		require.Equal(t, s.source, other.sources["x"].source)
		require.Nil(t, other.sources["x"].Level)
		require.Equal(t, s.levelThresholds(), other.sources["x"].levelThresholds())
		require.True(t, s.Required == nil || *s.Required)
	}
	for _, s := range f.sinks {
		require.Zero(t, s.PerSecond)
	}
	// Disabled roles: they are equal with and without the keys of the file.
	require.Equal(t, []string{"agent"}, regexp.MustCompile(`\nmode = "(.*?)"`).FindStringSubmatch(reference)[1:])
	require.Equal(t, []string{"report"}, regexp.MustCompile(`\nact = "(.*?)"`).FindStringSubmatch(reference)[1:])
}

// The reference file has all keys, except keys of roles that docs/roles explains, and is valid with its examples.
func TestReferenceHasAllKeys(t *testing.T) {
	has := func(key string) {
		t.Helper()
		require.Regexp(t, `(?m)^(# )?`+key+` = `, reference)
	}
	for _, key := range config.Keys(agentConfig{}) {
		if key != "log" {
			has(key)
		}
	}
	for _, key := range config.Keys(sourceCommon{}) {
		has(key)
	}
	for _, key := range config.Keys(sinkCommon{}) {
		has(key)
	}
	for _, key := range config.Keys(roles.Agent{}) {
		has(key)
	}
	for kind, s := range sources {
		require.Contains(t, reference, `type = "`+kind+`"`)
		for _, key := range config.Keys(s()) {
			has(key)
		}
	}
	for kind, s := range sinks {
		require.Contains(t, reference, `type = "`+kind+`"`)
		for _, key := range config.Keys(s()) {
			has(key)
		}
	}
	for _, name := range roles.Names() {
		require.Contains(t, reference, "\n[role."+name+"]\nenabled = false\n")
	}

	on := regexp.MustCompile(`(?m)^# ([a-z_]+ = )`).ReplaceAllString(reference, "$1")
	on = strings.ReplaceAll(on, "enabled = false", "enabled = true")
	on = strings.Replace(on, `install = "none"`, `install = "nft"`, 1)
	f := wiretest.Must(parseFile([]byte(on)))(t)
	require.Len(t, f.roles, 7)
	require.Empty(t, f.listWarnings())
	require.Contains(t, f.formatSummary(), "\nnot used: source.asic, source.rehearsal, source.rejections, sink.file\n")
	require.Contains(t, f.formatSummary(),
		"AmbientCapabilities=CAP_BPF CAP_NET_ADMIN CAP_NET_BIND_SERVICE CAP_NET_RAW CAP_PERFMON\n")

	var out, stderr bytes.Buffer
	require.Zero(t, Run(t.Context(), []string{"-reference"}, nil, &out, &stderr))
	require.Equal(t, reference, out.String())

	// As written, no role is on, and the file is valid.
	out.Reset()
	require.Zero(t, Check(t.Context(), []string{"-config", written(t, "agent.toml", reference)}, nil, &out, &stderr))
	require.Equal(t, []string{"no role is on\n", ""}, []string{out.String(), stderr.String()})
}

// The configurations on the pages of the roles are valid, without warnings.
func TestDocuments(t *testing.T) {
	docs := filepath.Join(filepath.Dir(wiretest.Path(t)), "docs")
	var blocks [][][]byte
	pages := wiretest.Must(filepath.Glob(filepath.Join(docs, "roles", "*.md")))(t)
	for _, page := range pages {
		blocks = append(blocks, regexp.MustCompile("(?s)```toml\n(.*?)```").FindAllSubmatch(octetsOf(t, page), -1)...)
	}
	require.Len(t, blocks, 11)
	for _, b := range blocks {
		f, err := parseFile(b[1])
		require.NoError(t, err, "%s", b[1])
		require.Len(t, f.roles, 1)
		require.Empty(t, f.listWarnings(), "%s", b[1])
	}
	octets := octetsOf(t, filepath.Join(docs, "running.md"))
	for kind := range sources {
		require.Contains(t, string(octets), "\n| `"+kind+"` |")
	}
	for _, m := range regexp.MustCompile("`(rocecn_[a-z_]+)").FindAllSubmatch(octets, -1) {
		if name := string(m[1]); name != "rocecn_host" {
			border := prepared(t, "[role.border]\nenabled = true\ninstall = \"nft\"")
			require.Contains(t, string(border.formatMetrics()), name)
		}
	}
}
