package evidence

import (
	"slices"
	"strings"
)

// window is how much of a text is examined at each end.
const window = 16 << 10

// sample is how many lines are examined at each end.
const sample = 40

// words judges a text by its words and where they stand.
func (c Call) words(text string) Finding {
	if text == "" {
		return Finding{}
	}
	if c.command() != "" && c.reads() == "" && !strings.Contains(text, "\n") {
		text = lastLog().ReplaceAllString(text, "Error: ")
		text = stamp().ReplaceAllString(text, "") // a program's last words, with a timestamp: not a log
	}
	t := textOf(text)
	if q := t.framework(); q != "" {
		return failed("framework_text", q)
	}
	if f, is := t.page(); is {
		return f
	}
	f := t.strongest()
	switch {
	case f.Rule == "":
		f = c.voice(t)
	case !f.Failed:
		if own := c.complaint(t, c.command()); own.Failed {
			f = own
		}
	}
	switch {
	case f.Rule == "":
		return Finding{}
	case len(t.head) == 1 && defines().MatchString(t.head[0]):
		return near(f.Rule, f.Quote, "it says what the error means")
	}
	if why := t.document(f.Rule); why != "" {
		return near(f.Rule, f.Quote, why)
	}
	if reader := c.reads(); reader != "" && f.Failed {
		alone := len(t.head) == 1 && (reader == "docker" || reader == "kubectl")
		if voice := strings.TrimSuffix(speaks(f.Quote), ":"); voice != reader && !shells[voice] && !alone &&
			voice != "fatal" && !strings.HasSuffix(voice, "/"+reader) {
			return near(f.Rule, f.Quote, "the command is "+reader+": it prints what others wrote")
		}
	}
	return f
}

// shells speak for the programs they fail to start.
var shells = map[string]bool{
	"bash": true, "sh": true, "zsh": true, "dash": true, "ksh": true, "/bin/sh": true,
	"/bin/bash": true, "-bash": true, "timeout": true, "sudo": true,
}

var defines = lazy(`(?i)\b(?:raised (?:when|if|by)|(?:is|are) (?:raised|thrown) (?:when|if|by)|is defined as|` +
	`refers to|occurs when)\b`)

// text is a text together with the lines that are examined.
type text struct {
	all        string
	head, tail []string // non-blank lines; in a short text each holds all of them
	short      bool     // at most a dozen lines
	count      int      // number of words, up to the window
}

func textOf(s string) *text {
	first, last := s, s
	if len(s) > window {
		first, last = s[:window], s[len(s)-window:]
	}
	t := &text{all: s, head: firstLines(first, sample), tail: lastLines(last, sample)}
	t.short = len(s) <= 2000 && len(t.head) <= 12
	t.count = len(strings.Fields(first))
	return t
}

func (t *text) last() string { return t.tail[len(t.tail)-1] }

// one reports whether the text is only a sentence or two.
func (t *text) one() bool { return len(t.head) <= 2 && len(t.all) <= 400 && t.count <= 50 }

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

// How the prompts of pydantic-ai and LangGraph for a retry end.
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
		return near("error_page", m, "the page says more than that"), true
	}
	return Finding{}, strings.Contains(start, "</") && !strings.HasPrefix(start, "<error>")
}

// strongest returns the first rule whose words stand in the right place.
func (t *text) strongest() Finding {
	for _, try := range []func() Finding{t.traceback, t.prefix, t.program, t.http, t.refusal} {
		if f := try(); f.Rule != "" {
			return f
		}
	}
	return Finding{}
}

const anyException = `(?:` + exceptionName + `|` + spelledName + `)`

const exceptionName = `(?:[A-Za-z_][\w$]*(?:\.|::))*[A-Za-z_]\w*(?:Error|Exception|Interrupt|Failure|Fault|` +
	`Violation|Warning)`

var (
	exceptionLine = lazy(`^(?:Uncaught |Unhandled |` +
		`Caused by: )?(?:` + exceptionName + `(?: \[[\w.]+\])?(?:\(.*\)|: .*|:)|` + exceptionName + `(?:\(.*\)|` +
		`:.*|\s\[.*\].*)?$|KeyboardInterrupt$|SystemExit: .*)`)
	namedError = lazy(`^(?:Uncaught |Unhandled )?(?:[A-Za-z_][\w$]*(?:\.|::))*[A-Z]\w*(?:Error|Exception|` +
		`Interrupt|Failure)(?: \[[\w.]+\])?(?:\(.*\)$|: \S.*|:$)|^(?:Error|Exception)\(['"].*\)$`)
	panicLine = lazy(`^(?:panic: |fatal error: |thread '[^']*'(?: \(\d+\))? (?:has )?panicked at |` +
		`Exception in thread "|Un(?:handled|caught) exception\b|terminate called after throwing|Fatal Python error: |` +
		`goroutine \d+ \[|\*\*\* stack smashing|\S+:\d+:in .*\([A-Z]\w*(?:::\w+)*\)$|(?:PHP )?Fatal error: )`)
	frameLine = lazy(`^(?:\s+|at |Caused by: |Suppressed: |\.\.\. \d+ more|During handling of the above|` +
		`The above exception was|For further information |\^+$|Node\.js v\d|\}$|exit status \d+$|goroutine \d+|` +
		`main\.|runtime\.|created by |note: |Backtrace|stack backtrace|[Ss]tack trace:|CallStack \(from |#\d+\s|\[Previous line|\[signal )`)
)

var (
	groupEnd  = lazy(`^\s*\+-+$`)
	groupLine = lazy(`\w*ExceptionGroup: .*`)
)

const stackHead = "Traceback (most recent call last):"

// traceback reads an exception: at the end of the text with its stack, or as the whole text. If output continues after
// it, the program went on.
func (t *text) traceback() Finding {
	// Python and whatever prints like it: the stack, then an unindented line that names the exception.
	begin := t.all[:min(len(t.all), window)]
	if strings.Contains(begin, "Exception Group "+stackHead) && groupEnd().MatchString(t.last()) {
		return failed("traceback", groupLine().FindString(begin))
	}
	if f, is := t.stackAbove(); is {
		return f
	}
	if l := t.last(); namedError().MatchString(l) && strings.Contains(begin, "Traceback (most recent call last)") {
		return failed("traceback", l)
	}
	if len(t.tail) == len(t.head) && strings.HasPrefix(t.head[0], "  File \"") || strings.HasPrefix(t.head[0],
		"File \"") && len(t.head) > 1 {
		if l := t.last(); namedError().MatchString(l) {
			return failed("traceback", l)
		}
	}
	if f := t.stackBelow(); f.Rule != "" {
		return f
	}
	return t.alone()
}

