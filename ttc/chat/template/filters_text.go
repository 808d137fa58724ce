package template

import (
	"math"
	"strings"

	"github.com/nat-go/nat-go/ttc/internal/pytext"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

func indentFilter(st *state, v val, a *args) val {
	a.refuse("indent", 2, "blank")
	p := a.bind("indent", 0, "width", "first")
	defined(v)
	if v.Kind() != pyvalue.KindStr {
		throw("TypeError", "unsupported operand type(s) for +=: '%s' and 'str'", v.TypeName())
	}
	width := or(p[0], pyvalue.Int(4))
	if width.Kind() != pyvalue.KindStr {
		n := max(0, index(width))
		st.checkRoom(min(n, math.MaxInt32))
		width = pyvalue.Str(strings.Repeat(" ", n))
	}
	b := st.borrow()
	if or(p[1], pyvalue.False).Truth() {
		b.write(width.Text(), provOf(width))
	}
	text := v.Text()
	lines := st.splitLines(v)
	if last, _ := lastRune(text); text == "" || isLineBreak(last) {
		lines = append(lines, pyvalue.Str("")) // jinja2 adds a line break before it splits
	}
	at := 0 // start of the line in the text
	for i, line := range lines {
		s := line.Text()
		body := strings.TrimRightFunc(s, isLineBreak)
		if i > 0 && body != "" {
			b.write(width.Text(), provOf(width))
		}
		b.writeSlice(s, provOf(line), 0, len(body))
		if i < len(lines)-1 {
			b.writeFrom([]byte{'\n'}, provOf(v), at+len(body))
		}
		at += len(s)
		st.checkRoom(b.size())
	}
	st.spend(b.size())
	return st.like(v, st.finish(b))
}

// lastRune returns the last character of s and its size.
func lastRune(s string) (rune, int) {
	k := max(0, len(s)-1)
	for k > 0 && s[k]&0xc0 == 0x80 {
		k--
	}
	r, _ := pytext.DecodeRune(s[k:])
	return r, len(s) - k
}

func joinFilter(st *state, v val, a *args) val {
	a.refuse("join", 1, "attribute")
	p := a.bind("join", 0, "d")
	it := st.mustIterate(v)
	sep := or(p[0], pyvalue.Str(""))
	b := st.borrow()
	first := true
	for item := range it.all {
		st.step()
		if !first {
			st.appendText(b, sep)
		}
		first = false
		st.appendText(b, item)
		st.checkRoom(b.size())
	}
	st.spend(b.size())
	return st.finish(b)
}

func replaceFilter(st *state, v val, a *args) val {
	a.refuse("replace", 2, "count")
	p := a.bind("replace", 2, "old", "new")
	// The str() of a Markup is plain text, so this filter never escapes.
	text := func(v val) val {
		s, q := st.text(v)
		return str(s, plainProv(q))
	}
	return st.replace(text(v), text(p[0]), text(p[1]))
}

// tojsonFilter implements transformers' tojson: json.dumps with ensure_ascii off and without HTML escaping.
func tojsonFilter(st *state, v val, a *args) val {
	b := st.borrow()
	st.dump(b, v, dumpOptions(st, v, a))
	st.spend(b.size())
	return st.finish(b)
}

// dumpOptions returns tojson's arguments. For a string, the indent and the separators have no effect, but the
// separators must still be a pair, as in Python.
func dumpOptions(st *state, of val, a *args) pyvalue.Dump {
	if a.none() {
		return pyvalue.Dump{}
	}
	a.refuse("tojson", 3, "sort_keys")
	p := a.bind("tojson", 0, "ensure_ascii", "indent", "separators")
	o := pyvalue.Dump{ASCII: or(p[0], pyvalue.False).Truth()}
	text := of.Kind() == pyvalue.KindStr
	if seps := or(p[2], pyvalue.None); !seps.IsNone() {
		if pair := st.unpack(seps, 2); !text {
			o.Separators = &[2]string{textArg(pair[0], "separator").Text(), textArg(pair[1], "separator").Text()}
		}
	}
	if indent := or(p[1], pyvalue.None); !indent.IsNone() && !text {
		if indent.Kind() == pyvalue.KindStr {
			throwUnsupported("a string as tojson's indent")
		}
		n := max(0, index(indent))
		st.checkRoom(min(n, math.MaxInt32))
		o.Indented, o.Indent = true, strings.Repeat(" ", n)
	}
	return o
}

func trimFilter(st *state, v val, a *args) val {
	chars := missing
	if !a.none() {
		chars = a.bind("trim", 0, "chars")[0]
	}
	return st.strip(st.softText(v), chars, true, true)
}
