package dpo

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"strings"
	"sync"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/internal/emit"
	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/pairs"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// Info describes the builder.
func Info() builders.Info {
	return builders.Info{
		Name: "dpo_traj_builder", Version: "1.0.0", Stability: "stable",
		Doc:  "preference pairs from the scored candidates per turn",
		Unit: builders.UnitExample, Kinds: []builders.Kind{builders.KindPreference}, Config: new(Config),
	}
}

// Builder builds preference pairs. Build may be called concurrently.
type Builder struct {
	cfg     Config
	pairs   pairs.Config
	scratch sync.Pool // holds *scratch values
}

// New returns a builder, or an error that explains why its configuration is invalid.
func New(cfg Config) (*Builder, error) {
	if err := schema.Validate(&cfg); err != nil {
		return nil, err
	}
	p := cfg.chooser()
	b := &Builder{cfg: cfg, pairs: p}
	b.scratch.New = func() any { return &scratch{chooser: pairs.NewChooser(p), byTurn: map[string]int{}} }
	return b, nil
}

// scratch is memory reused from one example to the next.
type scratch struct {
	chooser *pairs.Chooser
	turns   []turn
	byTurn  map[string]int
	scores  []float64
	keys    []uint64
	record  builders.Preference
}

type turn struct {
	id         string
	candidates []int
}

// Build pairs the candidates for each turn of each example.
func (b *Builder) Build(ctx context.Context, g *ttc.Group, to builders.Output) error {
	s := b.scratch.Get().(*scratch)
	defer b.scratch.Put(s)
	out := &emit.Output{To: to}
	for e := range g.Examples {
		if out.Over(ctx) {
			break
		}
		b.example(s, g, e, out)
	}
	return out.Err
}

func (b *Builder) example(s *scratch, g *ttc.Group, e int, out *emit.Output) {
	ex := g.Examples[e]
	if len(ex.Candidates) == 0 && len(ex.Graph.Nodes) > 0 {
		out.Drop(builders.NewDrop(ex, "example", pairs.TakesCandidates))
		return
	}
	if others := s.group(ex, b.cfg.StepName); others > 0 {
		d := builders.NewDrop(ex, "candidate", pairs.OtherName)
		d.Count, d.Detail = int64(others),
			fmt.Sprintf("%d candidates are from steps other than %q", others, b.cfg.StepName)
		out.Drop(d)
	}
	t := tally{turns: int64(len(s.turns))}
	for i := range s.turns {
		if out.Err != nil {
			return
		}
		b.turn(s, g, e, &s.turns[i], out, &t)
	}
	if t.pairs > 0 {
		t.examples = 1
	}
	t.report(out)
}

// group sorts an example's candidates into turns, in order of first appearance, and counts candidates from other steps.
func (s *scratch) group(ex *ttc.Example, step string) (others int) {
	s.turns = s.turns[:0]
	clear(s.byTurn)
	last := -1
	for i := range ex.Candidates {
		c := &ex.Candidates[i]
		if c.Step != step {
			others++
			continue
		}
		if last < 0 || s.turns[last].id != c.Turn {
			at, ok := s.byTurn[c.Turn]
			if !ok {
				at = len(s.turns)
				s.byTurn[c.Turn] = at
				if at < cap(s.turns) {
					s.turns = s.turns[:at+1]
					s.turns[at].id, s.turns[at].candidates = c.Turn, s.turns[at].candidates[:0]
				} else {
					s.turns = append(s.turns, turn{id: c.Turn})
				}
			}
			last = at
		}
		s.turns[last].candidates = append(s.turns[last].candidates, i)
	}
	return others
}

// tally holds one example's contribution to the builder's counters.
type tally struct {
	examples, turns, candidates, pairs, single, contained int64
	left                                                  pairs.Left
}

func (t *tally) report(out *emit.Output) {
	out.Count("total_examples", t.examples)
	out.Count("total_turns", t.turns)
	out.Count("total_candidates", t.candidates)
	out.Count("total_pairs", t.pairs)
	out.Count("skipped_single_candidate", t.single)
	out.Count("skipped_score_diff", t.left.BelowMargin)
	out.Count("pairs_tied", t.left.Tie)
	out.Count("pairs_below_min_chosen_score", t.left.BelowMinChosen)
	out.Count("pairs_not_chosen", t.left.NotChosen)
	out.Count("output_found_in_prompt", t.contained)
}

func (b *Builder) turn(s *scratch, g *ttc.Group, e int, t *turn, out *emit.Output, sum *tally) {
	ex := g.Examples[e]
	sum.candidates += int64(len(t.candidates))
	if len(t.candidates) < 2 && b.cfg.RequireMultiple {
		sum.single++
	}
	f := pairs.Filter(ex.Candidates, t.candidates,
		pairs.FilterConfig{KeepAnswerInPrompt: b.cfg.AnswerInPrompt == "keep"})
	sum.contained += int64(f.Contained)
	for _, o := range f.Out {
		out.Drop(candidateDrop(ex, o.Candidate, o.Reason))
	}
	var left pairs.Left
	for _, group := range f.Groups {
		if out.Err != nil {
			return
		}
		if err := b.pairs.Check(len(group)); err != nil {
			out.Fail(fmt.Errorf("turn %q: %w", t.id, err))
			return
		}
		r := s.choose(ex, group, b.pairs.Strategy == pairs.RandomK)
		for k, why := range r.Why {
			if why != "" {
				out.Drop(candidateDrop(ex, group[k], why))
			}
		}
		left = added(left, r.Left)
		sum.pairs += int64(len(r.Pairs))
		b.records(&s.record, g, e, t.id, group, r.Pairs, out)
	}
	sum.left = added(sum.left, left)
	note(ex, t.id, left, out)
}