// stackAbove reads what Python prints for an exception at the end of the text: its stack, then its name.
func (t *text) stackAbove() (_ Finding, is bool) {
	head := -1
	for i, l := range t.tail {
		if strings.HasPrefix(l, stackHead) || strings.HasPrefix(l, "  File \"") && i == 0 {
			head = i
		}
	}
	if head < 0 && !strings.Contains(t.all[max(0, len(t.all)-window):], "\n"+stackHead) {
		return Finding{}, false
	}
	end := head + 1
	for end < len(t.tail) && (t.tail[end][0] == ' ' || t.tail[end][0] == '\t') {
		end++
	}
	if head < 0 { // the stack is longer than the lines examined
		for end = len(t.tail) - 1; end > 0 && !namedError().MatchString(t.tail[end]); end-- {
		}
	}
	if end >= len(t.tail) {
		return Finding{}, true
	}
	for _, l := range t.tail[end+1:] {
		if logLine().MatchString(l) || !frameLine().MatchString(l) && len(t.tail[end+1:]) > 8 {
			return near("traceback", t.tail[end], "the program continued after it"), true
		}
	}
	if end+1 == len(t.tail) && slices.Contains(t.tail[:end], t.tail[end]) {
		return near("traceback", t.tail[end],
			"the same exception stands there more than once: a collection of them"), true
	}
	after := t.tail[end+1:]
	if len(after) > 0 && wentOn(after) {
		return near("traceback", t.tail[end], "the program continued after it"), true
	}
	if !exceptionLine().MatchString(t.tail[end]) && head < 0 {
		return Finding{}, true
	}
	return failed("traceback", t.tail[end]), true
}

// stackBelow reads an exception followed by its stack, to the end.
func (t *text) stackBelow() Finding {
	for i, l := range t.tail {
		if !panicLine().MatchString(l) && !namedError().MatchString(l) {
			continue
		}
		stack := 0
		whole := true
		for _, below := range t.tail[i+1:] {
			if !frameLine().MatchString(below) {
				whole = false
				break
			}
			stack++
		}
		switch {
		case panicLine().MatchString(l) && (whole || stack+3 > len(t.tail)-i || strings.HasPrefix(t.last(),
			"note: ") || strings.HasPrefix(t.last(), "exit status")):
			return failed("traceback", l)
		case whole && stack > 0:
			return failed("traceback", l)
		}
	}
	return Finding{}
}

// alone reads an exception whose stack is of another kind, is above the lines looked at, or is missing.
func (t *text) alone() Finding {
	if i := slices.IndexFunc(t.tail, func(l string) bool { return strings.HasPrefix(l, "CallStack (from ") }); i > 0 &&
		!wentOn(t.tail[i+1:]) { // Haskell
		return failed("traceback", t.tail[i-1])
	}
	// Node's stack lies above the tail, or the whole text is one exception.
	if len(t.tail) >= 3 && strings.HasPrefix(t.last(), "Node.js v") {
		return failed("traceback", t.errorLine())
	}
	if first := bare(t.head[0]); namedError().MatchString(first) || spelledError().MatchString(first) {
		rest := t.head[1:]
		switch {
		case len(rest) == 0:
			return failed("traceback", t.head[0])
		case t.short && !wentOn(rest):
			return failed("traceback", t.head[0])
		}
		return near("traceback", t.head[0], "the text goes on in words of its own")
	}
	if l := t.last(); namedError().MatchString(l) && len(t.tail) > 1 && strings.TrimLeft(t.tail[len(t.tail)-2],
		" ^~") == "" {
		return failed("traceback", l)
	}
	return Finding{}
}

// spelledName matches the name of an exception that says what is wrong but doesn't end in a word for errors:
// InvalidToken, DoesNotExist.
const spelledName = `(?:[A-Za-z_]\w*(?:\.|::))*` +
	`(?:(?:[A-Z][a-z0-9]*)*(?:Invalid|Bad|Missing|Unknown|Undefined|Unsupported|Unexpected|` +
	`Malformed|Illegal|Duplicate|NoSuch|TooMany|TooLarge|Cannot)(?:[A-Z][a-z0-9]*)+|` +
	`(?:[A-Z][a-z0-9]*)+(?:Not[A-Z][a-z]+|AlreadyExists|Denied|Refused|Exceeded|Expired|Mismatch|Unavailable|` +
	`Unreachable|Timeout|TimedOut|Conflict|Failed|Overflow|Rejected|Forbidden|Unauthorized)|` +
	`(?:[A-Z][a-z0-9]*)*ErrorReturnCode_\d+)`

var spelledError = lazy(`^` + spelledName + `(?:\(.*\)$|: \S.*$|:$)`)

// bare returns a line without the mark that some tools put before an error.
func bare(l string) string {
	rest := strings.TrimLeft(l, "⚠❗❕🔴🛑💥‼\ufe0f ")
	if rest == "" || len(rest) == len(strings.TrimLeft(l, " ")) {
		return l
	}
	return rest
}

// errorLine returns the first line that names an error.
func (t *text) errorLine() string {
	for _, l := range append(t.head, t.tail...) {
		if namedError().MatchString(l) {
			return l
		}
	}
	return t.head[0]
}

// wentOn reports whether the lines after an exception are the program's own, rather than part of its message.
func wentOn(lines []string) bool {
	for i, l := range lines {
		if frameLine().MatchString(l) || strings.HasPrefix(l, stackHead) || namedError().MatchString(l) ||
			more().MatchString(l) {
			continue
		}
		if i+1 < len(lines) && (lines[i+1][0] == ' ' || lines[i+1][0] == '\t') || strings.ContainsAny(l[:1], "[({|^") {
			continue // pydantic names a field and says on the next lines what is wrong with it
		}
		return true
	}
	return false
}

var (
	prefixed = lazy(`^(?:[^\w\s<>"'` + "`" + `-]{1,4}\s*)?(?:\[?(?:ERROR|Error|error|FATAL|Fatal|fatal|Exception|EXCEPTION|FAILED|Failure|FAILURE)\]?|\((?:error|ERROR)\)|[Ff]atal error|[Ii]nternal (?:server )?error|` +
		`error\[E\d+\]|error TS\d+|npm (?:ERR!|error)|[Ss]yntax [Ee]rror|[Pp]arse [Ee]rror|[Rr]untime [Ee]rror|` +
		`[Vv]alidation [Ee]rror|(?:Tool|API|HTTP|Server|Request|Database|Query|SQL|Network|Connection|` +
		`Auth\w*) [Ee]rror|Unexpected error|<urlopen error|\[Errno \d+\]|E[A-Z]{4,}:|### Error|CMake Error|` +
		`ERROR: LoadError|PHP (?:Fatal|Parse) error|Error in \S.{0,80} :|! LaTeX Error|Error (?:while |` +
		`when )?(?:fetching|loading|opening|connecting|creating|updating|deleting|sending|retrieving|getting|` +
		`searching|accessing|validating|executing|running|reading|writing|calling|processing|decoding|parsing|` +
		`querying|saving|building|starting|finding|downloading|uploading|installing|` +
		`compiling|evaluating|resolving)\b[^:]{0,120}|(?:[A-Z]\w+ ){1,2}[Ee]rror|Msg \d+, Level)` +
		`(?: (?:in|from|at|near|code|response from|returned by|on) [^:]{1,60}| \d{3,5}(?: ?\([\w ]+\))?|` +
		` ?\([\w ]{1,30}\))?(?:\s?[:\x{2013}\x{2014}] {0,2}\S|\s-\s|:$|\s\(\w+\): |\s+\[?Errno|\s(?:Missing|` +
		`code|Cannot|Could|Invalid)\b)`)
	logName = lazy(`^ERROR:\w+:`)
)

// boxed matches an error in a box, as Terraform draws it.
var boxed = lazy(`(?m)^[│|] Error: .*$`)

