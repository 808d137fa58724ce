package evidence

import (
	"strconv"
	"strings"

	"github.com/nat-go/nat-go/ttc/json"
)

// frameLines is the number of lines at each end that may hold a harness's frame; exit codes mentioned elsewhere are
// just text.
const frameLines = 6

// frame reads the text that a harness puts around the output: an exit code, a time limit, a shell's prompt or command.
// framed is false if it finds none of these.
func (c Call) frame(text string, depth int) (f Finding, framed bool) {
	head, tail := firstLines(text, frameLines), lastLines(text, frameLines)
	if l := tail[len(tail)-1]; looksLikeLog(head) && !(strings.HasPrefix(l, "[") && matches(l, "codeLast")) {
		return Finding{}, false
	}
	if m := pattern("codeFirst").FindStringSubmatch(head[0]); m != nil {
		return c.exited(strings.Join(m[1:], ""), head[0], strings.TrimPrefix(text, head[0])), true
	}
	if strings.HasPrefix(text, "<returncode>") { // the code and the output are on one line
		rest := strings.TrimPrefix(text, "<returncode>")
		if code, body, ok := strings.Cut(rest, "</returncode>"); ok && len(code) < 12 {
			return c.exited(strings.TrimSpace(code), "returncode "+code, body), true
		}
	}
	if m := pattern("enclosed").FindStringSubmatch(text); m != nil {
		return c.read(m[1], depth+1), true
	}
	if strings.HasPrefix(text, "The script ran successfully. Its output was:") {
		return c.exited("0", head[0], ""), true
	}
	if strings.HasPrefix(text, "Command execution was not successful") && len(head) > 1 {
		if m := pattern("codeLast").FindStringSubmatch(head[1]); m != nil {
			return c.exited(m[1], head[1], text), true
		}
	}
	if matches(head[0], "frameLabel") {
		for _, lines := range [][]string{head, tail} {
			for _, l := range lines {
				if m := pattern("codeLabel").FindStringSubmatch(l); m != nil {
					return c.exited(m[1], l, text), true
				}
			}
		}
	}
	if f, framed := c.codeBelow(text, tail); framed {
		return f, true
	}
	for _, lines := range [][]string{tail, head} {
		for _, l := range lines {
			if m := pattern("exitTag").FindStringSubmatch(l); m != nil {
				return c.exited(m[1], l, text), true
			}
		}
	}
	if l := tail[len(tail)-1]; matches(l, "cutOff") {
		return failed("time_limit", l), true
	}
	if matches(head[0], "timeLimit") && len(text) < 2000 {
		return failed("time_limit", head[0]), true
	}
	return c.framedWithoutCode(text, head, tail, depth)
}

// framedWithoutCode reads the output of an interactive shell: its prompt after the output, or the command before it.
func (c Call) framedWithoutCode(text string, head, tail []string, depth int) (f Finding, framed bool) {
	if l := tail[len(tail)-1]; strings.HasSuffix(l, "$") && len(tail) > 1 && strings.HasPrefix(tail[len(tail)-2],
		"(Current directory:") {
		body, _, _ := strings.Cut(text, "\n(Open file:")
		return c.read(body, depth+1), true
	}
	if strings.HasPrefix(head[0], "$ ") {
		if _, body, ok := strings.Cut(text, "\n"); ok {
			return c.read(body, depth+1), true
		}
		return Finding{}, true
	}
	return Finding{}, false
}

// codeBelow reads the exit code that a harness appends to the output.
func (c Call) codeBelow(text string, tail []string) (f Finding, framed bool) {
	for i := len(tail) - 1; i >= 0; i-- {
		l := tail[i]
		if m := pattern("codeLast").FindStringSubmatch(strings.Replace(l, "[exit ", "[exit code ", 1)); m != nil {
			if l[0] != '[' && l[0] != '(' && l[0] != '<' && m[1] != "0" {
				if why := textOf(text).document("exit_code"); why != "" && !report(text) {
					return nearMiss("exit_code", l, why), true
				}
			}
			return c.exited(m[1], l, strings.TrimSuffix(text, l)), true
		}
		if m := pattern("harborTail").FindStringSubmatch(l); m != nil {
			if v := value(m[1]); v != nil {
				if n, ok := member(v, "exit_code").Int64(); ok {
					return c.exited(strconv.FormatInt(n, 10), l, text), true
				}
			}
		}
		if i < len(tail)-1 && !strings.HasPrefix(l, "[") && !strings.HasPrefix(tail[len(tail)-1], "Process Group") &&
			!strings.HasPrefix(l, "Signal:") && !strings.HasPrefix(l, "Background PIDs:") {
			break
		}
	}
	return Finding{}, false
}

