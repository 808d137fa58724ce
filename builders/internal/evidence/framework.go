package evidence

import (
	"strings"
)

// frameworks matches what only frameworks write at the start of a result.
var frameworks = lazy(`^(?:<tool_use_error>|<error>|<system>ERROR: |ERROR while calling tool: |` +
	`(?:Oops! )?Something went wrong\b|### Error$|(?:Tool|Function|Call|Action|Command|Server|API)` +
	`(?: \S+)? (?:returned|reported|raised|threw|gave|responded with) an? (?:error|exception)\b|` +
	`(?:The |Your )?(?:\w+ ){0,3}(?:failed|ended|returned|finished|exited|stopped) with (?:the following |an? )` +
	`(?:error|exception)s?\b|(?:Tool|Function|Agent|Action) (?:run|use) failed\b|An? (?:\w+ )?(?:error|exception) (?:has )?occurred\b|` +
	`ERROR: Your input to the tool was invalid|An error occurred while (?:running|parsing|invoking|calling|` +
	`executing) |` +
	`An error occurred when calling |Error occurred when calling |` +
	`An error occurred \(\w+\) when calling the \w+ operation|Error (?:executing|invoking|calling|running|` +
	`validating) (?:the )?(?:MCP )?(?:tool|function|action|agent)\b|` +
	`Error executing \w+: |Error (?:during|while|when|in|on) (?:\w+ ){0,2}(?:tool|function|code|execut\w+|` +
	`decod\w+|pars\w+|call\w*|generat\w+|input|running|processing|reading|writing|validat\w+|fetch\w*)\b|` +
	`Error invoking tool |Error in code parsing:|Failed to (?:invoke|execute|call|run|parse) (?:the )?(?:tool|` +
	`function|generated|arguments|JSON)\b|failed to parse (?:function )?arguments|Failed to invoke Tool |` +
	`MCP error -?\d+: |` +
	`Input validation error: |Output validation error: |Tool (?:input |output )?(?:validation|execution|call|` +
	`invocation) (?:error|failed)|[Tt]ool (?:invoke|parameters validation|execution|call) error\b|` +
	`I encountered an error(?: while trying to use the tool)?[.:]|Encountered error|Execution (?:error|` +
	`failed)\b|Code execution failed\b|` +
	`Could not (?:run|call|find) (?:function|tool) |Could not parse (?:LLM|tool|the) |` +
	`Invalid (?:JSON )?(?:input|arguments|parameters) (?:for|to) (?:the )?(?:tool|function)\b|` +
	`Received invalid arguments for |` +
	`Invalid or incomplete response|Invalid Format: |Validation failed for |(?:-\d{5}): |unsupported call: |` +
	`apply_patch verification failed|exec_command failed|execution error: |` +
	`Model tried to call unavailable tool |Tool \S+ disabled$|The tool execution failed|` +
	`The tool call with name |You tried to use the tool |Exception (?:occurred|raised|thrown) (?:in|by|` +
	`while|when|during) |` +
	`Error while (?:parsing|decoding|executing|calling) |There was an error\b[:.]|` +
	`# \d+ SEARCH/REPLACE blocks? failed|Your proposed edit has introduced |SQL compilation error|` +
	`error during (?:the )?(?:tool |function |query )?execution|` +
	`No replacement was performed|Found \d+ (?:matches|occurrences) of .{0,80}\bbut |File has not been read yet|` +
	`old_string and new_string are |Path \S+ is a directory, not |Msg \d+, Level \d+|No match found for |` +
	`String to replace not found|The (?:old_str|old_string|search block|` +
	`SEARCH block)\b.{0,200}\b(?:not found|does not match|did not match)|\S*[Pp]atch (?:failed|` +
	`does not apply|verification failed)|Failed to (?:edit|apply|find expected|match)\b|` +
	`Unable to (?:apply|find|execute|call|parse|invoke) .{0,60}(?:diff|tool|function|image|patch|arguments)\b|` +
	`\d+ validation errors?(?: for \w+\b|:)|\(?(?:psycopg2?|sqlite3|pymysql|MySQLdb|asyncpg|sqlalchemy|pyodbc|` +
	`oracledb|cx_Oracle)\.[\w.]+(?:Error|Exception|Column|Table|Violation|\w+)\))`)

