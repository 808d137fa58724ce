package sdpo

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/json"
)

// tell marks messages of an example with what the source reports about an error there: "at kind" or "at kind meta".
func tell(t *testing.T, ex *ttc.Example, marks ...string) *ttc.Example {
	t.Helper()
	for _, m := range marks {
		at, rest, _ := strings.Cut(m, " ")
		kind, meta, _ := strings.Cut(rest, " ")
		f := &ttc.Failure{Kind: kind}
		if meta != "" {
			f.Meta = parse(t, meta)
		}
		ex.Graph.Nodes[at[0]-'0'].Failure = f
	}
	return ex
}

// TestToldTurns checks that a turn for which the source reports an error is a site, regardless of its role. The target
// is the assistant's turn there or, failing that, the one before.
func TestToldTurns(t *testing.T) {
	rules := schema.New[Config]()
	rules.Hints.Rules = []Rule{{Text: "{{ tool }}|{{ error_kind }}|{{ error }}"}}
	silent := rules
	silent.Detect.Silence = []string{sourceFlag}
	call := calls([3]string{"1", "frob", "{}"})
	for name, c := range map[string]struct {
		cfg   *Config
		talk  string
		marks []string
		want  []string
		drops []string
	}{
		"a call in the text": {
			talk:  talk(user("fix"), says("call frob main"), `{"role":"tool","content":"no such tool"}`, says("done")),
			marks: []string{"1 unknown_tool"},
			want:  []string{"1.-1>2 failed flag rules: |unknown_tool|no such tool"},
		},
		"its result": {
			talk:  talk(user("fix"), says("call frob main"), `{"role":"tool","content":"no such tool"}`),
			marks: []string{`2 gone {"tool":"frob"}`},
			want:  []string{"1.-1>2 failed flag rules: frob|gone|no such tool"},
		},
		"both are one": {
			talk:  talk(user("fix"), says("call frob main"), `{"role":"tool","content":"no such tool"}`),
			marks: []string{"1 a", "2 b"},
			want:  []string{"1.-1>2 failed flag rules: |a|no such tool"},
		},
		"a user's report": {
			talk:  talk(user("fix"), says("call frob main"), user("that did not work")),
			marks: []string{"2 refused"},
			want:  []string{"1.-1>2 failed flag rules: |refused|that did not work"},
		},
		"a user's report of a call that has a result": {
			talk:  talk(user("fix"), call, result("1", "fine"), user("it isn't")),
			marks: []string{"3 wrong"},
			want:  []string{"1.0>3 failed flag rules: frob|wrong|it isn't"},
		},
		"a call keeps its own result": {
			talk:  talk(user("fix"), call, result("1", "no such tool")),
			marks: []string{"2 x", "1 y"},
			want:  []string{"1.0>2 failed flag rules: frob|x|no such tool"},
		},
		"an answer": {
			talk:  talk(user("fix"), says("first"), user("more"), says("second")),
			marks: []string{"3 "},
			want:  []string{"3.-1>-1 failed flag rules: ||"},
		},
		"nobody's": {
			talk:  talk(user("fix"), says("done")),
			marks: []string{"0 x"}, drops: []string{"orphan_result", "no_site_left"},
		},
		"a timeout": {
			talk:  talk(user("fix"), says("call"), user("request timed out")),
			marks: []string{"2 x"}, drops: []string{"transient_error", "no_site_left"},
		},
		"not believed": {
			cfg: &silent, talk: talk(user("fix"), says("call")),
			marks: []string{"1 x"}, drops: []string{"no_error_site"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := rules
			if c.cfg != nil {
				cfg = *c.cfg
			}
			got := build(t, cfg, tell(t, example(t, c.talk), c.marks...))
			if d := cmp.Diff(c.want, got.sites()); d != "" {
				t.Error("sites", d)
			}
			var drops []string
			for _, d := range got.drops {
				drops = append(drops, string(d.Reason))
			}
			if d := cmp.Diff(c.drops, drops); d != "" {
				t.Error("drops", d)
			}
		})
	}
}

// TestToldToTheSchema checks that the tool list and the schema answer the kinds of error that the source reports, even
// where they find nothing wrong with a call.
func TestToldToTheSchema(t *testing.T) {
	cfg := schema.New[Config]()
	cfg.Hints.Sources = []string{sourceSchema}
	const tool = `{"name":"edit","parameters":{"type":"object","required":["file"]}}`
	for name, c := range map[string]struct {
		mark  string
		tools []string
		want  string
	}{
		"the tools of the meta": {
			`1 UnknownTool {"tool":"frob","available_tools":["edit",{"name":"run"}]}`, nil,
			"There is no tool frob. The tools are: edit, run.",
		},
		"the trace's tools": {"1 no_such_tool", []string{tool}, "The tools are: edit."},
		"the trace's schema": {
			`1 invalid-arguments {"tool":"edit"}`,
			[]string{tool},
			`The arguments of edit must fit its schema: {"type":"object","required":["file"]}`,
		},
		"the schema of the meta": {
			`1 validation_error {"tool":"x","schema":{"type":"object"}}`, nil,
			`The arguments of x must fit its schema: {"type":"object"}`,
		},
		"no JSON":        {"1 invalid_json", nil, "The arguments of the tool must be one JSON object."},
		"nothing to say": {"1 permission_denied", []string{tool}, ""},
		"nothing known":  {"1 unknown_tool", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var want []string
			if c.want != "" {
				want = []string{"1.-1>-1 failed flag schema: " + c.want}
			}
			got := build(t, cfg, tell(t, example(t, talk(user("fix"), says("call frob main")), c.tools...), c.mark))
			if d := cmp.Diff(want, got.sites()); d != "" {
				t.Error(name, d)
			}
		})
	}
}

// TestNoneIsAnAnswer checks that a rule without a hint leaves the site out, and that no other source is asked.
func TestNoneIsAnAnswer(t *testing.T) {
	cfg := schema.New[Config]()
	cfg.Hints.Rules = []Rule{{ErrorKind: "^flaky$", None: true}, {Text: "Mind {{ error_kind }}."}}
	for kind, want := range map[string][]string{"flaky": nil, "other": {"1.-1>-1 failed flag rules: Mind other."}} {
		t.Run(kind, func(t *testing.T) {
			got := build(t, cfg, tell(t, example(t, talk(user("fix"), says("call"))), "1 "+kind))
			if d := cmp.Diff(want, got.sites()); d != "" {
				t.Error(kind, d)
			}
			if declined := len(got.drops) > 0 && got.drops[0].Reason == hintDeclined; declined != (want == nil) {
				t.Error(kind, got.why())
			}
		})
	}
	if err := schema.Validate(&Rule{}); err == nil {
		t.Error("a rule with neither text nor none was accepted")
	}
}

func TestFaultsByName(t *testing.T) {
	for kind, want := range map[string]string{
		"Tool Not Found":    unknownTool,
		"JSONDecodeError":   argumentsNotJSON,
		"INVALID_ARGUMENTS": badSchema,
		"":                  "",
		"weird":             "",
		"un\u212anown tool": "",
	} {
		t.Run(kind, func(t *testing.T) {
			if got := (&told{kind: kind}).class(); got != want {
				t.Errorf("%q: %q", kind, got)
			}
		})
	}
	if names := (&told{meta: json.Raw(`{"tools":[3,{"x":1}],"available":["a"]}`)}).tools(); strings.Join(
		names,
		" ",
	) != "a" {
		t.Error(names)
	}
}
