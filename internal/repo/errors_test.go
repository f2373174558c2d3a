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

	"github.com/rocecn/rocecn"
	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/icrc"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
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
