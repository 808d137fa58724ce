package evidence

import (
	"slices"
	"strings"
)

var (
	prefixed = pattern("prefixed")
	logName  = pattern("logName")
)

// boxed matches an error in a box, as Terraform draws it.
var boxed = pattern("boxed")

// cross matches a cross or similar mark in front of an error message.
var cross = pattern("cross")

// tagged matches a log level in front of an error message, usually in brackets, as in a tool's own log; raises matches
// a sentence that names the exception raised.
var (
	tagged = pattern("tagged")
	raises = lazy(`^(?:The |Your |An? |This )?(?:[\w.()'"` + "`" + `-]+ ){0,4}(?:raised|threw|thrown|throws|` +
		`(?:failed|ended|exited|crashed|aborted|died|stopped) with|hit|got|caught|encountered|ran into)` +
		`(?: an?| the)?(?: \w+)?(?: (?:exception|error))?:? ` + anyException + `(?:: |\(|\.|$)|` +
		`^Unexpected ` + anyException + `: |^\(` + anyException + `\) \S|` +
		`^while (?:parsing|scanning|constructing) an? [a-z ]+$`)
	// blames matches a line that says what failed before naming the exception; reply matches one that names the party
	// that answered with an error.
	blames = lazy(`(?i:\b(?:tool|function|call|action|agent|job|step|running|executing|while|during|threw|thrown|raised|` +
		`crash\w*|broke|fail\w*|errors?|exception|died|abort\w*)\b)[^"|]{0,80}(?:[:(\x{2013}\x{2014}>-]|` +
		`\b(?:with|by|to|of|a|an|threw|raised|hit)) ?` + exceptionName + `(?:[:(.)]|$)|` +
		`[\[(]` + exceptionName + `[\])]\W*$|^` + exceptionName + ` (?:[\x{2013}\x{2014}-] \S|(?:raised|thrown) (?:by|in) )`)
	reply  = pattern("reply")
	ended  = pattern("ended")
	anyTag = pattern("anyTag")
)

// sole reports whether the first line has the only tag in a short text. Such a text is a tool's answer, not a log.
func (t *text) sole() bool {
	const most = 6 // lines
	if len(t.head) > most || len(t.all) > 2000 || t.paragraphs() > 0 {
		return false
	}
	return !slices.ContainsFunc(t.head[1:], func(l string) bool {
		return anyTag().MatchString(l) || logLine().MatchString(l)
	})
}

// prefix reads a text that begins with "Error:" followed only by an explanation.
func (t *text) prefix() Finding {
	if cross().MatchString(t.head[0]) && t.startingLike(t.head[0]) == 1 {
		return failed("error_prefix", t.head[0])
	}
	if l := t.head[0]; ended().MatchString(l) && !told().MatchString(l) && t.sole() && !counts().MatchString(l) {
		return failed("error_prefix", l)
	}
	if onHost().MatchString(t.head[0]) || len(t.head) > 1 && doing().MatchString(t.head[0]) && t.sole() {
		return failed("error_prefix", t.head[0])
	}
	if tagged().MatchString(t.head[0]) && t.sole() || raises().MatchString(t.head[0]) && t.paragraphs() == 0 &&
		len(t.head) <= 12 {
		return failed("error_prefix", t.head[0])
	}
	if t.last() == "╵" {
		if l := boxed().FindString(t.all[max(0, len(t.all)-window):]); l != "" {
			return failed("error_prefix", strings.TrimLeft(l, "│ "))
		}
	}
	first := strings.TrimLeft(t.head[0], "│╷ \t")
	if first == "" && len(t.head) > 1 {
		first = strings.TrimLeft(t.head[1], "│╷ \t")
	}
	if !prefixed().MatchString(first) || logName().MatchString(first) || figure().MatchString(first) {
		if t.one() && (blames().MatchString(first) || reply().MatchString(first) && !told().MatchString(first)) &&
			!figure().MatchString(first) && !logLine().MatchString(first) {
			return failed("error_prefix", first)
		}
		return Finding{}
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

// figure matches a line that gives errors as a number, such as a model's error or an error count, or says that there
// are none.
var figure = pattern("figure")

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
	return prefixed().MatchString(l) || more().MatchString(l) || namedError().MatchString(l) || build().MatchString(l)
}
