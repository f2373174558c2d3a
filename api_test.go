package rocecn_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update-api", false, "write API.txt anew")

// API.txt has everything that the packages for others export: what a
// change does to users shows in its diff. go test -run TestAPI -update-api . writes
// it.
func TestAPI(t *testing.T) {
	wiretest.Once(t)
	const file = "API.txt"
	var all bytes.Buffer
	for _, dir := range append([]string{"."}, libraries(t)...) {
		fmt.Fprintf(&all, "package %s\n\n%s\n", filepath.ToSlash(dir), exported(t, dir))
	}
	if *update {
		require.NoError(t, os.WriteFile(file, all.Bytes(), 0o644))
	}
	committed, err := os.ReadFile(file)
	require.NoError(t, err)
	if !bytes.Equal(committed, all.Bytes()) { // of which require.Equal would print all
		diff := exec.Command("diff", "-U1", "-F^package ", file, "-")
		diff.Stdin = &all
		difference, err := diff.Output()
		t.Fatalf("%s%v; if this is meant: go test -run TestAPI -update-api .", difference, err)
	}
}

// libraries returns the folders of the packages for others, in order: neither
// programs nor packages of tests alone.
func libraries(t *testing.T) (dirs []string) {
	t.Helper()
	ours := []string{"bench", "cmd", "examples", "internal", "lab", "testdata"}
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

// imported returns what a folder holds for Linux on amd64.
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

// exported returns the exported declarations of a package without comments and
// bodies, in order.
func exported(t *testing.T, dir string) string {
	var decls []string
	for _, name := range imported(t, dir).GoFiles {
		files := token.NewFileSet()
		f, err := parser.ParseFile(files, filepath.Join(dir, name), nil, 0)
		require.NoError(t, err)
		ast.FileExports(f)
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv != nil && !ast.IsExported(receiver(d.Recv.List[0].Type)) {
					continue
				}
				d.Body = nil
			case *ast.GenDecl:
				if d.Tok == token.IMPORT {
					continue
				}
				for _, s := range d.Specs {
					if v, ok := s.(*ast.ValueSpec); ok && d.Tok == token.VAR {
						v.Values = nil
					}
				}
			}
			var b strings.Builder
			require.NoError(t, printer.Fprint(&b, files, d))
			decls = append(decls, b.String())
		}
	}
	slices.Sort(decls)
	return blank.ReplaceAllString(strings.Join(decls, "\n"), "\n") + "\n"
}

// receiver returns the name of the type that a method is of.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	}
	return e.(*ast.Ident).Name
}

// blank is where something stood that is not exported.
var blank = regexp.MustCompile(`\n\s*\n`)
