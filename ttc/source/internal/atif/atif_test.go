package atif

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/internal/sessiontest"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

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

func one(t *testing.T, text, want string) sessiontest.Reading {
	t.Helper()
	return sessiontest.One(t, Factory(), "trajectory.json", text, want)
}

// TestDifference12ListsOfItems: NAT writes a list of items, with all keys present and null.
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
	r := sessiontest.ReadText(t, Factory(), "trajectory.json", `[{"item_id":"t1","trajectory":`+first+`},{"item_id":"t2","trajectory":`+second+`}]`)
	if len(r.Examples) != 2 || r.Examples[0].ID != "r" || r.Examples[0].Task != "t2" ||
		sessiontest.Walks(r.Examples[1]) != "q / a*" {
		t.Errorf("%+v", r.Examples)
	}
}

// TestDifference13StepsOfNAT: NAT writes one step per tool call, without the system prompt, the tools or the model: the
// calls show this.
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
		"q / [c1]* / c1= / [c2]* / c2=r / b*",
	)
	if ex := r.Examples[0]; ex.Fidelity != ttc.Partial || ex.Tools != nil || ex.Policy != "" {
		t.Errorf("%+v", ex)
	}
}

// TestDifference14FlaggedErrorsAndAlteredResults: Harbor flags errors for some agents only, and adds text of its own to
// results, which the model didn't see.
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
	r := one(t, whole, "sys / q / [c1]* / c1=no! / b*")
	if ex := r.Examples[0]; ex.Fidelity != ttc.TextOnly || len(ex.Tools) != 1 {
		t.Errorf("%+v", ex)
	}
	r = one(
		t,
		strings.Replace(whole, `"content":"no"`, `"content":"[stdout] no"`, 1),
		"sys / q / [c1]* / c1=[stdout] no! / b*",
	)
	if r.Examples[0].Fidelity != ttc.Partial {
		t.Error("altered results were taken for what the model saw")
	}
}

// TestDifference15CopiedContextAndSubAgents: copied steps are context; sub-trajectories are agents of their own.
func TestDifference15CopiedContextAndSubAgents(t *testing.T) {
	sub := strings.Replace(
		trajectory("", step("user", "task", ""), step("agent", "x", "")),
		`"session_id":"s"`,
		`"trajectory_id":"sub"`,
		1,
	)
	r := sessiontest.ReadText(t, Factory(), "trajectory.json", trajectory(
		`,"subagent_trajectories":[`+sub+`]`,
		step(
			"user",
			"q",
			"",
		),
		step("agent", "a", `,"is_copied_context":true`),
		step("user", "r", ""),
		step("agent", "b", ""),
	))
	if len(r.Examples) != 2 ||
		sessiontest.Walks(r.Examples[0])+"; "+sessiontest.Walks(r.Examples[1]) != "q / a / r / b*; task / x*" &&
			sessiontest.Walks(r.Examples[1])+"; "+sessiontest.Walks(r.Examples[0]) != "q / a / r / b*; task / x*" {
		t.Errorf("%+v", r.Examples)
	}
	if r.Stats.Calls != 3 || r.Stats.Dropped["call"][session.CopiedCall] != 1 {
		t.Errorf("%+v", r.Stats)
	}
}

// TestDifference16WhatIsThere: a trajectory may be a fork without what precedes it: whatever is there is read. A step
// with several calls is context.
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
	if r.Stats.Dropped["call"][severalCalls] != 1 {
		t.Errorf("%+v", r.Stats)
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
	if diff := cmp.Diff(map[string]int64{"continued_trajectory_ref": 1}, r.Stats.Unread); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{"ATIF 1.9": "1.8"}, r.Stats.Newer); diff != "" {
		t.Error(diff)
	}
}