// cross matches a mark in front of what went wrong.
var cross = lazy(`^(?:×|✗|✘|✖|❌|⛔|🚫)\s+[A-Za-z]`)

// tagged matches a level in brackets in front of what went wrong, as in a tool's own log; raises matches a sentence
// naming the exception that something raised.
var (
	tagged = lazy(`^(?:ERR|Err|FATAL)!? [^\s:=|].*|(?i)^\[\s*(?:[\w-]+[ _-])?(?:err(?:or)?|fatal|failed|failure|exception)\s*\]:?\s+\S`)
	raises = lazy(`^(?:The |Your |An? |This )?(?:[\w.()'"` + "`" + `-]+ ){0,4}(?:raised|threw|thrown|throws|` +
		`(?:failed|ended|exited|crashed|aborted|died|stopped) with|hit|got|caught|encountered|ran into)` +
		`(?: an?| the)?(?: \w+)?(?: (?:exception|error))?:? ` + anyException + `(?:: |\(|\.|$)|` +
		`^Unexpected ` + anyException + `: |^\(` + anyException + `\) \S|` +
		`^while (?:parsing|scanning|constructing) an? [a-z ]+$`)
	ended  = lazy(`^[A-Z]\w*(?: \w+){0,3} (?:failed|crashed|aborted|errored):\s+\S`)
	anyTag = lazy(`^\[[A-Za-z]+\]`)
)

// sole reports whether the tag on the first line is the only one in a text of a few lines: a tool's answer, not a log.
func (t *text) sole() bool {
	const most = 6 // lines
	if len(t.head) > most || len(t.all) > 2000 || t.paragraphs() > 0 {
		return false
	}
	return !slices.ContainsFunc(t.head[1:], func(l string) bool {
		return anyTag().MatchString(l) || logLine().MatchString(l)
	})
}

// prefix reads a text that begins with "Error:" and consists of its explanation.
func (t *text) prefix() Finding {
	if cross().MatchString(t.head[0]) && t.startingLike(t.head[0]) == 1 {
		return failed("error_prefix", t.head[0])
	}
	if l := t.head[0]; ended().MatchString(l) && !told().MatchString(l) && t.sole() && !counts().MatchString(l) {
		return failed("error_prefix", l)
	}
	if tagged().MatchString(t.head[0]) && t.sole() || raises().MatchString(t.head[0]) && t.paragraphs() == 0 &&
		len(t.head) <= 12 {
		return failed("error_prefix", t.head[0])
	}
	if t.last() == "╵" {
		if l := boxed().FindString(t.all[max(0, len(t.all)-window):]); l != "" {
			return failed("error_prefix", strings.TrimLeft(l, "│ "))
		}
	}
	first := strings.TrimLeft(t.head[0], "│╷ \t")
	if first == "" && len(t.head) > 1 {
		first = strings.TrimLeft(t.head[1], "│╷ \t")
	}
	if !prefixed().MatchString(first) || logName().MatchString(first) || figure().MatchString(first) {
		return Finding{}
	}
	if again := t.startingLike(first); again > 1 && again < len(t.head) && !t.complains(t.last()) {
		return near("error_prefix", first, "such lines come and go: a log")
	}
	if t.paragraphs() > 0 {
		return near("error_prefix", first, "prose about the error follows")
	}
	if i := strings.IndexByte(first, '|'); i > 0 && i+1 < len(first) && first[i-1] != ' ' && first[i+1] != ' ' &&
		first[i-1] != '|' {
		return near("error_prefix", first, "it is a row of a table")
	}
	if len(t.all) > 8192 {
		return near("error_prefix", first, "it is a small part of a long result")
	}
	return failed("error_prefix", first)
}

// figure matches an error that is a number: a model's error, a measurement's.
var figure = lazy(`^[\w ]*[Ee]rrors?\s?[:=]\s*(?:-?[\d.]+(?:e-?\d+)?\s?%?|none|no|null|false|n/a|\d+ (?:of|` +
	`out of|/) ?\d+.*)$`)

// startingLike counts the lines that begin with the same word as the given one.
func (t *text) startingLike(line string) (n int) {
	word, _, _ := strings.Cut(line, " ")
	for _, l := range t.head {
		if strings.HasPrefix(l, word) {
			n++
		}
	}
	return n
}

// complains reports whether a line belongs to an error: it names one or adds to one.
func (t *text) complains(l string) bool {
	return prefixed().MatchString(l) || more().MatchString(l) || namedError().MatchString(l) || build().MatchString(l)
}

const osError = `(?:\S+ is a directory\b.*|[Nn]o such (?:file|directory|device|process|user|host|column|table|container|image|option|` +
	`command|remote|branch|ref)\b.*|command not found\b.*|not found|Unknown command\b.*|(?:device|file|host|user|module|key) not found\b.*|[Nn]o matching .*|[Pp]ermission denied.*|Is a directory.*|` +
	`[Nn]ot a directory.*|File exists.*|` +
	`[Oo]peration not permitted.*|[Rr]ead-only file system.*|Directory not empty.*|Device or resource busy.*|` +
	`[Cc]onnection (?:refused|reset|timed out|closed).*|No space left on device.*|Invalid argument.*|` +
	`Bad file descriptor.*|Exec format error.*|` +
	`Argument list too long.*|Text file busy.*|Broken pipe.*|unbound variable.*|syntax error\b.*|` +
	`unexpected (?:EOF|end of file|token|EOF while|argument)\b.*|unterminated .*|(?:illegal|invalid|unknown|` +
	`unrecognized|ambiguous|unsupported) (?:option|argument|command|flag|number|regular|key|field|character|` +
	`operand|line).*|` +
	`missing (?:operand|argument|file operand|\S+ near end).*|(?:option|` +
	`the option) .{1,80}(?:requires an argument|is unknown|is ambiguous).*|[Cc]an(?:not|'t|not) .*|` +
	`[Uu]nable to .*|[Cc]ould not .*|[Ff]ailed to .*|fatal: .*|error: .*|ERROR: .*|Error: .*|` +
	`fatal error: .*|error \(.*|` +
	`Unmatched .*|End-of-central-directory.*|[Nn]ot (?:a|in) .{1,40}(?:format|archive|repository|gzip|zipfile|` +
	`command)\b.*|No rule to make target.*|No targets.*|\[Errno \d+\].*|undefined (?:reference|variable|` +
	`symbol|function|name)\b.*|undefined: .*|.*: undeclared\b.*|` +
	`no match(?:es)? (?:for|found).*|arguments must be .*|No module named .*|write error.*|read error.*|` +
	`Input/output error.*|Cannot open.*|Child returned status [1-9].*|\(\d+\) - No such process|` +
	`[Tt]imed out.*|[Aa]borted?.*|[Kk]illed.*|Segmentation fault.*|Bus error.*|Unknown error.*|` +
	`Name or service not known.*|Temporary failure in name resolution.*|invalid .*|expected .*|Is not .*|` +
	`doesn't exist.*|does not exist.*|file not found.*|cannot open.*)`

