package evidence

import (
	"slices"
	"strings"
)

const anyException = `(?:` + exceptionName + `|` + spelledName + `)`

const exceptionName = `(?:[A-Za-z_][\w$]*(?:\.|::))*[A-Za-z_]\w*(?:Error|Exception|Interrupt|Failure|Fault|` +
	`Violation|Warning)`

var (
	exceptionLine = lazy(`^(?:Uncaught |Unhandled |` +
		`Caused by: )?(?:` + exceptionName + `(?: \[[\w.]+\])?(?:\(.*\)|: .*|:)|` + exceptionName + `(?:\(.*\)|` +
		`:.*|\s\[.*\].*)?$|KeyboardInterrupt$|SystemExit: .*)`)
	namedError = pattern("namedError")
	panicLine  = pattern("panicLine")
	frameLine  = pattern("frameLine")
)

var (
	groupEnd  = pattern("groupEnd")
	groupLine = pattern("groupLine")
)

const stackHead = "Traceback (most recent call last):"

// traceback reads an exception: at the end of the text with its stack, or as the whole text. An exception followed by
// other output is at most a near miss, because the program continued.
func (t *text) traceback() Finding {
	// Python and programs that print the same way: the stack, then an unindented line that names the exception.
	begin := t.all[:min(len(t.all), window)]
	if strings.Contains(begin, "Exception Group "+stackHead) && groupEnd().MatchString(t.last()) {
		return failed("traceback", groupLine().FindString(begin))
	}
	if f, is := t.stackAbove(); is {
		return f
	}
	if l := t.last(); namedError().MatchString(l) && strings.Contains(begin, "Traceback (most recent call last)") {
		return failed("traceback", l)
	}
	if len(t.tail) == len(t.head) && strings.HasPrefix(t.head[0], "  File \"") || strings.HasPrefix(t.head[0],
		"File \"") && len(t.head) > 1 {
		if l := t.last(); namedError().MatchString(l) {
			return failed("traceback", l)
		}
	}
	if f := t.stackBelow(); f.Rule != "" {
		return f
	}
	return t.alone()
}

// stackAbove reads an exception at the end of the text in the form that Python prints: its stack, then its name.
func (t *text) stackAbove() (_ Finding, is bool) {
	head := -1
	for i, l := range t.tail {
		if strings.HasPrefix(l, stackHead) || strings.HasPrefix(l, "  File \"") && i == 0 {
			head = i
		}
	}
	if head < 0 && !strings.Contains(t.all[max(0, len(t.all)-window):], "\n"+stackHead) {
		return Finding{}, false
	}
	end := head + 1
	for end < len(t.tail) && (t.tail[end][0] == ' ' || t.tail[end][0] == '\t') {
		end++
	}
	if head < 0 { // the stack is longer than the lines examined
		for end = len(t.tail) - 1; end > 0 && !namedError().MatchString(t.tail[end]); end-- {
		}
	}
	if end >= len(t.tail) {
		return Finding{}, true
	}
	for _, l := range t.tail[end+1:] {
		if logLine().MatchString(l) || !frameLine().MatchString(l) && len(t.tail[end+1:]) > 8 {
			return nearMiss("traceback", t.tail[end], "the program continued after the exception"), true
		}
	}
	if end+1 == len(t.tail) && slices.Contains(t.tail[:end], t.tail[end]) {
		return nearMiss("traceback", t.tail[end],
			"the text is a list of exceptions: the same one occurs more than once"), true
	}
	after := t.tail[end+1:]
	if len(after) > 0 && programContinues(after) {
		return nearMiss("traceback", t.tail[end], "the program continued after the exception"), true
	}
	if !exceptionLine().MatchString(t.tail[end]) && head < 0 {
		return Finding{}, true
	}
	return failed("traceback", t.tail[end]), true
}

// stackBelow reads an exception whose stack follows it and ends the text.
func (t *text) stackBelow() Finding {
	for i, l := range t.tail {
		if !panicLine().MatchString(l) && !namedError().MatchString(l) {
			continue
		}
		stack := 0
		whole := true
		for _, below := range t.tail[i+1:] {
			if !frameLine().MatchString(below) {
				whole = false
				break
			}
			stack++
		}
		switch {
		case panicLine().MatchString(l) && (whole || stack+3 > len(t.tail)-i || strings.HasPrefix(t.last(),
			"note: ") || strings.HasPrefix(t.last(), "exit status")):
			return failed("traceback", l)
		case whole && stack > 0:
			return failed("traceback", l)
		}
	}
	return Finding{}
}

// alone reads an exception whose stack has another format, is above the examined lines, or is missing.
func (t *text) alone() Finding {
	if i := slices.IndexFunc(t.tail, func(l string) bool { return strings.HasPrefix(l, "CallStack (from ") }); i > 0 &&
		!programContinues(t.tail[i+1:]) { // Haskell
		return failed("traceback", t.tail[i-1])
	}
	// Node.js prints its version last; the stack may be above the tail.
	if len(t.tail) >= 3 && strings.HasPrefix(t.last(), "Node.js v") {
		return failed("traceback", t.errorLine())
	}
	if first := bare(t.head[0]); namedError().MatchString(first) || spelledError().MatchString(first) {
		rest := t.head[1:]
		switch {
		case len(rest) == 0:
			return failed("traceback", t.head[0])
		case t.short && !programContinues(rest):
			return failed("traceback", t.head[0])
		}
		return nearMiss("traceback", t.head[0], "other text follows")
	}
	if l := t.last(); namedError().MatchString(l) && len(t.tail) > 1 && strings.TrimLeft(t.tail[len(t.tail)-2],
		" ^~") == "" {
		return failed("traceback", l)
	}
	return Finding{}
}

// spelledName matches an exception name, such as InvalidToken or DoesNotExist, that describes the fault but doesn't end
// in a word such as Error.
const spelledName = `(?:[A-Za-z_]\w*(?:\.|::))*` +
	`(?:(?:[A-Z][a-z0-9]*)*(?:Invalid|Already|Bad|Missing|Unknown|Undefined|Unsupported|Unexpected|` +
	`Malformed|Illegal|Duplicate|NoSuch|TooMany|TooLarge|Cannot)(?:[A-Z][a-z0-9]*)+|` +
	`(?:[A-Z][a-z0-9]*)+(?:Not[A-Z][a-z]+|AlreadyExists|Denied|Refused|Exceeded|Expired|Mismatch|Unavailable|` +
	`Unreachable|Timeout|TimedOut|Conflict|Failed|Overflow|Rejected|Forbidden|Unauthorized)|` +
	`(?:[A-Z][a-z0-9]*)*ErrorReturnCode_\d+)`

var spelledError = lazy(`^` + spelledName + `(?:\(.*\)$|: \S.*$|:$)`)

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
		if namedError().MatchString(l) {
			return l
		}
	}
	return t.head[0]
}

// programContinues reports whether any of the lines after an exception is the program's own output rather than part of
// the exception's message or stack.
func programContinues(lines []string) bool {
	for i, l := range lines {
		if frameLine().MatchString(l) || strings.HasPrefix(l, stackHead) || namedError().MatchString(l) ||
			more().MatchString(l) {
			continue
		}
		if i+1 < len(lines) && (lines[i+1][0] == ' ' || lines[i+1][0] == '\t') || strings.ContainsAny(l[:1], "[({|^") {
			continue // pydantic names a field and describes its fault on the next lines
		}
		return true
	}
	return false
}
