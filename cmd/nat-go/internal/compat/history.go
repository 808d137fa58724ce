package compat

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/dpo"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers"
	"github.com/nat-go/nat-go/internal/durable"
	natjson "github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// History is the report that NAT writes about a run. Runs in either mode write it. For each collection run, it contains
// the rewards of the records and the metrics of the pair builder.
type History struct {
	mode    Mode
	runID   string
	now     func() time.Time
	pairs   Pairs
	runs    []collectionRun  // the collection runs that yielded records or, in NAT's mode, pairs
	metrics []builderMetrics // one per collection run; in NAT's mode, one per group
	groups  int64            // number of examples that yielded records or, in NAT's mode, pairs
}

// Pairs is the pair builder whose metrics a history contains. If the run doesn't have a pair builder, Name is empty.
type Pairs struct {
	Name   string // name of the builder's entry in trajectory_builders
	Config *dpo.Config
}

// NewHistory returns an empty history for a run.
func NewHistory(m Mode, runID string, pairs Pairs, now func() time.Time) *History {
	return &History{mode: m, runID: runID, pairs: pairs, now: now}
}

// Add counts the next group in the record log.
func (h *History) Add(g *recordlog.Group) {
	switch {
	case h.mode != NAT:
		h.count(g)
	case g.Key != "":
		h.metrics = append(h.metrics, builderMetrics{RunID: h.builderRun(g.Key), Config: configOf(h.pairs.Config)})
		h.metrics[len(h.metrics)-1].add(g, "")
	}
	h.groups += int64(examplesOf(g, h.mode == NAT))
	for i := range g.Records {
		if _, isPair := g.Records[i].Record.(*builders.Preference); h.mode == NAT && !isPair {
			continue
		}
		run := g.Records[i].Origin.Run
		if n := len(h.runs); n == 0 || h.runs[n-1].run != run {
			h.runs = append(h.runs, collectionRun{run: run})
		}
		r := &h.runs[len(h.runs)-1]
		r.trajectories++
		switch x := g.Records[i].Record.(type) {
		case *builders.Preference:
			r.pairs++
			r.add(x.Reward)
		case *builders.Rollout:
			r.addKnown(x.Reward)
		case *builders.Demonstration:
			r.addKnown(x.Score)
		}
	}
}

// examplesOf returns the number of examples that a group's records, or only its pairs, come from.
func examplesOf(g *recordlog.Group, pairs bool) int {
	var last *builders.Origin // records that a builder builds from one example share an Origin
	examples := map[exampleKey]bool{}
	for i := range g.Records {
		if _, ok := g.Records[i].Record.(*builders.Preference); pairs && !ok {
			continue
		}
		if o := g.Records[i].Origin; o != last {
			examples[exampleKey{o.Run, o.Example}], last = true, o
		}
	}
	return len(examples)
}

type exampleKey struct {
	run     int
	example string
}

// count adds the pair builder's counters for a group to the metrics of the group's collection run.
func (h *History) count(g *recordlog.Group) {
	if h.pairs.Name == "" {
		return
	}
	run := 0
	switch {
	case len(g.Records) > 0:
		run = g.Records[0].Origin.Run
	case len(g.Drops) > 0:
		run = g.Drops[0].Run
	case len(h.metrics) > 0:
		run = len(h.metrics) - 1
	}
	for len(h.metrics) <= run {
		id := h.builderRun(strconv.Itoa(len(h.metrics)))
		h.metrics = append(h.metrics, builderMetrics{RunID: id, Config: configOf(h.pairs.Config)})
	}
	h.metrics[run].add(g, h.pairs.Name)
}

func (h *History) builderRun(run string) string { return h.runID + "_run" + run }

func (h *History) stamp() string { return h.now().UTC().Format(time.RFC3339Nano) }

// WriteProgress writes the pair builder's metrics and, if a collection run yielded records, NAT's two progress files:
// one with a line for each such run, the other with the same objects as a list.
func (h *History) WriteProgress(folder runfolder.Folder) error {
	stamp := h.stamp()
	var lines, list []string
	for i := range h.runs {
		line := string(h.runs[i].line(h.runID, stamp))
		lines, list = append(lines, line+"\n"), append(list, "  "+line)
	}
	for _, m := range h.metrics {
		m.Timestamp = stamp
		b, err := json.Marshal(m)
		if err != nil {
			return err
		}
		if err := durable.WriteMember(folder.BuilderMetrics(m.RunID), append(b, '\n')); err != nil {
			return err
		}
	}
	if len(lines) == 0 {
		return durable.SyncDir(string(folder))
	}
	if err := durable.WriteFile(folder.Progress(), []byte(strings.Join(lines, ""))); err != nil {
		return err
	}
	return durable.WriteFile(folder.History(), []byte("[\n"+strings.Join(list, ",\n")+"\n]\n"))
}

// final is the content of NAT's final_metrics.json, which describes a job that has ended.
type final struct {
	RunID     string            `json:"run_id"`
	Timestamp string            `json:"timestamp"`
	Status    trainers.State    `json:"status"`
	Message   string            `json:"message"`
	Progress  *float64          `json:"progress"`
	Runs      int               `json:"num_collection_runs"`
	Groups    int64             `json:"total_trajectory_groups"`
	Summary   finalSummary      `json:"collection_summary"`
	Job       map[string]string `json:"job_metadata"`
}

type finalSummary struct {
	Trajectories int64    `json:"total_trajectories"`
	Pairs        int64    `json:"total_dpo_pairs"`
	AvgReward    *float64 `json:"avg_reward"` // null if the average isn't finite
}

