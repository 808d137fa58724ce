package pyvalue

import (
	"bytes"
	"math"
	"math/big"
	"strconv"

	"github.com/nat-go/nat-go/ttc/internal/pytext"
	"github.com/nat-go/nat-go/ttc/json"
)

// Parse is json.loads: ints may be of any size (up to CPython's 4300 digits), out-of-range floats are infinite, the
// last of several equal keys wins but takes the position of the first, NaN and Infinity are accepted, and two escaped
// surrogates form one character. raw should be syntax-checked: Parse returns an error for most other input, but never
// panics.
func Parse(raw json.Raw) (Value, error) {
	p := parser{b: raw}
	v, err := p.value(0)
	if err != nil {
		return None, err
	}
	p.space()
	if p.i != len(p.b) {
		return None, p.bad()
	}
	return v, nil
}

type parser struct {
	b []byte
	i int
}

func (p *parser) bad() error {
	return Errorf("JSONDecodeError", "not a JSON value at byte %d", p.i)
}

func (p *parser) space() {
	for p.i < len(p.b) {
		switch p.b[p.i] {
		case ' ', '\t', '\n', '\r':
			p.i++
		default:
			return
		}
	}
}

func (p *parser) peek() byte {
	if p.i < len(p.b) {
		return p.b[p.i]
	}
	return 0
}

func (p *parser) value(depth int) (Value, error) {
	if depth > MaxDepth {
		return None, errTooDeep()
	}
	p.space()
	switch c := p.peek(); c {
	case '{':
		return p.object(depth)
	case '[':
		return p.array(depth)
	case '"':
		s, err := p.text()
		return Str(s), err
	case 'n':
		return None, p.word("null")
	case 't':
		return True, p.word("true")
	case 'f':
		return False, p.word("false")
	case 'N':
		return Float(math.NaN()), p.word("NaN")
	case 'I':
		return Float(math.Inf(1)), p.word("Infinity")
	}
	if bytes.HasPrefix(p.b[p.i:], []byte("-Infinity")) {
		return Float(math.Inf(-1)), p.word("-Infinity")
	}
	return p.number()
}

func (p *parser) word(w string) error {
	if !bytes.HasPrefix(p.b[p.i:], []byte(w)) {
		return p.bad()
	}
	p.i += len(w)
	return nil
}

func (p *parser) object(depth int) (Value, error) {
	d := &Dict{}
	p.i++
	for p.space(); p.peek() != '}'; p.space() {
		if d.Len() > 0 {
			if p.peek() != ',' {
				return None, p.bad()
			}
			p.i++
			p.space()
		}
		if p.peek() != '"' {
			return None, p.bad()
		}
		k, err := p.text()
		if err != nil {
			return None, err
		}
		if p.space(); p.peek() != ':' {
			return None, p.bad()
		}
		p.i++
		v, err := p.value(depth + 1)
		if err != nil {
			return None, err
		}
		d.SetStr(k, v)
	}
	p.i++
	return OfDict(d), nil
}

func (p *parser) array(depth int) (Value, error) {
	var items []Value
	p.i++
	for p.space(); p.peek() != ']'; p.space() {
		if len(items) > 0 {
			if p.peek() != ',' {
				return None, p.bad()
			}
			p.i++
		}
		v, err := p.value(depth + 1)
		if err != nil {
			return None, err
		}
		items = append(items, v)
	}
	p.i++
	return NewList(items), nil
}

func (p *parser) number() (Value, error) {
	at, isFloat := p.i, false
scan:
	for ; p.i < len(p.b); p.i++ {
		switch c := p.b[p.i]; {
		case c >= '0' && c <= '9', c == '-', c == '+':
		case c == '.', c == 'e', c == 'E':
			isFloat = true
		default:
			break scan
		}
	}
	s := string(p.b[at:p.i])
	if isFloat {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil && !math.IsInf(f, 0) {
			return None, p.bad()
		}
		return Float(f), nil
	}
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return Int(i), nil
	}
	if len(s) > maxIntDigits+1 || len(s) == maxIntDigits+1 && s[0] != '-' {
		return None, errIntDigits()
	}
	i, ok := new(big.Int).SetString(s, 10)
	if !ok {
		return None, p.bad()
	}
	return BigInt(i), nil
}

func (p *parser) text() (string, error) {
	p.i++
	at := p.i
	for p.i < len(p.b) {
		switch p.b[p.i] {
		case '"':
			p.i++
			return intern(p.b[at : p.i-1]), nil
		case '\\':
			return p.escapedText(at)
		}
		p.i++
	}
	return "", p.bad()
}

func (p *parser) escapedText(at int) (string, error) {
	out := append(make([]byte, 0, p.i-at+32), p.b[at:p.i]...)
	for p.i < len(p.b) {
		c := p.b[p.i]
		p.i++
		switch {
		case c == '"':
			return string(out), nil
		case c != '\\':
			out = append(out, c)
		default:
			var ok bool
			if out, ok = p.escape(out); !ok {
				return "", p.bad()
			}
		}
	}
	return "", p.bad()
}

func (p *parser) escape(out []byte) ([]byte, bool) {
	c := p.peek()
	p.i++
	switch c {
	case '"', '\\', '/':
		return append(out, c), true
	case 'n':
		return append(out, '\n'), true
	case 't':
		return append(out, '\t'), true
	case 'r':
		return append(out, '\r'), true
	case 'b':
		return append(out, '\b'), true
	case 'f':
		return append(out, '\f'), true
	case 'u':
		return p.unicode(out)
	}
	return out, false
}

func (p *parser) unicode(out []byte) ([]byte, bool) {
	r, ok := p.hex4(p.i)
	if !ok {
		return out, false
	}
	p.i += 4
	if r >= 0xd800 && r < 0xdc00 && p.peek() == '\\' && p.i+1 < len(p.b) && p.b[p.i+1] == 'u' {
		if low, ok := p.hex4(p.i + 2); ok && low >= 0xdc00 && low < 0xe000 {
			p.i += 6
			r = 0x10000 + (r-0xd800)<<10 + low - 0xdc00
		}
	}
	return pytext.AppendRune(out, r), true
}

func (p *parser) hex4(at int) (rune, bool) {
	if at+4 > len(p.b) {
		return 0, false
	}
	n, err := strconv.ParseUint(string(p.b[at:at+4]), 16, 16)
	return rune(n), err == nil
}
