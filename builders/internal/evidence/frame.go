package evidence

import (
	"slices"
	"strconv"
	"strings"

	"github.com/nat-go/nat-go/ttc/json"
)

// frameLines is the number of lines at each end that may hold a harness's frame; exit codes mentioned elsewhere are
// just text.
const frameLines = 6

// frame reads the text that a harness puts around the output: an exit code, a time limit, a shell's prompt or command.
// framed is false if it finds none of these.
func (c Call) frame(text string, depth int) (f Verdict, framed bool) {
	head, tail := firstLines(text, frameLines), lastLines(text, frameLines)
	if l := tail[len(tail)-1]; looksLikeLog(head) && !(strings.HasPrefix(l, "[") && matches(l, "codeLast")) {
		return Verdict{}, false
	}
	if m := pattern("codeFirst").FindStringSubmatch(head[0]); m != nil {
		return c.exited(strings.Join(m[1:], ""), head[0], strings.TrimPrefix(text, head[0])), true
	}
	if rest, ok := strings.CutPrefix(text, "<returncode>"); ok { // the code and the output are on one line
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
		for _, l := range slices.Concat(head, tail) {
			if m := pattern("codeLabel").FindStringSubmatch(l); m != nil {
				return c.exited(m[1], l, text), true
			}
		}
	}
	if f, framed := c.codeBelow(text, tail); framed {
		return f, true
	}
	for _, l := range slices.Concat(tail, head) {
		if m := pattern("exitTag").FindStringSubmatch(l); m != nil {
			return c.exited(m[1], l, text), true
		}
	}
	l := tail[len(tail)-1]
	if strings.HasPrefix(l, "</") && len(tail) > 1 && !strings.ContainsAny(tail[len(tail)-2][:1], "[(<") {
		l = tail[len(tail)-2]
	}
	if matches(l, "cutOff") {
		return failed("time_limit", l), true
	}
	if matches(head[0], "timeLimit") && len(text) < 2000 {
		return failed("time_limit", head[0]), true
	}
	return c.framedWithoutCode(text, head, tail, depth)
}

// framedWithoutCode reads the output of an interactive shell: its prompt after the output, or the command before it.
func (c Call) framedWithoutCode(text string, head, tail []string, depth int) (f Verdict, framed bool) {
	last := len(tail) - 1
	if last > 0 && strings.HasSuffix(tail[last], "$") && strings.HasPrefix(tail[last-1], "(Current directory:") {
		body, _, _ := strings.Cut(text, "\n(Open file:")
		return c.read(body, depth+1), true
	}
	if p := tail[last]; last > 0 && strings.ContainsAny(p[len(p)-1:], "$#%") && !strings.Contains(p, "$ ") &&
		matches(p, "prompt") {
		return c.screen(strings.TrimSuffix(text, p), depth), true
	}
	if strings.HasPrefix(head[0], "$ ") {
		_, body, _ := strings.Cut(text, "\n")
		return c.read(body, depth+1), true
	}
	return Verdict{}, false
}

// screen reads the output of the last command on a terminal's screen. The prompt above the output may differ from the
// one below it, because the command may have changed the folder.
func (c Call) screen(text string, depth int) Verdict {
	const longest = 4096 // maximum length in bytes of a prompt and the command after it
	for end := len(text); end > max(0, len(text)-4*window); {
		start := strings.LastIndexByte(text[:end-1], '\n') + 1
		var m []string
		if end-start < longest {
			m = pattern("prompt").FindStringSubmatch(strings.TrimRight(text[start:end], " \r\n"))
		}
		if m != nil {
			if c.command() == "" && m[1] != "" {
				c.Arguments = append(json.AppendString(json.Raw(`{"command":`), m[1]), '}')
			}
			return c.read(text[end:], depth+1)
		}
		end = start
	}
	return c.read(text, depth+1)
}

// codeBelow reads the exit code that a harness appends to the output.
func (c Call) codeBelow(text string, tail []string) (f Verdict, framed bool) {
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
			if n, ok := member(value(m[1]), "exit_code").Int64(); ok {
				return c.exited(strconv.FormatInt(n, 10), l, text), true
			}
		}
		if i < len(tail)-1 && !strings.HasPrefix(l, "[") && !strings.HasPrefix(tail[len(tail)-1], "Process Group") &&
			!strings.HasPrefix(l, "Signal:") && !strings.HasPrefix(l, "Background PIDs:") {
			break
		}
	}
	return Verdict{}, false
}

// exited judges a call by its exit code.
func (c Call) exited(code, line, body string) Verdict {
	n, err := strconv.Atoi(code)
	if err != nil || n == 0 {
		if f := c.words(strings.TrimSpace(body)); f.Failed {
			return nearMiss(f.Rule, f.Quote, "the exit code is 0")
		}
		return Verdict{}
	}
	if why := c.isAnswer(n, body); why != "" {
		return nearMiss("exit_code", line, why)
	}
	return failed("exit_code", line)
}

// answering lists programs that use exit code 1 to answer "no".
var answering = Set(strings.Fields("grep egrep fgrep rg ag ack diff cmp comm test [ pgrep which expr"))

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
	for _, part := range parts(command) {
		words := strings.Fields(part)
		if len(words) > 1 && words[0] == "git" {
			words = words[1:]
		}
		if len(words) > 0 && answering[base(words[0])] {
			return "exit code 1 of " + words[0] + " is an answer, not a failure"
		}
	}
	return ""
}

// readers lists programs that print text from other sources, such as files and logs.
var readers = Set(strings.Fields(`cat bat less more head tail nl tac grep egrep fgrep rg ag zcat strings man journalctl
	dmesg echo printf fold cut sort uniq column`))

// readingParts lists the beginnings of commands that print such text, although their programs don't always do so.
var readingParts = []string{
	"perl -n", "perl -p", "sed -n ", "git log ", "git show ", "git diff ", "git blame ", "git grep ", "docker logs ",
	"kubectl logs ",
}

// reads returns the command's last program if it prints documents. A document's text isn't about the call; only the
// program's own messages are.
func (c Call) reads() string {
	command := strings.TrimSpace(c.command())
	if command == "" || strings.ContainsAny(command, "\n") {
		return ""
	}
	all := parts(command)
	if len(all) == 0 || strings.Contains(command, "|") && len(all) > 1 && !readers[program(all[0])] {
		return "" // the text may be an error of the pipeline's first program
	}
	part := all[len(all)-1]
	name, words := program(part), strings.Fields(part)
	if readers[name] || name == "awk" || len(words) > 1 && slices.ContainsFunc(readingParts, func(begin string) bool {
		return strings.HasPrefix(name+" "+words[1]+" ", begin)
	}) {
		return name
	}
	return ""
}

// parts divides a command line into the commands of its pipelines.
func parts(command string) []string {
	return strings.FieldsFunc(command, func(r rune) bool { return strings.ContainsRune(";&|\n", r) })
}

// program returns the name of the program that part of a command runs, without its folder.
func program(part string) string {
	words := append(strings.Fields(part), "")
	return base(words[0])
}

func base(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// command returns the command line that the call ran, if any.
func (c Call) command() string {
	for _, key := range []string{"command", "cmd", "input", "script", "commands", "keystrokes"} {
		v := member(c.Arguments, key)
		if s, ok := v.Text(); ok {
			return s[:min(len(s), 4096)]
		}
		if v.Kind() == json.Array { // the command as a list of arguments
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
