package evidence

import (
	"strings"
)

// looksLikeLog reports whether the first line is from a log.
func looksLikeLog(lines []string) bool { return matches(lines[0], "logLine") }

// document returns why t is a document, whose errors aren't the call's own. It returns an empty string if t is not a
// document. rule is the rule that would otherwise match.
func (t *text) document(rule string) string {
	if rule == "refusal" || rule == "wording" || len(t.head) == 1 {
		if looksLikeLog(t.head) && matches(t.head[0], "tagged") {
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
	if matches(t.last(), "exitStatus") && t.short {
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
	case n["mail"] >= 2 || n["mail"] == 1 && matches(t.head[0], "mailHead"):
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
	case n["item"] >= 2 || n["item"] == 1 && matches(t.head[0], "item"):
		return "the text is a list"
	case n["heading"] >= 2 || n["heading"] == 1 && matches(t.head[0], "heading") &&
		!strings.HasPrefix(t.head[0], "# command"):
		return "the text is written as a document, with headings or lists"
	case n["source"] >= 2 || n["source"] == 1 && matches(t.head[0], "source"):
		return "the text is source code"
	case matches(t.head[0], "letter") || t.proseBefore():
		return "the text is a letter or an article that quotes an error"
	}
	return ""
}

// marks counts the lines that indicate a kind of document.
func (t *text) marks() map[string]int {
	n := map[string]int{}
	for _, l := range t.head {
		switch {
		case matches(l, "logLine"):
			n["log"]++
		case matches(l, "mailHead"):
			n["mail"]++
		case matches(l, "numbered"):
			n["numbered"]++
		case matches(l, "fieldLine"):
			n["field"]++
		case matches(l, "diffHead"):
			n["diff"]++
		case matches(l, "grepLine") && !matches(l, "compiler") && !strings.Contains(l, "rror") &&
			!matches(l, "build"):
			n["grep"]++
		case matches(l, "speaker"):
			n["speaker"]++
		case matches(l, "manual"):
			n["manual"]++
		case matches(l, "heading"):
			n["heading"]++
		case matches(l, "item"):
			n["item"]++
		case matches(l, "source"):
			n["source"]++
		}
	}
	return n
}

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
