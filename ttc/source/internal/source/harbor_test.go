package source

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestTrialOf: a trial's reward is the verifier's, unless an error made it invalid or it has several and none is called
// reward.
func TestTrialOf(t *testing.T) {
	const named = `{"task_name": "t", "trial_name": "t__1", `
	for rest, want := range map[string]string{
		`"verifier_result": {"rewards": {"reward": 0.5}}, "exception_info": null}`:                                   "t t__1 0.5",
		`"verifier_result": {"rewards": {"speed": 0.2, "reward": 1}}}`:                                               "t t__1 1",
		`"verifier_result": {"rewards": {"reward": 1, "speed": 0.2}}}`:                                               "t t__1 1",
		`"verifier_result": {"rewards": {"tests": 1}}}`:                                                              "t t__1 1",
		`"verifier_result": {"rewards": {"tests": 1, "speed": 0.2}}}`:                                                "t t__1 none",
		`"verifier_result": null}`:                                                                                   "t t__1 none",
		`"verifier_result": {"rewards": {"reward": 1}}, "exception_info": {"exception_type": "E"}}`:                  "t t__1 none",
		`"verifier_result": {"rewards": {"reward": 1}}, "exception_info": {}, "reward_valid": true}`:                 "t t__1 1",
		`"verifier_result": {"rewards": {"reward": 1}}, "exception_info": null, "reward_valid": false}`:              "t t__1 none",
		`"verifier_result": {"rewards": {"reward": "high"}}}`:                                                        "t t__1 none",
		`"verifier_result": {"rewards": {"reward": {"score": 1}}}, "step_results": [{"step_name": "s"}], "x": "\""}`: "t t__1 none",
		`"verifier_result": `: "not a trial",
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "result.json"), []byte(named+rest), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, below := range []string{"agent/trajectory.json", "agent/trajectory.cont-1.json", "steps/s/agent/trajectory.json"} {
			if got := trialText(filepath.Join(dir, below)); got != want {
				t.Errorf("%s of %s: got %q, want %q", below, rest, got, want)
			}
		}
		for _, other := range []string{"trajectory.json", "agent/trajectory.summarization-1.json", "agent/logs.json"} {
			if got := trialText(filepath.Join(dir, other)); got != "not a trial" {
				t.Errorf("%s is a trial: %q", other, got)
			}
		}
	}
}

func trialText(path string) string {
	r := TrialOf(context.Background(), path)
	switch {
	case r == nil:
		return "not a trial"
	case r.Reward == nil:
		return r.Task + " " + r.Name + " none"
	}
	return fmt.Sprint(r.Task, " ", r.Name, " ", *r.Reward)
}

// TestTrialOfPipe: a result that is a pipe without a writer isn't waited for.
func TestTrialOfPipe(t *testing.T) {
	pipe := fifo(t)
	if err := os.Rename(pipe, filepath.Join(filepath.Dir(pipe), "result.json")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if r := TrialOf(ctx, filepath.Join(filepath.Dir(pipe), "agent", "trajectory.json")); r != nil || ctx.Err() != nil {
		t.Errorf("got %v, %v", r, ctx.Err())
	}
}

// TestTrajectories: only the files of a job that aren't trajectories are skipped, not other data next to the job.
func TestTrajectories(t *testing.T) {
	job := strings.Fields("d/j/config.json d/j/result.json d/j/a__1/result.json d/j/a__1/agent/episode-0/debug.json " +
		"d/j/a__1/agent/trajectory.json d/j/a__1/agent/trajectory.summarization-1.json d/j/a__1/verifier/ctrf.json")
	steps := strings.Fields("d/k/a__1/result.json d/k/a__1/steps/s/agent/log.json d/k/a__1/steps/s/agent/trajectory.json")
	other := strings.Fields("d/chats.jsonl d/e/result.json d/e/f/agent/notes.json agent/trajectory.json /agent/trajectory.json")
	failed := strings.Fields("d/j/b__1/result.json d/j/b__1/agent/log.json d/j/c__1/result.json d/k/config.json")
	got, lacking := Trajectories(slices.Concat(other, job, steps, failed))
	if diff := cmp.Diff(slices.Concat(other, job[4:6], steps[2:]), got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"d/j/b__1", "d/j/c__1"}, lacking); diff != "" {
		t.Error(diff)
	}
	got, lacking = Trajectories(job[:4])
	if diff := cmp.Diff(job[:4], got); diff != "" || lacking != nil {
		t.Error(diff, lacking)
	}
}