func TestIDs(t *testing.T) {
	metrics := `,"model_name":"m","metrics":{"prompt_tokens":5,"completion_tokens":2,"completion_token_ids":[1,2],"logprobs":[-1,-0.5]}`
	n := one(t, trajectory("", step("user", "q", ""), step("agent", "a", metrics)), "q / a*").Examples[0]
	answer := n.Graph.Nodes[1]
	if !cmp.Equal(answer.TokenIDs, []int32{1, 2}) || !cmp.Equal(answer.LogProbs, []float32{-1, -0.5}) ||
		n.Policy != "m" {
		t.Errorf("%+v", n)
	}
}

func TestHostileTrajectories(t *testing.T) {
	good := trajectory("", step("user", "q", ""), step("agent", "a", ""))
	for name, c := range map[string]struct{ text, want string }{
		"torn":            {good[:len(good)-4], "map[file:map[other_format:1] line:map[unread_line:1]]"},
		"torn after one":  {good + "\n" + good[:20], "map[line:map[unread_line:1]]"},
		"something else":  {`{"a":1}`, "map[file:map[other_format:1]]"},
		"twice":           {good + "\n" + good, "map[session:map[identical_row:1]]"},
		"odd values":      {strings.Replace(good, `"steps":[`, `"steps":[1,{},{"source":"agent","tool_calls":{},"observation":[]},`, 1), "map[]"},
		"no JSON at all":  {"hello", "map[file:map[other_format:1] line:map[unread_line:1]]"},
		"deep sub-agents": {strings.Repeat(`{"schema_version":"ATIF-v1.7","session_id":"s","steps":[],"subagent_trajectories":[`, 400) + good + strings.Repeat("]}", 400), "map[]"},
	} {
		t.Run(name, func(t *testing.T) {
			r := sessiontest.ReadText(t, Factory(), "trajectory.json", c.text)
			if got := fmt.Sprint(r.Stats.Dropped); got != c.want {
				t.Errorf("%s: %s, %+v", name, got, r.Drops)
			}
		})
	}
}

