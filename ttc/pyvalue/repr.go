package pyvalue

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/nat-go/nat-go/ttc/internal/pytext"
	"github.com/nat-go/nat-go/ttc/json"
)

// A Marker is called while values are printed, to report where output comes from. The bytes from dst up to the next
// call's dst are the output of the leaf v, or punctuation of the list or dict v. A text's output includes its quotes
// and escapes. A Marker may panic to stop the printing, because printers don't hold resources.
type Marker func(v Value, dst int)

func (m Marker) at(v Value, dst int) {
	if m != nil {
		m(v, dst)
	}
}

// Repr implements repr(v).
func Repr(v Value) (string, error) {
	b, err := AppendRepr(nil, v, nil)
	return string(b), err
}

// ToStr implements str(v).
func ToStr(v Value) (string, error) {
	b, err := AppendStr(nil, v, nil)
	return string(b), err
}

// AppendStr appends str(v). mark may be nil.
func AppendStr(dst []byte, v Value, mark Marker) ([]byte, error) {
	switch v.kind {
	case KindStr:
		mark.at(v, len(dst))
		return append(dst, v.text()...), nil
	case KindObject:
		if o, ok := v.Object().(interface{ Str() string }); ok {
			mark.at(v, len(dst))
			return append(dst, o.Str()...), nil
		}
	}
	return AppendRepr(dst, v, mark)
}

// Printer is an object that prints other values. It passes mark and depth on to AppendReprAt.
type Printer interface {
	AppendRepr(dst []byte, mark Marker, depth int) ([]byte, error)
}

// AppendReprAt is like AppendRepr, for a value nested inside an object at the given depth.
func AppendReprAt(dst []byte, v Value, mark Marker, depth int) ([]byte, error) {
	if depth > MaxDepth {
		return dst, errTooDeep()
	}
	switch v.kind {
	case KindStr:
		if sub, ok := v.Tag().(subclass); ok && sub.ClassName() != "" {
			mark.at(v, len(dst))
			dst = append(append(dst, sub.ClassName()...), '(')
			return append(appendQuoted(dst, v, mark), ')'), nil
		}
		return appendQuoted(dst, v, mark), nil
	case KindList, KindTuple, KindDict:
		return appendContainer(dst, v, mark, depth)
	}
	mark.at(v, len(dst))
	switch v.kind {
	case KindNone:
		return append(dst, "None"...), nil
	case KindBool:
		if v.n != 0 {
			return append(dst, "True"...), nil
		}
		return append(dst, "False"...), nil
	case KindInt:
		return AppendInt(dst, v)
	case KindFloat:
		return AppendFloat(dst, v.Float64()), nil
	}
	switch o := v.Object().(type) {
	case Printer:
		return o.AppendRepr(dst, mark, depth+1)
	case interface{ Repr() string }:
		return append(dst, o.Repr()...), nil
	}
	return append(append(append(dst, '<'), v.TypeName()...), " object>"...), nil
}

// subclass is a tag that makes a str an instance of a Python subclass: its repr is Name('text'). An empty name means
// str itself.
type subclass interface{ ClassName() string }

// AppendRepr appends repr(v). mark may be nil. It fails only on values that are nested too deeply, and on ints that
// AppendInt rejects.
func AppendRepr(dst []byte, v Value, mark Marker) ([]byte, error) {
	return AppendReprAt(dst, v, mark, 0)
}

// contents returns the brackets, keys and elements of a list, tuple or dict. Only a dict has keys.
func (v Value) contents() (brackets string, keys, items []Value) {
	switch v.kind {
	case KindDict:
		return "{}", v.Dict().keys, v.Dict().values
	case KindTuple:
		return "()", nil, v.Items()
	}
	return "[]", nil, v.Items()
}

