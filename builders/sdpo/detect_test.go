package sdpo

import (
	"strings"
	"testing"

	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
)

func detect(t testing.TB, c Detect, tool, text string) string {
	t.Helper()
	d, err := newDetector(&c)
	if err != nil {
		t.Fatal(err)
	}
	return d.result(tool, &ttc.Node{Message: chat.Message{Role: "tool", Form: chat.Text, Text: text}})
}

func TestErrorShapes(t *testing.T) {
	c := schema.New[Config]().Detect
	for _, x := range []struct{ class, text string }{
		{classFlag, `{"isError": true, "content": [{"type": "text", "text": "no"}]}`},
		{classExitCode, `{"stdout": "", "stderr": "ls: no such file", "exit_code": 2}`},
		{classExitCode, `{"returncode":-9,"output":"killed"}`},
		{classExitCode, "<returncode>1</returncode>\n<output>\nno\n</output>"},
		{classExitCode, "make: *** [all] Error 2\n[The command completed with exit code 2.]"},
		{classStatus, `{"status": "error", "message": "no such user"}`},
		{classStatus, `{"status_code": 404, "error": "Not Found"}`},
		{classStatus, `{"type":"about:blank","title":"Bad Request","status":400,"detail":"date is missing"}`},
		{classStatus, `{"success": false, "error": "bad date"}`},
		{classException, `{"error": {"type": "invalid_request", "message": "no"}}`},
		{classException, `{"error": "user not found"}`},
		{classException, "Traceback (most recent call last):\n  File \"x.py\", line 1, in <module>\n    f()\nValueError: bad date\n"},
		{classException, "ValueError: time data '2024' does not match format"},
		{classException, "KeyError('user_id')"},
		{classException, "TypeError: x is not a function\n    at f (a.js:1:2)\n    at g (a.js:3:4)"},
		{classException, "requests.exceptions.InvalidURLError: no host"},
		{classException, "Error executing tool book with kwargs {'a': 1} with error:\n TypeError: x\n Please fix the error and try again."},
		{classException, "Error: wether is not a valid tool, try one of [weather]."},
		{classException, "<tool_use_error>String to replace not found in file.</tool_use_error>"},
		{classException, "MCP error -32602: Invalid arguments for tool weather"},
		// What frameworks make of a failed call.
		{classException, "Error: KeyError('city')\n Please fix your mistakes."},
		{classException, "An error occurred while parsing tool arguments. Please try again with valid JSON. Error: Expecting value"},
		{classException, "Error executing tool 'book_flight' with arguments {'a': 1}: TypeError: missing 'b'"},
		{classException, "Error executing tool book_flight: 1 validation error for bookArguments\ncity\n  Field required"},
		{classException, "Input validation error: 'city' is a required property"},
		{classException, "Unknown tool: book_fligth"},
		{classException, "Failed to invoke Tool `book_flight` with parameters {'a': 1}"},
		{classException, "I encountered an error while trying to use the tool. This was the error: no city.\n Tool book_flight accepts these inputs: ..."},
		{classException, "1 validation error: ```json\n[{\"type\": \"missing\"}]\n```\n\nFix the errors and try again."},
		{classException, `{"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "Invalid params"}}`},
		{classException, "pydantic_core._pydantic_core.ValidationError: 1 validation error for Args\ncity\n  Field required [type=missing, input_value={}, input_type=dict]\n    For further information visit https://errors.pydantic.dev/2/v/missing"},
		{classException, "java.lang.IllegalStateException: closed\n\tat a.B.c(B.java:1)\nCaused by: java.io.IOException: pipe\n\t... 3 more"},
		{classException, "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\nKeyError: 1\n\nDuring handling of the above exception, another exception occurred:\n\nTraceback (most recent call last):\n  File \"a.py\", line 3, in f\nValueError: bad"},
		{classException, "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\n    assert x\nAssertionError"},
		{classFlag, `{"type": "error-text", "value": "no such city"}`},
		{classFlag, `{"tool_use_id": "t1", "type": "tool_result", "content": "no", "is_error": true}`},
		{classExitCode, `{"output": "ls: /x: No such file", "metadata": {"exit_code": 2, "duration_seconds": 0.1}}`},
		{classExitCode, "Exit code: 1\nWall time: 0.2 seconds\nOutput:\nno"},
		{classExitCode, "Exit code 127\n/bin/sh: foo: command not found"},
	} {
		if got := detect(t, c, "book_flight", x.text); got != x.class {
			t.Errorf("%q: %q, want %q", x.text, got, x.class)
		}
		if got := detect(t, Detect{}, "book_flight", x.text); got != "" {
			t.Errorf("%q: %q with all detectors off", x.text, got)
		}
	}
}