func added(a, b pairs.Left) pairs.Left {
	return pairs.Left{
		Tie: a.Tie + b.Tie, BelowMargin: a.BelowMargin + b.BelowMargin,
		BelowMinChosen: a.BelowMinChosen + b.BelowMinChosen, NotChosen: a.NotChosen + b.NotChosen,
	}
}

// choose applies the strategy to a group of candidates.
func (s *scratch) choose(ex *ttc.Example, group []int, withKeys bool) pairs.Result {
	s.scores, s.keys = s.scores[:0], s.keys[:0]
	for _, i := range group {
		c := &ex.Candidates[i]
		s.scores = append(s.scores, c.Score)
		if withKeys {
			h := fnv.New64a()
			_, _ = io.WriteString(h, c.Output) // writing to a hash never fails
			s.keys = append(s.keys, h.Sum64())
		}
	}
	return s.chooser.Choose(s.scores, s.keys)
}

// records emits the pairs of a group. It reuses rec for all of them, as Output allows, because allocating a record
// for each of hundreds of thousands of pairs would cause frequent garbage collections.
func (b *Builder) records(
	rec *builders.Preference, g *ttc.Group, e int, turnID string, group []int, chosen []pairs.Pair, out *emit.Output,
) {
	ex := g.Examples[e]
	for _, p := range chosen {
		if out.Err != nil {
			return
		}
		wi, li := group[p.Chosen], group[p.Rejected]
		win, lose := &ex.Candidates[wi], &ex.Candidates[li]
		*rec = builders.Preference{} // clear and fill field by field, because a record is large
		rec.Example, rec.Turn = e, turnID
		rec.Prompt.Ref = builders.Ref{Part: builders.CandidatePrompt, Example: e, Candidate: wi}
		rec.Chosen.Ref = builders.Ref{Part: builders.CandidateOutput, Example: e, Candidate: wi}
		rec.Rejected.Ref = builders.Ref{Part: builders.CandidateOutput, Example: e, Candidate: li}
		rec.Reward, rec.ScoreName = p.Margin, b.cfg.ScoreName
		rec.ChosenScore, rec.RejectedScore = win.Score, lose.Score
		rec.ChosenIndex, rec.RejectedIndex = win.Index, lose.Index
		rec.ChosenPolicy, rec.RejectedPolicy = ex.Policy, ex.Policy
		if !b.cfg.RewardFromDiff {
			rec.Reward = win.Score
		}
		rec.ScoreName = cmp.Or(rec.ScoreName, win.Step)
		if b.cfg.Metadata {
			rec.Metadata = b.metadata(ex, turnID, win, lose, p.Margin, len(group))
		}
		out.Record(rec)
	}
}

// metadata returns the metadata object that NAT attaches to a pair, with its keys in NAT's order.
func (b *Builder) metadata(ex *ttc.Example, turnID string, win, lose *ttc.Candidate, margin float64, n int) json.Raw {
	m := append([]byte(nil), `{"dpo_type": "preference_pair", "score_diff": `...)
	m = pyvalue.AppendFloat(m, margin)
	m = json.AppendString(append(m, `, "example_id": `...), ex.ID)
	m = json.AppendString(append(m, `, "turn_id": `...), turnID)
	m = pyvalue.AppendFloat(append(m, `, "chosen_score": `...), win.Score)
	m = pyvalue.AppendFloat(append(m, `, "rejected_score": `...), lose.Score)
	m = fmt.Appendf(m, `, "chosen_index": %d, "rejected_index": %d`, win.Index, lose.Index)
	if b.pairs.Strategy == pairs.BestVsWorst {
		return fmt.Appendf(m, `, "num_candidates": %d}`, n)
	}
	m = append(append(m, `, "chosen_raw_metadata": `...), emit.Object(win.Metadata)...)
	m = append(append(m, `, "rejected_raw_metadata": `...), emit.Object(lose.Metadata)...)
	return append(m, '}')
}

// note emits a single drop for all pairs of a turn that were not emitted, with the number of pairs for each reason.
// The candidates of these pairs may be in other pairs.
func note(ex *ttc.Example, turnID string, left pairs.Left, out *emit.Output) {
	total := left.Total()
	if total == 0 {
		return
	}
	var parts []string
	reason := pairs.NotChosen
	for _, c := range []struct {
		n      int64
		reason ledger.Reason
	}{
		{left.NotChosen, pairs.NotChosen},
		{left.BelowMinChosen, pairs.BelowMinChosen},
		{left.BelowMargin, pairs.BelowMargin},
		{left.Tie, pairs.Tie},
	} {
		if c.n > 0 {
			reason = c.reason
			parts = append(parts, fmt.Sprintf("%s %d", c.reason, c.n))
		}
	}
	d := builders.NewDrop(ex, "pair", reason)
	d.Turn = turnID
	d.Count, d.Detail = total, strings.Join(parts, ", ")
	out.Drop(d)
}

func candidateDrop(ex *ttc.Example, i int, reason ledger.Reason) ledger.Drop {
	c := &ex.Candidates[i]
	d := builders.NewDrop(ex, "candidate", reason)
	d.Turn, d.Index = c.Turn, int(c.Index)
	d.Offset = c.Offset
	switch reason {
	case pairs.FailedScorer:
		d.Detail = emit.Brief(c.ScoreError, 80)
	case ledger.NonFiniteScore, pairs.Tie, pairs.BelowMargin, pairs.BelowMinChosen:
		d.Detail = "score " + string(pyvalue.AppendFloat(nil, c.Score))
	case pairs.ReprPrompt:
		d.Detail = emit.Brief(c.Prompt.Text, 80)
	}
	return d
}
