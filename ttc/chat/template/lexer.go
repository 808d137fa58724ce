package template

import (
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
	num  pyvalue.Value // number
	pos  int32
}

func (t token) is(kind tokenKind, text string) bool { return t.kind == kind && t.text == text }

func (t token) describe() string {
	switch t.kind {
	case tokEOF:
		return "end of template"
	case tokData:
		return "template data / text"
	case tokVarBegin:
		return "begin of print statement"
	case tokVarEnd:
		return "end of print statement"
	case tokBlockBegin:
		return "begin of statement block"
	case tokBlockEnd:
		return "end of statement block"
	case tokString:
		return "string"
	case tokNumber:
		return "number"
	}
	return t.text
}

// normalise converts every line break to a line feed and drops a trailing one (keep_trailing_newline is off).
func normalise(src string) string {
	if strings.IndexByte(src, '\r') >= 0 {
		src = strings.ReplaceAll(src, "\r\n", "\n")
		src = strings.ReplaceAll(src, "\r", "\n")
	}
	return strings.TrimSuffix(src, "\n")
}

// lexer cuts a template into tokens under trim_blocks and lstrip_blocks, as jinja2's lexer does.
type lexer struct {
	src      string
	pos      int
	tokens   []token
	brackets []byte
	// lineStart is set if the last match ended with a line feed, so white space before a block is at a line's start.
	lineStart bool
}