// Results that talk about errors and are none.
func TestLogLikeResults(t *testing.T) {
	traceback := "Traceback (most recent call last):\n  File \"x.py\", line 1, in <module>\n    f()\nValueError: bad date"
	for _, x := range []struct{ tool, text string }{
		{"read_logs", traceback},
		{"get_crash_report", traceback},
		{"readFile", traceback},
		{"grep", "ValueError: raised here"},
		{"kubectl_logs", "[The command completed with exit code 1.]"},
		{"run", traceback + "\n2024-05-01 10:00:00 INFO restarted"},
		{"run", "2024-05-01 10:00:00 ERROR db: connection refused\n2024-05-01 10:00:01 ERROR db: gave up"},
		{"run", "3 errors were found in the last hour: Error: timeout, Error: refused, Exception in worker 3"},
		{"run", "The docs say: ValueError: is raised when the date is bad."},
		{"run", "Error rates fell to 0.1 %"},
		{"run", "exit code 1 means that nothing matched"},
		{"get_job_status", `{"status": "error", "message": "the job failed"}`},
		{"list_failures", `{"errors": ["a", "b"]}`},
		{"fetch_error", `{"error": "disk full"}`},
		{"pay", `{"status": "failed", "payment_id": "p1", "message": "declined"}`},
		{"order", `{"status": "error", "order_id": 3, "message": "on hold"}`},
		{"run", `{"level": "error", "message": "disk full", "ts": 1}`},
		{"run", `{"error": null, "result": 4}`},
		{"run", `{"error": "", "message": "ok"}`},
		{"run", `{"error": {}, "status": "ok"}`},
		{"run", `{"errors": [], "message": "valid"}`},
		{"run", `{"error": "2 rows skipped", "data": [1, 2]}`},
		{"run", `{"success": true, "error": "none"}`},
		{"run", `{"exit_code": 0, "stdout": "Error: this is fine", "stderr": ""}`},
		{"run", `{"exit_code": 1, "job": "nightly", "log": "..."}`},
		{"run", `{"status": 200, "message": "ok"}`},
		{"run", `{"status": 404}`},
		{"run", `{"code": 500, "name": "a gear of 500 teeth"}`},
		{"run", `[{"error": "a"}, {"error": "b"}]`},
		{"run", "<returncode>0</returncode>\n<output>Error: 1</output>"},
		// Tools that hand on what others have logged, by names of all kinds.
		{"getLatestStacktrace", traceback},
		{"HTTPLogReader", traceback},
		{"syslog", "ValueError: bad date"},
		{"logcat", "java.lang.IllegalStateException: closed\n\tat a.B.c(B.java:1)"},
		{"errorlog_tail", traceback},
		{"sentry_latest", traceback},
		{"get-issue", traceback},
		{"bug_report.get", traceback},
		{"kubectl", "Exit code 1\nCrashLoopBackOff"},
		{"docker_container_inspect", `{"exit_code": 137, "stdout": "", "stderr": "killed"}`},
		{"run_tests", `{"exit_code": 1, "stdout": "1 failed", "stderr": ""}`},
		{"pytest", "AssertionError: assert 1 == 2"},
		{"ci_pipeline", `{"status": "error", "message": "step lint failed"}`},
		{"validate_config", `{"errors": ["a is required"]}`},
		{"check_payment", `{"status": "error", "message": "declined by the bank"}`},
		{"explain", "KeyError: raised when a key is not found in a dict"},
		{"python_docs", "ValueError: Raised when an operation receives an argument of the right type but an inappropriate value."},
		{"define", "ZeroDivisionError: division by zero"},
		{"translate", "TypeError: x ist keine Funktion"},
		{"ask_user", "ValueError: bad date"},
		{"show", traceback},
		{"slackHistory", traceback},
		{"last_output", traceback},
		// Texts about exceptions, whatever the tool's name says.
		{"run", "ValueError: bad date\nThis was seen three times last week."},
		{"run", "ValueError"},
		{"run", "TimeoutError\nKeyError\nValueError"},
		{"run", traceback + "\n" + traceback},
		{"run", traceback + "\n--\n" + traceback},
		{"run", traceback + "\nMay  1 10:00:00 host app[3]: restarted"},
		{"run", traceback + "\nI0501 10:00:00.1 main.go:3] restarted"},
		{"run", "level=error msg=\"ValueError: bad\""},
		{"run", `{"event": "login", "is_error": true, "user": "ada"}`},
		{"run", `{"isError": true, "build": 7}`},
		{"run", `{"type": "error-text", "value": "a", "lang": "en"}`},
		{"run", `{"output": "ok", "metadata": {"exit_code": 0}}`},
		{"run", `{"output": "ok", "metadata": {"exit_code": "1"}}`},
		{"run", `{"jsonrpc": "2.0", "id": 1, "error": null}`},
		{"run", "Exit code 0\nError: this is fine"},
		{"run", "Exit codes: 1 means no match"},
		{"run", "Unknown tool: hammer drill, seen at the fair"},
		{"run", "Error: the word is defined as a mistake"},
		{"run", "Warning: 3 errors, see Traceback (most recent call last): in the log"},
		{"run", strings.Repeat("2024-05-01 10:00:00 ERROR x\n", 2000)},
		{"run", strings.Repeat("[", 5000)},
		{"run", "\x00\x1b[31mValueError: red\x1b[0m"},
		{"", "plain"},
		{"run", ""},
		{"run", "null"},
		{"run", "{"},
	} {
		if got := detect(t, schema.New[Config]().Detect, x.tool, x.text); got != "" {
			t.Errorf("%s: %q is taken for %q", x.tool, x.text, got)
		}
	}
}

