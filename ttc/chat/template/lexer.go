package template

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/nat-go/nat-go/ttc/internal/pytext"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

type tokenKind uint8

const (
	tokEOF tokenKind = iota
	tokData
	tokVarBegin
	tokVarEnd
	tokBlockBegin
	tokBlockEnd
	tokName
	tokString
	tokNumber
	tokOp
)

type token struct {
	kind tokenKind
	text string        // the data, name, operator or decoded string
	num  pyvalue.Value // the value of a number
	pos  int32
}

func (t token) is(kind tokenKind, text string) bool { return t.kind == kind && t.text == text }

// tokenNames are jinja2's names of the tokens that aren't described by their text.
var tokenNames = map[tokenKind]string{
	tokEOF:        "end of template",
	tokData:       "template data / text",
	tokVarBegin:   "begin of print statement",
	tokVarEnd:     "end of print statement",
	tokBlockBegin: "begin of statement block",
	tokBlockEnd:   "end of statement block",
	tokString:     "string",
	tokNumber:     "number",
}

func (t token) describe() string { return cmp.Or(tokenNames[t.kind], t.text) }

// normalise converts every line break to a line feed and drops a trailing one (keep_trailing_newline is off).
func normalise(src string) string {
	return strings.TrimSuffix(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(src), "\n")
}

// lexer splits a template into tokens under trim_blocks and lstrip_blocks, as jinja2's lexer does.
type lexer struct {
	src      string
	pos      int
	tokens   []token
	brackets []byte
}

func lex(src string) []token {
	l := &lexer{src: src}
	for l.pos < len(src) {
		l.root()
	}
	l.emit(tokEOF, "", len(src))
	return l.tokens
}

func (l *lexer) emit(kind tokenKind, text string, pos int) {
	l.tokens = append(l.tokens, token{kind: kind, text: text, pos: int32(pos)})
}

func (l *lexer) data(text string, pos int) {
	if text != "" {
		l.emit(tokData, text, pos)
	}
}

// root reads template data up to the next tag, and then the tag.
func (l *lexer) root() {
	start, at := l.pos, l.pos
	for {
		i := strings.IndexByte(l.src[at:], '{')
		if i < 0 || at+i+1 >= len(l.src) {
			l.data(l.src[start:], start)
			l.pos = len(l.src)
			return
		}
		at += i
		if c := l.src[at+1]; c == '{' || c == '%' || c == '#' {
			break
		}
		at++
	}
	text, kind := l.src[start:at], l.src[at+1]
	sign, after := l.sign(at + 2)
	raw := -1
	if kind == '%' {
		raw = l.rawBegin(after)
	}
	l.data(l.stripped(text, sign, kind == '{'), start)
	l.pos = max(raw, after)
	switch {
	case raw >= 0:
		l.raw(at)
	case kind == '#':
		l.comment(at)
	case kind == '{':
		l.emit(tokVarBegin, "", at)
		l.tag(tokVarEnd)
	default:
		l.emit(tokBlockBegin, "", at)
		l.tag(tokBlockEnd)
	}
}

// sign returns a tag's sign, or 0 if it doesn't have one, and the position after it.
func (l *lexer) sign(at int) (byte, int) {
	if at < len(l.src) && (l.src[at] == '-' || l.src[at] == '+') {
		return l.src[at], at + 1
	}
	return 0, at
}

// named returns the position after a tag's name and the white space around it, or -1 if the tag has a different name.
func (l *lexer) named(at int, name string) int {
	at = l.skipSpace(at)
	if !strings.HasPrefix(l.src[at:], name) {
		return -1
	}
	return l.skipSpace(at + len(name))
}

// rawBegin returns the end of a raw tag whose name is expected at the given position, or -1 if it is another tag.
// Unlike other tags, a raw tag keeps the line break after it.
func (l *lexer) rawBegin(at int) int {
	if at = l.named(at, "raw"); at < 0 {
		return -1
	}
	return l.end(at, "%}")
}

// raw reads text up to and including the endraw tag.
func (l *lexer) raw(open int) {
	start := l.pos
	for at := start; ; at += 2 {
		i := strings.Index(l.src[at:], "{%")
		if i < 0 {
			throwAt(int32(open), "TemplateSyntaxError", "Missing end of raw directive")
		}
		at += i
		sign, after := l.sign(at + 2)
		after = l.named(after, "endraw")
		if after < 0 {
			continue
		}
		if end := l.closing(after, "%}"); end >= 0 {
			l.data(l.stripped(l.src[start:at], sign, false), start)
			l.pos = end
			return
		}
	}
}

