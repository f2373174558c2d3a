package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A fault is one change of the code.
type fault struct {
	id     int
	file   string
	line   int
	what   string
	broken bool // it does not build
}

func (f *fault) String() string { return fmt.Sprintf("%s:%d: %s", f.file, f.line, f.what) }

// A pkg is a package with faults planted.
type pkg struct {
	name, folder string
	files        []*file
	faults       []*fault
	set          *token.FileSet
	info         *types.Info
}

type file struct {
	name   string
	source []byte
	tree   *ast.File
	edits  []edit
	p      *pkg
	skip   map[ast.Node]bool // dealt with, or left alone
}

// An edit puts text in before an offset, or in place of some octets from there.
type edit struct {
	at, order, drop int // in the order of their numbers where they are at the same offset
	text            string
	of              *fault // without which it is not made; nil: it always is
}

func load(folder string) (*pkg, error) {
	const format = "{{.ImportPath}}\t{{.Export}}\t{{.Dir}}\t{{.Name}}\t{{.GoFiles}}"
	list, err := exec.Command("go", "list", "-export", "-deps", "-f", format, folder).Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	exports, last := map[string]string{}, []string{}
	for line := range strings.Lines(string(list)) {
		last = strings.Split(strings.TrimSpace(line), "\t")
		exports[last[0]] = last[1]
	}
	p := &pkg{name: last[3], folder: last[2], set: token.NewFileSet()}
	p.info = &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	var trees []*ast.File
	for name := range strings.FieldsSeq(strings.Trim(last[4], "[]")) {
		f := &file{name: name, p: p, skip: map[ast.Node]bool{}}
		if f.source, err = os.ReadFile(filepath.Join(p.folder, name)); err != nil {
			return nil, err
		}
		if f.tree, err = parser.ParseFile(p.set, f.name, f.source, parser.ParseComments); err != nil {
			return nil, err
		}
		p.files, trees = append(p.files, f), append(trees, f.tree)
	}
	lookup := func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
	config := types.Config{Importer: importer.ForCompiler(p.set, "gc", lookup)}
	checked, err := config.Check(last[0], p.set, trees, p.info)
	if err != nil {
		return nil, err
	}
	for _, f := range p.files {
		f.plant(checked)
	}
	return p, nil
}

// text returns the file with the faults that build.
func (f *file) text() string {
	slices.SortStableFunc(f.edits, func(a, b edit) int { return cmp.Or(a.at-b.at, a.order-b.order) })
	var out strings.Builder
	at := 0
	for _, e := range f.edits {
		if e.of == nil || !e.of.broken {
			out.Write(f.source[at:e.at])
			out.WriteString(e.text)
			at = e.at + e.drop
		}
	}
	out.Write(f.source[at:])
	return out.String()
}

func (f *file) offset(p token.Pos) int { return f.p.set.Position(p).Offset }

func (f *file) fault(n ast.Node, what string) *fault {
	code := strings.Join(strings.Fields(string(f.source[f.offset(n.Pos()):f.offset(n.End())])), " ")
	one := &fault{id: len(f.p.faults) + 1, file: f.name, line: f.p.set.Position(n.Pos()).Line}
	one.what = fmt.Sprintf("%s: %.80s", what, code)
	f.p.faults = append(f.p.faults, one)
	return one
}

// wrap puts text around a node. What is around it was wrapped before, and its
// text stands farther out.
func (f *file) wrap(of *fault, n ast.Node, before, after string) {
	order := len(f.edits) + 1
	f.edits = append(f.edits, edit{f.offset(n.Pos()), order, 0, before, of},
		edit{f.offset(n.End()), -order, 0, after, of})
}

func (f *file) replace(of *fault, at token.Pos, old, text string) {
	f.edits = append(f.edits, edit{f.offset(at), 1 << 30, len(old), text, of})
}

func (f *file) plant(own *types.Package) {
	ast.Inspect(f.tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GenDecl:
			return n.Tok == token.VAR
		case *ast.ArrayType:
			return false
		case *ast.IfStmt:
			f.condition(n.Cond, true)
		case *ast.ForStmt:
			f.condition(n.Cond, false) // always true is a loop without an end
		case *ast.LabeledStmt:
			f.skip[n.Stmt] = true
		case *ast.SwitchStmt:
			f.cases(n)
		case *ast.BlockStmt:
			f.statements(n.List)
		case *ast.CaseClause:
			f.statements(n.Body)
		case *ast.KeyValueExpr:
			f.skip[n.Key] = true
		case *ast.CallExpr:
			f.call(n)
		case *ast.BinaryExpr:
			f.binary(n)
		}
		e, ok := n.(ast.Expr)
		return !ok || !f.constant(e, own)
	})
}

