package evidence

import (
	"cmp"
	"slices"
	"strings"
)

// sole reports whether the first line has the only tag in a short text. Such text is a tool's answer, not a log.
func (t *text) sole() bool {
	const most = 6 // lines
	if len(t.head) > most || len(t.all) > 2000 || t.paragraphs() > 0 {
		return false
	}
	return !slices.ContainsFunc(t.head[1:], func(l string) bool {
		return matches(l, "anyTag") || matches(l, "logLine")
	})
}

// prefix reads text that begins with "Error:" followed only by an explanation.
func (t *text) prefix() Verdict {
	l, few := t.head[0], len(t.head) <= 12
	start := t.all[:min(len(t.all), 4096)]
	q := pattern("conclusive").FindString(start)
	if t.paragraphs() > 0 || t.startingLike(l) > 1 {
		q = "" // prose about the error follows, or the error is one of many
	}
	if q = cmp.Or(q, pattern("blocked").FindString(start)); q != "" {
		return Verdict{Rule: "error_prefix", Failed: true, Quote: shortFirstLine(q), by: "form"}
	}
	switch {
	case matches(l, "cross") && t.startingLike(l) == 1,
		matches(l, "ended") && !matches(l, "told") && t.sole() && !matches(l, "counts"),
		matches(l, "onHost"), len(t.head) > 1 && matches(l, "doing") && t.sole(),
		matches(l, "tagged") && t.sole(), few && matches(l, "raises") && t.paragraphs() == 0:
		return failed("error_prefix", l)
	}
	if t.last() == "╵" {
		if l := pattern("boxed").FindString(t.all[max(0, len(t.all)-window):]); l != "" {
			return failed("error_prefix", strings.TrimLeft(l, "│ "))
		}
	}
	first := strings.TrimLeft(l, "│╷ \t")
	if first == "" && len(t.head) > 1 {
		first = strings.TrimLeft(t.head[1], "│╷ \t")
	}
	if !matches(first, "prefixed") || matches(first, "logName") || matches(first, "figure") {
		if t.one() && (matches(first, "blames") && t.startingLike(first) < 2 ||
			matches(first, "reply") && !matches(first, "told")) &&
			!matches(first, "figure") && !matches(first, "logLine") {
			return failed("error_prefix", first)
		}
		return Verdict{}
	}
	if again := t.startingLike(first); again > 1 && again < len(t.head) && !t.complains(t.last()) {
		return nearMiss("error_prefix", first, "the text is a log: several lines begin this way")
	}
	if t.paragraphs() > 0 {
		return nearMiss("error_prefix", first, "prose about the error follows")
	}
	if i := strings.IndexByte(first, '|'); i > 0 && i+1 < len(first) && first[i-1] != ' ' && first[i+1] != ' ' &&
		first[i-1] != '|' {
		return nearMiss("error_prefix", first, "the line is a row of a table")
	}
	if len(t.all) > 8192 {
		return nearMiss("error_prefix", first, "the error is a small part of a long result")
	}
	return failed("error_prefix", first)
}

// startingLike counts the lines that begin with the same word as the given one.
func (t *text) startingLike(line string) (n int) {
	word, _, _ := strings.Cut(line, " ")
	for _, l := range t.head {
		if strings.HasPrefix(l, word) {
			n++
		}
	}
	return n
}

// complains reports whether a line names an error or continues an error message.
func (t *text) complains(l string) bool {
	return matches(l, "prefixed") || matches(l, "more") || matches(l, "namedError") || matches(l, "build")
}
