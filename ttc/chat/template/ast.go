package template

import "slices"

// A node is a statement or an expression of a parsed template.
type node interface{ at() int32 }

// pos is where a node starts in the normalised source.
type pos int32

func (p pos) at() int32 { return int32(p) }

// use is how an expression uses a name.
type use uint8

const (
	useLoad use = iota
	useStore
	useParam
)

// Expressions.
type (
	dataNode struct { // template text outside tags
		pos
		text string
	}
	nameNode struct {
		pos
		name string
		use  use
	}
	nsRefNode struct { // namespace.attribute as the target of an assignment
		pos
		name, attr string
	}
	constNode struct {
		pos
		value val
	}
	tupleNode struct {
		pos
		items []node
	}
	listNode struct {
		pos
		items []node
	}
	dictNode struct {
		pos
		keys, values []node
	}
	condNode struct { // `then if test else otherwise`; otherwise may be nil
		pos
		test, then, otherwise node
	}
	binaryNode struct { // + - * / // % **
		pos
		op          string
		left, right node
	}
	logicNode struct { // and, or
		pos
		or          bool
		left, right node
	}
	notNode struct {
		pos
		node node
	}
	unaryNode struct { // + -
		pos
		minus bool
		node  node
	}
	concatNode struct {
		pos
		items []node
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
	filterNode struct { // node is nil if the filter applies to a block
		pos
		node node
		name string
		args arguments
	}
	testNode struct {
		pos
		node node
		name string
		args arguments
	}
)

type operand struct {
	op   string // == != < <= > >= in "not in"
	node node
}

// arguments of a call, filter or test.
type arguments struct {
	plain  []node
	names  []string // of keywords
	values []node
	star   node // *args or nil
}

func (a *arguments) empty() bool { return len(a.plain)+len(a.names) == 0 && a.star == nil }

func (a *arguments) nodes() []node { return slices.Concat(a.plain, a.values, present(a.star)) }

// Statements.
type (
	outputNode struct {
		pos
		items []node
	}
	forNode struct {
		pos
		target, iter    node
		body, otherwise []node
		test            node // or nil
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

// children lists a node's parts, in the order in which jinja2 visits them.
func children(n node) []node {
	switch n := n.(type) {
	case *tupleNode:
		return n.items
	case *listNode:
		return n.items
	case *dictNode:
		var out []node
		for i := range n.keys {
			out = append(out, n.keys[i], n.values[i])
		}
		return out
	case *condNode:
		return present(n.test, n.then, n.otherwise)
	case *binaryNode:
		return []node{n.left, n.right}
	case *logicNode:
		return []node{n.left, n.right}
	case *notNode:
		return []node{n.node}
	case *unaryNode:
		return []node{n.node}
	case *concatNode:
		return n.items
	case *compareNode:
		out := []node{n.first}
		for _, o := range n.ops {
			out = append(out, o.node)
		}
		return out
	case *attrNode:
		return []node{n.node}
	case *itemNode:
		return []node{n.node, n.index}
	case *sliceNode:
		return present(n.start, n.stop, n.step)
	case *callNode:
		return append([]node{n.fn}, n.args.nodes()...)
	case *filterNode:
		return append(present(n.node), n.args.nodes()...)
	case *testNode:
		return append([]node{n.node}, n.args.nodes()...)
	}
	return statementChildren(n)
}

func present(nodes ...node) []node {
	var out []node
	for _, n := range nodes {
		if n != nil {
			out = append(out, n)
		}
	}
	return out
}

func statementChildren(n node) []node {
	switch n := n.(type) {
	case *outputNode:
		return n.items
	case *forNode:
		return slices.Concat([]node{n.target, n.iter}, n.body, n.otherwise, present(n.test))
	case *ifNode:
		out := slices.Concat([]node{n.test}, n.body)
		for _, e := range n.elifs {
			out = append(out, e)
		}
		return slices.Concat(out, n.otherwise)
	case *macroNode:
		var out []node
		for _, p := range n.params {
			out = append(out, p)
		}
		return slices.Concat(out, n.defaults, n.body)
	case *bodyNode:
		return statementChildren(n.macro)
	case *filterBlockNode:
		return slices.Concat(n.body, []node{n.filter})
	case *setNode:
		return []node{n.target, n.value}
	case *setBlockNode:
		return slices.Concat([]node{n.target}, n.body)
	}
	return nil
}
