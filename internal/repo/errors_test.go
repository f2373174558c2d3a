package repo

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn"
	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
)

// Each error of the codecs is unique and names its package and a field.
func TestErrors(t *testing.T) {
	seen := make(map[string]string)
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && path != "." && isModule(path) {
			return fs.SkipDir
		}
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
			strings.HasPrefix(path, "internal") {
			return err
		}
		file := wiretest.Must(parser.ParseFile(token.NewFileSet(), path, nil, 0))(t)
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || !isNew(call) {
				return true
			}
			pkg, field, reason := text(call.Args[0]), text(call.Args[1]), text(call.Args[2])
			if field == "" || reason == "" { // made of parts
				return true
			}
			require.Equal(t, file.Name.Name, pkg, path)
			whole := pkg + field + reason
			require.Empty(t, seen[whole], "%s: %q stands twice", path, whole)
			seen[whole] = path
			return true
		})
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, len(seen), 100)
}

// isNew reports whether a call is one of wireerr.New.
func isNew(call *ast.CallExpr) bool {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || f.Sel.Name != "New" {
		return false
	}
	x, ok := f.X.(*ast.Ident)
	return ok && x.Name == "wireerr"
}

// text returns the string that an expression is, the empty one for anything but
// a literal.
func text(e ast.Expr) string {
	if literal, ok := e.(*ast.BasicLit); ok {
		s, _ := strconv.Unquote(literal.Value)
		return s
	}
	return ""
}

func TestRoots(t *testing.T) {
	var header bth.Header
	_, truncated := header.Decode(nil)
	header.TVer = 1
	_, wide := (&bth.Header{DestQP: 1 << 24}).AppendBinary(nil)
	_, mismatch := icrc.Verify(append([]byte{0x45, 0, 0, 44, 9: 17, 24: 0, 25: 24}, make([]byte, 18)...))
	var p rocev2.Packet
	for _, c := range []struct{ err, root error }{
		{truncated, rocecn.ErrTruncated},
		{wide, rocecn.ErrRange},
		{header.Validate(), rocecn.ErrMalformed},
		{mismatch, rocecn.ErrICRC},
		{rocev2.ErrPort, rocecn.ErrOther},
	} {
		t.Run(fmt.Sprint(c.err), func(t *testing.T) {
			for _, other := range []error{rocecn.ErrTruncated, rocecn.ErrRange, rocecn.ErrMalformed, rocecn.ErrICRC,
				rocecn.ErrOther} {
				require.Equal(t, other == c.root, errors.Is(c.err, other), "%v: %v", c.err, other)
			}
			var e *rocecn.Error
			require.ErrorAs(t, c.err, &e)
			require.NotEmpty(t, e.Package)
		})
	}
	var e *rocecn.Error
	require.ErrorAs(t, p.DecodeIP([]byte{0x60}), &e)
	require.Equal(t, rocecn.Error{Package: "rocev2", Field: "IPv6 header"},
		rocecn.Error{Package: e.Package, Field: e.Field})
}

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
