package evidence

import (
	"slices"
	"strings"
)

var (
	prefixed = lazy(`^(?:[^\w\s<>"'` + "`" + `-]{1,4}\s*)?(?:\[?(?:ERROR|Error|error|FATAL|Fatal|fatal|Exception|EXCEPTION|FAILED|Failure|FAILURE)\]?|\((?:error|ERROR)\)|[Ff]atal error|[Ii]nternal (?:server )?error|` +
		`error\[E\d+\]|error TS\d+|npm (?:ERR!|error)|[Ss]yntax [Ee]rror|[Pp]arse [Ee]rror|[Rr]untime [Ee]rror|` +
		`[Vv]alidation [Ee]rror|(?:Tool|API|HTTP|Server|Request|Database|Query|SQL|Network|Connection|` +
		`Auth\w*) [Ee]rror|Unexpected error|<urlopen error|\[Errno \d+\]|E[A-Z]{4,}:|### Error|CMake Error|` +
		`ERROR: LoadError|PHP (?:Fatal|Parse) error|Error in \S.{0,80} :|! LaTeX Error|Error (?:while |` +
		`when )?(?:fetching|loading|opening|connecting|creating|updating|deleting|sending|retrieving|getting|` +
		`searching|accessing|validating|executing|running|reading|writing|calling|processing|decoding|parsing|` +
		`querying|saving|building|starting|finding|downloading|uploading|installing|` +
		`compiling|evaluating|resolving)\b[^:]{0,120}|(?:[A-Z]\w+ ){1,2}[Ee]rror|Msg \d+, Level)` +
		`(?: (?:in|from|at|near|code|response from|returned by|on) [^:]{1,60}| \d{3,5}(?: ?\([\w ]+\))?|` +
		` ?\([\w ]{1,30}\))?(?:\s?[:\x{2013}\x{2014}] {0,2}\S|\s-\s|:$|\s\(\w+\): |\s+\[?Errno|\s(?:Missing|` +
		`code|Cannot|Could|Invalid)\b)`)
	logName = lazy(`^ERROR:\w+:`)
)

// boxed matches an error in a box, as Terraform draws it.
var boxed = lazy(`(?m)^[│|] Error: .*$`)

// cross matches a mark in front of what went wrong.
var cross = lazy(`^(?:×|✗|✘|✖|❌|⛔|🚫)\s+[A-Za-z]`)

// tagged matches a level in brackets in front of what went wrong, as in a tool's own log; raises matches a sentence
// naming the exception that something raised.
var (
	tagged = lazy(`^(?:ERR|Err|FATAL)!? [^\s:=|].*|(?i)^\[\s*(?:[\w-]+[ _-])?(?:err(?:or)?|fatal|failed|failure|exception)\s*\]:?\s+\S`)
	raises = lazy(`^(?:The |Your |An? |This )?(?:[\w.()'"` + "`" + `-]+ ){0,4}(?:raised|threw|thrown|throws|` +
		`(?:failed|ended|exited|crashed|aborted|died|stopped) with|hit|got|caught|encountered|ran into)` +
		`(?: an?| the)?(?: \w+)?(?: (?:exception|error))?:? ` + anyException + `(?:: |\(|\.|$)|` +
		`^Unexpected ` + anyException + `: |^\(` + anyException + `\) \S|` +
		`^while (?:parsing|scanning|constructing) an? [a-z ]+$`)
	ended  = lazy(`^[A-Z]\w*(?: \w+){0,3} (?:failed|crashed|aborted|errored):\s+\S`)
	anyTag = lazy(`^\[[A-Za-z]+\]`)
)

// sole reports whether the tag on the first line is the only one in a text of a few lines: a tool's answer, not a log.
func (t *text) sole() bool {
	const most = 6 // lines
	if len(t.head) > most || len(t.all) > 2000 || t.paragraphs() > 0 {
		return false
	}
	return !slices.ContainsFunc(t.head[1:], func(l string) bool {
		return anyTag().MatchString(l) || logLine().MatchString(l)
	})
}

// prefix reads a text that begins with "Error:" and consists of its explanation.
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
		return Finding{}
	}
	if again := t.startingLike(first); again > 1 && again < len(t.head) && !t.complains(t.last()) {
		return nearMiss("error_prefix", first, "such lines come and go: a log")
	}
	if t.paragraphs() > 0 {
		return nearMiss("error_prefix", first, "prose about the error follows")
	}
	if i := strings.IndexByte(first, '|'); i > 0 && i+1 < len(first) && first[i-1] != ' ' && first[i+1] != ' ' &&
		first[i-1] != '|' {
		return nearMiss("error_prefix", first, "it is a row of a table")
	}
	if len(t.all) > 8192 {
		return nearMiss("error_prefix", first, "it is a small part of a long result")
	}
	return failed("error_prefix", first)
}

// figure matches an error that is a number: a model's error, a measurement's.
var figure = lazy(`^[\w ]*[Ee]rrors?\s?[:=]\s*(?:-?[\d.]+(?:e-?\d+)?\s?%?|none|no|null|false|n/a|\d+ (?:of|` +
	`out of|/) ?\d+.*)$`)

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

// complains reports whether a line belongs to an error: it names one or adds to one.
func (t *text) complains(l string) bool {
	return prefixed().MatchString(l) || more().MatchString(l) || namedError().MatchString(l) || build().MatchString(l)
}
