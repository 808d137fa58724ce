package evidence

import (
	"slices"
	"strings"
)

// looksLikeLog reports whether the first line is from a log.
func looksLikeLog(lines []string) bool { return matches(lines[0], "logLine") }

// document returns why t is a document, whose errors aren't the call's own. It returns an empty string if t is not a
// document. rule is the rule that would otherwise match.
func (t *text) document(rule string) string {
	if rule == "refusal" || rule == "wording" || len(t.head) == 1 {
		// A tag is a level without a timestamp or logger name.
		if looksLikeLog(t.head) && !matches(t.head[0], "tagged") {
			return "the text is a log line"
		}
		return ""
	}
	if t.marks()["fieldLine"] >= 2 {
		return "the text is a record with fields"
	}
	if matches(t.last(), "exitStatus") && t.short || t.last() == "╵" {
		return "" // the error is from the program that ran the command printed above
	}
	return t.kind()
}

// kind returns the kind of document that the text's first lines indicate, or an empty string if they don't indicate
// one.
func (t *text) kind() string {
	n, lines := t.marks(), len(t.head)
	many := func(mark string) bool { return n[mark] >= 2 || n[mark] == 1 && matches(t.head[0], mark) }
	switch {
	case strings.Contains(strings.Join(t.tail, "\n"), "BUILD FAIL") || strings.HasPrefix(t.head[0], "FAILURE: ") ||
		strings.HasPrefix(t.last(), "> Task "):
		return ""
	case many("logLine"):
		return "the text is a log"
	case many("mailHead"):
		return "the text is an email"
	case n["numbered"]*5 >= lines*4 && lines > 1:
		return "the text is a file with numbered lines"
	case n["diffHead"] >= 2:
		return "the text is a diff or a commit"
	case n["grepLine"]*2 >= lines:
		return "the text is a list of locations in files"
	case n["row"] == lines && lines > 2 && !matches(t.head[0], "prefixed"):
		return "the text is a table"
	case n["speaker"] >= 2:
		return "the text is a conversation"
	case n["manual"] >= 1:
		return "the text is a manual page"
	case many("item"):
		return "the text is a list"
	case n["heading"] >= 2 || many("heading") && !strings.HasPrefix(t.head[0], "# command"):
		return "the text is written as a document, with headings or lists"
	case many("source"):
		return "the text is source code"
	case matches(t.head[0], "letter") || t.proseBefore():
		return "the text is a letter or an article that quotes an error"
	}
	return ""
}

// documentMarks are the patterns of lines that indicate a kind of document, in the order in which they are tried.
var documentMarks = strings.Fields(`logLine mailHead numbered fieldLine diffHead grepLine speaker manual heading item
	source row`)

// marks counts the lines that indicate a kind of document, by pattern.
func (t *text) marks() map[string]int {
	n := map[string]int{}
	for _, l := range t.head {
		i := slices.IndexFunc(documentMarks, func(mark string) bool {
			return (mark != "row" || strings.Contains(l, ",")) && matches(l, mark) &&
				!(mark == "grepLine" && (matches(l, "compiler") || strings.Contains(l, "rror") || matches(l, "build")))
		})
		if i >= 0 {
			n[documentMarks[i]]++
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
