package rocecn_test

import (
	"errors"
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
	"github.com/stretchr/testify/require"
)

// Every error text of the codecs begins with its package, and none stands
// twice.
func TestErrorTexts(t *testing.T) {
	seen := make(map[string]string)
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "internal") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if f, ok := call.Fun.(*ast.SelectorExpr); !ok || f.Sel.Name != "New" {
				return true
			} else if x, ok := f.X.(*ast.Ident); !ok || x.Name != "wireerr" {
				return true
			}
			text, err := strconv.Unquote(call.Args[0].(*ast.BasicLit).Value)
			require.NoError(t, err)
			require.True(t, strings.HasPrefix(text, file.Name.Name+": "), "%s: %q", path, text)
			require.Empty(t, seen[text], "%s: %q stands twice", path, text)
			seen[text] = path
			return true
		})
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, len(seen), 100)
}

func TestRoots(t *testing.T) {
	for err, root := range map[error]error{
		bth.ErrTruncated:   rocecn.ErrTruncated,
		bth.ErrDestQPRange: rocecn.ErrRange,
		bth.ErrTVer:        rocecn.ErrMalformed,
		icrc.ErrMismatch:   rocecn.ErrICRC,
	} {
		for _, other := range []error{rocecn.ErrTruncated, rocecn.ErrRange, rocecn.ErrMalformed, rocecn.ErrICRC} {
			require.Equal(t, other == root, errors.Is(err, other), "%v: %v", err, other)
		}
	}
}
