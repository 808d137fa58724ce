package inspect_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/inspect"
)

const (
	question = `{"role": "user", "content": "q"}`
	answer   = `{"role": "assistant", "content": "a"}`
	context0 = `{"role": "assistant", "content": "not sampled", "weight": 0}`
)

func conversation(messages ...string) string {
	return `{"messages": [` + strings.Join(messages, ", ") + "]}\n"
}

func looked(t *testing.T, text string) *inspect.Report {
	t.Helper()
	path := filepath.Join(t.TempDir(), "in.jsonl")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := inspect.Look(context.Background(), inspect.Options{Paths: []string{path}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestLosses checks that what the chosen format has no place for is reported before a run, turn by turn, with the
// format that has a place for it and what that costs.
func TestLosses(t *testing.T) {
	r := looked(t, conversation(question, answer)+conversation(question, answer, question, context0, question, answer))
	if diff := cmp.Diff([]string{"trl"}, r.Choice.Formats); diff != "" {
		t.Error(diff)
	}
	if got := r.Losses(); got != nil {
		t.Errorf("the format that was chosen loses: %q", got)
	}
	r.Choice.Formats = []string{"messages"}
	want := []string{"messages carries 2 of 3 turns: its trainers train on every turn, so a row ends before the first " +
		"context-only turn; trl carries 3, in 1.3 times the text of the conversations (dataset.formats)"}
	if diff := cmp.Diff(want, r.Losses()); diff != "" {
		t.Error(diff)
	}
}

// TestScoredRollouts: what rollouts of a task teach is imitation and comparison. Each has a format that carries it, and
// the screen says what the reward is, and which way it counts.
func TestScoredRollouts(t *testing.T) {
	rollout := func(key, score, says string) string {
		return `{"instance_id": "i", "` + key + `": ` + score + `, "messages": [` + question + `, {"role": "assistant", ` +
			`"content": "` + says + `", "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}, ` +
			`{"role": "tool", "tool_call_id": "1", "content": "` + says + `"}, ` + answer + `]}` + "\n"
	}
	for key, c := range map[string]struct{ worse, better, said string }{
		"resolved":     {"false", "true", "true 1, false 1; SO; scores from 0 to 1, higher is better"},
		"reward_score": {"-1", "3.5", "-1 to 3.5; SO; scores from -1 to 3.5, higher is better"},
		"loss": {
			"2.5", "1", `1 to 2.5; lower values of "loss" are assumed to be better; SO; scores from 1 to 2.5, lower is better`,
		},
	} {
		r := looked(t, rollout(key, c.worse, "x")+rollout(key, c.better, "y"))
		said := strings.ReplaceAll(c.said, "SO", `the task is read from "instance_id"`)
		want := fmt.Sprintf("read as traces (the reward is read from %q: %s); builder sft, divergence, format messages, trl: "+
			"the best-scored conversations of each task are imitated, and compared with others where they diverge", key, said)
		if diff := cmp.Diff(want, r.Line()); diff != "" {
			t.Error(diff)
		}
	}
}

// TestOtherWords: pairs of rollouts whose users word things differently have turns in changed contexts, so they are
// offered and not chosen.
func TestOtherWords(t *testing.T) {
	call := func(name string) string {
		return `{"role": "assistant", "content": "", "tool_calls": [{"id": "1", "type": "function", "function": {"name": "` +
			name + `", "arguments": "{}"}}]}, {"role": "tool", "tool_call_id": "1", "content": "done"}`
	}
	rollout := func(reward, asks, does string) string {
		return `{"task_id": "t", "reward": ` + reward + `, "messages": [{"role": "user", "content": "` + asks + `"}, ` +
			call("look") + ", " + call(does) + ", " + answer + `]}` + "\n"
	}
	r := looked(t, rollout("1", "Book it.", "book")+rollout("0", "Please book.", "cancel"))
	if r.Records("divergence_traj_builder") != 1 {
		t.Errorf("no pair in %+v", r.Builders)
	}
	if diff := cmp.Diff([]string{"sft_traj_builder"}, r.Choice.Builders); diff != "" {
		t.Error(diff)
	}
}

// TestOnlyFormat: where no preferred format carries anything, one that does is chosen.
func TestOnlyFormat(t *testing.T) {
	r := looked(t, conversation(question, `{"role": "assistant", "content": "", "tool_calls": [{"id": "1", "type": "function", `+
		`"function": {"name": "f", "arguments": "*** Begin Patch"}}]}`, `{"role": "tool", "tool_call_id": "1", "content": "x"}`, answer))
	if diff := cmp.Diff([]string{"openai_sft"}, r.Choice.Formats); diff != "" {
		t.Error(diff, r.Losses())
	}
}

// TestHarborJob: a job's folder is read as its trials' trajectories, which have the rewards and tasks that their results
// say.
func TestHarborJob(t *testing.T) {
	files := map[string]string{"config.json": `{"job_name": "j"}`, "result.json": `{"stats": {"evals": {}}}`}
	for i, says := range []string{"x", "y"} {
		dir := fmt.Sprintf("t__%d/", i)
		files[dir+"result.json"] = fmt.Sprintf(`{"task_name": "t", "trial_name": "t__%d", "verifier_result": {"rewards": {"reward": %[1]d}}}`, i)
		files[dir+"verifier/reward.txt"] = fmt.Sprint(i)
		files[dir+"agent/episode-0/debug.json"] = `{"model": "m", "messages": [` + question + `], "response": "r"}`
		files[dir+"agent/trajectory.json"] = fmt.Sprintf(`{"schema_version": "ATIF-v1.8", "session_id": "s%d", "agent": {"name": "a", "version": "1"}, `+
			`"steps": [{"step_id": 1, "source": "user", "message": "q"}, {"step_id": 2, "source": "agent", "message": %q}]}`, i, says)
	}
	r, err := inspect.Look(context.Background(), inspect.Options{Paths: []string{writeAll(t, files)}})
	if err != nil {
		t.Fatal(err)
	}
	want := "read as atif (scores from 0 to 1, higher is better); builder sft, divergence, format trl: the best-scored " +
		"conversations of each task are imitated, and compared with others where they diverge"
	if diff := cmp.Diff(want, r.Line()); diff != "" || r.Files != 2 || r.Records("divergence_traj_builder") != 1 {
		t.Errorf("%d files, %d pairs, %s", r.Files, r.Records("divergence_traj_builder"), diff)
	}
}

// TestDefaultFormat: the format that carries most turns is chosen, unless its rows repeat too much.
func TestDefaultFormat(t *testing.T) {
	long := []string{question, answer, question, context0}
	for range 10 {
		long = append(long, question, answer)
	}
	for name, c := range map[string]struct{ text, want string }{
		"nothing masked": {conversation(question, answer, question, answer), "messages"},
		"a masked turn":  {conversation(question, answer, question, context0, question, answer), "trl"},
		"long":           {conversation(long...), "messages"},
		"long, and messages would have nothing": {
			conversation(slices.Concat([]string{question, context0}, long)...), "trl",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := looked(t, c.text)
			if diff := cmp.Diff([]string{c.want}, r.Choice.Formats); diff != "" {
				t.Error(diff)
			}
			if name == "long" && !strings.Contains(r.Line(), "trl carries 11, in ") {
				t.Errorf("the line doesn't say what is lost: %s", r.Line())
			}
		})
	}
}