// stripped applies the tag's sign and lstrip_blocks to the data before it, which begins at l.pos.
func (l *lexer) stripped(text string, sign byte, variable bool) string {
	switch {
	case sign == '-':
		return strings.TrimRightFunc(text, pytext.IsSpace)
	case sign == '+' || variable:
		return text
	}
	line := strings.LastIndexByte(text, '\n') + 1
	lineStart := line > 0 || l.pos == 0 || l.src[l.pos-1] == '\n'
	if lineStart && strings.TrimLeftFunc(text[line:], pytext.IsSpace) == "" {
		return text[:line]
	}
	return text
}

func (l *lexer) skipSpace(at int) int {
	return len(l.src) - len(strings.TrimLeftFunc(l.src[at:], pytext.IsSpace))
}

// end matches the end of a tag: `-%}\s*` or `%}`. It returns the end of the match, or -1.
func (l *lexer) end(at int, mark string) int {
	switch rest := l.src[at:]; {
	case strings.HasPrefix(rest, "-"+mark):
		return l.skipSpace(at + 1 + len(mark))
	case strings.HasPrefix(rest, mark):
		return at + len(mark)
	}
	return -1
}

// closing matches the end of a block tag or comment: `+%}`, `-%}\s*` or `%}\n?`. It returns the end of the match, or
// -1.
func (l *lexer) closing(at int, mark string) int {
	if rest := l.src[at:]; strings.HasPrefix(rest, "+"+mark) || strings.HasPrefix(rest, mark+"\n") {
		return at + len(mark) + 1
	}
	return l.end(at, mark)
}

func (l *lexer) comment(open int) {
	i := strings.Index(l.src[l.pos:], "#}")
	if i < 0 {
		throwAt(int32(open), "TemplateSyntaxError", "Missing end of comment tag")
	}
	at := l.pos + i
	// A sign before the closing mark is part of that mark, unless the sign belongs to the opening mark.
	if at > l.pos && (l.src[at-1] == '-' || l.src[at-1] == '+') {
		at--
	}
	l.pos = l.closing(at, "#}")
}

// tag reads the tokens of a print statement or block up to its end, a token of the given kind.
func (l *lexer) tag(endKind tokenKind) {
	l.brackets = l.brackets[:0]
	for l.pos < len(l.src) {
		end := -1
		switch {
		case len(l.brackets) > 0:
		case endKind == tokVarEnd:
			end = l.end(l.pos, "}}")
		default:
			end = l.closing(l.pos, "%}")
		}
		if end >= 0 {
			l.emit(endKind, "", l.pos)
			l.pos = end
			return
		}
		if space := l.skipSpace(l.pos); space > l.pos {
			l.pos = space
			continue
		}
		l.expressionToken()
	}
}

func (l *lexer) expressionToken() {
	c := l.src[l.pos]
	switch {
	case isDigit(c):
		l.number()
	case c == '\'' || c == '"':
		l.str(c)
	default:
		if end := l.nameEnd(); end > l.pos {
			l.emit(tokName, l.src[l.pos:end], l.pos)
			l.pos = end
			return
		}
		l.operator()
	}
}

func (l *lexer) nameEnd() int {
	end := l.pos
	for end < len(l.src) {
		r, n := pytext.DecodeRune(l.src[end:])
		if r != '_' && !pytext.IsAlnum(r) {
			break
		}
		end += n
	}
	return end
}

var operators2 = []string{"//", "**", "==", "!=", ">=", "<="}