var (
	// program: [line N:] [file:] the system's message
	unixLine = lazy(`^(?:-?(?:ba|z|da|k|c)?sh|[./\w][\w./+-]{0,80}(?:\.exe)?(?: \([\w ]+\))?|` +
		`/\S+)(?:\[\d+\])?: +(?:(?:line )?\d+: )?(?:[^:]{1,200}: ){0,3}` + osError + `$`)
	// compilers' file:line:column: error:
	compiler = lazy(`^(?:\S+ ?: (?:fatal )?error [A-Z]+\d+: .*|\S+\.(?:c|cc|cpp|cxx|h|hpp|m|go|rs|java|kt|scala|` +
		`swift|zig|cs|f90|proto|hs|ml|ts|tsx|` +
		`js)[:(]\d+(?:[:,]\d+)?\)?:? (?:fatal )?(?:error|undefined|cannot|syntax error|imported and not used|` +
		`declared and not used|expected|missing|invalid)\b.*|` +
		`(?:\./)?\S+\.go:\d+:\d+: \S.*|\S+:\d+(?::\d+)?: (?:fatal )?(?:(?:error|Error): |syntax error\b).*|(?:collect2|ld|clang|cc1|rustc|javac|gcc|g\+\+|` +
		`\S*/ld): (?:fatal )?(?:error: )?.*|\S*\.(?:c|o|cc|cpp):.*undefined reference to .*|` +
		`error: could not compile .*|error(?:\[E\d+\])?: .*|error: aborting due to .*|` +
		`\d+ errors?(?: generated\.)?$|compilation terminated\.$|For more information about this error, try .*)$`)
	build = lazy(`^(?:Error in [^:]{1,60}: \S.*|\S+ exited with (?:status|exit)(?: code)? [1-9]\d*\.?|[Cc]ommand terminated by signal \d+.*|Out of memory: .*|HRESULT: 0x[89][0-9A-Fa-f]{7}.*|` +
		`error [A-Z]{2,5}\d{3,5}: .*|e: \S+\.kts?: .*|Module build failed .*|\S+: exception error: .*|error connecting to .*|` +
		`[\w./-]+: \S.{0,80} fatal: .*|[\w./-]+: (?:\S+:\d+: )?.*\bAssertion .* failed\.?|(?:ERROR: )?In procedure \S+: .*|\s*\(file ".*" line \d+\)$|\S+\s+: ok=\d+ .*(?:unreachable|failed)=[1-9].*|[Ee]rror (?:\w+ing|while|when|` +
		`during) [^:]{1,120}: \S.*|` +
		`Execution of \S+ aborted.*|\S*[Mm]akefile:\d+: \*\*\* .*|[\d\s:%.kMG-]*curl: \(\d+\) .*|` +
		`(?:stat|lstat|open|read|write|mkdir|remove|exec|fork/exec|chdir|rename|unlink|listen tcp|lookup) \S[^:]*: ` +
		`(?:no such|permission|file exists|is a directory|not a directory|connection|address|operation|invalid|` +
		`executable file|too many|input/output|i/o) .*|[a-z][\w-]{1,20} error: \S.*|CMake Error\b.*|` +
		`[0-9A-Fa-f]{8,}:error:[0-9A-F]{8}:.*|[Ee]rror \d{1,5} ?: \S.*|` +
		`\S{1,200}:(?:cannot|can't|could not|unable to|no such) \S.*|` +
		`\s*\S{1,200} - (?:No such file or directory|Permission denied|Not a directory|Is a directory|` +
		`[Nn]o (?:response|answer|reply))\b.*|\S*(?:\.sh|\bbash|\bdash|\bsh|\bzsh|\bksh): (?:line )?\d+: \S.*|` +
		`.{1,200} (?:failed|refused): (?:[Cc]onnection|[Nn]o |[Pp]ermission|[Nn]etwork|[Hh]ost|[Oo]peration).*|` +
		`\d+ out of \d+ hunks? (?:FAILED|ignored).*|Hunk #\d+ FAILED .*|` +
		`\S+: patch does not apply|g?make(?:\[\d+\])?: \*\*\* .*|npm (?:ERR!|error) .*|exit status [1-9]\d*|` +
		`Segmentation fault.*|Killed$|Aborted(?: \(core dumped\))?$|Bus error.*|Terminated$|fatal: .*|` +
		`\S+: fatal: .*|error: .*|ERROR: .*|FATAL: .*|E: .*|\[ERROR\] Failed to .*|Error from server .*|` +
		`(?:docker: )?Error response from daemon: .*|error TS\d+: .*|FAILURE: Build failed.*|BUILD FAILED.*|` +
		`.*\(core dumped\)$|Parse error.* near .*|Error: .*|curl: \(\d+\) .*|psql: error: .*|ssh: .*|` +
		`rsync error: .*|gpg: .*failed.*|\*\*\* No rule .*|Could not resolve host: .*|zsh: .*|` +
		`(?:ba)?sh: .*: (?:not found|command not found)|` +
		`'[^']+' is not recognized as an internal or external command,.*|` +
		`.* : The term '.*' is not recognized as .*|Can't locate \S+ in @INC .*|` +
		`BEGIN failed--compilation aborted .*|perl: .*|Caused by:$|!\s+==> Fatal error.*|` +
		`(?:\[INFO\] )?BUILD FAIL(?:URE|ED).*|\S+: \d+ (?:compile )?errors?$|pq: .*|no crontab for \S+|` +
		`CMake Error .*|-- Configuring incomplete.*|! LaTeX Error.*|.*\(HTTP [45]\d\d\)$|.* ERROR [45]\d\d: .*|` +
		`Failed to \w+ \S+\.(?:service|socket|timer): .*|Unit \S+ could not be found\.|Could not connect to .*|` +
		`No tests found, exiting with code \d|Oops! Something went wrong.*|.* at \S+ line \d+\.|ERR_\w+.*|` +
		`error Command .*|Permission denied \(publickey.*|sudo: .*|Conversion failed!|Execution halted|` +
		`\*\* \(\w+(?:\.\w+)*\) .*|\S+\.rb:\d+:in .*\(\w+\)|Command failed(?: with exit code \d+)?: .*|` +
		`.*returned non-zero exit status [1-9]\d*\.?|[Cc]onnection to \S+ .*(?:refused|timed out|closed).*|` +
		`No files matching .*|unable to access .*|ERROR \d+ \(\w+\).*|lua: .*|PHP (?:Fatal|Parse) error: .*|` +
		`ERROR: LoadError: .*|The connection to the server \S+ was refused.*)$`)
	gitLine = lazy(`^git: '[^']+' is not a git command\.`)
	// What a program adds to its complaint.
	more = lazy(`^(?:\s|This error |` +
		`Candidate |Missing |Reason: |Details?: |Location: |Failed validating |On instance|` +
		`Specify |No |Perhaps |Maybe |Was |Were |Got: |Expected: |- (?:method|waiting|navigating)|` +
		`Parameters?: |(?:File|file): |Install |Alternatively|Please |Command "|Possible reasons|Either |Make sure|` +
		`Ensure |Consider |[╰└]|[Uu]sage:|hint: |try |Try |See |see |For more|for more|DETAIL|HINT|LINE \d|` +
		`CONTEXT|\^|` +
		`note: |= |\||-->|Did you mean|The most similar|Please make sure|and the repository exists|To see |Run |` +
		`A complete log|Options:|\[SQL|\(Background|Is the server running|\d+ \||curl: |` +
		`tar: |npm (?:ERR!|error)|error: |fatal: |Aborting|Error: |optional arguments|positional arguments|` +
		`compilation terminated|Stack trace:|stack traceback:|Stacktrace:|Call log:|#\d|At line:|\+ |` +
		`operable program|info |Type X|\[ERROR\]|thrown in|in expression|Check |If you |Use |\* |Available |` +
		`Valid |Commands:|Example|.*\(core dumped\)|exit status|collect2|warning: |make: |[A-Z][\w-]+:$|` +
		`Caused by:|# |\.\.\.)`)
	usage = lazy(`^(?:[Uu]sage|USAGE|Syntax|SYNTAX|Synopsis)(?: information)?:?\s`)
	// What a program says about its arguments, below its usage.
	rejects = lazy(`^(?:[\w./-]+(?: [\w-]+)?: )?(?:[Ee]rror\b.*|[Ii]nvalid \w.*|[Uu]n(?:known|recognized|` +
		`expected) \w.*|` +
		`[Mm]issing \w.*|[Nn]o such \w.*|(?:the following )?arguments? .*|option .*requires .*)$`)
)

