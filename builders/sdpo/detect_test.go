package sdpo

import (
	"reflect"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/builders/internal/evidence"
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
	return d.read(&chat.ToolCall{Name: tool},
		&ttc.Node{Message: chat.Message{Role: "tool", Form: chat.Text, Text: text}}).class
}

func TestErrorShapes(t *testing.T) {
	c := schema.New[Config]().Detect
	for _, x := range []struct{ class, text string }{
		{evidence.Flag, `{"isError": true, "content": [{"type": "text", "text": "no"}]}`},
		{evidence.ExitCode, `{"stdout": "", "stderr": "ls: no such file", "exit_code": 2}`},
		{evidence.ExitCode, `{"returncode":-9,"output":"killed"}`},
		{evidence.ExitCode, "<returncode>1</returncode>\n<output>\nno\n</output>"},
		{evidence.ExitCode, "make: *** [all] Error 2\n[The command completed with exit code 2.]"},
		{evidence.Status, `{"status": "error", "message": "no such user"}`},
		{evidence.Status, `{"status_code": 404, "error": "Not Found"}`},
		{evidence.Status, `{"type":"about:blank","title":"Bad Request","status":400,"detail":"date is missing"}`},
		{evidence.Status, `{"success": false, "error": "bad date"}`},
		{evidence.Exception, `{"error": {"type": "invalid_request", "message": "no"}}`},
		{evidence.Exception, `{"error": "user not found"}`},
		{evidence.Exception, "Traceback (most recent call last):\n  File \"x.py\", line 1, in <module>\n    f()\nValueError: bad date\n"},
		{evidence.Exception, "ValueError: time data '2024' does not match format"},
		{evidence.Exception, "KeyError('user_id')"},
		{evidence.Exception, "TypeError: x is not a function\n    at f (a.js:1:2)\n    at g (a.js:3:4)"},
		{evidence.Exception, "requests.exceptions.InvalidURLError: no host"},
		{evidence.Exception, "Error executing tool book with kwargs {'a': 1} with error:\n TypeError: x\n Please fix the error and try again."},
		{evidence.Exception, "Error: wether is not a valid tool, try one of [weather]."},
		{evidence.Exception, "<tool_use_error>String to replace not found in file.</tool_use_error>"},
		{evidence.Exception, "MCP error -32602: Invalid arguments for tool weather"},
		// What frameworks turn a failed call into.
		{evidence.Exception, "Error: KeyError('city')\n Please fix your mistakes."},
		{evidence.Exception, "An error occurred while parsing tool arguments. Please try again with valid JSON. Error: Expecting value"},
		{evidence.Exception, "Error executing tool 'book_flight' with arguments {'a': 1}: TypeError: missing 'b'"},
		{evidence.Exception, "Error executing tool book_flight: 1 validation error for bookArguments\ncity\n  Field required"},
		{evidence.Exception, "Input validation error: 'city' is a required property"},
		{evidence.Exception, "Unknown tool: book_fligth"},
		{evidence.Exception, "Failed to invoke Tool `book_flight` with parameters {'a': 1}"},
		{evidence.Exception, "I encountered an error while trying to use the tool. This was the error: no city.\n Tool book_flight accepts these inputs: ..."},
		{evidence.Exception, "1 validation error: ```json\n[{\"type\": \"missing\"}]\n```\n\nFix the errors and try again."},
		{evidence.Exception, `{"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "Invalid params"}}`},
		{evidence.Exception, "pydantic_core._pydantic_core.ValidationError: 1 validation error for Args\ncity\n  Field required [type=missing, input_value={}, input_type=dict]\n    For further information visit https://errors.pydantic.dev/2/v/missing"},
		{evidence.Exception, "java.lang.IllegalStateException: closed\n\tat a.B.c(B.java:1)\nCaused by: java.io.IOException: pipe\n\t... 3 more"},
		{evidence.Exception, "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\nKeyError: 1\n\nDuring handling of the above exception, another exception occurred:\n\nTraceback (most recent call last):\n  File \"a.py\", line 3, in f\nValueError: bad"},
		{evidence.Exception, "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\n    assert x\nAssertionError"},
		{evidence.Flag, `{"type": "error-text", "value": "no such city"}`},
		{evidence.Flag, `{"tool_use_id": "t1", "type": "tool_result", "content": "no", "is_error": true}`},
		{evidence.ExitCode, `{"output": "ls: /x: No such file", "metadata": {"exit_code": 2, "duration_seconds": 0.1}}`},
		{evidence.ExitCode, "Exit code: 1\nWall time: 0.2 seconds\nOutput:\nno"},
		{evidence.ExitCode, "Exit code 127\n/bin/sh: foo: command not found"},
	} {
		t.Run(x.class, func(t *testing.T) {
			if got := detect(t, c, "book_flight", x.text); got != x.class {
				t.Errorf("%q: got %q, want %q", x.text, got, x.class)
			}
			if got := detect(t, Detect{}, "book_flight", x.text); got != "" {
				t.Errorf("%q: %q with all detectors off", x.text, got)
			}
		})
	}
}

