package atif

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source"
	"github.com/nat-go/nat-go/ttc/source/session"
)

// reading is what a source gave.
type reading struct {
	examples []*ttc.Example
	drops    []ledger.Drop
	stats    source.Stats
}

func read(t testing.TB, paths ...string) (r reading) {
	t.Helper()
	cfg := schema.New[Config]()
	cfg.Path = paths
	s, err := Open(
		context.Background(),
		cfg,
		source.Options{Drop: func(d ledger.Drop) { r.drops = append(r.drops, d) }},
	)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for {
		ex, _, err := s.Next(context.Background())
		if errors.Is(err, io.EOF) {
			r.stats = *s.Stats()
			return r
		}
		if err != nil {
			t.Fatal(err)
		}
		r.examples = append(r.examples, ex)
	}
}

func write(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "trajectory.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// walks are the branches of an example in short; what is trained has a star.
func walks(ex *ttc.Example) string {
	var out []string
	for _, leaf := range ex.Graph.Leaves() {
		var b []string
		for _, i := range ex.Graph.Branch(leaf) {
			n := &ex.Graph.Nodes[i]
			text := n.Message.Text
			for _, c := range n.Message.ToolCalls {
				text += "[" + c.ID + "]"
			}
			if n.Error != nil && *n.Error {
				text += "!"
			}
			if n.Sampled == ttc.Yes {
				text += "*"
			}
			b = append(b, text)
		}
		out = append(out, strings.Join(b, " / "))
	}
	return strings.Join(out, " || ")
}

// trajectory is one of these steps, with further keys.
func trajectory(more string, steps ...string) string {
	return `{"schema_version":"ATIF-v1.7","session_id":"s","agent":{"name":"a","version":"1"}` + more + `,"steps":[` + strings.Join(
		steps,
		",",
	) + "]}"
}

func step(source, message, more string) string {
	return fmt.Sprintf(`{"step_id":1,"source":"%s","message":"%s"%s}`, source, message, more)
}

func called(id, result string) string {
	return fmt.Sprintf(`,"tool_calls":[{"tool_call_id":"%s","function_name":"f","arguments":{"a":1}}],`+
		`"observation":{"results":[{"source_call_id":"%s","content":"%s"}]}`, id, id, result)
}

func one(t *testing.T, text, want string) reading {
	t.Helper()
	r := read(t, write(t, text))
	if len(r.examples) != 1 {
		t.Fatalf("%d examples, drops %+v", len(r.examples), r.drops)
	}
	if got := walks(r.examples[0]); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	return r
}

// NAT writes a list of items, with all keys there and null.
func TestDifference12ListsOfItems(t *testing.T) {
	first := trajectory(
		`,"trajectory_id":null,"subagent_trajectories":null,"continued_trajectory_ref":null`,
		step(
			"user",
			"q",
			`,"tool_calls":null,"observation":null,"metrics":null`,
		),
		step("agent", "a", `,"llm_call_count":null,"is_copied_context":null`),
	)
	second := strings.Replace(first, `"session_id":"s"`, `"session_id":"r"`, 1)
	r := read(t, write(t, `[{"item_id":"t1","trajectory":`+first+`},{"item_id":"t2","trajectory":`+second+`}]`))
	if len(r.examples) != 2 || r.examples[0].ID != "r" || r.examples[0].Task != "t2" ||
		walks(r.examples[1]) != "q / a*" {
		t.Errorf("%+v", r.examples)
	}
}

// NAT's steps are one for each call of a tool, without system prompt, tools or the model: the calls say so.
func TestDifference13StepsOfNAT(t *testing.T) {
	r := one(
		t,
		trajectory(
			"",
			step("user", "q", ""),
			step("agent", "", called("c1", "")),
			step("agent", "", called("c2", "r")),
			step("agent", "b", ""),
		),
		"q / [c1]* /  / [c2]* / r / b*",
	)
	if ex := r.examples[0]; ex.Fidelity != ttc.Partial || ex.Tools != nil || ex.Policy != "" {
		t.Errorf("%+v", ex)
	}
}

// Harbor flags errors of some agents, and puts words of its own into results, which the model didn't see.
func TestDifference14FlaggedErrorsAndAlteredResults(t *testing.T) {
	with := strings.Replace(
		called("c1", "no"),
		`"content":"no"`,
		`"content":"no","extra":{"tool_result_is_error":true}`,
		1,
	)
	tools := `,"x":1`
	whole := strings.Replace(
		trajectory(
			tools,
			step("system", "sys", ""),
			step("user", "q", ""),
			step("agent", "", with),
			step("agent", "b", ""),
		),
		`"version":"1"`,
		`"version":"1","tool_definitions":[{"type":"function","function":{"name":"f","parameters":{}}}]`,
		1,
	)
	r := one(t, whole, "sys / q / [c1]* / no! / b*")
	if ex := r.examples[0]; ex.Fidelity != ttc.TextOnly || len(ex.Tools) != 1 {
		t.Errorf("%+v", ex)
	}
	r = one(
		t,
		strings.Replace(whole, `"content":"no"`, `"content":"[stdout] no"`, 1),
		"sys / q / [c1]* / [stdout] no! / b*",
	)
	if r.examples[0].Fidelity != ttc.Partial {
		t.Error("altered results are taken for what the model saw")
	}
}

// Copied steps are context, sub-trajectories are agents of their own.
func TestDifference15CopiedContextAndSubAgents(t *testing.T) {
	sub := strings.Replace(
		trajectory("", step("user", "task", ""), step("agent", "x", "")),
		`"session_id":"s"`,
		`"trajectory_id":"sub"`,
		1,
	)
	r := read(t, write(t, trajectory(
		`,"subagent_trajectories":[`+sub+`]`,
		step(
			"user",
			"q",
			"",
		),
		step("agent", "a", `,"is_copied_context":true`),
		step("user", "r", ""),
		step("agent", "b", ""),
	)))
	if len(r.examples) != 2 ||
		walks(r.examples[0])+"; "+walks(r.examples[1]) != "q / a / r / b*; task / x*" &&
			walks(r.examples[1])+"; "+walks(r.examples[0]) != "q / a / r / b*; task / x*" {
		t.Errorf("%+v", r.examples)
	}
	if r.stats.Calls != 3 || r.stats.Dropped["call"][session.CopiedCall] != 1 {
		t.Errorf("%+v", r.stats)
	}
}

// A trajectory may be a fork without what comes before it: it is read as far as it goes. A step of several calls is
// context.
func TestDifference16WhatIsThere(t *testing.T) {
	r := one(
		t,
		trajectory(
			"",
			step("user", "q", ""),
			step("agent", "a", `,"llm_call_count":3`),
			step("user", "r", ""),
			step("agent", "b", `,"llm_call_count":1`),
		),
		"q / a / r / b*",
	)
	if r.stats.Dropped["call"][NotOneCall] != 1 {
		t.Errorf("%+v", r.stats)
	}
	r = one(
		t,
		strings.Replace(
			trajectory(`,"continued_trajectory_ref":"next.json"`, step("user", "q", ""), step("agent", "a", "")),
			"v1.7",
			"v1.9",
			1,
		),
		"q / a*",
	)
	if fmt.Sprint(r.stats.Unread) != "map[ATIF-v1.9, a version newer than ATIF-v1.8:1 continued_trajectory_ref:1]" {
		t.Errorf("%+v", r.stats.Unread)
	}
}

func TestIDs(t *testing.T) {
	metrics := `,"model_name":"m","metrics":{"prompt_tokens":5,"completion_tokens":2,"completion_token_ids":[1,2],"logprobs":[-1,-0.5]}`
	n := one(t, trajectory("", step("user", "q", ""), step("agent", "a", metrics)), "q / a*").examples[0]
	if fmt.Sprint(n.Graph.Nodes[1].TokenIDs, n.Graph.Nodes[1].LogProbs) != "[1 2] [-1 -0.5]" || n.Policy != "m" {
		t.Errorf("%+v", n)
	}
}

func TestHostileTrajectories(t *testing.T) {
	good := trajectory("", step("user", "q", ""), step("agent", "a", ""))
	for name, c := range map[string]struct{ text, want string }{
		"torn":            {good[:len(good)-4], "map[file:map[other_format:1]]"},
		"torn after one":  {good + "\n" + good[:20], "map[line:map[unread_line:1]]"},
		"something else":  {`{"a":1}`, "map[file:map[other_format:1]]"},
		"twice":           {good + "\n" + good, "map[session:map[identical_row:1]]"},
		"odd values":      {strings.Replace(good, `"steps":[`, `"steps":[1,{},{"source":"agent","tool_calls":{},"observation":[]},`, 1), "map[]"},
		"no JSON at all":  {"hello", "map[file:map[other_format:1]]"},
		"deep sub-agents": {strings.Repeat(`{"schema_version":"ATIF-v1.7","session_id":"s","steps":[],"subagent_trajectories":[`, 400) + good + strings.Repeat("]}", 400), "map[]"},
	} {
		r := read(t, write(t, c.text))
		if got := fmt.Sprint(r.stats.Dropped); got != c.want {
			t.Errorf("%s: %s, %+v", name, got, r.drops)
		}
	}
}

// TestRecorded reads what Harbor and NAT made of recorded sessions.
func TestRecorded(t *testing.T) {
	dir := os.Getenv("NATGO_CONFORMANCE")
	if dir == "" {
		t.Skip("NATGO_CONFORMANCE names no folder with recorded trajectories")
	}
	for folder, want := range map[string]int64{"atif_harbor/claude": 6, "atif_harbor/codex": 5, "atif_nat": 5} {
		r := read(t, filepath.Join(dir, "readers", folder))
		if len(r.examples) != 1 || r.stats.Calls != want || len(r.stats.Dropped["call"]) != 0 ||
			r.examples[0].Fidelity != ttc.Partial {
			t.Errorf("%s: %d examples, %+v", folder, len(r.examples), r.stats)
			continue
		}
		trained, calls := int64(0), 0
		for _, n := range r.examples[0].Graph.Nodes {
			if n.Sampled == ttc.Yes {
				trained++
				calls += len(n.Message.ToolCalls)
			}
		}
		if trained != want || calls != 4 {
			t.Errorf("%s: %d answers with %d calls of tools", folder, trained, calls)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(trajectory("", step("user", "q", ""), step("agent", "", called("c1", "r"))))
	f.Fuzz(func(t *testing.T, text string) {
		r := read(t, write(t, text+"\n"))
		for _, a := range r.stats.Accounts() {
			if a.In != a.Out+a.DroppedTotal() || a.Out < 0 {
				t.Errorf("the books don't balance: %+v", a)
			}
		}
	})
}