func TestFlags(t *testing.T) {
	d, err := newDetector(&Detect{Results: schema.New[Config]().Detect.Results, Match: []Match{{Pattern: "configured"}}})
	if err != nil {
		t.Fatal(err)
	}
	yes, no := true, false
	node := func(explicit *bool, text string, extra ...chat.Member) *ttc.Node {
		return &ttc.Node{Error: explicit, Message: chat.Message{Role: "tool", Form: chat.Text, Text: text, Extra: extra}}
	}
	for want, nodes := range map[string][]*ttc.Node{
		classFlag: {
			node(&yes, "fine"), node(nil, "fine", chat.Member{Key: "is_error", Value: json.Raw("true")}),
			node(nil, "fine", chat.Member{Key: "status", Value: json.Raw(`"error"`)}), node(nil, "fine", chat.Member{Key: "error", Value: json.Raw(`"no"`)}),
		},
		"": {
			node(&no, `{"error": "x"}`), node(nil, "fine", chat.Member{Key: "is_error", Value: json.Raw("false")}), node(nil, "fine", chat.Member{Key: "status", Value: json.Raw(`"success"`)}),
			node(nil, "fine", chat.Member{Key: "error", Value: json.Raw("null")}),
		},
		"tool_error": {node(&no, "configured")},
	} {
		for i, n := range nodes {
			if got := d.result("read_logs", n); got != want {
				t.Errorf("%d: %q, want %q", i, got, want)
			}
		}
	}
}

func TestMatch(t *testing.T) {
	c := Detect{Match: []Match{
		{Tool: "^pay", JSONPath: "$.result.errors[0].code", Class: "declined"},
		{JSONPath: "$['a b'][-1]", Pattern: "^x", Class: "last"},
		{Pattern: `^Error`},
	}, IgnoreTools: []string{"^safe_"}}
	for _, x := range []struct{ tool, text, want string }{
		{"pay", `{"result": {"errors": [{"code": 7}]}}`, "declined"},
		{"pay", `{"result": {"errors": [{"code": 0}]}}`, ""},
		{"pay", `{"result": {"errors": []}}`, ""},
		{"pay", `{"result": "Error"}`, ""},
		{"order", `{"result": {"errors": [{"code": 7}]}}`, ""},
		{"order", `{"a b": ["y", "xx"]}`, "last"},
		{"order", `{"a b": ["x", "y"]}`, ""},
		{"order", "Error: no", "tool_error"},
		{"order", "No Error", ""},
		{"safe_order", "Error: no", ""},
	} {
		if got := detect(t, c, x.tool, x.text); got != x.want {
			t.Errorf("%s %s: %q, want %q", x.tool, x.text, got, x.want)
		}
	}
	for _, bad := range []string{"", "a", "$.", "$.*", "$[", "$[x]", "$a", "$.a[1", "$..a"} {
		if _, err := newDetector(&Detect{Match: []Match{{JSONPath: bad, Pattern: "x"}}}); err == nil && bad != "" {
			t.Errorf("%q is a path", bad)
		}
	}
}

func TestTransient(t *testing.T) {
	d, err := newDetector(&Detect{Transient: []string{"(?i)maintenance"}})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{
		"Error: request timed out after 30 s":                 true,
		"TimeoutError: page.goto":                             true,
		"context deadline exceeded":                           true,
		"Error: timeout":                                      true,
		"429 Too Many Requests":                               true,
		"HTTP 503":                                            true,
		"HTTPError: status code: 502":                         true,
		"Rate limit exceeded, try again later":                true,
		`{"status": 500, "error": "Internal Server Error"}`:   true,
		`{"error": {"code": 429, "message": "slow down"}}`:    true,
		"Down for maintenance":                                true,
		"Error: timeout must be an integer":                   false,
		"Error: 500 is more than the maximum of 100":          false,
		"Error: not enough seats on flight HAT229":            false,
		"Error: payment amount does not add up, total 500":    false,
		`{"error": "no such rate limit", "code": "E429"}`:     false,
		`{"status": 404, "error": "Not Found"}`:               false,
		"Error: unknown parameter rate_limits":                false,
		"":                                                    false,
		"Error: " + strings.Repeat("x", 1<<20) + " timed out": false, // far beyond where one looks
	} {
		if got := d.isTransient(text); got != want {
			t.Errorf("%.60q: %v", text, got)
		}
	}
}

