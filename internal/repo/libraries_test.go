package repo

import (
	"errors"
	"go/build"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// libraries returns the folders of the packages for others, in order: neither
// programs nor packages of tests alone.
func libraries(t *testing.T) (dirs []string) {
	t.Helper()
	ours := []string{"cmd", "examples", "internal", "testdata", "tools"}
	require.NoError(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || !d.IsDir() || path == ".":
			return err
		case slices.Contains(ours, d.Name()), d.Name()[0] == '.', isFile(filepath.Join(path, "go.mod")):
			return fs.SkipDir
		}
		if p := imported(t, path); len(p.GoFiles) > 0 && !p.IsCommand() && !strings.HasSuffix(p.Name, "test") {
			dirs = append(dirs, path)
		}
		return nil
	}))
	return dirs
}

// imported returns the package in a folder for Linux on amd64.
func imported(t *testing.T, dir string) *build.Package {
	t.Helper()
	linux := build.Default
	linux.GOOS, linux.GOARCH = "linux", "amd64"
	p, err := linux.ImportDir(dir, 0)
	if none := (*build.NoGoError)(nil); !errors.As(err, &none) {
		require.NoError(t, err)
	}
	return p
}
