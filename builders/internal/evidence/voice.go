package evidence

import (
	"slices"
	"strings"
)

// voice reads a program's final message in text that no other rule matches.
func (c Call) voice(t *text) Verdict {
	const few = 12 // lines
	command := c.command()
	if command == "" {
		return Verdict{}
	}
	if f := c.complaint(t, command); f.Failed || c.reads() != "" {
		return f
	}
	if f := echo(t, command); f.Failed {
		return f
	}
	if m := pattern("signed").FindStringSubmatch(t.last()); m != nil && len(t.head) <= few && starts(command, m[1]) &&
		matches(m[2], "sums") {
		return failed("program_message", t.last())
	}
	for _, l := range t.tail[max(0, len(t.tail)-few):] {
		m := pattern("inOwnName").FindStringSubmatch(l)
		if len(t.tail) > 1 && (m != nil && starts(command, m[1]) || matches(l, "endsBadly")) {
			return failed("program_message", l)
		}
	}
	if len(t.head) > 1 && t.document("program_message") != "" {
		return Verdict{}
	}
	if l := t.head[0]; len(t.head) <= maxUsageLines && matches(l, "declines") && t.paragraphs() == 0 {
		return failed("program_message", l)
	}
	for _, l := range slices.Backward(t.tail) {
		if m := pattern("signed").FindStringSubmatch(l); m != nil && starts(command, m[1]) {
			if matches(m[2], "quiet") {
				return Verdict{}
			}
			return failed("program_message", l)
		}
		if len(t.head) <= maxUsageLines && strings.HasPrefix(l, "[") && matches(l, "tagged") {
			return failed("program_message", l)
		}
		if matches(l, "unsigned") && !matches(l, "quiet") && !matches(l, "figure") && !report(t.all) {
			return failed("program_message", l)
		}
		if !matches(l, "more") {
			break
		}
	}
	return Verdict{}
}

// maxUsageLines is the maximum number of lines that a program prints about incorrect usage (the mistake and the correct
// usage).
const maxUsageLines = 6

// complaint matches text that begins with the name of the command's program, as error messages do. In text of more
// than maxUsageLines lines, the first lines must include part of a usage message or another line that begins with that
// name. If the text doesn't match, or its first line is not an error, complaint returns misused's finding.
func (c Call) complaint(t *text, command string) Verdict {
	if command == "" {
		return Verdict{}
	}
	l := t.head[0]
	m := pattern("signed").FindStringSubmatch(l)
	long := len(t.head) > maxUsageLines && !slices.ContainsFunc(t.head[1:maxUsageLines], func(below string) bool {
		return isUsage(below) || sameVoice(below, l)
	})
	if m == nil || long || !starts(command, m[1]) || !matches(m[2], "aWord") {
		return c.misused(t, command)
	}
	said, _, _ := strings.Cut(pattern("inBrackets").ReplaceAllString(m[2], ""), ". ")
	describes := matches(command, "asksHelp") && !matches(said, "turnsDown")
	if matches(said, "quiet") && !strings.HasPrefix(said, "no ") || describes || matches(l, "figure") {
		return c.misused(t, command)
	}
	return failed("program_message", l)
}

// misused matches a usage message that was not requested: the program prints it instead of doing the work.
func (c Call) misused(t *text, command string) Verdict {
	const most, few = 4000, 4 // bytes, lines
	if matches(command, "asksHelp") && !matches(command, "host") || len(t.all) > most {
		return Verdict{}
	}
	for _, l := range t.head[:min(maxUsageLines, len(t.head))] {
		name, rest, _ := strings.Cut(l, " ")
		if len(t.head) <= few && matches(l, "pointsToHelp") {
			return failed("program_message", t.head[0])
		}
		if matches(l+" ", "usage") || starts(command, name) && strings.ContainsAny(rest[:min(1, len(rest))], "[<") {
			return failed("program_message", l)
		}
	}
	return Verdict{}
}

// echo finds a line in a short text that rejects one of the command's arguments by name.
func echo(t *text, command string) Verdict {
	const most = 3 // lines
	if len(t.head) > most || t.count > 60 || looksLikeLog(t.head) || report(t.all) {
		return Verdict{}
	}
	for _, l := range t.head {
		if !matches(l, "turnsDown") || matches(l, "figure") || matches(command, "turnsDown") {
			continue
		}
		words := strings.Fields(command)
		for _, word := range words[min(1, len(words)):] {
			word = strings.Trim(word, "\"'`;|&<>()")
			if _, value, ok := strings.Cut(word, "="); ok && len(value) > 1 {
				word = value
			}
			if len(word) > 1 && holdsWord(l, word) {
				return failed("program_message", l)
			}
		}
	}
	return Verdict{}
}

// holdsWord reports whether a line contains a word as a whole, not just as part of another word.
func holdsWord(l, word string) bool {
	part := func(b byte) bool {
		return b == '_' || b == '-' || b >= '0' && b <= '9' || b >= 'A' && b <= 'Z' || b >= 'a' && b <= 'z'
	}
	for from := 0; ; {
		i := strings.Index(l[from:], word)
		if i < 0 {
			return false
		}
		i += from
		end := i + len(word)
		if (i == 0 || !part(l[i-1]) || !part(word[0])) && (end == len(l) || !part(l[end]) || !part(word[len(word)-1])) {
			return true
		}
		from = i + 1
	}
}

// starts reports whether a command line runs the given program.
func starts(command, program string) bool {
	program, _, _ = strings.Cut(base(program), "-im") // ImageMagick's convert-im6.q16
	parts := strings.FieldsFunc(command, func(r rune) bool { return strings.ContainsRune(";&|\n(", r) })
	for _, part := range parts {
		words := strings.Fields(part)
		for len(words) > 1 && words[0] != program && (strings.Contains(words[0], "=") || prefixes[words[0]]) {
			words = words[1:]
		}
		if len(words) > 1 && words[0] == "git" && words[1] == program {
			return true // git's commands print errors under their own names
		}
		if len(words) == 0 {
			continue
		}
		name := strings.TrimLeft(base(words[0]), `"'`)
		if rest, ok := strings.CutPrefix(name, program); ok && (rest == "" || len(program) > 2 &&
			// erb3.1's errors begin with "erb", and cscope-indexer's with "cscope"
			strings.ContainsAny(rest[:1], "-_.0123456789")) {
			return true
		}
	}
	return false
}

// prefixes are programs that start another program.
var prefixes = Set(strings.Fields("sudo env time nohup exec nice xargs command"))
