package template

import (
	"slices"

	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// A block of template inheritance here stands for its own body, and is what self.name() calls. It is a function: it
// sees what the template was given and what the template set at top level; a scoped block also sees the variables
// around it.

// block is a compiled block.
type block struct {
	node  *blockNode
	fn    *funcScope
	enter func(st *state)
	body  stmt
}

// findBlocks lists the blocks of a template, wherever they are.
func (c *compiler) findBlocks(body []node) {
	contains(body, func(n node) bool {
		if b, ok := n.(*blockNode); ok {
			if c.blockOf(b.name) != nil {
				throwAt(b.at(), "TemplateAssertionError", "block '%s' defined twice", b.name)
			}
			c.blocks = append(c.blocks, &block{node: b, fn: &funcScope{parent: c.rootFn, slots: map[string]int{}}})
		}
		return false
	})
}

func isScopedBlock(n node) bool {
	b, ok := n.(*blockNode)
	return ok && b.scoped
}

func (c *compiler) blockOf(name string) *block {
	for _, b := range c.blocks {
		if b.node.name == name {
			return b
		}
	}
	return nil
}

func (c *compiler) compileBlock(b *block) {
	f := &frame{sym: newSymbols(nil, b.fn, 0), fn: b.fn, block: b.fn}
	self, super := c.selfOf(b.node.body, f), func(*state) {}
	if undeclared(b.node.body, "super")["super"] {
		to := f.variable(f.sym.parameter("super"))
		none := undefinedHint("there is no parent block called '" + b.node.name + "'.")
		super = func(st *state) { *to.of(st) = none }
	}
	f.sym.scan(b.node.body...)
	enter := c.enter(f)
	b.enter = func(st *state) {
		self(st)
		super(st)
		enter(st)
	}
	b.body = c.body(b.node.body, f)
}

// block compiles the place where a block is printed.
func (c *compiler) block(n *blockNode, f *frame) stmt {
	b, at := c.blockOf(n.name), n.at()
	if n.required {
		return func(*state) flow {
			throwAt(at, "TemplateRuntimeError", "Required block '%s' not found", n.name)
			return flowOn
		}
	}
	root, outer := variable{hops: f.hops(c.rootFn)}, c.outerScope(f)
	var names []string
	var from []variable
	if n.scoped {
		names, from = c.visible(f)
	}
	return func(st *state) flow {
		s := outer(st)
		if n.scoped {
			in := &scope{names: names, values: st.values(len(from)), outer: s}
			for i, v := range from {
				in.values[i] = *v.of(st)
			}
			s = in
		}
		b.run(st, root.activation(st), s)
		return flowOn
	}
}

// run prints a block.
func (b *block) run(st *state, root *activation, s *scope) {
	back := st.call(b.node.at(), b.fn, root)
	st.act.scope = s
	b.enter(st)
	b.body(st)
	st.ret(back)
}

func (f *frame) hops(to *funcScope) int {
	n := 0
	for fn := f.fn; fn != to; fn = fn.parent {
		n++
	}
	return n
}

// outerScope finds what the block containing f sees beyond the top level.
func (c *compiler) outerScope(f *frame) func(st *state) *scope {
	if f.block == nil {
		return func(*state) *scope { return nil }
	}
	at := variable{hops: f.hops(f.block)}
	return func(st *state) *scope { return at.activation(st).scope }
}

// visible returns the variables set in a frame or around it.
func (c *compiler) visible(f *frame) (names []string, from []variable) {
	for s := f.sym; s != nil; s = s.parent {
		for _, name := range s.stores {
			if r, ok := f.sym.find(name); ok && !slices.Contains(names, name) {
				names, from = append(names, name), append(from, f.variable(r))
			}
		}
	}
	return names, from
}

// blockLookup is where a block looks for a variable before it consults what the template was given.
type blockLookup struct {
	name  string
	block variable  // the block's activation
	top   *variable // the variable of that name at the template's top level
}

func (c *compiler) lookupInBlock(name string, f *frame) *blockLookup {
	if f.block == nil {
		return nil
	}
	l := &blockLookup{name: name, block: variable{hops: f.hops(f.block)}}
	if r, ok := c.rootSym.refs[name]; ok && slices.Contains(c.rootSym.stores, name) {
		v := f.variable(r)
		l.top = &v
	}
	return l
}

func (l *blockLookup) of(st *state) val {
	if v := l.block.activation(st).scope.get(l.name); !isMissing(v) {
		return v
	}
	if l.top != nil {
		return *l.top.of(st)
	}
	return missing
}

// blocksObject is the variable self: the blocks by name.
type blocksObject struct {
	blocks []*block
	root   *activation
	scope  *scope
}

func (*blocksObject) TypeName() string { return "TemplateReference" }
func (*blocksObject) Repr() string     { return "<TemplateReference None>" }

func (o *blocksObject) item(name string) (val, bool) {
	for _, b := range o.blocks {
		if b.node.name == name {
			return pyvalue.OfObject(&blockObject{b, o}), true
		}
	}
	return missing, false
}

// blockObject is self.name.
type blockObject struct {
	block *block
	self  *blocksObject
}

func (*blockObject) TypeName() string { return "BlockReference" }
func (*blockObject) Repr() string     { return "<jinja2.runtime.BlockReference object at " + address + ">" }

func (o *blockObject) attribute(name string) (val, bool) {
	switch name {
	case "name":
		return pyvalue.Str(o.block.node.name), true
	case "super":
		return undefinedHint("there is no parent block called '" + o.block.node.name + "'."), true
	}
	return missing, false
}

func (o *blockObject) call(st *state, a *args) val {
	if !a.none() {
		throw("TypeError", "a block takes no arguments, and %d were given", len(a.plain)+len(a.names))
	}
	st.push(st.pos)
	o.block.run(st, o.self.root, o.self.scope)
	return st.markupIf(st.escaping, st.pop())
}

// selfOf compiles the code that sets the variable self, if nodes use it.
func (c *compiler) selfOf(nodes []node, f *frame) func(st *state) {
	if !undeclared(nodes, "self")["self"] {
		return func(*state) {}
	}
	to, root, outer := f.variable(f.sym.parameter("self")), variable{hops: f.hops(c.rootFn)}, c.outerScope(f)
	return func(st *state) {
		*to.of(st) = pyvalue.OfObject(&blocksObject{c.blocks, root.activation(st), outer(st)})
	}
}

// autoescape compiles a part in which output is, or is not, escaped.
func (c *compiler) autoescape(n *autoescapeNode, f *frame) stmt {
	in := f.inner()
	in.sym.scan(n.on)
	in.sym.scan(n.body...)
	on, enter, before := c.condition(n.on, in), c.enter(in), c.escaping
	switch k, constant := n.on.(*constNode); {
	case !constant:
		c.escaping = escapeAsTold // constants that must be computed are not supported here: nobody writes that
	case k.value.Truth():
		c.escaping = escapeOn
	default:
		c.escaping = escapeOff
	}
	body := c.body(n.body, in)
	c.escaping = before
	return func(st *state) flow {
		enter(st)
		was := st.escaping
		st.escaping = on(st)
		if fl := body(st); fl != flowOn {
			return fl // jinja2 forgets to reset it as well
		}
		st.escaping = was
		return flowOn
	}
}

// isConstant reports whether jinja2 computes the value of an expression at compile time.
func (c *compiler) isConstant(n node) bool {
	switch n := n.(type) {
	case *constNode:
		return true
	case *condNode:
		if is, ok := truthOf(n.test); ok && is {
			return c.isConstant(n.then)
		} else if n.otherwise == nil {
			return false
		} else if ok {
			return c.isConstant(n.otherwise)
		}
	case *filterNode:
		if n.node == nil || c.escaping == escapeAsTold || slices.Contains(contextFilters, n.name) {
			return false
		}
	case *testNode, *concatNode:
		if c.escaping == escapeAsTold {
			return false
		}
	case *logicNode:
		if is, ok := truthOf(n.left); ok && is == n.or {
			return c.isConstant(n.left) // it never looks at the right side
		}
	case *tupleNode, *listNode, *dictNode, *binaryNode, *notNode, *unaryNode, *compareNode, *sliceNode,
		*attrNode, *itemNode:
	default:
		return false
	}
	return !slices.ContainsFunc(children(n), func(e node) bool { return !c.isConstant(e) })
}

// truthOf is the truth of a literal, or of literals joined by and and or, if it is one.
func truthOf(n node) (is, ok bool) {
	switch n := n.(type) {
	case *constNode:
		return n.value.Truth(), true
	case *logicNode:
		if is, ok = truthOf(n.left); ok && is != n.or {
			return truthOf(n.right)
		}
	}
	return is, ok
}

// contextFilters are filters that jinja2 applies only at render time.
var contextFilters = []string{"map", "select", "reject", "selectattr", "rejectattr", "random"}
