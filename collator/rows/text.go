package rows

import (
	"bytes"
	"unsafe"

	"github.com/nat-go/nat-go/ttc/json"
)

// text appends a JSON string. Strings are escaped as ASCII, as Python's json.dumps does by default, so a lone surrogate
// in the source, which UTF-8 can't express, survives.
func (e *Encoder) text(dst []byte, s string) []byte {
	switch {
	case e.err != nil:
		return dst
	case s == "":
		return append(dst, `""`...)
	}
	at := unsafe.StringData(s)
	if i, ok := e.byText[at]; ok {
		if t := &e.escaped[i]; t.of == len(s) {
			e.lone = e.lone || t.lone
			return append(dst, t.json...)
		}
	}
	start := len(e.arena)
	var isUTF8 bool
	e.arena, isUTF8 = json.AppendChecked(e.arena, s)
	b := e.arena[start:len(e.arena):len(e.arena)]
	lone := false
	if !isUTF8 {
		if e.back = json.Raw(b).AppendText(e.back[:0]); string(e.back) != s {
			return e.refused(dst, "the text %.40q is not UTF-8", s)
		}
		lone = loneSurrogate(b)
	}
	e.lone = e.lone || lone
	e.byText[at] = int32(len(e.escaped))
	e.escaped = append(e.escaped, escaped{b, len(s), lone})
	return append(dst, b...)
}

// member appends a member of an object. key includes the punctuation around it.
func (e *Encoder) member(dst []byte, key, text string) []byte {
	return e.text(append(dst, key...), text)
}

// item appends a separator unless the next item is the first in its list.
func item(dst []byte) []byte {
	if dst[len(dst)-1] == '[' {
		return dst
	}
	return append(dst, ", "...)
}

// escaped is a JSON-encoded string. The same string occurs in many rows, so each string is examined only once instead
// of in each row.
type escaped struct {
	json []byte
	of   int  // length of the original text in bytes
	lone bool // contains half a surrogate pair
}

// compact appends a JSON value from the source without white space, and records whether it contains half a surrogate
// pair.
func (e *Encoder) compact(dst []byte, raw json.Raw) []byte {
	n := len(dst)
	dst = json.AppendCompact(dst, raw)
	e.lone = e.lone || loneSurrogate(dst[n:])
	return dst
}

// loneSurrogate reports whether JSON contains the escape of half a surrogate pair: \ud83d without \ude00 after it, or
// the reverse. pyarrow, and therefore the datasets library, rejects a file that contains one.
func loneSurrogate(row []byte) bool {
	for {
		i := bytes.IndexByte(row, '\\')
		if i < 0 {
			return false
		}
		row = row[i:]
		switch half(row) {
		case high:
			if half(row[6:]) != low {
				return true
			}
			row = row[12:]
		case low:
			return true
		default:
			row = row[min(2, len(row)):] // another escape, possibly of a backslash
		}
	}
}

// The halves of a surrogate pair, by the second hex digit of their escape.
const (
	neither = iota
	high
	low
)

// half reports which half of a surrogate pair, if any, the escape at the start of b encodes.
func half(b []byte) int {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' || b[2]|0x20 != 'd' {
		return neither
	}
	switch c := b[3] | 0x20; {
	case b[3] == '8' || b[3] == '9' || c == 'a' || c == 'b':
		return high
	case c >= 'c' && c <= 'f':
		return low
	}
	return neither
}
