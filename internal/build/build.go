// Package build says which version of a program runs.
package build

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// An Info describes the build of the program, as recorded by Go.
type Info struct {
	// Version is that of the module: a tag, a pseudo-version, or "(devel)" where Go found neither.
	Version string
	// Revision is the commit of the clone; empty if it was built elsewhere, as by go install of a version.
	Revision string
	// Changed tells that files differed from that commit.
	Changed bool
}

// Read returns how this program was built.
func Read() Info {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return Info{}
	}
	return readInfo(info)
}

func readInfo(info *debug.BuildInfo) Info {
	i := Info{Version: info.Main.Version}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			i.Revision = s.Value
		case "vcs.modified":
			i.Changed = s.Value == "true"
		}
	}
	return i
}

// Commit returns the commit in twelve digits; "unknown" without one.
func (i Info) Commit() string {
	commit := i.Revision[:min(len(i.Revision), 12)]
	switch {
	case commit == "":
		return "unknown"
	case i.Changed:
		commit += "+changed"
	}
	return commit
}

// Line returns the output of a program's version command, such as
// "rocecn v1.0.0, commit 0123456789ab, go1.26.8, linux/amd64".
func (i Info) Line(program string) string {
	version, commit := i.Version, ""
	if version == "" {
		version = "(devel)"
	}
	if i.Revision != "" {
		commit = ", commit " + i.Commit()
	}
	return fmt.Sprintf("%s %s%s, %s, %s/%s\n", program, version, commit,
		runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
