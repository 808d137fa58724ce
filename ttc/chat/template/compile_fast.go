package template

import (
	"slices"

	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// Most expressions in chat templates look up a key of a message, or compare its value with a string. The code here
// compiles such lookups to functions that return pointers, and such comparisons to functions that return booleans.

type (
	ptr       func(st *state) *val
	condition func(st *state) bool
)

// ptr compiles an expression to a pointer, valid until another expression is evaluated. Its target must not be
// modified.
func (c *compiler) ptr(n node, f *frame) ptr {
	if p := c.path(n, f); p != nil {
		return p.ref
	}
	if name, ok := n.(*nameNode); ok {
		if r, ok := f.sym.find(name.name); ok {
			return namePtr(f.variable(r), name.name)
		}
	}
	if of, l := c.lookup(n); l != nil {
		from := c.ptr(of, f)
		return func(st *state) *val { return l.of(st, from(st)) }
	}
	e := c.expr(n, f)
	return func(st *state) *val { return st.keep(e(st)) }
}

// path is a variable and the lookups on it: message.role, messages[0]['content'], call.function.name. A single loop
// over the names is faster than a chain of closures, one per name.
//
// In profiles (llama3_1, nemotron_3_nano, gptoss), Dict.Ref, writing JSON and memmove take the most time, and they
// are memory-bound: a message's dict, keys, provenance and text each cost a cache miss. Reading and passing fewer
// values helps; prefetching the next message does not.
type path struct {
	slot   int
	absent val // the value to use if the variable is unset
	names  []lookup
}

// path compiles lookups on one of the current function's variables. It returns nil for other expressions.
func (c *compiler) path(n node, f *frame) *path {
	p := &path{}
	for {
		of, l := c.lookup(n)
		if l == nil {
			break
		}
		p.names = append(p.names, *l)
		n = of
	}
	name, ok := n.(*nameNode)
	if !ok || len(p.names) == 0 {
		return nil
	}
	r, ok := f.sym.find(name.name)
	if !ok {
		return nil
	}
	from := f.variable(r)
	if from.hops != 0 {
		return nil
	}
	slices.Reverse(p.names)
	p.slot, p.absent = from.slot, undefinedName(name.name)
	return p
}

func (p *path) ref(st *state) *val {
	st.step()
	v := &st.act.slots[p.slot]
	if isMissing(*v) {
		v = &p.absent
	}
	for i := range p.names {
		v = p.names[i].of(st, v)
	}
	return v
}

// lookup is .name, ['name'] or [0].
type lookup struct {
	at     int32
	name   string // "" if the lookup is by index
	value  val    // the name or index
	index  int
	item   bool // the lookup is in brackets, so a dict's items take precedence over its methods
	plain  bool // name isn't a method of dicts, so on a dict it can only be a key
	absent val  // the result for a dict without the key; its error messages depend only on the container's type
}

// lookup returns an expression's constant key and its container. It returns nil for other expressions.
func (c *compiler) lookup(n node) (node, *lookup) {
	switch n := n.(type) {
	case *attrNode:
		return n.node, c.named(n.name, n.at(), false)
	case *itemNode:
		k, ok := n.index.(*constNode)
		if !ok {
			break
		}
		if k.value.Kind() == pyvalue.KindStr && k.value.Text() != "" {
			return n.node, c.named(k.value.Text(), n.at(), true)
		}
		if i, ok := k.value.Int64(); ok && k.value.Kind() == pyvalue.KindInt && i == int64(int32(i)) {
			return n.node, &lookup{at: n.at(), value: k.value, index: int(i), item: true}
		}
	}
	return nil, nil
}

func (c *compiler) named(name string, at int32, item bool) *lookup {
	name = pyvalue.Intern(name)
	value := pyvalue.Str(name)
	return &lookup{
		at: at, name: name, value: value, item: item,
		plain:  dictMethods[name] == nil && !isChanging(name) && name[0] != '_',
		absent: undefinedIn(pyvalue.OfDict(&pyvalue.Dict{}), value),
	}
}

// of returns the attribute or item of v that l looks up.
func (l *lookup) of(st *state, v *val) *val {
	st.pos = l.at
	switch {
	case l.name == "":
		if items := v.Items(); l.index >= 0 && l.index < len(items) {
			st.step()
			return &items[l.index]
		}
	case v.Kind() == pyvalue.KindDict && (l.plain || l.item):
		st.step()
		if item := v.Dict().Ref(l.name); item != nil {
			return item
		}
		if l.plain {
			return &l.absent
		}
	case !l.item:
		return st.attributeRef(v, &l.value)
	}
	if l.item {
		return st.keep(st.getitem(*v, l.value))
	}
	return st.attributeRef(v, &l.value)
}

// keep stores a value and returns a pointer to it, which stays valid for a few more calls of keep.
func (st *state) keep(v val) *val {
	p := &st.looked[st.nextLook%len(st.looked)]
	st.nextLook++
	*p = v
	return p
}

func namePtr(from variable, name string) ptr {
	absent := undefinedName(name)
	return func(st *state) *val {
		st.step()
		if v := from.of(st); !isMissing(*v) {
			return v
		}
		return &absent
	}
}

// attributeRef returns v.name. It is used for values other than dicts, and for names that may be methods.
func (st *state) attributeRef(v, name *val) *val {
	if n := name.Text(); n[0] != '_' {
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

// condition compiles an expression that is used only for its truth value.
func (c *compiler) condition(n node, f *frame) condition {
	switch n := n.(type) {
	case *notNode:
		is := c.condition(n.node, f)
		return func(st *state) bool { return !is(st) }
	case *logicNode:
		left, right, isOr := c.condition(n.left, f), c.condition(n.right, f), n.op == "or"
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
		return c.comparison(n, f)
	case *nameNode, *attrNode:
		p := c.ptr(n, f)
		return func(st *state) bool { return p(st).Truth() }
	}
	e := c.expr(n, f)
	return func(st *state) bool { return e(st).Truth() }
}

// equalsText compiles `node == 'text'` and `node != 'text'`; it returns nil for other comparisons.
func (c *compiler) equalsText(n *compareNode, f *frame) condition {
	if len(n.ops) != 1 || n.ops[0].op != "==" && n.ops[0].op != "!=" {
		return nil
	}
	k, ok := n.ops[0].node.(*constNode)
	if !ok || k.value.Kind() != pyvalue.KindStr || len(k.value.Text()) > 64 { // longer comparisons count as work
		return nil
	}
	text, equal := pyvalue.Intern(k.value.Text()), n.ops[0].op == "=="
	if p := c.path(n.first, f); p != nil {
		return func(st *state) bool { return p.ref(st).IsText(text) == equal }
	}
	p := c.ptr(n.first, f)
	return func(st *state) bool { return p(st).IsText(text) == equal }
}
