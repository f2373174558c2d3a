package repo

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
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

// A figuresBlock has the figures of one part of the repository.
type figuresBlock struct {
	name              string
	words, what       int // words of comments or of Markdown, and those that are "what" or "whatever"
	whether           int // matches of saysWhether
	functions, single int // unexported functions outside tests, and those with a one-word name
	bare              int // functions with a name of bareNames, exported ones and those of tests among them
}

// blockNames are the blocks in the order of the table. The libraries are everything in the root module that is not a
// program or a test.
var blockNames = []string{"libraries", "cmd", "laboratory", "tools and examples", "tests", "Markdown"}

// blockName returns the block of a Go file.
func blockName(file string) string {
	first, _, _ := strings.Cut(file, "/")
	switch {
	case strings.HasSuffix(file, "_test.go"):
		return "tests"
	case filepath.Ext(file) == ".md":
		return "Markdown"
	case first == "cmd":
		return "cmd"
	case first == "lab":
		return "laboratory"
	case first == "tools" || first == "examples":
		return "tools and examples"
	}
	return "libraries"
}

var (
	anyWord       = regexp.MustCompile(`[A-Za-z][A-Za-z'’-]*`)
	whatWord      = regexp.MustCompile(`(?i)\bwhat(ever|soever)?\b`)
	saysWhether   = regexp.MustCompile(`(?i)\b(says?|said|tells?|told)\s+(//\s*)?whether\b`)
	singleWord    = regexp.MustCompile(`^[a-z0-9]+$`)
	exemptedNames = []string{"main", "init"}
)

// addText counts the words of a text, with those in code font and quotations.
func (b *figuresBlock) addText(text string) {
	b.words += len(anyWord.FindAllString(text, -1))
	b.what += len(whatWord.FindAllString(text, -1))
	b.whether += len(saysWhether.FindAllString(text, -1))
}

// addFunction counts the name of a function or method.
func (b *figuresBlock) addFunction(name string) {
	if slices.Contains(bareNames, strings.ToLower(name)) {
		b.bare++
	}
	if b.name == "tests" || ast.IsExported(name) || slices.Contains(exemptedNames, name) {
		return
	}
	b.functions++
	if singleWord.MatchString(name) {
		b.single++
	}
}

// perThousand returns the number of "what" in 1,000 words.
func (b *figuresBlock) perThousand() float64 {
	return 1000 * float64(b.what) / float64(max(1, b.words))
}

// singlePercent returns the share of unexported functions with a one-word name.
func (b *figuresBlock) singlePercent() float64 {
	return 100 * float64(b.single) / float64(max(1, b.functions))
}

// countFigures returns the figures of the whole repository, in the order of blockNames.
func countFigures(t *testing.T) []*figuresBlock {
	blocks := make([]*figuresBlock, len(blockNames))
	for i, name := range blockNames {
		blocks[i] = &figuresBlock{name: name}
	}
	block := func(file string) *figuresBlock { return blocks[slices.Index(blockNames, blockName(file))] }
	for file, f := range parseGo(t) {
		b := block(file)
		for _, group := range f.syntax.Comments {
			for _, c := range group.List {
				b.addText(c.Text)
			}
		}
		for _, d := range f.syntax.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				b.addFunction(fn.Name.Name)
			}
		}
	}
	walkSources(t, func(file string, text []byte) {
		if filepath.Ext(file) == ".md" {
			block(file).addText(string(text))
		}
	})
	return blocks
}

// TestEnglishFigures counts riddle words and one-word functions in every block of the repository, over all comments and
// Markdown with code font and quotations, and limits them. With -v it prints the table.
func TestEnglishFigures(t *testing.T) {
	wiretest.Once(t)
	var table strings.Builder
	fmt.Fprintf(&table, "%-20s %9s %15s %13s %20s %10s\n",
		"block", "words", "what per 1,000", "says whether", "one-word functions", "bare names")
	blocks := countFigures(t)
	for _, b := range blocks {
		fmt.Fprintf(&table, "%-20s %9d %15.2f %13d %7d of %d (%.0f%%) %9d\n", b.name, b.words, b.perThousand(),
			b.whether,
			b.single, b.functions, b.singlePercent(), b.bare)
	}
	t.Log("\n" + table.String())
	for _, b := range blocks {
		require.NotZero(t, b.words, b.name)
		require.LessOrEqual(t, b.perThousand(), 1.0, "%s: what", b.name)
		require.LessOrEqual(t, b.singlePercent(), 40.0, "%s: one-word functions", b.name)
		require.Zero(t, b.whether, "%s: says whether", b.name)
		require.Zero(t, b.bare, "%s: bare names", b.name)
	}
}

func TestFiguresOfTexts(t *testing.T) {
	for _, test := range []struct {
		name          string
		text          string
		words         int
		what, whether int
	}{
		{"plain", "// Read reports whether the packet is complete.", 7, 0, 0},
		{"clause", "// what the kernel dropped, and whatever it kept", 8, 2, 0},
		{"says whether", "// open says whether it is open", 6, 0, 1},
		{"over two lines", "// open tells\n// whether it is open", 6, 0, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			var b figuresBlock
			b.addText(test.text)
			require.Equal(t, figuresBlock{words: test.words, what: test.what, whether: test.whether}, b)
		})
	}
}

func TestFiguresOfFunctions(t *testing.T) {
	for _, test := range []struct {
		name, block, function   string
		functions, single, bare int
	}{
		{"verb and object", "cmd", "lookUpFlow", 1, 0, 0},
		{"one word", "cmd", "insert", 1, 1, 0},
		{"bare", "cmd", "look", 1, 1, 1},
		{"exported bare", "cmd", "Say", 0, 0, 1},
		{"main", "cmd", "main", 0, 0, 0},
		{"of a test", "tests", "insert", 0, 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := figuresBlock{name: test.block}
			b.addFunction(test.function)
			require.Equal(t, figuresBlock{name: test.block, functions: test.functions, single: test.single,
				bare: test.bare}, b)
		})
	}
}
