package repo

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/fastcnp"
	"github.com/rocecn/rocecn/fcn"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/proxymsg"
)

// The package comment names every package for others.
func TestDocNamesEveryPackage(t *testing.T) {
	text := wiretest.Must(os.ReadFile("doc.go"))(t)
	named := regexp.MustCompile(`[\w/]+`).FindAllString(string(text), -1)
	for _, dir := range libraries(t) {
		require.Contains(t, named, filepath.ToSlash(dir), "in doc.go")
	}
}

// docs/README.md links every page of docs and of the laboratory, and docs/roles.md every page of a role.
func TestDocsAreListed(t *testing.T) {
	for _, c := range []struct{ list, folder string }{
		{"docs/README.md", "docs"},
		{"docs/README.md", "lab/docs"},
		{"docs/roles.md", "docs/roles"},
	} {
		text := wiretest.Must(os.ReadFile(c.list))(t)
		pages := wiretest.Must(filepath.Glob(c.folder + "/*.md"))(t)
		require.NotEmpty(t, pages)
		for _, page := range pages {
			if filepath.ToSlash(page) != c.list {
				link := wiretest.Must(filepath.Rel("docs", page))(t)
				require.Contains(t, string(text), "]("+filepath.ToSlash(link)+")", "in %s", c.list)
			}
		}
	}
}

// No comment in godoc names an unexported error, which other packages cannot compare.
func TestDocNamesNoUnexportedError(t *testing.T) {
	wiretest.Once(t)
	unexported := regexp.MustCompile(`\berr[A-Z]\w*`)
	for _, dir := range append([]string{"."}, libraries(t)...) {
		for where, text := range comments(t, dir) {
			require.Empty(t, unexported.FindString(text), "%s: %s: %s", dir, where, text)
		}
	}
	for _, c := range []struct{ name, want string }{{"It fails with errShort.", "errShort"}, {"[errShort]", "errShort"},
		{"see ErrShort, err, terrShort", ""}} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, unexported.FindString(c.name)) })
	}
}

// Every exported name has a comment, except methods that gopacket requires of layers.
func TestEverythingIsDocumented(t *testing.T) {
	wiretest.Once(t)
	of := regexp.MustCompile(`\.(LayerType|CanDecode)$`)
	for _, dir := range append([]string{"."}, libraries(t)...) {
		for where, text := range comments(t, dir) {
			require.True(t, text != "" || of.MatchString(where), "%s: %s", dir, where)
		}
	}
}

// comments returns the comments of a package in godoc, by the documented name.
func comments(t *testing.T, dir string) map[string]string {
	t.Helper()
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range imported(t, dir).GoFiles {
		f := wiretest.Must(parser.ParseFile(fset, filepath.Join(dir, name), nil, parser.ParseComments))(t)
		files = append(files, f)
	}
	p := wiretest.Must(doc.NewFromFiles(fset, files, "rocecn/"+dir))(t)
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

// README.md has a row with the promise for each public package.
func TestReadmeNamesEveryPackage(t *testing.T) {
	named := promises(t)
	for _, dir := range libraries(t) {
		require.Contains(t, named, filepath.ToSlash(dir), "in the table of README.md")
		delete(named, filepath.ToSlash(dir))
	}
	require.Empty(t, named, "in the table of README.md, and no package for others")
}

// notice is the sentence in the documentation of each package that is not stable.
const notice = "Experimental: this package may change in a minor release."

// The documentation of a package has the notice if, and only if, README.md does not call it stable.
func TestExperimentalPackagesHaveTheNotice(t *testing.T) {
	promised := promises(t)
	for _, dir := range libraries(t) {
		pkg := filepath.ToSlash(dir)
		require.Equal(t, promised[pkg] != "stable", strings.Contains(comments(t, dir)["package"], notice), pkg)
	}
}

// promises returns the last cell of each package's row in README.md. The row node/… counts for all packages below node.
func promises(t *testing.T) map[string]string {
	t.Helper()
	text := wiretest.Must(os.ReadFile("README.md"))(t)
	of := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "| [`") {
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "| "), " | ")
		for _, link := range regexp.MustCompile("\\[`([^`]+)`\\]\\(([^)]+)\\)").FindAllStringSubmatch(cells[0], -1) {
			word := cells[len(cells)-1]
			require.Contains(t, []string{"stable", "experimental", "follows its draft"}, word, line)
			of[link[2]] = word
			if below, ok := strings.CutSuffix(link[1], "/…"); ok {
				for _, dir := range libraries(t) {
					if within(below, filepath.ToSlash(dir)) {
						of[filepath.ToSlash(dir)] = word
					}
				}
			}
		}
	}
	return of
}

