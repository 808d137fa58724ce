package template

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/nat-go/nat-go/ttc/internal/pytext"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// The regular expressions of jinja2's urlize, for words: there is no white space in what they match.
var (
	linkPattern = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?is)^(?:(?:https?://|www\.)(?:(?:[\pL\pN_%-]+\.)+)?(?:[a-z]{2,63}|xn--[\pL\pN_%]{2,59})` +
			`|(?:[\pL\pN_%-]{2,63}\.)+(?:com|net|int|edu|gov|org|info|mil)` +
			`|https?://(?:\p{Nd}{1,3}(?:\.\p{Nd}{1,3}){3}|\[(?:[\p{Nd}a-f]{0,4}:){2}(?:[\p{Nd}a-f]{0,4}:?){1,6}\]))` +
			`(?::\p{Nd}{1,5})?(?:[/?#].*)?$`)
	})
	mailPattern = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?s)^.+@[\pL\pN_][\pL\pN_.-]*\.[\pL\pN_]+$`)
	})
	schemePattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[\pL\pN_.+-]{2,}:/{0,2}$`) })
)

// linker turns the words of a text that look like addresses into links.
type linker struct {
	st         *state
	limit      val // on the number of characters shown; None if there is none
	attributes val
	schemes    []string
	out        builder
}

func urlizeFilter(st *state, v val, a *args) val {
	p := a.bind("urlize", 0, "trim_url_limit", "nofollow", "target", "rel", "extra_schemes")
	l := &linker{st: st, limit: or(p[0], pyvalue.None)}
	l.attributes = linkAttributes(st, or(p[3], pyvalue.None), or(p[2], pyvalue.None), or(p[1], pyvalue.False).Truth())
	if schemes := or(p[4], pyvalue.None); !schemes.IsNone() {
		for _, s := range st.list(schemes) {
			if !schemePattern().MatchString(textArg(s, "a scheme").Text()) {
				throw("FilterArgumentError", "%s is not a valid URI scheme prefix.", reprOf(s))
			}
			l.schemes = append(l.schemes, s.Text())
		}
		if asGenerator(schemes) != nil { // Python has drawn them all by now
			l.schemes = nil
		}
	}
	text := markEscapes(st.escape(v))
	for i, s := 0, text.Text(); i < len(s); {
		j := i
		for j < len(s) && !startsWithSpace(s[j:]) {
			_, n := pytext.DecodeRune(s[j:])
			j += n
		}
		st.step()
		st.left -= 3 + int64(j-i)>>2 // a word is matched a few times, however short it is
		l.word(text, i, j)
		for i = j; i < len(s) && startsWithSpace(s[i:]); {
			_, n := pytext.DecodeRune(s[i:])
			i += n
		}
		l.slice(text, j, i)
		st.room(l.out.size())
	}
	st.spend(l.out.size())
	return st.markupIf(st.escaping, l.out.value())
}

func startsWithSpace(s string) bool {
	r, _ := pytext.DecodeRune(s)
	return pytext.IsSpace(r)
}

// linkAttributes are rel and target of every link.
func linkAttributes(st *state, rel, target val, nofollow bool) val {
	parts := []string{"noopener"}
	if rel.Truth() {
		if rel.Kind() != pyvalue.KindStr {
			throw("AttributeError", "'%s' object has no attribute 'split'", rel.TypeName())
		}
		for _, v := range st.splitSpace(rel, -1, false) {
			parts = append(parts, v.Text())
		}
	}
	if nofollow {
		parts = append(parts, "nofollow")
	}
	slices.Sort(parts)
	var b builder
	b.write(` rel="`, nil)
	b.write(st.escape(pyvalue.Str(strings.Join(slices.Compact(parts), " "))).Text(), nil)
	b.write(`"`, nil)
	if target.Truth() {
		target = st.escape(target)
		b.write(` target="`, nil)
		b.write(target.Text(), provOf(target))
		b.write(`"`, nil)
	}
	return b.value()
}

func (l *linker) slice(text val, i, j int) { l.out.writeSlice(text.Text(), rawProv(text), i, j) }

// word writes bytes i to j of the text, which are one word.
func (l *linker) word(text val, i, j int) {
	s := text.Text()
	start, end := i, j
	for n := 1; n > 0; start += n {
		n = prefixLen(s[start:end], "(", "<", "&lt;")
	}
	for n := 1; n > 0; end -= n {
		n = suffixLen(s[start:end], ")", ">", ".", ",", "&gt;")
	}
	for _, pair := range [][2]string{{"(", ")"}, {"<", ">"}, {"&lt;", "&gt;"}} {
		open := strings.Count(s[start:end], pair[0])
		if open <= strings.Count(s[start:end], pair[1]) {
			continue
		}
		for range min(open, strings.Count(s[end:j], pair[1])) {
			end += strings.Index(s[end:j], pair[1]) + len(pair[1])
		}
	}
	l.slice(text, i, start)
	l.address(text, start, end)
	l.slice(text, end, j)
}

func prefixLen(s string, of ...string) int {
	for _, p := range of {
		if strings.HasPrefix(s, p) {
			return len(p)
		}
	}
	return 0
}

func suffixLen(s string, of ...string) int {
	for _, p := range of {
		if strings.HasSuffix(s, p) {
			return len(p)
		}
	}
	return 0
}

func (l *linker) address(text val, i, j int) {
	s := text.Text()[i:j]
	switch {
	case linkPattern().MatchString(s):
		scheme := "https://"
		if strings.HasPrefix(s, "https://") || strings.HasPrefix(s, "http://") {
			scheme = ""
		}
		l.link(text, scheme, i, j, i, l.limit, true)
	case strings.HasPrefix(s, "mailto:") && mailPattern().MatchString(s[7:]):
		l.link(text, "", i, j, i+7, pyvalue.None, false)
	case isMailAddress(s):
		l.link(text, "mailto:", i, j, i, pyvalue.None, false)
	case slices.ContainsFunc(l.schemes,
		func(scheme string) bool { return s != scheme && strings.HasPrefix(s, scheme) }):
		l.link(text, "", i, j, i, pyvalue.None, true)
	default:
		l.slice(text, i, j)
	}
}

func isMailAddress(s string) bool {
	return strings.Contains(s, "@") && !strings.HasPrefix(s, "www.") && s[0] != '@' && !strings.Contains(s, ":") &&
		mailPattern().MatchString(s)
}

// link writes a link to scheme and bytes i to j of the text that displays bytes shown to j, up to the limit, which
// Python compares and slices with only if there is a link.
func (l *linker) link(text val, scheme string, i, j, shown int, limit val, attributes bool) {
	l.out.write(`<a href="`+scheme, nil)
	l.slice(text, i, j)
	l.out.write(`"`, nil)
	if attributes {
		l.out.write(l.attributes.Text(), provOf(l.attributes))
	}
	l.out.write(">", nil)
	s := text.Text()[shown:j]
	n := pytext.Len(s)
	if !limit.IsNone() && l.st.holds(">", pyvalue.Int(int64(n)), limit) {
		_, stop, _ := bounds(n, pyvalue.None, limit, pyvalue.None)
		l.slice(text, shown, shown+pytext.ByteIndex(s, stop))
		l.out.write("...", nil)
	} else {
		l.slice(text, shown, j)
	}
	l.out.write("</a>", nil)
}
