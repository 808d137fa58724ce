package template

import (
	"slices"

	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// expr compiles an expression. The result sets st.pos before anything that may fail.
func (c *compiler) expr(n node, f *frame) expr {
	switch n := n.(type) {
	case *constNode:
		v := n.value
		return func(*state) val { return v }
	case *nameNode:
		return c.name(n, f)
	case *attrNode:
		return c.lookedUp(n, f)
	case *itemNode:
		return c.item(n, f)
	case *callNode:
		return c.callExpr(n, f)
	case *filterNode:
		of, filter := c.expr(n.node, f), c.filter(n, f)
		return func(st *state) val { return filter(st, of(st)) }
	case *testNode, *notNode, *compareNode:
		is := c.condition(n, f)
		return func(st *state) val { return pyvalue.Bool(is(st)) }
	case *condNode:
		return c.conditional(n, f)
	case *logicNode:
		return c.logic(n, f)
	case *binaryNode:
		return c.binary(n, f)
	case *unaryNode:
		return c.unary(n, f)
	case *concatNode:
		return c.concat(n, f)
	case *bodyNode:
		code := c.macro(n.macro, f)
		return func(st *state) val { return pyvalue.OfObject(&macro{code, st.act}) }
	}
	return c.display(n, f)
}

func (c *compiler) name(n *nameNode, f *frame) expr {
	r, ok := f.sym.find(n.name)
	if !ok { // jinja2 doesn't scan the arguments of a block filter either
		f.sym.load(n.name)
		name := n.name
		return func(st *state) val {
			if v := st.resolve(name); !isMissing(v) {
				return v
			}
			return undefinedName(name)
		}
	}
	from, name := f.variable(r), n.name
	return func(st *state) val {
		st.step()
		if v := *from.of(st); !isMissing(v) {
			return v
		}
		return undefinedName(name)
	}
}

// lookedUp compiles a lookup with a constant key.
func (c *compiler) lookedUp(n node, f *frame) expr {
	if p := c.path(n, f); p != nil {
		return func(st *state) val { return *p.ref(st) }
	}
	p := c.ptr(n, f)
	return func(st *state) val { return *p(st) }
}

func (c *compiler) item(n *itemNode, f *frame) expr {
	if _, l := c.lookup(n); l != nil {
		return c.lookedUp(n, f)
	}
	of, at := c.expr(n.node, f), n.at()
	if s, ok := n.index.(*sliceNode); ok {
		start, stop, step := c.optional(s.start, f), c.optional(s.stop, f), c.optional(s.step, f)
		return func(st *state) val {
			v, i, j, k := of(st), start(st), stop(st), step(st)
			st.pos = at
			return st.slice(v, i, j, k)
		}
	}
	index := c.expr(n.index, f)
	return func(st *state) val {
		v, i := of(st), index(st)
		st.pos = at
		st.sees(v, i)
		return st.getitem(v, i)
	}
}

func (c *compiler) optional(n node, f *frame) expr {
	if n == nil {
		return func(*state) val { return pyvalue.None }
	}
	return c.expr(n, f)
}

func (c *compiler) exprs(nodes []node, f *frame) []expr {
	return lists.Map(nodes, func(n node) expr { return c.expr(n, f) })
}

func evaluate(st *state, exprs []expr) []val {
	out := st.values(len(exprs))
	for i, e := range exprs {
		out[i] = e(st)
	}
	return out
}

// display compiles tuples, lists and dicts.
func (c *compiler) display(n node, f *frame) expr {
	switch n := n.(type) {
	case *tupleNode:
		items := c.exprs(n.items, f)
		return func(st *state) val { return st.newTuple(evaluate(st, items)) }
	case *listNode:
		items := c.exprs(n.items, f)
		return func(st *state) val { return st.newList(evaluate(st, items)) }
	case *dictNode:
		items, at := c.exprs(n.items, f), n.at()
		return func(st *state) val {
			st.spend(valueSize * len(items))
			d := &pyvalue.Dict{}
			for i := 0; i < len(items); i += 2 {
				k, v := items[i](st), items[i+1](st)
				st.pos = at
				st.hashes(k)
				check(d.Set(k, v))
			}
			return pyvalue.OfDict(d)
		}
	case *sliceNode:
		return func(*state) val {
			throwAt(n.at(), "TypeError", "unhashable type: 'slice'")
			return missing
		}
	}
	throwAt(n.at(), "TemplateSyntaxError", "unexpected expression")
	return nil
}

func (c *compiler) conditional(n *condNode, f *frame) expr {
	soft := f.softened()
	test, then := c.condition(n.test, soft), c.expr(n.then, soft)
	absent := undefinedHint("the inline if-expression evaluated to false and no else section was defined.")
	otherwise := func(*state) val { return absent }
	if n.otherwise != nil {
		otherwise = c.expr(n.otherwise, soft)
	}
	return func(st *state) val {
		if test(st) {
			return then(st)
		}
		return otherwise(st)
	}
}

func (c *compiler) logic(n *logicNode, f *frame) expr {
	left, right, isOr := c.expr(n.left, f), c.expr(n.right, f), n.op == "or"
	return func(st *state) val {
		if v := left(st); v.Truth() == isOr {
			return v
		}
		return right(st)
	}
}

// comparison compiles comparisons that don't have a faster path.
func (c *compiler) comparison(n *compareNode, f *frame) condition {
	first, at := c.expr(n.first, f), n.at()
	type step struct {
		op string
		e  expr
	}
	steps := lists.Map(n.ops, func(o operand) step { return step{o.op, c.expr(o.node, f)} })
	return func(st *state) bool {
		a := first(st)
		for _, s := range steps {
			b := s.e(st)
			st.pos = at
			if !st.holds(s.op, a, b) {
				return false
			}
			a = b
		}
		return true
	}
}

func (c *compiler) binary(n *binaryNode, f *frame) expr {
	if n.op == "+" {
		return c.sum(n, f)
	}
	left, right, op, at := c.expr(n.left, f), c.expr(n.right, f), n.op, n.at()
	return func(st *state) val {
		a, b := left(st), right(st)
		st.pos = at
		st.step()
		return st.arithmetic(op, a, b)
	}
}

// addends returns the operands of a + b + c + ...
func addends(n node) []node {
	if b, ok := n.(*binaryNode); ok && b.op == "+" {
		return append(addends(b.left), b.right)
	}
	return []node{n}
}

// sum compiles a + b + c + ... as a unit. Templates often join strings this way, and a single pass over all operands
// is faster than building a string for each plus.
func (c *compiler) sum(n *binaryNode, f *frame) expr {
	operands, at := c.exprs(addends(n), f), n.at()
	return func(st *state) val {
		var room [8]val
		vals, plain := st.operands(room[:0], operands)
		st.pos = at
		if !plain {
			return st.fold(vals)
		}
		b := st.borrow()
		for i := range vals {
			st.spend(len(vals[i].Text()))
			b.write(vals[i].Text(), rawProv(vals[i]))
		}
		return st.finish(b)
	}
}

// operands evaluates the operands of a sum, and reports whether all are strings other than Markup.
func (st *state) operands(vals []val, operands []expr) (_ []val, plain bool) {
	plain = true
	for _, e := range operands {
		st.step()
		v := e(st)
		plain = plain && v.Kind() == pyvalue.KindStr && !isMarkup(v)
		vals = append(vals, v)
	}
	return vals, plain
}

// fold adds up the operands of a sum, from left to right.
func (st *state) fold(vals []val) val {
	sum := vals[0]
	for _, v := range vals[1:] {
		sum = st.arithmetic("+", sum, v)
	}
	return sum
}

func (c *compiler) unary(n *unaryNode, f *frame) expr {
	e, op, at := c.expr(n.node, f), n.op, n.at()
	return func(st *state) val {
		v := e(st)
		st.pos = at
		return signed(op, v)
	}
}

func (c *compiler) concat(n *concatNode, f *frame) expr {
	items, at := c.exprs(n.items, f), n.at()
	return func(st *state) val {
		b := st.borrow()
		for _, e := range items {
			v := e(st)
			st.pos = at
			st.appendText(b, v)
		}
		st.spend(b.size())
		return st.finish(b)
	}
}

// arguments compiles the arguments of a call, filter or test.
func (c *compiler) arguments(a *arguments, f *frame) func(st *state) *args {
	for i, name := range a.names {
		if slices.Contains(a.names[:i], name) {
			throwAt(a.values[0].at(), "SyntaxError", "keyword argument repeated: %s", name)
		}
	}
	plain, values := c.exprs(a.plain, f), c.exprs(a.values, f)
	if a.empty() {
		return func(st *state) *args { return &st.none }
	}
	names := a.names
	if a.star == nil {
		return func(st *state) *args { return st.newArgs(evaluate(st, plain), names, evaluate(st, values)) }
	}
	star := c.expr(a.star, f)
	return func(st *state) *args {
		given, more := evaluate(st, plain), st.list(star(st))
		st.spend(valueSize * len(more))
		return st.newArgs(slices.Concat(given, more), names, evaluate(st, values))
	}
}

func (c *compiler) callExpr(n *callNode, f *frame) expr {
	arguments, at := c.arguments(&n.args, f), n.at()
	if attr, ok := n.fn.(*attrNode); ok {
		of, name := c.expr(attr.node, f), pyvalue.Str(attr.name)
		ofText, ofDict := stringMethods[attr.name], dictMethods[attr.name]
		if attr.name[0] == '_' || isChanging(attr.name) {
			ofDict = nil
		}
		return func(st *state) val {
			v := of(st)
			var method method // called directly, without creating a value for it
			switch v.Kind() {
			case pyvalue.KindStr:
				method = ofText
			case pyvalue.KindDict:
				method = ofDict
			}
			if method != nil {
				a := arguments(st)
				st.pos = at
				st.applies(v, a)
				return method(st, v, a)
			}
			st.pos = attr.at()
			fn := st.getattr(v, name)
			a := arguments(st)
			st.pos = at
			return st.callValue(fn, a)
		}
	}
	fn := c.expr(n.fn, f)
	return func(st *state) val {
		v := fn(st)
		a := arguments(st)
		st.pos = at
		return st.callValue(v, a)
	}
}

// filter compiles the application of a filter to a value.
func (c *compiler) filter(n *filterNode, f *frame) func(st *state, v val) val {
	arguments, at, name := c.arguments(&n.args, f), n.at(), n.name
	fn := filters[name]
	if fn == nil {
		if !f.soft {
			refuseUnknown(at, "TemplateAssertionError", "filter", name, "")
		}
		return func(*state, val) val {
			refuseUnknown(at, "TemplateRuntimeError", "filter", name, " found")
			return missing
		}
	}
	if n.args.empty() {
		return func(st *state, v val) val {
			st.pos = at
			st.step()
			st.reads(v)
			return fn(st, v, &st.none)
		}
	}
	return func(st *state, v val) val {
		a := arguments(st)
		st.pos = at
		st.applies(v, a)
		return fn(st, v, a)
	}
}

// filterOf compiles the filters of a block, whose innermost operand is the block's text.
func (c *compiler) filterOf(n *filterNode, f *frame) func(st *state, v val) val {
	outer := c.filter(n, f)
	in, ok := n.node.(*filterNode)
	if !ok {
		return outer
	}
	inner := c.filterOf(in, f)
	return func(st *state, v val) val { return outer(st, inner(st, v)) }
}

func (c *compiler) test(n *testNode, f *frame) func(st *state) bool {
	if is := plainTests[n.name]; is != nil && n.args.empty() {
		p := c.ptr(n.node, f)
		return func(st *state) bool { return is(*p(st)) }
	}
	of, arguments, at, name := c.expr(n.node, f), c.arguments(&n.args, f), n.at(), n.name
	fn := testNamed(name)
	if fn == nil {
		if !f.soft {
			refuseUnknown(at, "TemplateAssertionError", "test", name, "")
		}
		return func(*state) bool {
			refuseUnknown(at, "TemplateRuntimeError", "test", name, " found")
			return false
		}
	}
	return func(st *state) bool {
		v, a := of(st), arguments(st)
		st.pos = at
		st.applies(v, a)
		return fn(st, v, a)
	}
}
