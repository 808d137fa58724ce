// Package waits reports waits that may never end: channel operations outside a select that also watches a context, and
// calls to Wait methods that take no context. A comment on the same line or the line above says why a wait is known to
// end:
//
//	wg.Wait() // wait: every worker watches ctx
package waits

import (
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/ast/inspector"
)

// rooms matches the import paths of packages that communicate with other processes and can block on them.
var rooms = regexp.MustCompile(`/(plugins/internal/host|cmd)(/|$)`)

// Analyzer reports waits that may never end.
var Analyzer = &analysis.Analyzer{
	Name:     "waits",
	Doc:      "reports channel operations and Wait calls that no context can end",
	Requires: []*analysis.Analyzer{inspect.Analyzer},
	Run:      run,
}

func run(pass *analysis.Pass) (any, error) {
	if !rooms.MatchString(strings.TrimSuffix(pass.Pkg.Path(), "_test")) {
		return nil, nil
	}
	reasons := reasonLines(pass)
	report := func(n ast.Node, what string) {
		at := pass.Fset.Position(n.Pos())
		if strings.HasSuffix(at.Filename, "_test.go") || reasons[line{at.Filename, at.Line}] ||
			reasons[line{at.Filename, at.Line - 1}] {
			return
		}
		pass.Reportf(n.Pos(), "%s may wait forever: select on a context as well, or say why it ends in a // wait: comment", what)
	}
	in := pass.ResultOf[inspect.Analyzer].(*inspector.Inspector)
	nodes := []ast.Node{
		(*ast.SendStmt)(nil), (*ast.UnaryExpr)(nil), (*ast.RangeStmt)(nil), (*ast.SelectStmt)(nil),
		(*ast.CallExpr)(nil),
	}
	in.WithStack(nodes, func(n ast.Node, push bool, stack []ast.Node) bool {
		if !push {
			return true
		}
		switch n := n.(type) {
		case *ast.SendStmt:
			if !inSelect(stack) {
				report(n, "a send")
			}
		case *ast.UnaryExpr:
			if n.Op == token.ARROW && !inSelect(stack) && !isDone(pass, n.X) {
				report(n, "a receive")
			}
		case *ast.RangeStmt:
			if _, isChan := typeOf(pass, n.X).Underlying().(*types.Chan); isChan {
				report(n, "ranging over a channel")
			}
		case *ast.SelectStmt:
			if !ends(pass, n) {
				report(n, "a select without a context or a default")
			}
		case *ast.CallExpr:
			if f := method(pass, n); f != "" {
				report(n, f)
			}
		}
		return true
	})
	return nil, nil
}

type line struct {
	file string
	n    int
}

func reasonLines(pass *analysis.Pass) map[line]bool {
	out := map[line]bool{}
	for _, f := range pass.Files {
		for _, group := range f.Comments {
			for _, c := range group.List {
				if text, ok := strings.CutPrefix(c.Text, "// wait:"); ok && len(strings.TrimSpace(text)) > 8 {
					at := pass.Fset.Position(c.Pos())
					out[line{at.Filename, at.Line}] = true
				}
			}
		}
	}
	return out
}

// inSelect reports whether the innermost statement enclosing the node is the channel operation of a select case.
func inSelect(stack []ast.Node) bool {
	for i := len(stack) - 2; i > 0; i-- {
		switch up := stack[i].(type) {
		case *ast.CommClause:
			return up.Comm != nil && up.Comm == stack[i+1]
		case *ast.BlockStmt, *ast.FuncLit:
			return false
		}
	}
	return false
}

// ends reports whether a select has a default case, or a case on a context or a timer.
func ends(pass *analysis.Pass, s *ast.SelectStmt) bool {
	for _, c := range s.Body.List {
		clause := c.(*ast.CommClause)
		if clause.Comm == nil {
			return true
		}
		var ch ast.Expr
		switch comm := clause.Comm.(type) {
		case *ast.ExprStmt:
			ch = receives(comm.X)
		case *ast.AssignStmt:
			ch = receives(comm.Rhs[0])
		}
		if ch != nil && (isDone(pass, ch) || isTimer(pass, ch)) {
			return true
		}
	}
	return false
}

func receives(e ast.Expr) ast.Expr {
	if u, ok := ast.Unparen(e).(*ast.UnaryExpr); ok && u.Op == token.ARROW {
		return u.X
	}
	return nil
}

func typeOf(pass *analysis.Pass, e ast.Expr) types.Type {
	if t := pass.TypesInfo.TypeOf(e); t != nil {
		return t
	}
	return types.Typ[types.Invalid]
}

// isDone reports whether e is a call to a context's Done method.
func isDone(pass *analysis.Pass, e ast.Expr) bool {
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	if !ok {
		return false
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	return ok && sel.Sel.Name == "Done" && strings.HasSuffix(typeOf(pass, sel.X).String(), "context.Context")
}

// isTimer reports whether e is a channel of time.Time, such as a timer's, a ticker's or time.After's.
func isTimer(pass *analysis.Pass, e ast.Expr) bool {
	ch, ok := typeOf(pass, e).Underlying().(*types.Chan)
	return ok && ch.Elem().String() == "time.Time"
}

// method returns the name of a called Wait method that takes no context, or an empty string.
func method(pass *analysis.Pass, call *ast.CallExpr) string {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != "Wait" {
		return ""
	}
	f, ok := pass.TypesInfo.ObjectOf(sel.Sel).(*types.Func)
	if !ok || f.Signature().Recv() == nil || f.Signature().Params().Len() > 0 {
		return ""
	}
	return types.TypeString(f.Signature().Recv().Type(), func(p *types.Package) string { return p.Name() }) + ".Wait"
}
