package template

import (
	"slices"

	"github.com/nat-go/nat-go/internal/lists"
)

// A node is a statement or an expression of a parsed template.
type node interface {
	at() int32
	parts() []node // in the order in which jinja2 visits them
}

// pos is where a node starts in the normalised source.
type pos int32

func (p pos) at() int32     { return int32(p) }
func (p pos) parts() []node { return nil }

// group is a node that consists of other nodes.
type group struct {
	pos
	items []node
}

func (n *group) parts() []node { return n.items }

// use is how an expression uses a name.
type use uint8

const (
	useLoad use = iota
	useStore
	useParam
)

// Expressions.
type (
	nameNode struct {
		pos
		name string
		use  use
	}
	nsRefNode struct { // namespace.attribute as the target of an assignment
		pos
		name, attr string
	}
	constNode struct { // a literal, or template text outside tags
		pos
		value val
	}
	tupleNode  struct{ group }
	listNode   struct{ group }
	concatNode struct{ group }
	dictNode   struct{ group } // keys and values alternate
	condNode   struct {        // `then if test else otherwise`, where otherwise may be nil
		pos
		test, then, otherwise node
	}
	binaryNode struct { // + - * / // % **
		pos
		op          string
		left, right node
	}
	logicNode struct{ binaryNode } // and, or
	notNode   struct {
		pos
		node node
	}
	unaryNode struct { // + -
		pos
		op   string
		node node
	}
	compareNode struct {
		pos
		first node
		ops   []operand
	}
	attrNode struct {
		pos
		node node
		name string
	}
	itemNode struct {
		pos
		node, index node
	}
	sliceNode struct { // start, stop and step may be nil
		pos
		start, stop, step node
	}
	callNode struct {
		pos
		fn   node
		args arguments
	}
	filterNode struct{ applied } // node is nil if the filter applies to a block
	testNode   struct{ applied }
)

// applied is the application of a filter or test.
type applied struct {
	pos
	node node
	name string
	args arguments
}

type operand struct {
	op   string // == != < <= > >= in "not in"
	node node
}

// arguments of a call, filter or test.
type arguments struct {
	plain  []node
	names  []string // names of the keyword arguments
	values []node
	star   node // the *args argument, or nil
}

func (a *arguments) empty() bool { return len(a.plain)+len(a.names) == 0 && a.star == nil }

func (a *arguments) nodes() []node { return slices.Concat(a.plain, a.values, present(a.star)) }

// Statements.
type (
	outputNode struct{ group }
	forNode    struct {
		pos
		target, iter    node
		body, otherwise []node
		test            node // nil if the loop has no condition
	}
	ifNode struct {
		pos
		test      node
		body      []node
		elifs     []*ifNode
		otherwise []node
	}
	macroNode struct { // name is empty for the body of a call or generation block
		pos
		name     string
		params   []*nameNode
		defaults []node // defaults of the last parameters
		body     []node
	}
	bodyNode struct { // the body of a generation block or of a call block, which passes it to the call as an argument
		pos
		macro *macroNode
	}
	filterBlockNode struct {
		pos
		filter *filterNode
		body   []node
	}
	setNode struct {
		pos
		target, value node
	}
	setBlockNode struct {
		pos
		target node
		body   []node
	}
	breakNode    struct{ pos }
	continueNode struct{ pos }
)

func (n *condNode) parts() []node        { return present(n.test, n.then, n.otherwise) }
func (n *binaryNode) parts() []node      { return []node{n.left, n.right} }
func (n *notNode) parts() []node         { return []node{n.node} }
func (n *unaryNode) parts() []node       { return []node{n.node} }
func (n *attrNode) parts() []node        { return []node{n.node} }
func (n *itemNode) parts() []node        { return []node{n.node, n.index} }
func (n *sliceNode) parts() []node       { return present(n.start, n.stop, n.step) }
func (n *callNode) parts() []node        { return append([]node{n.fn}, n.args.nodes()...) }
func (n *applied) parts() []node         { return append(present(n.node), n.args.nodes()...) }
func (n *bodyNode) parts() []node        { return n.macro.parts() }
func (n *filterBlockNode) parts() []node { return slices.Concat(n.body, []node{n.filter}) }
func (n *setNode) parts() []node         { return []node{n.target, n.value} }
func (n *setBlockNode) parts() []node    { return slices.Concat([]node{n.target}, n.body) }

func (n *compareNode) parts() []node {
	return append([]node{n.first}, lists.Map(n.ops, func(o operand) node { return o.node })...)
}

func (n *forNode) parts() []node {
	return slices.Concat([]node{n.target, n.iter}, n.body, n.otherwise, present(n.test))
}

func (n *ifNode) parts() []node {
	return slices.Concat([]node{n.test}, n.body, nodes(n.elifs), n.otherwise)
}

func (n *macroNode) parts() []node { return slices.Concat(nodes(n.params), n.defaults, n.body) }

func present(list ...node) []node {
	return slices.DeleteFunc(list, func(n node) bool { return n == nil })
}

// nodes returns a list of nodes of one type as nodes.
func nodes[T node](list []T) []node {
	return lists.Map(list, func(n T) node { return n })
}
