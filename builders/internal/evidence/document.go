package evidence

import (
	"strings"
)

var (
	logLine  = pattern("logLine")
	numbered = pattern("numbered")
	grepLine = pattern("grepLine")
	mailHead = pattern("mailHead")
	heading  = pattern("heading")
	item     = pattern("item")
	source   = pattern("source")
	speaker  = pattern("speaker")
	manual   = pattern("manual")
	diffHead = pattern("diffHead")
)

// looksLikeLog reports whether the first line is from a log.
func looksLikeLog(lines []string) bool { return logLine().MatchString(lines[0]) }

// document returns why t is a document, whose errors aren't the call's own. It returns an empty string if t is not a
// document. rule is the rule that would otherwise match.
func (t *text) document(rule string) string {
	if rule == "refusal" || rule == "wording" || len(t.head) == 1 {
		if looksLikeLog(t.head) && tagged().MatchString(t.head[0]) {
			return "" // a level without a timestamp or logger name
		}
		if looksLikeLog(t.head) {
			return "the text is a log line"
		}
		return ""
	}
	if t.marks()["field"] >= 2 {
		return "the text is a record with fields"
	}
	if exitStatus().MatchString(t.last()) && t.short {
		return "" // the error is from the program that ran the command printed above
	}
	return t.kind()
}

// kind returns the kind of document, judging by the text's first lines, or an empty string if it isn't one.
func (t *text) kind() string {
	n := t.marks()
	lines := len(t.head)
	switch {
	case strings.Contains(strings.Join(t.tail, "\n"), "BUILD FAIL") || strings.HasPrefix(t.head[0], "FAILURE: "):
		return ""
	case n["log"] >= 2 || n["log"] == 1 && looksLikeLog(t.head):
		return "the text is a log"
	case n["mail"] >= 2 || n["mail"] == 1 && mailHead().MatchString(t.head[0]):
		return "the text is an email"
	case n["numbered"]*5 >= lines*4 && lines > 1:
		return "the text is a file with numbered lines"
	case n["diff"] >= 2:
		return "the text is a diff or a commit"
	case n["grep"]*2 >= lines:
		return "the text is a list of locations in files"
	case n["speaker"] >= 2:
		return "the text is a conversation"
	case n["manual"] >= 1:
		return "the text is a manual page"
	case n["item"] >= 2 || n["item"] == 1 && item().MatchString(t.head[0]):
		return "the text is a list"
	case n["heading"] >= 2 || n["heading"] == 1 && heading().MatchString(t.head[0]) &&
		!strings.HasPrefix(t.head[0], "# command"):
		return "the text is written as a document, with headings or lists"
	case n["source"] >= 2 || n["source"] == 1 && source().MatchString(t.head[0]):
		return "the text is source code"
	case letter().MatchString(t.head[0]) || t.proseBefore():
		return "the text is a letter or an article that quotes an error"
	}
	return ""
}

// marks counts the lines that indicate a kind of document.
func (t *text) marks() map[string]int {
	n := map[string]int{}
	for _, l := range t.head {
		switch {
		case logLine().MatchString(l):
			n["log"]++
		case mailHead().MatchString(l):
			n["mail"]++
		case numbered().MatchString(l):
			n["numbered"]++
		case fieldLine().MatchString(l):
			n["field"]++
		case diffHead().MatchString(l):
			n["diff"]++
		case grepLine().MatchString(l) && !compiler().MatchString(l) && !strings.Contains(l, "rror") &&
			!build().MatchString(l):
			n["grep"]++
		case speaker().MatchString(l):
			n["speaker"]++
		case manual().MatchString(l):
			n["manual"]++
		case heading().MatchString(l):
			n["heading"]++
		case item().MatchString(l):
			n["item"]++
		case source().MatchString(l):
			n["source"]++
		}
	}
	return n
}

var exitStatus = pattern("exitStatus")

var letter = pattern("letter")

// proseBefore reports whether the first lines contain sentences of prose.
func (t *text) proseBefore() bool {
	n := 0
	for _, l := range t.head {
		if len(strings.Fields(l)) >= 12 && (strings.HasSuffix(l, ".") || strings.HasSuffix(l, ":")) &&
			l[0] >= 'A' && l[0] <= 'Z' && !strings.Contains(l[:min(len(l), 40)], ": ") {
			n++
		}
	}
	return n >= 2
}