// program reads the last words of a program.
func (t *text) program() Finding {
	last := t.last()
	switch reports, unable := reported(t.all); {
	case unable != "" && reports:
		return failed("program_message", unable)
	case reports:
		return Finding{}
	}
	if strings.Contains(last, "(ignored)") {
		return Finding{}
	}
	if figure().MatchString(last) {
		return Finding{}
	}
	if diagnostic(last) || unixLine().MatchString(strings.TrimSpace(last)) {
		return failed("program_message", last)
	}
	// The complaint, followed by what the program adds.
	for i := len(t.tail) - 1; i >= 0; i-- {
		l := t.tail[i]
		if diagnostic(l) {
			return failed("program_message", l)
		}
		if !more().MatchString(l) && !sameVoice(l, last) {
			break
		}
	}
	if t.buildEnds() {
		return failed("program_message", last)
	}
	if diagnostic(t.head[0]) && len(t.head) > 1 && slices.ContainsFunc(t.head[1:min(len(t.head), 4)], usedSo) {
		return failed("program_message", t.head[0]) // usage may take any number of lines
	}
	if f := t.compiled(); f.Rule != "" {
		return f
	}
	if usage().MatchString(t.head[0]) {
		for _, l := range t.tail[max(0, len(t.tail)-12):] {
			if rejects().MatchString(l) {
				return failed("program_message", l)
			}
		}
	}
	if t.short && diagnostic(t.head[0]) {
		for _, l := range t.head[1:] {
			if !more().MatchString(l) && !diagnostic(l) && !sameVoice(l, t.head[0]) && !namedError().MatchString(l) {
				return near("program_message", t.head[0], "the program continued after it")
			}
		}
		return failed("program_message", t.head[0])
	}
	return Finding{}
}

// diagnostic reports whether a line is the kind that a program ends with when it could not do its work.
func diagnostic(l string) bool {
	return unixLine().MatchString(l) || build().MatchString(l) || compiler().MatchString(l) || gitLine().MatchString(l)
}

// compiled reads a compiler's report, which names the position first and then shows the lines.
func (t *text) compiled() Finding {
	for i, l := range t.head {
		if i < 12 && compiler().MatchString(l) && !strings.Contains(l, ": warning: ") && !strings.HasPrefix(l,
			"error: ") {
			ends := t.tail[max(0, len(t.tail)-4):]
			for _, e := range ends {
				if more().MatchString(e) || compiler().MatchString(e) {
					return failed("program_message", l)
				}
			}
		}
	}
	return Finding{}
}

// usedSo reports whether a line is part of a program's usage.
func usedSo(l string) bool {
	l = strings.TrimSpace(l)
	if i := strings.Index(l, ": "); i > 0 && !strings.Contains(l[:i], " ") && usage().MatchString(l[i+2:]) {
		return true // in the program's own name
	}
	return usage().MatchString(l + " ")
}

// buildEnds reports whether a build's last words are that it failed: its verdict, followed by nothing but errors.
func (t *text) buildEnds() bool {
	for i := len(t.tail) - 1; i >= 0; i-- {
		l := t.tail[i]
		if l == "[INFO] BUILD FAILURE" {
			return true
		}
		if !strings.HasPrefix(l, "[ERROR]") && !strings.HasPrefix(l, "[INFO] ") {
			return false
		}
	}
	return false
}

// speaks returns the program that signs a line, as in "tar: " and "tar (child): ".
func speaks(l string) string {
	i := strings.IndexAny(l, ": ")
	if i <= 0 || l[i] == ' ' && !strings.HasPrefix(l[i:], " (") {
		return ""
	}
	return l[:i] + ":"
}

func sameVoice(a, b string) bool { return speaks(a) != "" && speaks(a) == speaks(b) }

var httpStatus = lazy(`(?:\b[45]\d\d (?:Bad Request|Unauthorized|Payment Required|Forbidden|Not Found|` +
	`Method Not Allowed|Conflict|Gone|Unprocessable|Too Many Requests|Internal Server Error|Not Implemented|` +
	`Bad Gateway|Service (?:Temporarily )?Unavailable|Gateway Time-?out)\b|` +
	`^.{0,60}\b(?:[Ss]tatus|HTTP|http|[Cc]ode)(?:[ _-]?[Cc]ode)?\s?[=:]\s?[45]\d\d\b|` +
	`^.{0,80}\b(?:responded|returned|answered|replied|failed|[Ee]rror|rejected|` +
	`got)\b.{0,40}[ (][45]\d\d(?:[):,.]|$)|` +
	`(?i:^(?:the )?(?:\w+ )?(?:connection|request|socket|handshake|navigation|upstream|stream|tunnel|browser|page)` +
	`(?: \w+){0,3} (?:timed out|hang up|hung up|refused|reset|closed|aborted|lost|crashed)\b)|` +
	`^socket hang up|(?i:^no (?:healthy|available) (?:upstream|server|backend|node|host))|` +
	`^(?:[a-zA-Z]\w*\.)+[a-zA-Z]\w*: .*(?:Timeout \d+ ?ms exceeded|net::ERR_|[Tt]arget .*closed|violation|` +
	`not (?:visible|attached|enabled|found|a valid)|crashed|detached|ERR_)|^strict mode violation: |` +
	`^Message: .*(?:element|session|alert|window|timeout|script)|Error \d+ connecting to |^\([45]\d\d\)$|` +
	`^<_\w*RpcError of RPC that terminated with:|` +
	`^(?:HTTP(?:/[\d.]+)?(?: [Ee]rror)?:? (?:[Ss]tatus(?: [Cc]ode)?:? )?[45]\d\d\b|` +
	`[45]\d\d (?:page not found|method not allowed)$|[45]\d\d(?::| [—-]) [A-Z][a-z]+(?: [A-Z]?[a-z]+){0,4}$|` +
	`[45]\d\d (?:Client|Server) Error: |[45]\d\d [A-Z][a-z]+(?: [A-Z]?[a-z]+){0,4}(?::|$)|(?:Client|` +
	`Server) error '[45]\d\d |(?:[Ss]tatus(?: [Cc]ode)?|[Rr]esponse(?: [Ss]tatus)?(?: [Cc]ode)?):? [45]\d\d\b)|` +
	`\b(?:failed|error|rejected|responded|returned|answered)\b.{0,120}\b(?:status(?: code)?|HTTP|` +
	`code):? ?\(?[45]\d\d\b|Max retries exceeded with url|rpc error: code = |Failed to fetch |` +
	`[Nn]ame or service not known|getaddrinfo (?:ENOTFOUND|EAI_AGAIN)|\bECONN(?:REFUSED|RESET)\b|` +
	`\bENOTFOUND\b|\bETIMEDOUT\b|^\d{3} (?:Unrecognized|Invalid|Syntax|Not found|Bad)\b)`)

