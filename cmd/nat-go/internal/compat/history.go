package compat

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers"
	"github.com/nat-go/nat-go/internal/durable"
	natjson "github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// History is a run as NAT reports it, which every run does: by collection runs, and what their pairs are worth. In
// NAT's own mode there are the builder's metrics, too.
type History struct {
	mode    Mode
	runID   string
	now     func() time.Time
	runs    []collectionRun // those that gave pairs
	metrics []builderMetrics
}

// NewHistory returns the history of a run that hasn't begun.
func NewHistory(m Mode, runID string, now func() time.Time) *History {
	return &History{mode: m, runID: runID, now: now}
}

// Add counts in the next group of the record log.
func (h *History) Add(g *recordlog.Group) {
	if h.mode == NAT && g.Key != "" {
		m := metricsOf(g)
		m.RunID = h.runID + "_run" + g.Key
		h.metrics = append(h.metrics, m)
	}
	for i := range g.Records {
		p, ok := g.Records[i].Record.(*builders.Preference)
		if !ok {
			continue
		}
		k := g.Records[i].Origin.Run
		if n := len(h.runs); n == 0 || h.runs[n-1].run != k {
			h.runs = append(h.runs, collectionRun{run: k})
		}
		h.runs[len(h.runs)-1].add(p.Reward)
	}
}

func (h *History) stamp() string { return h.now().UTC().Format(time.RFC3339Nano) }

// WriteProgress writes NAT's progress files: a line for each collection run that gave records, and the same as a list;
// and the metrics of NAT's builder.
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
		if err := durable.WriteFile(folder.BuilderMetrics(m.RunID), append(b, '\n')); err != nil {
			return err
		}
	}
	if len(lines) == 0 {
		return nil
	}
	if err := durable.WriteFile(folder.Progress(), []byte(strings.Join(lines, ""))); err != nil {
		return err
	}
	return durable.WriteFile(folder.History(), []byte("[\n"+strings.Join(list, ",\n")+"\n]\n"))
}

// final is NAT's final_metrics.json: how a job that was waited for has ended.
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
	AvgReward    *float64 `json:"avg_reward"` // null where it is not a number
}

// HasFinal reports whether final_metrics.json tells of this end already.
func (h *History) HasFinal(folder runfolder.Folder, status trainers.JobStatus) bool {
	text, err := durable.ReadFile(folder.FinalMetrics(), maxFinal)
	var f final
	return err == nil && json.Unmarshal(text, &f) == nil && f.Status == status.State && f.Message == status.Message
}

// maxFinal is how large final_metrics.json may be.
const maxFinal = 1 << 20

// WriteFinal writes NAT's final_metrics.json about a job that has ended.
func (h *History) WriteFinal(folder runfolder.Folder, status trainers.JobStatus, ref *trainers.JobRef) error {
	f := final{
		RunID: h.runID, Timestamp: h.stamp(), Status: status.State, Message: status.Message, Progress: status.Progress,
		Runs: len(h.runs), Job: ref.Metadata,
	}
	for _, m := range h.metrics {
		f.Groups += m.TotalExamples
	}
	sum := 0.0
	for _, c := range h.runs {
		f.Summary.Pairs += c.pairs
		sum += c.sum
	}
	f.Summary.Trajectories = f.Summary.Pairs
	if avg := sum / float64(f.Summary.Pairs); !math.IsNaN(avg) && !math.IsInf(avg, 0) {
		f.Summary.AvgReward = &avg
	}
	b, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	return durable.WriteFile(folder.FinalMetrics(), append(b, '\n'))
}

// collectionRun is NAT's view of one collection run: the fields of data_collection_progress.jsonl and
// collection_history.json.
type collectionRun struct {
	run           int
	pairs         int64
	sum, min, max float64
}

// add counts a reward as Python's sum, min and max do: in order, and with comparisons that NaN never wins.
func (c *collectionRun) add(reward float64) {
	if c.pairs == 0 {
		c.min, c.max = reward, reward
	}
	if reward < c.min {
		c.min = reward
	}
	if reward > c.max {
		c.max = reward
	}
	c.pairs++
	c.sum += reward
}

// line is the run's object; stamp is the time it is reported at, empty for none.
func (c *collectionRun) line(runID, stamp string) []byte {
	b := strconv.AppendInt([]byte(`{"run_number": `), int64(c.run), 10)
	if stamp != "" {
		b = natjson.AppendASCII(append(b, `, "timestamp": `...), stamp)
	}
	b = natjson.AppendASCII(append(b, `, "run_id": `...), runID)
	b = strconv.AppendInt(append(b, `, "num_trajectories": `...), c.pairs, 10)
	b = strconv.AppendInt(append(b, `, "num_dpo_pairs": `...), c.pairs, 10)
	b = pyvalue.AppendJSONFloat(append(b, `, "avg_reward": `...), c.sum/float64(c.pairs))
	b = pyvalue.AppendJSONFloat(append(b, `, "min_reward": `...), c.min)
	b = pyvalue.AppendJSONFloat(append(b, `, "max_reward": `...), c.max)
	return append(b, '}')
}

// builderMetrics is the metrics object of NAT's builder for one collection run, which it logs to
// dpo_trajectory_builder_<run id>.jsonl. The run id is the builder's own: <run id>_run<k>.
type builderMetrics struct {
	Timestamp              string `json:"timestamp,omitempty"`
	RunID                  string `json:"run_id"`
	TotalExamples          int64  `json:"total_examples"`
	TotalTurns             int64  `json:"total_turns"`
	TotalCandidates        int64  `json:"total_candidates"`
	TotalPairs             int64  `json:"total_pairs"`
	TotalTrajectories      int64  `json:"total_trajectories"`
	SkippedSingleCandidate int64  `json:"skipped_single_candidate"`
	SkippedScoreDiff       int64  `json:"skipped_score_diff"`
}

func metricsOf(g *recordlog.Group) builderMetrics {
	n := map[string]int64{}
	for _, c := range g.Counts {
		n[c.Name] += c.N
	}
	return builderMetrics{
		RunID: g.Key, TotalExamples: n["total_examples"], TotalTurns: n["total_turns"],
		TotalCandidates: n["total_candidates"], TotalPairs: n["total_pairs"], TotalTrajectories: int64(len(g.Records)),
		SkippedSingleCandidate: n["skipped_single_candidate"], SkippedScoreDiff: n["skipped_score_diff"],
	}
}
