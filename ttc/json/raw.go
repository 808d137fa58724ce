package json

import (
	"bytes"
	"iter"
	"math"
	"strconv"
)

// Raw is one complete, syntax-checked JSON value without surrounding white space. It is a slice of the input: white
// space between tokens, escapes and number notation are kept as written. A Raw that did not come from this package must
// have passed Parse; methods may panic on anything else.
type Raw []byte

// Kind is the kind of a value.
type Kind uint8

// The kinds of values. NaN, Infinity and -Infinity are numbers.
const (
	Invalid Kind = iota // the zero Raw
	Null
	Bool
	Number
	String
	Array
	Object
)

func (k Kind) String() string {
	return [...]string{"nothing", "null", "a boolean", "a number", "a string", "an array", "an object"}[k]
}

// Kind returns the kind of the value, or Invalid for an empty Raw.
func (r Raw) Kind() Kind {
	if len(r) == 0 {
		return Invalid
	}
	return kindOf(r[0])
}

// kinds are the kinds of the values that aren't numbers, by their first bytes.
var kinds = [256]Kind{'{': Object, '[': Array, '"': String, 'n': Null, 't': Bool, 'f': Bool}

func kindOf(c byte) Kind {
	if k := kinds[c]; k != Invalid {
		return k
	}
	return Number
}

// Parse checks that data is one JSON value, surrounded by nothing but white space, and returns it. The Raw shares
// data's memory. The error is a *SyntaxError or a *SizeError.
func Parse(data []byte, lim Limits) (Raw, error) {
	lim = lim.orDefaults()
	var s scanner
	s.reset(lim.Depth)
	start := skipSpace(data, 0)
	if int64(len(data)-start) > lim.Size {
		return nil, &SizeError{Offset: int64(start), Limit: lim.Size}
	}
	end, st := s.scan(data, start, true)
	if st != complete {
		return nil, s.errorAt(data, end, 0, 1, int64(start), st)
	}
	if rest := skipSpace(data, end); rest != len(data) {
		return nil, newSyntaxError(data, rest, 0, 1, "expected the end of the input after the value")
	}
	if tooMany(data[start:end], lim.Objects) {
		return nil, &SizeError{Offset: int64(start), Limit: lim.Objects, Many: true}
	}
	return Raw(data[start:end]), nil
}

// Objects returns how many objects and lists a value contains, including itself. It stops counting once the number
// exceeds limit; brackets inside strings don't count.
func (r Raw) Objects(limit int64) int64 { return objects(r, limit) }

// Valid reports whether data is one JSON value within the default limits.
func Valid(data []byte) bool {
	_, err := Parse(data, Limits{})
	return err == nil
}

// Bool returns the value of a boolean.
func (r Raw) Bool() (value, ok bool) {
	if r.Kind() != Bool {
		return false, false
	}
	return r[0] == 't', true
}

// IsInt reports whether a number was written as an integer: without a fraction or an exponent. Python reads such a
// number as an int of any size, and any other as a float.
func (r Raw) IsInt() bool {
	if r.Kind() != Number {
		return false
	}
	last := r[len(r)-1]
	return last-'0' < 10 && bytes.IndexByte(r, '.') < 0 && bytes.IndexByte(r, 'e') < 0 && bytes.IndexByte(r, 'E') < 0
}

// Int64 returns the value of a number written as an integer, if it fits.
func (r Raw) Int64() (int64, bool) {
	if !r.IsInt() {
		return 0, false
	}
	n, err := strconv.ParseInt(string(r), 10, 64)
	return n, err == nil
}

// Float64 returns a number as Python's float(json.loads(...)) would: correctly rounded, NaN and infinities included,
// with out-of-range float literals becoming infinite. For an out-of-range integer, it returns false (Python raises
// OverflowError).
func (r Raw) Float64() (float64, bool) {
	if r.Kind() != Number {
		return 0, false
	}
	switch r[len(r)-1] {
	case 'N':
		return math.NaN(), true
	case 'y':
		if r[0] == '-' {
			return math.Inf(-1), true
		}
		return math.Inf(1), true
	}
	f, err := strconv.ParseFloat(string(r), 64)
	if r.IsInt() {
		return f + 0, err == nil // turns -0 into 0, as an int in Python
	}
	return f, true
}

// Members iterates over an object's members in order, including duplicates; the key is a raw string. For any other
// value, it yields nothing.
func (r Raw) Members() iter.Seq2[Raw, Raw] {
	return func(yield func(Raw, Raw) bool) {
		c := r.Cursor()
		if !c.Enter(Object) {
			return
		}
		for {
			key, ok := c.Member()
			if !ok || !yield(key, c.Value()) {
				return
			}
		}
	}
}

// Elements iterates over an array's elements. For any other value, it yields nothing.
func (r Raw) Elements() iter.Seq[Raw] {
	return func(yield func(Raw) bool) {
		c := r.Cursor()
		if !c.Enter(Array) {
			return
		}
		for c.Element() {
			if !yield(c.Value()) {
				return
			}
		}
	}
}

