package evidence

import (
	"slices"
	"strings"
)

// program reads a program's final message.
func (t *text) program() Verdict {
	last := t.last()
	switch reports, unable := reported(t.all); {
	case unable != "" && reports:
		return failed("program_message", unable)
	case reports:
		return Verdict{}
	}
	if strings.Contains(last, "(ignored)") || matches(last, "figure") {
		return Verdict{}
	}
	if diagnostic(last) || matches(strings.TrimSpace(last), "unixLine") {
		return failed("program_message", last)
	}
	// The program's complaint may be followed by other lines it prints.
	for _, l := range slices.Backward(t.tail) {
		if diagnostic(l) {
			return failed("program_message", l)
		}
		if !matches(l, "more") && !sameVoice(l, last) {
			break
		}
	}
	if t.buildEnds() {
		return failed("program_message", last)
	}
	if diagnostic(t.head[0]) && len(t.head) > 1 && slices.ContainsFunc(t.head[1:min(len(t.head), 4)], isUsage) {
		return failed("program_message", t.head[0]) // a usage message may have any number of lines
	}
	if f := t.compiled(); f.Rule != "" {
		return f
	}
	if matches(t.head[0], "usage") {
		for _, l := range t.tail[max(0, len(t.tail)-12):] {
			if matches(l, "rejects") {
				return failed("program_message", l)
			}
		}
	}
	if t.short && diagnostic(t.head[0]) {
		for _, l := range t.head[1:] {
			if !matches(l, "more") && !diagnostic(l) && !sameVoice(l, t.head[0]) && !matches(l, "namedError") {
				return nearMiss("program_message", t.head[0], "the program continued after the error")
			}
		}
		return failed("program_message", t.head[0])
	}
	return Verdict{}
}

// diagnostic reports whether a line is typical of the last output of a failing program.
func diagnostic(l string) bool {
	return matches(l, "unixLine") || matches(l, "build") || matches(l, "compiler") || matches(l, "gitLine")
}

// compiled reads a compiler's report, which names the position first and then shows the lines.
func (t *text) compiled() Verdict {
	ends := func(l string) bool { return matches(l, "more") || matches(l, "compiler") }
	for _, l := range t.head[:min(len(t.head), 12)] {
		if matches(l, "compiler") && !strings.Contains(l, ": warning: ") && !strings.HasPrefix(l, "error: ") &&
			slices.ContainsFunc(t.tail[max(0, len(t.tail)-4):], ends) {
			return failed("program_message", l)
		}
	}
	return Verdict{}
}

// isUsage reports whether a line is part of a program's usage message.
func isUsage(l string) bool {
	l = strings.TrimSpace(l)
	if i := strings.Index(l, ": "); i > 0 && !strings.Contains(l[:i], " ") && matches(l[i+2:], "usage") {
		return true // the line begins with the program's name
	}
	return matches(l+" ", "usage")
}

// buildEnds reports whether the text ends with Maven's verdict on a failed build, followed only by lines that Maven
// marks as errors or information.
func (t *text) buildEnds() bool {
	for _, l := range slices.Backward(t.tail) {
		if l == "[INFO] BUILD FAILURE" {
			return true
		}
		if !strings.HasPrefix(l, "[ERROR]") && !strings.HasPrefix(l, "[INFO] ") {
			return false
		}
	}
	return false
}

// speaks returns the name of the program that a line begins with, as in "tar: " and "tar (child): ".
func speaks(l string) string {
	i := strings.IndexAny(l, ": ")
	if i <= 0 || l[i] == ' ' && !strings.HasPrefix(l[i:], " (") {
		return ""
	}
	return l[:i] + ":"
}

func sameVoice(a, b string) bool { return speaks(a) != "" && speaks(a) == speaks(b) }

// http reads a short message with the status of a failed request.
func (t *text) http() Verdict {
	first := t.head[0]
	if matches(first, "counts") || matches(first, "grepLine") && !matches(first, "hostPort") || len(t.all) > 1200 ||
		len(t.head) > 6 && !matches(t.all, "calls") || !matches(bare(first), "httpStatus") ||
		strings.ContainsAny(first[:min(1, len(first))], "#|-") ||
		len(t.head) > 1 && t.paragraphs() > 0 || strings.HasPrefix(first, "Title:") {
		return Verdict{}
	}
	return failed("http_status", first)
}
