package evidence

import "strings"

// A program that a command line runs speaks in its own name, and what it says last is about the call: "find: unknown
// predicate". What it says besides errors is known by a few words.
var (
	signed = lazy(`^([\w./+-]+)(?: [a-z]+){0,2}(?: \([\w ]+\))? ?: +(\S.*)$`)
	quiet  = lazy(`(?i)\b(?:warnings?|warn|note|notice|info|debug|removing leading|up to date|nothing to be done|` +
		`entering|leaving|done|ok|created|updated|imported|installed|saved|succe\w+|complete[ds]?|finished|` +
		`skipp\w+|ignor\w+|listening|started|running|version|progress|added|removed|deprecated|using|loaded|` +
		`connected|\d+%)\b`)
	// The last words of a command that nobody signed.
	unsigned = lazy(`^(?:(?:Unable to|Could not|Couldn't|Cannot|Can't|Failed to|Not able to|Invalid choice|` +
		`Unrecognized|Unknown (?:option|command|argument|flag)|No such) .{1,300}|` +
		`Error \w+ing .*|Please (?:run|log ?in|sign in|authenticate)\b.*|` +
		`To get started with .*\bplease run\b.*|The system cannot .*|Access is denied.*|(?:[A-Z][\w-]*|` +
		`\S+) (?:[\w-]+ ){0,4}failed[.!]?(?: .*)?|.{1,80} failed: \S.*|` +
		`.{1,80}: (?:error|Error|ERROR): \S.*)$`)
)

// voice reads the last words of a program in a text that no other rule knows.
func (c Call) voice(t *text) Finding {
	command := c.command()
	if command == "" || c.reads() != "" || len(t.head) > 1 && t.document("program_message") != "" {
		return Finding{}
	}
	for i := len(t.tail) - 1; i >= 0; i-- {
		l := t.tail[i]
		if m := signed().FindStringSubmatch(l); m != nil && starts(command, m[1]) {
			if quiet().MatchString(m[2]) {
				return Finding{}
			}
			return failed("program_message", l)
		}
		if unsigned().MatchString(l) && !quiet().MatchString(l) && !figure().MatchString(l) {
			return failed("program_message", l)
		}
		if !more().MatchString(l) {
			break
		}
	}
	return Finding{}
}

// starts reports whether a command line runs a program.
func starts(command, program string) bool {
	program = program[strings.LastIndexByte(program, '/')+1:]
	parts := strings.FieldsFunc(command, func(r rune) bool { return strings.ContainsRune(";&|\n(", r) })
	for _, part := range parts {
		words := strings.Fields(part)
		for len(words) > 1 && (strings.Contains(words[0], "=") || prefixes[words[0]]) {
			words = words[1:]
		}
		if len(words) > 0 && strings.TrimLeft(words[0][strings.LastIndexByte(words[0], '/')+1:], `"'`) == program {
			return true
		}
	}
	return false
}

// prefixes are programs that start another.
var prefixes = map[string]bool{
	"sudo": true, "env": true, "time": true, "nohup": true, "exec": true, "nice": true, "xargs": true, "command": true,
}
