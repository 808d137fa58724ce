package sdpo

import (
	"bytes"
	"context"
	stdjson "encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/internal/oracletest"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// collected is what a builder emitted.
type collected struct {
	records []builders.Record
	drops   []ledger.Drop
	counts  map[string]int64
}

func (c *collected) Record(r builders.Record) error { c.records = append(c.records, r); return nil }
func (c *collected) Drop(d ledger.Drop) error       { c.drops = append(c.drops, d); return nil }
func (c *collected) Count(name string, n int64) error {
	c.counts[name] += n
	return nil
}

// sites returns all sites as lines: "call.seq>result target class source/kind: hint".
func (c *collected) sites() []string {
	var out []string
	for _, r := range c.records {
		d, ok := r.(*builders.Distillation)
		if !ok {
			continue
		}
		for _, s := range d.Sites {
			out = append(out,
				fmt.Sprintf("%d.%d>%d %s %s %s: %s", s.Call, s.CallSeq, s.Result, []string{"failed", "next"}[s.Target],
					s.Error, s.HintSource, s.Hint))
		}
	}
	return out
}

// why returns all drops as lines: "unit reason".
func (c *collected) why() []string {
	var out []string
	for _, d := range c.drops {
		out = append(out, d.Unit+" "+string(d.Reason))
	}
	return out
}

func build(t testing.TB, cfg Config, exs ...*ttc.Example) *collected {
	t.Helper()
	b, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	out := &collected{counts: map[string]int64{}}
	if err := b.Build(context.Background(), &ttc.Group{Examples: exs}, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// example makes an example from messages in JSON and tools.
func example(t testing.TB, messages string, tools ...string) *ttc.Example {
	t.Helper()
	ms, err := chat.ParseMessages(parse(t, messages))
	if err != nil {
		t.Fatal(err)
	}
	ex := &ttc.Example{ID: "e", Graph: ttc.Chain(ms, ttc.Assumed)}
	for _, s := range tools {
		tool, err := chat.ParseTool(parse(t, s))
		if err != nil {
			t.Fatal(err)
		}
		ex.Tools = append(ex.Tools, tool)
	}
	return ex
}

func parse(t testing.TB, s string) json.Raw {
	t.Helper()
	raw, err := json.Parse([]byte(s), json.Limits{})
	if err != nil {
		t.Fatalf("%v: %s", err, s)
	}
	return raw
}

func quote(s string) string { return string(json.AppendString(nil, s)) }

func user(text string) string { return `{"role":"user","content":` + quote(text) + `}` }

// calls returns an assistant message; each call is id, name, arguments.
func calls(cs ...[3]string) string {
	var list []string
	for _, c := range cs {
		list = append(list, fmt.Sprintf(`{"id":%s,"type":"function","function":{"name":%s,"arguments":%s}}`, quote(c[0]), quote(c[1]), quote(c[2])))
	}
	return `{"role":"assistant","content":null,"tool_calls":[` + strings.Join(list, ",") + `]}`
}

func result(id, text string) string {
	return fmt.Sprintf(`{"role":"tool","tool_call_id":%s,"content":%s}`, quote(id), quote(text))
}

func says(text string) string { return `{"role":"assistant","content":` + quote(text) + `}` }

func talk(ms ...string) string { return "[" + strings.Join(ms, ",") + "]" }

const weather = `{"type":"function","function":{"name":"weather","parameters":{"type":"object","properties":{
	"city":{"type":"string"},"unit":{"type":"string","enum":["celsius","fahrenheit"]},"days":{"type":"integer","minimum":1}},"required":["city"],"additionalProperties":false}}}`

// matching returns the default configuration, with results beginning with Error counted as errors and a hint for
// everything.
func matching() Config {
	c := schema.New[Config]()
	c.Detect.Match = []Match{{Pattern: "^Error"}}
	c.Hints.Rules = []Rule{{Text: "Mind the {{ tool }} tool."}}
	c.Hints.Sources = []string{sourceSchema, sourceRules}
	return c
}

func TestSites(t *testing.T) {
	for name, c := range map[string]struct {
		change   func(*Config)
		messages string
		tools    []string
		sites    []string
		why      []string
	}{
		"a failed call": {
			messages: talk(user("hi"), calls([3]string{"1", "weather", `{"city":"Rome"}`}), result("1", "Error: no"), says("sorry")),
			sites:    []string{"1.0>2 failed tool_error rules: Mind the weather tool."},
		},
		"ids repeat: the nearest call before is meant": {
			messages: talk(user("hi"), calls([3]string{"1", "a", "{}"}), result("1", "fine"),
				calls([3]string{"1", "b", "{}"}), result("1", "Error: x"),
				calls([3]string{"1", "c", "{}"}), result("1", "fine")),
			sites: []string{"3.0>4 failed tool_error rules: Mind the b tool."},
		},
		"parallel calls apart, results in any order": {
			messages: talk(user("hi"),
				calls([3]string{"1", "a", "{}"}, [3]string{"2", "b", "{}"}, [3]string{"3", "c", "{}"}),
				result("3", "fine"), result("2", "Error: x"), result("1", "fine")),
			sites: []string{"1.1>3 failed tool_error rules: Mind the b tool."},
		},
		"parallel calls with one id": {
			messages: talk(user("hi"), calls([3]string{"1", "a", "{}"}, [3]string{"1", "b", "{}"}), result("1", "fine"),
				result("1", "Error: x")),
			sites: []string{"1.1>3 failed tool_error rules: Mind the b tool."},
		},
		"two results of one call: the one that shows the error": {
			messages: talk(user("hi"), calls([3]string{"1", "a", "{}"}, [3]string{"2", "b", "{}"}),
				result("1", "started"), result("2", "ok"), result("1", "Error: x")),
			sites: []string{"1.0>4 failed tool_error rules: Mind the a tool."},
		},
		"an id of two turns back, used anew since": {
			messages: talk(user("hi"), calls([3]string{"1", "a", "{}"}), result("1", "fine"), says("so"),
				calls([3]string{"1", "b", "{}"}), user("wait"), result("1", "Error: x")),
			sites: []string{"4.0>6 failed tool_error rules: Mind the b tool."},
		},
		"a breach of the schema that the tool took": {
			tools:    []string{weather},
			messages: talk(user("hi"), calls([3]string{"1", "weather", `{"town":"Rome"}`}), `{"role":"tool","tool_call_id":"1","status":"success","content":"sunny"}`, calls([3]string{"2", "wether", `{}`}), `{"role":"tool","tool_call_id":"2","is_error":false,"content":"sunny"}`),
			why:      []string{"example no_error_site"},
		},
		"a breach of the schema of which nobody says that it worked": {
			tools:    []string{weather},
			messages: talk(user("hi"), calls([3]string{"1", "weather", `{"town":"Rome"}`}), `{"role":"tool","tool_call_id":"1","status":"done","content":"sunny"}`),
			sites:    []string{"1.0>2 failed schema schema: The arguments of weather must fit its schema: city is required; town does not exist."},
		},
		"results without ids": {
			messages: talk(user("hi"), calls([3]string{"", "a", "{}"}, [3]string{"", "b", "{}"}),
				`{"role":"tool","name":"b","content":"Error: x"}`, `{"role":"tool","content":"fine"}`),
			sites: []string{"1.1>2 failed tool_error rules: Mind the b tool."},
		},
		"an orphan": {
			messages: talk(user("hi"), calls([3]string{"1", "a", "{}"}), result("nobody", "Error: x"),
				result("2", "fine")),
			why: []string{"site orphan_result", "example no_site_left"},
		},
		"a call without a result": {
			messages: talk(user("hi"), calls([3]string{"1", "weather", `{"city":`}), user("and?")),
			sites:    []string{"1.0>-1 failed arguments_not_json schema: The arguments of weather must be one JSON object: they end before every brace, bracket and quote is closed."},
		},
		"no result, and the next turn is wanted": {
			change:   func(c *Config) { c.Target = "next_turn" },
			messages: talk(user("hi"), calls([3]string{"1", "weather", `{"city":`}), says("and?")),
			why:      []string{"site no_result", "example no_site_left"},
		},
		"both targets": {
			change: func(c *Config) { c.Target = "both" },
			messages: talk(user("hi"), calls([3]string{"1", "a", "{}"}, [3]string{"2", "b", "{}"}),
				result("1", "Error: x"), result("2", "ok"), says("I see")),
			sites: []string{
				"1.0>2 failed tool_error rules: Mind the a tool.", "1.0>2 next tool_error rules: Mind the a tool.",
			},
		},
		"the next turn is the user's": {
			change: func(c *Config) { c.Target = "next_turn" },
			messages: talk(user("hi"), calls([3]string{"1", "a", "{}"}), result("1", "Error: x"), user("what?"),
				says("I see")),
			why: []string{"site no_next_turn", "example no_site_left"},
		},
		"the next turn fails, too": {
			change: func(c *Config) { c.Target = "next_turn" },
			messages: talk(user("hi"), calls([3]string{"1", "a", "{}"}), result("1", "Error: x"),
				calls([3]string{"2", "b", "{}"}), result("2", "Error: y"), says("I see")),
			sites: []string{"3.0>4 next tool_error rules: Mind the b tool."},
			why:   []string{"site next_turn_fails"},
		},
		"repeats count once, other arguments don't repeat": {
			messages: talk(user("hi"), calls([3]string{"1", "a", `{"x":1}`}), result("1", "Error: x"), calls([3]string{"2", "a", ` {"x":1}`}), result("2", "Error: x"),
				calls([3]string{"3", "a", `{"x":2}`}), result("3", "Error: x"), calls([3]string{"4", "b", `{}`}), result("4", "ok"), calls([3]string{"5", "a", `{"x":2}`}), result("5", "Error: x")),
			sites: []string{
				"1.0>2 failed tool_error rules: Mind the a tool.", "5.0>6 failed tool_error rules: Mind the a tool.",
				"9.0>10 failed tool_error rules: Mind the a tool.",
			},
			why: []string{"site repeated_failure"},
		},
		"transient errors": {
			messages: talk(user("hi"), calls([3]string{"1", "a", "{}"}), result("1", "Error: 429 Too Many Requests"),
				calls([3]string{"2", "a", "{}"}), result("2", "Error: the request timed out")),
			why: []string{"site transient_error", "site transient_error", "example no_site_left"},
		},
		"the budget": {
			change:   func(c *Config) { c.MaxSites = 1 },
			messages: talk(user("hi"), calls([3]string{"1", "a", `{"x":1}`}), result("1", "Error: x"), calls([3]string{"2", "a", `{"x":2}`}), result("2", "Error: x")),
			sites:    []string{"1.0>2 failed tool_error rules: Mind the a tool."},
			why:      []string{"site site_budget"},
		},
		"nothing failed": {
			messages: talk(user("hi"), calls([3]string{"1", "a", "{}"}), result("1", "ok"), says("done")),
			why:      []string{"example no_error_site"},
		},
		"an unknown tool": {
			tools:    []string{weather, `{"name":"news"}`},
			messages: talk(user("hi"), calls([3]string{"1", "wether", `{"city":"Rome"}`}), result("1", "ok")),
			sites:    []string{"1.0>2 failed unknown_tool schema: There is no tool wether. The tools are: weather, news."},
		},
		"a breach of the schema": {
			tools:    []string{weather},
			messages: talk(user("hi"), calls([3]string{"1", "weather", `{"town":"Rome","unit":"kelvin","days":0}`}), result("1", "Error: bad")),
			sites:    []string{`1.0>2 failed schema schema: The arguments of weather must fit its schema: city is required; days must be at least 1; town does not exist; unit must be one of "celsius", "fahrenheit".`},
		},
		"a multi-part result": {
			messages: talk(user("hi"), calls([3]string{"1", "a", "{}"}), `{"role":"tool","tool_call_id":"1","content":[{"type":"text","text":"Error:"},{"type":"text","text":" x"}]}`),
			sites:    []string{"1.0>2 failed tool_error rules: Mind the a tool."},
		},
		"an empty result": {
			messages: talk(user("hi"), calls([3]string{"1", "a", "{}"}), result("1", ""), calls([3]string{"2", "b", "{}"}), `{"role":"tool","tool_call_id":"2","content":null}`),
			why:      []string{"example no_error_site"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := matching()
			if c.change != nil {
				c.change(&cfg)
			}
			got := build(t, cfg, example(t, c.messages, c.tools...))
			if d := cmp.Diff(c.sites, got.sites()); d != "" {
				t.Error("sites", d)
			}
			if d := cmp.Diff(c.why, got.why()); d != "" {
				t.Error("drops", d)
			}
		})
	}
}

// TestToldErrors checks that an error that a source reports, with the result or with the turn, is believed, and that
// its details reach the hints.
func TestToldErrors(t *testing.T) {
	call := `{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"frob","arguments":"{}"}}]%s}`
	cfg := schema.New[Config]()
	cfg.Hints.Rules = []Rule{{Text: "{{ error_kind }}: {{ error_meta.tools | join(', ') if error_meta else '' }}"}}
	for name, c := range map[string]struct {
		turn, result string
		want         []string
	}{
		"beside the turn":   {`,"tool_error":"no_such_tool","error_meta":{"tools":["edit","view"]}`, result("1", "no"), []string{"1.0>2 failed flag rules: no_such_tool: edit, view"}},
		"an empty kind":     {`,"tool_error":""`, result("1", "no"), []string{"1.0>2 failed flag rules: :"}},
		"beside the result": {"", `{"role":"tool","tool_call_id":"1","content":"no","tool_error":"gone"}`, []string{"1.0>2 failed flag rules: gone:"}},
		"null":              {`,"tool_error":null`, result("1", "no"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := build(t, cfg, example(t, talk(user("hi"), fmt.Sprintf(call, c.turn), c.result, says("so"))))
			if d := cmp.Diff(c.want, got.sites()); d != "" {
				t.Error(name, d)
			}
		})
	}
}

// TestOnlySampledTurns checks that a turn that the model didn't produce is context, not a target.
func TestOnlySampledTurns(t *testing.T) {
	ex := example(t, talk(user("hi"), calls([3]string{"1", "a", "{}"}), result("1", "Error: x")))
	ex.Graph.Nodes[1].Sampled = ttc.No
	if got := build(t, matching(), ex); got.sites() != nil || got.drops[0].Reason != ledger.TurnNotSampled {
		t.Error(got.sites(), got.why())
	}
}

// TestBranches checks that each call in a branched trace is one site, in the first branch that contains it.
func TestBranches(t *testing.T) {
	ex := example(t,
		talk(user("hi"), calls([3]string{"1", "a", "{}"}), result("1", "Error: x"), says("first"), says("second"),
			calls([3]string{"2", "b", "{}"}), result("2", "Error: y")))
	ex.Graph.Nodes[4].Parent = 2
	got := build(t, matching(), ex)
	want := []string{
		"1.0>2 failed tool_error rules: Mind the a tool.", "4.0>5 failed tool_error rules: Mind the b tool.",
	}
	if d := cmp.Diff(want, got.sites()); d != "" || len(got.records) != 2 {
		t.Error(d)
	}
	if last := got.records[0].(*builders.Distillation).Messages.Ref.Last; last != 2 {
		t.Errorf("the record continues to %d", last)
	}
}

// TestRecordsResolve checks that records resolve, and that the positions of a site are those in the walk.
func TestRecordsResolve(t *testing.T) {
	cfg := matching()
	cfg.Target = "both"
	cfg.Emit = []string{emitDistillation, emitRepairPairs, emitDemonstrations}
	ex := example(t, talk(`{"role":"system","content":"s"}`, user("hi"), calls([3]string{"1", "a", `{"x":1}`}), result("1", "Error: x"), calls([3]string{"1", "a", `{"x":2}`}), result("1", "ok"), says("done")))
	ex.Policy = "m"
	got := build(t, cfg, ex)
	g := &ttc.Group{Examples: []*ttc.Example{ex}}
	if len(got.records) != 3 {
		t.Fatalf("%d records: %v", len(got.records), got.why())
	}
	for _, r := range got.records {
		switch r := r.(type) {
		case *builders.Distillation:
			p, err := builders.Resolve(g, r.Messages)
			if err != nil || len(p.Nodes) != 5 || len(r.Sites) != 2 {
				t.Errorf("%v %d %v", err, len(p.Nodes), r.Sites)
			}
			if got := string(r.Metadata); got != `{"found_by": ["match[0]", "match[0]"]}` {
				t.Error(got)
			}
			for _, s := range r.Sites {
				if p.Nodes[s.Call].Message.Role != "assistant" || p.Nodes[s.Result].Message.Role != "tool" {
					t.Errorf("%+v", s)
				}
			}
		case *builders.Preference:
			p, err := builders.Resolve(g, r.Prompt)
			if err != nil || len(p.Nodes) != 2 || r.Chosen.Messages[0].ToolCalls[0].Arguments != `{"x":2}` || r.Rejected.Messages[0].ToolCalls[0].Arguments != `{"x":1}` {
				t.Errorf("%v %+v", err, r)
			}
			if r.ChosenPolicy == "m" || r.RejectedPolicy != "m" || !strings.Contains(string(r.Metadata), `"off_policy": true`) || !stdjson.Valid(r.Metadata) {
				t.Errorf("not marked off-policy: %q %s", r.ChosenPolicy, r.Metadata)
			}
		case *builders.Demonstration:
			p, err := builders.Resolve(g, r.Messages)
			if err != nil || len(p.Nodes) != 5 || len(r.Trained) != 5 || !r.Trained[4] || r.Trained[2] {
				t.Errorf("%v %+v", err, r)
			}
		}
	}
}

func TestNoRepair(t *testing.T) {
	failed := []string{user("hi"), calls([3]string{"1", "a", `{"x":1}`}), result("1", "Error: x")}
	for name, rest := range map[string][]string{
		"the end":            nil,
		"the user speaks":    {user("try 2"), calls([3]string{"1", "a", `{"x":2}`}), result("1", "ok")},
		"another tool":       {calls([3]string{"1", "b", `{"x":2}`}), result("1", "ok")},
		"the same call":      {calls([3]string{"1", "a", `{"x":1}`}), result("1", "ok")},
		"it fails again":     {calls([3]string{"1", "a", `{"x":2}`}), result("1", "Error: y")},
		"there is no result": {calls([3]string{"1", "a", `{"x":2}`})},
		"another call fails": {calls([3]string{"1", "a", `{"x":2}`}, [3]string{"2", "b", `{}`}), result("1", "ok"), result("2", "Error: b")},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := matching()
			cfg.Emit = []string{emitRepairPairs}
			got := build(t, cfg, example(t, talk(append(append([]string{}, failed...), rest...)...)))
			if len(got.records) != 0 || got.drops[0].Reason != NoRepair {
				t.Errorf("%s: %d records, %v", name, len(got.records), got.why())
			}
		})
	}
}

// TestRealTraces checks that every error result in errors.jsonl is found and traced to its call, and that none is
// invented: both with a user's pattern and with the rules alone.
func TestRealTraces(t *testing.T) {
	dir := oracletest.Path(t, "chat", "traces")
	var traces []struct {
		TaskID int                `json:"task_id"`
		Trial  int                `json:"trial"`
		Traj   stdjson.RawMessage `json:"traj"`
	}
	readJSON(t, filepath.Join(dir, "gpt-4o-airline-dev.json"), &traces)
	var tools []stdjson.RawMessage
	readJSON(t, filepath.Join(dir, "tools.json"), &tools)
	var defs []string
	for _, d := range tools {
		defs = append(defs, string(d))
	}
	type place struct{ task, trial, result int }
	want := map[place]int{}
	for _, line := range bytes.Split(bytes.TrimSpace(readFile(t, filepath.Join(dir, "errors.jsonl"))), []byte("\n")) {
		var e struct {
			Task   int `json:"task_id"`
			Trial  int `json:"trial"`
			Result int `json:"message_index_of_tool_result"`
			Call   int `json:"message_index_of_assistant_call"`
		}
		if err := stdjson.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		want[place{e.Task, e.Trial, e.Result}] = e.Call
	}
	b, err := New(matching())
	if err != nil {
		t.Fatal(err)
	}
	plain, err := New(schema.New[Config]())
	if err != nil {
		t.Fatal(err)
	}
	got, byRules := map[place]int{}, map[place]int{}
	for _, tr := range traces {
		ex := example(t, string(tr.Traj), defs...)
		nodes := ex.Graph.Branch(len(ex.Graph.Nodes) - 1)
		found := b.read(ex, nodes)
		for _, f := range found.failures {
			got[place{tr.TaskID, tr.Trial, f.result}] = f.turn
		}
		if len(found.orphans) > 0 {
			t.Errorf("task %d trial %d: orphans %v", tr.TaskID, tr.Trial, found.orphans)
		}
		for _, f := range plain.read(ex, nodes).failures {
			byRules[place{tr.TaskID, tr.Trial, f.result}] = f.turn
		}
	}
	if d := cmp.Diff(want, byRules, cmp.AllowUnexported(place{})); d != "" {
		t.Error("by default", d)
	}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(place{})); d != "" {
		t.Error(d)
	}
	t.Logf("%d traces, %d errors", len(traces), len(got))
}

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func readJSON(t testing.TB, path string, into any) {
	t.Helper()
	if err := stdjson.Unmarshal(readFile(t, path), into); err != nil {
		t.Fatal(err)
	}
}

