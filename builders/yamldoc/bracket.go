package yamldoc

import "bytes"

// open is an opening bracket or quote.
type open struct {
	at   int // byte offset
	char byte
}

// unclosed finds an unclosed quote, or a bracket that is closed by a bracket of another kind or is still open at end,
// where the library reported an error. The result may be several lines above end. It is nil if neither exists.
func unclosed(text []byte, end int) *open {
	var stack []open
	for i := 0; i < min(end+1, len(text)); i++ {
		c := text[i]
		switch {
		case c == '#' && (i == 0 || text[i-1] == ' ' || text[i-1] == '\n' || text[i-1] == '\t'):
			for i < len(text) && text[i] != '\n' {
				i++
			}
		case (c == '"' || c == '\'') && begins(text, i):
			n := quoted(text[i:])
			if n == 0 {
				return &open{i, c}
			}
			i += n - 1
		case (c == '{' || c == '[') && (len(stack) > 0 || begins(text, i)):
			stack = append(stack, open{i, c})
		case (c == '}' || c == ']') && len(stack) > 0:
			top := stack[len(stack)-1]
			if ends[top.char] != c {
				return &top
			}
			stack = stack[:len(stack)-1]
		}
	}
	if len(stack) == 0 {
		return nil
	}
	// An unclosed bracket on an earlier line is the more likely mistake, because a bracket on the line where the
	// library stopped may be closed later.
	last := bytes.LastIndexByte(text[:min(end, len(text))], '\n')
	for i := len(stack) - 1; i >= 0; i-- {
		if stack[i].at < last {
			return &stack[i]
		}
	}
	return &stack[len(stack)-1]
}

// begins reports whether a value can begin here: after white space, a bracket, a comma or a colon, or at the start.
func begins(text []byte, i int) bool {
	return i == 0 || bytes.IndexByte([]byte(" \n\t{[,:"), text[i-1]) >= 0
}

// quoted returns the length of the quoted string that text begins with, or 0 if it isn't closed.
func quoted[C byte | rune](text []C) int {
	for i := 1; i < len(text); i++ {
		switch {
		case text[0] == '"' && text[i] == '\\':
			i++
		case text[i] == text[0] && text[0] == '\'' && i+1 < len(text) && text[i+1] == '\'':
			i++
		case text[i] == text[0]:
			return i + 1
		}
	}
	return 0
}