// exited judges a call by its exit code.
func (c Call) exited(code, line, body string) Finding {
	n, err := strconv.Atoi(code)
	if err != nil || n == 0 {
		if f := c.words(strings.TrimSpace(body)); f.Failed {
			return nearMiss(f.Rule, f.Quote, "the exit code is 0")
		}
		return Finding{}
	}
	if why := c.isAnswer(n, body); why != "" {
		return nearMiss("exit_code", line, why)
	}
	return failed("exit_code", line)
}

// answering lists programs that use exit code 1 to answer "no".
var answering = map[string]bool{
	"grep": true, "egrep": true, "fgrep": true, "rg": true, "ag": true, "ack": true, "diff": true, "cmp": true,
	"comm": true,
	"test": true, "[": true, "pgrep": true, "which": true, "expr": true,
}

// isAnswer returns the reason a non-zero exit code is not a failure (the program found nothing, or reports its
// findings), or an empty string.
func (c Call) isAnswer(code int, body string) string {
	if code == 124 || code == 126 || code == 127 || code > 128 || code < 0 {
		return "" // the code means a timeout, a signal, or a program that is missing or can't be run
	}
	if report(body) {
		return "the result is a report from a test runner or checker, whose exit code gives its verdict"
	}
	command := c.command()
	if code != 1 || command == "" {
		return ""
	}
	for _, part := range strings.FieldsFunc(command, func(r rune) bool {
		return r == ';' || r == '&' || r == '|' ||
			r == '\n'
	}) {
		words := strings.Fields(part)
		if len(words) > 1 && words[0] == "git" {
			words = words[1:]
		}
		if len(words) > 0 && answering[words[0][strings.LastIndexByte(words[0], '/')+1:]] {
			return "exit code 1 of " + words[0] + " is an answer, not a failure"
		}
	}
	return ""
}

// readers lists programs that print text from other sources, such as files and logs.
var readers = map[string]bool{
	"cat": true, "bat": true, "less": true, "more": true, "head": true, "tail": true, "nl": true, "tac": true,
	"grep": true, "egrep": true, "fgrep": true, "rg": true, "ag": true, "zcat": true,
	"strings": true, "man": true, "journalctl": true, "dmesg": true, "echo": true, "printf": true, "fold": true,
	"cut": true, "sort": true, "uniq": true, "column": true,
}

// reads returns the command's last program if it prints documents. A document's text isn't about the call; only the
// program's own messages are.
func (c Call) reads() string {
	command := strings.TrimSpace(c.command())
	if command == "" || strings.ContainsAny(command, "\n") {
		return ""
	}
	parts := strings.FieldsFunc(command, func(r rune) bool { return r == ';' || r == '&' || r == '|' })
	if len(parts) == 0 || strings.Contains(command, "|") && len(parts) > 1 && !quotes(parts[0]) {
		return "" // the text may be an error of the pipeline's first program
	}
	words := strings.Fields(parts[len(parts)-1])
	if len(words) == 0 {
		return ""
	}
	name := words[0][strings.LastIndexByte(words[0], '/')+1:]
	switch {
	case readers[name]:
		return name
	case name == "perl" && len(words) > 1 && (strings.HasPrefix(words[1], "-n") || strings.HasPrefix(words[1], "-p")):
		return name
	case (name == "sed" && len(words) > 1 && words[1] == "-n") || name == "awk":
		return name
	case name == "git" && len(words) > 1 && (words[1] == "log" || words[1] == "show" || words[1] == "diff" ||
		words[1] == "blame" || words[1] == "grep"):
		return name
	case (name == "docker" || name == "kubectl") && len(words) > 1 && words[1] == "logs":
		return name
	}
	return ""
}

// quotes reports whether part of a command begins with a program that prints documents.
func quotes(part string) bool {
	words := strings.Fields(part)
	return len(words) > 0 && readers[words[0][strings.LastIndexByte(words[0], '/')+1:]]
}

// command returns the command line that the call ran, if any.
func (c Call) command() string {
	for _, key := range []string{"command", "cmd", "input", "script", "commands"} {
		v := member(c.Arguments, key)
		if s, ok := v.Text(); ok {
			return s[:min(len(s), 4096)]
		}
		if v.Kind() == json.Array { // argv
			var words []string
			for e := range v.Elements() {
				s, _ := e.Text()
				words = append(words, s)
			}
			if len(words) == 3 && strings.HasPrefix(words[1], "-") && strings.HasSuffix(words[1], "c") {
				return words[2]
			}
			return strings.Join(words, " ")
		}
	}
	return ""
}

// report reports whether body is a report from a test runner or checker.
func report(body string) bool {
	found, unable := reported(body)
	return found && unable == ""
}

// reported looks for a test runner's or checker's report, and for a line saying that the program couldn't do its work.
func reported(body string) (found bool, unable string) {
	for _, l := range append(firstLines(body, 12), lastLines(body, 12)...) {
		if unable == "" && matches(l, "noTests") {
			unable = l
		}
		found = found || matches(l, "testReport") || matches(l, "checkReport")
	}
	return found, unable
}