// TestTrials: a trial of a Harbor job without a trajectory is named, and a trial's result belongs to the input: a run
// doesn't resume where a reward has changed, even if size and time of the files haven't.
func TestTrials(t *testing.T) {
	dir := t.TempDir()
	result := func(name string, reward int, more string) string {
		return sessiontest.Write(t, dir, name+"/result.json", fmt.Sprintf(
			`{"task_name":"t","trial_name":"%s","verifier_result":{"rewards":{"reward":%d}}%s}`, name, reward, more))
	}
	sessiontest.Write(t, dir, "a/agent/trajectory.json", trajectory("", step("user", "q", ""), step("agent", "x", "")))
	changed := result("a", 0, "")
	result("b", 0, `,"exception_info":{"exception_type":"AgentTimeoutError"}`)
	sessiontest.Write(t, dir, "c/result.json", "[")
	r := sessiontest.Read(t, Factory(), dir)
	accounts := r.Stats.Accounts()
	if i := slices.IndexFunc(accounts, func(a ledger.Account) bool { return a.Unit == "trial" }); i < 0 || accounts[i].In != 2 {
		t.Errorf("%+v", accounts)
	}
	var lacking []string
	for _, d := range r.Drops {
		lacking = append(lacking, fmt.Sprint(d.Unit, " ", d.Reason, " ", d.Example, " ", d.Detail))
	}
	want := []string{"trial no_trajectory b AgentTimeoutError", "trial no_trajectory c "}
	if diff := cmp.Diff(want, lacking); diff != "" || len(r.Examples) != 1 || *r.Examples[0].Reward != 0 {
		t.Fatal(diff, r.Examples)
	}
	again, err := sessiontest.ReadAfter(Factory(), &r.Cursors[0], r.Inputs, dir)
	if err != nil || again.Drops != nil {
		t.Errorf("dropped again: %v, %v", again.Drops, err)
	}
	info, err := os.Stat(changed)
	if err != nil {
		t.Fatal(err)
	}
	result("a", 1, "")
	if err := os.Chtimes(changed, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	if _, err := sessiontest.ReadAfter(Factory(), &r.Cursors[0], r.Inputs, dir); err == nil {
		t.Error("a run resumed with another reward")
	}
}

// TestEqualTrajectories checks that trials whose trajectories are equal, or have the same session id, each count with
// their own reward, and that a second copy of a job doesn't count.
func TestEqualTrajectories(t *testing.T) {
	dir := t.TempDir()
	trial := func(name string, reward int, answer string) {
		folder := filepath.Base(name)
		sessiontest.Write(t, dir, name+"/result.json", fmt.Sprintf(
			`{"task_name":"t","trial_name":"%s","verifier_result":{"rewards":{"reward":%d}}}`, folder, reward))
		sessiontest.Write(t, dir, name+"/agent/trajectory.json",
			trajectory("", step("user", "q", ""), step("agent", answer, "")))
	}
	trial("one/a", 1, "x")
	trial("one/b", 0, "x")
	trial("one/c", 0, "x")
	trial("one/d", 1, "y")
	trial("two/a", 1, "x")
	r := sessiontest.Read(t, Factory(), dir)
	sessiontest.Balanced(t, r)
	var got []string
	for _, ex := range r.Examples {
		got = append(got, fmt.Sprint(ex.Trial, " ", *ex.Reward, " ", sessiontest.Walks(ex)))
	}
	slices.Sort(got)
	if diff := cmp.Diff([]string{"a 1 q / x*", "b 0 q / x*", "c 0 q / x*", "d 1 q / y*"}, got); diff != "" {
		t.Error(diff)
	}
	if n := r.Stats.Dropped["session"][source.IdenticalRow]; n != 1 {
		t.Errorf("%d identical, %+v", n, r.Drops)
	}
}

// TestNamedTrajectory: the result of a trial belongs to its trajectory, if that alone is named.
func TestNamedTrajectory(t *testing.T) {
	dir := t.TempDir()
	path := sessiontest.Write(t, dir, "a/agent/trajectory.json", trajectory("", step("user", "q", "")))
	before, err := source.Identify(t.Context(), []string{path})
	if err != nil {
		t.Fatal(err)
	}
	sessiontest.Write(t, dir, "a/result.json", `{"trial_name":"a"}`)
	if after, err := source.Identify(t.Context(), []string{path}); err != nil || after.Same(before) {
		t.Error(after, err)
	}
}

// TestRecorded reads what Harbor and NAT made from recorded sessions.
func TestRecorded(t *testing.T) {
	dir := sessiontest.Recorded(t)
	for folder, want := range map[string]int64{"atif_harbor/claude": 6, "atif_harbor/codex": 5, "atif_nat": 5} {
		t.Run(folder, func(t *testing.T) {
			r := sessiontest.Read(t, Factory(), filepath.Join(dir, folder))
			if len(r.Examples) != 1 || r.Stats.Calls != want || len(r.Stats.Dropped["call"]) != 0 ||
				r.Examples[0].Fidelity != ttc.Partial {
				t.Errorf("%s: %d examples, %+v", folder, len(r.Examples), r.Stats)
				return
			}
			trained, calls := int64(0), 0
			for _, n := range r.Examples[0].Graph.Nodes {
				if n.Sampled == ttc.Yes {
					trained++
					calls += len(n.Message.ToolCalls)
				}
			}
			if trained != want || calls != 4 {
				t.Errorf("%s: %d answers with %d calls of tools", folder, trained, calls)
			}
		})
	}
}

func FuzzRead(f *testing.F) {
	f.Add(trajectory("", step("user", "q", ""), step("agent", "", called("c1", "r"))))
	f.Fuzz(func(t *testing.T, text string) {
		r := sessiontest.ReadText(t, Factory(), "trajectory.json", text+"\n")
		sessiontest.Balanced(t, r)
	})
}
