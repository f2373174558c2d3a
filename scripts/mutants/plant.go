package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/printer"
	"go/token"
	"go/types"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// A fault is one change of the code. The first one's id is 1.
type fault struct {
	file string
	line int
	what string
}

func (f fault) String() string { return fmt.Sprintf("%s:%d: %s", f.file, f.line, f.what) }

// A planter plants faults in one file. It changes each node in place.
type planter struct {
	*pkg
	set    *token.FileSet
	info   *types.Info
	source []byte
}

// plant returns the texts of the package's files with all faults in, but for those that
// do not build.
func (p *pkg) plant() map[string][]byte {
	p.faults = nil
	set, info := token.NewFileSet(), &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	var trees []*ast.File
	for _, name := range p.names {
		trees = append(trees, must(parser.ParseFile(set, filepath.Join(p.folder, name), nil, 0)))
	}
	lookup := func(path string) (io.ReadCloser, error) { return os.Open(p.exports[path]) }
	config := types.Config{Importer: importer.ForCompiler(set, "gc", lookup)}
	must(config.Check(p.path, set, trees, info))
	texts := map[string][]byte{}
	for i, tree := range trees {
		f := planter{p, set, info, must(os.ReadFile(filepath.Join(p.folder, p.names[i])))}
		var nodes []ast.Node // outer ones first
		ast.Inspect(tree, func(n ast.Node) bool { nodes = append(nodes, n); return true })
		for _, n := range nodes {
			f.node(n)
		}
		var text bytes.Buffer
		check(printer.Fprint(&text, token.NewFileSet(), tree))
		texts[p.names[i]] = text.Bytes()
	}
	return texts
}

// fault adds a fault in a node. It returns the call of a function that has its id as the
// first argument, nil if the fault does not build.
func (p *planter) fault(n ast.Node, what, function string, args ...ast.Expr) *ast.CallExpr {
	from, to := p.set.Position(n.Pos()), p.set.Position(n.End())
	code := strings.Join(strings.Fields(string(p.source[from.Offset:to.Offset])), " ")
	one := fault{filepath.Base(from.Filename), from.Line, fmt.Sprintf("%s: %.80s", what, code)}
	p.faults = append(p.faults, one)
	if p.broken[len(p.faults)] {
		return nil
	}
	id := &ast.BasicLit{ValuePos: n.Pos(), Kind: token.INT, Value: strconv.Itoa(len(p.faults))}
	return &ast.CallExpr{Fun: &ast.Ident{NamePos: n.Pos(), Name: function}, Args: append([]ast.Expr{id}, args...)}
}

func (p *planter) node(n ast.Node) {
	switch n := n.(type) {
	case *ast.IfStmt:
		if p.more {
			p.condition(&n.Cond)
		}
	case *ast.SwitchStmt:
		p.cases(n)
	case *ast.BlockStmt:
		p.statements(n.List)
	case *ast.CaseClause:
		p.statements(n.Body)
	case *ast.ForStmt:
		p.step(&n.Post)
	case *ast.UnaryExpr:
		if n.Op == token.SUB && p.info.Types[n].Value == nil {
			if call := p.fault(n, "without -", "mutNegative", n.X); call != nil {
				n.X = call
			}
		}
	case *ast.BinaryExpr:
		p.binary(n)
	}
}

// named are the operators with the functions that take their place.
var named = map[token.Token]string{
	token.LSS: "mutLess", token.LEQ: "mutAtMost", token.GTR: "mutAbove", token.GEQ: "mutAtLeast", token.ADD: "mutPlus",
	token.SUB: "mutMinus", token.MUL: "mutTimes", token.QUO: "mutDivided", token.REM: "mutRest",
}

