package sdpo

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
)

// Classes of error that a result shows.
const (
	classFlag      = "flag"
	classExitCode  = "exit_code"
	classStatus    = "status"
	classException = "exception"
)

// detector tells results that show a failed call from all others.
type detector struct {
	shapes    map[string]bool // of Detect.Results
	match     []matcher
	transient []*regexp.Regexp
	ignore    []*regexp.Regexp
}

type matcher struct {
	tool, pattern *regexp.Regexp
	path          path
	class         string
}

func newDetector(c *Detect) (*detector, error) {
	d := &detector{shapes: map[string]bool{}}
	for _, s := range c.Results {
		d.shapes[s] = true
	}
	var err error
	if d.transient, err = patterns("detect.transient", c.Transient); err != nil {
		return nil, err
	}
	if d.ignore, err = patterns("detect.ignore_tools", c.IgnoreTools); err != nil {
		return nil, err
	}
	for i, m := range c.Match {
		setting := fmt.Sprintf("detect.match[%d]", i)
		x := matcher{class: m.Class}
		if x.class == "" {
			x.class = "tool_error"
		}
		if x.tool, err = pattern(setting+".tool", m.Tool); err != nil {
			return nil, err
		}
		if x.pattern, err = pattern(setting+".pattern", m.Pattern); err != nil {
			return nil, err
		}
		if m.JSONPath != "" {
			if x.path, err = parsePath(m.JSONPath); err != nil {
				return nil, fmt.Errorf("%s.json_path: %w", setting, err)
			}
		}
		d.match = append(d.match, x)
	}
	return d, nil
}

// result returns the class of error that a result shows; empty: it shows none.
func (d *detector) result(tool string, n *ttc.Node) string {
	if anyFits(d.ignore, tool) {
		return ""
	}
	c := contentOf(textOf(&n.Message))
	for _, m := range d.match {
		if fits(m.tool, tool) && m.fits(c) {
			return m.class
		}
	}
	flagged, said := flag(n)
	switch {
	case said && !flagged && n.Error != nil:
		return "" // the source says that the call went well
	case d.shapes[classFlag] && (flagged || c.flagged()):
		return classFlag
	}
	about := aboutOthers(tool)
	for _, s := range []struct {
		class string
		shows func(*content, quoting) bool
	}{{classExitCode, exitCode}, {classStatus, status}, {classException, exception}} {
		if d.shapes[s.class] && s.shows(c, about) {
			return s.class
		}
	}
	return ""
}

func (m *matcher) fits(c *content) bool {
	if m.path == nil {
		return m.pattern.MatchString(c.text)
	}
	v, ok := m.path.find(c.whole())
	if !ok {
		return false
	}
	if m.pattern != nil {
		return m.pattern.MatchString(plainText(v))
	}
	return truthy(v)
}

// flag reads what the source or the message says of a result, outside its content: Anthropic's and MCP's is_error, and
// LangChain's status.
func flag(n *ttc.Node) (flagged, said bool) {
	if n.Error != nil {
		return *n.Error, true
	}
	for _, x := range n.Message.Extra {
		switch x.Key {
		case "is_error", "isError", "error":
			if x.Value.Kind() != json.Null {
				return truthy(x.Value), true
			}
		case "status":
			if s, ok := x.Value.Text(); ok {
				return s == "error", true
			}
		}
	}
	return false, false
}

// wentWell says whether the source or the message says outright that the call worked.
func wentWell(n *ttc.Node) bool {
	if flagged, said := flag(n); flagged || !said {
		return false
	}
	return n.Error != nil || !slices.ContainsFunc(n.Message.Extra, func(x chat.Member) bool {
		s, ok := x.Value.Text()
		return x.Key == "status" && ok && s != "success"
	})
}

// content is the text of a result, and its JSON object where it is one.
type content struct {
	text   string
	object json.Raw // nil: no object
	keys   []string // of object
	value  json.Raw // the text as any JSON value; parsed when asked for
	parsed bool
}