// counts matches counts of things checked or seen.
var counts = lazy(`\b\d+ (?:ok|passed|succeeded|errors?|failed|failures?|warnings?)\b`)

// calls matches the log of what was tried, printed below an error.
var calls = lazy(`(?m)^(?:Call log:|Stacktrace:|HTTP response headers:|\s+details = )`)

// http reads a short text that gives the status of a failed request.
func (t *text) http() Finding {
	first := t.head[0]
	if counts().MatchString(first) {
		return Finding{}
	}
	if len(t.all) > 1200 || len(t.head) > 6 && !calls().MatchString(t.all) || !httpStatus().MatchString(bare(first)) ||
		first[0] == '#' || first[0] == '|' || first[0] == '-' || len(t.head) > 1 && t.paragraphs() > 0 ||
		strings.HasPrefix(first, "Title:") {
		return Finding{}
	}
	return failed("http_status", t.head[0])
}

var (
	logLine = lazy(`^(?:\[?\d{4}[-/]\d\d[-/]\d\d[ T]|\[?\d\d:\d\d(?::\d\d)?\b|\[?(?:TRACE|DEBUG|INFO|NOTICE|` +
		`WARN|WARNING|ERROR|FATAL|CRITICAL)\]? +(?:[a-z][\w.]*:|\d\d:\d\d|\d{4}-|\[|[a-z]+ [a-z])|(?:TRACE|` +
		`DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|FATAL|CRITICAL):[\w.]+:|` +
		`[A-Z][a-z]{2} +\d{1,2} \d\d:\d\d:\d\d|[IWEF]\d{4} |(?:time|ts|level)=|\d{1,3}(?:\.\d{1,3}){3} - |` +
		`\{"(?:level|ts|time|timestamp|severity|@timestamp)":)`)
	numbered = lazy(`^\s*\d+(?:\t| ?[|│→:] ?|:)`)
	grepLine = lazy(`^[\w./-]+\.\w+[:-]\d+[:-](?:\d+:)?\S?`)
	mailHead = lazy(`^(?:From|To|Cc|Subject|Date|Reply-To|Sent|Von|An|Betreff): `)
	heading  = lazy("^(?:#{1,6} [A-Z\\d]|```|<!--|Q: |A: )")
	item     = lazy(`^(?:\* \S|- \S|\d+\. \S)`)
	source   = lazy(`^(?:#!/|package \w+$|import [\w{"*]|from [\w.]+ import |(?:export |async |public |private |` +
		`static )*(?:class|def|func|function|const|let|interface|enum|struct|fn|impl|module|` +
		`namespace) \S.*[{:(=]$|class \w+|def \w+\(|func \w+\(|if __name__|#include|using \w|"""|//|/\*|try:$|` +
		`except\b.*:$|raise \w|throw new )`)
	speaker  = lazy(`^(?:<\w+> |\[\d\d:\d\d\] \w+: |(?:Agent|Customer|User|Assistant|Human|Support|Caller): )`)
	manual   = lazy(`^(?:NAME|SYNOPSIS|DESCRIPTION|EXIT STATUS|OPTIONS)$`)
	diffHead = lazy(`^(?:diff --git |--- [ab]/|\+\+\+ [ab]/|@@ -\d|commit [0-9a-f]{4,40}$|Author: )`)
)

// looksLikeLog reports whether the first line is from a log.
func looksLikeLog(lines []string) bool { return logLine().MatchString(lines[0]) }

// document says why a text is a document, whose errors are not the call's. rule is the rule that would otherwise match.
func (t *text) document(rule string) string {
	if rule == "refusal" || len(t.head) == 1 {
		if looksLikeLog(t.head) && tagged().MatchString(t.head[0]) {
			return "" // a level without a timestamp or logger name
		}
		if looksLikeLog(t.head) {
			return "it is a line of a log"
		}
		return ""
	}
	if exitStatus().MatchString(t.last()) && t.short {
		return "" // from the program that ran what is printed above
	}
	return t.kind()
}

// kind returns the kind of document that a text is, judging by its first lines, or an empty string.
func (t *text) kind() string {
	n := t.marks()
	lines := len(t.head)
	switch {
	case strings.Contains(strings.Join(t.tail, "\n"), "BUILD FAIL") || strings.HasPrefix(t.head[0], "FAILURE: "):
		return ""
	case n["log"] >= 2 || n["log"] == 1 && looksLikeLog(t.head):
		return "it is a log"
	case n["mail"] >= 2 || n["mail"] == 1 && mailHead().MatchString(t.head[0]):
		return "it is a mail"
	case n["numbered"]*5 >= lines*4 && lines > 1:
		return "it is a file with numbered lines"
	case n["diff"] >= 2:
		return "it is a diff or a commit"
	case n["grep"]*2 >= lines:
		return "it is a list of places in files"
	case n["speaker"] >= 2:
		return "it is a conversation"
	case n["manual"] >= 1:
		return "it is a manual page"
	case n["item"] >= 2 || n["item"] == 1 && item().MatchString(t.head[0]):
		return "it is a list"
	case n["heading"] >= 2 || n["heading"] == 1 && heading().MatchString(t.head[0]) &&
		!strings.HasPrefix(t.head[0], "# command"):
		return "it is written as a document, with headings or lists"
	case n["source"] >= 2 || n["source"] == 1 && source().MatchString(t.head[0]):
		return "it is source code"
	case letter().MatchString(t.head[0]) || t.proseBefore():
		return "it is a letter or an article that quotes it"
	}
	return ""
}

// marks counts the lines that indicate a kind of document.
func (t *text) marks() map[string]int {
	n := map[string]int{}
	for _, l := range t.head {
		switch {
		case logLine().MatchString(l):
			n["log"]++
		case mailHead().MatchString(l):
			n["mail"]++
		case numbered().MatchString(l):
			n["numbered"]++
		case diffHead().MatchString(l):
			n["diff"]++
		case grepLine().MatchString(l) && !compiler().MatchString(l) && !strings.Contains(l, "rror") &&
			!build().MatchString(l):
			n["grep"]++
		case speaker().MatchString(l):
			n["speaker"]++
		case manual().MatchString(l):
			n["manual"]++
		case heading().MatchString(l):
			n["heading"]++
		case item().MatchString(l):
			n["item"]++
		case source().MatchString(l):
			n["source"]++
		}
	}
	return n
}

var exitStatus = lazy(`^(?:exit status [1-9]\d*|The connection to the server \S+ was refused.*|` +
	`(?:error|Error|ERROR): .{0,300}|fatal: .{0,300})$`)

var letter = lazy(`^(?:Hi|Hello|Hey|Dear|Hallo|Good (?:morning|day))\b.{0,40}[,!]?$`)

