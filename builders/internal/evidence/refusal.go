package evidence

import "strings"

// core strips additions to the sentence, such as a position or a hint, from a short refusal. Any other text is returned
// unchanged.
func (t *text) core() *text {
	if len(t.head) < 2 || len(t.head) > 8 || !t.short {
		return t
	}
	for _, l := range t.head[1:] {
		if !matches(l, "more") || strings.HasPrefix(l, "No ") {
			return t
		}
	}
	return textOf(t.head[0])
}

// main returns the main clause of a sentence, without any addition such as a reason.
func main(s string) string {
	for _, w := range []string{" because ", " since ", " after ", "; "} {
		if i := strings.Index(s, w); i > 12 {
			s = s[:i]
		}
	}
	return s
}

// refusal reads a refusal of one or two sentences.
func (t *text) refusal() Verdict {
	if core := t.core(); core != t {
		return core.refusal()
	}
	l := t.head[0]
	if l == "" || !t.one() || t.paragraphs() > 0 || strings.Count(t.all, ". ") >= 2 || matches(l, "figure") ||
		matches(l, "generalRule") && !matches(l, "refused") || matches(l, "logLine") ||
		matches(l, "grepLine") || strings.ContainsAny(l[:1], "{<|#>/*-0123456789") && !matches(l, "signedOff") ||
		matches(l, "code") ||
		l[0] == '[' && !strings.HasPrefix(l, "[Errno") && !matches(l, "signedOff") {
		return Verdict{}
	}
	first := sentence(l)
	switch {
	case matches(l, "raw"), matches(first, "phrase"), matches(l, "signedOff"):
		return Verdict{Rule: "refusal", Failed: true, Quote: shortFirstLine(first), by: "form"}
	case len(strings.Fields(first)) < 2:
		return Verdict{}
	case matches(first, "seen"), rules(l):
		return nearMiss("refusal", first, "the text describes what was seen, or a general rule")
	case matches(first, "searched"):
		return Verdict{}
	case matches(first, "byID"), matches(first, "undone"), t.obstacle(first) != "":
		return failed("refusal", first)
	case matches(first, "sought"), matches(first, "nothing"), done(first),
		strings.HasSuffix(first, "?"), strings.Contains(first, "|"):
		return Verdict{}
	case matches(first, "told"):
		if matches(first, "said") && !strings.Contains(strings.ToLower(first), "failed") {
			return failed("refusal", first)
		}
		quote := shortFirstLine(first)
		return Verdict{Rule: "refusal", Quote: quote, Why: "the text describes the state of something", Supported: true}
	case matches(main(first), "state") && !report(t.all), matches(first, "refused"),
		matches(main(first), "said"), matches(main(first), "says"):
		return failed("refusal", first)
	}
	if m := pattern("camel").FindStringSubmatch(first); m != nil && refuses(m[1]) {
		return failed("refusal", first)
	}
	return Verdict{}
}

// done reports whether a sentence begins by reporting a completed action. "Closed accounts can't be ..." doesn't.
func done(s string) bool { return matches(s, "done") && !matches(s, "barred") }

// sentence returns the first sentence of a line.
func sentence(l string) string {
	for i := 0; i+1 < len(l); i++ {
		if (l[i] == '.' || l[i] == ';' || l[i] == '!') && l[i+1] == ' ' && i > 8 {
			return l[:i+1]
		}
	}
	return l
}