// The code in README.md stands in the examples, which are run: all lines of a block, in order.
func TestReadmeCode(t *testing.T) {
	text := wiretest.Must(os.ReadFile("README.md"))(t)
	examples := wiretest.Must(os.ReadFile("example_test.go"))(t)
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	require.NotEmpty(t, blocks)
	unindented := regexp.MustCompile(`(?m)^\t*`)
	for _, block := range blocks {
		require.Contains(t, unindented.ReplaceAllString(string(examples), ""),
			unindented.ReplaceAllString(block[1], ""))
	}
}

// examples/README.md lists every example.
func TestExamplesAreListed(t *testing.T) {
	text := wiretest.Must(os.ReadFile("examples/README.md"))(t)
	dirs := wiretest.Must(filepath.Glob("examples/*/main.go"))(t)
	for _, file := range dirs {
		name := filepath.Base(filepath.Dir(file))
		require.Contains(t, string(text), "[`"+name+"`]("+name+")", "in examples/README.md")
	}
}

// Every link from one page of the repository to another leads to a file, and to a heading or an anchor in it.
func TestLinks(t *testing.T) {
	wiretest.Once(t)
	link := regexp.MustCompile(`\]\(([^()\s]*)\)`)
	all := pages(t)
	of := map[string][]string{}
	for name, page := range all {
		of[name] = anchors(page)
	}
	for name, page := range all {
		for _, to := range link.FindAllStringSubmatch(prose(page), -1) {
			file, anchor, _ := strings.Cut(to[1], "#")
			if strings.Contains(file, ":") { // https:, mailto:
				continue
			}
			target := name
			if file != "" {
				target = filepath.Join(filepath.Dir(name), file)
			}
			require.True(t, isFile(target), "%s: no %s", name, to[1])
			if anchor != "" && filepath.Ext(target) == ".md" {
				require.Contains(t, of[target], anchor, "%s: %s", name, to[1])
			}
		}
	}
	require.Equal(t, []string{"a-heading-rocecn-run", "here"},
		anchors("# A heading: `rocecn run`\n<a id=\"here\"></a>\n```\n# no heading\n```\n"))
}

// pages returns the Markdown files of the repository, by name.
func pages(t *testing.T) map[string]string {
	t.Helper()
	of := map[string]string{}
	require.NoError(t, filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(file) != ".md" {
			return err
		}
		text, err := os.ReadFile(file)
		of[file] = string(text)
		return err
	}))
	return of
}

// prose returns a page without its blocks between ```.
func prose(page string) string { return regexp.MustCompile("(?s)```.*?```").ReplaceAllString(page, "") }

// anchors returns the targets of links into a page: headings, as GitHub writes them, and anchors.
func anchors(page string) (all []string) {
	headings := regexp.MustCompile(`(?m)^#+ (.*)$|<a id="([^"]+)">`)
	for _, h := range headings.FindAllStringSubmatch(prose(page), -1) {
		slug := regexp.MustCompile(`[^\pL\pN _-]`).ReplaceAllString(strings.ToLower(h[1]), "")
		all = append(all, strings.ReplaceAll(slug, " ", "-")+h[2])
	}
	return all
}

// Code and pages name one revision of each draft, except in lines about newer revisions that are not implemented.
// CHANGELOG.md has the earlier ones, too.
func TestOneRevisionOfEachDraft(t *testing.T) {
	wiretest.Once(t)
	of := map[string]string{}
	newer := regexp.MustCompile(`[^|\n]*: not implemented`) // in a cell of a table
	read := func(file, text string) {
		text = newer.ReplaceAllString(text, "")
		for _, m := range regexp.MustCompile(`\b(draft-[a-z0-9-]+)-(\d\d)\b`).FindAllStringSubmatch(text, -1) {
			if was, ok := of[m[1]]; ok {
				require.Equal(t, was, m[2], "%s: revision of %s", file, m[1])
			}
			of[m[1]] = m[2]
		}
	}
	for name, page := range pages(t) {
		if name != "CHANGELOG.md" {
			read(name, page)
		}
	}
	for _, dir := range libraries(t) {
		for where, text := range comments(t, dir) {
			read(dir+": "+where, text)
		}
	}
	vectors := wiretest.Must(filepath.Glob("testdata/vectors/*.json"))(t)
	for _, file := range vectors {
		text := wiretest.Must(os.ReadFile(file))(t)
		read(file, string(text))
	}
	require.Len(t, of, 5)
}

