package template

import (
	"math"
	"strings"

	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// The filters jinja2 has for web pages, and those that lay out prose.

func urlencodeFilter(st *state, v val, a *args) val {
	a.bind("urlencode", 0)
	it, ok := iterate(v)
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
		pair := unpack(item, 2)
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
			case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', isDigit(c), strings.IndexByte("_.-~", c) >= 0, strings.IndexByte(safe, c) >= 0:
				return append(dst, c)
			case c == ' ' && safe == "":
				return append(dst, '+')
			}
		}
		if r >= 0xd800 && r < 0xe000 {
			throw("UnicodeEncodeError", "surrogates not allowed")
		}
		for _, c := range pyvalue.AppendRune(nil, r) {
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
	st.spend(len(b.b))
	return b.value()
}

// stripTagsFilter removes comments and tags, makes runs of white space one space, and decodes HTML's basic entities.
func stripTagsFilter(st *state, v val, a *args) val {
	a.bind("striptags", 0)
	v = st.softText(v)
	v = str(v.Text(), plainProv(provOf(v)))
	v = st.without(v, "<!--", "-->")
	v = st.without(v, "<", ">")
	v = st.joinTexts(pyvalue.Str(" "), st.splitSpace(v, -1, false))
	for _, e := range [][2]string{{"&lt;", "<"}, {"&gt;", ">"}, {"&#39;", "'"}, {"&#34;", "\""}, {"&quot;", "\""}, {"&amp;", "&"}} {
		v = st.replace(v, pyvalue.Str(e[0]), pyvalue.Str(e[1]), -1)
	}
	return v
}

// without removes everything from open to end.
func (st *state) without(v val, open, end string) val {
	s, p := v.Text(), provOf(v)
	var b builder
	at := 0
	for {
		i := strings.Index(s[at:], open)
		if i < 0 {
			break
		}
		j := strings.Index(s[at+i:], end)
		if j < 0 {
			break
		}
		b.writeSlice(s, p, at, at+i)
		at += i + j + len(end)
	}
	b.writeSlice(s, p, at, len(s))
	st.spend(len(b.b))
	return b.value()
}

func wordcountFilter(st *state, v val, a *args) val {
	a.bind("wordcount", 0)
	n, in := 0, false
	eachRune(st.softText(v).Text(), func(_ int, r rune, _ int) {
		word := pyvalue.IsAlnum(r) || r == '_'
		if word && !in {
			n++
		}
		in = word
	})
	return pyvalue.Int(int64(n))
}

// wordwrapFilter is textwrap.wrap of every line.
func wordwrapFilter(st *state, v val, a *args) val {
	p := a.bind("wordwrap", 0, "width", "break_long_words", "wrapstring", "break_on_hyphens")
	defined(v)
	if v.Kind() != pyvalue.KindStr {
		throw("AttributeError", "'%s' object has no attribute 'splitlines'", v.TypeName())
	}
	width := intArg(p[0], 79)
	if width <= 0 {
		throw("ValueError", "invalid width %d (must be > 0)", width)
	}
	glue := or(p[2], pyvalue.None)
	if glue.IsNone() {
		glue = pyvalue.Str("\n")
	}
	w := wrapper{st: st, width: width, breakWords: or(p[1], pyvalue.True).Truth(), hyphens: or(p[3], pyvalue.True).Truth()}
	var lines []val
	for _, line := range st.splitLines(v, false) {
		lines = append(lines, st.joinTexts(glue, w.wrap(line)))
	}
	return st.joinTexts(glue, lines)
}

type wrapper struct {
	st                  *state
	width               int
	breakWords, hyphens bool
}

// chunk is a piece of a line that isn't broken further, unless it is longer than a line.
type chunk struct {
	i, j  int
	space bool
}

