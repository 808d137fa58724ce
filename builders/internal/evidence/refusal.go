package evidence

import (
	"strings"
)

var (
	nothing = pattern("nothing")
	done    = pattern("done")
	told    = pattern("told")
	refused = pattern("refused")
	said    = pattern("said")
	byID    = pattern("byID")
)

// searched matches an empty answer to a search.
var searched = pattern("searched")

// undone matches a statement that the request was not carried out, or that the one item requested doesn't exist.
var undone = pattern("undone")

// core strips additions to the sentence, such as a position or a hint, from a short refusal. Any other text is returned
// unchanged.
func (t *text) core() *text {
	if len(t.head) < 2 || len(t.head) > 8 || !t.short {
		return t
	}
	for _, l := range t.head[1:] {
		if !more().MatchString(l) || strings.HasPrefix(l, "No ") {
			return t
		}
	}
	return textOf(t.head[0])
}

// generalRule matches a label in front of something that isn't about the call, such as a policy or a summary.
var generalRule = pattern("generalRule")

// camel matches a camel-case exception name, such as BadZipFile, in front of its message.
var camel = pattern("camel")

// main returns the main clause of a sentence, without what follows it, such as a reason.
func main(s string) string {
	for _, w := range []string{" because ", " since ", " after ", "; "} {
		if i := strings.Index(s, w); i > 12 {
			s = s[:i]
		}
	}
	return s
}

// code matches a line of source code.
var code = pattern("code")

// refusal reads a sentence or two that refuse something.
func (t *text) refusal() Finding {
	if core := t.core(); core != t {
		return core.refusal()
	}
	l := t.head[0]
	if l == "" || !t.one() || t.paragraphs() > 0 || strings.Count(t.all, ". ") >= 2 || figure().MatchString(l) ||
		generalRule().MatchString(l) && !refused().MatchString(l) || logLine().MatchString(l) ||
		grepLine().MatchString(l) || strings.ContainsAny(l[:1], "{<|#>/*-0123456789") && !signedOff().MatchString(l) ||
		code().MatchString(l) ||
		l[0] == '[' && !strings.HasPrefix(l, "[Errno") && !signedOff().MatchString(l) {
		return Finding{}
	}
	first := sentence(t.head[0])
	switch {
	case raw().MatchString(t.head[0]), phrase().MatchString(first):
		return failed("refusal", first)
	case signedOff().MatchString(l):
		return failed("refusal", first)
	case len(strings.Fields(first)) < 2:
		return Finding{}
	case seen().MatchString(first), rules(l):
		return nearMiss("refusal", first, "the text describes what was seen, or a general rule")
	case searched().MatchString(first):
		return Finding{}
	case byID().MatchString(first), undone().MatchString(first), t.obstacle(first) != "":
		return failed("refusal", first)
	case sought().MatchString(first), nothing().MatchString(first), done().MatchString(first), strings.HasSuffix(first,
		"?"),
		strings.Contains(first, "|"):
		return Finding{}
	case told().MatchString(first):
		if said().MatchString(first) && !strings.Contains(strings.ToLower(first), "failed") {
			return failed("refusal", first)
		}
		quote := shortFirstLine(first)
		return Finding{Rule: "refusal", Quote: quote, Why: "the text describes the state of something", Supported: true}
	case state().MatchString(main(first)) && !report(t.all), refused().MatchString(first),
		said().MatchString(main(first)), says().MatchString(main(first)):
		return failed("refusal", first)
	}
	if m := camel().FindStringSubmatch(first); m != nil && textOf(m[1]).refusal().Failed {
		return failed("refusal", first)
	}
	return Finding{}
}

// says matches additional forms of refusal, by sentence structure rather than subject.
var says = pattern("says")

// raw matches the bare message of an exception, as returned by tools that catch every exception.
var raw = pattern("raw")

// phrase matches an HTTP status's reason phrase on its own.
var phrase = pattern("phrase")

// sentence returns the first sentence of a line.
func sentence(l string) string {
	for i := 0; i+1 < len(l); i++ {
		if (l[i] == '.' || l[i] == ';' || l[i] == '!') && l[i+1] == ' ' && i > 8 {
			return l[:i+1]
		}
	}
	return l
}
