package template

import (
	"slices"
	"strings"

	"github.com/nat-go/nat-go/ttc/pyvalue"
)

const (
	// maxNesting is the maximum nesting depth of expressions and blocks in a template.
	maxNesting = 100
	// maxChain is the maximum length of an unparenthesised chain of operators of the same precedence, of lookups and
	// calls, or of filters and tests.
	maxChain = 2000
)

// parser turns tokens into nodes. It implements jinja2's grammar with the extensions that transformers enables, loop
// controls and generation blocks.
type parser struct {
	tokens []token
	i      int
	depth  int
	ends   [][]string // the end tags of the blocks being parsed
	open   []string   // the tags of the blocks being parsed
}

func (p *parser) cur() token  { return p.tokens[p.i] }
func (p *parser) peek() token { return p.tokens[min(p.i+1, len(p.tokens)-1)] }

func (p *parser) next() token {
	t := p.tokens[p.i]
	if p.i < len(p.tokens)-1 {
		p.i++
	}
	return t
}

func (p *parser) fail(t token, format string, a ...any) {
	throwAt(t.pos, "TemplateSyntaxError", format, a...)
}

func (p *parser) unsupported(t token, what string) {
	throwAt(t.pos, unsupportedError, "%s is not supported in chat templates", what)
}

func (p *parser) isOp(op string) bool     { return p.cur().is(tokOp, op) }
func (p *parser) isName(name string) bool { return p.cur().is(tokName, name) }

func (p *parser) skip(kind tokenKind, text string) bool {
	found := p.cur().is(kind, text)
	if found {
		p.next()
	}
	return found
}

func (p *parser) skipOp(op string) bool     { return p.skip(tokOp, op) }
func (p *parser) skipName(name string) bool { return p.skip(tokName, name) }

func (p *parser) expect(kind tokenKind, text, what string) token {
	t := p.cur()
	if t.kind != kind || text != "" && t.text != text {
		if t.kind == tokEOF {
			p.fail(t, "unexpected end of template, expected '%s'.", what)
		}
		p.fail(t, "expected token '%s', got '%s'", what, t.describe())
	}
	return p.next()
}

func (p *parser) op(op string) token { return p.expect(tokOp, op, op) }

func (p *parser) enter(t token) {
	if p.depth++; p.depth > maxNesting {
		throwAt(t.pos, "LimitError", "the template nests deeper than %d", maxNesting)
	}
}

func (p *parser) leave() { p.depth-- }

// statements parses until it reaches one of the end tags, which becomes the current token. Without end tags, it parses
// to the end of the template.
func (p *parser) statements(ends []string) []node {
	p.enter(p.cur())
	defer p.leave()
	var body []node
	var out *outputNode
	add := func(n node) {
		if out == nil {
			out = &outputNode{group{pos: pos(n.at())}}
			body = append(body, out)
		}
		out.items = append(out.items, n)
	}
	for {
		switch t := p.cur(); t.kind {
		case tokEOF:
			if ends != nil {
				p.failUnknown("", t)
			}
			return body
		case tokData:
			add(&constNode{pos(t.pos), pyvalue.Str(t.text)})
			p.next()
		case tokVarBegin:
			p.next()
			add(p.tuple(tupleOptions{cond: true}))
			p.expect(tokVarEnd, "", "end of print statement")
		default:
			out = nil
			p.next()
			if p.cur().kind == tokName && slices.Contains(ends, p.cur().text) {
				return body
			}
			body = append(body, p.statement())
			p.expect(tokBlockEnd, "", "end of statement block")
		}
	}
}

// block parses the body of a tag up to one of the end tags, and consumes the end tag.
func (p *parser) block(ends ...string) ([]node, string) {
	p.skipOp(":")
	p.expect(tokBlockEnd, "", "end of statement block")
	p.ends = append(p.ends, ends)
	body := p.statements(ends)
	p.ends = p.ends[:len(p.ends)-1]
	return body, p.next().text
}

func (p *parser) statement() node {
	t := p.cur()
	if t.kind != tokName {
		p.fail(t, "tag name expected")
	}
	p.open = append(p.open, t.text)
	defer func() { p.open = p.open[:len(p.open)-1] }()
	p.next()
	switch t.text {
	case "for":
		return p.forStatement(t)
	case "if":
		return p.ifStatement(t)
	case "set":
		return p.setStatement(t)
	case "macro":
		return p.macroStatement(t)
	case "filter":
		return p.filterBlock(t)
	case "generation":
		m := &macroNode{pos: pos(t.pos)}
		m.body, _ = p.block("endgeneration")
		return &bodyNode{pos(t.pos), m}
	case "call":
		return p.callBlock(t)
	case "break":
		return &breakNode{pos(t.pos)}
	case "continue":
		return &continueNode{pos(t.pos)}
	case "autoescape", "block", "extends", "from", "import", "include", "print", "with":
		p.unsupported(t, "the tag "+t.text)
	}
	p.failUnknown(t.text, t)
	return nil
}

