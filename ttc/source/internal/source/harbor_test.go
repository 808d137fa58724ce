package source

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

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

func TestTrajectories(t *testing.T) {
	all := strings.Fields("j/config.json j/result.json j/a__1/result.json j/a__1/agent/episode-0/debug.json " +
		"j/a__1/agent/trajectory.json j/a__1/agent/trajectory.summarization-1.json j/a__1/verifier/ctrf.json")
	if diff := cmp.Diff(all[4:6], Trajectories(all)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(all[:4], Trajectories(all[:4])); diff != "" {
		t.Error(diff)
	}
}
