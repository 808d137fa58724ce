package template

import (
	"maps"
	"slices"
	"strconv"
)

// Scoping follows jinja2/idtracking.py and is resolved at compile time. Every frame (the template, the body of a
// loop, a macro, ...) records the names that it loads and stores, and how each variable gets its initial value on
// entry. A Python local variable there corresponds to a slot in an activation here.

// funcScope is a scope that becomes one function: the template, a macro or a loop filter.
type funcScope struct {
	parent *funcScope
	slots  map[string]int
}

func (f *funcScope) slot(ident string) int {
	if i, ok := f.slots[ident]; ok {
		return i
	}
	i := len(f.slots)
	f.slots[ident] = i
	return i
}

// ref identifies a variable by its function and its name there.
type ref struct {
	fn    *funcScope
	ident string
}

type loadKind uint8

const (
	loadParameter loadKind = iota // set on entry to the frame
	loadResolve                   // looked up by name in the template's input
	loadAlias                     // copied from a variable of an outer frame
	loadUndefined                 // missing
)

type load struct {
	kind loadKind
	name string
	from ref
}

// symbols are the names of one frame.
type symbols struct {
	level  int
	parent *symbols
	fn     *funcScope
	refs   map[string]ref
	loads  map[ref]load
	order  []ref // order of loads, so that compiling is deterministic
	stores []string
}

func newSymbols(parent *symbols, fn *funcScope) *symbols {
	s := &symbols{parent: parent, fn: fn, refs: map[string]ref{}, loads: map[ref]load{}}
	if parent != nil {
		s.level = parent.level + 1
	}
	return s
}

func (s *symbols) copy() *symbols {
	c := *s
	c.refs, c.loads = maps.Clone(s.refs), maps.Clone(s.loads)
	c.order = slices.Clone(s.order)
	c.stores = slices.Clone(s.stores)
	return &c
}

func (s *symbols) setLoad(r ref, l load) {
	if _, ok := s.loads[r]; !ok {
		s.order = append(s.order, r)
	}
	s.loads[r] = l
}

func (s *symbols) define(name string, l load) ref {
	r := ref{s.fn, strconv.Itoa(s.level) + "_" + name}
	s.refs[name] = r
	s.setLoad(r, l)
	return r
}

func (s *symbols) find(name string) (ref, bool) {
	for ; s != nil; s = s.parent {
		if r, ok := s.refs[name]; ok {
			return r, true
		}
	}
	return ref{}, false
}

func (s *symbols) markStored(name string) {
	if !slices.Contains(s.stores, name) {
		s.stores = append(s.stores, name)
	}
}

func (s *symbols) store(name string) {
	s.markStored(name)
	if _, ok := s.refs[name]; ok {
		return
	}
	s.define(name, s.outer(name, load{kind: loadUndefined}))
}

// outer returns a load from the outer variable with a name, or otherwise if there is none.
func (s *symbols) outer(name string, otherwise load) load {
	if r, ok := s.parent.find(name); ok {
		return load{kind: loadAlias, from: r}
	}
	return otherwise
}

func (s *symbols) parameter(name string) ref {
	s.markStored(name)
	return s.define(name, load{kind: loadParameter})
}

func (s *symbols) load(name string) {
	if _, ok := s.find(name); !ok {
		s.define(name, load{kind: loadResolve, name: name})
	}
}

// branch merges the effects of an if's branches: a name that is stored in any branch starts with its outer value.
func (s *symbols) branch(branches []*symbols) {
	before := len(s.stores)
	for _, b := range branches {
		maps.Copy(s.refs, b.refs)
		for _, r := range b.order {
			s.setLoad(r, b.loads[r])
		}
		for _, name := range b.stores {
			s.markStored(name)
		}
	}
	for _, name := range s.stores[before:] {
		target, _ := s.find(name)
		s.setLoad(target, s.outer(name, load{kind: loadResolve, name: name}))
	}
}

// scan records how nodes use names in this frame. It does not enter nested frames.
func (s *symbols) scan(nodes ...node) {
	for _, n := range nodes {
		s.scanNode(n)
	}
}

func (s *symbols) scanNode(n node) {
	switch n := n.(type) {
	case nil:
	case *nameNode:
		switch n.use {
		case useLoad:
			if _, ok := s.find(n.name); !ok && n.name == "self" { // jinja2's self, which holds the template's blocks
				throwAt(n.at(), unsupportedError, "the variable self is not supported in chat templates")
			}
			s.load(n.name)
		case useStore:
			s.store(n.name)
		case useParam:
			s.parameter(n.name)
		}
	case *nsRefNode:
		s.load(n.name)
	case *ifNode:
		s.scanIf(n)
	case *macroNode:
		s.store(n.name)
	case *setNode:
		s.scan(n.value, n.target)
	case *forNode:
		s.scan(n.iter)
	case *filterBlockNode:
		s.scan(n.filter)
	case *setBlockNode:
		s.scan(n.target)
	case *bodyNode:
	default:
		s.scan(n.parts()...)
	}
}

func (s *symbols) scanIf(n *ifNode) {
	s.scan(n.test)
	part := func(nodes []node) *symbols {
		c := s.copy()
		c.scan(nodes...)
		return c
	}
	s.branch([]*symbols{part(n.body), part(nodes(n.elifs)), part(n.otherwise)})
}

// scanParams declares the names in a loop target as parameters.
func (s *symbols) scanParams(target node) {
	switch t := target.(type) {
	case *nameNode:
		s.parameter(t.name)
	case *tupleNode:
		for _, e := range t.items {
			s.scanParams(e)
		}
	}
}

// undeclared returns which of the given names the nodes load before they store them.
func undeclared(nodes []node, names ...string) map[string]bool {
	found, left := map[string]bool{}, map[string]bool{}
	for _, n := range names {
		left[n] = true
	}
	contains(nodes, func(n node) bool {
		name, ok := n.(*nameNode)
		switch {
		case ok && name.use != useLoad:
			delete(left, name.name)
		case ok && left[name.name]:
			found[name.name] = true
		}
		return false
	})
	return found
}

// contains reports whether the given function returns true for any of the nodes or their descendants.
func contains(nodes []node, is func(node) bool) bool {
	return slices.ContainsFunc(nodes, func(n node) bool { return is(n) || contains(n.parts(), is) })
}