// unknownTool matches what frameworks say about a tool that doesn't exist.
var unknownTool = lazy(`^(?:(?:Error: )?\S+ is not a valid tool, try (?:one of|another)|(?:Error: )?(?:Unknown|` +
	`Unrecognized|Invalid|Nonexistent) (?:tool|function|` +
	`action)(?: name)?:? ["'` + "`" + `]?[\w.:-]+["'` + "`" + `]?(?:$|[.,]\s)|` +
	`(?:Error: )?(?:Requested )?[Tt]ool:? ["'` + "`" + `]?[\w.:-]+["'` + "`" + `]? (?:was )?(?:is )?(?:not ` +
	`found|does(?: not|n't) exists?|not available|is not available|not registered)|Tool not found: \S+$|` +
	`Function not found: \S+$|` +
	`(?:Error: )?[Ff]unction ["'` + "`" + `]?[\w.:-]+["'` + "`" + `]? (?:was )?(?:is )?(?:not found|does(?: not|` +
	`n't) exist|not defined)|[Tt]here is (?:no|not a) (?:tool|function) (?:named|called)|` +
	`Action '[^']*' don't exist)`)

// fixIt matches the ends of the retry prompts of pydantic-ai and LangGraph.
var fixIt = lazy(`(?:Fix the errors and try again\.|Please fix your mistakes\.|` +
	`Please fix the error and try again\.|please try again with a supplied tool call name.*|` +
	`Please rewrite the input so it satisfies the expected schema\.|Please check your input and try again\.|` +
	`Please retry with complete response\.)$`)

// framework returns the line that a framework wrapped around an error.
func (t *text) framework() string {
	first := t.head[0]
	if frameworks().MatchString(first) || unknownTool().MatchString(first) {
		if t.definition() {
			return ""
		}
		return first
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

// A failing status, followed by the reason.
var (
	statusFailed = lazy(`(?i)^(?:status|result|outcome): (?:failed|failure|error)\.?$`)
	because      = lazy(`(?i)^(?:reason|message|error|details?|cause): \S`)
)

// definition reports whether a text that begins like an error continues as an article about it.
func (t *text) definition() bool {
	return t.paragraphs() >= 2
}

// paragraphs counts lines of prose after the first line: two sentences, or one of twenty-five words.
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
	soapFault = lazy(`(?i)<(?:\w+:)?Fault>|^(?:<\?xml[^>]*\?>\s*)?<(?:[\w.:-]*(?:[_:-]|[a-z]))?(?:` +
		`error|exception|failure)(?:[_-]?(?:response|message|result|report))?(?:\s[^>]*)?>`)
	tags    = lazy(`<[^>]{0,500}>`)
	hidden  = lazy(`(?is)<(?:style|script|svg)\b.*?</(?:style|script|svg)>|<!--.*?-->`)
	stackOf = lazy(`(?is)<pre\b.*?</pre>`) // what it was, with its stack trace
)

// reasonPhrase matches HTTP's names for its errors, as they appear in page titles.
const reasonPhrase = `(?:(?:bad|invalid) request|unauthorized|(?:authentication|payment) required|forbidden|` +
	`access denied|(?:page |file |resource )?not found|method not allowed|not (?:acceptable|implemented)|` +
	`(?:request )?timeout|conflict|gone|(?:payload|content|request entity) too large|unsupported media type|` +
	`unprocessable (?:entity|content)|too many requests|(?:internal )?server error|bad gateway|` +
	`service (?:temporarily )?unavailable|gateway time-?out)`

// page reads markup: an HTTP error page is short, an article about errors isn't.
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
		return nearMiss("error_page", m, "the page says more than that"), true
	}
	return Finding{}, strings.Contains(start, "</") && !strings.HasPrefix(start, "<error>")
}