// TestLogLikeResults checks that results that talk about errors are not taken for errors.
func TestLogLikeResults(t *testing.T) {
	traceback := "Traceback (most recent call last):\n  File \"x.py\", line 1, in <module>\n    f()\nValueError: bad date"
	for _, x := range []struct{ tool, text string }{
		{"run", traceback + "\n2024-05-01 10:00:00 INFO restarted"},
		{"run", "2024-05-01 10:00:00 ERROR db: connection refused\n2024-05-01 10:00:01 ERROR db: gave up"},
		{"run", "3 errors were found in the last hour: Error: timeout, Error: refused, Exception in worker 3"},
		{"run", "The docs say: ValueError: is raised when the date is bad."},
		{"run", "Error rates fell to 0.1 %"},
		{"run", "exit code 1 means that nothing matched"},
		{"list_failures", `{"errors": ["a", "b"]}`},
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
		{"run_tests", `{"exit_code": 1, "stdout": "1 failed", "stderr": ""}`},
		{"explain", "KeyError: raised when a key is not found in a dict"},
		{"python_docs", "ValueError: Raised when an operation receives an argument of the right type but an inappropriate value."},
		// Texts about exceptions, whatever the tool is called.
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
		t.Run(x.tool, func(t *testing.T) {
			if got := detect(t, schema.New[Config]().Detect, x.tool, x.text); got != "" {
				t.Errorf("%s: %q was taken for %q", x.tool, x.text, got)
			}
		})
	}
}

// TestEveryToolIsJudgedAlike checks that a result is judged by its content, and that the tool's name doesn't change the
// verdict.
func TestEveryToolIsJudgedAlike(t *testing.T) {
	traceback := "Traceback (most recent call last):\n  File \"x.py\", line 1, in <module>\n    f()\nValueError: bad date"
	for text, want := range map[string]string{
		traceback: evidence.Exception,
		"2024-05-01 10:00:00 ERROR load failed\n" + traceback: "",
		"Error: no such user":                                                  evidence.Message,
		`{"status": "error", "message": "no such job"}`:                        evidence.Status,
		`{"job_id": 7, "status": "error", "message": "the job failed"}`:        "",
		"Exit code 1\nCrashLoopBackOff":                                        evidence.ExitCode,
		"src/a.py:3:raise ValueError('bad')\nsrc/b.py:9:Error: see the manual": "",
	} {
		t.Run(text, func(t *testing.T) {
			for _, tool := range []string{
				"run", "read_logs", "get_crash_report", "readFile", "kubectl_logs", "search", "book_flight", "",
			} {
				if got := detect(t, schema.New[Config]().Detect, tool, text); got != want {
					t.Errorf("%s: %.60q is %q, want %q", tool, text, got, want)
				}
			}
		})
	}
}

