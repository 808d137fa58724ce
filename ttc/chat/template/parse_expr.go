package template

import (
	"slices"
	"strings"

	"github.com/nat-go/nat-go/ttc/pyvalue"
)

func (p *parser) expression() node {
	t := p.cur()
	p.enter(t)
	defer p.leave()
	n := p.or()
	for links := 0; p.skipName("if"); links++ {
		p.chain(links)
		c := &condNode{pos: pos(t.pos), then: n, test: p.or()}
		if p.skipName("else") {
			c.otherwise = p.expression()
		}
		n = c
	}
	return n
}

func (p *parser) chain(links int) {
	if links >= maxChain {
		throwAt(p.cur().pos, "LimitError", "more than %d operators in a row", maxChain)
	}
}

// joined parses operands joined by operators of one precedence.
func (p *parser) joined(operand func() node, ops ...string) node {
	n := operand()
	for links := 0; slices.ContainsFunc(ops, p.isOp); links++ {
		p.chain(links)
		t := p.next()
		n = &binaryNode{pos(t.pos), t.text, n, operand()}
	}
	return n
}

// logic parses operands joined by `or` or `and`.
func (p *parser) logic(operand func() node, op string) node {
	n := operand()
	for links := 0; p.skipName(op); links++ {
		p.chain(links)
		n = &logicNode{binaryNode{pos(n.at()), op, n, operand()}}
	}
	return n
}

func (p *parser) or() node  { return p.logic(p.and, "or") }
func (p *parser) and() node { return p.logic(p.not, "and") }

func (p *parser) not() node {
	if t := p.cur(); t.is(tokName, "not") {
		p.next()
		p.enter(t)
		defer p.leave()
		return &notNode{pos(t.pos), p.not()}
	}
	return p.compare()
}

var comparisons = []string{"==", "!=", "<", "<=", ">", ">="}

func (p *parser) compare() node {
	n := p.sum()
	var ops []operand
	for {
		t := p.cur()
		op := ""
		switch {
		case t.kind == tokOp && slices.Contains(comparisons, t.text), t.is(tokName, "in"):
			op = t.text
		case t.is(tokName, "not") && p.peek().is(tokName, "in"):
			op = "not in"
			p.next()
		}
		if op == "" {
			break
		}
		p.next()
		p.chain(len(ops))
		ops = append(ops, operand{op, p.sum()})
	}
	if ops == nil {
		return n
	}
	return &compareNode{pos(n.at()), n, ops}
}

func (p *parser) sum() node { return p.joined(p.concat, "+", "-") }

func (p *parser) concat() node {
	n := p.product()
	if !p.isOp("~") {
		return n
	}
	items := []node{n}
	for p.skipOp("~") {
		p.chain(len(items))
		items = append(items, p.product())
	}
	return &concatNode{group{pos(n.at()), items}}
}

func (p *parser) product() node {
	n := p.joined(func() node { return p.unary(true) }, "*", "/", "//", "%")
	if t := p.cur(); t.is(tokOp, "**") {
		p.unsupported(t, "the operator **")
	}
	return n
}

func (p *parser) unary(withFilter bool) node {
	t := p.cur()
	p.enter(t)
	defer p.leave()
	var n node
	if t.is(tokOp, "-") || t.is(tokOp, "+") {
		p.next()
		n = &unaryNode{pos(t.pos), t.text, p.unary(false)}
	} else {
		n = p.primary(false)
	}
	n = p.postfix(n)
	if withFilter {
		n = p.filterExpr(n)
	}
	return n
}

func (p *parser) primary(namespace bool) node {
	t := p.cur()
	switch t.kind {
	case tokName:
		p.next()
		return p.nameOrConstant(t, namespace)
	case tokString:
		var b strings.Builder
		for p.cur().kind == tokString {
			b.WriteString(p.next().text)
		}
		return &constNode{pos(t.pos), pyvalue.Str(b.String())}
	case tokNumber:
		p.next()
		return &constNode{pos(t.pos), t.num}
	case tokOp:
		switch t.text {
		case "(":
			p.next()
			p.enter(t)
			defer p.leave()
			n := p.tuple(tupleOptions{cond: true, brackets: true})
			p.op(")")
			return n
		case "[":
			return p.list()
		case "{":
			return p.dict()
		}
	}
	p.fail(t, "unexpected '%s'", t.describe())
	return nil
}

func (p *parser) nameOrConstant(t token, namespace bool) node {
	switch t.text {
	case "true", "True":
		return &constNode{pos(t.pos), pyvalue.True}
	case "false", "False":
		return &constNode{pos(t.pos), pyvalue.False}
	case "none", "None":
		return &constNode{pos(t.pos), pyvalue.None}
	}
	if namespace && p.skipOp(".") {
		return &nsRefNode{pos(t.pos), t.text, p.expect(tokName, "", "name").text}
	}
	return &nameNode{pos(t.pos), t.text, useLoad}
}

type tupleOptions struct {
	simple    bool   // only names and literals are parsed, as in a target
	cond      bool   // an inline if is allowed
	end       string // a keyword that ends the tuple
	brackets  bool   // () is accepted as an empty tuple
	namespace bool   // assignment to ns.attribute is allowed
}

