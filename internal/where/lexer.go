package where

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// lexer splits a filter into tokens.
type lexer struct {
	text  []rune
	at    int // index after the token
	token token
}

// token is a word, a number, an operator, a quoted string, or the end of the filter.
type token struct {
	from, to int // offsets in runes
	text     string
	quoted   bool
}

func (t *token) is(words ...string) bool { return !t.quoted && slices.Contains(words, t.text) }

func (t *token) String() string {
	switch {
	case t.quoted:
		return "a text"
	case t.text == "":
		return "the end of the filter"
	}
	return fmt.Sprintf("%q", t.text)
}

// twoCharOperators lists the two-character operators.
var twoCharOperators = []string{"==", "!=", "<=", ">=", "&&", "||"}

// next reads the next token.
func (l *lexer) next() {
	for l.at < len(l.text) && unicode.IsSpace(l.text[l.at]) {
		l.at++
	}
	from := l.at
	l.token = token{from: from}
	if from == len(l.text) {
		l.token.to = from
		return
	}
	switch c := l.text[from]; {
	case c == '"' || c == '\'':
		l.quoted(c)
	case unicode.IsDigit(c):
		inNumber := func(c rune) bool { return unicode.IsDigit(c) || unicode.IsLetter(c) || c == '.' }
		if l.while(inNumber); l.at < len(l.text) && strings.ContainsRune("eE", l.text[l.at-1]) &&
			strings.ContainsRune("+-", l.text[l.at]) { // the sign of an exponent
			l.at++
			l.while(inNumber)
		}
	case isWord(c):
		l.while(isWord)
	default:
		l.at++
		if l.at < len(l.text) && slices.Contains(twoCharOperators, string(l.text[from:l.at+1])) {
			l.at++
		}
	}
	if l.token.to = l.at; !l.token.quoted {
		l.token.text = string(l.text[from:l.at])
	}
}

func isWord(c rune) bool { return c == '_' || unicode.IsLetter(c) || unicode.IsDigit(c) }

func (l *lexer) while(is func(rune) bool) {
	for l.at < len(l.text) && is(l.text[l.at]) {
		l.at++
	}
}

// quoted reads a quoted string. A backslash escapes a quote or another backslash; any other backslash is part of the
// string.
func (l *lexer) quoted(quote rune) {
	var b strings.Builder
	for i := l.at + 1; i < len(l.text); i++ {
		switch c := l.text[i]; {
		case c == quote:
			l.at, l.token.text, l.token.quoted = i+1, b.String(), true
			return
		case c == '\\' && i+1 < len(l.text) && (l.text[i+1] == quote || l.text[i+1] == '\\'):
			i++
			b.WriteRune(l.text[i])
		default:
			b.WriteRune(c)
		}
	}
	l.fail(l.at, l.at+1, "", "text without a closing %c", quote)
}

// fail panics with an *Error about a part of the filter, which stops parsing.
func (l *lexer) fail(from, to int, suggestion, format string, a ...any) {
	before, rest := string(l.text[:from]), string(l.text[from:])
	start := strings.LastIndexByte(before, '\n') + 1
	line, _, _ := strings.Cut(before[start:]+rest, "\n")
	column := utf8.RuneCountInString(before[start:]) + 1
	panic(&Error{
		Text: line, Line: strings.Count(before, "\n") + 1, From: column, To: column + max(to-from, 1),
		Message: fmt.Sprintf(format, a...), Suggestion: suggestion,
	})
}
