package pyvalue

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"strconv"

	"github.com/nat-go/nat-go/ttc/json"
)

// Dump holds the options of json.dumps.
type Dump struct {
	ASCII    bool   // ensure_ascii
	Indented bool   // an indent is given, so each element has its own line
	Indent   string // indentation per level, if Indented
	// Separators are written between items and after keys; nil means Python's defaults.
	Separators *[2]string
}

// Python's default separators, without and with an indent.
var inLine, onLines = [2]string{", ", ": "}, [2]string{",", ": "}

// Dumps implements json.dumps(v) with Python's defaults (ensure_ascii on).
func Dumps(v Value) (string, error) {
	b, err := Dump{ASCII: true}.Append(nil, v, nil)
	return string(b), err
}

// Append appends json.dumps(v). mark may be nil. It fails where Python would: on values that JSON can't express, and
// values nested too deeply.
func (o Dump) Append(dst []byte, v Value, mark Marker) ([]byte, error) {
	if o.Separators == nil {
		o.Separators = &inLine
		if o.Indented {
			o.Separators = &onLines
		}
	}
	return o.value(dst, v, mark, 0)
}

func (o *Dump) value(dst []byte, v Value, mark Marker, depth int) ([]byte, error) {
	if depth > MaxDepth {
		return dst, errTooDeep()
	}
	switch v.kind {
	case KindStr:
		return o.text(dst, v, mark), nil
	case KindList, KindTuple, KindDict:
		return o.container(dst, v, mark, depth)
	case KindObject:
		return dst, Errorf("TypeError", "Object of type %s is not JSON serializable", v.TypeName())
	}
	mark.at(v, len(dst))
	return appendScalar(dst, v)
}

func appendScalar(dst []byte, v Value) ([]byte, error) {
	switch v.kind {
	case KindNone:
		return append(dst, "null"...), nil
	case KindBool:
		return strconv.AppendBool(dst, v.n != 0), nil
	case KindInt:
		return AppendInt(dst, v)
	}
	return AppendJSONFloat(dst, v.Float64()), nil
}

// AppendJSONFloat appends a float as json.dumps writes it: repr(f), or a bare word for values that a JSON number can't
// represent.
func AppendJSONFloat(dst []byte, f float64) []byte { return appendFloat(dst, f, "NaN", "Infinity") }

// newline starts a line in the output of v. For a long indent, it calls mark at each level, so that the Marker can
// stop the printing.
func (o *Dump) newline(dst []byte, v Value, mark Marker, depth int) []byte {
	if !o.Indented {
		return dst
	}
	dst = append(dst, '\n')
	for range depth {
		if len(o.Indent) > 1024 {
			mark.at(v, len(dst))
		}
		dst = append(dst, o.Indent...)
	}
	return dst
}

func (o *Dump) container(dst []byte, v Value, mark Marker, depth int) (_ []byte, err error) {
	brackets, keys, items := v.contents()
	if v.kind == KindTuple {
		brackets = "[]"
	}
	mark.at(v, len(dst))
	if len(items) == 0 {
		return append(dst, brackets...), nil
	}
	dst = append(dst, brackets[0])
	for i := range items {
		if i > 0 {
			mark.at(v, len(dst))
			dst = append(dst, o.Separators[0]...)
		}
		dst = o.newline(dst, v, mark, depth+1)
		if keys != nil {
			if dst, err = o.key(dst, keys[i], mark); err != nil {
				return dst, err
			}
			mark.at(v, len(dst))
			dst = append(dst, o.Separators[1]...)
		}
		if dst, err = o.value(dst, items[i], mark, depth+1); err != nil {
			return dst, err
		}
	}
	mark.at(v, len(dst))
	return append(o.newline(dst, v, mark, depth), brackets[1]), nil
}

func (o *Dump) key(dst []byte, k Value, mark Marker) ([]byte, error) {
	switch k.kind {
	case KindStr:
		return o.text(dst, k, mark), nil
	case KindNone, KindBool, KindInt, KindFloat:
		mark.at(k, len(dst))
		dst, err := appendScalar(append(dst, '"'), k)
		return append(dst, '"'), err
	}
	return dst, Errorf("TypeError", "keys must be str, int, float, bool or None, not %s", k.TypeName())
}

// text appends a JSON string. It escapes control characters, quotes, backslashes and, with ensure_ascii, non-ASCII
// characters. Because tool results are long and contain many quotes, eight bytes are examined and copied at a time.
// When a backslash is inserted before one of them, that byte and the rest of the eight are copied again.
func (o *Dump) text(dst []byte, v Value, mark Marker) []byte {
	mark.at(v, len(dst))
	s := v.text()
	if o.ASCII {
		return json.AppendASCII(dst, s)
	}
	dst = append(dst, '"')
	i := 0
next:
	n, room := len(dst), dst[:cap(dst)]
	for len(s)-i >= 8 {
		if len(room)-n < 24 { // space for eight escapes and for the bytes copied beyond them
			dst = slices.Grow(room[:n], len(s)-i+(len(s)-i)/4+24)
			room = dst[:cap(dst)]
		}
		w := binary.LittleEndian.Uint64([]byte(s[i : i+8]))
		binary.LittleEndian.PutUint64(room[n:n+8], w)
		done := 0 // how many of the eight bytes are processed; the next one goes to room[n]
		for special := escapes(w); special != 0; special &= special - 1 {
			k := bits.TrailingZeros64(special) / 8
			rest := w >> (8 * k & 63)
			n += k - done
			if c := byte(rest); c != '"' && c != '\\' { // a control character, which is rare
				dst, i = json.AppendEscape(room[:n], rune(c)), i+k+1
				goto next
			}
			room[n] = '\\'
			binary.LittleEndian.PutUint64(room[n+1:n+9], rest)
			n++
			done = k
		}
		n += 8 - done
		i += 8
	}
	dst = room[:n]
	for ; i < len(s); i++ {
		if c := s[i]; c >= ' ' && c != '"' && c != '\\' {
			dst = append(dst, c)
		} else {
			dst = json.AppendEscape(dst, rune(c))
		}
	}
	return append(dst, '"')
}

// escapes returns a word with the high bit set in each of its eight bytes that needs escaping in a JSON string.
func escapes(w uint64) uint64 {
	const ones, high, low = 0x0101010101010101, 0x8080808080808080, 0x7f7f7f7f7f7f7f7f
	seven := w & low
	// With bit 1 flipped, a quote and the bytes below a space are less than 0x21, and no other byte is.
	plain := ((seven ^ ones*2) + ones*(0x80-0x21)) & ((seven ^ ones*'\\') + low)
	return ^(plain | w) & high
}
