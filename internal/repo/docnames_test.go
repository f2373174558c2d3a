package repo

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/stretchr/testify/require"
)

// Go names on pages exist: `package.Name` and its members between backquotes and in blocks of Go, names of tests, and
// on the pages of roles any exported name.
func TestPagesNameWhatExists(t *testing.T) {
	wiretest.Once(t)
	all := goNames(t)
	named := 0
	for file, page := range pages(t) {
		if file == "CHANGELOG.md" { // names removed things
			continue
		}
		for _, name := range namesOn(t, file, page) {
			require.True(t, all.have(name), "%s: %s", file, name)
			named++
		}
	}
	require.Greater(t, named, 200)

	for _, page := range []string{
		"`node.Decisions`", "`node.Decision.Cause`", "`sender.Role.Cfg.Accept`", "`TestNowhere`", "`Receives`",
		"`PPFC.NodeAdress`", "`nodes.Decision`",
		"```go\n_ = node.Decisions{}\n```", "```go\nx := node.Decision{Cause: 1}\n```",
		"```go\nsend(node.Sends)\n```",
	} {
		missing := false
		for _, name := range namesOn(t, roles, page) {
			missing = missing || !all.have(name)
		}
		require.True(t, missing, page)
	}
}

// roles is the page about the API of all roles.
var roles = filepath.Join("docs", "roles.md")

// isRolePage reports whether a page is about the API of roles.
func isRolePage(file string) bool {
	return file == roles || filepath.Dir(file) == strings.TrimSuffix(roles, ".md")
}

// namesOn returns the names of Go on a page.
func namesOn(t *testing.T, file, page string) (names []string) {
	t.Helper()
	qualified := regexp.MustCompile(`^([a-z]\w*)(\.[A-Z]\w*)+$`)
	alone := regexp.MustCompile(`^[A-Z][\w.]*[a-z]\w*$`) // PPFC and CE are no Go
	ofTests := regexp.MustCompile(`^(Test|Fuzz|Benchmark|Example)[A-Z]\w*$`)
	for _, q := range regexp.MustCompile("`([^`\n]+)`").FindAllStringSubmatch(prose(page), -1) {
		name := strings.TrimSuffix(q[1], "()")
		if qualified.MatchString(name) || ofTests.MatchString(name) || isRolePage(file) && alone.MatchString(name) {
			names = append(names, name)
		}
	}
	if file == "README.md" { // TestReadmeCode compares its code with the examples
		return names
	}
	for _, block := range regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(page, -1) {
		names = append(names, namesIn(t, strings.ReplaceAll(block[1], "…", ""))...)
	}
	return names
}

// namesIn returns the qualified names of a block of Go, which is a part of a function or an expression, and the fields
// of the literals in it.
func namesIn(t *testing.T, block string) (names []string) {
	t.Helper()
	var body ast.Node
	if e, err := parser.ParseExpr(strings.TrimSuffix(strings.TrimSpace(block), ",")); err == nil {
		body = e
	} else {
		body, err = parser.ParseFile(token.NewFileSet(), "", "package p\nfunc _() {\n"+block+"}\n", 0)
		require.NoError(t, err, block)
	}
	of := func(e ast.Expr) string { // a type's name, "" if it has none
		if s, ok := e.(*ast.SelectorExpr); ok {
			if p, ok := s.X.(*ast.Ident); ok {
				return p.Name + "." + s.Sel.Name
			}
		}
		return ""
	}
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if name := of(n); name != "" && n.Sel.IsExported() {
				names = append(names, name)
			}
		case *ast.CompositeLit:
			for _, e := range n.Elts {
				field, ok := e.(*ast.KeyValueExpr)
				if key, isName := (*ast.Ident)(nil), false; ok && of(n.Type) != "" {
					if key, isName = field.Key.(*ast.Ident); isName {
						names = append(names, of(n.Type)+"."+key.Name)
					}
				}
			}
		}
		return true
	})
	return names
}

