package evidence

import (
	"strings"
)

// frameworks matches wording that only frameworks write at the start of a result.
var frameworks = pattern("frameworks")

// unknownTool matches a framework's message about a tool that doesn't exist.
var unknownTool = pattern("unknownTool")

// fixIt matches the end of a retry prompt from an agent framework such as pydantic-ai or LangGraph.
var fixIt = pattern("fixIt")

// framework returns the line that a framework wrapped around an error.
func (t *text) framework() string {
	first := bare(t.head[0])
	if frameworks().MatchString(first) || unknownTool().MatchString(first) {
		if t.paragraphs() >= 2 {
			return ""
		}
		return first
	}
	if len(t.head) > 1 && t.count <= 40 && first[0] < 'a' && headline().MatchString(first) {
		return t.head[1]
	}
	if len(t.head) > 1 && len(t.head) <= 8 && statusFailed().MatchString(first) && because().MatchString(t.head[1]) {
		return t.head[1]
	}
	if first == "### Result" && len(t.head) > 1 && strings.HasPrefix(t.head[1], "Error: ") { // Playwright's MCP server
		return t.head[1]
	}
	if len(t.all) < 64<<10 && fixIt().MatchString(t.last()) {
		return t.last()
	}
	return ""
}

// Patterns for a failing status and for the reason that follows it.
var (
	statusFailed = pattern("statusFailed")
	because      = pattern("because")
)

// headline matches a first line that only says that something failed.
var headline = pattern("headline")

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

var (
	pageTitle = lazy(`(?is)<(?:title|h1)[^>]{0,200}>\s*(?:http status |(?:http |runtime )?error:? ` +
		`|[^<]{0,60}\| )?(?:[^<]{0,80}\((?:http )?[45]\d\d\)|([45]\d\d)\b[^<]{0,80}|` +
		reasonPhrase + `(?: \([45]\d\d\))?|whitelabel error page|error(?: (?:response|page|report))?)\s*</`)
	soapFault = pattern("soapFault")
	tags      = pattern("tags")
	hidden    = pattern("hidden")
	stackOf   = pattern("stackOf") // the failure and its stack trace, in a pre element
)

// reasonPhrase matches HTTP's names for its errors, as they appear in page titles.
const reasonPhrase = `(?:(?:bad|invalid) request|unauthorized|(?:authentication|payment) required|forbidden|` +
	`access denied|(?:page |file |resource )?not found|method not allowed|not (?:acceptable|implemented)|` +
	`(?:request )?timeout|conflict|gone|(?:payload|content|request entity) too large|unsupported media type|` +
	`unprocessable (?:entity|content)|too many requests|(?:internal )?server error|bad gateway|` +
	`service (?:temporarily )?unavailable|gateway time-?out)`

// page reads markup. An HTTP error page is short; an article about errors isn't.
func (t *text) page() (Finding, bool) {
	if !strings.HasPrefix(t.all, "<") || strings.HasPrefix(t.all, "<returncode>") {
		return Finding{}, false
	}
	start := t.all[:min(len(t.all), 4096)]
	if soapFault().MatchString(start) && len(t.all) < 8192 {
		return failed("error_page", strings.TrimSpace(tags().ReplaceAllString(start, " "))), true
	}
	if m := pageTitle().FindString(start); m != "" {
		body := hidden().ReplaceAllString(t.all[:min(len(t.all), window)], " ")
		said := len(strings.Fields(tags().ReplaceAllString(stackOf().ReplaceAllString(body, " "), " ")))
		if said <= 40 && len(t.all) < window {
			return failed("error_page", m), true
		}
		return nearMiss("error_page", m, "the page also has other content"), true
	}
	return Finding{}, strings.Contains(start, "</") && !strings.HasPrefix(start, "<error>")
}