func TestArguments(t *testing.T) {
	d := schema.New[Config]().Detect
	k := newChecker(&d)
	tools := []chat.Tool{}
	for _, s := range []string{
		weather, `{"name":"free"}`, `{"name":"claude","input_schema":{"type":"object","required":["a"]}}`,
		`{"name":"remote","parameters":{"$ref":"http://127.0.0.1:1/x.json"}}`, `{"name":"broken","parameters":{"type":"STRING"}}`,
		`{"name":"loop","parameters":{"$ref":"#"}}`, `{"name":"ahead","parameters":{"properties":{"a":{"pattern":"(?=x)"},"b":{"type":"string"}}}}`,
		`{"name":"huge","parameters":{"properties":{"a":{"maximum":1e999999999}}}}`,
	} {
		tool, err := chat.ParseTool(parse(t, s))
		if err != nil {
			t.Fatal(err)
		}
		tools = append(tools, tool)
	}
	for _, x := range []struct{ tool, args, want string }{
		{"weather", `{"city":"Rome"}`, ""},
		{"weather", "", badSchema},
		{"free", "", ""},
		{"free", " {} ", ""},
		{"free", `{"a":`, argumentsNotJSON},
		{"free", `{'a': 1}`, argumentsNotJSON},
		{"free", `[]`, argumentsNotJSON},
		{"free", `"{}"`, argumentsNotJSON},
		{"free", `{"a": NaN}`, argumentsNotJSON},
		{"free", `{"a": "NaN"}`, ""},
		{"free", `{} {}`, argumentsNotJSON},
		{"weather", `{"city":1}`, badSchema},
		{"weather", `{"city":"a","days":1.0}`, ""},
		{"weather", `{"city":"a","days":1e999999999}`, ""},
		{"weather", `{"city":"\ud800"}`, ""},
		{"claude", `{}`, badSchema},
		{"nobody", `{}`, unknownTool},
		{"remote", `{}`, ""},
		{"broken", `{}`, ""},
		{"loop", `{}`, ""},
		{"ahead", `{"a":"y"}`, ""},
		{"ahead", `{"b":1}`, badSchema},
		{"huge", `{"a":1}`, ""},
		{"free", strings.Repeat("[", 100_000), argumentsNotJSON},
	} {
		got := ""
		if f := k.call(&chat.ToolCall{Name: x.tool, Arguments: x.args}, tools); f != nil {
			got = f.class
		}
		if got != x.want {
			t.Errorf("%s(%.40s): %q, want %q", x.tool, x.args, got, x.want)
		}
	}
	if f := k.call(&chat.ToolCall{Name: "any", Arguments: "{}"}, nil); f != nil {
		t.Error("without a list of tools none is unknown")
	}
	if f := newChecker(&Detect{}).call(&chat.ToolCall{Name: "any", Arguments: "{"}, tools); f != nil {
		t.Error("all detectors are off")
	}
}

func FuzzResult(f *testing.F) {
	f.Add("run", `{"error": {"code": 1}}`)
	f.Add("run", "Traceback (most recent call last):\n")
	d, err := newDetector(&Detect{Results: schema.New[Config]().Detect.Results, Match: []Match{{JSONPath: "$.a[0]['b']"}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(_ *testing.T, tool, text string) {
		d.result(tool, &ttc.Node{Message: chat.Message{Role: "tool", Form: chat.Text, Text: text}})
		d.isTransient(text)
	})
}

func TestNameWords(t *testing.T) {
	for name, want := range map[string]string{
		"read_file": "read file", "readFile": "read file", "HTTPLogReader": "http log reader", "getURL": "get url", "mcp__files.read-all2": "mcp files read all",
		"": "", "__": "", "天気": "天気", "X": "x", "aB": "a b",
	} {
		if got := strings.Join(nameWords(name), " "); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for tool, want := range map[string]quoting{
		"tail_syslog": {states: true}, "catalog": {}, "login": {}, "logout_user": {}, "blog_dialog": {}, "logfile": {states: true}, "search_catalog": {texts: true},
	} {
		if got := aboutOthers(tool); got != want {
			t.Errorf("%s: %+v", tool, got)
		}
	}
}
