package evidence

import "strings"

// Patterns for refusals that name an obstacle to the call, and for text that only resembles a refusal.
var (
	// lacks matches a statement that the requested item, or something the call needs, is missing.
	lacks = pattern("lacks")
	// falls matches a later clause saying that something falls short or wasn't done.
	falls = pattern("falls")
	// state matches a state that forbids the call.
	state = pattern("state")
	// signedOff matches an error in a form that only a program or server uses.
	signedOff = pattern("signedOff")
	// firstDo matches a demand for something to be done before the call.
	firstDo = pattern("firstDo")
	// seen matches a description of a screen, or of a person's words; either may mention that something failed.
	seen = pattern("seen")
	// sought matches the words of an agent that searched and found nothing.
	sought = pattern("sought")
	// doing matches an error without a colon: the failed action, with the reason on the lines below.
	doing = pattern("doing")
	// onHost matches Ansible's statements about a host.
	onHost = pattern("onHost")
	// cutOff matches the last line printed by a shell that ended the command.
	cutOff = pattern("cutOff")
	// providedFor matches a command that continues after failures.
	providedFor = pattern("providedFor")
	// ruleOf matches a sentence that states a general rule, such as "Refunds can't ...".
	ruleOf = pattern("ruleOf")
	// exitTag matches an exit code in a tag, as some harnesses write it next to the output.
	exitTag = pattern("exitTag")
	// wellEnded matches a last line saying that the program succeeded.
	wellEnded = pattern("wellEnded")
	// spoken matches a line of a conversation between speakers.
	spoken = pattern("spoken")
	// fieldLine matches a line of a tab-separated record, as command-line programs print it.
	fieldLine = pattern("fieldLine")
)

// obstacle returns the words that name an obstacle to the call, or "" if there are none.
func (t *text) obstacle(first string) string {
	l := t.head[0]
	switch {
	case lacks().MatchString(first), signedOff().MatchString(l), firstDo().MatchString(l):
		return first
	case lacks().MatchString(l), falls().MatchString(l):
		return l
	}
	return ""
}

// rules reports whether a text of two or more sentences states general rules, as a policy does.
func rules(l string) bool {
	n := 0
	for s := range strings.SplitSeq(l, ". ") {
		if !ruleOf().MatchString(s) {
			return false
		}
		n++
	}
	return n > 1
}

// conversation reports whether several speakers take turns in a text of at least three lines.
func (t *text) conversation() bool {
	times := map[string]int{}
	again := false
	for _, l := range t.head {
		m := spoken().FindStringSubmatch(l)
		if m == nil {
			return false
		}
		times[m[1]]++
		again = again || times[m[1]] > 1
	}
	return again && len(times) > 1 && len(t.head) > 2
}