func (l *lexer) operator() {
	op := l.src[l.pos : l.pos+1]
	if two := l.src[l.pos:min(l.pos+2, len(l.src))]; slices.Contains(operators2, two) {
		op = two
	}
	switch op {
	case "{", "(", "[":
		l.brackets = append(l.brackets, map[string]byte{"{": '}', "(": ')', "[": ']'}[op])
		if len(l.brackets) > maxNesting {
			throwAt(int32(l.pos), "LimitError", "brackets nest deeper than %d", maxNesting)
		}
	case "}", ")", "]":
		n := len(l.brackets) - 1
		if n < 0 {
			throwAt(int32(l.pos), "TemplateSyntaxError", "unexpected '%s'", op)
		}
		if l.brackets[n] != op[0] {
			throwAt(int32(l.pos), "TemplateSyntaxError", "unexpected '%s', expected '%c'", op, l.brackets[n])
		}
		l.brackets = l.brackets[:n]
	case "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", ">", "<", "=", ".", ":", "|", ",", ";":
	default:
		r, _ := pytext.DecodeRune(l.src[l.pos:])
		throwAt(int32(l.pos), "TemplateSyntaxError", "unexpected char %q at %d", r, pytext.Len(l.src[:l.pos]))
	}
	l.emit(tokOp, op, l.pos)
	l.pos += len(op)
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// digits returns the end of the run of digits that starts at a position.
func (l *lexer) digits(at int) int {
	return len(l.src) - len(strings.TrimLeft(l.src[at:], "0123456789"))
}

func (l *lexer) number() {
	start := l.pos
	if end, ok := l.floatEnd(); ok {
		f, err := strconv.ParseFloat(l.src[start:end], 64)
		if err != nil && f == 0 {
			throwAt(int32(start), "TemplateSyntaxError", "bad number %q", l.src[start:end])
		}
		l.tokens = append(l.tokens, token{kind: tokNumber, num: pyvalue.Float(f), pos: int32(start), text: "float"})
		l.pos = end
		return
	}
	end := l.digits(start)
	i, err := strconv.ParseInt(l.src[start:end], 10, 64)
	if err != nil {
		tooLarge()
	}
	if l.src[start] == '0' && l.nameEnd() > start+1 || end < len(l.src) && l.src[end] == '_' {
		throwAt(int32(start), unsupportedError, "a number in a notation other than 123 is not supported in chat templates")
	}
	l.tokens = append(l.tokens, token{kind: tokNumber, num: pyvalue.Int(i), pos: int32(start), text: "integer"})
	l.pos = end
}

func (l *lexer) floatEnd() (int, bool) {
	if l.pos > 0 && l.src[l.pos-1] == '.' {
		return 0, false
	}
	at, ok := l.digits(l.pos), false
	if at+1 < len(l.src) && l.src[at] == '.' && isDigit(l.src[at+1]) {
		at, ok = l.digits(at+1), true
	}
	if at < len(l.src) && (l.src[at] == 'e' || l.src[at] == 'E') {
		e := at + 1
		if e < len(l.src) && (l.src[e] == '+' || l.src[e] == '-') {
			e++
		}
		if e < len(l.src) && isDigit(l.src[e]) {
			at, ok = l.digits(e), true
		}
	}
	return at, ok
}

func (l *lexer) str(quote byte) {
	at := l.pos + 1
	for at < len(l.src) && l.src[at] != quote {
		if l.src[at] == '\\' {
			at++
		}
		at++
	}
	if at >= len(l.src) {
		throwAt(int32(l.pos), "TemplateSyntaxError", "unexpected char %q at %d", rune(quote), pytext.Len(l.src[:l.pos]))
	}
	l.emit(tokString, unescape(l.src[l.pos+1:at], l.pos), l.pos)
	l.pos = at + 1
}

// unescape decodes a string literal as jinja2 does: non-ASCII characters are first replaced with escapes, then all
// escapes are decoded. A backslash before a letter such as é therefore remains, followed by the text of the letter's
// escape.
func unescape(s string, pos int) string {
	var out []byte
	for {
		text, escape, found := strings.Cut(s, `\`)
		out = append(out, text...)
		if !found {
			return string(out)
		}
		if escape == "" {
			throwAt(int32(pos), "TemplateSyntaxError", "\\ at end of string")
		}
		var n int
		out, n = unescapeOne(out, escape, pos)
		s = escape[n:]
	}
}

// unescapeOne decodes the escape whose letter is at the start of s and returns how many bytes of s it consumed.
func unescapeOne(out []byte, s string, pos int) ([]byte, int) {
	c := s[0]
	if i := strings.IndexByte(`\'"abfnrtv`, c); i >= 0 {
		return append(out, "\\'\"\a\b\f\n\r\t\v"[i]), 1
	}
	switch {
	case c >= 0x80: // jinja2 turns the letter into an escape, but the backslash before it escapes that one's
		r, n := pytext.DecodeRune(s)
		format := `\U%08x`
		if r < 0x100 {
			format = `\x%02x`
		} else if r < 0x10000 {
			format = `\u%04x`
		}
		return fmt.Appendf(out, format, r), n
	case c == '\n':
		return out, 1
	case c >= '0' && c <= '7':
		n := 1
		for n < min(3, len(s)) && s[n] >= '0' && s[n] <= '7' {
			n++
		}
		v, _ := strconv.ParseUint(s[:n], 8, 16)
		return pytext.AppendRune(out, rune(v)), n
	case c == 'x' || c == 'u' || c == 'U':
		digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]
		if len(s) > digits {
			if v, err := strconv.ParseUint(s[1:1+digits], 16, 32); err == nil && v <= unicode.MaxRune {
				return pytext.AppendRune(out, rune(v)), 1 + digits
			}
		}
		throwAt(int32(pos), "TemplateSyntaxError", "truncated or invalid \\%c escape", c)
	case c == 'N':
		throwAt(int32(pos), "TemplateSyntaxError", "character names (\\N{...}) are not supported; write \\u and the code point")
	}
	return append(out, '\\', c), 1
}