// maxJSON is the largest result that is looked into.
const maxJSON = 4 << 20

func contentOf(text string) *content {
	c := &content{text: strings.TrimSpace(text)}
	if strings.HasPrefix(c.text, "{") && c.whole().Kind() == json.Object {
		c.object = c.value
		for k := range c.object.Members() {
			name, _ := k.Text()
			c.keys = append(c.keys, name)
		}
	}
	return c
}

func (c *content) whole() json.Raw {
	if !c.parsed {
		c.parsed = true
		if len(c.text) <= maxJSON {
			c.value, _ = json.Parse([]byte(c.text), json.Limits{})
		}
	}
	return c.value
}

func (c *content) get(key string) json.Raw {
	if c.object == nil {
		return nil
	}
	v, _ := c.object.Get(key)
	return v
}

func (c *content) isTrue(key string) bool { b, ok := c.get(key).Bool(); return ok && b }

// flagged says whether the object is a result with its flag, as MCP, Anthropic and the AI SDK have it. In an object with other
// keys a flag is that of something reported.
func (c *content) flagged() bool {
	if (c.isTrue("isError") || c.isTrue("is_error")) && c.only(flagKeys) {
		return true
	}
	kind, _ := c.get("type").Text()
	return (kind == "error-text" || kind == "error-json") && c.get("value") != nil && len(c.keys) == 2
}

func (c *content) has(keys ...string) bool {
	return slices.ContainsFunc(keys, func(k string) bool { return truthy(c.get(k)) })
}

// only says whether the object has no keys but these.
func (c *content) only(allowed map[string]bool) bool {
	return c.object != nil && !slices.ContainsFunc(c.keys, func(k string) bool { return !allowed[k] })
}

func set(keys ...string) map[string]bool {
	m := map[string]bool{}
	for _, k := range keys {
		m[k] = true
	}
	return m
}

// What the object of a failed call consists of. An object with other keys reports on something: a failed payment, a job's
// exit code, a log record.
var (
	exitKeys    = []string{"exit_code", "exitCode", "returncode", "return_code", "returnCode", "exit_status"}
	processKeys = set(append([]string{"stdout", "stderr", "output", "command", "cmd", "duration", "duration_ms", "timed_out", "timedOut", "cwd", "signal", "success"}, exitKeys...)...)
	flagKeys    = set("isError", "is_error", "content", "structuredContent", "_meta", "type", "tool_use_id", "toolUseId", "tool_call_id", "name", "error", "message", "output", "text")
	statusKeys  = []string{"status_code", "statusCode", "http_status", "httpStatus", "status"}
	rpcKeys     = set("jsonrpc", "id", "error")
	errorKeys   = set(append([]string{
		"error", "errors", "exception", "traceback", "message", "msg", "detail", "details", "code", "type", "title", "reason",
		"error_code", "errorCode", "error_type", "errorType", "error_message", "errorMessage", "request_id", "requestId", "success", "ok", "param", "hint", "data", "result",
	}, statusKeys...)...)
)

