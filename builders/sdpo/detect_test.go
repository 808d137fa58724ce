package sdpo

import (
	"strings"
	"testing"

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
	c := DefaultConfig().Detect
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
		{"run", ""},
		{"run", "null"},
		{"run", "{"},
	} {
		if got := detect(t, DefaultConfig().Detect, x.tool, x.text); got != "" {
			t.Errorf("%s: %q is taken for %q", x.tool, x.text, got)
		}
	}
}

func TestFlags(t *testing.T) {
	d, err := newDetector(&Detect{Results: DefaultConfig().Detect.Results, Match: []Match{{Pattern: "configured"}}})
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
	d := DefaultConfig().Detect
	k := newChecker(&d)
	tools := []chat.Tool{}
	for _, s := range []string{weather, `{"name":"free"}`, `{"name":"claude","input_schema":{"type":"object","required":["a"]}}`,
		`{"name":"remote","parameters":{"$ref":"http://127.0.0.1:1/x.json"}}`, `{"name":"broken","parameters":{"type":"STRING"}}`,
		`{"name":"loop","parameters":{"$ref":"#"}}`, `{"name":"ahead","parameters":{"properties":{"a":{"pattern":"(?=x)"},"b":{"type":"string"}}}}`,
		`{"name":"huge","parameters":{"properties":{"a":{"maximum":1e999999999}}}}`} {
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
		{"remote", `{}`, ""}, {"broken", `{}`, ""}, {"loop", `{}`, ""}, {"ahead", `{"a":"y"}`, ""}, {"ahead", `{"b":1}`, badSchema}, {"huge", `{"a":1}`, ""},
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
	d, err := newDetector(&Detect{Results: DefaultConfig().Detect.Results, Match: []Match{{JSONPath: "$.a[0]['b']"}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(_ *testing.T, tool, text string) {
		d.result(tool, &ttc.Node{Message: chat.Message{Role: "tool", Form: chat.Text, Text: text}})
		d.isTransient(text)
	})
}
