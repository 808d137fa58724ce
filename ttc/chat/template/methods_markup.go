package template

import (
	"html"
	"strings"

	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// markupMethods are the methods that Markup has beyond those of str.
var markupMethods = map[string]method{
	"escape": func(st *state, _ val, a *args) val { return st.escape(a.bind("escape", 1, "s")[0]) },
	"unescape": func(st *state, self val, a *args) val {
		a.bind("unescape", 0)
		return st.unescapeHTML(self)
	},
	"striptags": func(st *state, self val, a *args) val {
		a.bind("striptags", 0)
		return st.stripTags(self)
	},
}

// unescapeHTML replaces HTML character references with what they stand for.
func (st *state) unescapeHTML(v val) val {
	s, p := v.Text(), plainProv(provOf(v))
	if !strings.Contains(s, "&") {
		return str(s, p)
	}
	var b builder
	for i := 0; i < len(s); {
		at := strings.IndexByte(s[i:], '&')
		if at < 0 {
			b.writeSlice(s, p, i, len(s))
			break
		}
		b.writeSlice(s, p, i, i+at)
		i += at
		end := referenceEnd(s, i)
		if out := html.UnescapeString(s[i:end]); out != s[i:end] {
			b.writeFrom([]byte(out), p, i)
		} else {
			b.writeSlice(s, p, i, end)
		}
		i = end
	}
	st.spend(b.size())
	return b.value()
}

// referenceEnd is the end of what may be a character reference at i.
func referenceEnd(s string, i int) int {
	end := i + 1
	for end < len(s) && end-i <= 32 && !strings.ContainsRune("\t\n\f <&;", rune(s[end])) {
		end++
	}
	if end < len(s) && s[end] == ';' {
		end++
	}
	return end
}

// stripTags removes comments and tags, collapses runs of white space, and replaces character references.
func (st *state) stripTags(v val) val {
	v = str(v.Text(), plainProv(provOf(v)))
	v = st.without(v, "<!--", "-->")
	v = st.without(v, "<", ">")
	return st.unescapeHTML(st.joinTexts(pyvalue.Str(" "), st.splitSpace(v, -1, false)))
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
	st.spend(b.size())
	return b.value()
}
