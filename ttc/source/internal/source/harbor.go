package source

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/internal/objects"
	"github.com/nat-go/nat-go/ttc/json"
)

// Harbor's jobs have a folder for each trial: its result, and below it the agent's folder with the trajectory, which
// may be continued in further files. Beside it are files of the agent's own, and trajectories of agents that it called.

// TrialResult is what Harbor says about a trial.
type TrialResult struct {
	Task, Name string
	Reward     *float64 // nil if the trial has none, or none that counts
}

// Trajectories returns the trajectories of Harbor's trials among the files in a folder, or all files if there are none.
func Trajectories(files []string) []string {
	found := slices.DeleteFunc(slices.Clone(files), func(path string) bool {
		dir, name := filepath.Split(path)
		return !strings.HasPrefix(name, "trajectory.") || filepath.Base(dir) != agentDir
	})
	if len(found) == 0 {
		return files
	}
	return found
}

const (
	agentDir   = "agent"
	maxResult  = 256 << 20 // bytes, since a result may hold tokens
	trialDepth = 3         // a trial of several steps has steps/NAME/agent
)

// TrialOf returns the trial whose main trajectory a file is; nil if it is none.
func TrialOf(ctx context.Context, path string) *TrialResult {
	dir, name := filepath.Split(path)
	isMain := strings.HasPrefix(name, "trajectory.json") || strings.HasPrefix(name, "trajectory.cont-")
	if dir = filepath.Clean(dir); !isMain || filepath.Base(dir) != agentDir || objects.Is(path) {
		return nil
	}
	for range trialDepth {
		dir = filepath.Dir(dir)
		text, err := ReadFile(ctx, filepath.Join(dir, "result.json"), maxResult)
		if err != nil {
			continue
		}
		if result, err := json.Parse(text, InTexts); err == nil {
			if t := trialOf(result); t.Name != "" {
				return &t
			}
		}
	}
	return nil
}

// trialOf reads a trial's result. Where an error makes the reward invalid, Harbor says so; older versions only name the
// error.
func trialOf(result json.Raw) (t TrialResult) {
	text := func(key string) string {
		v, _ := result.Get(key)
		s, _ := v.Text()
		return s
	}
	t.Task, t.Name = text("task_name"), text("trial_name")
	valid, said := At(result, "reward_valid")
	failure, _ := At(result, "exception_info")
	if counts, _ := valid.Bool(); said && !counts || !said && failure.Kind() == json.Object {
		return t
	}
	rewards, _ := At(result, "verifier_result.rewards")
	all := 0
	for key, v := range rewards.Members() {
		if all++; all == 1 || key.Is("reward") {
			if f, ok := Number(v); ok {
				t.Reward = &f
			}
		}
	}
	if _, named := rewards.Get("reward"); all > 1 && !named {
		t.Reward = nil
	}
	return t
}
