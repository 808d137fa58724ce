package where

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/nat-go/nat-go/builders/finding"
)

// parser turns a filter into functions. It panics with an *Error if the filter is invalid.
type parser[S any] struct {
	lexer
	fields []Field[S]
	named  []string // field names, in the order in which the filter uses them
}

// node is a parsed part of a filter. If the part names a field, Field is that field; otherwise Field has no name and
// computes the part's value.
type node[S any] struct {
	Field[S]
	from, to int
	constant *string   // value of a quoted string; nil for other nodes
	fields   []string  // names of the fields in an operand of `and`
	operands []node[S] // operands of an `and`
}

func (p *parser[S]) unexpected(expected string) {
	suggestion := ""
	if p.token.is("=") {
		suggestion = "=="
	}
	p.fail(p.token.from, p.token.to, suggestion, "expected %s, got %s", expected, &p.token)
}

// condition checks that a node is boolean and that the current token may follow it.
func (p *parser[S]) condition(n *node[S]) {
	if !p.token.is("", ")", "and", "&&", "or", "||") {
		p.unexpected("an operator, or the end of the filter")
	}
	if n.Bool == nil {
		p.fail(n.from, n.to, "", "expected a condition, got a %s", n.Type())
	}
}

func (p *parser[S]) or() node[S] {
	left := p.and()
	for p.token.is("or", "||") {
		left = p.both(left, p.and, func(a, b func(S) bool) func(S) bool {
			return func(s S) bool { return a(s) || b(s) }
		})
	}
	return left
}

func (p *parser[S]) and() node[S] {
	operand := func() node[S] {
		begin := len(p.named)
		n := p.not()
		n.fields = p.named[begin:len(p.named):len(p.named)]
		return n
	}
	left := operand()
	operands := []node[S]{left}
	for p.token.is("and", "&&") {
		left = p.both(left, func() node[S] {
			operands = append(operands, operand())
			return operands[len(operands)-1]
		}, func(a, b func(S) bool) func(S) bool {
			return func(s S) bool { return a(s) && b(s) }
		})
	}
	left.operands = operands
	return left
}

// both parses an operator and its right operand.
func (p *parser[S]) both(l node[S], right func() node[S], join func(a, b func(S) bool) func(S) bool) node[S] {
	p.next()
	r := right()
	p.condition(&l)
	p.condition(&r)
	return node[S]{Field: Field[S]{Bool: join(l.Bool, r.Bool)}, from: l.from, to: r.to}
}

func (p *parser[S]) not() node[S] {
	if !p.token.is("not", "!") {
		return p.comparison()
	}
	from := p.token.from
	p.next()
	n := p.not()
	p.condition(&n)
	return p.negated(n, from)
}

func (p *parser[S]) negated(n node[S], from int) node[S] {
	holds := n.Bool
	return node[S]{Field: Field[S]{Bool: func(s S) bool { return !holds(s) }}, from: from, to: n.to}
}

func (p *parser[S]) comparison() node[S] {
	left := p.sum()
	op := p.token
	switch {
	case op.is("=="), op.is("!="), op.is("<"), op.is("<="), op.is(">"), op.is(">="):
		p.next()
		return p.compared(op, left, p.sum())
	case op.is("contains"), op.is("startsWith"), op.is("endsWith"), op.is("matches"):
		p.next()
		return p.textTest(op.text, left, p.sum())
	case op.is("in"):
		return p.in(left)
	case op.is("not"):
		if p.next(); !p.token.is("in") {
			p.unexpected("in after not")
		}
		return p.negated(p.in(left), left.from)
	}
	return left
}

// comparisons maps the operators that compare numbers to their functions.
var comparisons = map[string]func(a, b float64) bool{
	"==": func(a, b float64) bool { return a == b },
	"!=": func(a, b float64) bool { return a != b },
	"<":  func(a, b float64) bool { return a < b },
	"<=": func(a, b float64) bool { return a <= b },
	">":  func(a, b float64) bool { return a > b },
	">=": func(a, b float64) bool { return a >= b },
}

func (p *parser[S]) compared(op token, l, r node[S]) node[S] {
	out := node[S]{from: l.from, to: r.to}
	equals := op.text == "=="
	switch {
	case l.Number != nil && r.Number != nil:
		a, b, holds := l.Number, r.Number, comparisons[op.text]
		out.Bool = func(s S) bool { return holds(a(s), b(s)) }
	case !op.is("==", "!="):
		p.fail(op.from, op.to, "", "cannot compare a %s and a %s by %s: expected numbers", l.Type(), r.Type(), op.text)
	case l.Is != nil && r.constant != nil:
		is := l.Is(*r.constant)
		out.Bool = func(s S) bool { return is(s) == equals }
	case l.Text != nil && r.Text != nil:
		p.hasValue(&l, &r)
		p.hasValue(&r, &l)
		a, b := l.Text, r.Text
		out.Bool = func(s S) bool { return (a(s) == b(s)) == equals }
	case l.Bool != nil && r.Bool != nil:
		a, b := l.Bool, r.Bool
		out.Bool = func(s S) bool { return (a(s) == b(s)) == equals }
	default:
		p.fail(op.from, op.to, "", "cannot compare a %s and a %s", l.Type(), r.Type())
	}
	return out
}

// hasValue checks that the string that a field is compared with is one of the field's possible values.
func (p *parser[S]) hasValue(of, value *node[S]) {
	if value.constant == nil || of.Values == nil || slices.Contains(of.Values, *value.constant) {
		return
	}
	near := finding.Nearest(*value.constant, of.Values)
	if near != "" {
		near = strconv.Quote(near)
	}
	p.fail(value.from, value.to, near, "unknown value %q of %s: expected %s", *value.constant, of.Name,
		strings.TrimSuffix(strings.Join(of.Values, ", "), ", "))
}