// proseBefore reports whether the first lines contain sentences of prose.
func (t *text) proseBefore() bool {
	n := 0
	for _, l := range t.head {
		if len(strings.Fields(l)) >= 12 && (strings.HasSuffix(l, ".") || strings.HasSuffix(l, ":")) &&
			l[0] >= 'A' && l[0] <= 'Z' && !strings.Contains(l[:min(len(l), 40)], ": ") {
			n++
		}
	}
	return n >= 2
}

var (
	nothing = lazy(`(?i)^(?:sorry, )?(?:no (?:\w+ ){0,3}?(?:results?|matches|match|items|records|rows|documents|` +
		`entries|files|hits|errors?|issues|problems|changes|data|\w+s)\b|nothing |0 |none\b|found (?:0|no)\b|` +
		`empty\b|there (?:are|were) no )`)
	done = lazy(`(?i)^(?:success|ok\b|okay|done|booked|created|updated|deleted|removed|saved|sent|` +
		`transferred|reserved|completed|finished|the file .* has been|voucher redeemed|applied|added|yes\b)`)
	told = lazy(`(?i)^(?:job|build|pipeline|run|deployment|task|backup|shipment|parcel|step|stage|test|tests|` +
		`service|sensor|node|pod|worker|cron|import|order|invoice|charge|status|state|result|last|latest|` +
		`previous|device)\b[^.]{0,60}\b(?:failed|failure|error|denied|rejected)\b`)
	refused = lazy(`(?i)^(?:sorry\b|(?:i |we |you )?(?:cannot|can't|can not|could not|couldn't|unable to|` +
		`failed to|are not allowed|aren't allowed|may not|must not|must |do not have|don't have|have no)\b|` +
		`(?:wrong|incorrect|refusing|aborting|blocked|disallowed|rejected|denied|invalid|unknown|unsupported|` +
		`missing|illegal|unauthorized|unauthorised|unrecognized|unexpected|malformed|duplicate|forbidden|` +
		`not (?:allowed|authorized|authorised|permitted|found|available|enough|supported|possible)|` +
		`access (?:denied|is denied|forbidden)|permission denied|insufficient|no such|too (?:many|few|long|` +
		`short|large|small|late|early)|bad request|operation not|request (?:rejected|refused|denied|failed|` +
		`timed out)|timed out|timeout\b|quota|rate limit|bad (?:\w+ ){0,2}(?:specified|given|supplied|type|value|format|` +
		`name|number|header|argument|option|address|descriptor|syntax|token|character|escape|file|data|input))\b|` +
		`\S+(?: \S+)? malformed$|` +
		`(?:\S+ ){0,5}(?:failed|refused|rejected|denied|aborted|not possible|impossible|invalid|` +
		`unavailable)(?:[.:!]|$| (?:because|due to|since)\b)|get failed:|delete failed:)`)
	said = lazy(`(?i)\b(?:cannot be|can't be|can not be|could not be|couldn't be|can only be|must be|` +
		`must not be|must have|must contain|must (?:provide|specify|give|supply|pass)|should be (?:provided|given|specified|supplied)|is required|are required|is missing|are missing|already (?:taken|` +
		`booked|exists?|been|in use|reserved|redeemed|used|registered|closed|cancelled|canceled|shipped|paid|` +
		`sold|assigned)|` +
		`(?:is|are|was|were) (?:not|no longer) (?:in|available|allowed|valid|permitted|possible|authori[sz]ed|` +
		`supported|a valid|found|eligible|enough|registered|part|open|known|recogni[sz]ed|defined|accessible|` +
		`active)|isn't (?:available|allowed|valid|supported)|has expired|have expired|has already|have already|` +
		`(?:does|do|did)(?: not|n't) \w+|(?:has|have) not been|(?:was|were)(?: not|n't) \w+|(?:syntax|parse|` +
		`connect|connection|network|authentication|validation|certificate|protocol|login|lookup|upload|download|` +
		`constraint) (?:error|failure|failed)|wrong kind of|requires .{0,30}(?:privileges?|permissions?|access|` +
		`roles?|approval|log ?in|authentication|authorization|subscription|verification)|didn't match|` +
		`did not match|doesn't match|does not (?:match|add up|allow|have|support|belong|contain|accept)|` +
		`not (?:enough|found|allowed|permitted|available|authori[sz]ed|supported|exist)\b|exceeds|exceeded|` +
		`out of (?:stock|range)|sold out|insufficient|is (?:full|closed|locked|disabled|invalid|unavailable|` +
		`expired|denied|taken|out of|too \w+)|` +
		`(?:do|does) not have (?:permission|access)|would exceed|no longer (?:available|possible|valid|exists|` +
		`supported)|permission denied|access denied|unauthori[sz]ed|only possible|overdrawn|only \w+ (?:can|` +
		`may) \w+|please (?:provide|specify|enter|supply|choose another|try again)|has to be|have to be|` +
		`needs to be|conflicts with|overlaps with|not a valid|limit reached|is (?:frozen|blocked|suspended|` +
		`inactive|expired)|deadline (?:has|for|was)|is below the minimum|is above the maximum|` +
		`is less than the minimum|is greater than the maximum)\b`)
	byID = lazy(`(?i)^no (?:\w+ ){1,3}(?:with|for|named|called|by)\b.{0,40}\S*[\d"'#]|` +
		`^no (?:\w+ ){1,3}with .{0,60} (?:exists?|found)\b`)
)

// undone matches a statement that the request was not carried out, or that the one thing asked for doesn't exist.
var undone = lazy(`(?i)^(?:nothing (?:was|is|has been) (?:changed|done|saved|sent|deleted|updated|created|` +
	`booked)\b|` +
	`no \w+ (?:named|called|with (?:the )?(?:id|name|number|key)) \S+|(?:\S+ ){1,4}not (?:applied|saved|sent|` +
	`created|` +
	`updated|executed|performed|completed|processed|accepted|delivered|accessible)\b|bad \w+: \S)`)

// core strips from a short refusal what is added to its sentence: the place, a hint. Any other text is returned
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

// generalRule matches the start of a sentence about what holds in general.
var generalRule = lazy(`(?i)^[\w ]{0,30}\b(?:policy|policies|rules?|terms|conditions|guidelines?|faq|note|` +
	`summary|translation|` +
	`answer|transcript|title|description)\s?:`)

// camel matches a name like BadZipFile in front of its message.
var camel = lazy(`^(?:[\w.]+\.)?[A-Z][a-z]+(?:[A-Z][a-z]+)+: (\S.*)$`)

// main returns the main clause of a sentence; what follows gives the reason.
func main(s string) string {
	for _, w := range []string{" because ", " since ", " after ", "; "} {
		if i := strings.Index(s, w); i > 12 {
			s = s[:i]
		}
	}
	return s
}

// code matches a line of source code.
var code = lazy(`^(?:throw |raise |return |if |with |fmt\.|console\.|print\(|[\w.]+ :?= |:raises |` +
	`\w+\(.*\)\s*[{;]?$)|[;{]$`)

