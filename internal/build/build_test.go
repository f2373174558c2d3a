package build

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLine(t *testing.T) {
	built := ", " + runtime.Version() + ", " + runtime.GOOS + "/" + runtime.GOARCH + "\n"
	setting := func(key, value string) debug.BuildSetting { return debug.BuildSetting{Key: key, Value: value} }
	const revision = "9aa838e4b422155f300090ec2f1c73773c531a44"
	for _, c := range []struct {
		name         string
		info         debug.BuildInfo
		line, commit string
	}{
		{"a clone at a tag", debug.BuildInfo{Main: debug.Module{Version: "v1.0.0"}, Settings: []debug.BuildSetting{
			setting("vcs.revision", revision), setting("vcs.modified", "false")}},
			"rocecn v1.0.0, commit 9aa838e4b422" + built, "9aa838e4b422"},
		{"changed since", debug.BuildInfo{Main: debug.Module{Version: "v1.0.0+dirty"}, Settings: []debug.BuildSetting{
			setting("vcs.revision", revision), setting("vcs.modified", "true")}},
			"rocecn v1.0.0+dirty, commit 9aa838e4b422+changed" + built, "9aa838e4b422+changed"},
		{"go install of a version", debug.BuildInfo{Main: debug.Module{Version: "v1.0.0"}},
			"rocecn v1.0.0" + built, "unknown"},
		{"without anything", debug.BuildInfo{}, "rocecn (devel)" + built, "unknown"},
	} {
		t.Run(c.name, func(t *testing.T) {
			i := readInfo(&c.info)
			require.Equal(t, c.line, i.Line("rocecn"))
			require.Equal(t, c.commit, i.Commit())
		})
	}
}