// condition plants faults in what decides: in each part that has no && or ||.
func (f *file) condition(e ast.Expr, alsoTrue bool) {
	switch e := e.(type) {
	case nil:
	case *ast.ParenExpr:
		f.condition(e.X, alsoTrue)
	case *ast.UnaryExpr:
		f.condition(e.X, true)
	case *ast.BinaryExpr:
		if e.Op != token.LAND && e.Op != token.LOR {
			f.decide(e, "", alsoTrue)
		} else if !f.skip[e] { // a || b is !(!a && !b)
			f.skip[e] = true
			one := f.fault(e, "&& or ||")
			f.wrap(one, e, "((", fmt.Sprintf(") != mutOn(%d))", one.id))
			for _, part := range [...]ast.Expr{e.X, e.Y} {
				f.wrap(one, part, "(", fmt.Sprintf(") != mutOn(%d)", one.id))
				f.condition(part, alsoTrue)
			}
		}
	default:
		f.decide(e, "", alsoTrue)
	}
}

// decide makes an expression never true and always, or with a tag that it is the
// value of that.
func (f *file) decide(e ast.Expr, tag string, alsoTrue bool) {
	if f.skip[e] || tag == "" && f.p.info.Types[e].Value != nil {
		return
	}
	f.skip[e] = true
	never, always := f.fault(e, "never true"), &fault{}
	if alsoTrue {
		always = f.fault(e, "always true")
	}
	f.wrap(never, e, fmt.Sprintf("mutCond(%d, %d, ", never.id, always.id), ")")
	if tag != "" {
		f.wrap(nil, e, tag+" == (", ")")
	}
}

// cases plants faults in the cases of a switch. One with a tag becomes one
// without.
func (f *file) cases(s *ast.SwitchStmt) {
	tag := ""
	if s.Tag != nil {
		if f.skip[s] {
			return
		}
		tag = fmt.Sprintf("mutTag%d", f.offset(s.Pos()))
		f.wrap(nil, s, "", " }")
		f.replace(nil, s.Switch, "switch", "{ ")
		f.wrap(nil, s.Tag, tag+" := ", "; _ = "+tag+"; switch ")
	}
	for _, clause := range s.Body.List {
		for _, e := range clause.(*ast.CaseClause).List {
			if tag == "" {
				f.condition(e, true)
			} else {
				f.decide(e, tag, true)
			}
		}
	}
}

// statements drops each statement that stands alone.
func (f *file) statements(list []ast.Stmt) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE {
				continue
			}
		case *ast.ExprStmt, *ast.IncDecStmt, *ast.BranchStmt, *ast.DeferStmt:
		default:
			continue
		}
		one := f.fault(s, "dropped")
		f.wrap(one, s, fmt.Sprintf("if !mutOn(%d) { ", one.id), " }")
	}
}

func (f *file) call(n *ast.CallExpr) {
	name, ok := n.Fun.(*ast.Ident)
	if !ok || !f.p.info.Types[name].IsBuiltin() {
		return
	}
	switch name.Name {
	case "make": // how much room there is changes nothing
		for _, arg := range n.Args {
			f.skip[arg] = true
		}
	case "min", "max":
		if f.p.info.Types[n].Value == nil {
			one := f.fault(n, "min or max")
			f.wrap(one, name, "mut_", "")
			f.wrap(one, n.Args[0], fmt.Sprintf("%d, ", one.id), "")
		}
	}
}

var exchanged = map[token.Token]string{
	token.LSS: "Less", token.LEQ: "AtMost", token.GTR: "Above", token.GEQ: "AtLeast",
	token.ADD: "Plus", token.SUB: "Minus", token.MUL: "Times", token.QUO: "By", token.AND: "And", token.OR: "Or",
}

func (f *file) binary(n *ast.BinaryExpr) {
	if f.p.info.Types[n].Value != nil {
		return
	}
	numbers := false
	if b, ok := f.p.info.Types[n.X].Type.Underlying().(*types.Basic); ok {
		numbers = b.Info()&types.IsNumeric != 0
	}
	switch n.Op {
	case token.LAND, token.LOR:
		f.condition(n, true)
		return
	case token.EQL, token.NEQ, token.LSS, token.LEQ, token.GTR, token.GEQ:
		f.decide(n, "", true)
		f.skip[n.X], f.skip[n.Y] = true, true
	}
	if name := exchanged[n.Op]; name != "" && numbers {
		one := f.fault(n, n.Op.String())
		f.wrap(one, n, fmt.Sprintf("mut%s(%d, ", name, one.id), ")")
		f.replace(one, n.OpPos, n.Op.String(), ",")
	}
}

// constant adds 1 to a constant, or turns it round, and says whether e is one.
func (f *file) constant(e ast.Expr, own *types.Package) bool {
	t := f.p.info.Types[e]
	if t.Value == nil {
		return false
	}
	basic, ok := t.Type.Underlying().(*types.Basic)
	if !ok || f.skip[e] || basic.Info()&types.IsUntyped != 0 && basic.Kind() != types.UntypedBool {
		return true
	}
	switch {
	case basic.Info()&types.IsBoolean != 0:
		one := f.fault(e, "turned round")
		f.wrap(one, e, "(", fmt.Sprintf(" != mutOn(%d))", one.id))
	case basic.Info()&types.IsNumeric != 0:
		one := f.fault(e, "plus 1")
		name := types.TypeString(t.Type, func(p *types.Package) string {
			if p == own {
				return ""
			}
			return p.Name()
		})
		f.wrap(one, e, fmt.Sprintf("mutNext[%s](%d, ", name, one.id), ")")
	}
	return true
}
