package sft

import (
	"context"
	"fmt"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/internal/emit"
	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/pairs"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// Info describes the builder.
func Info() builders.Info {
	return builders.Info{
		Name: "sft_traj_builder", Version: "1.0.0", Stability: "stable",
		Doc:  "demonstrations from the best of scored rollouts or candidates",
		Unit: builders.UnitTask, Kinds: []builders.Kind{builders.KindDemonstration}, Config: new(Config),
	}
}

// Builder builds demonstrations. Build may be called concurrently.
type Builder struct{ cfg Config }

// New returns a builder, or an error that explains why its configuration is invalid.
func New(cfg Config) (*Builder, error) {
	b := &Builder{cfg}
	return b, schema.Validate(&b.cfg)
}

// Build chooses among the rollouts of the group, and among the candidates for each turn of its examples.
func (b *Builder) Build(ctx context.Context, g *ttc.Group, to builders.Output) error {
	out := &emit.Output{To: to}
	var rollouts []choice
	for e, ex := range g.Examples {
		if out.Over(ctx) {
			return out.Err
		}
		if b.cfg.From == "candidates" || b.cfg.From == "auto" && len(ex.Candidates) > 0 {
			b.candidates(g, e, out)
			continue
		}
		c := choice{example: e, candidate: -1}
		if !emit.HasTurn(&ex.Graph) {
			c.why = ledger.NothingTrained
		}
		if ex.Reward != nil {
			c.score, c.scored = *ex.Reward, true
		}
		rollouts = append(rollouts, c)
	}
	b.choose(g, rollouts, scaleOf(g).Rewards, out)
	return out.Err
}

// scaleOf returns the score ranges of the run, or of the group if the run's are unknown.
func scaleOf(g *ttc.Group) *ttc.Scales {
	if g.Scales != nil {
		return g.Scales
	}
	own := new(ttc.Scales)
	for _, ex := range g.Examples {
		own.Add(ex)
	}
	return own
}

// choice is a rollout or candidate to choose from.
type choice struct {
	example, candidate int // candidate is -1 for a rollout
	score              float64
	scored             bool
	why                ledger.Reason // reason why the choice isn't taken; empty if it is taken
}

// candidates chooses among the candidates for each turn of an example.
func (b *Builder) candidates(g *ttc.Group, e int, out *emit.Output) {
	ex := g.Examples[e]
	var order []string
	turns := map[string][]choice{}
	others := int64(0)
	unusable := emit.Unusable(ex, b.cfg.StepName, b.cfg.Leaks)
	for i := range ex.Candidates {
		c := &ex.Candidates[i]
		if b.cfg.StepName != "" && c.Step != b.cfg.StepName {
			others++
			continue
		}
		if _, ok := turns[c.Turn]; !ok {
			order = append(order, c.Turn)
		}
		turns[c.Turn] = append(turns[c.Turn],
			choice{example: e, candidate: i, score: c.Score, scored: true, why: unusable[i]})
	}
	if others > 0 {
		d := builders.NewDrop(ex, "candidate", pairs.OtherName)
		d.Count, d.Detail = others, fmt.Sprintf("%d candidates are from steps other than %q", others, b.cfg.StepName)
		out.Drop(d)
	}
	scales := scaleOf(g)
	for _, t := range order {
		step := ex.Candidates[turns[t][0].candidate].Step
		b.choose(g, turns[t], scales.Steps[step], out)
	}
}

// choose decides among the rollouts of a task or the candidates for a turn, and emits records and drops in their order.
// scale is the range of their scores.
func (b *Builder) choose(g *ttc.Group, cs []choice, scale ttc.Scale, out *emit.Output) {
	b.judge(cs, scale)
	b.pick(g, cs)
	only := scale.Graded && scale.Low == scale.High && b.cfg.MinScore == nil && b.cfg.Select != "all"
	for _, c := range cs {
		if out.Err != nil {
			return
		}
		if c.why != "" {
			out.Drop(dropOf(g.Examples[c.example], c))
			continue
		}
		if only && c.scored {
			out.Count(countedOnly, 1)
		}
		b.emit(g, c, out)
	}
}

// countedOnly is the name of the counter for examples that are used although all scores in the input are equal, so it
// is unknown whether the examples are good.
const countedOnly = "only_score"

// Remarks returns remarks for the user about a run, given the builder's counters.
func Remarks(counters map[string]int64) []string {
	return emit.Remark(counters[countedOnly], "answer", "all scores are the same, which doesn't show whether they are "+
		"good or bad: imitated %s; set min_score to the lowest score to imitate, or select: all if the score doesn't "+
		"matter")
}

// judge sets why for every choice that can't be taken.
func (b *Builder) judge(cs []choice, scale ttc.Scale) {
	scored := slices.ContainsFunc(cs, func(c choice) bool { return c.scored })
	worst, fails := scale.Worst(b.cfg.lower())
	fails = fails && b.cfg.MinScore == nil && b.cfg.Select != "all"
	for i := range cs {
		c := &cs[i]
		switch {
		case c.why != "":
		case !c.scored:
			if b.cfg.MinScore != nil || b.cfg.Select != "all" && (b.cfg.Select != "" || scored) {
				c.why = ledger.NoReward
			}
		case !emit.Finite(c.score):
			c.why = ledger.NonFiniteScore
		case fails && c.score == worst:
			c.why = FailedTask
		case b.cfg.MinScore != nil && c.score != *b.cfg.MinScore && !b.cfg.better(c.score, *b.cfg.MinScore):
			c.why = BelowMinScore
		}
	}
}

// pick takes the first n distinct choices with the best score, and sets why for the others that could have been
// taken.
func (b *Builder) pick(g *ttc.Group, cs []choice) {
	if !b.cfg.best() {
		return
	}
	best := -1
	for i := range cs {
		if cs[i].why == "" && cs[i].scored && (best < 0 || b.cfg.better(cs[i].score, cs[best].score)) {
			best = i
		}
	}
	if best < 0 { // none of the available choices has a score, so take all of them
		return
	}
	taken := map[xxh3.Uint128]bool{}
	for i := range cs {
		c := &cs[i]
		if c.why != "" {
			continue
		}
		if c.score != cs[best].score {
			c.why = NotBest
			continue
		}
		switch content := contentOf(g, c); {
		case taken[content]:
			c.why = EqualToTaken
		case len(taken) == b.cfg.N:
			c.why = EnoughTaken
		default:
			taken[content] = true
		}
	}
}

func (b *Builder) emit(g *ttc.Group, c choice, out *emit.Output) {
	var score *float64
	if c.scored {
		score = &c.score
	}
	ex := g.Examples[c.example]
	if c.candidate >= 0 {
		cand := &ex.Candidates[c.candidate]
		out.Record(&builders.Demonstration{
			Head: builders.Head{Example: c.example, Turn: cand.Turn}, Messages: emit.Answered(cand),
			Train: builders.TrainLast, Weight: 1, Score: score, MaskReasoning: !b.cfg.TrainReasoning,
		})
		return
	}
	seen := &seen{trained: make([]bool, len(ex.Graph.Nodes)), failed: make([]bool, len(ex.Graph.Nodes))}
	emitted := false
	leaves := ex.Graph.Leaves()
	for _, leaf := range leaves {
		made := b.branch(g, c, ex.Graph.Branch(leaf), len(leaves) > 1, seen, score, out)
		emitted = emitted || made
	}
	if !emitted {
		c.why = OnlyFailed
		out.Drop(dropOf(ex, c))
	}
}

// seen marks the messages that were trained on, or had failed calls, in earlier branches of a rollout.
type seen struct{ trained, failed []bool }

// branch emits the demonstration for one branch, up to its last trained turn. Turns that several branches share are
// trained on only in the first one.
func (b *Builder) branch(
	g *ttc.Group, c choice, walk []int, several bool, seen *seen, score *float64, out *emit.Output,
) (made bool) {
	graph := &g.Examples[c.example].Graph
	flags := b.flags(graph, walk, seen.trained)
	var failing map[int]failure
	if b.cfg.FailedCalls != trainFailed {
		failing = failures(graph, walk)
	}
	remove := failing != nil && b.cfg.FailedCalls == removeFailed && !recorded(graph, walk)
	for i, f := range failing {
		flags[i] = flags[i] && remove && len(f.calls) < len(graph.Nodes[walk[i]].Message.ToolCalls)
	}
	last := len(flags) - 1
	for last >= 0 && !flags[last] {
		last--
	}
	if last < 0 { // no turns are selected, or all were trained on in earlier branches or had failed calls
		return false
	}
	out.Count("trailing_messages", int64(len(walk)-1-last))
	edits := report(g.Examples[c.example], walk[:last+1], failing, seen.failed, remove, out)
	d := &builders.Demonstration{
		Head:     builders.Head{Example: c.example, Edits: edits},
		Messages: emit.Span(c.example, walk[last], 0),
		Train:    b.cfg.train(), Weight: 1, Score: score, MaskReasoning: !b.cfg.TrainReasoning,
	}
	switch {
	case edits != 0:
		messages, trained := withoutFailed(graph, walk[:last+1], flags, failing)
		d.Messages = emit.Inline(messages...)
		d.Train, d.Trained = builders.TrainFlagged, trained
	case failing != nil || several:
		d.Train, d.Trained = builders.TrainFlagged, flags[:last+1]
	}
	out.Record(d)
	return true
}

// flags marks the turns of a branch that the loss policy selects, except those selected in an earlier branch. It adds
// the marked turns to seen.
func (b *Builder) flags(g *ttc.Graph, nodes []int, seen []bool) []bool {
	flags := make([]bool, len(nodes))
	last := -1
	for i, n := range nodes {
		node := &g.Nodes[n]
		if !emit.IsTurn(node) {
			continue
		}
		last = i
		flags[i] = b.cfg.Train == "all" || b.cfg.Train == "calls" && len(node.Message.ToolCalls) > 0
	}
	if b.cfg.Train == "last" && last >= 0 {
		flags[last] = true
	}
	for i, n := range nodes {
		flags[i] = flags[i] && !seen[n]
		seen[n] = seen[n] || flags[i]
	}
	return flags
}

func dropOf(ex *ttc.Example, c choice) ledger.Drop {
	if c.candidate < 0 {
		d := builders.NewDrop(ex, "rollout", c.why)
		if c.scored {
			d.Detail = fmt.Sprintf("reward %v", c.score)
		}
		return d
	}
	cand := &ex.Candidates[c.candidate]
	d := builders.NewDrop(ex, "candidate", c.why)
	d.Turn, d.Index, d.Offset = cand.Turn, int(cand.Index), cand.Offset
	d.Detail = fmt.Sprintf("score %v", c.score)
	return d
}