func appendContainer(dst []byte, v Value, mark Marker, depth int) (_ []byte, err error) {
	brackets, keys, items := v.contents()
	mark.at(v, len(dst))
	dst = append(dst, brackets[0])
	for i, e := range items {
		if i > 0 {
			mark.at(v, len(dst))
			dst = append(dst, ", "...)
		}
		if keys != nil {
			if dst, err = AppendReprAt(dst, keys[i], mark, depth+1); err != nil {
				return dst, err
			}
			mark.at(v, len(dst))
			dst = append(dst, ": "...)
		}
		if dst, err = AppendReprAt(dst, e, mark, depth+1); err != nil {
			return dst, err
		}
	}
	mark.at(v, len(dst))
	if v.kind == KindTuple && len(items) == 1 {
		dst = append(dst, ',')
	}
	return append(dst, brackets[1]), nil
}

// maxIntDigits is CPython's limit for conversions between int and decimal text.
const maxIntDigits = 4300

// AppendInt appends an int in decimal. It fails beyond CPython's limit of 4300 digits.
func AppendInt(dst []byte, v Value) ([]byte, error) {
	if !v.isBig() {
		return strconv.AppendInt(dst, int64(v.n), 10), nil
	}
	if v.Big().BitLen() <= maxIntDigits*4 {
		text := v.Big().Append(nil, 10)
		if len(bytes.TrimPrefix(text, []byte{'-'})) <= maxIntDigits {
			return append(dst, text...), nil
		}
	}
	return dst, Errorf("ValueError", "Exceeds the limit (%d digits) for integer string conversion", maxIntDigits)
}

// AppendFloat appends repr(f): the shortest digits that read back as f, in Python's layout.
func AppendFloat(dst []byte, f float64) []byte { return appendFloat(dst, f, "nan", "inf") }

func appendFloat(dst []byte, f float64, nan, infinity string) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, nan...)
	case math.IsInf(f, -1):
		return append(append(dst, '-'), infinity...)
	case math.IsInf(f, 1):
		return append(dst, infinity...)
	}
	var buf [32]byte
	e := strconv.AppendFloat(buf[:0], f, 'e', -1, 64)
	exp, _ := strconv.Atoi(string(e[strings.LastIndexByte(string(e), 'e')+1:]))
	if exp < -4 || exp >= 16 {
		return append(dst, e...) // Go and Python both write d.ddde+XX
	}
	at := len(dst)
	dst = strconv.AppendFloat(dst, f, 'f', -1, 64)
	if bytes.IndexByte(dst[at:], '.') < 0 {
		dst = append(dst, ".0"...)
	}
	return dst
}

// appendQuoted appends the repr of the str v. It uses single quotes, unless the text contains single quotes but no
// double quotes, and escapes characters that are not printable in Unicode 14.
func appendQuoted(dst []byte, v Value, mark Marker) []byte {
	s := v.text()
	quote := byte('\'')
	if strings.IndexByte(s, '\'') >= 0 && strings.IndexByte(s, '"') < 0 {
		quote = '"'
	}
	mark.at(v, len(dst))
	dst = append(dst, quote)
	run := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c < 0x7f && c != '\\' && c != quote {
			i++
			continue
		}
		r, size := pytext.DecodeRune(s[i:])
		if c >= utf8.RuneSelf && pytext.IsPrintable(r) {
			i += size
			continue
		}
		if run < i {
			dst = append(dst, s[run:i]...)
		}
		dst = appendEscape(dst, r, quote)
		i += size
		run = i
	}
	if run < len(s) {
		dst = append(dst, s[run:]...)
	}
	return append(dst, quote)
}

func appendEscape(dst []byte, r rune, quote byte) []byte {
	switch {
	case r == rune(quote):
		return append(dst, '\\', quote)
	case r == '\\', r == '\n', r == '\r', r == '\t':
		return json.AppendEscape(dst, r)
	case r < 0x100:
		return fmt.Appendf(dst, `\x%02x`, r)
	case r < 0x10000:
		return fmt.Appendf(dst, `\u%04x`, r)
	}
	return fmt.Appendf(dst, `\U%08x`, r)
}