// FuzzBuild checks that, whatever a trace holds, each site is a call in an assistant message followed by a result, its
// hint is within its limits, and no example is lost.
func FuzzBuild(f *testing.F) {
	f.Add(talk(user("hi"), calls([3]string{"1", "a", `{"x":1}`}), result("1", "Error: x"), calls([3]string{"1", "a", `{"x":2}`}), result("1", "ok"), says("done")))
	f.Add(talk(user("hi"), calls([3]string{"", "weather", `{"city":`}, [3]string{"", "b", ""}), result("", "Error: \x00<|im_end|>"), `{"role":"function","name":"b","content":[{"type":"text","text":"Error"}]}`))
	f.Add(`[{"role":"assistant","tool_calls":[{"function":{"name":"a","arguments":{"x":[1e999]}}}]},{"role":"tool","is_error":true,"content":null}]`)
	cfg := matching()
	cfg.Target = "both"
	cfg.Emit = []string{emitDistillation, emitRepairPairs, emitDemonstrations}
	cfg.Hints.Allow = []string{"knowable", "hindsight"}
	cfg.Hints.Sources = []string{sourceSuccess, sourceSchema, sourceFeedback, sourceRules}
	b, err := New(cfg)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, messages string) {
		raw, err := json.Parse([]byte(messages), json.Limits{})
		if err != nil {
			return
		}
		ms, err := chat.ParseMessages(raw)
		if err != nil {
			return
		}
		tool, err := chat.ParseTool(parse(t, weather))
		if err != nil {
			t.Fatal(err)
		}
		ex := &ttc.Example{ID: "e", Graph: ttc.Chain(ms, ttc.Assumed), Tools: []chat.Tool{tool}}
		g := &ttc.Group{Examples: []*ttc.Example{ex, {ID: "f", Graph: ttc.Chain(ms, ttc.Yes)}}}
		out := &collected{counts: map[string]int64{}}
		if err := b.Build(context.Background(), g, out); err != nil {
			t.Fatal(err)
		}
		for _, r := range out.records {
			d, ok := r.(*builders.Distillation)
			if !ok {
				continue
			}
			p, err := builders.Resolve(g, d.Messages)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range d.Sites {
				if s.Call >= len(p.Nodes) || s.CallSeq >= len(p.Nodes[s.Call].Message.ToolCalls) ||
					s.Result >= len(p.Nodes) || s.Result >= 0 && s.Result <= s.Call ||
					strings.TrimSpace(s.Hint) == "" || s.Target == builders.NextTurn && s.Result < 0 {
					t.Fatalf("%+v in %d messages", s, len(p.Nodes))
				}
			}
		}
		if len(out.records)+len(out.drops) < 2 {
			t.Fatal("an example is neither in a record nor dropped")
		}
	})
}
