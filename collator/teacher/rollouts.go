package teacher

import (
	"context"
	"fmt"
	"math"

	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/internal/tensors"
)

// Taught counts the rl rows sent to a teacher, and their groups, by outcome.
type Taught struct {
	Asked
	Teachers []string `json:"teachers,omitempty"` // names of the teachers, in order, if there are several
	Groups   int      `json:"groups"`             // tasks with at least one row in a request
	// number of tasks with a row that lacks teacher columns; all rows of such a task are pushed without them
	Without int `json:"groups_without,omitempty"`
	Excused int `json:"excused,omitempty"` // rows whose group disables the teacher
}

// rollouts adds teacher columns to rl batches.
type rollouts struct {
	teacher asker
	rep     Taught
	groups  map[int64]bool // the groups counted so far, with true for a group in which a row lacks teacher columns
}

func newRollouts(t asker) *rollouts {
	return &rollouts{teacher: t, rep: Taught{Teachers: t.names()}, groups: map[int64]bool{}}
}

// grid is the part of an rl batch's rows that a teacher needs.
type grid struct {
	rows    [][]int32 // token ids of each row, without padding
	width   int
	trained []int64 // [R,T]; nil if the batch lacks a response mask
}

// batch adds the teacher's log-probs at every position of an rl batch's rows, in columns [R,T,K]. They hold the
// distribution of token t given the preceding tokens, aligned like all columns of the channel. The columns are empty
// at t = 0 and at padding. If a row could not be scored, batch counts it and leaves its entries missing. A group's
// own setting takes precedence over the configuration.
func (w *rollouts) batch(ctx context.Context, l *batch.Line, all []tensors.Tensor) ([]tensors.Tensor, error) {
	g, err := rolloutRows(all)
	if err != nil {
		return nil, err
	}
	if len(l.RowInfo) > 0 && len(l.RowInfo) != len(g.rows) {
		return nil, fmt.Errorf("mismatched rows: %d in the file, %d in row_info", len(g.rows), len(l.RowInfo))
	}
	ask, of := w.wantedRows(l, g.rows)
	results, err := w.teacher.ScoreAll(ctx, ask)
	if err != nil {
		return nil, err
	}
	k := 1 // if no row is scored, the columns contain only missing entries
	for i := range ask {
		if results[i].Err == nil { // failed rows have no entries
			k = max(k, ask[i].entries(w.teacher.topK()))
		}
	}
	ids, logps := noEntries(len(g.rows) * g.width * k)
	w.rep.Batches++
	for i, res := range results {
		w.rep.Rows++
		scored := scoredOf(l, of[i])
		w.enter(scored.Group, res.Err != nil)
		if res.Err != nil {
			w.rep.fail(res.Reason, res.Err)
			scored.Teacher = &batch.Taught{Failed: string(res.Reason)}
			continue
		}
		scored.Teacher = w.summarise(&ask[i], &res, g, of[i])
		for p, top := range res.Scores.Top {
			at := (of[i]*g.width + p + 1) * k
			for j := range min(k, len(top)) {
				ids[at+j], logps[at+j] = int64(top[j].ID), top[j].LogProb
			}
		}
	}
	return replace(all, tensors.Of(batch.TeacherIDs, ids, len(g.rows), g.width, k),
		tensors.Of(batch.TeacherLogProbs, logps, len(g.rows), g.width, k)), nil
}

// wantedRows returns the sequences to send to the teacher, and the row index of each.
func (w *rollouts) wantedRows(l *batch.Line, rows [][]int32) (ask []Sequence, of []int) {
	for i, ids := range rows {
		scored := scoredOf(l, i)
		scored.Teacher = nil // discard an earlier run's answers
		if asked := scored.TeacherTopK; asked != nil && *asked == 0 && w.teacher.clamps() {
			k := 1
			scored.TeacherTopK = &k
		}
		k, excused := wanted(scored)
		switch {
		case excused:
			w.rep.Excused++
		case len(ids) > 1:
			ask, of = append(ask, Sequence{IDs: ids, K: k}), append(of, i)
		}
	}
	return ask, of
}

// scoredOf returns the entry of the index for a row of an rl batch. If the index lacks one, it returns a new,
// empty entry, which isn't added.
func scoredOf(l *batch.Line, row int) *batch.Scored {
	if row < len(l.RowInfo) && l.RowInfo[row].RL != nil {
		return l.RowInfo[row].RL
	}
	return &batch.Scored{}
}

// wanted returns the Sequence.K that a row's group requests (group_overrides.teacher_top_k), or 0 if the group doesn't
// set one. excused reports whether the group's setting is negative.
func wanted(s *batch.Scored) (k int, excused bool) {
	switch {
	case s.TeacherTopK == nil:
		return 0, false
	case *s.TeacherTopK < 0:
		return 0, true
	case *s.TeacherTopK == 0:
		return tokenOnly, false
	}
	return *s.TeacherTopK, false
}

// enter counts a row's group once in Groups, and once in Without if one of its rows failed.
func (w *rollouts) enter(group int64, failed bool) {
	without, seen := w.groups[group]
	if !seen {
		w.rep.Groups++
	}
	if failed && !without {
		w.rep.Without++
	}
	w.groups[group] = without || failed
}

// summarise returns a summary of a row's answers for the index.
func (w *rollouts) summarise(s *Sequence, r *Result, g *grid, row int) *batch.Taught {
	out := &batch.Taught{TopK: s.entries(w.teacher.topK()), LogProb: g.mean(r.Scores, row)}
	for i, name := range w.teacher.names() {
		if lp := g.mean(r.Each[i], row); lp != nil {
			if out.By == nil {
				out.By = map[string]float64{}
			}
			out.By[name] = *lp
		}
	}
	return out
}

// mean returns the mean log-prob of a row's trained tokens, or nil if there are none or the server doesn't report all
// of their log-probs.
func (g *grid) mean(s *Scores, row int) *float64 {
	sum, n := 0.0, 0
	for p, lp := range s.Token {
		if at := row*g.width + p + 1; at < len(g.trained) && g.trained[at] != 0 {
			sum, n = sum+float64(lp), n+1
		}
	}
	if n == 0 || math.IsNaN(sum) {
		return nil
	}
	sum /= float64(n)
	return &sum
}

// rolloutRows returns the rows of an rl batch.
func rolloutRows(all []tensors.Tensor) (*grid, error) {
	r := newTensorReader(all)
	g := &grid{rows: r.rows("")}
	ids, shape := r.column("input_ids", 2)
	if _, ok := r.byName["response_mask"]; ok {
		g.trained, _ = r.column("response_mask", 2)
	}
	if r.err != nil {
		return nil, r.err
	}
	if g.width = shape[1]; g.trained != nil && len(g.trained) != len(ids) {
		return nil, fmt.Errorf("mismatched sizes: input_ids has %d items, response_mask %d", len(ids), len(g.trained))
	}
	return g, nil
}