// wrap lays out one line as CPython's TextWrapper does with drop_whitespace on and the other options off.
func (w *wrapper) wrap(line val) []val {
	s := line.Text()
	chunks := w.chunks(s)
	var out []val
	for k := 0; k < len(chunks); {
		w.st.step()
		if chunks[k].space && len(out) > 0 {
			k++
			if k == len(chunks) {
				break
			}
		}
		first, size := k, 0
		for k < len(chunks) {
			n := pyvalue.Len(s[chunks[k].i:chunks[k].j])
			if size+n > w.width {
				break
			}
			size += n
			k++
		}
		cur := append([]chunk(nil), chunks[first:k]...)
		if k < len(chunks) && pyvalue.Len(s[chunks[k].i:chunks[k].j]) > w.width {
			cur, chunks, k = w.long(s, cur, size, chunks, k)
		}
		for len(cur) > 0 && cur[len(cur)-1].space {
			cur = cur[:len(cur)-1]
		}
		if len(cur) > 0 {
			w.st.spend(valueSize)
			out = append(out, cut(line, cur[0].i, cur[len(cur)-1].j))
		}
	}
	return out
}

// long breaks the chunk at k, which is longer than a line, or gives it a line of its own.
func (w *wrapper) long(s string, cur []chunk, size int, chunks []chunk, k int) ([]chunk, []chunk, int) {
	space := max(1, w.width-size)
	c := chunks[k]
	if !w.breakWords {
		if len(cur) == 0 {
			return append(cur, c), chunks, k + 1
		}
		return cur, chunks, k
	}
	end := c.i + pyvalue.ByteIndex(s[c.i:c.j], space)
	if w.hyphens && pyvalue.Len(s[c.i:c.j]) > space {
		if h := strings.LastIndexByte(s[c.i:end], '-'); h > 0 && strings.Trim(s[c.i:c.i+h], "-") != "" {
			end = c.i + h + 1
		}
	}
	cur = append(cur, chunk{c.i, end, false})
	chunks = append([]chunk(nil), chunks...)
	chunks[k].i = end
	return cur, chunks, k
}

// chunks cuts a line at white space and, between letters, after hyphens.
func (w *wrapper) chunks(s string) []chunk {
	var out []chunk
	for i := 0; i < len(s); {
		space := isWrapSpace(s[i])
		j := i
		for j < len(s) && isWrapSpace(s[j]) == space {
			j++
		}
		if space || !w.hyphens {
			out = append(out, chunk{i, j, space})
		} else {
			out = append(out, hyphenated(s, i, j)...)
		}
		i = j
	}
	w.st.spend(valueSize * min(len(out), math.MaxInt32/valueSize))
	return out
}

func isWrapSpace(c byte) bool { return strings.IndexByte("\t\n\x0b\x0c\r ", c) >= 0 }

// hyphenated cuts a word after each hyphen that stands between two letters on either side, and round em-dashes.
func hyphenated(s string, i, j int) []chunk {
	var out []chunk
	start := i
	for k := i; k < j; k++ {
		if s[k] != '-' {
			continue
		}
		run := k
		for run < j && s[run] == '-' {
			run++
		}
		switch {
		case run-k >= 2 && k > start && run < j && isWordPunct(s, k) && isWordAt(s, run):
			out = append(out, chunk{start, k, false}, chunk{k, run, false})
			start = run
		case run-k == 1 && k-2 >= start && letterBefore(s, k, 2) && letterAfter(s, run, j):
			out = append(out, chunk{start, run, false})
			start = run
		}
		k = run - 1
	}
	return append(out, chunk{start, j, false})
}

func isWordAt(s string, at int) bool {
	r, _ := pyvalue.DecodeRune(s[at:])
	return pyvalue.IsAlnum(r) || r == '_'
}

func isWordPunct(s string, end int) bool {
	k := end - 1
	for k > 0 && s[k]&0xc0 == 0x80 {
		k--
	}
	r, _ := pyvalue.DecodeRune(s[k:])
	return pyvalue.IsAlnum(r) || strings.ContainsRune("_!\"'&.,?", r)
}

func letterBefore(s string, end, n int) bool {
	for range n {
		if end == 0 {
			return false
		}
		k := end - 1
		for k > 0 && s[k]&0xc0 == 0x80 {
			k--
		}
		if r, _ := pyvalue.DecodeRune(s[k:]); !(pyvalue.IsAlpha(r) || r == '_') {
			return false
		}
		end = k
	}
	return true
}

func letterAfter(s string, at, end int) bool {
	for n := 0; n < 2; n++ {
		if at >= end {
			return false
		}
		r, size := pyvalue.DecodeRune(s[at:])
		if !(pyvalue.IsAlpha(r) || r == '_') {
			return false
		}
		at += size
	}
	return true
}