// Get returns the value of a key. The last duplicate wins, as in Python.
func (r Raw) Get(key string) (value Raw, ok bool) {
	for k, v := range r.Members() {
		if k.Is(key) {
			value, ok = v, true
		}
	}
	return value, ok
}

// Cursor walks through a value token by token, without reading any byte twice. It is the fastest way to read a
// large value: Members and Elements must find a value's end before they yield it, whereas a Cursor can enter the
// value immediately.
//
// A cursor is either before a value (Kind, Enter, Value) or inside a container (Member, Element).
type Cursor struct {
	data   []byte
	pos    int     // position in data; unused if there are tokens
	tokens []token // data's tokens, if they were recorded
	at     int     // index in tokens
}

// Cursor returns a cursor positioned before r.
func (r Raw) Cursor() Cursor { return Cursor{data: r} }

// Pos returns the cursor's offset in the value it was created from.
func (c *Cursor) Pos() int {
	switch {
	case len(c.tokens) == 0:
		return c.pos
	case c.at == len(c.tokens):
		return len(c.data)
	}
	return int(c.tokens[c.at].from)
}

// Kind returns the kind of the value at the cursor.
func (c *Cursor) Kind() Kind {
	pos := c.Pos()
	if pos >= len(c.data) {
		return Invalid
	}
	return kindOf(c.data[pos])
}

// Enter enters the value if it is a container of the given kind; the cursor is then before its first member or element.
// Otherwise it returns false and does not move.
func (c *Cursor) Enter(k Kind) bool {
	if c.Kind() != k || k != Object && k != Array {
		return false
	}
	c.pos++
	c.at++
	return true
}

// Member moves to the object's next member and returns its key (a raw string); the cursor is then before its value,
// which must be consumed by Value, Skip or Enter. At the object's end it returns false and the cursor is after the
// object.
func (c *Cursor) Member() (key Raw, ok bool) {
	if len(c.tokens) > 0 {
		t := c.tokens[c.at]
		c.at++
		if c.data[t.from] == '}' {
			return nil, false
		}
		return Raw(c.data[t.from:t.to]), true
	}
	if !c.next('}') {
		return nil, false
	}
	start := c.pos
	c.pos = endOfString(c.data, c.pos)
	key = Raw(c.data[start:c.pos])
	c.pos = skipSpace(c.data, c.pos)
	c.pos = skipSpace(c.data, c.pos+1) // after the colon
	return key, true
}

// Element moves to the array's next element; the cursor is then before it. At the array's end it returns false and the
// cursor is after the array.
func (c *Cursor) Element() bool {
	if len(c.tokens) == 0 {
		return c.next(']')
	}
	if c.data[c.tokens[c.at].from] == ']' {
		c.at++
		return false
	}
	return true
}

func (c *Cursor) next(end byte) bool {
	c.pos = skipSpace(c.data, c.pos)
	switch c.data[c.pos] {
	case end:
		c.pos++
		return false
	case ',':
		c.pos = skipSpace(c.data, c.pos+1)
	}
	return true
}

// Value returns the value after the cursor, and moves past it.
func (c *Cursor) Value() Raw {
	if len(c.tokens) > 0 {
		t := c.tokens[c.at]
		c.at = int(t.next)
		return Raw(c.data[t.from:t.to:t.to])
	}
	start := c.pos
	c.Skip()
	return Raw(c.data[start:c.pos:c.pos])
}

// Skip moves past the value after the cursor.
func (c *Cursor) Skip() {
	if len(c.tokens) > 0 {
		c.at = int(c.tokens[c.at].next)
		return
	}
	c.pos = endOfValue(c.data, c.pos)
}

// endOfValue returns the end of the value at data[i], which must be valid.
func endOfValue(data []byte, i int) int {
	switch data[i] {
	case '"':
		return endOfString(data, i)
	case '{', '[':
		depth := 0
		for {
			switch data[i] {
			case '"':
				i = endOfString(data, i)
				continue
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			case ' ':
				i = skipSpace(data, i)
				continue
			}
			i++
		}
	}
	for i++; i < len(data); i++ {
		switch data[i] {
		case ',', '}', ']', ' ', '\n', '\r', '\t':
			return i
		}
	}
	return i
}

// endOfString returns the end of the string at data[i] == '"', which must be valid.
func endOfString(data []byte, i int) int {
	i++
	for {
		n := bytes.IndexByte(data[i:], '"')
		i += n
		if n == 0 || data[i-1] != '\\' {
			return i + 1
		}
		back := i - 1
		for data[back] == '\\' { // the opening quote ends the loop
			back--
		}
		if i++; (i-back)&1 == 0 { // the number of backslashes is even, so the quote isn't escaped
			return i
		}
	}
}
