package repo

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// TestNoTableIsAMap reports tests that range over a map of cases. The cases of such a table run in random order, so
// that another one fails first each time. Tables are slices of rows with names.
func TestNoTableIsAMap(t *testing.T) {
	wiretest.Once(t)
	require.NoError(t, filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, name, nil, 0)
		if err != nil {
			return err
		}
		for _, at := range findMapTables(file) {
			t.Errorf("%s: ranges over a map of cases", files.Position(at))
		}
		return nil
	}))
}

// findMapTables returns the positions of loops over map literals that are not empty, given in place or as a variable of
// the same file.
func findMapTables(file *ast.File) (found []token.Pos) {
	ast.Inspect(file, func(n ast.Node) bool {
		if r, ok := n.(*ast.RangeStmt); ok && isMapTable(r.X) {
			found = append(found, r.Pos())
		}
		return true
	})
	return found
}

func isMapTable(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.CompositeLit:
		_, ok := x.Type.(*ast.MapType)
		return ok && len(x.Elts) > 0
	case *ast.Ident:
		if x.Obj == nil {
			return false
		}
		switch d := x.Obj.Decl.(type) {
		case *ast.AssignStmt:
			return len(d.Lhs) == len(d.Rhs) && isMapTable(d.Rhs[indexOf(d.Lhs, x.Name)])
		case *ast.ValueSpec:
			return len(d.Names) == 1 && len(d.Values) == 1 && isMapTable(d.Values[0])
		}
	}
	return false
}

// indexOf returns the index of the variable with this name.
func indexOf(variables []ast.Expr, name string) int {
	for i, v := range variables {
		if id, ok := v.(*ast.Ident); ok && id.Name == name {
			return i
		}
	}
	return 0
}

func TestFindMapTables(t *testing.T) {
	for _, c := range []struct {
		name, body string
		found      int
	}{
		{"literal", `for k := range map[string]int{"a": 1} { _ = k }`, 1},
		{"variable", `m := map[string]int{"a": 1}; for k := range m { _ = k }`, 1},
		{"declared variable", `var m = map[string]int{"a": 1}; for k := range m { _ = k }`, 1},
		{"variable of the file", `for k := range all { _ = k }`, 1},
		{"empty map, filled later", `m := map[string]int{}; for k := range m { _ = k }`, 0},
		{"slice", `for _, v := range []int{1} { _ = v }`, 0},
		{"sorted keys", `m := map[string]int{"a": 1}; for _, k := range slices.Sorted(maps.Keys(m)) { _ = k }`, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			source := "package p\nvar all = map[string]int{\"a\": 1}\nfunc f() { " + c.body + " }"
			file := wiretest.Must(parser.ParseFile(token.NewFileSet(), "p.go", source, 0))(t)
			require.Len(t, findMapTables(file), c.found)
		})
	}
}
