// Package repo has the tests of the repository as a whole: its API, imports, documents, and lengths of lines.
package repo

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestMain runs the tests in the root of the repository, so that they name files from there. The module that a proxy
// serves is only a part of the repository: there is nothing to test.
func TestMain(m *testing.M) {
	if err := os.Chdir(findRoot()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if !isFile("lab/go.mod") && os.Getenv("ROCECN_CI") == "" {
		fmt.Println("skipped: this is the module alone, not a clone of the repository")
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// findRoot returns the path from the current folder up to the first one with a go.mod.
func findRoot() string {
	root := "."
	for i := 0; i < 8 && !isFile(filepath.Join(root, "go.mod")); i++ {
		root = filepath.Join(root, "..")
	}
	return root
}