// declared are the names that the packages of the module declare.
type declared struct {
	packages map[string]bool            // by their names
	names    map[string]bool            // "package.Name" and "package.Type.Member", and both without the package
	embeds   map[string]map[string]bool // embedded types by type, both as "package.Type"
}

// have reports whether a name is declared, or qualified by a name from outside the module.
func (d *declared) have(name string) bool {
	first, rest, _ := strings.Cut(name, ".")
	switch {
	case outside[first]:
		return true
	case !ast.IsExported(first):
		return d.packages[first] && d.declares(name)
	case rest != "": // a field, and one of its type
		return d.names[first] && d.names[rest]
	}
	return d.names[name]
}

// outside are the packages and variables that pages and their blocks name beside the module's packages.
var outside = map[string]bool{
	"errors": true, "netip": true, "time": true, "testing": true, "agent": true, "frame": true, "hostPairs": true,
	"p": true, "pe": true, "r": true, "d": true, "out": true, "t": true, "table": true, "order": true, "role": true,
	"traffic": true,
}

func (d *declared) declares(name string) bool {
	if d.names[name] {
		return true
	}
	i := strings.LastIndexByte(name, '.')
	for of := range d.embeds[name[:i]] {
		if d.declares(of + name[i:]) {
			return true
		}
	}
	return false
}

// goNames returns the names that the module's packages and their tests declare.
func goNames(t *testing.T) *declared {
	t.Helper()
	d := &declared{packages: map[string]bool{}, names: map[string]bool{}, embeds: map[string]map[string]bool{}}
	require.NoError(t, filepath.WalkDir(".", func(file string, e fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(file) != ".go" {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err == nil {
			d.add(f)
		}
		return err
	}))
	return d
}

func (d *declared) add(f *ast.File) {
	pkg := strings.TrimSuffix(f.Name.Name, "_test")
	d.packages[pkg] = true
	put := func(names ...string) {
		name := strings.Join(names, ".")
		d.names[pkg+"."+name], d.names[name], d.names[names[len(names)-1]] = true, true, true
	}
	for _, decl := range f.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if decl.Recv == nil {
				put(decl.Name.Name)
			} else {
				put(typeName(decl.Recv.List[0].Type), decl.Name.Name)
			}
		case *ast.GenDecl:
			for _, s := range decl.Specs {
				switch s := s.(type) {
				case *ast.ValueSpec:
					for _, name := range s.Names {
						put(name.Name)
					}
				case *ast.TypeSpec:
					put(s.Name.Name)
					d.addMembers(pkg, s, put)
				}
			}
		}
	}
}

// addMembers adds the fields of a struct or the methods of an interface.
func (d *declared) addMembers(pkg string, s *ast.TypeSpec, put func(...string)) {
	var members *ast.FieldList
	switch typ := s.Type.(type) {
	case *ast.StructType:
		members = typ.Fields
	case *ast.InterfaceType:
		members = typ.Methods
	default:
		return
	}
	for _, m := range members.List {
		for _, name := range m.Names {
			put(s.Name.Name, name.Name)
		}
		if len(m.Names) == 0 {
			name := typeName(m.Type)
			if !strings.Contains(name, ".") {
				name = pkg + "." + name
			}
			of := pkg + "." + s.Name.Name
			if d.embeds[of] == nil {
				d.embeds[of] = map[string]bool{}
			}
			d.embeds[of][name] = true
			put(s.Name.Name, name[strings.IndexByte(name, '.')+1:])
		}
	}
}

// typeName returns the name of a type, of a pointer to one or of a generic one: "Name" or "package.Name".
func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.IndexExpr:
		return typeName(e.X)
	case *ast.IndexListExpr:
		return typeName(e.X)
	case *ast.SelectorExpr:
		return typeName(e.X) + "." + e.Sel.Name
	case *ast.Ident:
		return e.Name
	}
	return "" // a union of an interface
}
