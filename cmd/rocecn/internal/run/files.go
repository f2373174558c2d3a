package run

import (
	"os"
	"path/filepath"

	"github.com/rocecn/rocecn/cmd/rocecn/internal/config"
)

// checkFiles rejects sinks that would overwrite the configuration with this name, a source or another sink.
func (f *file) checkFiles(name string) error {
	used := []fileLocation{locateFile("this configuration", name)}
	for _, name := range sortedKeys(f.sources) {
		if source, ok := f.sources[name].source.(*captureSource); ok {
			used = append(used, locateFile("source."+name, source.File))
		}
	}
	for _, name := range sortedKeys(f.sinks) {
		sink, ok := f.sinks[name].sink.(*captureSink)
		if !ok {
			continue
		}
		location := locateFile("sink."+name, sink.File)
		for _, other := range used {
			if location.overwrites(other) {
				return f.sinks[name].tree.LocateError(config.Wrong("file", "the file is already used by %s",
					other.owner))
			}
		}
		used = append(used, location)
	}
	return nil
}

// A fileLocation is the location of a file that may not exist yet.
type fileLocation struct {
	owner string      // configuration entry that names the file
	full  string      // absolute name without symbolic links
	info  os.FileInfo // nil if the file does not exist
}

func locateFile(of, name string) fileLocation {
	p := fileLocation{owner: of, full: fullName(name)}
	if info, err := os.Stat(name); err == nil {
		p.info = info
	}
	return p
}

// overwrites reports whether writing to one file would overwrite the other.
func (p fileLocation) overwrites(other fileLocation) bool {
	if p.info != nil && other.info != nil {
		return p.info.Mode().IsRegular() && os.SameFile(p.info, other.info)
	}
	return p.full == other.full
}

// fullName returns the absolute name of a file without symbolic links, also if it does not exist yet.
func fullName(name string) string {
	if full, err := filepath.Abs(name); err == nil {
		name = full
	}
	for range 40 { // limit of Linux
		folder, base := filepath.Split(name)
		if real, err := filepath.EvalSymlinks(folder); err == nil {
			name = filepath.Join(real, base)
		}
		to, err := os.Readlink(name)
		if err != nil {
			break
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(name), to)
		}
		name = to
	}
	return name
}
