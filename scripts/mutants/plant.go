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
	more         bool
}

type file struct {
	name   string
	source []byte
	edits  []edit
	p      *pkg
	labels map[ast.Node]bool // statements with a label
}

// An edit puts text in before an offset, or in place of some octets from there.
type edit struct {
	at, order, drop int // in the order of their numbers where they are at the same offset
	text            string
	of              *fault // without which it is not made; nil: it always is
}

func load(folder string, more bool) (*pkg, error) {
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
	p := &pkg{name: last[3], folder: last[2], set: token.NewFileSet(), more: more}
	p.info = &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	var trees []*ast.File
	for name := range strings.FieldsSeq(strings.Trim(last[4], "[]")) {
		f := &file{name: name, p: p, labels: map[ast.Node]bool{}}
		if f.source, err = os.ReadFile(filepath.Join(p.folder, name)); err != nil {
			return nil, err
		}
		tree, err := parser.ParseFile(p.set, f.name, f.source, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		p.files, trees = append(p.files, f), append(trees, tree)
	}
	lookup := func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
	config := types.Config{Importer: importer.ForCompiler(p.set, "gc", lookup)}
	if _, err := config.Check(last[0], p.set, trees, p.info); err != nil {
		return nil, err
	}
	for i, f := range p.files {
		ast.Inspect(trees[i], f.plant)
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

// plant plants the faults of a node, and says whether there may be some below.
func (f *file) plant(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GenDecl:
		return n.Tok == token.VAR
	case *ast.ArrayType:
		return false
	case *ast.LabeledStmt:
		f.labels[n.Stmt] = true
	case *ast.SwitchStmt:
		f.cases(n)
	case *ast.IfStmt:
		if f.p.more {
			f.condition(n.Cond)
		}
	case *ast.BlockStmt:
		f.statements(n.List)
	case *ast.CaseClause:
		f.statements(n.Body)
	case *ast.BinaryExpr:
		f.binary(n)
	case *ast.UnaryExpr:
		if n.Op == token.SUB && f.p.info.Types[n].Value == nil {
			one := f.fault(n, "without -")
			f.wrap(one, n, fmt.Sprintf("mutNegative(%d, ", one.id), ")")
		}
	case *ast.IncDecStmt:
		one := f.fault(n, "++ or --")
		of := types.TypeString(f.p.info.Types[n.X].Type, func(p *types.Package) string {
			if p.Name() == f.p.name {
				return ""
			}
			return p.Name()
		})
		f.replace(one, n.TokPos, "++", fmt.Sprintf("%.1s= mutStep[%s](%d)", n.Tok, of, one.id))
	}
	return true
}

// named are the operators, and what the functions are called that take their place.
var named = map[token.Token]string{
	token.LSS: "Less", token.LEQ: "AtMost", token.GTR: "Above", token.GEQ: "AtLeast",
	token.ADD: "Plus", token.SUB: "Minus", token.MUL: "Times", token.QUO: "Divided", token.REM: "Rest",
}

func (f *file) binary(n *ast.BinaryExpr) {
	operands, _ := f.p.info.Types[n.X].Type.Underlying().(*types.Basic)
	switch {
	case f.p.info.Types[n].Value != nil:
		return
	case n.Op == token.EQL || n.Op == token.NEQ:
		f.negate(n, "")
		return
	case named[n.Op] == "" || operands == nil || operands.Info()&types.IsNumeric == 0:
		return
	}
	one := f.fault(n, n.Op.String())
	f.wrap(one, n, fmt.Sprintf("mut%s(%d, ", named[n.Op], one.id), ")")
	f.replace(one, n.OpPos, n.Op.String(), ",")
	if n.Op == token.LSS || n.Op == token.LEQ || n.Op == token.GTR || n.Op == token.GEQ {
		f.fault(n, "negated") // by the same function
	}
}

// negate negates a condition, or with a tag that it has the value of e.
func (f *file) negate(e ast.Expr, tag string) {
	one := f.fault(e, "negated")
	f.wrap(one, e, "((", fmt.Sprintf(") != mutOn(%d))", one.id))
	if tag != "" {
		f.wrap(nil, e, tag+" == (", ")")
	}
}

// condition negates those parts of a condition that are no comparisons, which are negated anyway.
func (f *file) condition(e ast.Expr) {
	switch e := e.(type) {
	case *ast.ParenExpr:
		f.condition(e.X)
	case *ast.BinaryExpr:
		if e.Op == token.LAND || e.Op == token.LOR {
			f.condition(e.X)
			f.condition(e.Y)
		}
	default:
		f.negate(e, "")
	}
}

// cases plants faults in the cases of a switch. One with a tag becomes one without.
func (f *file) cases(s *ast.SwitchStmt) {
	tag := ""
	if s.Tag != nil {
		if f.labels[s] {
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
				f.condition(e)
			} else {
				f.negate(e, tag)
			}
		}
	}
}

// statements drops each statement that stands alone.
func (f *file) statements(list []ast.Stmt) {
	for _, s := range list {
		assign, _ := s.(*ast.AssignStmt)
		_, call := s.(*ast.ExprStmt)
		_, leave := s.(*ast.BranchStmt)
		if f.p.more && (call || leave || assign != nil && assign.Tok != token.DEFINE) {
			one := f.fault(s, "dropped")
			f.wrap(one, s, fmt.Sprintf("if !mutOn(%d) { ", one.id), " }")
		}
	}
}