func TestFlags(t *testing.T) {
	d, err := newDetector(&Detect{
		Results: schema.New[Config]().Detect.Results,
		Match:   []Match{{Pattern: "configured"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	yes, no := true, false
	node := func(explicit *bool, text string, extra ...chat.Member) *ttc.Node {
		return &ttc.Node{
			Error:   explicit,
			Message: chat.Message{Role: "tool", Form: chat.Text, Text: text, Extra: extra},
		}
	}
	for want, nodes := range map[string][]*ttc.Node{
		evidence.Flag: {
			node(&yes, "fine"), node(nil, "fine", chat.Member{Key: "is_error", Value: json.Raw("true")}),
			node(nil, "fine", chat.Member{Key: "status", Value: json.Raw(`"error"`)}), node(nil, "fine", chat.Member{Key: "error", Value: json.Raw(`"no"`)}),
		},
		"": {
			node(&no, `{"error": "x"}`), node(nil, "fine", chat.Member{Key: "is_error", Value: json.Raw("false")}), node(nil, "fine", chat.Member{Key: "status", Value: json.Raw(`"success"`)}),
			node(nil, "fine", chat.Member{Key: "error", Value: json.Raw("null")}),
		},
		"tool_error": {node(&no, "configured")},
	} {
		t.Run(want, func(t *testing.T) {
			for i, n := range nodes {
				if got := d.read(&chat.ToolCall{Name: "read_logs"}, n).class; got != want {
					t.Errorf("%d: got %q, want %q", i, got, want)
				}
			}
		})
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
		t.Run(x.tool, func(t *testing.T) {
			if got := detect(t, c, x.tool, x.text); got != x.want {
				t.Errorf("%s %s: got %q, want %q", x.tool, x.text, got, x.want)
			}
		})
	}
	for _, bad := range []string{"", "a", "$.", "$.*", "$[", "$[x]", "$a", "$.a[1", "$..a"} {
		t.Run(bad, func(t *testing.T) {
			if _, err := newDetector(&Detect{Match: []Match{{JSONPath: bad, Pattern: "x"}}}); err == nil && bad != "" {
				t.Errorf("%q is a path", bad)
			}
		})
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
		"Error: " + strings.Repeat("x", 1<<20) + " timed out": false, // far beyond the part that is read
	} {
		t.Run(text, func(t *testing.T) {
			if got := d.isTransient(text); got != want {
				t.Errorf("%.60q: %v", text, got)
			}
		})
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
		t.Run(x.tool, func(t *testing.T) {
			got := ""
			if f := k.call(&chat.ToolCall{Name: x.tool, Arguments: x.args}, tools); f != nil {
				got = f.class
			}
			if got != x.want {
				t.Errorf("%s(%.40s): got %q, want %q", x.tool, x.args, got, x.want)
			}
		})
	}
	if f := k.call(&chat.ToolCall{Name: "any", Arguments: "{}"}, nil); f != nil {
		t.Error("a tool is unknown although there is no list of tools")
	}
	if f := newChecker(&Detect{}).call(&chat.ToolCall{Name: "any", Arguments: "{"}, tools); f != nil {
		t.Error("all detectors are off")
	}
}

func FuzzResult(f *testing.F) {
	f.Add("run", `{"error": {"code": 1}}`)
	f.Add("run", "Traceback (most recent call last):\n")
	d, err := newDetector(&Detect{
		Results: schema.New[Config]().Detect.Results,
		Match:   []Match{{JSONPath: "$.a[0]['b']"}},
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(_ *testing.T, tool, text string) {
		d.read(&chat.ToolCall{Name: tool}, &ttc.Node{Message: chat.Message{Role: "tool", Form: chat.Text, Text: text}})
		d.isTransient(text)
	})
}

// TestSilencedRulesAreTheRules checks that detect.silence accepts the name of every rule, and no other name.
func TestSilencedRulesAreTheRules(t *testing.T) {
	f, _ := reflect.TypeFor[Detect]().FieldByName("Silence")
	want := sourceFlag
	for _, r := range evidence.Rules {
		want += " " + r.Name
		text := map[string]string{
			"error_prefix": "Error: no seat",
			"exit_code":    "Exit code 3\nno",
			"refusal":      "Seat 12A is already taken.",
		}[r.Name]
		if text == "" {
			continue
		}
		c := schema.New[Config]().Detect
		if detect(t, c, "a", text) == "" {
			t.Errorf("%s doesn't find %q", r.Name, text)
		}
		c.Silence = []string{r.Name}
		if got := detect(t, c, "a", text); got != "" {
			t.Errorf("%s is silenced, but %q is still found, as %s", r.Name, text, got)
		}
	}
	if got := strings.TrimPrefix(f.Tag.Get("validate"), "dive,oneof="); got != want {
		t.Errorf("detect.silence accepts %q, want %q", got, want)
	}
}
