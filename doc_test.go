package rocecn_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The package comment names every package for others.
func TestDocNamesEveryPackage(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	named := regexp.MustCompile(`[\w/]+`).FindAllString(string(text), -1)
	for _, dir := range libraries(t) {
		require.Contains(t, named, filepath.ToSlash(dir), "in doc.go")
	}
}

// docs/README.md links every page beside it.
func TestDocsAreListed(t *testing.T) {
	text, err := os.ReadFile("docs/README.md")
	require.NoError(t, err)
	pages, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	for _, page := range pages {
		if name := filepath.Base(page); name != "README.md" {
			require.Contains(t, string(text), "]("+name+")", "in docs/README.md")
		}
	}
}

// No comment that godoc shows names an error that is not exported: nobody outside
// could compare with it.
func TestDocNamesNoUnexportedError(t *testing.T) {
	unexported := regexp.MustCompile(`\berr[A-Z]\w*`)
	for _, dir := range append([]string{"."}, libraries(t)...) {
		for where, text := range comments(t, dir) {
			require.Empty(t, unexported.FindString(text), "%s: %s: %s", dir, where, text)
		}
	}
	for text, want := range map[string]string{"It fails with errShort.": "errShort", "[errShort]": "errShort",
		"see ErrShort, err, terrShort": ""} {
		require.Equal(t, want, unexported.FindString(text))
	}
}

// Whatever is exported has a comment. What a layer must say to gopacket needs none.
func TestEverythingIsDocumented(t *testing.T) {
	of := regexp.MustCompile(`\.(LayerType|CanDecode)$`)
	for _, dir := range append([]string{"."}, libraries(t)...) {
		for where, text := range comments(t, dir) {
			require.True(t, text != "" || of.MatchString(where), "%s: %s", dir, where)
		}
	}
}

// comments returns what godoc shows of a package: comments by what they are of.
func comments(t *testing.T, dir string) map[string]string {
	t.Helper()
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range imported(t, dir).GoFiles {
		f, err := parser.ParseFile(fset, filepath.Join(dir, name), nil, parser.ParseComments)
		require.NoError(t, err)
		files = append(files, f)
	}
	p, err := doc.NewFromFiles(fset, files, "rocecn/"+dir)
	require.NoError(t, err)
	all := map[string]string{"package": p.Doc}
	values := func(vs []*doc.Value) {
		for _, v := range vs {
			all[strings.Join(v.Names, ", ")] = v.Doc + fields(v.Decl)
		}
	}
	funcs := func(of string, fs []*doc.Func) {
		for _, f := range fs {
			all[of+f.Name] = f.Doc
		}
	}
	values(slices.Concat(p.Consts, p.Vars))
	funcs("", p.Funcs)
	for _, typ := range p.Types {
		all[typ.Name] = typ.Doc + fields(typ.Decl)
		values(slices.Concat(typ.Consts, typ.Vars))
		funcs("", typ.Funcs)
		funcs(typ.Name+".", typ.Methods)
	}
	return all
}

// fields returns the comments on exported fields, constants and variables.
func fields(d *ast.GenDecl) (text string) {
	ast.Inspect(d, func(n ast.Node) bool {
		var names []*ast.Ident
		var groups []*ast.CommentGroup
		switch n := n.(type) {
		case *ast.Field:
			names, groups = n.Names, []*ast.CommentGroup{n.Doc, n.Comment}
		case *ast.ValueSpec:
			names, groups = n.Names, []*ast.CommentGroup{n.Doc, n.Comment}
		}
		if len(names) > 0 && !slices.ContainsFunc(names, (*ast.Ident).IsExported) {
			return false
		}
		for _, g := range groups {
			text += g.Text()
		}
		return true
	})
	return text
}