func (p *parser) tuple(o tupleOptions) node {
	start := p.cur()
	var items []node
	isTuple := false
	for {
		if items != nil {
			p.op(",")
		}
		if t := p.cur(); t.kind == tokVarEnd || t.kind == tokBlockEnd || t.is(tokOp, ")") ||
			o.end != "" && t.is(tokName, o.end) {
			break
		}
		switch {
		case o.simple:
			items = append(items, p.primary(o.namespace))
		case o.cond:
			items = append(items, p.expression())
		default:
			items = append(items, p.or())
		}
		if !p.isOp(",") {
			break
		}
		isTuple = true
	}
	if !isTuple {
		if items != nil {
			return items[0]
		}
		if !o.brackets {
			p.fail(p.cur(), "Expected an expression, got '%s'", p.cur().describe())
		}
	}
	return &tupleNode{group{pos(start.pos), items}}
}

func (p *parser) list() node {
	n := &listNode{group{pos: pos(p.op("[").pos)}}
	p.separated("]", func() { n.items = append(n.items, p.expression()) })
	return n
}

// separated parses elements up to a closing bracket; a comma may follow the last one.
func (p *parser) separated(end string, element func()) {
	for first := true; !p.isOp(end); first = false {
		if !first {
			p.op(",")
			if p.isOp(end) {
				break
			}
		}
		element()
	}
	p.op(end)
}

func (p *parser) dict() node {
	n := &dictNode{group{pos: pos(p.op("{").pos)}}
	p.separated("}", func() {
		n.items = append(n.items, p.expression())
		p.op(":")
		n.items = append(n.items, p.expression())
	})
	return n
}

func (p *parser) postfix(n node) node {
	for links := 0; ; links++ {
		p.chain(links)
		switch {
		case p.isOp(".") || p.isOp("["):
			n = p.subscript(n)
		case p.isOp("("):
			n = &callNode{pos(p.cur().pos), n, p.callArguments()}
		default:
			return n
		}
	}
}

func (p *parser) filterExpr(n node) node {
	for links := 0; ; links++ {
		p.chain(links)
		switch {
		case p.isOp("|"):
			n = p.filters(n)
		case p.isName("is"):
			n = p.test(n)
		case p.isOp("("):
			n = &callNode{pos(p.cur().pos), n, p.callArguments()}
		default:
			return n
		}
	}
}

func (p *parser) subscript(n node) node {
	t := p.next()
	if t.text == "." {
		a := p.next()
		switch {
		case a.kind == tokName:
			return &attrNode{pos(t.pos), n, a.text}
		case a.kind == tokNumber && a.text == "integer":
			return &itemNode{pos(t.pos), n, &constNode{pos(a.pos), a.num}}
		}
		p.fail(a, "expected name or number")
	}
	var args []node
	for !p.isOp("]") {
		if args != nil {
			p.op(",")
		}
		args = append(args, p.subscribed())
	}
	p.op("]")
	if len(args) == 1 {
		return &itemNode{pos(t.pos), n, args[0]}
	}
	return &itemNode{pos(t.pos), n, &tupleNode{group{pos(t.pos), args}}}
}

func (p *parser) subscribed() node {
	s := &sliceNode{pos: pos(p.cur().pos)}
	if !p.isOp(":") {
		n := p.expression()
		if !p.isOp(":") {
			return n
		}
		s.start = n
	}
	p.next()
	if !p.isOp(":") && !p.isOp("]") && !p.isOp(",") {
		s.stop = p.expression()
	}
	if p.skipOp(":") && !p.isOp("]") && !p.isOp(",") {
		s.step = p.expression()
	}
	return s
}

func (p *parser) callArguments() arguments {
	var a arguments
	open := p.op("(")
	p.separated(")", func() {
		switch {
		case p.isOp("**"):
			p.unsupported(p.cur(), "passing a dict of arguments")
		case a.star == nil && p.skipOp("*"):
			a.star = p.expression()
		case p.cur().kind == tokName && p.peek().is(tokOp, "="):
			a.names = append(a.names, p.next().text)
			p.next()
			a.values = append(a.values, p.expression())
		default:
			if a.values != nil || a.star != nil {
				p.fail(open, "invalid syntax for function call expression")
			}
			a.plain = append(a.plain, p.expression())
		}
	})
	return a
}

// filters parses the filters that follow n. It returns n itself if none follow.
func (p *parser) filters(n node) node {
	for links := 0; p.skipOp("|"); links++ {
		p.chain(links)
		n = p.oneFilter(n)
	}
	return n
}

func (p *parser) dottedName() token {
	t := p.expect(tokName, "", "name")
	for p.skipOp(".") {
		t.text += "." + p.expect(tokName, "", "name").text
	}
	return t
}

func (p *parser) oneFilter(n node) node {
	t := p.dottedName()
	f := &filterNode{applied{pos: pos(t.pos), node: n, name: t.text}}
	if p.isOp("(") {
		f.args = p.callArguments()
	}
	return f
}

func (p *parser) test(n node) node {
	is := p.next()
	negated := p.skipName("not")
	t := p.dottedName()
	test := &testNode{applied{pos: pos(is.pos), node: n, name: t.text}}
	switch c := p.cur(); {
	case c.is(tokOp, "("):
		test.args = p.callArguments()
	case c.kind == tokName || c.kind == tokString || c.kind == tokNumber || c.is(tokOp, "[") || c.is(tokOp, "{"):
		if c.is(tokName, "else") || c.is(tokName, "or") || c.is(tokName, "and") {
			break
		}
		if c.is(tokName, "is") {
			p.fail(c, "You cannot chain multiple tests with is")
		}
		test.args.plain = []node{p.postfix(p.primary(false))}
	}
	if negated {
		return &notNode{pos(is.pos), test}
	}
	return test
}