func lex(src string) []token {
	l := &lexer{src: src, lineStart: true}
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

func (l *lexer) advance(to int) {
	l.lineStart = to > l.pos && l.src[to-1] == '\n'
	l.pos = to
}

// root reads template data up to the next tag, and then the tag.
func (l *lexer) root() {
	start, at := l.pos, l.pos
	for {
		i := strings.IndexByte(l.src[at:], '{')
		if i < 0 || at+i+1 >= len(l.src) {
			l.data(l.src[start:], start)
			l.advance(len(l.src))
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
	switch {
	case raw >= 0:
		l.advance(raw)
		l.raw(at)
	case kind == '#':
		l.advance(after)
		l.comment(at)
	case kind == '{':
		l.advance(after)
		l.emit(tokVarBegin, "", at)
		l.tag(true)
	default:
		l.advance(after)
		l.emit(tokBlockBegin, "", at)
		l.tag(false)
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
	at = l.named(at, "raw")
	switch {
	case at < 0:
	case strings.HasPrefix(l.src[at:], "-%}"):
		return l.skipSpace(at + 3)
	case strings.HasPrefix(l.src[at:], "%}"):
		return at + 2
	}
	return -1
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
			l.advance(end)
			return
		}
	}
}

// stripped applies the tag's sign and lstrip_blocks to the data before it.
func (l *lexer) stripped(text string, sign byte, variable bool) string {
	switch {
	case sign == '-':
		return strings.TrimRightFunc(text, pytext.IsSpace)
	case sign == '+' || variable:
		return text
	}
	line := strings.LastIndexByte(text, '\n') + 1
	if (line > 0 || l.lineStart) && strings.TrimLeftFunc(text[line:], pytext.IsSpace) == "" {
		return text[:line]
	}
	return text
}

func (l *lexer) skipSpace(at int) int {
	return len(l.src) - len(strings.TrimLeftFunc(l.src[at:], pytext.IsSpace))
}

// closing matches the end of a block tag or comment: `+%}`, `-%}\s*` or `%}\n?`. It returns the end of the match, or
// -1.
func (l *lexer) closing(at int, end string) int {
	rest := l.src[at:]
	switch {
	case strings.HasPrefix(rest, "+"+end):
		return at + 1 + len(end)
	case strings.HasPrefix(rest, "-"+end):
		return l.skipSpace(at + 1 + len(end))
	case strings.HasPrefix(rest, end):
		at += len(end)
		if at < len(l.src) && l.src[at] == '\n' {
			at++
		}
		return at
	}
	return -1
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
	l.advance(l.closing(at, "#}"))
}

// tag reads the tokens of a print statement or block up to its end.
func (l *lexer) tag(variable bool) {
	l.brackets = l.brackets[:0]
	for l.pos < len(l.src) {
		if len(l.brackets) == 0 {
			if end := l.tagEnd(variable); end >= 0 {
				kind := tokBlockEnd
				if variable {
					kind = tokVarEnd
				}
				l.emit(kind, "", l.pos)
				l.advance(end)
				return
			}
		}
		if sp := l.skipSpace(l.pos); sp > l.pos {
			l.advance(sp)
			continue
		}
		l.expressionToken()
	}
}

func (l *lexer) tagEnd(variable bool) int {
	if !variable {
		return l.closing(l.pos, "%}")
	}
	switch rest := l.src[l.pos:]; {
	case strings.HasPrefix(rest, "-}}"):
		return l.skipSpace(l.pos + 3)
	case strings.HasPrefix(rest, "}}"):
		return l.pos + 2
	}
	return -1
}

func (l *lexer) expressionToken() {
	c := l.src[l.pos]
	switch {
	case c >= '0' && c <= '9':
		l.number()
	case c == '\'' || c == '"':
		l.str(c)
	default:
		if end := l.nameEnd(); end > l.pos {
			l.emit(tokName, l.src[l.pos:end], l.pos)
			l.advance(end)
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
	l.advance(l.pos + len(op))
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// digits returns the end of the run of digits that starts at a position.
func (l *lexer) digits(at int) int {
	for at < len(l.src) && isDigit(l.src[at]) {
		at++
	}
	return at
}

func (l *lexer) number() {
	start := l.pos
	if end, ok := l.floatEnd(); ok {
		f, err := strconv.ParseFloat(l.src[start:end], 64)
		if err != nil && f == 0 {
			throwAt(int32(start), "TemplateSyntaxError", "bad number %q", l.src[start:end])
		}
		l.tokens = append(l.tokens, token{kind: tokNumber, num: pyvalue.Float(f), pos: int32(start), text: "float"})
		l.advance(end)
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
	l.advance(end)
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
	l.advance(at + 1)
}

// unescape decodes a string literal as jinja2 does: non-ASCII characters are first written as escapes, then all escapes
// are decoded - so a backslash before a letter like é is kept, and the letter becomes text.
func unescape(s string, pos int) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	var out []byte
	for i := 0; i < len(s); {
		if s[i] != '\\' {
			out = append(out, s[i])
			i++
			continue
		}
		if i+1 == len(s) {
			throwAt(int32(pos), "TemplateSyntaxError", "\\ at end of string")
		}
		i++
		if s[i] >= 0x80 {
			r, n := pytext.DecodeRune(s[i:])
			out = append(append(out, '\\'), escapeText(r)...)
			i += n
			continue
		}
		var n int
		out, n = unescapeOne(out, s[i:], pos)
		i += n
	}
	return string(out)
}

// escapeText returns r's escape without its backslash, which the backslash before r in the template escapes.
func escapeText(r rune) string {
	switch {
	case r < 0x100:
		return fmt.Sprintf("x%02x", r)
	case r < 0x10000:
		return fmt.Sprintf("u%04x", r)
	}
	return fmt.Sprintf("U%08x", r)
}

var simpleEscapes = map[byte]byte{
	'\\': '\\',
	'\'': '\'',
	'"':  '"',
	'a':  7,
	'b':  8,
	'f':  12,
	'n':  '\n',
	'r':  '\r',
	't':  '\t',
	'v':  11,
}

// unescapeOne decodes the escape whose letter comes first in s and returns how many bytes of s it consumed.
func unescapeOne(out []byte, s string, pos int) ([]byte, int) {
	c := s[0]
	if plain, ok := simpleEscapes[c]; ok {
		return append(out, plain), 1
	}
	switch {
	case c == '\n':
		return out, 1
	case c >= '0' && c <= '7':
		n := 1
		for n < 3 && n < len(s) && s[n] >= '0' && s[n] <= '7' {
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