// HasFinal reports whether final_metrics.json already describes this outcome.
func (h *History) HasFinal(folder runfolder.Folder, status trainers.JobStatus) bool {
	text, err := durable.ReadFile(folder.FinalMetrics(), maxFinal)
	var f final
	return err == nil && json.Unmarshal(text, &f) == nil && f.Status == status.State && f.Message == status.Message
}

// maxFinal is the maximum size of final_metrics.json.
const maxFinal = 1 << 20

// WriteFinal writes NAT's final_metrics.json for a job that has ended.
func (h *History) WriteFinal(folder runfolder.Folder, status trainers.JobStatus, ref *trainers.JobRef) error {
	f := final{
		RunID: h.runID, Timestamp: h.stamp(), Status: status.State, Message: status.Message, Progress: status.Progress,
		Runs: len(h.runs), Job: ref.Metadata,
	}
	f.Groups = h.groups
	if h.mode == NAT { // NAT also counts the examples of collection runs without pairs
		f.Groups = 0
		for _, m := range h.metrics {
			f.Groups += m.TotalExamples
		}
	}
	sum, n := 0.0, int64(0)
	for _, c := range h.runs {
		f.Summary.Pairs += c.pairs
		f.Summary.Trajectories += c.trajectories
		sum += c.sum
		n += c.rewards
	}
	if avg := sum / float64(n); !math.IsNaN(avg) && !math.IsInf(avg, 0) {
		f.Summary.AvgReward = &avg
	}
	return durable.WriteJSON(folder.FinalMetrics(), f)
}

// collectionRun is a collection run as described in data_collection_progress.jsonl and collection_history.json.
type collectionRun struct {
	run           int
	trajectories  int64 // number of records of any kind
	pairs         int64
	rewards       int64 // number of records with a reward, or with a demonstration's score
	sum, min, max float64
}

// addKnown counts a reward if there is one.
func (c *collectionRun) addKnown(reward *float64) {
	if reward != nil {
		c.add(*reward)
	}
}

// add counts a reward. As in Python, min and max are NaN only if the first reward is NaN.
func (c *collectionRun) add(reward float64) {
	if c.rewards == 0 {
		c.min, c.max = reward, reward
	}
	if reward < c.min {
		c.min = reward
	}
	if reward > c.max {
		c.max = reward
	}
	c.rewards++
	c.sum += reward
}

// line returns the run as a JSON object.
func (c *collectionRun) line(runID, stamp string) []byte {
	b := strconv.AppendInt([]byte(`{"run_number": `), int64(c.run), 10)
	b = natjson.AppendASCII(append(b, `, "timestamp": `...), stamp)
	b = natjson.AppendASCII(append(b, `, "run_id": `...), runID)
	b = strconv.AppendInt(append(b, `, "num_trajectories": `...), c.trajectories, 10)
	b = strconv.AppendInt(append(b, `, "num_dpo_pairs": `...), c.pairs, 10)
	if c.rewards == 0 {
		return append(b, `, "avg_reward": null, "min_reward": null, "max_reward": null}`...)
	}
	b = pyvalue.AppendJSONFloat(append(b, `, "avg_reward": `...), c.sum/float64(c.rewards))
	b = pyvalue.AppendJSONFloat(append(b, `, "min_reward": `...), c.min)
	b = pyvalue.AppendJSONFloat(append(b, `, "max_reward": `...), c.max)
	return append(b, '}')
}

// builderMetrics is the object that NAT's builder logs for a collection run, in dpo_trajectory_builder_<run id>.jsonl.
// The object's run_id is the run's id followed by a suffix, <run id>_run<k>.
type builderMetrics struct {
	Timestamp string        `json:"timestamp,omitempty"`
	RunID     string        `json:"run_id"`
	Config    *pairsSetting `json:"config,omitempty"`

	TotalExamples          int64 `json:"total_examples"`
	TotalTurns             int64 `json:"total_turns"`
	TotalCandidates        int64 `json:"total_candidates"`
	TotalPairs             int64 `json:"total_pairs"`
	TotalTrajectories      int64 `json:"total_trajectories"`
	SkippedSingleCandidate int64 `json:"skipped_single_candidate"`
	SkippedScoreDiff       int64 `json:"skipped_score_diff"`
}

// pairsSetting contains the settings that NAT's builder logs with its metrics.
type pairsSetting struct {
	StepName        string  `json:"ttc_step_name"`
	ExhaustivePairs bool    `json:"exhaustive_pairs"`
	MinScoreDiff    float64 `json:"min_score_diff"`
	MaxPairsPerTurn *int    `json:"max_pairs_per_turn"`
}

func configOf(c *dpo.Config) *pairsSetting {
	if c == nil {
		return nil
	}
	return &pairsSetting{
		StepName: c.StepName, ExhaustivePairs: c.ExhaustivePairs, MinScoreDiff: c.MinScoreDiff,
		MaxPairsPerTurn: c.MaxPairsPerTurn,
	}
}

// add counts a group. If builder isn't "", only that builder's counters and records are counted.
func (m *builderMetrics) add(g *recordlog.Group, builder string) {
	counters := map[string]*int64{
		"total_examples": &m.TotalExamples, "total_turns": &m.TotalTurns, "total_candidates": &m.TotalCandidates,
		"total_pairs": &m.TotalPairs, "skipped_single_candidate": &m.SkippedSingleCandidate,
		"skipped_score_diff": &m.SkippedScoreDiff,
	}
	for _, c := range g.Counts {
		if to := counters[c.Name]; to != nil && (builder == "" || c.Builder == builder) {
			*to += c.N
		}
	}
	for i := range g.Records {
		if builder == "" || g.Records[i].Origin.Builder == builder {
			m.TotalTrajectories++
		}
	}
}
