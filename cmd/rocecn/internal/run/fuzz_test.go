package run

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
	"github.com/rocecn/rocecn/cmd/rocecn/internal/config"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// Any input is an error with a position, or a file that stays the same when it is written again as TOML or JSON. A
// valid file can be applied to its roles.
func FuzzFile(f *testing.F) {
	f.Add([]byte(reference))
	f.Add([]byte(strings.ReplaceAll(reference, "\n# ", "\n")))
	f.Add([]byte(readConfig("fuzz")))
	f.Add([]byte(`{"source": {"a": {"type": "capture", "file": "x"}}, "sink": {},
		"agent": {"http": ":1", "pprof": true},
		"role": {"border": {"enabled": true, "sources": ["a"], "cnp": true, "option_types": ["0x9e", 159]}}}`))
	f.Fuzz(func(t *testing.T, octets []byte) {
		value := valueOf(octets)
		if large(value, "") {
			return // configured table sizes would take the memory
		}
		var file *file
		var err error
		allocated := wiretest.Allocated(func() { file, err = parseFile(octets) })
		require.Less(t, allocated, uint64(64<<20*(1+bytes.Count(octets, []byte("enabled")))))
		if err != nil {
			var wrong *config.Error
			require.ErrorAs(t, err, &wrong)
			require.NotEmpty(t, wrong.Text)
			nameless := bytes.Contains(octets, []byte(`""`)) || bytes.Contains(octets, []byte(`''`)) // as a key can be
			require.True(t, wrong.Key != "" || wrong.Line > 0 || nameless, "where? %v", err)
			return
		}
		file.listWarnings()
		file.formatSummary()
		asJSON := wiretest.Must(json.Marshal(value))(t)
		again, err := parseFile(asJSON)
		require.NoError(t, err, "%s", asJSON)
		requireSame(t, file, again)
		asTOML := wiretest.Must(toml.Marshal(value))(t)
		again, err = parseFile(asTOML)
		require.NoError(t, err, "%s", asTOML)
		requireSame(t, file, again)
	})
}

// valueOf returns the value of a TOML or JSON text, parsed by other packages than config, or nil.
func valueOf(octets []byte) (value map[string]any) {
	octets = bytes.TrimPrefix(octets, []byte("\uFEFF"))
	if bytes.HasPrefix(bytes.TrimLeft(octets, " \t\r\n"), []byte("{")) {
		d := json.NewDecoder(bytes.NewReader(octets))
		d.UseNumber()
		if d.Decode(&value) != nil {
			return nil
		}
		return ofTOML(value).(map[string]any)
	}
	if toml.Unmarshal(octets, &value) != nil {
		return nil
	}
	return value
}

// ofTOML returns a TOML value with the number types of JSON.
func ofTOML(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for k := range v {
			v[k] = ofTOML(v[k])
		}
	case []any:
		for i := range v {
			v[i] = ofTOML(v[i])
		}
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		if n, err := v.Float64(); err == nil {
			return n
		}
	}
	return value
}

// large reports whether a value configures tables of more than a hundred thousand entries.
func large(value any, key string) bool {
	switch v := value.(type) {
	case map[string]any:
		for k := range v {
			if large(v[k], k) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, func(v any) bool { return large(v, key) })
	case int64:
		return strings.HasPrefix(key, "max_") && v > 100_000
	}
	return false
}

// requireSame fails the test unless two files are equal.
func requireSame(t *testing.T, a, b *file) {
	require.Equal(t, a.agent, b.agent)
	require.ElementsMatch(t, slices.Collect(maps.Keys(a.sources)), slices.Collect(maps.Keys(b.sources)))
	for name, s := range a.sources {
		require.Equal(t, s.sourceCommon, b.sources[name].sourceCommon)
		require.Equal(t, s.source, b.sources[name].source)
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(a.sinks)), slices.Collect(maps.Keys(b.sinks)))
	for name, s := range a.sinks {
		require.Equal(t, s.configKey(), b.sinks[name].configKey())
	}
	require.Len(t, b.roles, len(a.roles))
	for _, r := range a.roles {
		var same []string
		for _, other := range b.roles {
			if r.Name == other.Name {
				same = append(same, other.Name)
				require.Equal(t, r.Agent, other.Agent)
				require.Equal(t, r.Config, other.Config)
			}
		}
		require.Len(t, same, 1)
	}
}
