package source

import (
	"context"
	"os"
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

// Trajectories returns the files in a folder, without the files of Harbor's jobs in it that aren't trajectories of
// trials. A job is a folder of trials, which have a result and a trajectory.
func Trajectories(files []string) []string {
	trials, jobs := map[string]bool{}, map[string]bool{}
	for _, path := range files {
		if filepath.Base(path) == resultName {
			trials[filepath.Dir(path)] = true
		}
	}
	for _, path := range files {
		if !isTrajectory(path) {
			continue
		}
		if trial := above(filepath.Dir(path), trialDepth, trials); trial != "" {
			jobs[filepath.Dir(trial)] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(files), func(path string) bool {
		return !isTrajectory(path) && above(path, len(path), jobs) != ""
	})
}

func isTrajectory(path string) bool {
	dir, name := filepath.Split(path)
	return strings.HasPrefix(name, "trajectory.") && filepath.Base(dir) == agentDir
}

// above returns the nearest folder above a path, at most depth levels up, that is in a set; empty if none is.
func above(path string, depth int, set map[string]bool) string {
	for dir := filepath.Dir(path); depth > 0 && dir != path; path, dir, depth = dir, filepath.Dir(dir), depth-1 {
		if set[dir] {
			return dir
		}
	}
	return ""
}

const (
	agentDir   = "agent"
	resultName = "result.json"
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
		path := filepath.Join(dir, resultName)
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() { // a pipe could keep us waiting
			continue
		}
		text, err := ReadFile(ctx, path, maxResult)
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