// textTests maps operators that compare strings to their functions. The operator matches is handled separately, because
// it needs a compiled expression.
var textTests = map[string]func(text, part string) bool{
	"contains": strings.Contains, "startsWith": strings.HasPrefix, "endsWith": strings.HasSuffix,
}

// textTest returns the condition `l op r`, which a list l meets if any string in it does.
func (p *parser[S]) textTest(op string, l, r node[S]) node[S] {
	if r.constant == nil {
		p.fail(r.from, r.to, "", "expected quoted text after %s", op)
	}
	test, what := textTests[op], *r.constant
	meets := func(s string) bool { return test(s, what) }
	if test == nil {
		re, err := regexp.Compile(what)
		if err != nil {
			p.fail(r.from, r.to, "", "invalid regular expression: %v", err)
		}
		meets = re.MatchString
	}
	out := node[S]{from: l.from, to: r.to}
	switch {
	case l.Text != nil:
		text := l.Text
		out.Bool = func(s S) bool { return meets(text(s)) }
	case l.Texts != nil:
		out.Bool = func(s S) bool { return l.Texts(s, meets) }
	default:
		p.fail(l.from, l.to, "", "expected text before %s, got a %s", op, l.Type())
	}
	return out
}

// in parses the operator `in` and the list after it. l is the value on the left.
func (p *parser[S]) in(l node[S]) node[S] {
	out := node[S]{from: l.from}
	if p.next(); !p.token.is("[") {
		r := p.sum()
		if r.Texts == nil || l.constant == nil {
			p.fail(l.from, r.to, "", "expected quoted text before in and a list after it, got a %s and a %s",
				l.Type(), r.Type())
		}
		p.hasValue(&r, &l)
		equals := func(text string) bool { return text == *l.constant }
		out.to, out.Bool = r.to, func(s S) bool { return r.Texts(s, equals) }
		return out
	}
	is := func(S) bool { return false }
	for done := false; !done; done = p.token.is("]") {
		eq := token{text: "==", from: p.token.from, to: p.token.to}
		p.next()
		before, one := is, p.compared(eq, l, p.sum()).Bool
		is = func(s S) bool { return before(s) || one(s) }
		if !p.token.is(",", "]") {
			p.unexpected("a comma or ]")
		}
	}
	out.to, out.Bool = p.token.to, is
	p.next()
	return out
}

func (p *parser[S]) sum() node[S]     { return p.arithmetic([]string{"+", "-"}, p.product) }
func (p *parser[S]) product() node[S] { return p.arithmetic([]string{"*", "/"}, p.operand) }

// arithmetic parses operands joined by operators.
func (p *parser[S]) arithmetic(operators []string, operand func() node[S]) node[S] {
	left := operand()
	for p.token.is(operators...) {
		op := p.token
		p.next()
		right := operand()
		a, b := left.Number, right.Number
		if a == nil || b == nil {
			p.fail(op.from, op.to, "", "expected numbers around %s, got a %s and a %s", op.text, left.Type(),
				right.Type())
		}
		left = node[S]{from: left.from, to: right.to}
		left.Number = map[string]func(S) float64{
			"+": func(s S) float64 { return a(s) + b(s) },
			"-": func(s S) float64 { return a(s) - b(s) },
			"*": func(s S) float64 { return a(s) * b(s) },
			"/": func(s S) float64 { return a(s) / b(s) },
		}[op.text]
	}
	return left
}

// operand parses a value, a field, or an expression in parentheses.
func (p *parser[S]) operand() (n node[S]) {
	t := p.token
	n = node[S]{from: t.from, to: t.to}
	switch {
	case t.quoted:
		n.constant, n.Text = &t.text, func(S) string { return t.text }
	case t.is("true", "false"):
		n.Bool = func(S) bool { return t.text == "true" }
	case t.is("-"):
		p.next()
		if n = p.operand(); n.Number == nil {
			p.fail(t.from, t.to, "", "expected a number after -, got a %s", n.Type())
		}
		of := n.Number
		return node[S]{Field: Field[S]{Number: func(s S) float64 { return -of(s) }}, from: t.from, to: n.to}
	case t.is("("):
		p.next()
		n = p.or()
		if !p.token.is(")") {
			p.unexpected("a closing parenthesis")
		}
		n.from, n.to, n.operands = t.from, p.token.to, nil
	case t.text != "" && t.text[0] >= '0' && t.text[0] <= '9':
		x, err := strconv.ParseFloat(t.text, 64)
		if err != nil {
			p.fail(t.from, t.to, "", "invalid number %q", t.text)
		}
		n.Number = func(S) float64 { return x }
	case t.text != "" && isWord([]rune(t.text)[0]) && !t.is("and", "or", "in", "contains", "matches"):
		n.Field = *p.field(t)
	default:
		p.unexpected("a field or a value")
	}
	p.next()
	return n
}

// field returns the field that a token names.
func (p *parser[S]) field(t token) *Field[S] {
	f := lookUp(p.fields, t.text)
	if f == nil {
		names := make([]string, len(p.fields))
		for i := range p.fields {
			names[i] = p.fields[i].Name
		}
		p.fail(t.from, t.to, finding.Nearest(t.text, names), "unknown field %q: expected one of %s", t.text,
			strings.Join(names, ", "))
	}
	p.named = append(p.named, f.Name)
	return f
}
