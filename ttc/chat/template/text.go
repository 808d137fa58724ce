package template

import (
	"strings"
	"unicode/utf8"

	"github.com/nat-go/nat-go/ttc/internal/pytext"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// The functions here transform strings while tracking the origin of every byte.

// strip removes white space, or the characters in chars, from the requested sides.
func (st *state) strip(v, chars val, left, right bool) val {
	s := v.Text()
	in, i, j := pytext.IsSpace, 0, len(s)
	switch {
	case isMissing(chars) || chars.IsNone(): // fast path: most strings begin and end with ASCII other than white space
		left = left && i < j && !(s[i] > ' ' && s[i] < utf8.RuneSelf)
		right = right && i < j && !(s[j-1] > ' ' && s[j-1] < utf8.RuneSelf)
	case chars.Kind() == pyvalue.KindStr:
		st.left -= int64(len(chars.Text()))
		set := map[rune]bool{}
		eachRune(chars.Text(), func(_ int, r rune, _ int) { set[r] = true })
		in = func(r rune) bool { return set[r] }
	default:
		defined(chars)
		throw("TypeError", "strip arg must be None or str")
	}
	st.left -= int64(len(s)) >> 6
	for left && i < j {
		st.left--
		r, n := pytext.DecodeRune(s[i:])
		if !in(r) {
			break
		}
		i += n
	}
	for right && j > i {
		st.left--
		r, n := lastRune(s[i:j])
		if !in(r) {
			break
		}
		j -= n
	}
	if i == 0 && j == len(s) {
		return v
	}
	return st.cut(v, i, j)
}

// countScan counts the work of examining every character of a text.
func (st *state) countScan(s string) { st.left -= int64(len(s)) >> 2 }

func eachRune(s string, f func(at int, r rune, size int)) {
	for i := 0; i < len(s); {
		r, n := pytext.DecodeRune(s[i:])
		f(i, r, n)
		i += n
	}
}

// mapRunes rewrites a string character by character.
func (st *state) mapRunes(v val, f func(dst []byte, at int, r rune) []byte) val {
	s, p := v.Text(), provOf(v)
	st.spend(len(s))
	st.countScan(s)
	out := make([]byte, 0, len(s))
	aligned := true // every character kept its length, so the provenance is still valid
	eachRune(s, func(at int, r rune, size int) {
		n := len(out)
		out = f(out, at, r)
		aligned = aligned && len(out)-n == size
	})
	if p == nil || aligned {
		return str(string(out), p)
	}
	st.countScan(s)
	b := st.borrow()
	var one []byte
	eachRune(s, func(at int, r rune, size int) {
		if at&1023 == 0 {
			st.checkRoom(b.size())
		}
		one = f(one[:0], at, r)
		if len(one) == size {
			b.b = append(b.b, one...)
			b.p.addSlice(p, at, at+size)
		} else {
			b.writeFrom(one, p, at)
		}
	})
	return st.like(v, st.finish(b))
}

func (st *state) upper(v val) val {
	return st.mapRunes(v, func(dst []byte, _ int, r rune) []byte { return pytext.AppendUpper(dst, r) })
}

func (st *state) lower(v val) val {
	s := v.Text()
	return st.mapRunes(v, func(dst []byte, at int, r rune) []byte { return appendLower(dst, s, at, r) })
}

// appendLower appends lower() of a character in context: a capital sigma at the end of a word becomes a final sigma.
func appendLower(dst []byte, s string, at int, r rune) []byte {
	if r == 0x3a3 {
		if finalSigma(s, at) {
			return pytext.AppendRune(dst, 0x3c2)
		}
		return pytext.AppendRune(dst, 0x3c3)
	}
	return pytext.AppendLower(dst, r)
}

func finalSigma(s string, at int) bool {
	before := false
	for i := at; i > 0; {
		r, n := lastRune(s[:i])
		if !pytext.IsCaseIgnorable(r) {
			before = pytext.IsCased(r)
			break
		}
		i -= n
	}
	if !before {
		return false
	}
	for i := at + 2; i < len(s); {
		r, n := pytext.DecodeRune(s[i:])
		if !pytext.IsCaseIgnorable(r) {
			return !pytext.IsCased(r)
		}
		i += n
	}
	return true
}

func (st *state) capitalize(v val) val {
	s := v.Text()
	return st.mapRunes(v, func(dst []byte, at int, r rune) []byte {
		if at == 0 {
			return pytext.AppendTitle(dst, r)
		}
		return appendLower(dst, s, at, r)
	})
}

// title implements str.title(), which capitalises every run of cased letters.
func (st *state) title(v val) val {
	s := v.Text()
	return st.mapRunes(v, func(dst []byte, at int, r rune) []byte {
		if before, _ := lastRune(s[:at]); pytext.IsCased(before) {
			return appendLower(dst, s, at, r)
		}
		return pytext.AppendTitle(dst, r)
	})
}

// titleWords implements jinja2's title filter, which capitalises the first character after white space or one of -
// ( { [ <.
func (st *state) titleWords(v val) val {
	s, rest := v.Text(), 0 // rest is the start of the word's second character
	return st.mapRunes(str(s, plainProv(provOf(v))), func(dst []byte, at int, r rune) []byte {
		if before, _ := lastRune(s[:at]); at == 0 || isWordBreak(before) {
			_, n := pytext.DecodeRune(s[at:])
			rest = at + n
			return pytext.AppendUpper(dst, r)
		}
		return appendLower(dst, s[rest:], at-rest, r) // jinja2 lower-cases the rest of a word separately
	})
}

func isWordBreak(r rune) bool { return pytext.IsSpace(r) || strings.ContainsRune("-({[<", r) }

// escape implements markupsafe.escape: it escapes HTML's five special characters and leaves a Markup unchanged.
func (st *state) escape(v val) val {
	if isMarkup(v) {
		return v
	}
	v = st.softText(v)
	if strings.ContainsAny(v.Text(), "&<>'\"") {
		v = st.mapRunes(v, appendHTML)
	}
	return str(v.Text(), markupProv(provOf(v)))
}

var htmlEscapes = [...]string{'&': "&amp;", '<': "&lt;", '>': "&gt;", '\'': "&#39;", '"': "&#34;"}

func appendHTML(dst []byte, _ int, r rune) []byte {
	if int(r) < len(htmlEscapes) && htmlEscapes[r] != "" {
		return append(dst, htmlEscapes[r]...)
	}
	return pytext.AppendRune(dst, r)
}

// replace implements v.replace(old, new).
func (st *state) replace(v, old, with val) val {
	s, p, o := v.Text(), provOf(v), old.Text()
	st.left -= int64(len(s)) >> 6
	if o == "" {
		throwUnsupported("replacing an empty string")
	}
	if !strings.Contains(s, o) {
		return v
	}
	b := st.borrow()
	at := 0
	for i := strings.Index(s, o); i >= 0; i = strings.Index(s[at:], o) {
		b.writeSlice(s, p, at, at+i)
		b.write(with.Text(), provOf(with))
		st.checkRoom(b.size())
		at += i + len(o)
		st.step()
	}
	b.writeSlice(s, p, at, len(s))
	st.spend(b.size())
	return st.like(v, st.finish(b))
}

// split implements v.split(sep, limit).
func (st *state) split(v, sep val, limit int) val {
	if isMissing(sep) || sep.IsNone() {
		return st.newList(st.splitSpace(v, limit))
	}
	if sep.Kind() != pyvalue.KindStr {
		throw("TypeError", "must be str or None, not %s", sep.TypeName())
	}
	s, o := v.Text(), sep.Text()
	if o == "" {
		throw("ValueError", "empty separator")
	}
	st.spend(len(s))
	v = markEscapes(v)
	n := strings.Count(s, o)
	if limit >= 0 {
		n = min(n, limit)
	}
	out := st.values(n + 1)
	at := 0
	for k := range n {
		i := at + strings.Index(s[at:], o)
		out[k] = st.cut(v, at, i)
		at = i + len(o)
	}
	out[n] = st.cut(v, at, len(s))
	return st.newList(out)
}

// splitSpace splits at runs of white space, at most limit times unless limit is negative; the remainder keeps its white
// space.
func (st *state) splitSpace(v val, limit int) []val {
	v = markEscapes(v)
	s := v.Text()
	st.spend(len(s))
	st.countScan(s)
	var out []val
	start := -1 // start of an incomplete word
	add := func(end int) {
		st.spend(valueSize)
		out = append(out, st.cut(v, start, end))
		start = -1
	}
	eachRune(s, func(at int, r rune, _ int) {
		switch space := pytext.IsSpace(r); {
		case space && start >= 0 && len(out) != limit: // the remainder keeps its white space
			add(at)
		case !space && start < 0:
			start = at
		}
	})
	if start >= 0 {
		add(len(s))
	}
	return out
}

// splitLines returns the lines of a string, each with its line break.
func (st *state) splitLines(v val) []val {
	v = markEscapes(v)
	s := v.Text()
	st.spend(len(s))
	st.countScan(s)
	var out []val
	start := 0
	for i := 0; i < len(s); {
		r, n := pytext.DecodeRune(s[i:])
		i += n
		if !isLineBreak(r) {
			continue
		}
		if r == '\r' && i < len(s) && s[i] == '\n' {
			i++
		}
		out = append(out, st.cut(v, start, i))
		st.spend(valueSize)
		start = i
	}
	if start < len(s) {
		out = append(out, st.cut(v, start, len(s)))
	}
	return out
}

func isLineBreak(r rune) bool {
	switch r {
	case '\n', '\r', 0x0b, 0x0c, 0x1c, 0x1d, 0x1e, 0x85, 0x2028, 0x2029:
		return true
	}
	return false
}
