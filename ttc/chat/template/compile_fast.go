package template

import (
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// Most of what a chat template does is to look up a key of a message and compare it with a text, to decide something. Here
// such expressions are compiled without handing values about: lookups to pointers, decisions to booleans.

type (
	ptr       func(st *state) *val
	condition func(st *state) bool
)

// ptr compiles an expression to a pointer, which is good until another expression is evaluated. What it points at is
// read only.
func (c *compiler) ptr(n node, f *frame) ptr {
	switch n := n.(type) {
	case *nameNode:
		if r, ok := f.sym.find(n.name); ok {
			return namePtr(f.variable(r), n.name)
		}
	case *attrNode:
		return c.attributePtr(n, f)
	case *itemNode:
		if k, ok := n.index.(*constNode); ok && k.value.Kind() == pyvalue.KindStr && k.value.Text() != "" {
			return c.keyPtr(n, f, k.value)
		}
	}
	e := c.expr(n, f)
	return func(st *state) *val { return st.keep(e(st)) }
}

// keep puts a value where a pointer to it lasts for a few more.
func (st *state) keep(v val) *val {
	p := &st.kept[st.nextKept%len(st.kept)]
	st.nextKept++
	*p = v
	return p
}

func namePtr(from variable, name string) ptr {
	absent := undefinedName(name)
	if from.hops == 0 {
		slot := from.slot
		return func(st *state) *val {
			st.step()
			if v := &st.act.slots[slot]; !isMissing(*v) {
				return v
			}
			return &absent
		}
	}
	return func(st *state) *val {
		st.step()
		if v := from.of(st); !isMissing(*v) {
			return v
		}
		return &absent
	}
}

// attributePtr compiles node.name.
func (c *compiler) attributePtr(n *attrNode, f *frame) ptr {
	of, at, name := c.ptr(n.node, f), n.at(), pyvalue.Intern(n.name)
	value := pyvalue.Str(name)
	// Of a dict a name that is no method is a key. What is said of a missing one depends on the type alone.
	key := c.lib.dicts[name] == nil && !isChanging(name) && name[0] != '_'
	absent := undefinedIn(pyvalue.OfDict(&pyvalue.Dict{}), value)
	return func(st *state) *val {
		v := of(st)
		st.pos = at
		if key && v.Kind() == pyvalue.KindDict {
			st.step()
			if item := v.Dict().Ref(name); item != nil {
				return item
			}
			return &absent
		}
		return st.attributeRef(v, &value)
	}
}

// attributeRef is v.name where v is no dict, or name may be a method.
func (st *state) attributeRef(v, name *val) *val {
	if n := name.Text(); v.Kind() == pyvalue.KindObject && n[0] != '_' {
		switch o := v.Object().(type) {
		case *loop:
			if item, ok := o.attribute(n); ok {
				st.step()
				return st.keep(item)
			}
		case *namespace:
			if item := o.attrs.Ref(n); item != nil {
				st.step()
				return item
			}
		}
	}
	return st.keep(st.getattr(*v, *name))
}

// keyPtr compiles node['name'].
func (c *compiler) keyPtr(n *itemNode, f *frame, name val) ptr {
	of, at, key := c.ptr(n.node, f), n.at(), pyvalue.Intern(name.Text())
	plain := c.lib.dicts[key] == nil && !isChanging(key) && key[0] != '_'
	absent := undefinedIn(pyvalue.OfDict(&pyvalue.Dict{}), name)
	return func(st *state) *val {
		v := of(st)
		st.pos = at
		if v.Kind() == pyvalue.KindDict {
			st.step()
			if item := v.Dict().Ref(key); item != nil {
				return item
			}
			if plain {
				return &absent
			}
		}
		return st.keep(st.getitem(*v, name))
	}
}

// condition compiles an expression of which only the truth matters.
func (c *compiler) condition(n node, f *frame) condition {
	switch n := n.(type) {
	case *notNode:
		is := c.condition(n.node, f)
		return func(st *state) bool { return !is(st) }
	case *logicNode:
		left, right, isOr := c.condition(n.left, f), c.condition(n.right, f), n.or
		return func(st *state) bool {
			if left(st) == isOr {
				return isOr
			}
			return right(st)
		}
	case *testNode:
		return c.test(n, f)
	case *compareNode:
		if is := c.equalsText(n, f); is != nil {
			return is
		}
		if is := c.holdsText(n, f); is != nil {
			return is
		}
	case *nameNode, *attrNode:
		p := c.ptr(n, f)
		return func(st *state) bool { return p(st).Truth() }
	}
	e := c.expr(n, f)
	return func(st *state) bool { return e(st).Truth() }
}

// holdsText compiles `'text' in node` and `'text' not in node`; it returns nil for other comparisons.
func (c *compiler) holdsText(n *compareNode, f *frame) condition {
	k, ok := n.first.(*constNode)
	if !ok || k.value.Kind() != pyvalue.KindStr || len(n.ops) != 1 || n.ops[0].op != "in" && n.ops[0].op != "not in" {
		return nil
	}
	p, text, at, op := c.ptr(n.ops[0].node, f), k.value, n.at(), n.ops[0].op
	key, in := pyvalue.Intern(text.Text()), op == "in"
	return func(st *state) bool {
		v := p(st)
		st.pos = at
		if v.Kind() == pyvalue.KindDict {
			st.step()
			return (v.Dict().Ref(key) != nil) == in
		}
		return st.holds(op, text, *v)
	}
}

// equalsText compiles `node == 'text'` and `node != 'text'`; it returns nil for other comparisons.
func (c *compiler) equalsText(n *compareNode, f *frame) condition {
	if len(n.ops) != 1 || n.ops[0].op != "==" && n.ops[0].op != "!=" {
		return nil
	}
	k, ok := n.ops[0].node.(*constNode)
	if !ok || k.value.Kind() != pyvalue.KindStr || len(k.value.Text()) > 64 { // comparing longer ones is counted
		return nil
	}
	p, text, equal := c.ptr(n.first, f), pyvalue.Intern(k.value.Text()), n.ops[0].op == "=="
	return func(st *state) bool {
		return p(st).IsText(text) == equal
	}
}