func (p *parser) failUnknown(name string, t token) {
	msg := "Unexpected end of template."
	if name != "" {
		msg = "Encountered unknown tag '" + name + "'."
	}
	if n := len(p.ends); n > 0 {
		msg += " Jinja was looking for the following tags: '" + strings.Join(p.ends[n-1], "' or '") + "'."
	}
	n := len(p.open)
	if name != "" {
		n-- // the last open tag is the unknown tag itself
	}
	if n > 0 {
		msg += " The innermost block that needs to be closed is '" + p.open[n-1] + "'."
	}
	p.fail(t, "%s", msg)
}

func (p *parser) forStatement(t token) node {
	n := &forNode{pos: pos(t.pos)}
	n.target = p.target(tupleOptions{end: "in"})
	p.expect(tokName, "in", "in")
	n.iter = p.tuple(tupleOptions{end: "recursive"})
	if p.skipName("if") {
		n.test = p.expression()
	}
	if p.isName("recursive") {
		p.unsupported(p.cur(), "a recursive loop")
	}
	var end string
	if n.body, end = p.block("endfor", "else"); end == "else" {
		n.otherwise, _ = p.block("endfor")
	}
	return n
}

func (p *parser) ifStatement(t token) node {
	n := &ifNode{pos: pos(t.pos)}
	for cur := n; ; {
		cur.test = p.tuple(tupleOptions{})
		var end string
		cur.body, end = p.block("elif", "else", "endif")
		switch end {
		case "elif":
			cur = &ifNode{pos: pos(p.cur().pos)}
			n.elifs = append(n.elifs, cur)
			continue
		case "else":
			n.otherwise, _ = p.block("endif")
		}
		return n
	}
}

func (p *parser) setStatement(t token) node {
	target := p.target(tupleOptions{namespace: true})
	if p.skipOp("=") {
		return &setNode{pos(t.pos), target, p.tuple(tupleOptions{cond: true})}
	}
	if p.isOp("|") {
		p.unsupported(p.cur(), "a filter on a set block")
	}
	body, _ := p.block("endset")
	return &setBlockNode{pos(t.pos), target, body}
}

func (p *parser) signature(m *macroNode) {
	p.op("(")
	for !p.isOp(")") {
		if len(m.params) > 0 {
			p.op(",")
		}
		name := p.expect(tokName, "", "name")
		p.assignable(name)
		m.params = append(m.params, &nameNode{pos(name.pos), name.text, useParam})
		if p.skipOp("=") {
			m.defaults = append(m.defaults, p.expression())
		} else if m.defaults != nil {
			p.fail(p.cur(), "non-default argument follows default argument")
		}
	}
	p.op(")")
}

func (p *parser) macroStatement(t token) node {
	name := p.expect(tokName, "", "name")
	p.assignable(name)
	m := &macroNode{pos: pos(t.pos), name: name.text}
	p.signature(m)
	m.body, _ = p.block("endmacro")
	return m
}

// callBlock parses a call block: it prints a call that receives the block's body as the argument caller.
func (p *parser) callBlock(t token) node {
	m := &macroNode{pos: pos(t.pos)}
	if p.isOp("(") {
		p.signature(m)
	}
	call, ok := p.expression().(*callNode)
	if !ok {
		p.fail(t, "expected call")
	}
	m.body, _ = p.block("endcall")
	call.args.names = append(call.args.names, "caller")
	call.args.values = append(call.args.values, &bodyNode{pos(t.pos), m})
	return &outputNode{group{pos(t.pos), []node{call}}}
}

func (p *parser) filterBlock(t token) node {
	first := p.oneFilter(nil)
	f := p.filters(first).(*filterNode)
	body, _ := p.block("endfilter")
	return &filterBlockNode{pos(t.pos), f, body}
}

func (p *parser) target(o tupleOptions) node {
	o.simple = true
	n := p.tuple(o)
	p.store(n)
	return n
}

func (p *parser) assignable(t token) {
	if slices.Contains([]string{"true", "false", "none", "True", "False", "None"}, t.text) {
		p.fail(t, "can't assign to 'name'")
	}
}

// store marks the names in a target as stored.
func (p *parser) store(n node) {
	switch n := n.(type) {
	case *nameNode:
		n.use = useStore
	case *nsRefNode:
	case *tupleNode:
		for _, e := range n.items {
			p.store(e)
		}
	default:
		throwAt(n.at(), "TemplateSyntaxError", "can't assign to this expression")
	}
}