// lazy is a regular expression that is compiled when it is first used: these took a process that serves other builders a
// millisecond of its start.
func lazy(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

var (
	exitHead = lazy(`^(?:<returncode>\s*(-?\d+)\s*</returncode>|Exit code (\d+)(?:\n|$)|Exit code: (-?\d+)\nWall time: )`)
	exitTail = lazy(`(?:^|\n)\[(?:The c|C)ommand (?:completed|finished|exited) with exit code (-?\d+)\.?\]$`)
)

// exitCode says whether the result is that of a process that failed.
func exitCode(c *content, about quoting) bool {
	if c.object != nil {
		if inner := c.get("metadata"); inner.Kind() == json.Object && len(c.keys) == 2 && c.get("output") != nil {
			n, ok := int64(0), false
			if code, has := inner.Get("exit_code"); has {
				n, ok = code.Int64()
			}
			return !about.states && ok && n != 0
		}
		return !about.states && c.only(processKeys) && (c.get("stdout") != nil || c.get("stderr") != nil || c.get("output") != nil) &&
			slices.ContainsFunc(exitKeys, func(k string) bool { n, ok := c.get(k).Int64(); return ok && n != 0 })
	}
	if about.texts || about.states {
		return false
	}
	for _, re := range []*regexp.Regexp{exitHead(), exitTail()} {
		if m := re.FindStringSubmatch(c.text); m != nil {
			return strings.Trim(strings.Join(m[1:], ""), "-0") != ""
		}
	}
	return false
}

// status says whether the result is an error by its status, and nothing else.
func status(c *content, about quoting) bool {
	if about.states || !c.only(errorKeys) || c.isTrue("success") || c.isTrue("ok") || truthy(c.get("data")) || truthy(c.get("result")) {
		return false
	}
	explained := c.has("error", "errors", "message", "msg", "detail", "details", "title", "reason", "error_message", "errorMessage")
	for _, k := range statusKeys {
		v := c.get(k)
		if n, ok := v.Int64(); ok && n >= 400 && n <= 599 && explained {
			return true
		}
	}
	if s, ok := c.get("status").Text(); ok && strings.EqualFold(s, "error") && explained {
		return true
	}
	for _, k := range []string{"success", "ok"} {
		if b, isBool := c.get(k).Bool(); isBool && !b && explained {
			return true
		}
	}
	return false
}

var (
	exceptionName = `[A-Za-z_][\w.$]*(?:Error|Exception|Interrupt|Exit|Failure)`
	exceptionLine = lazy(`^` + exceptionName + `(?:\(.*\)|:\s.*|:)$`)
	exceptionEnd  = lazy(`^` + exceptionName + `$`) // of a stack; alone it is a name
	logLine       = lazy(`^(?:\[?\d{4}-\d\d-\d\d|\[?\d\d:\d\d:\d\d|\[?(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|FATAL|CRITICAL)\b|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|[IWEF]\d{4} |(?:time|ts|level)=)`)
	frameworkText = lazy(`^(?:<tool_use_error>|An error occurred while running the tool\. Please try again\. Error: |An error occurred while parsing tool arguments\. |` +
		`Error executing tool \S+( with (?:kwargs|arguments) .*)?:|Error: \S+ is not a valid tool, try one of \[|Error invoking tool |Failed to invoke Tool |MCP error -?\d+: |` +
		`Input validation error: |I encountered an error while trying to use the tool\. This was the error: |(?:Unknown tool|Tool not found): \S+$)`)
	frameworkEnd = lazy(`(?s)^Error: .*\n Please fix your mistakes\.$|^\d+ validation errors?: .*\n\nFix the errors and try again\.$`)
)

// exception says whether the result is, as a whole, what an exception leaves: its text with the stack, what agent frameworks
// make of it, or an object that holds an error and nothing else.
func exception(c *content, about quoting) bool {
	if c.object != nil {
		if c.only(rpcKeys) && c.get("jsonrpc") != nil {
			return !about.states && c.get("error").Kind() == json.Object
		}
		return !about.states && c.only(errorKeys) && c.has("error", "errors", "exception", "traceback") &&
			!c.isTrue("success") && !c.isTrue("ok") && !truthy(c.get("data")) && !truthy(c.get("result"))
	}
	if about.texts || about.states {
		return false
	}
	return frameworkText().MatchString(c.text) || frameworkEnd().MatchString(c.text) || stack(c.text)
}

const stackHead = "Traceback (most recent call last):"

// stack says whether a text is one exception: the line that names it, with nothing around but its message and the stack. What
// goes on in words, or with another exception that was not raised on the way, is a text about exceptions.
func stack(text string) bool {
	const most = 1000 // lines looked at
	lines := strings.SplitN(text, "\n", most)
	traced := strings.HasPrefix(lines[0], stackHead)
	if traced {
		lines = lines[1:]
		for len(lines) > 0 && indented(lines[0]) {
			lines = lines[1:]
		}
	}
	if len(lines) == 0 {
		return false
	}
	first := strings.TrimRight(lines[0], " \t\r")
	if !exceptionLine().MatchString(first) && !(traced && exceptionEnd().MatchString(first)) {
		return false
	}
	for i, line := range lines[1:] {
		switch {
		case logLine().MatchString(line):
			return false
		case strings.HasPrefix(line, stackHead):
			return chained(lines[1 : 1+i])
		case !traced && !indented(line) && !frame().MatchString(line) && (i+2 >= len(lines) || !indented(lines[i+2]) || lines[i+2] == ""):
			return false
		}
	}
	return true
}

// frame is a line of a stack that needs not be indented. What pydantic says of a field has an indented line below it.
var frame = lazy(`^(?:at |Caused by: |During handling of the above|The above exception was|Suppressed: |\.\.\. \d+ more|For further information |\^+$)`)

func indented(line string) bool {
	return line == "" || line[0] == ' ' || line[0] == '\t' || line == "\r"
}

// chained says whether what precedes a stack says that it is of the same failure.
func chained(before []string) bool {
	for i := len(before) - 1; i >= 0; i-- {
		if s := strings.TrimSpace(before[i]); s != "" {
			return strings.HasPrefix(s, "During handling of the above exception") || strings.HasPrefix(s, "The above exception was the direct cause")
		}
	}
	return false
}

// quoting says what a tool's results are made of, by the words of its name. Such results are about errors of others more
// often than they are errors, and only an explicit flag is believed.
type quoting struct {
	states bool // states of other things: logs, jobs, incidents
	texts  bool // texts that were written elsewhere: files, pages, mails
}

var (
	stateWords = set("log", "logs", "logging", "journal", "journalctl", "dmesg", "trace", "traces", "traceback", "tracebacks", "stacktrace", "stacktraces", "tail", "audit", "event", "events",
		"incident", "incidents", "outage", "outages", "postmortem", "alert", "alerts", "warning", "warnings", "status", "state", "health", "check", "checks", "monitor", "monitoring", "metric", "metrics",
		"telemetry", "dashboard", "debug", "crash", "crashes", "error", "errors", "exception", "exceptions", "failure", "failures", "bug", "bugs", "issue", "issues", "defect", "defects", "report", "reports",
		"stderr", "stdout", "output", "outputs", "console", "job", "jobs", "build", "builds", "test", "tests", "pytest", "lint", "ci", "pipeline", "pipelines", "runs", "workflow", "workflows",
		"deployment", "deployments", "pod", "pods", "container", "containers", "kubectl", "history", "diagnose", "diagnostics", "diagnostic", "validate", "validation", "validator", "inspect", "scan",
		"track", "tracking", "poll", "queue", "record", "records", "entry", "entries", "sentry", "splunk", "datadog", "kibana", "loki", "grafana", "cloudwatch", "newrelic", "pagerduty", "bugzilla", "jira")
	textWords = set("cat", "read", "view", "show", "display", "print", "echo", "head", "grep", "search", "find", "open", "file", "files", "document", "documents", "doc", "docs", "documentation", "readme",
		"page", "pages", "web", "html", "url", "fetch", "browse", "scrape", "download", "wiki", "wikipedia", "article", "articles", "news", "post", "posts", "forum", "thread", "threads", "stackoverflow",
		"email", "emails", "mail", "inbox", "sms", "slack", "discord", "chat", "conversation", "conversations", "transcript", "transcripts", "message", "messages", "comment", "comments", "reply", "replies",
		"feedback", "complaint", "complaints", "support", "case", "cases", "ticket", "tickets", "note", "notes", "memory", "recall", "clipboard", "paste", "snippet", "snippets", "gist", "diff", "commit",
		"commits", "git", "blame", "lookup", "retrieve", "dump", "explain", "define", "definition", "describe", "help", "man", "knowledge", "kb", "faq", "ask", "answer", "answers", "question", "questions",
		"summarize", "summarise", "summary", "translate", "translation", "text", "content", "contents", "ocr", "quote", "example", "examples")
	notLogs = set("catalog", "dialog", "blog", "analog", "prolog", "epilog", "backlog", "login", "logout", "logon", "logoff", "logo", "logos", "logic", "logical", "logistic", "logistics", "catalogs", "dialogs", "blogs")
)

func aboutOthers(tool string) (q quoting) {
	for _, w := range nameWords(tool) {
		log := strings.HasSuffix(strings.TrimSuffix(w, "s"), "log") || strings.HasPrefix(w, "log")
		q.states = q.states || stateWords[w] || log && !notLogs[w]
		q.texts = q.texts || textWords[w]
	}
	return q
}

// nameWords are the words of a name, in lower case: read_file, readFile and HTTPLogReader have two, two and three.
func nameWords(name string) (out []string) {
	const most = 64
	rs := []rune(name[:min(len(name), 1000)])
	from := 0
	cut := func(to int) {
		if to > from && len(out) < most {
			out = append(out, strings.ToLower(string(rs[from:to])))
		}
		from = to
	}
	for i, r := range rs {
		switch {
		case !unicode.IsLetter(r):
			cut(i)
			from = i + 1
		case i > from && unicode.IsUpper(r) && (!unicode.IsUpper(rs[i-1]) || i+1 < len(rs) && unicode.IsLower(rs[i+1])):
			cut(i)
		}
	}
	cut(len(rs))
	return out
}

var transientText = lazy(`(?i)\btimed[ -]out\b|\bdeadline (?:was )?exceeded\b|\btime-?out ?(?:error|exception|expired)|\b(?:connection|connect|read|request|gateway|operation|execution|tool|server) time-?out\b|^(?:error: ?)?time-?out\W*$|` +
	`\bETIMEDOUT\b|\bECONNRESET\b|\bECONNREFUSED\b|\bconnection (?:was )?(?:reset|refused|aborted|closed)\b|\brate[ -]?limit(?:ed|s)? ?(?:error|exceeded|reached|hit|$)|\brate[ -]?limited\b|\btoo many requests\b|` +
	`\b(?:temporarily|service) unavailable\b|\binternal server error\b|\bbad gateway\b|\btry again later\b|\b(?:status(?: ?code)?|http(?:/\d(?:\.\d)?)?(?: error)?|error code|response code)\W{0,3}(?:408|425|429|5\d\d)\b`)

// isTransient says whether an error says nothing about the call: a timeout, too many requests, a server that failed.
func (d *detector) isTransient(text string) bool {
	const most = 64 << 10
	if len(text) > most {
		text = text[:most]
	}
	if transientText().MatchString(text) || anyFits(d.transient, text) {
		return true
	}
	c := contentOf(text)
	return transientObject(c.object, 0)
}

func transientObject(o json.Raw, depth int) bool {
	if o.Kind() != json.Object {
		return false
	}
	for _, k := range append([]string{"code"}, statusKeys...) {
		v, _ := o.Get(k)
		n, ok := v.Int64()
		if ok && (n == 408 || n == 425 || n == 429 || n >= 500 && n <= 599) {
			return true
		}
	}
	inner, _ := o.Get("error")
	return depth < 2 && transientObject(inner, depth+1)
}

// truthy says whether a value is there and more than null, false, 0 or empty.
func truthy(v json.Raw) bool {
	switch v.Kind() {
	case json.Invalid, json.Null:
		return false
	case json.Bool:
		b, _ := v.Bool()
		return b
	case json.Number:
		f, ok := v.Float64()
		return !ok || f != 0
	case json.String:
		s, _ := v.Text()
		return strings.TrimSpace(s) != ""
	case json.Object:
		for range v.Members() {
			return true
		}
		return false
	case json.Array:
		for range v.Elements() {
			return true
		}
		return false
	}
	return true
}

// plainText is a value as text: a string's own, else the JSON.
func plainText(v json.Raw) string {
	if s, ok := v.Text(); ok {
		return s
	}
	return string(v)
}
