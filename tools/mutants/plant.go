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

// plant returns the texts of the package's files with all faults in.
func (p *pkg) plant() map[string][]byte {
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
// first argument.
func (p *planter) fault(n ast.Node, what, function string, args ...ast.Expr) *ast.CallExpr {
	from, to := p.set.Position(n.Pos()), p.set.Position(n.End())
	code := strings.Join(strings.Fields(string(p.source[from.Offset:to.Offset])), " ")
	p.faults = append(p.faults, fault{filepath.Base(from.Filename), from.Line, fmt.Sprintf("%s: %.80s", what, code)})
	id := &ast.BasicLit{ValuePos: n.Pos(), Kind: token.INT, Value: strconv.Itoa(len(p.faults))}
	return &ast.CallExpr{Fun: &ast.Ident{NamePos: n.Pos(), Name: function}, Args: append([]ast.Expr{id}, args...)}
}

func (p *planter) node(n ast.Node) {
	switch n := n.(type) {
	case *ast.SwitchStmt:
		p.cases(n)
	case *ast.BlockStmt:
		for i := range n.List {
			p.step(&n.List[i])
		}
	case *ast.CaseClause:
		for i := range n.Body {
			p.step(&n.Body[i])
		}
	case *ast.ForStmt:
		p.step(&n.Post)
	case *ast.UnaryExpr:
		if n.Op == token.SUB && p.info.Types[n].Value == nil {
			n.X = p.fault(n, "without -", "mutNegative", n.X)
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
	shift, _ := n.X.(*ast.BinaryExpr)
	switch {
	case is.Value != nil:
	case n.Op == token.EQL || n.Op == token.NEQ:
		same := *n
		*n = *negated(&same, p.fault(n, "negated", "mutOn"))
	case n.Op == token.LSS || n.Op == token.LEQ || n.Op == token.GTR || n.Op == token.GEQ:
		call := p.fault(n, "boundary", named[n.Op], n.X, n.Y)
		p.fault(n, "negated", "") // by the same function
		n.X, n.Op, n.Y = call, token.EQL, ast.NewIdent("true")
	case shift != nil && shift.Op == token.SHL && p.info.Types[shift.X].Value != nil: // of what type depends on more
	case named[n.Op] != "" && basic != nil && basic.Info()&types.IsNumeric != 0:
		call := p.fault(n, n.Op.String(), named[n.Op], n.X, n.Y)
		n.X, n.Op, n.Y = call, token.ADD, &ast.BasicLit{Kind: token.INT, Value: "0"}
	}
}

// negated is a condition, negated by a fault.
func negated(e ast.Expr, fault *ast.CallExpr) *ast.BinaryExpr {
	return &ast.BinaryExpr{X: &ast.ParenExpr{Lparen: e.Pos(), X: e}, OpPos: e.Pos(), Op: token.NEQ, Y: fault}
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
		*e = negated(x, p.fault(x, "negated", "mutOn"))
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
			is := &ast.BinaryExpr{X: tag, OpPos: e.Pos(), Op: token.EQL, Y: &ast.ParenExpr{Lparen: e.Pos(), X: e}}
			list[i] = negated(is, p.fault(e, "case negated", "mutOn"))
		}
	}
}

// step makes x++ x = mutPlus(id, x, 1).
func (p *planter) step(s *ast.Stmt) {
	if n, ok := (*s).(*ast.IncDecStmt); ok {
		function, one := "mutPlus", &ast.BasicLit{Kind: token.INT, Value: "1"}
		if n.Tok == token.DEC {
			function = "mutMinus"
		}
		*s = &ast.AssignStmt{Lhs: []ast.Expr{n.X}, TokPos: n.TokPos, Tok: token.ASSIGN,
			Rhs: []ast.Expr{p.fault(n, "++ or --", function, n.X, one)}}
	}
}
