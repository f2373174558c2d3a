package main

import (
	"bytes"
	"encoding/json"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDescribe(t *testing.T) {
	setting := func(key, value string) debug.BuildSetting { return debug.BuildSetting{Key: key, Value: value} }
	info := func(arch string, deps ...*debug.Module) *debug.BuildInfo {
		return &debug.BuildInfo{GoVersion: "go1.26.8",
			Main: debug.Module{Path: "example.org/m", Version: "v1.0.0"}, Deps: deps,
			Settings: []debug.BuildSetting{setting("GOARCH", arch), setting("vcs.time", "2026-11-23T18:51:31Z")}}
	}
	z := &debug.Module{Path: "example.org/z", Version: "v0.9.0", Sum: "h1:zzz="}
	a := &debug.Module{Path: "example.org/a/v2", Version: "v2.1.0", Sum: "h1:aaa="}
	b, err := describe([]program{{"linux_amd64/m", [32]byte{0xab}, info("amd64", z, a)},
		{"linux_arm64/m", [32]byte{0xcd}, info("arm64", z)}})
	require.NoError(t, err)
	got, err := json.Marshal(b)
	require.NoError(t, err)
	zeros := strings.Repeat("00", 31)
	require.JSONEq(t, `{
		"$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
		"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
		"metadata": {"timestamp": "2026-11-23T18:51:31Z", "component": {"type": "application",
			"bom-ref": "pkg:golang/example.org/m@v1.0.0", "name": "example.org/m", "version": "v1.0.0",
			"purl": "pkg:golang/example.org/m@v1.0.0", "licenses": [{"license": {"id": "Apache-2.0"}}]}},
		"components": [
			{"type": "application", "bom-ref": "linux_amd64/m", "name": "linux_amd64/m", "version": "v1.0.0",
				"hashes": [{"alg": "SHA-256", "content": "ab`+zeros+`"}],
				"properties": [{"name": "go:build:GOARCH", "value": "amd64"},
					{"name": "go:build:vcs.time", "value": "2026-11-23T18:51:31Z"}]},
			{"type": "application", "bom-ref": "linux_arm64/m", "name": "linux_arm64/m", "version": "v1.0.0",
				"hashes": [{"alg": "SHA-256", "content": "cd`+zeros+`"}],
				"properties": [{"name": "go:build:GOARCH", "value": "arm64"},
					{"name": "go:build:vcs.time", "value": "2026-11-23T18:51:31Z"}]},
			{"type": "library", "bom-ref": "pkg:golang/example.org/a/v2@v2.1.0", "name": "example.org/a/v2",
				"version": "v2.1.0", "purl": "pkg:golang/example.org/a/v2@v2.1.0",
				"properties": [{"name": "go:sum", "value": "h1:aaa="}]},
			{"type": "library", "bom-ref": "pkg:golang/example.org/z@v0.9.0", "name": "example.org/z",
				"version": "v0.9.0", "purl": "pkg:golang/example.org/z@v0.9.0",
				"properties": [{"name": "go:sum", "value": "h1:zzz="}]},
			{"type": "library", "bom-ref": "pkg:golang/std@1.26.8", "name": "std", "version": "1.26.8",
				"purl": "pkg:golang/std@1.26.8"}],
		"dependencies": [
			{"ref": "pkg:golang/example.org/m@v1.0.0", "dependsOn": ["linux_amd64/m", "linux_arm64/m"]},
			{"ref": "linux_amd64/m", "dependsOn": ["pkg:golang/example.org/a/v2@v2.1.0",
				"pkg:golang/example.org/z@v0.9.0", "pkg:golang/std@1.26.8"]},
			{"ref": "linux_arm64/m", "dependsOn": ["pkg:golang/example.org/z@v0.9.0", "pkg:golang/std@1.26.8"]}]
	}`, string(got))

	other := info("amd64")
	other.Main.Version = "v1.0.1"
	_, err = describe([]program{{"m", [32]byte{}, info("amd64")}, {"n", [32]byte{}, other}})
	require.EqualError(t, err, "n and m are not of one version")
	z.Replace = &debug.Module{Path: "../z"}
	_, err = describe([]program{{"m", [32]byte{}, info("amd64", z)}})
	require.EqualError(t, err, "m: example.org/z is replaced by ../z")
}

// What Go has written into this test's own program.
func TestRun(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	var first, second bytes.Buffer
	require.NoError(t, run([]string{self}, &first))
	require.NoError(t, run([]string{self}, &second))
	require.Equal(t, first.String(), second.String())
	require.Contains(t, first.String(), `"purl": "pkg:golang/std@`+strings.TrimPrefix(runtime.Version(), "go"))

	require.Error(t, run(nil, &first))
	require.Error(t, run([]string{"main.go"}, &first))
	require.Error(t, run([]string{"missing"}, &first))
}
