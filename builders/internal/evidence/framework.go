package evidence

import "strings"

// framework returns the line that a framework wrapped around an error.
func (t *text) framework() string {
	first := bare(t.head[0])
	if matches(first, "frameworks") || matches(first, "unknownTool") {
		if t.paragraphs() >= 2 {
			return ""
		}
		return first
	}
	if len(t.head) > 1 && (t.count <= 40 && first[0] < 'a' && matches(first, "headline") ||
		len(t.head) <= 8 && matches(first, "statusFailed") && matches(t.head[1], "because") ||
		first == "### Result" && strings.HasPrefix(t.head[1], "Error: ")) { // Playwright's MCP server
		return t.head[1]
	}
	if len(t.all) < 64<<10 && matches(t.last(), "fixIt") {
		return t.last()
	}
	return ""
}

// paragraphs counts lines of prose after the first line: lines of at least 25 words, or of at least 14 that contain the
// end of a sentence. A line of 40 or more words counts twice.
func (t *text) paragraphs() (n int) {
	for _, l := range t.head[1:] {
		if l[0] == ' ' || l[0] == '\t' || strings.ContainsAny(l[:1], "<{[|+-*#>$") {
			continue
		}
		if words := len(strings.Fields(l)); words >= 25 || words >= 14 && strings.Count(l, ". ") >= 1 {
			n++
			if words >= 40 {
				n++
			}
		}
	}
	return n
}

// page reads markup. An HTTP error page is short; an article about errors isn't.
func (t *text) page() (Verdict, bool) {
	if !strings.HasPrefix(t.all, "<") || strings.HasPrefix(t.all, "<returncode>") {
		return Verdict{}, false
	}
	start := t.all[:min(len(t.all), 4096)]
	if matches(start, "soapFault") && len(t.all) < 8192 {
		return failed("error_page", strings.TrimSpace(pattern("tags").ReplaceAllString(start, " "))), true
	}
	if m := pattern("pageTitle").FindString(start); m != "" {
		body := pattern("hidden").ReplaceAllString(t.all[:min(len(t.all), window)], " ")
		body = pattern("tags").ReplaceAllString(pattern("stackOf").ReplaceAllString(body, " "), " ")
		if len(strings.Fields(body)) <= 40 && len(t.all) < window {
			return failed("error_page", m), true
		}
		return nearMiss("error_page", m, "the page also has other content"), true
	}
	return Verdict{}, strings.Contains(start, "</") && !strings.HasPrefix(start, "<error>")
}
