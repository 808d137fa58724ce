package evidence

import "strings"

// obstacle returns the words that name an obstacle to the call, or "".
func (t *text) obstacle(first string) string {
	l := t.head[0]
	switch {
	case matches(first, "lacks"), matches(l, "firstDo"):
		return first
	case l != first && matches(l, "lacks"), matches(l, "falls") && !matches(l, "harmless"):
		return l
	}
	return ""
}

// rules reports whether text of two or more sentences states general rules, as a policy does.
func rules(l string) bool {
	n := 0
	for s := range strings.SplitSeq(l, ". ") {
		if !matches(s, "ruleOf") {
			return false
		}
		n++
	}
	return n > 1
}

// conversation reports whether several speakers take turns in text of at least three lines.
func (t *text) conversation() bool {
	times := map[string]int{}
	again := false
	for _, l := range t.head {
		m := pattern("spoken").FindStringSubmatch(l)
		if m == nil {
			return false
		}
		times[m[1]]++
		again = again || times[m[1]] > 1
	}
	return again && len(times) > 1 && len(t.head) > 2
}
