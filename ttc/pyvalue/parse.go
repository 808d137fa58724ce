package pyvalue

import (
	"math"
	"math/big"
	"strconv"

	"github.com/nat-go/nat-go/ttc/json"
)

// Parse implements json.loads: ints may be of any size (up to CPython's 4300 digits), out-of-range floats are infinite,
// the last of several equal keys wins but takes the position of the first, NaN and Infinity are accepted, and two
// escaped surrogates form one character. Anything but JSON is an error.
func Parse(raw json.Raw) (Value, error) {
	raw, err := json.Parse(raw, json.Limits{Depth: math.MaxInt, Size: math.MaxInt64})
	if err != nil {
		return None, Errorf("JSONDecodeError", "%v", err)
	}
	c := raw.Cursor()
	return parse(&c, 0)
}

// parse reads the value after the cursor.
func parse(c *json.Cursor, depth int) (Value, error) {
	if depth > MaxDepth {
		return None, errTooDeep()
	}
	switch c.Kind() {
	case json.Object:
		d := &Dict{}
		c.Enter(json.Object)
		for key, ok := c.Member(); ok; key, ok = c.Member() {
			v, err := parse(c, depth+1)
			if err != nil {
				return None, err
			}
			d.SetStr(text(key), v)
		}
		return OfDict(d), nil
	case json.Array:
		var items []Value
		c.Enter(json.Array)
		for c.Element() {
			v, err := parse(c, depth+1)
			if err != nil {
				return None, err
			}
			items = append(items, v)
		}
		return NewList(items), nil
	case json.String:
		return Str(text(c.Value())), nil
	case json.Number:
		return number(c.Value()), nil
	case json.Bool:
		b, _ := c.Value().Bool()
		return Bool(b), nil
	}
	c.Skip()
	return None, nil
}

func number(raw json.Raw) Value {
	if !raw.IsInt() {
		f, _ := raw.Float64()
		return Float(f)
	}
	if i, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return Int(i)
	}
	i, _ := new(big.Int).SetString(string(raw), 10)
	return BigInt(i)
}

// text returns the text of a string. For a recurring word, it returns the shared copy.
func text(raw json.Raw) string {
	if s, ok := words[string(raw[1:len(raw)-1])]; ok {
		return s
	}
	s, _ := raw.Text()
	return s
}