// Pages state the same default numbers as the packages for the numbers that the drafts leave open, and the same default
// ports of listeners.
func TestNumbersToBeAssigned(t *testing.T) {
	fcnPort, proxyPort := fmt.Sprint(fcn.Port), fmt.Sprint(proxymsg.Port)
	types := slices.Compact([]string{fastcnp.Option1Type.String(), fastcnp.Option2Type.String()})
	listens := `(?:listen = \[|ListenUDP\()(.*)`
	for _, c := range []struct {
		file, where string // pattern with a group around the numbers
		numbers     string // pattern of one number
		want        []string
	}{
		{"docs/tool.md", `\| .option_types. \|.*\| (.*) \|`, `0x..`, types},
		{"docs/tool.md", `\| .fcn_port. \|.*\| (.*) \|`, `\d+`, []string{fcnPort}},
		{"docs/tool.md", `\| .proxy_port. \|.*\| (.*) \|`, `\d+`, []string{proxyPort}},
		{"docs/tool.md", `Their (?:experimental )?ports, (.*), are`, `\d+`, []string{fcnPort, proxyPort}},
		{"docs/decisions.md", `## Ports of FCN and of the proxy message\n\n(\d+ and \d+)`, `\d+`,
			[]string{fcnPort, proxyPort}},
		{"docs/decisions.md", `The defaults? for both (?:is|are) (.*?),`, `(?i)0x..`, types},
		{"CONFORMANCE.md", `\| P12 .*proxymsg/build.go(.*)`, `\b\d{3,}\b`, []string{proxyPort}},
		{"CONFORMANCE.md", `\| W30 .*fcn/build.go(.*)`, `\b\d{3,}\b`, []string{fcnPort}},
		{"CONFORMANCE.md", `\| W36 .*fcn/fcn.go(.*)`, `\b\d{3,}\b`, []string{fcnPort}},
		{"cmd/rocecn/internal/run/reference.toml", listens, `\]:(\d+)`, []string{"]:" + proxyPort, "]:" + fcnPort}},
		{"docs/roles/proxy.md", listens, `\]:(\d+)`, []string{"]:" + proxyPort}},
		{"docs/roles/ingress.md", listens, `\]:(\d+)`, []string{"]:" + fcnPort, "]:" + fcnPort}},
		{"docs/roles.md", listens, `:(\d+)`, []string{":" + proxyPort}},
		{"tools/testbed/cases/loop.sh", listens, `\]:(\d+)`, []string{"]:" + proxyPort}},
		{"tools/testbed/cases/vpn.sh", listens, `\]:(\d+)`, []string{"]:" + proxyPort}},
		{"tools/testbed/cases/wan.sh", listens, `\]:(\d+)`, []string{"]:" + fcnPort}},
	} {
		t.Run(c.file, func(t *testing.T) {
			text := wiretest.Must(os.ReadFile(c.file))(t)
			var got []string
			for _, m := range regexp.MustCompile(c.where).FindAllSubmatch(text, -1) {
				got = append(got, regexp.MustCompile(c.numbers).FindAllString(strings.ToLower(string(m[1])), -1)...)
			}
			require.Equal(t, c.want, got, "%s: %s", c.file, c.where)
		})
	}
}

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
	identifier := regexp.MustCompile(`^[A-Z][\w.]*[a-z]\w*$`) // PPFC and CE are no Go
	ofTests := regexp.MustCompile(`^(Test|Fuzz|Benchmark|Example)[A-Z]\w*$`)
	for _, q := range regexp.MustCompile("`([^`\n]+)`").FindAllStringSubmatch(prose(page), -1) {
		name := strings.TrimSuffix(q[1], "()")
		if qualified.MatchString(name) || ofTests.MatchString(name) ||
			isRolePage(file) && identifier.MatchString(name) {
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
	add := func(names ...string) {
		name := strings.Join(names, ".")
		d.names[pkg+"."+name], d.names[name], d.names[names[len(names)-1]] = true, true, true
	}
	for _, decl := range f.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if decl.Recv == nil {
				add(decl.Name.Name)
			} else {
				add(typeName(decl.Recv.List[0].Type), decl.Name.Name)
			}
		case *ast.GenDecl:
			for _, s := range decl.Specs {
				switch s := s.(type) {
				case *ast.ValueSpec:
					for _, name := range s.Names {
						add(name.Name)
					}
				case *ast.TypeSpec:
					add(s.Name.Name)
					d.addMembers(pkg, s, add)
				}
			}
		}
	}
}

// addMembers adds the fields of a struct or the methods of an interface.
func (d *declared) addMembers(pkg string, s *ast.TypeSpec, add func(...string)) {
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
			add(s.Name.Name, name.Name)
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
			add(s.Name.Name, name[strings.IndexByte(name, '.')+1:])
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
