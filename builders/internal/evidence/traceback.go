package evidence

import (
	"slices"
	"strings"
)

const stackHead = "Traceback (most recent call last):"

// traceback reads an exception: at the end of the text with its stack, or as the whole text. An exception followed by
// other output is at most a near miss, because the program continued.
func (t *text) traceback() Verdict {
	// Python, like other programs, prints the stack and then an unindented line that names the exception.
	begin := t.all[:min(len(t.all), window)]
	if strings.Contains(begin, "Exception Group "+stackHead) && matches(t.last(), "groupEnd") {
		return failed("traceback", pattern("groupLine").FindString(begin))
	}
	if f, is := t.stackAbove(); is {
		return f
	}
	if l := t.last(); matches(l, "namedError") && strings.Contains(begin, "Traceback (most recent call last)") {
		return failed("traceback", l)
	}
	if (len(t.tail) == len(t.head) && strings.HasPrefix(t.head[0], "  File \"") ||
		len(t.head) > 1 && strings.HasPrefix(t.head[0], "File \"")) && matches(t.last(), "namedError") {
		return failed("traceback", t.last())
	}
	if f := t.stackBelow(); f.Rule != "" {
		return f
	}
	return t.alone()
}

// stackAbove reads an exception at the end of the text in the form that Python prints: its stack, then its name.
func (t *text) stackAbove() (_ Verdict, is bool) {
	head := -1
	for i, l := range t.tail {
		if strings.HasPrefix(l, stackHead) || strings.HasPrefix(l, "  File \"") && i == 0 {
			head = i
		}
	}
	if head < 0 && !strings.Contains(t.all[max(0, len(t.all)-window):], "\n"+stackHead) {
		return Verdict{}, false
	}
	end := head + 1
	for end < len(t.tail) && (t.tail[end][0] == ' ' || t.tail[end][0] == '\t') {
		end++
	}
	if head < 0 { // the stack is longer than the lines examined
		for end = len(t.tail) - 1; end > 0 && !matches(t.tail[end], "namedError"); end-- {
		}
	}
	if end >= len(t.tail) {
		return Verdict{}, true
	}
	after := t.tail[end+1:]
	continued := slices.ContainsFunc(after, func(l string) bool {
		return matches(l, "logLine") || !matches(l, "frameLine") && len(after) > 8
	})
	switch {
	case continued || programContinues(after):
		return nearMiss("traceback", t.tail[end], "the program continued after the exception"), true
	case len(after) == 0 && slices.Contains(t.tail[:end], t.tail[end]):
		return nearMiss("traceback", t.tail[end],
			"the text is a list of exceptions: the same one occurs more than once"), true
	case !matches(t.tail[end], "exceptionLine") && head < 0:
		return Verdict{}, true
	}
	return failed("traceback", t.tail[end]), true
}

// stackBelow reads an exception whose stack follows it and ends the text.
func (t *text) stackBelow() Verdict {
	for i, l := range t.tail {
		if !matches(l, "panicLine") && !matches(l, "namedError") {
			continue
		}
		below := t.tail[i+1:]
		stack := slices.IndexFunc(below, func(l string) bool { return !matches(l, "frameLine") })
		whole := stack < 0
		if whole {
			stack = len(below)
		}
		if whole && stack > 0 || matches(l, "panicLine") && (whole || stack+3 > len(t.tail)-i ||
			strings.HasPrefix(t.last(), "note: ") || strings.HasPrefix(t.last(), "exit status")) {
			return failed("traceback", l)
		}
	}
	return Verdict{}
}

// alone reads an exception whose stack has another format, is above the examined lines, or is missing.
func (t *text) alone() Verdict {
	if i := slices.IndexFunc(t.tail, func(l string) bool { return strings.HasPrefix(l, "CallStack (from ") }); i > 0 &&
		!programContinues(t.tail[i+1:]) { // Haskell
		return failed("traceback", t.tail[i-1])
	}
	// Node.js prints its version last; the stack may be above the tail.
	if len(t.tail) >= 3 && strings.HasPrefix(t.last(), "Node.js v") {
		return failed("traceback", t.errorLine())
	}
	if first := bare(t.head[0]); matches(first, "namedError") || matches(first, "spelledError") {
		rest := t.head[1:]
		if len(rest) == 0 || t.short && !programContinues(rest) {
			return failed("traceback", t.head[0])
		}
		return nearMiss("traceback", t.head[0], "other text follows")
	}
	if n := len(t.tail); n > 1 && matches(t.last(), "namedError") && strings.TrimLeft(t.tail[n-2], " ^~") == "" {
		return failed("traceback", t.last())
	}
	return Verdict{}
}

// bare returns a line without the mark that some tools put before an error.
func bare(l string) string {
	rest := strings.TrimLeft(l, "⚠❗❕🔴🛑💥‼\ufe0f ")
	if rest == "" || len(rest) == len(strings.TrimLeft(l, " ")) {
		return l
	}
	return rest
}

// errorLine returns the first line that names an error, or else the first line.
func (t *text) errorLine() string {
	for _, l := range append(t.head, t.tail...) {
		if matches(l, "namedError") {
			return l
		}
	}
	return t.head[0]
}

// programContinues reports whether any of the lines after an exception is the program's own output rather than part of
// the exception's message or stack.
func programContinues(lines []string) bool {
	for i, l := range lines {
		if matches(l, "frameLine") || strings.HasPrefix(l, stackHead) || matches(l, "namedError") ||
			matches(l, "more") {
			continue
		}
		if i+1 < len(lines) && (lines[i+1][0] == ' ' || lines[i+1][0] == '\t') || strings.ContainsAny(l[:1], "[({|^") {
			continue // pydantic names a field and describes its fault on the next lines
		}
		return true
	}
	return false
}