// refusal reads a sentence or two that refuse something.
func (t *text) refusal() Finding {
	if core := t.core(); core != t {
		return core.refusal()
	}
	l := t.head[0]
	if !t.one() || t.paragraphs() > 0 || strings.Count(t.all, ". ") >= 2 || figure().MatchString(l) ||
		generalRule().MatchString(l) && !refused().MatchString(l) || logLine().MatchString(l) ||
		grepLine().MatchString(l) || strings.ContainsAny(l[:1], "{<|#>/*-0123456789") || code().MatchString(l) ||
		l[0] == '[' && !strings.HasPrefix(l, "[Errno") {
		return Finding{}
	}
	first := sentence(t.head[0])
	switch {
	case raw().MatchString(t.head[0]), phrase().MatchString(first):
		return failed("refusal", first)
	case len(strings.Fields(first)) < 2:
		return Finding{}
	case byID().MatchString(first), undone().MatchString(first):
		return failed("refusal", first)
	case nothing().MatchString(first), done().MatchString(first), strings.HasSuffix(first, "?"),
		strings.Contains(first, "|"):
		return Finding{}
	case told().MatchString(first):
		if said().MatchString(first) && !strings.Contains(strings.ToLower(first), "failed") {
			return failed("refusal", first)
		}
		return Finding{Rule: "refusal", Quote: clip(first), Why: "it tells of the state of something", Supported: true}
	case refused().MatchString(first), said().MatchString(main(first)), says().MatchString(main(first)):
		return failed("refusal", first)
	}
	if m := camel().FindStringSubmatch(first); m != nil && textOf(m[1]).refusal().Failed {
		return failed("refusal", first)
	}
	return Finding{}
}

// Further forms of refusal, by how the sentence is built rather than what it is about.
var says = lazy(`(?i)(?:\bno longer \w+|\b(?:reached|hit|exhausted) (?:the|your|its|their|a) .{0,30}(?:maximum|` +
	`limit|` +
	`quota|cap)\b|\b(?:could not|couldn't|unable to|failed to|not able to)\b|\boverlaps?\b.{0,40}\b(?:existing|` +
	`another|other)|\bis (?:occupied|read-only|discontinued|deactivated|restricted|prohibited|forbidden|` +
	`unreachable|unsupported|unknown|ambiguous|malformed|empty and|offline and)\b|` +
	`^(?:the |your |this )?(?:\S+ ){0,3}(?:has |have |is |was |are )?expired\b|\bhas ended\b|` +
	`^only (?:the |an? )?[\w-]+(?: [\w-]+)? (?:may|can|is allowed|are allowed)\b|` +
	`^only [\w-]+(?: [\w-]+){0,2} (?:is|are) (?:allowed|permitted|supported|accepted)\b|` +
	`\b(?:rejected|denied|refused|declined)\s[-\x{2013}\x{2014}]|\bforbidden\b|` +
	`\b(?:cannot|can't|can not) (?:find|open|read|write|access|connect|resolve|load|parse|locate|create|delete|` +
	`remove|` +
	`execute|display|process|determine|handle|iterate|convert|assign|call)\b|\bis outside (?:the|of|your|its)\b|` +
	`\binvalid (?:value|arguments?|type|format|input|parameters?|id|name|request|token|key|url|path|date|state)\b|` +
	`\bexpected .{1,40}, (?:but )?(?:got|found|received)\b|\b(?:raised|threw) an? (?:exception|error)\b|` +
	`\bfailed (?:with|due to|on)\b|\bno output (?:was )?(?:produced|written|generated)\b|\bis (?:illegal|incorrect|wrong|archived)\b|: (?:invalid|` +
	`unsupported) [^:]{1,40}$|` +
	`^there (?:is|are|was|'s) no (?:such )?[\w-]+(?: [\w-]+){0,2} \S*[\d#"'][\w#"'-]*\W*$|` +
	`^(?:relation|table|column|database|schema|function|index|type|view|collection|constraint|user|role|file|` +
	`bucket|key|queue|topic|branch) "?'?[\w.$-]+"?'? (?:does not exist|already exists|not found|` +
	`is ambiguous)|\bis a required (?:property|field|argument|parameter)\b|out[- ]of[- ]bounds\b|` +
	`^(?:E\d{4,5}|ORA-\d+|[A-Z]{2,5}-\d{3,5}|SQLSTATE\S*):? \S|^\((?:error|err)\) \S|\bunsupported \w+|` +
	`\b(?:badly formed|ill-formed|mismatch\b.*\bline \d|deadlock detected|incomplete input)\b|` +
	`^while (?:parsing|scanning|constructing) a|^'[\w-]+' codec can't|^(?:[\w.]+\(\)|[\w.]+) (?:arg|iterable)\b.*` +
	`\b(?:empty|invalid)|^file (?:contains no|is not an?) |\bviolates\b)`)

// The bare message of an exception, as returned by tools that catch every exception.
var raw = lazy(`^(?:'[\w.]+' object (?:has no attribute|is not|does not) .*|unsupported operand type.*|` +
	`(?:integer |float )?division by zero|(?:list|string|tuple) index out of range|index out of (?:range|` +
	`bounds).*|` +
	`name '\w+' is not defined|\S+ is not a valid [\w ]+|\w+ is not (?:defined|a function|iterable|a constructor)|` +
	`[\w.]+\(\) (?:missing \d+ required|got an unexpected keyword|takes (?:from )?\d+|got multiple values).*|` +
	`invalid literal for \w+\(\).*|` +
	`Expecting (?:value|property name|',' delimiter|':' delimiter).*|could not convert string to .*|` +
	`Cannot read propert(?:y|ies) .*|Unexpected (?:token|end of|identifier).*|fetch failed|` +
	`time data '.*' does not match format .*|` +
	`local variable '\w+' referenced before .*|maximum recursion depth exceeded.*|No module named .*|` +
	`math domain error|not enough values to unpack.*|too many values to unpack.*|cannot import name .*|` +
	`invalid syntax.*|unexpected EOF.*|` +
	`.{1,120}(?:: | at | in |, |\()line:? \d+,? (?:col(?:umn)?|char):? \d+\W*|` +
	`.{0,80}\b(?:want|wanted|need) .{1,80}, (?:but )?got .*|expected .{1,80}, (?:but )?(?:not|got|found|received) .*|(?:the )?option \S+ not recogni[sz]ed|` +
	`.{1,80}: x not in \w+|conversion from .{1,80} failed .*|.{1,80} truncated|.{1,120} \(\d+ sub-exceptions?\)|` +
	`object of type '\w+' has no .*|` +
	`Object of type \w+ is not JSON serializable|\[Errno \d+\] .*|E[A-Z]{4,}: .*|net::ERR_\w+.*|` +
	`Message: no such element.*|runtime error: .*|strconv\.\w+: .*|json: cannot unmarshal .*|` +
	`open \S+: (?:no such file|permission denied).*|dial tcp .*|context deadline exceeded.*|null pointer.*)$`)

// The reason phrase of a status, alone.
var phrase = lazy(`(?i)^(?:not found|forbidden|unauthori[sz]ed|bad request|internal server error|access denied|` +
	`permission denied|method not allowed|conflict|service unavailable|bad gateway|gateway timeout|` +
	`timed? ?out|rate limit exceeded|too many requests|unprocessable entity)\W*$`)

// sentence returns the first sentence of a line.
func sentence(l string) string {
	for i := 0; i+1 < len(l); i++ {
		if (l[i] == '.' || l[i] == ';' || l[i] == '!') && l[i+1] == ' ' && i > 8 {
			return l[:i+1]
		}
	}
	return l
}
