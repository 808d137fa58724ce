package finetune

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/curate"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/dataset"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// leaveCollected ends a run of which a collection run failed as NAT does: what the ones before gave stays to be looked at.
func (r *run) leaveCollected(failed error) error {
	dir := r.plan.folder.Format(dataset.Trajectories)
	err := writeTrajectories(dir, r.plan.folder.Records(), r.plan.RunID, nil)
	if err == nil {
		err = r.writeProgress()
	}
	if err != nil {
		r.warn("can't write what was collected before the failure: %v", err)
	}
	return failed
}

// writeTrajectories writes trajectories.json, trajectories_run1.json, trajectories_run2.json, ... - a file for each collection
// run that didn't fail, in order; run_id in them says which it was - and, where anything is kept, submitted.json. The log of
// a compat run has one group a collection run. Without decisions nothing was submitted.
func writeTrajectories(dir, log, runID string, d *curate.Decisions) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	r, err := recordlog.NewReader(log)
	if err != nil {
		return err
	}
	defer r.Close()
	var submitted *collection
	defer func() {
		if submitted != nil {
			submitted.file.Abort()
		}
	}()
	for n := 0; ; n++ {
		g, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		name := "trajectories.json"
		if n > 0 {
			name = "trajectories_run" + strconv.Itoa(n) + ".json"
		}
		all, err := newCollection(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		for i := range g.Records {
			if err := all.add(&g.Records[i]); err != nil {
				all.file.Abort()
				return err
			}
		}
		if err := all.commit(runID + "_run" + g.Key); err != nil {
			return err
		}
		for i := range g.Records {
			if d == nil || !d.At(g.First+uint64(i)).Kept() {
				continue
			}
			if submitted == nil {
				if submitted, err = newCollection(filepath.Join(dir, "submitted.json")); err != nil {
					return err
				}
			}
			if err := submitted.add(&g.Records[i]); err != nil {
				return err
			}
		}
		if submitted != nil {
			submitted.last = nil // a group never spans two runs
		}
	}
	if submitted == nil {
		return nil
	}
	return submitted.commit(runID)
}

// collection writes a TrajectoryCollection: {"trajectories": [[trajectory, ...] for each example], "run_id"}.
type collection struct {
	file    *durable.File
	buf     []byte
	last    *builders.Origin // of the trajectory before; nil: none, or none of this run
	example []byte           // the group's example_id, which two entries may share: NAT's is a text, as of 1 and "1"
	groups  int
}

func newCollection(path string) (*collection, error) {
	f, err := durable.Create(path)
	if err != nil {
		return nil, err
	}
	_, err = f.WriteString(`{"trajectories": [`)
	return &collection{file: f}, err
}

func (c *collection) add(r *builders.Resolved) error {
	p, ok := r.Record.(*builders.Preference)
	if !ok {
		return fmt.Errorf("a %s has no place in NAT's trajectories", r.Record.Kind())
	}
	b := c.buf[:0]
	switch {
	case c.continues(r.Origin, p.Metadata):
		b = append(b, ",\n  "...)
	case c.groups > 0:
		b = append(b, "],\n [\n  "...)
		c.groups++
	default:
		b = append(b, "\n [\n  "...)
		c.groups++
	}
	b = append(b, `{"episode": [{"prompt": `...)
	b = appendPrompt(b, r.Prompt)
	b = json.AppendASCII(append(b, `, "chosen_response": `...), r.Chosen.Text)
	b = json.AppendASCII(append(b, `, "rejected_response": `...), r.Rejected.Text)
	b = pyvalue.AppendJSONFloat(append(b, `}], "reward": `...), p.Reward)
	b = append(b, `, "shaped_rewards": null, "metadata": `...)
	if p.Metadata == nil {
		b = append(b, "null"...)
	}
	c.buf = append(append(b, p.Metadata...), '}')
	_, err := c.file.Write(c.buf)
	return err
}

// continues says whether a trajectory is of the same example as the one before.
func (c *collection) continues(at *builders.Origin, metadata []byte) bool {
	if at == c.last {
		return true
	}
	id, ok := json.Raw(metadata).Get("example_id")
	same := c.last != nil && ok && bytes.Equal(id, c.example)
	c.last, c.example = at, append(c.example[:0], id...)
	return same
}

func (c *collection) commit(runID string) error {
	tail := append([]byte(nil), "],\n \"run_id\": "...)
	if c.groups > 0 {
		tail = append([]byte("]\n"), tail...)
	}
	if _, err := c.file.Write(append(json.AppendASCII(tail, runID), "}\n"...)); err != nil {
		c.file.Abort()
		return err
	}
	return c.file.Commit()
}

func appendPrompt(b []byte, p builders.Passage) []byte {
	if p.IsText() {
		return json.AppendASCII(b, p.Text)
	}
	b = append(b, '[')
	for i := range p.Nodes {
		b = appendOpenAIMessage(b, i, &p.Nodes[i])
	}
	return append(b, ']')
}

func appendOpenAIMessage(b []byte, i int, n *ttc.Node) []byte {
	if i > 0 {
		b = append(b, ", "...)
	}
	b = json.AppendASCII(append(b, `{"role": `...), n.Message.Role)
	return append(json.AppendASCII(append(b, `, "content": `...), n.Message.Text), '}')
}

// collected is NAT's view of one collection run: the fields of data_collection_progress.jsonl and collection_history.json.
type collected struct {
	run           int
	pairs         int64
	sum, min, max float64
}

// add counts a reward as Python's sum, min and max do: in order, and with comparisons that NaN never wins.
func (c *collected) add(reward float64) {
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
func (c *collected) line(runID, stamp string) []byte {
	b := strconv.AppendInt([]byte(`{"run_number": `), int64(c.run), 10)
	if stamp != "" {
		b = json.AppendASCII(append(b, `, "timestamp": `...), stamp)
	}
	b = json.AppendASCII(append(b, `, "run_id": `...), runID)
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

func natMetrics(runID string, g *recordlog.Group) builderMetrics {
	n := map[string]int64{}
	for _, c := range g.Counts {
		n[c.Name] += c.N
	}
	return builderMetrics{
		RunID: runID + "_run" + g.Key, TotalExamples: n["total_examples"], TotalTurns: n["total_turns"],
		TotalCandidates: n["total_candidates"], TotalPairs: n["total_pairs"], TotalTrajectories: int64(len(g.Records)),
		SkippedSingleCandidate: n["skipped_single_candidate"], SkippedScoreDiff: n["skipped_score_diff"],
	}
}
