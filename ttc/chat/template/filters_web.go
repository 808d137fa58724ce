package template

import (
	"strings"

	"github.com/nat-go/nat-go/ttc/internal/pytext"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// The filters that jinja2 has for web pages, and those that lay out prose.

func urlencodeFilter(st *state, v val, a *args) val {
	a.bind("urlencode", 0)
	it, ok := st.iterate(v)
	if v.Kind() == pyvalue.KindStr || !ok {
		return st.urlQuote(v, "/")
	}
	if d := v.Dict(); d != nil {
		it = slice((&dictView{"items", d}).items())
	}
	var parts []val
	for {
		item, ok := it.next()
		if !ok {
			return st.joinTexts(pyvalue.Str("&"), parts)
		}
		pair := st.unpack(item, 2)
		key, value := st.urlQuote(pair[0], ""), st.urlQuote(pair[1], "")
		st.spend(3 * valueSize)
		parts = append(parts, st.joinTexts(pyvalue.Str("="), []val{key, value}))
	}
}

// urlQuote percent-encodes all but letters, digits, "_.-~" and safe; in a query (no safe) a space is a plus.
func (st *state) urlQuote(v val, safe string) val {
	v = st.softText(v)
	const hex = "0123456789ABCDEF"
	return st.mapRunes(str(v.Text(), plainProv(provOf(v))), func(dst []byte, _ int, r rune) []byte {
		if r < 0x80 {
			c := byte(r)
			switch {
			case c >= 'a' && c <= 'z', c >= 'A' &&
				c <= 'Z', isDigit(c), strings.IndexByte("_.-~", c) >= 0, strings.IndexByte(safe, c) >= 0:
				return append(dst, c)
			case c == ' ' && safe == "":
				return append(dst, '+')
			}
		}
		if r >= 0xd800 && r < 0xe000 {
			throw("UnicodeEncodeError", "surrogates not allowed")
		}
		for _, c := range pytext.AppendRune(nil, r) {
			dst = append(dst, '%', hex[c>>4], hex[c&15])
		}
		return dst
	})
}

func xmlattrFilter(st *state, v val, a *args) val {
	space := or(a.bind("xmlattr", 0, "autospace")[0], pyvalue.True).Truth()
	d := defined(v).Dict()
	if d == nil {
		throw("AttributeError", "'%s' object has no attribute 'items'", v.TypeName())
	}
	var b builder
	for i := range d.Len() {
		k, x := d.At(i)
		if x.IsNone() || asUndefined(x) != nil {
			continue
		}
		if k.Kind() != pyvalue.KindStr {
			throw("TypeError", "expected string or bytes-like object, got '%s'", k.TypeName())
		}
		if strings.ContainsAny(k.Text(), " \t\n\r\f\v/>=") {
			throw("ValueError", "Invalid character in attribute name: %s", reprOf(k))
		}
		if len(b.b) > 0 || space {
			b.write(" ", nil)
		}
		k, x = st.escape(k), st.escape(x)
		b.write(k.Text(), provOf(k))
		b.write("=\"", nil)
		b.write(x.Text(), provOf(x))
		b.write("\"", nil)
	}
	st.spend(b.size())
	return st.markupIf(st.escaping, b.value())
}

// stripTagsFilter is Markup(v).striptags().
func stripTagsFilter(st *state, v val, a *args) val {
	a.bind("striptags", 0)
	return st.stripTags(st.softText(v))
}

func wordcountFilter(st *state, v val, a *args) val {
	a.bind("wordcount", 0)
	n, in := 0, false
	text := st.softText(v).Text()
	st.goesThrough(text)
	eachRune(text, func(_ int, r rune, _ int) {
		word := pytext.IsAlnum(r) || r == '_'
		if word && !in {
			n++
		}
		in = word
	})
	return pyvalue.Int(int64(n))
}
