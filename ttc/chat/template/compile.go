package template

import (
	"slices"
	"strings"

	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// A template is compiled into closures. An expression becomes a function that returns a value, and a statement
// becomes a function that writes to the output. Names are resolved to slots at compile time.

type (
	expr func(st *state) val
	stmt func(st *state) flow
)

// flow records whether a statement ended normally, with break or with continue.
type flow uint8

const (
	flowOn flow = iota
	flowBreak
	flowContinue
)

// activation holds the variables of one call of a function.
type activation struct {
	slots  []val
	parent *activation
}

// frame is the compiler's context within the template.
type frame struct {
	sym    *symbols
	fn     *funcScope
	inLoop bool // break and continue are allowed
	soft   bool // inside an if, where an unknown filter or test is an error only when executed
}

func (f *frame) inner() *frame {
	return &frame{sym: newSymbols(f.sym, f.fn), fn: f.fn, inLoop: f.inLoop}
}

// function returns a new frame for a function nested in f.
func (f *frame) function() *frame {
	fn := &funcScope{parent: f.fn, slots: map[string]int{}}
	return &frame{sym: newSymbols(f.sym, fn), fn: fn}
}

func (f *frame) softened() *frame {
	c := *f
	c.soft = true
	return &c
}

// variable locates a slot relative to a function: hops is the number of enclosing functions to go up, and slot is
// the index there.
type variable struct{ hops, slot int }

func (f *frame) variable(r ref) variable {
	v := variable{slot: r.fn.slot(r.ident)}
	for fn := f.fn; fn != r.fn; fn = fn.parent {
		v.hops++
	}
	return v
}

func (v variable) of(st *state) *val { return &v.activation(st).slots[v.slot] }

func (v variable) activation(st *state) *activation {
	a := st.act
	for range v.hops {
		a = a.parent
	}
	return a
}

type compiler struct {
	from []string // names of the variables the template reads
}

// given returns the index in state.given of a variable passed to the template.
func (c *compiler) given(name string) int {
	i := slices.Index(c.from, name)
	if i < 0 {
		i = len(c.from)
		c.from = append(c.from, name)
	}
	return i
}

// root compiles a whole template.
func (c *compiler) root(body []node) (stmt, *funcScope) {
	f := (&frame{}).function()
	f.sym.scan(body...)
	enter := c.enter(f)
	k := &fork{prompt: -1}
	at := k.find(body)
	if at < 0 {
		run := c.body(body, f)
		return func(st *state) flow {
			enter(st)
			st.heads = nil // heads of this template can't be rendered
			return run(st)
		}, f.fn
	}
	before, loop := c.body(body[:at], f), c.loop(body[at].(*forNode), f, k)
	k.after = c.body(body[at+1:], f)
	if r, ok := f.sym.refs["add_generation_prompt"]; ok {
		k.prompt = f.variable(r).slot
	}
	k.given = slices.Index(c.from, "add_generation_prompt")
	return func(st *state) flow {
		enter(st)
		before(st)
		loop(st)
		return k.after(st)
	}, f.fn
}

// enter compiles the code that runs on entry to a frame and gives every variable its initial value.
func (c *compiler) enter(f *frame) func(st *state) {
	type first struct {
		to    variable
		kind  loadKind
		given int
		from  variable
	}
	var loads []first
	for _, r := range f.sym.order {
		l := f.sym.loads[r]
		if l.kind == loadParameter {
			f.variable(r) // assigns a slot
			continue
		}
		x := first{to: f.variable(r), kind: l.kind}
		switch l.kind {
		case loadAlias:
			x.from = f.variable(l.from)
		case loadResolve:
			x.given = c.given(l.name)
		}
		loads = append(loads, x)
	}
	return func(st *state) {
		for i := range loads {
			l := &loads[i]
			switch l.kind {
			case loadResolve:
				*l.to.of(st) = st.given[l.given]
			case loadAlias:
				*l.to.of(st) = *l.from.of(st)
			case loadUndefined:
				*l.to.of(st) = missing
			}
		}
	}
}

func (c *compiler) body(nodes []node, f *frame) stmt {
	return sequence(lists.Map(nodes, func(n node) stmt { return c.statement(n, f) }))
}

// sequence runs statements until one of them ends with break or continue.
func sequence(steps []stmt) stmt {
	switch len(steps) {
	case 0:
		return func(*state) flow { return flowOn }
	case 1:
		return steps[0]
	}
	return func(st *state) flow {
		for _, s := range steps {
			if fl := s(st); fl != flowOn {
				return fl
			}
		}
		return flowOn
	}
}

func (c *compiler) statement(n node, f *frame) stmt {
	switch n := n.(type) {
	case *outputNode:
		return c.output(n, f)
	case *ifNode:
		return c.ifStatement(n, f)
	case *forNode:
		return c.forStatement(n, f)
	case *setNode:
		return c.set(n, f)
	case *setBlockNode:
		return c.setBlock(n, f)
	case *macroNode:
		return c.macroStatement(n, f)
	case *bodyNode:
		return c.generation(n, f)
	case *filterBlockNode:
		return c.filterBlock(n, f)
	case *breakNode:
		return c.jump(n.pos, f, flowBreak, "'break' outside loop")
	case *continueNode:
		return c.jump(n.pos, f, flowContinue, "'continue' not properly in loop")
	}
	throwAt(n.at(), "TemplateSyntaxError", "unexpected statement")
	return nil
}

func (c *compiler) jump(p pos, f *frame, fl flow, otherwise string) stmt {
	if !f.inLoop {
		throwAt(p.at(), "SyntaxError", "%s", otherwise)
	}
	return func(*state) flow { return fl }
}

func (c *compiler) output(n *outputNode, f *frame) stmt {
	var steps []stmt
	for i := 0; i < len(n.items); {
		text, more := c.constantTexts(n.items[i:])
		if more == 0 {
			steps = append(steps, c.print(n.items[i], f))
			i++
			continue
		}
		at := n.items[i].at()
		steps = append(steps, func(st *state) flow {
			st.pos = at
			st.write(text, nil)
			return flowOn
		})
		i += more
	}
	return sequence(steps)
}

// constantTexts joins the constant strings at the start of items, and returns the result and the number of items
// joined.
func (c *compiler) constantTexts(items []node) (string, int) {
	var text strings.Builder
	for i, item := range items {
		k, ok := item.(*constNode)
		if !ok || k.value.Kind() != pyvalue.KindStr {
			return text.String(), i
		}
		text.WriteString(k.value.Text())
	}
	return text.String(), len(items)
}

// print compiles a statement that prints an expression.
func (c *compiler) print(n node, f *frame) stmt {
	if filter, ok := n.(*filterNode); ok && filter.name == "tojson" {
		return c.printJSON(filter, f)
	}
	if sum, ok := n.(*binaryNode); ok && sum.op == "+" {
		return c.printSum(sum, f)
	}
	at, e := n.at(), c.expr(n, f)
	return func(st *state) flow {
		v := e(st)
		st.pos = at
		st.print(v)
		return flowOn
	}
}

// printSum prints a + b + c without building its text first.
func (c *compiler) printSum(n *binaryNode, f *frame) stmt {
	operands, at := c.exprs(addends(n), f), n.at()
	return func(st *state) flow {
		var room [8]val
		vals, plain := st.operands(room[:0], operands)
		st.pos = at
		if !plain {
			st.print(st.fold(vals))
			return flowOn
		}
		for i := range vals {
			st.write(vals[i].Text(), rawProv(vals[i]))
		}
		return flowOn
	}
}

// printJSON prints x|tojson without building its text first.
func (c *compiler) printJSON(n *filterNode, f *frame) stmt {
	of, arguments, at := c.expr(n.node, f), c.arguments(&n.args, f), n.at()
	return func(st *state) flow {
		v := of(st)
		a := arguments(st)
		st.pos = at
		st.step()
		start := st.out.size()
		st.dump(st.out, v, dumpOptions(st, v, a))
		st.spend(st.out.size() - start)
		return flowOn
	}
}

func (c *compiler) ifStatement(n *ifNode, f *frame) stmt {
	soft := f.softened()
	type branch struct {
		test condition
		body stmt
	}
	branches := lists.Map(slices.Concat([]*ifNode{n}, n.elifs), func(n *ifNode) branch {
		return branch{c.condition(n.test, soft), c.body(n.body, soft)}
	})
	test, body, elifs := branches[0].test, branches[0].body, branches[1:]
	otherwise := c.body(n.otherwise, soft)
	return func(st *state) flow {
		st.step()
		if test(st) {
			return body(st)
		}
		for i := range elifs {
			if elifs[i].test(st) {
				return elifs[i].body(st)
			}
		}
		return otherwise(st)
	}
}

// assign compiles a target: a name, a namespace attribute or a tuple of them.
func (c *compiler) assign(target node, f *frame) func(st *state, v val) {
	switch t := target.(type) {
	case *nameNode:
		r, _ := f.sym.find(t.name)
		to := f.variable(r)
		return func(st *state, v val) { *to.of(st) = v }
	case *nsRefNode:
		ns, at := c.namespace(t, f), t.at()
		return func(st *state, v val) {
			st.pos = at
			ns(st).attrs.SetStr(t.attr, v)
		}
	case *tupleNode:
		parts := lists.Map(t.items, func(n node) func(*state, val) { return c.assign(n, f) })
		at := t.at()
		return func(st *state, v val) {
			st.pos = at
			for i, item := range st.unpack(v, len(parts)) {
				parts[i](st, item)
			}
		}
	}
	throwAt(target.at(), "TemplateSyntaxError", "can't assign to this expression")
	return nil
}

// namespace compiles the lookup of the namespace in an assignment target.
func (c *compiler) namespace(t *nsRefNode, f *frame) func(st *state) *namespace {
	r, _ := f.sym.find(t.name)
	from, at := f.variable(r), t.at()
	return func(st *state) *namespace {
		ns, ok := from.of(st).Object().(*namespace)
		if !ok {
			throwAt(at, "TemplateRuntimeError", "cannot assign attribute on non-namespace object")
		}
		return ns
	}
}

// unpack implements `a, b, ... = v` for n names.
func (st *state) unpack(v val, n int) []val {
	if k := v.Kind(); k == pyvalue.KindList || k == pyvalue.KindTuple {
		if items := v.Items(); len(items) == n {
			return items
		}
	}
	it, ok := st.iterate(v)
	if !ok {
		throw("TypeError", "cannot unpack non-iterable %s object", v.TypeName())
	}
	items := make([]val, 0, n)
	for item := range it.all {
		if len(items) == n {
			throw("ValueError", "too many values to unpack (expected %d)", n)
		}
		items = append(items, item)
	}
	if len(items) < n {
		throw("ValueError", "not enough values to unpack (expected %d, got %d)", n, len(items))
	}
	return items
}

func (c *compiler) set(n *setNode, f *frame) stmt {
	checks := c.namespaceChecks(n.target, f)
	value, to, at := c.expr(n.value, f), c.assign(n.target, f), n.at()
	return func(st *state) flow {
		st.step()
		for _, check := range checks {
			check(st)
		}
		v := value(st)
		st.pos = at
		to(st, v)
		return flowOn
	}
}

// namespaceChecks compiles the checks that run before the value is computed, as in jinja2.
func (c *compiler) namespaceChecks(target node, f *frame) (checks []func(st *state) *namespace) {
	contains([]node{target}, func(n node) bool {
		if t, ok := n.(*nsRefNode); ok {
			checks = append(checks, c.namespace(t, f))
		}
		return false
	})
	return checks
}

func (c *compiler) setBlock(n *setBlockNode, f *frame) stmt {
	in := f.inner()
	in.sym.scan(n.body...)
	text, to := c.capture(n.body, in, n.at()), c.assign(n.target, f)
	at := n.at()
	return func(st *state) flow {
		v, fl := text(st)
		if fl == flowOn {
			st.pos = at
			to(st, v)
		}
		return fl
	}
}

// capture compiles a block whose output is captured and returned as a value.
func (c *compiler) capture(nodes []node, in *frame, at int32) func(st *state) (val, flow) {
	enter, body := c.enter(in), c.body(nodes, in)
	return func(st *state) (val, flow) {
		enter(st)
		st.push(at)
		fl := body(st)
		return st.pop(), fl
	}
}

func (c *compiler) filterBlock(n *filterBlockNode, f *frame) stmt {
	in := f.inner()
	in.sym.scan(n.body...)
	in.sym.scan(n.filter)
	text, filter := c.capture(n.body, in, n.at()), c.filterOf(n.filter, in)
	at := n.at()
	return func(st *state) flow {
		v, fl := text(st)
		if fl != flowOn {
			return fl
		}
		v = filter(st, v)
		st.pos = at
		if v.Kind() != pyvalue.KindStr { // jinja2 doesn't convert the result to text
			throw("TypeError", "sequence item: expected str instance, %s found", v.TypeName())
		}
		st.print(v)
		return flowOn
	}
}
