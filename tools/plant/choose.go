package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// chooseStatements prints n random statements of the Go files below folders, in the order of their places. Tests,
// generated files, testdata and other modules below a folder are left out.
func chooseStatements(out io.Writer, root string, folders []string, n int, seed uint64) error {
	var places []string
	for _, folder := range folders {
		top := filepath.Join(root, folder)
		err := filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir():
				_, err := os.Stat(filepath.Join(path, "go.mod"))
				if entry.Name() == "testdata" || path != top && err == nil {
					return filepath.SkipDir
				}
				return nil
			case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
				return nil
			}
			found, err := listStatements(root, path)
			places = append(places, found...)
			return err
		})
		if err != nil {
			return err
		}
	}
	if n > len(places) {
		return fmt.Errorf("%d statements wanted, and only %d in %s", n, len(places), strings.Join(folders, ", "))
	}
	random := rand.New(rand.NewPCG(seed, 0))
	chosen := random.Perm(len(places))[:n]
	slices.Sort(chosen)
	for _, i := range chosen {
		fmt.Fprintln(out, places[i])
	}
	return nil
}

// listStatements returns the place, function and first line of each statement in a file, blocks aside.
func listStatements(root, path string) ([]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, text, parser.ParseComments)
	if err != nil || ast.IsGenerated(file) {
		return nil, err
	}
	rel, err := filepath.Rel(root, path)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(string(text), "\n")
	var places []string
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		ast.Inspect(f.Body, func(node ast.Node) bool {
			statement, ok := node.(ast.Stmt)
			if _, block := node.(*ast.BlockStmt); ok && !block {
				line := set.Position(statement.Pos()).Line
				places = append(places, fmt.Sprintf("%s:%d: %s: %s", rel, line, f.Name.Name,
					strings.TrimSpace(lines[line-1])))
			}
			return true
		})
	}
	return places, nil
}
