package evidence

import (
	"slices"
	"strings"
)

const osError = `(?:\S+ is a directory\b.*|[Nn]o such (?:file|directory|device|process|user|host|column|table|container|image|option|` +
	`command|remote|branch|ref)\b.*|command not found\b.*|not found|Unknown command\b.*|(?:device|file|host|user|module|key) not found\b.*|[Nn]o matching .*|[Pp]ermission denied.*|Is a directory.*|` +
	`[Nn]ot a directory.*|File exists.*|` +
	`[Oo]peration not permitted.*|[Rr]ead-only file system.*|Directory not empty.*|Device or resource busy.*|` +
	`[Cc]onnection (?:refused|reset|timed out|closed).*|No space left on device.*|Invalid argument.*|` +
	`Bad file descriptor.*|Exec format error.*|` +
	`Argument list too long.*|Text file busy.*|Broken pipe.*|unbound variable.*|syntax error\b.*|` +
	`unexpected (?:EOF|end of file|token|EOF while|argument)\b.*|unterminated .*|(?:illegal|invalid|unknown|` +
	`unrecognized|ambiguous|unsupported) (?:option|argument|command|flag|number|regular|key|field|character|` +
	`operand|line).*|` +
	`missing (?:operand|argument|file operand|\S+ near end).*|(?:option|` +
	`the option) .{1,80}(?:requires an argument|is unknown|is ambiguous).*|[Cc]an(?:not|'t|not) .*|` +
	`[Uu]nable to .*|[Cc]ould not .*|[Ff]ailed to .*|fatal: .*|error: .*|ERROR: .*|Error: .*|` +
	`fatal error: .*|error \(.*|` +
	`Unmatched .*|End-of-central-directory.*|[Nn]ot (?:a|in) .{1,40}(?:format|archive|repository|gzip|zipfile|` +
	`command)\b.*|No rule to make target.*|No targets.*|\[Errno \d+\].*|undefined (?:reference|variable|` +
	`symbol|function|name)\b.*|undefined: .*|.*: undeclared\b.*|` +
	`no match(?:es)? (?:for|found).*|arguments must be .*|No module named .*|write error.*|read error.*|` +
	`Input/output error.*|Cannot open.*|Child returned status [1-9].*|\(\d+\) - No such process|` +
	`[Tt]imed out.*|[Aa]borted?.*|[Kk]illed.*|Segmentation fault.*|Bus error.*|Unknown error.*|` +
	`Name or service not known.*|Temporary failure in name resolution.*|invalid .*|expected .*|Is not .*|` +
	`doesn't exist.*|does not exist.*|file not found.*|cannot open.*)`

var (
	// unixLine matches the form "program: [line N:] [file:] system error message".
	unixLine = lazy(`^(?:-?(?:ba|z|da|k|c)?sh|[./\w][\w./+-]{0,80}(?:\.exe)?(?: \([\w ]+\))?|` +
		`/\S+)(?:\[\d+\])?: +(?:(?:line )?\d+: )?(?:[^:]{1,200}: ){0,3}` + osError + `$`)
	// compiler matches the form file:line:column: error: that compilers print.
	compiler = pattern("compiler")
	build    = pattern("build")
	gitLine  = pattern("gitLine")
	// Lines that a program adds to its error message.
	more  = pattern("more")
	usage = pattern("usage")
	// A program's message about its arguments, below its usage.
	rejects = pattern("rejects")
)

// program reads a program's final message.
func (t *text) program() Finding {
	last := t.last()
	switch reports, unable := reported(t.all); {
	case unable != "" && reports:
		return failed("program_message", unable)
	case reports:
		return Finding{}
	}
	if strings.Contains(last, "(ignored)") {
		return Finding{}
	}
	if figure().MatchString(last) {
		return Finding{}
	}
	if diagnostic(last) || unixLine().MatchString(strings.TrimSpace(last)) {
		return failed("program_message", last)
	}
	// The program's complaint may be followed by other lines it prints.
	for i := len(t.tail) - 1; i >= 0; i-- {
		l := t.tail[i]
		if diagnostic(l) {
			return failed("program_message", l)
		}
		if !more().MatchString(l) && !sameVoice(l, last) {
			break
		}
	}
	if t.buildEnds() {
		return failed("program_message", last)
	}
	if diagnostic(t.head[0]) && len(t.head) > 1 && slices.ContainsFunc(t.head[1:min(len(t.head), 4)], isUsage) {
		return failed("program_message", t.head[0]) // usage may take any number of lines
	}
	if f := t.compiled(); f.Rule != "" {
		return f
	}
	if usage().MatchString(t.head[0]) {
		for _, l := range t.tail[max(0, len(t.tail)-12):] {
			if rejects().MatchString(l) {
				return failed("program_message", l)
			}
		}
	}
	if t.short && diagnostic(t.head[0]) {
		for _, l := range t.head[1:] {
			if !more().MatchString(l) && !diagnostic(l) && !sameVoice(l, t.head[0]) && !namedError().MatchString(l) {
				return nearMiss("program_message", t.head[0], "the program continued after the error")
			}
		}
		return failed("program_message", t.head[0])
	}
	return Finding{}
}

// diagnostic reports whether a line is typical of the last output of a failing program.
func diagnostic(l string) bool {
	return unixLine().MatchString(l) || build().MatchString(l) || compiler().MatchString(l) || gitLine().MatchString(l)
}

// compiled reads a compiler's report, which names the position first and then shows the lines.
func (t *text) compiled() Finding {
	for i, l := range t.head {
		if i < 12 && compiler().MatchString(l) && !strings.Contains(l, ": warning: ") && !strings.HasPrefix(l,
			"error: ") {
			ends := t.tail[max(0, len(t.tail)-4):]
			for _, e := range ends {
				if more().MatchString(e) || compiler().MatchString(e) {
					return failed("program_message", l)
				}
			}
		}
	}
	return Finding{}
}

// isUsage reports whether a line is part of a program's usage message.
func isUsage(l string) bool {
	l = strings.TrimSpace(l)
	if i := strings.Index(l, ": "); i > 0 && !strings.Contains(l[:i], " ") && usage().MatchString(l[i+2:]) {
		return true // the line begins with the program's name
	}
	return usage().MatchString(l + " ")
}

// buildEnds reports whether the text ends with Maven's verdict on a failed build, followed only by lines that Maven
// marks as errors or information.
func (t *text) buildEnds() bool {
	for i := len(t.tail) - 1; i >= 0; i-- {
		l := t.tail[i]
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

var httpStatus = pattern("httpStatus")

// counts matches a count of successes, failures or warnings.
var counts = pattern("counts")

// calls matches text that clients print below an error: a log of calls, a stack, headers.
var calls = pattern("calls")

// http reads a short message with the status of a failed request.
func (t *text) http() Finding {
	first := t.head[0]
	if counts().MatchString(first) {
		return Finding{}
	}
	if len(t.all) > 1200 || len(t.head) > 6 && !calls().MatchString(t.all) || !httpStatus().MatchString(bare(first)) ||
		first[0] == '#' || first[0] == '|' || first[0] == '-' || len(t.head) > 1 && t.paragraphs() > 0 ||
		strings.HasPrefix(first, "Title:") {
		return Finding{}
	}
	return failed("http_status", t.head[0])
}
