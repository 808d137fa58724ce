package source

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/internal/objects"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// A Harbor job has a folder for each trial. The trial's folder contains the trial's result and, at some level, the
// agent's folder with the trajectory, which may be continued in additional files. The agent's folder also holds the
// agent's own files, and the trajectories of agents that it called.

// TrialResult is Harbor's result for a trial.
type TrialResult struct {
	Task, Name string
	Reward     *float64 // nil if the trial has no reward, or an invalid or ambiguous one
	Failure    string   // type of the exception that ended the trial
}

// Trajectories returns files without those in Harbor's jobs that aren't trajectories. It also returns the folders of
// the jobs' trials that lack a trajectory. A trial is a folder with a result; a job is a folder of trials, at least
// one of which has a trajectory.
func Trajectories(files []string) (kept, lacking []string) {
	trials, jobs, found := map[string]bool{}, map[string]bool{}, map[string]bool{}
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
			jobs[filepath.Dir(trial)], found[trial] = true, true
		}
	}
	for _, trial := range slices.Sorted(maps.Keys(trials)) {
		if jobs[filepath.Dir(trial)] && !found[trial] {
			lacking = append(lacking, trial)
		}
	}
	return slices.DeleteFunc(slices.Clone(files), func(path string) bool {
		return !isTrajectory(path) && above(path, len(path), jobs) != ""
	}), lacking
}

func isTrajectory(path string) bool {
	dir, name := filepath.Split(path)
	return strings.HasPrefix(name, "trajectory.") && filepath.Base(dir) == agentDir
}

// above returns the folder in a set that is nearest above a path and at most depth levels up, or an empty string.
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
	maxResult  = 256 << 20 // in bytes; large, because a result may contain tokens
	trialDepth = 3         // a multi-step trial has steps/NAME/agent
)

// TrialOf returns the result of the trial that a main trajectory file belongs to. It returns nil if the file isn't a
// main trajectory file, or if the result can't be read.
func TrialOf(ctx context.Context, path string) *TrialResult {
	for _, path := range resultsOf(path) {
		if t := readTrial(ctx, path); t != nil {
			return t
		}
	}
	return nil
}

// resultsOf returns the files that may hold the result of the trial that a main trajectory file belongs to, nearest
// first.
func resultsOf(path string) (results []string) {
	dir, name := filepath.Split(path)
	isMain := strings.HasPrefix(name, "trajectory.json") || strings.HasPrefix(name, "trajectory.cont-")
	if dir = filepath.Clean(dir); !isMain || filepath.Base(dir) != agentDir || objects.Is(path) {
		return nil
	}
	for range trialDepth {
		dir = filepath.Dir(dir)
		path := filepath.Join(dir, resultName)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() { // reading a pipe could block
			results = append(results, path)
		}
	}
	return results
}

// readTrial reads a file that may be a trial's result. It returns nil if it isn't.
func readTrial(ctx context.Context, path string) *TrialResult {
	text, err := ReadFile(ctx, path, maxResult)
	if err != nil {
		return nil
	}
	result, err := json.Parse(text, InTexts)
	if err != nil {
		return nil
	}
	if t := trialOf(result); t.Name != "" {
		return &t
	}
	return nil
}

// LackingTrial returns the drop for a trial without a trajectory, given its folder.
func LackingTrial(ctx context.Context, dir string) ledger.Drop {
	d := ledger.Drop{
		Unit: "trial", Reason: NoTrajectory, Example: filepath.Base(dir), Index: -1, File: filepath.Join(dir, resultName),
	}
	if t := readTrial(ctx, d.File); t != nil {
		d.Example, d.Detail = t.Name, t.Failure
	}
	return d
}

// trialOf reads a trial's result. Harbor records whether an error makes the reward invalid; older versions record only
// the error.
func trialOf(result json.Raw) (t TrialResult) {
	t.Task, _ = At(result, "task_name").Text()
	t.Name, _ = At(result, "trial_name").Text()
	valid, failure := At(result, "reward_valid"), At(result, "exception_info")
	kind, _ := failure.Get("exception_type")
	t.Failure, _ = kind.Text()
	if counts, _ := valid.Bool(); valid != nil && !counts || valid == nil && failure.Kind() == json.Object {
		return t
	}
	rewards := At(result, "verifier_result.rewards")
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