// binary makes a < b mutLess(id, a, b) == true, and a + b mutPlus(id, a, b) + 0.
func (p *planter) binary(n *ast.BinaryExpr) {
	is := p.info.Types[n]
	basic, _ := is.Type.Underlying().(*types.Basic)
	compares := n.Op == token.LSS || n.Op == token.LEQ || n.Op == token.GTR || n.Op == token.GEQ
	switch {
	case is.Value != nil || named[n.Op] == "" && n.Op != token.EQL && n.Op != token.NEQ:
	case n.Op == token.EQL || n.Op == token.NEQ:
		if call := p.fault(n, "negated", "mutOn"); call != nil {
			same := *n
			n.X, n.Op, n.Y = &ast.ParenExpr{Lparen: n.Pos(), X: &same}, token.NEQ, call
		}
	case compares || basic != nil && basic.Info()&types.IsNumeric != 0:
		call := p.fault(n, n.Op.String(), named[n.Op], n.X, n.Y)
		if compares {
			if call == nil {
				p.broken[len(p.faults)+1] = true
			}
			p.fault(n, "negated", "") // by the same function
		}
		switch {
		case call == nil:
		case compares:
			n.X, n.Op, n.Y = call, token.EQL, ast.NewIdent("true")
		default:
			n.X, n.Op, n.Y = call, token.ADD, &ast.BasicLit{Kind: token.INT, Value: "0"}
		}
	}
}

// negate negates a condition if there is a fault.
func negate(e *ast.Expr, fault *ast.CallExpr) {
	if fault != nil {
		*e = &ast.BinaryExpr{X: &ast.ParenExpr{Lparen: (*e).Pos(), X: *e}, OpPos: (*e).Pos(), Op: token.NEQ, Y: fault}
	}
}

// condition negates those parts of a condition that are no comparisons, which are negated anyway.
func (p *planter) condition(e *ast.Expr) {
	switch x := (*e).(type) {
	case *ast.ParenExpr:
		p.condition(&x.X)
	case *ast.BinaryExpr:
		if x.Op == token.LAND || x.Op == token.LOR {
			p.condition(&x.X)
			p.condition(&x.Y)
		}
	default:
		negate(e, p.fault(x, "negated", "mutOn"))
	}
}

// cases negates the cases of a switch. One with a tag becomes one without.
func (p *planter) cases(s *ast.SwitchStmt) {
	var tag ast.Expr
	if s.Tag != nil {
		if s.Init != nil {
			return
		}
		tag = &ast.Ident{NamePos: s.Tag.Pos(), Name: "mutTag"}
		s.Init = &ast.AssignStmt{Lhs: []ast.Expr{tag}, TokPos: s.Tag.Pos(), Tok: token.DEFINE, Rhs: []ast.Expr{s.Tag}}
		s.Tag = nil
	}
	for _, clause := range s.Body.List {
		list := clause.(*ast.CaseClause).List
		for i, e := range list {
			if tag == nil {
				p.condition(&list[i])
				continue
			}
			fault := p.fault(e, "negated", "mutOn")
			list[i] = &ast.BinaryExpr{X: tag, OpPos: e.Pos(), Op: token.EQL, Y: &ast.ParenExpr{Lparen: e.Pos(), X: e}}
			negate(&list[i], fault)
		}
	}
}

// statements drops each statement that stands alone, if more is wanted.
func (p *planter) statements(list []ast.Stmt) {
	for i := range list {
		p.step(&list[i])
		assign, _ := list[i].(*ast.AssignStmt)
		_, call := list[i].(*ast.ExprStmt)
		if p.more && (call || assign != nil && assign.Tok != token.DEFINE) {
			if fault := p.fault(list[i], "dropped", "!mutOn"); fault != nil {
				list[i] = &ast.IfStmt{If: list[i].Pos(), Cond: fault, Body: &ast.BlockStmt{List: list[i : i+1 : i+1]}}
			}
		}
	}
}

// step exchanges ++ and --.
func (p *planter) step(s *ast.Stmt) {
	n, ok := (*s).(*ast.IncDecStmt)
	if !ok {
		return
	}
	if fault := p.fault(n, "++ or --", "mutOn"); fault != nil {
		other := &ast.IncDecStmt{X: n.X, TokPos: n.TokPos, Tok: token.INC + token.DEC - n.Tok}
		choice := &ast.IfStmt{If: n.Pos(), Cond: fault, Body: &ast.BlockStmt{List: []ast.Stmt{other}},
			Else: &ast.BlockStmt{List: []ast.Stmt{n}}}
		closure := &ast.FuncLit{Type: &ast.FuncType{Func: n.Pos(), Params: &ast.FieldList{}},
			Body: &ast.BlockStmt{Lbrace: n.Pos(), List: []ast.Stmt{choice}}}
		*s = &ast.ExprStmt{X: &ast.CallExpr{Fun: closure}}
	}
}
